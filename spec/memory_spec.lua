-- Memory of a GPU in training, against published tables and sums by hand.
local program = require "program"
local tperf = require "tperf"

local GIB = 2 ^ 30
local roomy = tperf.system("h100-sxm"):with { accelerator = { hbm = { capacity = "100 TB" } } }

local function near(expected, got, what, tolerance)
  assert.truthy(math.abs(got - expected) <= (tolerance or 1e-9) * math.abs(expected),
    ("%s: expected %.10g, got %.10g"):format(what, expected, got))
end

local plain = { -- neither dropout nor embedding: 12 equal layers
  name = "plain", layers = 12, hidden = 1024, heads = 16, ffn = 4096, seq = 1024, vocab = 32000, norm = "rmsnorm",
  gated = true, positions = "rotary",
}

local function train(o)
  local given = { model = plain, system = roomy, global_batch = 64, recompute = "none", schedule = "1f1b" }
  for name, value in pairs(o) do given[name] = value end
  return tperf.train(given)
end

local function states(m) return m.weights + m.gradients + m.optimizer end

-- Without what the allocator and the GPU's context add to it.
local function allocated(m) return m.total - m.runtime end

describe("bytes of a parameter", function()
  local parameters = tperf.model(plain):parameters().total

  it("are those of each optimizer's paper", function()
    local block = 1 + 4 / 256 -- bytes of an int8 moment and its share of an fp32 scale
    local expected = { -- beside the fp32 copy of the weights
      adam = 8, adamw = 8, adam_8bit = 2 * block, adamw_8bit = 2 * block, lion = 4, sgd = 4,
      adafactor = 4 * (1 / 1024 + 1 / 1024),
    }
    for name, moments in pairs(expected) do
      near(4 + moments, train { optimizer = name }.memory.optimizer / parameters, name)
    end
  end)

  it("of Muon are AdamW's for the embedding and the head", function()
    local ends = 2 * 32000 * 1024 + 1024 -- both tables, the final norm
    near(8 * (parameters - ends) + 12 * ends, train { optimizer = "muon" }.memory.optimizer, "muon")
  end)

  it("are Megatron-LM's 18, and 6 + 12 / dp with its distributed optimizer", function()
    near(18, states(train { zero = 0, dp = 8 }.memory) / parameters, "18")
    for _, dp in ipairs { 1, 2, 8, 64 } do
      near(6 + 12 / dp, states(train { zero = 1, dp = dp }.memory) / parameters, "dp " .. dp)
    end
  end)

  it("include DeepSpeed's fp32 shard of the gradients if asked for", function()
    local question = {
      model = "llama-3.1-8b", system = "h100-sxm", tp = 2, dp = 4, global_batch = 16, zero = 1, recompute = "full",
    }
    local usual = tperf.train(question).memory
    question.gradient_shard = true
    local more = tperf.train(question).memory
    assert.near(usual.optimizer * 16 / 12, more.optimizer, 1e-6 * usual.optimizer)
    assert.near(usual.optimizer / 3, allocated(more) - allocated(usual), 1e-6 * usual.total)
  end)

  it("include DistributedDataParallel's buckets beside accumulators, if there are replicas", function()
    local bare = { name = "bare", compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 1 }
    for dp, bytes in pairs { [1] = 4, [8] = 4 + 2 } do
      bare.gradient_buckets = nil
      local without = train { zero = 0, dp = dp, software = bare, gradients = "fp32" }.memory
      bare.gradient_buckets = true
      local with = train { zero = 0, dp = dp, software = bare, gradients = "fp32" }.memory
      near(bytes / 4, with.gradients / without.gradients, "dp " .. dp)
      near(allocated(without) + with.gradients - without.gradients, allocated(with), "total")
    end
  end)

  it("are those of figure 1 of arXiv 1910.02054: 7.5 billion parameters on 64 GPUs", function()
    for zero, gb in pairs { [0] = 120, 31.4, 16.6, 1.9 } do
      local m = train { zero = zero, dp = 64, gradients = "fp16", software = "typical" }.memory
      assert.equal(("%.1f"):format(gb), ("%.1f"):format(states(m) / parameters * 7.5), "stage " .. zero)
    end
  end)

  it("follow the dtypes", function()
    local fsdp = train { zero = 3, dp = 8, weights = "fp32" }.memory
    near(4 + 4 + 8, 8 * states(fsdp) / parameters, "fp32 weights need no copy")
    for dtype, bytes in pairs { fp32 = 4, tf32 = 4, bf16 = 2, fp16 = 2, fp8 = 1, int8 = 1, int4 = 0.5 } do
      near(bytes, train { weights = dtype }.memory.weights / parameters, dtype)
    end
    near(2 + 2 * 2, train { master = "bf16", moments = "bf16" }.memory.optimizer / parameters, "bf16 optimizer")
    near(2 * (0.5 + 4 / 128), train { master = "none", moments = "int4" }.memory.optimizer / parameters, "int4")
    assert.has_error(function() train { moments = "fp7" } end)
  end)
end)

-- A model of one product a layer, in a dtype of its own.
local function products(fields)
  local block = tperf.block("product", function(m)
    local one = { name = "product", tokens = m.seq, n_in = m.hidden, n_out = m.hidden }
    for name, value in pairs(fields) do one[name] = value end
    return { tperf.op.linear(one) }
  end)
  local architecture = tperf.architecture { name = "products", layer = { block }, first = {}, last = {} }
  return tperf.model(plain):with { architecture = architecture }
end

describe("an op's parameters", function()
  local count = 12 * 1024 ^ 2

  local function bytes(fields, o)
    local given = { model = products(fields), zero = 0 }
    for name, value in pairs(o or {}) do given[name] = value end
    local m = train(given).memory
    return { m.weights / count, m.gradients / count, m.optimizer / count }
  end

  it("take the bytes of the dtypes asked for, whatever the op's dtype", function()
    for _, dtype in ipairs { "fp32", "tf32", "bf16", "fp16", "fp8" } do
      assert.same({ 4, 4, 8 }, bytes({ dtype = dtype }, { weights = "fp32" }), dtype)
      assert.same({ 2, 4, 12 }, bytes({ dtype = dtype }, { weights = "bf16" }), dtype)
      assert.same({ 2, 2, 8 }, bytes({ dtype = dtype },
        { weights = "bf16", gradients = "bf16", master = "none" }), dtype)
      assert.same({ 4, 4, 12 }, bytes({ dtype = dtype }, { weights = "fp32", master = "fp32" }), dtype)
    end
  end)

  it("are kept in the op's dtype by default, and need no fp32 copy if they are fp32", function()
    assert.same({ 2, 4, 12 }, bytes {})
    assert.same({ 4, 4, 8 }, bytes { dtype = "fp32" })
    assert.same({ 4, 4, 8 }, bytes { weight_dtype = "fp32" })
    assert.same({ 1, 4, 12 }, bytes { weight_dtype = "fp8" })
    assert.same({ 4, 4, 12 }, bytes({ dtype = "fp32" }, { master = "fp32" }))
    assert.same({ 4, 2, 4 }, bytes({ dtype = "fp32" }, { gradients = "bf16", moments = "bf16" }))
  end)

  it("are gathered in the op's dtype, and their gradients reduced in their own", function()
    local function traffic(fields, o)
      local wire = roomy:with { network = { fast = { domain = 1 },
        slow = { bandwidth = "1 GB/s", efficiency = 1, latency = 0 } } }
      local given = { model = products(fields), system = wire, dp = 8, data_overlap = false }
      for name, value in pairs(o or {}) do given[name] = value end
      return train(given).breakdown.data_comm
    end
    local byte = 7 / 8 * count / 1e9 -- one byte of every parameter, gathered or reduced
    near((2 + 4) * byte, traffic({}), "bf16")
    near((4 + 4) * byte, traffic { dtype = "fp32" }, "fp32")
    near((2 + 4) * byte, traffic({ dtype = "fp32" }, { weights = "bf16" }), "kept in fewer bits")
    near((2 + 4) * byte, traffic({}, { weights = "fp32" }), "cast before they travel")
    near(2 * 4 * byte, traffic({ dtype = "fp32" }, { zero = 0 }), "an all-reduce")
  end)
end)

describe("sharding", function()
  it("spreads experts over their own replicas", function()
    local model = tperf.model(plain):with { experts = { count = 8, top_k = 2, ffn = 1024 } }
    local p = model:parameters()
    local experts = p.components.experts
    local m = train { model = model, dp = 16, ep = 4, zero = 1 }.memory
    near(2 * (p.total - experts + experts / 4), m.weights, "weights")
    near(12 * ((p.total - experts) / 16 + experts / 4 / (16 / 4)), m.optimizer, "optimizer")
  end)

  it("holds whole layers for a while: two, and one's gradients with ZeRO 3, gradients with ZeRO 2", function()
    local passing = {}
    for zero = 0, 3 do passing[zero] = train { zero = zero, dp = 8 }.memory.passing end
    local largest = 32000 * 1024 -- the table has more parameters than a layer: 12.6 million
    assert.equal(passing[0], passing[1])
    near(4 * largest, passing[2] - passing[0], "gradients", 1e-3)
    near((4 + 2 * 2) * largest, passing[3] - passing[0], "layers", 1e-3)
    assert.equal(passing[0], train { zero = 3, dp = 1 }.memory.passing)
  end)

  it("sends 2, 2 and 3 times the weights (arXiv 1910.02054, section 7), with ZeRO 3 for every micro-batch", function()
    local slow = roomy:with { network = { slow = { bandwidth = "1 GB/s", efficiency = 1, latency = 0 },
      fast = { bandwidth = "1 GB/s", efficiency = 1, latency = 0, domain = 1 } } }
    local function time(zero, batch, overlap)
      local c = train {
        system = slow, zero = zero, dp = 8, global_batch = batch, gradients = "bf16", data_overlap = overlap,
      }
      return c.breakdown.data_comm
    end
    near(time(0, 8), time(1, 8), "stage 1", 0.05)
    near(time(1, 8), time(2, 8), "stage 2, one micro-batch", 1e-9)
    near(1.5 * time(1, 8), time(3, 8), "stage 3, one micro-batch", 0.05)
    near(time(1, 8), time(1, 32), "stage 1 exchanges once", 1e-9)
    near(4 * time(3, 8, false), time(3, 32, false), "stage 3 with every micro-batch", 1e-9)
    -- Only the first of four has nothing before it to hide behind.
    assert.is_true(time(3, 32) < 4 * time(3, 8) and time(3, 32) > 3 * time(3, 8))
  end)
end)

describe("a pipeline", function()
  it("with 1F1B keeps pp - i + 1 micro-batches on stage i; the last has the logits", function()
    local c = train { pp = 4, global_batch = 16 }
    local whole = train { pp = 1, global_batch = 16 }.memory
    assert.equal(4, #c.stages)
    local logits = 1024 * 32000 * 4 + 2 * 2 * 1024 * 1024 -- fp32, and the inputs of the final norm and the head
    local layer = (whole.activations - logits) / 12
    for i, stage in ipairs(c.stages) do
      assert.equal(i, stage.device)
      assert.equal(5 - i, stage.in_flight)
      near((5 - i) * 3 * layer + (i == 4 and logits or 0), stage.memory.activations, "stage " .. i)
      assert.truthy(stage.memory.total <= c.memory.total)
    end
  end)

  it("keeps no more micro-batches than there are, and all of them with GPipe", function()
    local one = train { pp = 4, global_batch = 1 }.stages[1].memory.activations
    near(4 * one, train { pp = 4, global_batch = 4 }.stages[1].memory.activations, "one micro-batch")
    local gpipe = train { pp = 4, global_batch = 32, schedule = "gpipe" }
    near(32 / 4, gpipe.stages[1].memory.activations / train { pp = 4, global_batch = 32 }.stages[1].memory.activations,
      "GPipe")
  end)

  it("keeps the logits of one micro-batch when chunks interleave", function()
    local function last(o)
      local stages = train(o).stages
      return stages[#stages].memory.activations
    end
    local o = { pp = 4, global_batch = 16, schedule = "interleaved_1f1b", virtual_stages = 3 }
    local small, logits = tperf.model(plain):with { vocab = 16000 }, 1024 * 16000 * 4
    local with_more = last(o)
    o.model = small
    near(logits, with_more - last(o), "the other half of the vocabulary")
  end)

  it("holds tied tables once only if both ends are on one GPU", function()
    local tied = tperf.model(plain):with { tied_embeddings = true }
    local table_bytes = 2 * 32000 * 1024
    local one, two = train { model = tied }, train { model = tied, pp = 2 }
    near(train {}.memory.weights - table_bytes, one.memory.weights, "one GPU")
    near(one.memory.weights + table_bytes, two.stages[1].memory.weights + two.stages[2].memory.weights, "two")
  end)
end)

describe("full recomputation", function()
  local input = 2 * 1024 * 1024 -- of a layer: 2 s b h bytes
  local ends = 1024 * 32000 * 4 + 2 * input

  it("of k layers at a time keeps one input for them", function()
    local layer = (train {}.memory.activations - ends) / 12
    local before
    for _, k in ipairs { 1, 2, 5, 12, 100 } do
      local m = train { recompute = "full", recompute_layers = k }.memory
      near(ends + math.ceil(12 / math.min(k, 12)) * input, m.activations, "k = " .. k)
      if before then
        local more = math.min(k, 12) - before.k
        near(more * layer, m.passing - before.passing, "passing, k = " .. k)
      end
      before = { k = math.min(k, 12), passing = m.passing }
    end
  end)

  it("of k layers takes as long as of one layer", function()
    assert.equal(train { recompute = "full" }.time, train { recompute = "full", recompute_layers = 4 }.time)
  end)
end)

describe("memory", function()
  it("is the sum of its parts, of the fullest stage", function()
    for _, o in ipairs { {}, { tp = 4, pp = 3, dp = 2, zero = 3 }, { pp = 2, recompute = "full" } } do
      local c, most = train(o), 0
      for _, stage in ipairs(c.stages) do
        local m = stage.memory
        local own = m.weights + m.gradients + m.optimizer + m.activations + m.passing + m.buffers
        near(own + m.runtime, m.total, "sum")
        most = math.max(most, m.total)
      end
      assert.equal(most, c.memory.total)
    end
  end)

  it("does not grow with tp, pp, dp and ZeRO stage 1, nor shrink with the micro-batch", function()
    local function total(o)
      local m = train(o).memory
      return m.total - m.buffers
    end
    for _, name in ipairs { "tp", "dp", "pp" } do
      local before = math.huge
      for _, size in ipairs { 1, 2, 4 } do
        local now = total { [name] = size }
        assert.truthy(now < before, name .. size)
        before = now
      end
    end
    assert.truthy(total { micro_batch = 2 } > total { micro_batch = 1 })
    assert.truthy(total { zero = 1, dp = 8 } < total { zero = 0, dp = 8 })
  end)

  it("matches measurements: 12 layers of Llama 3 70B, Megatron-LM, most allocated on any GPU", function()
    local model = {
      name = "llama3-70b-12", layers = 12, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672, vocab = 128256,
      seq = 4096, norm = "rmsnorm", gated = true, positions = "rotary",
    }
    -- SimuMax's B200 release v1.2, github.com/MooreThreads/SimuMax: tp, pp, dp, GiB
    for _, row in ipairs { { 1, 2, 4, 66.55 }, { 2, 1, 4, 60.68 }, { 4, 1, 2, 39.07 }, { 8, 1, 1, 28.29 } } do
      local m = train { model = model, tp = row[1], pp = row[2], dp = row[3], global_batch = 16,
        sequence_parallel = row[1] > 1 }.memory
      near(row[4], (m.total - m.buffers - m.runtime) / GIB, "tp " .. row[1], 0.04)
    end
  end)

  it("counts the context and what the allocator reserves, as nvidia-smi does", function()
    -- kernels/memory.yaml: 5 % of what PyTorch's allocator gives out, of which NCCL's buffers are no part, and 1.5 GiB
    local nccl = 128 * 2 ^ 20
    for _, dp in ipairs { 1, 8 } do
      local m = train { dp = dp }.memory
      local groups = dp > 1 and 1 or 0
      near(1.5 * GIB + 0.05 * (m.total - m.runtime - groups * nccl), m.runtime, "dp " .. dp)
    end
  end)

  it("has no passing buffers under the published solver's rules", function()
    local m = train { rules = "subramanian2024", model = "gpt3-175b" }.memory
    assert.equal(0, m.passing)
    assert.equal(0, m.buffers)
    assert.equal(0, m.runtime)
  end)
end)

describe("a configuration that does not fit", function()
  local function suggestions(reason)
    local list = {}
    for name, value in reason:gmatch "([%w_]+) = \"?([%w]+)\"? %([%d.]+ %w+%)" do
      list[#list + 1] = { name, tonumber(value) or value }
    end
    return list
  end

  it("reports the excess, and fits with any suggested change", function()
    local asked = { model = "gpt3-175b", system = "h100-sxm", gpus = 64, global_batch = 64, recompute = "none", tp = 4,
      zero = 0, micro_batch = 8 }
    local found = tperf.search(asked)
    assert.equal(0, #found)
    assert.truthy(found.reason:find("needs [%d.]+ GB, [%d.]+ GB too much"))
    local list = suggestions(found.reason)
    assert.truthy(#list >= 2, found.reason)
    for _, change in ipairs(list) do
      local changed = {}
      for name, value in pairs(asked) do changed[name] = value end
      changed[change[1]] = change[2]
      assert.truthy(tperf.search(changed).feasible > 0, change[1])
    end
  end)

  it("is explained by tperf.train, too", function()
    local c = tperf.train {
      model = "gpt3-175b", system = "h100-sxm", global_batch = 64, tp = 8, pp = 4, micro_batch = 4,
    }
    assert.falsy(c.feasible)
    local need, miss = c.reason:match "needs ([%d.]+) GB, ([%d.]+) GB too much"
    near(c.memory.total / 1e9, tonumber(need), "needs", 1e-3)
    near((c.memory.total - 79.1 * 2 ^ 30) / 1e9, tonumber(miss), "misses", 1e-2)
    assert.truthy(#suggestions(c.reason) > 0, c.reason)
    assert.is_nil(tperf.train { model = plain, system = roomy, global_batch = 1 }.reason)
  end)

  it("names a number of GPUs that holds it if no split does", function()
    local reason = tperf.search { model = "gpt3-175b", system = "h100-sxm", gpus = 8, global_batch = 64 }.reason
    local change = suggestions(reason)[1]
    assert.equal("gpus", change[1], reason)
    assert.truthy(#tperf.search { model = "gpt3-175b", system = "h100-sxm", gpus = change[2], global_batch = 64 } > 0)
  end)
end)

describe("tperf memory", function()
  local command = "tperf memory gpt3-175b -s h100-sxm -b 64 --tp 8 --pp 4 --dp 2"

  it("prints a row for each stage, in bytes with --json and --csv", function()
    local text = program.ask(command)
    assert.equal(0, text.code, text.err)
    assert.truthy(text.out:find "weights +gradients +states +saved +passing +buffers +runtime +total")
    local csv = program.ask(command .. " --csv").out
    local lines = select(2, csv:gsub("\n", ""))
    assert.equal(1 + 4, lines)
    local json = program.ask(command .. " --json").out
    assert.equal(4, select(2, json:gsub('"activations"', "")))
  end)

  it("draws a bar for each stage", function()
    local folder = program.folder()
    local result = program.shell(program.quote(program.absolute()) .. command:sub(6) .. " --svg memory.svg", folder)
    assert.equal(0, result.code, result.err)
    local svg = program.slurp(folder .. "/memory.svg")
    assert.truthy(svg:find("<svg", 1, true) and svg:find("activations", 1, true))
    program.remove(folder)
  end)

  it("prints the excess, and refuses invalid arguments", function()
    assert.truthy(program.ask(command .. " --micro-batch 2").err:find(" GB too much; it would fit with ", 1, true))
    for option, message in pairs { ["--zero 7"] = "zero", ["--optimizer adm"] = "did you mean 'adam'",
      ["--recompute-layers 0"] = "recompute", ["--weights fp7"] = "weights" } do
      local result = program.ask(command .. " " .. option)
      assert.truthy(result.code ~= 0, option)
      assert.truthy(result.err:find(message, 1, true), result.err)
    end
  end)
end)
