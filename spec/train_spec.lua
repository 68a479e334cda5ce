-- tperf.train: one configuration, against complete candidates of the published formula sheet.
local tperf = require "tperf"
local csv = require "csv"
local published = require "published"
local near = published.near

local CANDIDATES = { -- section 10.3 of the sheet: strategy, model, system, fast domain, global batch, the rest
  A = { "tensor", "gpt3_1T", "H200", 4, 4096, { dp = 16, tp = 4, pp = 32, fast = { tp = 4, dp = 1, pp = 1 } } },
  B = { "tensor", "gpt3_1T", "H200", 8, 4096, { dp = 2, tp = 4, pp = 64, fast = { tp = 4, dp = 1, pp = 2 } } },
  C = { "summa", "gpt3_1T", "H200", 8, 512,
    { dp = 2, tp1 = 4, tp2 = 4, pp = 8, micro_batch = 2, panels = 16, fast = { tp1 = 4, tp2 = 1, dp = 1, pp = 2 } } },
  D = { "summa", "vit_era5", "A100", 4, 128,
    { dp = 8, tp1 = 4, tp2 = 8, pp = 2, panels = 16, fast = { tp1 = 4, tp2 = 1, dp = 1, pp = 1 } } },
  E = { "context", "vit_era5", "B200", 8, 256,
    { dp = 8, tp = 4, cp = 4, pp = 2, fast = { tp = 4, cp = 2, dp = 1, pp = 1 } } },
  F = { "context", "vit_era5", "B200", 8, 256,
    { dp = 4, tp = 4, cp = 16, pp = 4, micro_batch = 2, fast = { tp = 2, cp = 1, dp = 2, pp = 2 } } },
}

local QUANTITIES = { -- of the sheet -> of a configuration
  ["throughput B/t, 1/s"] = "throughput", ["t, s"] = "time", ["FLOP per GPU"] = "flops_per_gpu",
  t_comp = "breakdown.compute", t_mem = "breakdown.memory", t_TP = "breakdown.tensor_comm",
  t_DP = "breakdown.data_comm", t_PP = "breakdown.pipeline_comm", t_bub = "breakdown.bubble",
  ["Mem_W, bytes"] = "memory.weights", Mem_O = "memory.optimizer", Mem_A = "memory.activations", Mem = "memory.total",
}

local function get(record, path)
  for name in path:gmatch "[^.]+" do record = record[name] end
  return record
end

local function train(name, change)
  local strategy, model, system, domain, global_batch, sizes = table.unpack(CANDIDATES[name])
  local request = {
    strategy = strategy, model = "subramanian2024/" .. model, system = published.system(system, domain),
    rules = "subramanian2024", global_batch = global_batch,
  }
  for field, value in pairs(sizes) do request[field] = value end
  for field, value in pairs(change or {}) do
    if value == "none" then request[field] = nil else request[field] = value end
  end
  return tperf.train(request)
end

describe("tperf.train", function()
  for _, name in ipairs { "A", "B", "C", "D", "E", "F" } do
    it("gives the sheet's whole candidate " .. name, function()
      local c, count = train(name), 0
      for _, row in ipairs(csv.rows "spec/data/training/golden_candidates.csv") do
        near(row[name], get(c, QUANTITIES[row.quantity]), row.quantity, 1e-12)
        count = count + 1
      end
      assert.equal(13, count)
      near(c.memory.weights, c.memory.gradients, "gradients", 0)
    end)
  end

  it("gives MFU as the part of the peak that the model's FLOPs take, as the stack's log counts them", function()
    local function flops(c, part) return c[part] * c.time * c.gpus * 989.4e12 / (c.global_batch * 8192) end
    -- Megatron-LM (core 0.12), num_floating_point_operations: per layer and token 12 h^2 (1 + 8/64) for attention,
    -- 18 h f for the MLP, 6 s h for the pairs that the mask leaves; 6 h V for the output table. torchtitan: all
    -- pairs.
    local h, f, s, layers, vocab = 8192, 28672, 8192, 80, 128256
    local products = layers * (12 * h * h * (1 + 8 / 64) + 18 * h * f) + 6 * h * vocab
    local causal, all = products + layers * 6 * s * h, products + layers * 12 * s * h
    local question = { model = "llama-3.1-70b", system = "h100-sxm", global_batch = 64, tp = 8, pp = 4 }
    for software, pairs_of in pairs { none = causal, typical = causal, ["megatron-core-simumax-1.2"] = causal,
      ["torchtitan-2024"] = all, ["maxtext-2024"] = all } do
      question.software = software
      local c = tperf.train(question)
      near(pairs_of, flops(c, "mfu"), software, 3e-5) -- norms, which these formulas leave out
      near(c.mfu * 989.4e12, c.model_flops_rate, software .. ", a second", 1e-12)
      assert.equal(pairs_of == all and "all" or "causal", c.counted_pairs)
      -- PaLM: 6 N and all pairs (arXiv 2204.02311, appendix B).
      near(6 * 70553706496 + layers * 12 * s * h, flops(c, "mfu_all_pairs"), software .. ", PaLM", 1e-12)
    end
    question.model, question.software = tperf.model "llama-3.1-70b":with { causal = false }, nil
    near(all, flops(tperf.train(question), "mfu"), "an encoder", 3e-5)
    question.model, question.rules = "subramanian2024/gpt3", "subramanian2024"
    local maskless = tperf.train(question)
    assert.equal(maskless.mfu_all_pairs, maskless.mfu) -- the published model has no mask
  end)

  it("counts in MFU the multi-token prediction whose time it counts", function()
    -- Of DeepSeek-V3's module (arXiv 2412.19437, section 2.2): a layer of experts, a projection 2 h x h, and a product
    -- with the output table.
    local h, s = 7168, 4096
    local attention = h * 1536 + 1536 * 128 * 192 + h * 576 + 512 * 128 * 256 + 128 * 128 * h
    local weights = attention + (8 + 1) * 3 * h * 2048 + h * 256 + 2 * h * h + h * 129280
    local pairs_of = 2 * 128 * (192 + 128) * s / 2
    local with = tperf.train { model = "deepseek-v3", system = "h100-sxm", seq = s, dp = 256, ep = 64, zero = 3,
      global_batch = 256, micro_batch = 1 }
    local bare = tperf.train { model = tperf.model "deepseek-v3":with { mtp = 0 }, system = "h100-sxm", seq = s,
      dp = 256, ep = 64, zero = 3, global_batch = 256, micro_batch = 1 }
    local function per_token(c) return c.model_flops_rate * c.time / s end
    near(3 * (2 * weights + pairs_of), per_token(with) - per_token(bare), "a module", 1e-3)
    assert.equal("causal", with.counted_pairs)
  end)

  it("has the ViT of the published model attend to all its patches", function()
    local question = {
      model = "subramanian2024/vit_era5", system = "subramanian2024/H200", global_batch = 4096, tp = 8, cp = 4, dp = 16,
      strategy = "context",
    }
    local usual = tperf.train(question).time
    local function time(causal)
      question.model = tperf.model "subramanian2024/vit_era5":with { causal = causal }
      return tperf.train(question).time
    end
    assert.equal(time(false), usual)
    assert.is_true(time(true) < 0.85 * usual)
  end)

  it("adds up: the breakdown to the time, the memory's parts to the total, the layers to the compute", function()
    for name in pairs(CANDIDATES) do
      -- F: Q12; and the published layer, since only then there is no embedding and no head
      local equal = { base = "default", shards_divide_sequence = false, layers_from_description = false }
      for _, rules in ipairs { equal, "subramanian2024" } do
        local c = train(name, { rules = rules })
        local time, compute = 0, 0
        for _, part in pairs(c.breakdown) do time = time + part end
        near(c.time, time, name .. " time", 1e-12)
        local m = c.memory
        local parts = m.weights + m.gradients + m.optimizer + m.activations + m.passing + m.buffers + m.runtime
        near(m.total, parts, name .. " memory", 1e-12)
        for _, op in ipairs(c.layers) do
          compute = compute + op.forward.compute_time + op.backward.compute_time
        end
        local layers = (c.strategy == "tensor" or name == "C") and 128 or 48
        near(c.breakdown.compute, compute * c.microbatches * (layers // c.pp), name .. " compute", 1e-9)
        assert.equal(c.gpus, c.dp * c.pp * (c.tp or c.tp1) * (c.cp or c.tp2 or 1))
        assert.equal(c.global_batch, c.dp * c.micro_batch * c.microbatches)
        local stages = 0
        for _, stage in ipairs(c.stages) do stages = stages + stage.repeats end
        assert.equal(c.pp, stages)
        near(c.global_batch / c.time, c.throughput, "throughput", 1e-12)
      end
    end
  end)

  it("is what a search returns for the same configuration", function()
    local c = train("E", { panels = "none" })
    local found = tperf.search {
      strategy = "context", model = "subramanian2024/vit_era5", system = published.system("B200", 8),
      rules = "subramanian2024", gpus = c.gpus, global_batch = 256, tp = 4, cp = 4, pp = 2, dp = 8, micro_batch = 1,
      fast = { tp = 4, cp = 2, dp = 1, pp = 1 },
    }
    assert.equal(1, #found)
    assert.equal(c.time, found[1].time)
    assert.same(c.memory, found[1].memory)
    assert.same(c.breakdown, found[1].breakdown)
  end)

  it("takes the fastest placement of what is left open", function()
    local best = train("E", { fast = "none" })
    local seen = 0
    for _, tp in ipairs { 1, 2, 4 } do
      for _, cp in ipairs { 1, 2, 4 } do
        for _, dp in ipairs { 1, 2, 4, 8 } do
          for _, pp in ipairs { 1, 2 } do
            if tp * cp * dp * pp == 8 then
              local c = train("E", { fast = { tp = tp, cp = cp, dp = dp, pp = pp } })
              assert.is_true(best.time <= c.time)
              seen = seen + (best.time == c.time and 1 or 0)
            end
          end
        end
      end
    end
    assert.is_true(seen >= 1)
    assert.equal(2, train("E", { fast = { cp = 2 } }).fast.cp)
  end)

  it("takes the fastest number of panels by default", function()
    for _, fast in ipairs { "none", CANDIDATES.C[6].fast } do
      local open, best = train("C", { panels = "none", fast = fast }), math.huge
      for _, panels in ipairs { 4, 8, 16, 32 } do
        best = math.min(best, train("C", { panels = panels, fast = fast }).time)
      end
      assert.equal(best, open.time)
      assert.is_true(open.time < train("C", { panels = 4, fast = fast }).time)
    end
  end)

  it("says whether the configuration fits", function()
    assert.is_true(train("A").feasible)
    local small = tperf.system "subramanian2024/H200":with {
      accelerator = { hbm = { capacity = 124642391039 } }, network = { fast = { domain = 4 } },
    }
    assert.is_false(train("A", { system = small }).feasible)                                     -- a byte short
    assert.is_true(train("A", { system = small:with { accelerator = { hbm = { capacity = 124642391040 } } } }).feasible)
  end)

  it("completes dp from gpus, and gpus from dp", function()
    assert.equal(16, train("A", { dp = "none", gpus = 2048 }).dp)
    assert.equal(2048, train("A").gpus)
  end)

  describe("refuses", function()
    local function refusal(change, message, of)
      it(message, function()
        local ok, got = pcall(function() train(of or "A", change) end)
        assert.is_false(ok)
        assert.truthy(got:find(message, 1, true), got)
        assert.truthy(got:find "^spec/train_spec.lua:%d+: ", got)
      end)
    end
    refusal({ dp = 3 }, "dp = 3 does not divide 'global_batch' of 4096")
    refusal({ pp = 3, fast = "none" }, "pp = 3 does not divide the model's 128 layers")
    refusal({ micro_batch = 3 }, "micro_batch = 3 does not divide the global batch of one replica, of 256")
    refusal({ tp = 3, fast = "none" }, "tp = 3 does not divide the 160 heads; try 2 or 4")
    refusal({ gpus = 4096 }, "'gpus' is 4096, but the axes multiply to 2048")
    refusal({ dp = "none", gpus = 1000 }, "does not divide 'gpus' of 1000")
    refusal({ tp = 1 << 31, pp = 128 }, "more than 2^31 GPUs")
    refusal({ fast = { tp = 4, dp = 4, pp = 1 } }, "the placement takes more GPUs than the 4 of a fast domain")
    refusal({ fast = { tp = 3, dp = 1, pp = 1 } }, "fast.tp = 3 does not divide tp of 4")
    refusal({ fast = { tp = 3 } }, "fast.tp = 3 does not divide tp of ")
    refusal({ fast = { tp2 = 1 } }, "unknown field 'fast.tp2'")
    refusal({ global_batch = "none" }, "'global_batch' is missing")
    refusal({ global_batch = (1 << 31) + 1 }, "'global_batch' must be an integer from 1 to 2147483648")
    refusal({ batch = 8 }, "unknown field 'batch'")
    refusal({ attention = "summa" }, "strategy 'tensor' has no attention 'summa'")
    refusal({ cp = 7, dp = 1, rules = "default", fast = "none", global_batch = 7 },
      "does not divide the tokens of a micro-batch", "E")
  end)
end)

describe("tperf.train of a configuration", function()
  it("repeats what the search found, with the given changes", function()
    local question = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 64, global_batch = 256 }
    local found = tperf.search(question)
    for _, c in ipairs(found) do
      local same = tperf.train { model = question.model, system = question.system, configuration = c }
      assert.equal(c.time, same.time)
      assert.same(c.memory, same.memory)
    end
    local faster = tperf.train { model = question.model, system = "b200-sxm", configuration = found[1] }
    assert.is_true(faster.time <= found[1].time)
  end)

  it("refuses other values", function()
    local ok, message = pcall(tperf.train, { model = "llama-3.1-8b", system = "h100-sxm", configuration = 3 })
    assert.is_false(ok)
    assert.truthy(message:find("'configuration' must be a table, got 3", 1, true))
  end)
end)

describe("tperf.train without data_overlap", function()
  it("waits for every layer's exchange: as many times a layer's gather and scatter as the stage has layers", function()
    local question = {
      model = "subramanian2024/gpt3", system = "subramanian2024/A100", rules = "subramanian2024", global_batch = 512,
      tp = 4, pp = 8, dp = 16, fast = { tp = 4, dp = 1, pp = 1 },
    }
    local hidden = tperf.train(question)
    question.data_overlap = false
    local c = tperf.train(question)
    local layer = hidden.memory.weights / 12
    local function exchange(kind)
      return tperf.collective {
        system = question.system, rules = question.rules, kind = kind, bytes = layer, gpus = 16, fast = 1,
      }
    end
    local expected = 12 * (exchange "all_gather" + exchange "reduce_scatter")
    assert.near(expected, c.breakdown.data_comm, 1e-9 * expected)
    assert.is_true(hidden.breakdown.data_comm < c.breakdown.data_comm)
  end)
end)

describe("a configuration that does not fit", function()
  local question = { model = "llama-3.1-70b", system = "h100-sxm", tp = 8, dp = 8, global_batch = 64 }

  it("is advised how it would fit by searches that run when the reason is read", function()
    local shortage = require "tperf.question.search.advice"
    local advice, asked = shortage.advice, 0
    shortage.advice = function(...)
      asked = asked + 1
      return advice(...)
    end
    local c = tperf.train(question)
    assert.is_false(c.feasible)
    assert.equal(0, asked)
    assert.truthy(c.reason:find("it would fit with", 1, true))
    assert.equal(c.reason, c.reason)
    assert.equal(1, asked)
    local copy = {}
    for name, value in pairs(tperf.train(question)) do copy[name] = value end -- as reports and scripts do
    assert.equal(c.reason, copy.reason)
    local rows = tperf.sweep { run = tperf.train, model = "llama-3.1-70b", system = "h100-sxm", tp = 8, dp = 8,
      global_batch = 64, pp = tperf.vary { 1, 2 } }
    assert.equal(2, asked)
    assert.equal(c.reason:match "^[^;]+", rows[1].reason)
    shortage.advice = advice
  end)

  it("fits, with the memory named, after any change advised", function()
    local changed = {}
    for _, o in ipairs {
      question, { model = "llama-3.1-8b", pp = 4, dp = 2, zero = 1, schedule = "zb_h1" },
      { model = "qwen3-235b-a22b", tp = 4, ep = 8, pp = 2, dp = 16, zero = 1, micro_batch = 4 },
      { model = "qwen3-30b-a3b", system = "gb200-nvl72", tp = 2, dp = 4, ep = 4, micro_batch = 8 },
    } do
      local machine = tperf.system(o.system or "h100-sxm")
      local capacity = machine.accelerator.hbm.capacity -- the vendor's, which the first of these just miss
      o.system, o.global_batch = machine:with { accelerator = { hbm = { capacity = capacity } } }, 512
      local c = tperf.train(o)
      assert.is_false(c.feasible)
      for name, value, memory in c.reason:gmatch '([%w_]+) = "?(%w+)"? %(([%d.]+) GB%)' do
        local after = {}
        for field, old in pairs(o) do after[field] = old end
        after[name], after.gpus, changed[name] = tonumber(value) or value, c.gpus, true
        if name == "gpus" then after.gpus = tonumber(value) end
        if not (name == "recompute" or name == "zero" or name == "micro_batch") then after.dp = nil end
        local now = tperf.train(after)
        assert.is_true(now.feasible, name)
        assert.equal(tonumber(memory), tonumber(("%.4g"):format(now.memory.total / 1e9)), name)
      end
    end
    assert.same({ recompute = true, zero = true, tp = true, pp = true, micro_batch = true }, changed)
  end)
end)

describe("sizes that were asked about before", function()
  local question = { model = "llama-2-7b", system = "h100-sxm", global_batch = 64, tp = 8, dp = 2 }

  local function asked(change)
    local o = {}
    for name, value in pairs(question) do o[name] = value end
    for name, value in pairs(change) do o[name] = value end
    return pcall(tperf.train, o)
  end

  it("are refused where something else no longer admits them", function()
    for _, change in ipairs {
      { seq = 4100 }, { model = "gpt2" }, { global_batch = 63 }, { zero = 0, shard = 2 }, { dp = 3 }, { pp = 33 },
      { rules = "subramanian2024" }, { sequence_parallel = false, tp = 3 },
    } do
      assert.is_true((asked {}))
      local ok, message = asked(change)
      assert.is_false(ok, tostring(next(change)))
      local _, again = asked(change)
      assert.equal(message, again)
    end
  end)

  it("leave open what was left open", function()
    for _, dp in ipairs { 4, 1, 2 } do
      local c = tperf.train { model = "llama-2-7b", system = "h100-sxm", global_batch = 64, tp = 8, gpus = 8 * dp }
      assert.equal(dp, c.dp)
      assert.equal(8 * dp, c.gpus)
    end
  end)
end)
