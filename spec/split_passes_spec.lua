-- Backward passes that a schedule splits into the gradients of the input and of the weights: what each half takes, and
-- what waits for the host.
local cases = require "cases"
local picker = require "picker"
local tperf = require "tperf"

-- Equal stages: layers without embedding and head, as many on each device.
local EQUAL <const> = { base = "default", layers_from_description = false }
local MODEL <const> = { name = "spec", layers = 32, hidden = 4096, heads = 32, ffn = 16384, seq = 2048 }

local STACK <const> = { name = "spec", compute = 1, attention = 1, memory = 1, comm = 1, host = 200e-6, overlap = 1 }

local function copy(t, more)
  local both = {}
  for name, value in pairs(t) do both[name] = value end
  for name, value in pairs(more or {}) do both[name] = value end
  return both
end

-- Seconds of a pass of the first stage, in a simulation.
local function pass_of(timeline, wanted)
  for _, op in timeline:queue(1) do
    if op.type == wanted then return op.stop - op.start end
  end
end

local function halves(question)
  local _, timeline = tperf.train(copy(question, { simulate = true }))
  return pass_of(timeline, "backward_input"), pass_of(timeline, "backward_weight")
end

describe("a split backward pass", function()
  -- By the simulator, which knows orders and times alone: a weight gradient fills the wait for an input gradient, and
  -- no more of it than it lasts, however long it is.
  it("has a closed form however long weight gradients are", function()
    for _, case in ipairs { { "zb1p", 4, 16, 3 }, { "dualpipe", 4, 16, 2 }, { "dualpipe_v", 4, 16, 6 } } do -- F = D = 1
      local schedule, devices, microbatches, bubble = table.unpack(case)
      for _, weight in ipairs { 1, 2, 4 } do
        local s = tperf.schedule { schedule = schedule, devices = devices, microbatches = microbatches, p2p = 0,
          times = { forward = 1, backward_input = 1, backward_weight = weight, overlapped = 2 + weight } }
        local passes = microbatches * s.stages // devices * (2 + weight)
        if schedule == "dualpipe" then passes = microbatches * (2 + weight) end
        assert.near(passes + bubble, s.makespan, 1e-9)
      end
    end
  end)

  it("takes as long in closed form as simulated, whatever its halves wait for", function()
    local pick, host = picker(20271), 0
    for _ = 1, cases(60, 1000) do
      local q = {
        model = MODEL, system = pick { "h100-sxm", "b200-sxm", "v100-sxm" }, rules = EQUAL, schedule = "zb1p",
        tp = pick { 1, 2, 8 }, pp = pick { 2, 4, 8 }, dp = pick { 1, 8 }, micro_batch = pick { 1, 2 },
        seq = pick { 128, 512, 2048 }, recompute = pick { "none", "full" }, software = pick { "none", "typical" },
        zero = pick { 0, 1 }, simulate = true,
      }
      q.global_batch = q.dp * q.micro_batch * q.pp * pick { 1, 2, 4 }
      local c = tperf.train(q)
      assert.near(1, c.simulated.time / c.time, 1e-9)
      assert.is_true(c.breakdown.bubble >= 0)
      if c.breakdown.host > 0.1 * c.time then host = host + 1 end
    end
    assert.is_true(host >= 5)
  end)

  -- dX in fp8 and dW in 16 bits: each half is the product that it is, so dW alone is as long as in a run in bf16.
  it("takes for the weights what their product takes, in its own precision", function()
    local question = { model = MODEL, system = "h100-sxm", schedule = "zb1p", pp = 2, tp = 1, global_batch = 8,
      micro_batch = 1, software = "none" }
    local input, weight = halves(question)
    local mixed_input, mixed_weight = halves(copy(question,
      { precision = { recipe = "fp8-block", weight_grad = "bf16" } }))
    local narrow_input, narrow_weight = halves(copy(question, { precision = "fp8-block" }))
    assert.near(1, mixed_weight / weight, 0.01)
    assert.is_true(narrow_weight < 0.75 * weight)
    assert.near(1, mixed_input / narrow_input, 0.03)
    assert.is_true(narrow_input < 0.85 * input)
  end)

  -- A host of 200 us a launch: forward passes launch one kernel a product, backward ones two, one in each half.
  it("waits for the host's launches in the half that they belong to", function()
    local question = { model = MODEL, system = "h100-sxm", rules = EQUAL, schedule = "zb1p", pp = 2, tp = 8, seq = 128,
      global_batch = 8, micro_batch = 1, software = STACK }
    local input, weight = halves(question)
    local products = 4 -- of a layer: qkv, the output projection, and the two of the MLP
    assert.near(products * 200e-6 * MODEL.layers / 2, weight, 1e-6)
    assert.is_true(input > weight)
  end)

  it("is never slower on a faster machine, nor its bubble negative", function()
    local pick, tried = picker(20272), 0
    for _ = 1, cases(60, 4000) do
      local system = tperf.system(pick { "h100-sxm", "a100-sxm-80gb", "b200-sxm", "v100-sxm" })
      local q = { model = pick { "llama-3.1-8b", "llama-2-13b", "mixtral-8x7b", "qwen3-30b-a3b" }, system = system,
        pp = pick { 2, 4, 8 }, tp = pick { 1, 2, 8 }, dp = pick { 1, 4 }, micro_batch = pick { 1, 2 },
        seq = pick { 512, 2048 }, schedule = pick { "zb1p", "dualpipe", "dualpipe_v" }, zero = pick { 0, 1 },
        software = pick { "none", "typical" }, recompute = pick { "none", "selective", "full" } }
      q.global_batch = q.dp * q.micro_batch * q.pp * pick { 2, 4 }
      local faster = pick {
        { accelerator = { hbm = { bandwidth = 2 * system.accelerator.hbm.bandwidth } } },
        { accelerator = { tensor = { bf16 = 4 * system.accelerator.tensor.bf16 } } },
        { network = { fast = { bandwidth = 2 * system.network.fast.bandwidth } } },
        { network = { slow = { bandwidth = 2 * system.network.slow.bandwidth } } },
      }
      local ok, slow = pcall(tperf.train, q)
      if ok then
        tried, q.system, q.fast = tried + 1, system:with(faster), slow.fast
        assert.is_true(slow.breakdown.bubble >= 0)
        local ratio = tperf.train(q).time / slow.time
        -- What faster collectives no longer hide may lengthen a half: one of 4,000 draws is 0.04 % slower.
        assert.is_true(ratio <= 1.001, ("%s, %s: %.4f"):format(q.schedule, q.software, ratio))
      end
    end
    assert.is_true(tried > 20, tried .. " tried")
  end)
end)
