-- GPUs of unequal speed: the maximum of many normal variables, and a step that waits for the slowest GPU.
local cases = require "cases"
local tperf = require "tperf"
local normal = require "tperf.question.goodput.normal"

describe("the normal distribution", function()
  it("matches published tables", function()
    -- Abramowitz and Stegun, table 26.1.
    for z, below in pairs { [0] = 0.5, [1] = 0.841344746068543, [2] = 0.977249868051821, [3] = 0.998650101968370 } do
      assert.near(below, normal.below(z), 1e-14)
      assert.near(1 - below, normal.below(-z), 1e-14)
    end
    assert.near(9.865876450376946e-10, normal.below(-6), 1e-23) -- Q(6)
    assert.near(1.959963984540054, normal.quantile(0.975), 1e-12)
    assert.near(-3.090232306167813, normal.quantile(0.001), 1e-12)
    assert.same({ 1.0, 0.0 }, { normal.below(50), normal.below(-50) })
  end)

  it("gives the expected largest of n numbers", function()
    -- In closed form for 2 and 3; Harter's table (Biometrika 48 (1961) 151) for others.
    assert.near(0, normal.expected_largest(1), 1e-12)
    assert.near(1 / math.sqrt(math.pi), normal.expected_largest(2), 1e-9)
    assert.near(1.5 / math.sqrt(math.pi), normal.expected_largest(3), 1e-9)
    for n, expected in pairs { [8] = 1.42360, [10] = 1.53875, [100] = 2.50759 } do
      assert.near(expected, normal.expected_largest(n), 5e-6)
    end
    -- Blom's approximation: Φ⁻¹((n - 0.375) / (n + 0.25)).
    assert.near(normal.quantile((16384 - 0.375) / 16384.25), normal.expected_largest(16384), 0.02)
    -- Each number is below the median of the largest of n with a probability of 0.5^(1/n).
    assert.near(normal.quantile(0.5 ^ (1 / 50)), normal.largest_quantile(50, 0.5), 1e-9)
  end)
end)

-- A step of `dp` pipelines of `pp` stages of `stage` GPUs, drawn again and again: micro-batches pass a pipeline at the
-- pace of its slowest stage, and its ends take each of the other stages once more.
local function drawn(dp, pp, stage, work, bubble, deviation, screened)
  local function gpu()
    local z
    repeat z = math.sqrt(-2 * math.log(1 - math.random())) * math.cos(2 * math.pi * math.random())
    until not screened or deviation * z <= screened
    return 1 + deviation * z
  end
  local step = 0
  for _ = 1, dp do
    local sum, slowest = 0, 0
    for _ = 1, pp do
      local slow = 0
      for _ = 1, stage do slow = math.max(slow, gpu()) end
      sum, slowest = sum + slow, math.max(slowest, slow)
    end
    step = math.max(step, work * slowest + (pp > 1 and bubble * (sum - slowest) / (pp - 1) or 0))
  end
  return step
end

describe("straggling", function()
  local function train(given)
    for name, value in pairs { model = "llama-2-7b", system = "h100-sxm", global_batch = 64, software = "none",
      data_overlap = false } do given[name] = value end
    return tperf.train(given)
  end

  it("matches steps drawn one by one", function()
    math.randomseed(7)
    for _, o in ipairs { { dp = 4, pp = 4, tp = 8 }, { dp = 32, pp = 1, tp = 1 }, { dp = 2, pp = 8, tp = 2,
      screened = 0.03 } } do
      local plain = train { dp = o.dp, pp = o.pp, tp = o.tp }
      local c = train { dp = o.dp, pp = o.pp, tp = o.tp,
        straggling = o.screened and { deviation = 0.02, screened = o.screened } or 0.02 }
      local b = plain.breakdown
      local waiting = b.bubble * b.compute / (b.compute + b.memory + b.tensor_comm)
      local sum, steps, list = 0, cases(1000, 3000), {}
      for i = 1, steps do
        list[i] = drawn(o.dp, o.pp, o.tp, b.compute, waiting, 0.02, o.screened) - b.compute - waiting
        sum = sum + list[i]
      end
      table.sort(list)
      local s = c.straggling
      assert.near(sum / steps, s.seconds, 0.05 * s.seconds)
      assert.near(list[steps // 20], s.low, 0.08 * s.seconds)
      assert.near(list[steps - steps // 20], s.high, 0.08 * s.seconds)
    end
  end)

  it("is part of the time, and of all figures derived from it", function()
    local plain, c = train { dp = 8 }, train { dp = 8, straggling = 0.05, explain = true }
    assert.near(plain.time + c.straggling.seconds, c.time, 1e-12)
    assert.equal(c.straggling.seconds, c.breakdown.straggling)
    local sum = 0
    for _, seconds in pairs(c.breakdown) do sum = sum + seconds end
    assert.near(c.time, sum, 1e-9 * sum)
    assert.near(plain.mfu * plain.time / c.time, c.mfu, 1e-12)
    assert.near(64 * 4096 / c.time, c.tokens_per_second, 1e-6)
    assert.near(c.time, c.sum[#c.sum].seconds, 1e-9 * c.time)
    -- One GPU is as slow as the others on average; the mean of the largest of 8 is 1.4236 deviations.
    assert.near(1 + 0.05 * 1.42360, c.straggling.slowest, 1e-6)
    assert.near(0, train({ straggling = 0.05, zero = 3, recompute = "full", dp = 1 }).straggling.seconds, 1e-9)
    assert.is_nil(plain.straggling)
  end)

  it("may be given once: for the step or for the cost", function()
    local plain, c = train { dp = 8 }, train { dp = 8, straggling = 0.05 }
    local question = { tokens = 1e12, straggling = 0.05 }
    local cost = tperf.cost(plain, question)
    assert.near(tperf.cost(c, { tokens = 1e12 }).seconds, cost.seconds, 1e-6 * cost.seconds)
    assert.is_true(cost.low.seconds < cost.seconds and cost.seconds < cost.high.seconds)
    for message, call in pairs {
      ["is in the configuration's time already"] = function() tperf.cost(c, question) end,
      ["needs a configuration with its breakdown"] = function()
        tperf.cost({ gpus = 8, tokens_per_second = 1 }, question)
      end,
      ["'straggling' must be a number from 0 to 0.5, got -0.1"] = function() train { dp = 8, straggling = -0.1 } end,
      ["'straggling.deviation' is missing"] = function() train { dp = 8, straggling = {} } end,
    } do
      local ok, text = pcall(call)
      assert.is_false(ok)
      assert.truthy(text:find(message, 1, true), text)
    end
  end)
end)
