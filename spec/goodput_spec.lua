-- The cost of failures: the closed form against independent simulations of single failures.
local tperf = require "tperf"
local daly = require "tperf.question.goodput.daly"
local poisson = require "tperf.question.goodput.poisson"

local row = { gpus = 1000, tokens_per_second = 1e6, time = 10, checkpoint_bytes = 14e12 }

local function cost(given)
  given.tokens = given.tokens or 1e12
  return tperf.cost(row, given)
end

-- Simulates one run from event to event: work, saves, failures, restarts. A save takes effect `lag` seconds after work
-- resumes; a failure loses all unsaved work.
local function simulate(work, o)
  local now, done, saved, failures = 0.0, 0.0, 0.0, 0
  local function next_failure() return now - math.log(1 - math.random()) * o.mtbf end
  local failure = next_failure()
  local pending -- { work, when the save takes effect }
  local function fail()
    now, failures, done = failure, failures + 1, saved
    pending = nil
    failure = next_failure()
    while failure < now + o.restart do
      now, failures = failure, failures + 1
      failure = next_failure()
    end
    now = now + o.restart
  end
  local function settle(till)
    if pending and pending[2] <= till then saved, pending = pending[1], nil end
  end
  while saved < work do
    local till = now + o.interval + o.block
    settle(math.min(till, failure))
    if failure < till then
      fail()
    else
      now, done = till, done + o.interval
      if o.lag == 0 then saved = done else pending = { done, now + o.lag } end
      if done >= work and o.lag > 0 then -- the last save is written out before the run ends
        if failure < now + o.lag then fail() else now, saved = now + o.lag, done end
      end
    end
  end
  return now, failures
end

-- The means of many runs, and the standard error of the mean time.
local function simulated(work, o, runs)
  math.randomseed(20241115)
  local sum, squares, failures = 0.0, 0.0, 0
  for _ = 1, runs do
    local time, count = simulate(work, o)
    sum, squares, failures = sum + time, squares + time * time, failures + count
  end
  local mean = sum / runs
  local deviation = math.sqrt(squares / runs - mean * mean)
  return mean, deviation / math.sqrt(runs), failures / runs, deviation
end

describe("the time of a run with failures", function()
  it("matches failures simulated one by one, with synchronous saves", function()
    for _, o in ipairs {
      { mtbf = 10000, interval = 1000, block = 50, restart = 300, lag = 0 },
      { mtbf = 1000, interval = 400, block = 100, restart = 500, lag = 0 },
    } do
      local work = 200 * o.interval
      local mean, uncertain, failures = simulated(work, o, 400)
      local wall = daly.wall(work, o.interval, o.block, o.restart, 0, o.mtbf)
      assert.near(wall, mean, 3 * uncertain)
      assert.near(wall / o.mtbf, failures, 0.02 * failures)
      assert.is_true(uncertain < 0.01 * mean)
    end
  end)

  it("matches failures simulated one by one, with asynchronous saves", function()
    local o = { mtbf = 3000, interval = 600, block = 20, restart = 200, lag = 500 }
    local mean, uncertain = simulated(200 * o.interval, o, 400)
    assert.near(daly.wall(200 * o.interval, o.interval, o.block, o.restart, o.lag, o.mtbf), mean, 3 * uncertain)
    local at_once = daly.wall(200 * o.interval, o.interval, o.block, o.restart, 0, o.mtbf)
    assert.is_true(mean > at_once + 10 * uncertain) -- the lag costs something
  end)

  it("has the spread of those runs", function()
    local o = { mtbf = 10000, interval = 1000, block = 50, restart = 300, lag = 0 }
    local _, _, _, deviation = simulated(200 * o.interval, o, 2000)
    local c = cost { tokens = 200 * o.interval * 1e6, mtbf = { cluster = o.mtbf },
      checkpoint = { interval = 1000, write = 50, load = 0 }, restart = 300 }
    -- From 5 % to 95 % of a normal distribution there are 2 x 1.645 standard deviations.
    assert.near(2 * 1.645 * deviation, c.high.seconds - c.low.seconds, 0.12 * 3.29 * deviation)
  end)
end)

describe("the best interval", function()
  -- Found by a scan, not by the formula.
  local function least(block, mtbf)
    local best, shortest
    for step = 1, 4000 do
      local interval = mtbf * 10 ^ (-4 + step / 1000)
      local wall = mtbf * (math.exp((interval + block) / mtbf) - 1) / interval
      if not shortest or wall < shortest then best, shortest = interval, wall end
    end
    return best
  end

  it("is Young's and Daly's for short saves, and Daly's for long ones", function()
    for _, mtbf in ipairs { 3600, 86400 } do
      local block = 1e-4 * mtbf
      assert.near(1, daly.young(block, mtbf) / least(block, mtbf), 0.01)
      assert.near(1, daly.higher_order(block, mtbf) / least(block, mtbf), 0.01)
      assert.near(1, daly.best(block, mtbf) / least(block, mtbf), 0.003)
      assert.near(1, daly.higher_order(0.3 * mtbf, mtbf) / least(0.3 * mtbf, mtbf), 0.03)
      assert.near(1, daly.best(0.3 * mtbf, mtbf) / least(0.3 * mtbf, mtbf), 0.003)
      assert.is_true(math.abs(daly.young(0.3 * mtbf, mtbf) / least(0.3 * mtbf, mtbf) - 1) > 0.2)
    end
    assert.equal(50, daly.higher_order(100, 50))
  end)

  it("is the default, and never shorter than a save takes", function()
    local c = cost { mtbf = { cluster = "3 h" }, checkpoint = { write = 30 }, restart = 600 }
    assert.equal(daly.best(30, 10800), c.checkpoint.interval)
    assert.near(math.sqrt(2 * 30 * 10800), c.checkpoint.young, 1e-9)
    for _, interval in ipairs { c.checkpoint.interval / 2, c.checkpoint.interval * 2 } do
      local other = cost { mtbf = { cluster = "3 h" }, checkpoint = { write = 30, interval = interval }, restart = 600 }
      assert.is_true(other.seconds > c.seconds)
    end
    local behind = cost { mtbf = { cluster = "3 h" }, restart = 600,
      checkpoint = { write = 300, async = true, block = 1 } }
    assert.equal(300, behind.checkpoint.interval) -- √(2 x 1 x 10800) = 147
  end)
end)

describe("quantiles of Poisson's distribution", function()
  it("match published tables", function()
    -- Pearson and Hartley, table 7: P(X <= 4 | 2) = 0.947, P(X <= 5 | 2) = 0.983; P(X <= 15 | 10) = 0.951.
    assert.same({ 0, 5, 15, 5 }, { poisson.quantile(2, 0.05), poisson.quantile(2, 0.95), poisson.quantile(10, 0.95),
      poisson.quantile(10, 0.05) })
    assert.near(poisson.quantile(499.9, 0.95), poisson.quantile(500.1, 0.95), 1)
    assert.near(poisson.quantile(499.9, 0.05), poisson.quantile(500.1, 0.05), 1)
  end)
end)

describe("tperf.cost with failures", function()
  it("adds up to the whole time", function()
    local c = cost { mtbf = { gpu = 1e7 }, checkpoint = { bandwidth = "1 GB/s" }, restart = "5 min", detection = 60,
      price = 2, power = 500, carbon = 360, pue = 1.2, spares = { nodes = 2, repair = "8 h", gpus_per_node = 8 } }
    assert.equal(1e4, c.mtbf)
    assert.equal(14, c.checkpoint.write) -- 14 TB by 1,000 GPUs of 1 GB/s
    local lost = c.lost.checkpoints + c.lost.rework + c.lost.restarts + c.lost.waiting
    assert.near(c.seconds, 1e6 + lost, 1e-6 * c.seconds)
    assert.near(c.goodput, 1e6 / c.seconds, 1e-12)
    -- Down for 300 + 60 + 14 seconds after each failure; the number of failures is proportional to the run's length.
    assert.near(c.lost.restarts, c.failures * 374, 0.05 * c.lost.restarts)
    assert.near(c.failures, (c.seconds - c.lost.waiting) / 1e4, 1e-6 * c.failures)
    assert.near(c.seconds / 3600 * 1016, c.gpu_hours, 1e-6 * c.gpu_hours)
    assert.near(2 * c.gpu_hours, c.dollars, 1e-6 * c.dollars)
    assert.near(1000 * 500 * 1.2 * c.seconds, c.energy, 1e-6 * c.energy)
    assert.near(c.energy / 3.6e6 * 0.36, c.co2, 1e-6 * c.co2)
    assert.is_true(c.low.days < c.days and c.days < c.high.days)
    assert.near(c.high.dollars / c.dollars, c.high.days / c.days, 1e-12)
  end)

  it("reads failures of a GPU, of a node or of all of them", function()
    local function mtbf(given) return cost { mtbf = given, checkpoint = { write = 1 }, restart = 1 }.mtbf end
    assert.equal(7200, mtbf { cluster = "2 h" })
    assert.equal(3600, mtbf { gpu = "1000 h" })
    assert.equal(3600, mtbf { node = "125 h", gpus_per_node = 8 })
    local c = cost { mtbf = { node = "125 h" }, checkpoint = { write = 1 }, restart = 1, system = "h100-sxm" }
    assert.equal(3600, c.mtbf)
  end)

  it("waits for a spare node as Erlang's loss system does", function()
    -- One server and a load of 1: blocked half of the time; two: a fifth.
    local function waiting(nodes)
      local c = cost { mtbf = { cluster = 10000 }, checkpoint = { write = 1 }, restart = 1,
        spares = { nodes = nodes, repair = 10000, gpus_per_node = 8 } }
      return c.lost.waiting / c.seconds
    end
    assert.near(1 / 2, waiting(0), 1e-9)
    assert.near(1 / 5, waiting(1), 1e-9)
    assert.is_true(waiting(8) < 1e-5)
  end)

  it("accepts saves without failures, and intervals in iterations", function()
    local c = cost { checkpoint = { steps = 100, write = 30 } } -- 1e6 s of work in intervals of 1,000 s
    assert.near(1e6 + 1000 * 30, c.seconds, 1e-6)
    assert.is_nil(c.failures)
    assert.is_nil(c.low)
  end)

  it("joins the software's interval with that of failures", function()
    local with = { gpus = 1000, tokens_per_second = 1e6, time = 10, interval = { low = 8, high = 15 } }
    local plain = tperf.cost(with, { tokens = 1e12 })
    assert.near(0.8, plain.low.days / plain.days, 1e-12)
    assert.near(1.5, plain.high.days / plain.days, 1e-12)
    local failing = { tokens = 1e12, mtbf = { cluster = 1e5 }, checkpoint = { write = 30 }, restart = 600 }
    local both, alone = tperf.cost(with, failing), cost(failing)
    assert.is_true(both.high.days / both.days > 1.5)
    local function log2(c) return math.log(c.high.days / c.days) ^ 2 end
    assert.near(math.log(1.5) ^ 2 + log2(alone), log2(both), 1e-9)
  end)

  it("refuses impossible values, and names missing ones", function()
    local saves = { write = 30 }
    for message, given in pairs {
      ["'mtbf.gpu' must be a quantity above 0"] = { mtbf = { gpu = -5 } },
      ["a unit is needed, got '5'"] = { mtbf = { gpu = "5" } },
      ["needs one of gpu, node and cluster"] = { mtbf = {}, checkpoint = saves, restart = 1 },
      ["Got gpu and cluster"] = { mtbf = { gpu = 1, cluster = 1 }, checkpoint = saves, restart = 1 },
      ["with 'mtbf', 'checkpoint' is missing"] = { mtbf = { cluster = 1000 } },
      ["with 'mtbf', 'restart' is missing"] = { mtbf = { cluster = 1000 }, checkpoint = saves },
      ["'restart' needs 'mtbf'"] = { restart = 5 },
      ["'spares' needs 'mtbf'"] = { spares = { nodes = 1, repair = 5 } },
      ["'checkpoint' needs 'interval', or 'mtbf'"] = { checkpoint = saves },
      ["the cluster fails every 20.00 s on average, and writing a checkpoint takes 30.00 s: no time is left"] =
        { mtbf = { cluster = 20 }, checkpoint = saves, restart = 5 },
      ["and a restart takes 16.68 min, with a checkpoint every"] = { mtbf = { cluster = 100 },
        checkpoint = { write = 1 }, restart = 1000 },
      ["the time to write is missing"] = { mtbf = { cluster = 1000 }, checkpoint = {}, restart = 1 },
      ["how long does the copy to the host stop the work?"] = { mtbf = { cluster = 1000 }, restart = 1,
        checkpoint = { write = 30, async = true } },
      ["'copy' is of a checkpoint that is written behind the work"] = { mtbf = { cluster = 1000 }, restart = 1,
        checkpoint = { write = 30, copy = 1e9 } },
      ["the interval of 10.00 s is shorter than the 30.00 s that writing"] = { mtbf = { cluster = 1000 }, restart = 1,
        checkpoint = { write = 30, async = true, block = 1, interval = 10 } },
      ["'interval' and 'steps' say the same"] = { checkpoint = { write = 1, steps = 1, interval = 10 } },
      ["a checkpoint that takes no time has no best interval"] = { mtbf = { cluster = 1000 }, restart = 1,
        checkpoint = { write = 0 } },
      ["how many GPUs has a node?"] = { mtbf = { node = 1e6 }, checkpoint = saves, restart = 1 },
      ["leave a run no time"] = { mtbf = { cluster = 1e4 }, checkpoint = saves, restart = 1,
        spares = { nodes = 0, repair = 1e9, gpus_per_node = 8 } },
      ["'carbon' needs the power of a GPU"] = { carbon = 400 },
      ["unknown field 'checkpoint.asyn' (did you mean 'async'?)"] = { checkpoint = { asyn = true } },
    } do
      local ok, text = pcall(cost, given)
      assert.is_false(ok, message)
      assert.truthy(text:find(message, 1, true), ("no %q in %q"):format(message, text))
      assert.truthy(text:find "^spec/goodput_spec.lua:%d+: ", text)
    end
    for message, c in pairs {
      ["the configuration's 'gpus' must be an integer from 1"] = { gpus = 0, tokens_per_second = 1 },
      ["the configuration's 'tokens_per_second' must be a number above 0"] = { gpus = 1, tokens_per_second = 0 / 0 },
      ["the configuration's 'interval.high' is missing"] = { gpus = 1, tokens_per_second = 1, time = 1,
        interval = { low = 1 } },
      ["the configuration's 'breakdown.compute' must be a number"] = { gpus = 1, tokens_per_second = 1, time = 1,
        breakdown = { bubble = 0, compute = "x" } },
    } do
      local ok, text = pcall(tperf.cost, c, { tokens = 1, straggling = c.breakdown and 0.01 or nil })
      assert.is_false(ok, message)
      assert.truthy(text:find(message, 1, true), text)
    end
    local ok, text = pcall(tperf.cost, { gpus = 8, tokens_per_second = 1 },
      { tokens = 1, mtbf = { cluster = 1000 }, checkpoint = { bandwidth = 1e9 }, restart = 1 })
    assert.is_false(ok)
    assert.truthy(text:find("how large is it?", 1, true), text)
  end)
end)
