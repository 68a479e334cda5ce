-- tperf.serve against queueing theory, for cases that match such a queue exactly or in a stated limit.
local cases = require "cases"
local tperf = require "tperf"

local STEP <const> = 1e-3

-- One step serves one request from start to end: a queue with one server and constant service time. A request that
-- finds the engine idle starts a step at once, so nothing is rounded up to steps.
local function single(load, seed, count)
  return { step_time = { fixed = STEP }, engine = { max_num_seqs = 1 }, load = load, count = count, prompt = 1,
    output = 1, seed = seed }
end

-- The probability of waiting in M/M/k (Erlang C).
local function erlang_c(k, load)
  local sum, term, offered = 0, 1, k * load
  for n = 0, k - 1 do sum, term = sum + term, term * offered / (n + 1) end
  return term / (1 - load) / (sum + term / (1 - load))
end

-- The mean of a figure over seeds.
local function mean(seeds, of)
  local sum = 0
  for seed = 1, seeds do sum = sum + of(seed) end
  return sum / seeds
end

local function near(want, got, part)
  assert.truthy(math.abs(got / want - 1) <= part, ("%.6g, want %.6g within %g %%"):format(got, want, 100 * part))
end

describe("a queue of one server", function()
  for _, load in ipairs { 0.3, 0.5, 0.7 } do
    it("with constant service matches Pollaczek and Khinchine's formula, at a load of " .. load, function()
      local wait = mean(6, function(seed)
        return tperf.serve(single({ rate = load / STEP }, seed, cases(80000, 200000))).ttft.mean - STEP
      end)
      near(load * STEP / (2 * (1 - load)), wait, 0.01)
    end)
  end

  it("with geometric service matches Pollaczek and Khinchine's formula", function()
    local load, a = 0.5, 20 -- a prompt of one token: as many steps as tokens
    local wait = mean(6, function(seed)
      local question = single({ rate = load / (a * STEP) }, seed, cases(50000, 100000))
      question.output = { exponential = a }
      local r = tperf.serve(question)
      return r.e2e.mean - r.output_tokens / r.finished * STEP
    end)
    near(load / a * (2 * a * a - a) / (2 * (1 - load)) * STEP, wait, 0.015)
  end)

  it("starts and ends each request as Lindley's recursion says, to the nanosecond", function()
    local question = single({ rate = 0.9 / STEP, process = "gamma", cv = 2 }, 3, 5000)
    question.keep, question.output = "requests", { uniform = { 1, 3 } }
    question.load.rate = 0.45 / STEP
    local function ns(seconds) return math.floor(seconds * 1e9 + 0.5) end
    local free, waited = 0, 0
    for _, r in ipairs(tperf.serve(question).requests) do
      local start = math.max(free, ns(r.arrival))
      free = start + r.tokens * ns(STEP)
      if start > ns(r.arrival) then waited = waited + 1 end
      assert.equal(start, ns(r.first_scheduled))
      assert.equal(free, ns(r.last_token))
    end
    assert.truthy(waited > 2000)
  end)
end)

describe("a queue of k servers", function()
  -- Answers of many steps, in lockstep: service is exponential in the limit. The formula lacks an arrival's wait for
  -- the end of the running step, less than one step of a hundred.
  it("matches Erlang's formula for long answers", function()
    local k, load, a = 4, 0.6, 100
    local e2e = mean(4, function(seed)
      return tperf.serve { step_time = { fixed = STEP }, engine = { max_num_seqs = k }, prompt = 1,
        output = { exponential = a }, load = { rate = load * k / (a * STEP) }, count = 60000, seed = seed }.e2e.mean
    end)
    near((a + erlang_c(k, load) * a / (k * (1 - load))) * STEP, e2e, 0.01)
  end)
end)

describe("Little's law", function()
  it("holds exactly: requests in the system are the throughput times their time in it", function()
    local r = tperf.serve { step_time = { fixed = 5e-3, per_token = 2e-5 }, load = { rate = 20 }, count = 2000,
      prompt = { uniform = { 10, 2000 } }, output = { exponential = 100 }, keep = "requests" }
    local changes, area, present, last = {}, 0, 0, 0
    for _, q in ipairs(r.requests) do
      changes[#changes + 1] = { at = q.arrival, by = 1 }
      changes[#changes + 1] = { at = q.last_token, by = -1 }
    end
    table.sort(changes, function(a, b) return a.at < b.at end)
    for _, change in ipairs(changes) do
      area, last = area + present * (change.at - last), change.at
      present = present + change.by
    end
    local all = r.whole
    assert.truthy(math.abs(area / r.duration / (all.requests_per_second * all.e2e.mean) - 1) < 1e-9)
  end)

  it("gives a closed loop's concurrency", function()
    local r = tperf.serve { step_time = { fixed = 5e-3 }, load = { concurrency = 32 }, count = 20000, prompt = 100,
      output = 50 }
    near(32, r.concurrency, 0.005) -- all but the last ones
    near(32 / (50 * 5e-3), r.requests_per_second, 0.005)
  end)
end)

describe("a rate beyond saturation", function()
  local function at(rate, count)
    return tperf.serve { step_time = { fixed = 10e-3 }, engine = { max_num_seqs = 8 }, prompt = 100, output = 20,
      load = { rate = rate }, count = count, seed = 5 }
  end

  it("is reported, and served at full throughput", function()
    local most = 8 / (20 * 10e-3) -- per second
    for _, count in ipairs { 300, 3000 } do
      assert.is_false(at(0.7 * most, count).saturated)
      local over = at(1.5 * most, count)
      assert.is_true(over.saturated)
      near(most, over.requests_per_second, 0.03) -- the first and the last steps are not full
      assert.truthy(over.utilization > 0.99)
    end
  end)
end)

describe("the margin of a figure", function()
  local WAIT <const>, LOAD <const> = 0.5 * STEP / (2 * 0.5), 0.5 -- Pollaczek and Khinchine

  it("covers the true mean in about nineteen runs of twenty", function()
    local covered = 0
    for seed = 1, 60 do
      local t = tperf.serve(single({ rate = LOAD / STEP }, seed, 5000)).ttft
      if math.abs(t.mean - STEP - WAIT) <= t.margin.mean then covered = covered + 1 end
    end
    assert.is_true(covered >= 52 and covered < 60, ("%d of 60"):format(covered))
  end)

  it("covers the quantiles of a run that is thirty times as long", function()
    local long = tperf.serve(single({ rate = LOAD / STEP }, 1000, 300000)).ttft
    local covered = { p90 = 0, p99 = 0 }
    for seed = 1, 40 do
      local t = tperf.serve(single({ rate = LOAD / STEP }, seed, 10000)).ttft
      for name, count in pairs(covered) do
        if math.abs(t[name] - long[name]) <= t.margin[name] then covered[name] = count + 1 end
      end
    end
    for name, count in pairs(covered) do
      assert.is_true(count >= 33, ("%s: %d of 40"):format(name, count))
    end
  end)

  it("follows Student's t over the sections, and is absent if requests are too few", function()
    -- ten sections of five answers that take their section's number of steps each, one after the other
    local requests = {}
    for i = 0, 49 do requests[i + 1] = { arrival = i, prompt = 1, output = i // 5 + 1 } end
    local q = { step_time = { fixed = STEP }, requests = requests }
    local e2e = tperf.serve(q).e2e
    assert.near(5.5 * STEP, e2e.mean, 1e-12)
    assert.near(2.262 * math.sqrt(82.5 / 9 / 10) * STEP, e2e.margin.mean, 1e-9) -- 82.5: sum of (k - 5.5)^2, k = 1 … 10
    assert.is_nil(e2e.margin.p50)
    requests[50] = nil
    assert.is_nil(tperf.serve(q).e2e.margin.mean)
  end)
end)
