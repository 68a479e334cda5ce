-- Constants and comparisons that few other specs would miss, by closed forms and published figures.
local tperf = require "tperf"

-- A machine of constants: 100 TFLOP/s, 100 GB/s within a domain, 25 GB/s without, and no HBM traffic to speak of.
local function ideal(changes)
  local base = tperf.system {
    name = "ideal", generation = "None",
    accelerator = {
      tensor = { bf16 = 100e12, fp8 = 200e12 }, vector = { bf16 = 100e12, fp32 = 100e12 }, launch = 0, power = 700,
      compute_efficiency = 1, hbm = { bandwidth = 1e21, capacity = 1e15 },
    },
    network = {
      fast = { bandwidth = 100e9, domain = 8, efficiency = 1, latency = 1e-6 },
      slow = { bandwidth = 25e9, efficiency = 1, latency = 5e-6 },
    },
  }
  return changes and base:with(changes) or base
end

describe("SUMMA", function()
  -- Features that the whole product has, in and out.
  local WIDTHS <const> = { qkv = { 12288, 3 * 12288 }, fc1 = { 12288, 49152 }, fc2 = { 49152, 12288 } }

  it("shows the first panel, and of the others what their products do not hide (docs/model.md, 3.1)", function()
    local bound = { [true] = 0, [false] = 0 }
    for _, bandwidth in ipairs { 20e9, 1000e9 } do
      for _, panels in ipairs { 1, 2, 4, 8 } do
        local layer = tperf.layer { strategy = "summa", attention = "summa", model = "gpt3-175b", tp1 = 4, tp2 = 2,
          panels = panels, fast = { tp1 = 4, tp2 = 2 }, micro_batch = 1,
          system = ideal { network = { fast = { bandwidth = bandwidth } } } }
        for _, one in ipairs(layer) do
          local width = WIDTHS[one.name]
          if width then
            local work = one.forward.compute_time + one.forward.exposed_memory_time
            -- X, s / 2 rows, passes 4 GPUs, and W, all rows of a quarter of its columns, 2.
            local first = 1e-6 * 3 + 2 * 1024 * width[1] / panels / bandwidth
              + 1e-6 + 2 * width[1] * width[2] / 4 / panels / bandwidth
            local hidden = first - work / panels
            bound[hidden > 0] = bound[hidden > 0] + 1
            assert.near(first + (panels - 1) * math.max(hidden, 0), one.forward.comm_time, 1e-9 * first)
          end
        end
      end
    end
    assert.is_true(bound[true] > 2 and bound[false] > 2)
  end)
end)

describe("a prompt", function()
  it("passes as many hops as a pipeline has stages, but one", function()
    local function ttft(pp, latency)
      local s = ideal { network = { fast = { domain = 1 }, slow = { latency = latency } } }
      return tperf.infer { model = "llama-3.1-8b", system = s, pp = pp, prompt = 512, generate = 4, batch = 1 }.ttft
    end
    for _, pp in ipairs { 2, 4, 8 } do assert.near((pp - 1) * 1e-3, ttft(pp, 2e-3) - ttft(pp, 1e-3), 1e-9) end
  end)
end)

describe("SGLang's scheduler", function()
  local function steps(blocks, more)
    local requests = {}
    for i = 1, 4 do requests[i] = { arrival = 0, prompt = 10, output = 10000 } end
    return tperf.serve { requests = requests, keep = "steps", step_time = { fixed = 1 },
      engine = { scheduler = "sglang", block_size = 1, num_blocks = blocks + 1, prefix_caching = false,
        max_num_batched_tokens = more or 8192 } }.steps
  end

  -- Requests that arrive together start together if each finds room for its prompt and 4,096 tokens of its answer
  -- (CLIP_MAX_NEW_TOKENS_ESTIMATION) beside those of the others.
  it("expects 4,096 tokens of an answer to come at most", function()
    assert.equal(3, steps(3 * (10 + 4096))[1].running)
    assert.equal(2, steps(3 * (10 + 4096) - 1)[1].running)
    assert.equal(4, steps(4 * (10 + 4096))[1].running)
  end)

  -- Room is kept for 0.7 of what running answers may still become, 4,096 at most of each.
  it("keeps room for seven tenths of the running answers", function()
    local first = 10 -- tokens of a step: one prompt
    local blocks = 10010
    local running = steps(blocks, first)
    assert.equal(1, running[1].running)
    -- Then the second finds 10,010 - 10 - 0.7 x 4,096 = 7,132.8 tokens, enough for 4,106.
    assert.equal(2, running[2].running)
    -- The third finds 10,010 - 20 - 2 x 0.7 x 4,096 = 4,255.6, enough; the fourth 1,378.4, not enough.
    assert.equal(3, running[3].running)
    assert.equal(3, running[4].running)
  end)

  it("looks 20 tokens ahead when it retracts, and starts at SGLang's own numbers", function()
    for _, name in ipairs { "sglang-0.5", "sglang-0.5.5", "sglang-0.5.10" } do
      local e = tperf.software(name).engine
      assert.same({ init_new_token_ratio = 0.7, min_new_token_ratio_factor = 0.14, new_token_ratio_decay_steps = 600,
        retract_decode_steps = 20, clip_max_new_tokens = 4096 }, e.estimate)
      assert.same({ 0.8, 0.9, 3 }, { e.swa_full_tokens_ratio, e.mamba_full_memory_ratio, e.mamba_states })
    end
  end)
end)

describe("products in 8 bits", function()
  -- Transformer Engine and cuBLAS need multiples of 16 of both features; others stay in 16 bits, at half of the rate.
  it("have both features in multiples of 16", function()
    local function product(ffn, precision)
      local r = tperf.train { model = tperf.model "llama-2-7b":with { ffn = ffn }, system = ideal(), global_batch = 8,
        precision = precision, software = "none" }
      return r.breakdown.compute
    end
    local wide, narrow = product(11008, nil), product(11008, "fp8-block")
    assert.is_true(narrow < 0.75 * wide)
    -- Gate and up are one product of twice as many features, so that 11,016 features leave one of three in 16 bits, and
    -- 11,012 all; those of 11,024 are as fast as those of 11,008.
    local one = 8 * 32 * 3 * 2 * 4096 * 4096.0 -- micro-batches, layers, passes, FLOP of a feature
    local function more(ffn) return product(ffn, "fp8-block") - narrow end
    local down, rest = one * (11016 / 100e12 - 11008 / 200e12), 2 * one * 8 / 200e12
    assert.near(down + rest, more(11016), 1e-3 * down)
    local all = 3 * one * (11012 / 100e12 - 11008 / 200e12)
    assert.near(all, more(11012), 1e-3 * all)
    assert.near(3 * one * 16 / 200e12, more(11024), 0.02 * 3 * one * 16 / 200e12)
  end)
end)

describe("energy", function()
  it("of two pools is each one's power for as long as it is busy", function()
    local s = ideal()
    local r = tperf.serve { model = "llama-3.1-8b", system = s, load = { concurrency = 4 }, count = 40, prompt = 512,
      output = 64, prefill = { tp = 2, replicas = 2, system = s:with { accelerator = { power = 300 } } },
      decode = { tp = 1 } }
    local busy, prefills = r.pools.decode.utilization * r.duration, r.pools.prefill.utilization * r.duration
    assert.is_true(busy > 0 and prefills > 0)
    local joules = 700 * 1 * busy + 300 * 4 * prefills
    assert.near(joules / r.output_tokens, r.energy_per_token, 1e-9 * r.energy_per_token)
  end)
end)

describe("a run that fails", function()
  local function cost(changes)
    local o = { tokens = 1e12, mtbf = { cluster = 3 * 3600 }, restart = 600,
      checkpoint = { size = 1e12, bandwidth = 1e9, store = 50e9, interval = 1800 } }
    for name, value in pairs(changes or {}) do o[name] = value end
    return tperf.cost(tperf.train { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 256, dp = 64,
      software = "none" }, o) -- without a stack's own interval
  end

  it("writes a checkpoint as fast as the slower of GPUs and store", function()
    for _, case in ipairs { { 1e9, 50e9 }, { 0.1e9, 50e9 }, { 1e9, 5e9 } } do
      local g = cost { checkpoint = { size = 1e12, bandwidth = case[1], store = case[2], interval = 1800 } }
      assert.near(math.max(1e12 / 64 / case[1], 1e12 / case[2]), g.checkpoint.write, 1e-9)
    end
  end)

  -- The number of failures is Poisson-distributed, of mean F; each loses a time of mean L that is uniform over the
  -- interval and a save, whose variance is that of a uniform distribution, a twelfth of its square. So the variance of
  -- the run's time is F (L^2 + i^2 / 12), by which the band is as wide as the normal one of many failures.
  it("has a band as wide as the variance of what failures lose", function()
    local g = cost { tokens = 100e12 }
    local lost = (g.lost.rework + g.lost.restarts) / g.failures
    local each = g.checkpoint.interval + g.checkpoint.block
    local sigma = math.sqrt(g.failures * (lost ^ 2 + each ^ 2 / 12))
    assert.is_true(g.failures > 500)
    assert.near(2 * 1.6449, (g.high.seconds - g.low.seconds) / sigma, 0.02)
  end)
end)

describe("published figures of", function()
  it("T5 hold: a table of 32 positions per head, for encoder and decoder", function()
    -- t5-11b has 11,307,321,344 parameters, and t5-large 737,668,096 (Hugging Face).
    assert.equal(11307321344, tperf.model "t5-11b":parameters().total)
    assert.equal(737668096, tperf.model "t5-large":parameters().total)
    local share = { seq = 512, features = "tp", dtype = "bf16" }
    function share:heads() return { heads = self.seq // 32 } end
    local one = require "tperf.describe.arch.layer.cross".positions(tperf.model "t5-large", share):counts()
    assert.equal(2 * 32 * 16 * 2, one.weight_bytes) -- two tables of 16-bit numbers
    -- One value for every pair of tokens and head: an addition, written in 16 bits.
    local pairs_of = 512 * 512 + 512 * 512
    assert.equal(16 * pairs_of, one.forward.vector_flops)
    assert.equal(2 * 16 * pairs_of + one.weight_bytes, one.forward.bytes) -- and the tables are read
  end)

  it("DiT hold: 118.64 GFLOP, which count a multiplication and an addition as one", function()
    -- arXiv 2212.09748, table 4: DiT-XL/2 at 256 x 256 pixels.
    local m = tperf.model "dit-xl-2"
    local forward = m:flops_per_token({ backward = false }).total * m.seq
    assert.near(118.64e9 * 2, forward, 0.005 * 118.64e9 * 2)
  end)
end)

describe("the nearest profile", function()
  local unfit = require "tperf.describe.unfit"

  local function nearest(of, machine, range, gpus)
    local profile = { name = "own", systems = of.systems, generations = of.generations, gpus = range }
    return unfit.nearest(profile, machine, gpus)
  end

  -- A GPU of the generation that others ran on is as far as a doubling of GPUs, one of another generation as ten.
  it("is a doubling of GPUs away if it ran on another system of the generation", function()
    local machine, own = { name = "x", generation = "Hopper" }, { systems = { "x" }, generations = { "Hopper" } }
    assert.is_nil(nearest(own, machine, { 64, 64 }, 127))
    assert.is_truthy(nearest(own, machine, { 64, 64 }, 129))
    assert.is_nil(nearest(own, machine, { 1024, 1024 }, 513))
    assert.is_truthy(nearest(own, machine, { 1024, 1024 }, 511))
  end)

  it("is ten doublings away if it ran on another generation", function()
    local machine, own = { name = "x", generation = "y" }, { systems = { "x" }, generations = { "y" } }
    assert.is_nil(nearest(own, machine, { 1, 1 }, 1023))
    assert.is_truthy(nearest(own, machine, { 1, 1 }, 1025))
  end)
end)

describe("Megatron's options", function()
  it("say the method of full recomputation, which Megatron-Core demands: uniform unless asked for", function()
    local recomputation = require "tperf.export.launch.recomputation"
    local function put(n)
      local options = {}
      recomputation.put(n, { put = function(name, value) options[name] = value end }, function(part) return part end)
      return options
    end
    assert.same({ granularity = "full", method = "uniform", num_layers = 1 }, put { recompute = "full" })
    assert.same({ granularity = "full", method = "block", num_layers = 3 },
      put { recompute = "full", recompute_method = "block", recompute_num_layers = 3 })
    assert.same({ granularity = "selective", modules = { "moe" } },
      put { recompute = "selective", recompute_modules = { "moe" } })
    assert.same({}, put { recompute = "none" })
  end)
end)

describe("a fit shared by stacks", function()
  local descent, profile = require "tperf.measured.calibrate.descent", require "tperf.measured.calibrate.profile"

  -- The weight of each case, as the fit is asked for with it.
  local function weights(fit, ...)
    local minimise, seen = descent.minimise, nil
    descent.minimise = function(_, _, each) -- luacheck: ignore 122
      seen = each
      return {}
    end
    local ok, message = pcall(fit, ...)
    descent.minimise = minimise -- luacheck: ignore 122
    assert.is_true(ok, message)
    return seen
  end

  it("weighs each stack alike, and each of its runs", function()
    assert.same({ 1 / 2, 1 / 8, 1 / 8, 1 / 8, 1 / 8 }, weights(profile.shared, { { {} }, { {}, {}, {}, {} } }))
    local many = {}
    for i = 1, 100 do many[i] = {} end -- of which 24 stand for all
    local each = weights(profile.shared, { many, { {} }, { {} } })
    assert.equal(26, #each)
    assert.near(1 / 3 / 24, each[1], 1e-15)
    assert.near(1 / 3, each[26], 1e-15)
  end)

  it("weighs a source of one stack by the cube root of its runs", function()
    local own, cases = {}, {}
    for i = 1, 9 do cases[i] = { source = i <= 8 and "many" or "one", profile = own } end
    local each = weights(profile.best, cases)
    assert.near(2 / 3 / 8, each[1], 1e-15)
    assert.near(1 / 3, each[9], 1e-15)
  end)
end)

-- Vendors' datasheets, typed from them: dense TFLOP/s in 16 and 8 bits (0: none), GB/s and GB of memory, watts, GB/s of
-- the links of a GPU in one direction (0: PCIe).
local DATASHEETS <const> = {
  ["a10"] = { 125, 0, 600, 24, 150, 0 }, ["a30"] = { 165, 0, 933, 24, 165, 100 },
  ["a40"] = { 149.7, 0, 696, 48, 300, 0 }, ["a100-sxm-40gb"] = { 312, 0, 1555, 40, 400, 300 },
  ["a100-sxm-80gb"] = { 312, 0, 2039, 80, 400, 300 }, ["a100-pcie-40gb"] = { 312, 0, 1555, 40, 250, 300 },
  ["a100-pcie-80gb"] = { 312, 0, 1935, 80, 300, 300 }, ["h100-sxm"] = { 989.4, 1978.9, 3350, 80, 700, 450 },
  ["h100-pcie"] = { 756, 1513, 2000, 80, 350, 300 }, ["h200-sxm"] = { 989.4, 1978.9, 4800, 141, 700, 450 },
  ["h20"] = { 148, 296, 4000, 96, 400, 450 }, ["gh200"] = { 989.4, 1978.9, 4000, 96, 700, 450 },
  ["b200-sxm"] = { 2250, 4500, 8000, 180, 1000, 900 }, ["gb200-nvl72"] = { 2500, 5000, 8000, 186, 1200, 900 },
  ["l4"] = { 121, 242.5, 300, 24, 72, 0 }, ["l40s"] = { 362.05, 733, 864, 48, 350, 0 },
  ["t4"] = { 65, 0, 320, 16, 70, 0 }, ["v100-sxm"] = { 125, 0, 900, 32, 300, 150 },
  ["mi210"] = { 181, 0, 1638.4, 64, 300, 150 }, ["mi300x"] = { 1307.4, 2614.9, 5300, 192, 750, 448 },
  ["mi325x"] = { 1307.4, 2614.9, 6000, 256, 1000, 448 }, ["mi355x"] = { 2516.6, 5033.2, 8000, 288, 1400, 537.6 },
  ["rtx-3090"] = { 71, 0, 936, 24, 350, 0 }, ["rtx-4090"] = { 165.2, 330.3, 1008, 24, 450, 0 },
  ["rtx-5090"] = { 209.5, 419, 1792, 32, 575, 0 },
}

describe("systems/*.yaml", function()
  it("say what vendors do", function()
    for name, sheet in pairs(DATASHEETS) do
      local s = tperf.system(name)
      local a, link = s.accelerator, s.network.fast.bandwidth / 1e9
      local said = { a.tensor.bf16 / 1e12, (a.tensor.fp8 or 0) / 1e12, a.hbm.bandwidth / 1e9, a.hbm.capacity / 1e9,
        a.power, sheet[6] == 0 and 0 or link }
      for i = 1, 6 do assert.near(sheet[i], said[i], 1e-9 * said[i], ("%s, %d"):format(name, i)) end
    end
  end)

  it("lose off their timed shapes what was measured of them", function()
    local a100, h100 = tperf.system "a100-sxm-80gb".accelerator, tperf.system "h100-sxm".accelerator
    assert.same({ 0.8, 0.4 }, { a100.unaligned.by_8, a100.unaligned.by_less }) -- vTrain
    assert.near((1.3 + 2.5) / 2, a100.flash1, 0.11) -- arXiv 2307.08691, section 4.1
    assert.near(0.189 * 132, h100.overlap_sms, 1e-9) -- arXiv 2507.03114
    assert.equal(0.7, h100.hbm.scattered)
    assert.equal(2 * 0.8, h100.whole_caches.uncut) -- num_splits_heuristic: 0.8 of two blocks a multiprocessor
    assert.equal(14e-6, tperf.system "h100-sxm".network.slow.chain) -- NCCL, src/graph/tuning.cc
    local typical = tperf.software "typical"
    assert.near(((218 + 198) / 2 / 9) * 1e-6, typical.pytorch_call, 0.2e-6)
    assert.near(45 / 14, typical.module_calls, 0.25)
  end)

  it("make products with unaligned rows slower by what they say", function()
    local function time(ffn, changes)
      local s = tperf.system("a100-sxm-80gb"):with { accelerator = { unaligned = changes } }
      return tperf.train { model = tperf.model "gpt2":with { ffn = ffn }, system = s, global_batch = 64,
        software = "none" }.breakdown.compute
    end
    local half = { by_8 = 0.4, by_less = 0.2 }
    assert.equal(time(3072), time(3072, half)) -- multiples of 16 bytes
    local eighth, fourth = time(3076, half) - time(3076), time(3074, half) - time(3074)
    assert.is_true(eighth > 0)
    -- work / 0.4 - work / 0.8 of one, work / 0.2 - work / 0.4 of the other
    assert.near(2, fourth / eighth, 0.02)
  end)
end)
