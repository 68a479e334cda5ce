-- Questions built on tperf.serve: saturation, the smallest deployment for a rate, latency against load, and their
-- plots.
local cases = require "cases"
local serving = require "tperf.plot.serving"
local tperf = require "tperf"

local STEP <const> = 1e-3

-- A queue with one server and constant service.
local function single(more)
  local q = { step_time = { fixed = STEP }, engine = { max_num_seqs = 1 }, prompt = 1, output = 1 }
  for name, value in pairs(more or {}) do q[name] = value end
  return q
end

local function priced(more)
  local q = { model = "llama-3.1-8b", system = "h100-sxm",
    prompt = { lognormal = { median = 500, sigma = 0.5 }, max = 3000 },
    output = { exponential = 100, max = 1000 }, slo = { ttft = "300 ms", tpot = "15 ms", quantile = 0.9 } }
  for name, value in pairs(more or {}) do q[name] = value end
  return q
end

local function raised(f, q)
  local ok, message = pcall(f, q)
  assert.is_false(ok)
  return message
end

-- The probability of waiting at most t services in M/D/1 (Erlang, 1909).
local function md1(load, t)
  local sum, factorial = 0, 1
  for j = 0, math.floor(t) do
    if j > 0 then factorial = factorial * j end
    sum = sum + (load * (j - t)) ^ j / factorial * math.exp(-load * (j - t))
  end
  return (1 - load) * sum
end

local function load_where(part, t)
  local low, high = 0, 1
  while high - low > 1e-9 do
    local middle = (low + high) / 2
    if md1(middle, t) >= part then low = middle else high = middle end
  end
  return low
end

describe("tperf.saturation", function()
  it("finds the rate at which M/D/1 keeps its limit as often as asked", function()
    for _, part in ipairs { 0.8, 0.95 } do
      local found = tperf.saturation(single { slo = { e2e = 3 * STEP, quantile = part },
        count = cases(30000, 200000) })
      local want = load_where(part, 2) / STEP
      assert.is_true(math.abs(found.rate / want - 1) < 0.02, ("%g, want %g"):format(found.rate, want))
      assert.is_true(found.above > found.rate and found.above <= 1.011 * found.rate)
      assert.is_true(found.served.attainment >= part)
    end
  end)

  it("finds the throughput if there is no limit", function()
    local found = tperf.saturation(single { count = cases(30000, 100000) })
    assert.is_true(found.rate > 0.9 / STEP and found.rate < 1.1 / STEP, found.rate)
  end)

  it("gives the reason if no rate holds", function()
    local found = tperf.saturation(single { slo = { e2e = STEP / 2 } })
    assert.equal(0, found.rate)
    assert.matches("^one after the other, 0 %% of the requests keep the limits %(99 %% are below ttft 1%.00 ms",
      found.reason)
  end)

  it("refuses a rate, and names mistakes at the user's line", function()
    assert.matches("^spec/serve_answers_spec.lua:%d+: tperf.saturation: 'load.rate' does not go with it",
      raised(function(q) return tperf.saturation(q) end, single { load = { rate = 5 } }))
    assert.matches("tperf.serve: unknown .*'promt'", raised(tperf.saturation, single { promt = 5 }))
  end)
end)

describe("tperf.search_serving", function()
  local RATE <const> = 60

  local function search(more)
    local q = priced { rate = RATE, tp = { 1, 2 }, max_num_seqs = 256, max_num_batched_tokens = { 1024, 4096 } }
    for name, value in pairs(more or {}) do q[name] = value end
    return tperf.search_serving(q)
  end

  -- Tries each deployment with one replica, with two, and so on.
  local function by_trying_all()
    local fewest = math.huge
    for _, tp in ipairs { 1, 2 } do
      for _, tokens in ipairs { 1024, 4096 } do
        for replicas = 1, 8 do
          local r = tperf.serve(priced { tp = tp, replicas = replicas, load = { rate = RATE }, count = 2000,
            engine = { max_num_seqs = 256, max_num_batched_tokens = tokens } })
          if r.slo_met and not r.saturated then
            fewest = math.min(fewest, tp * replicas)
            break
          end
        end
      end
    end
    return fewest
  end

  it("serves the rate with as few GPUs as trying all finds", function()
    local found = search()
    assert.equal(by_trying_all(), found[1].gpus)
    assert.equal(4, found.candidates)
    for i, d in ipairs(found) do
      assert.is_true(d.served.slo_met)
      assert.equal(d.tp * d.replicas, d.gpus)
      assert.is_true(i == 1 or d.gpus >= found[i - 1].gpus)
    end
  end)

  it("returns the same for every number of threads", function()
    local function by(threads)
      return search { threads = threads, pareto = true, max_num_seqs = 32,
        max_num_batched_tokens = cases({ 4096 }, { 1024, 4096 }) }
    end
    assert.are.same(by(1), by(3))
  end)

  it("shares experts over as many replicas as they need to fit", function()
    local found = tperf.search_serving { model = "mixtral-8x22b", system = "h100-sxm", rate = 2, tp = 2, ep = { 1, 4 },
      prompt = 500, output = 30, slo = { ttft = "2 s", tpot = "100 ms" }, max_num_seqs = 256 }
    assert.equal(4, found[1].ep)
    assert.equal(0, found[1].replicas % 4)
    assert.equal(2 * found[1].replicas, found[1].gpus)
  end)

  it("finds the front of tokens per user and per GPU, from a lone request to a full engine", function()
    local front = tperf.search_serving(priced { pareto = true, tp = { 1, 4 }, max_num_seqs = 64 }).pareto
    for i = 2, #front do
      assert.is_true(front[i].per_user > front[i - 1].per_user)
      assert.is_true(front[i].per_gpu < front[i - 1].per_gpu)
    end
    assert.equal(1, front[#front].concurrency)
    assert.equal(4, front[#front].tp)
    assert.equal(64, front[1].concurrency)
  end)

  it("gives the reason if there is no deployment", function()
    assert.matches("of the requests keep the limits", search { slo = { tpot = "1 ms" } }.reason)
    assert.equal("1 GPU is not enough", search { gpus = 1, tp = 1 }.reason)
    assert.matches("tperf.search_serving: leave out 'replicas'", raised(search, { replicas = 2 }))
    assert.matches("tperf.search_serving: 'engine.max_num_seqs' is looked for",
      raised(search, { engine = { max_num_seqs = 3 } }))
    assert.matches("'rate' is missing", raised(tperf.search_serving, priced()))
  end)
end)

describe("tperf.load_curve", function()
  it("answers at rising rates up to saturation", function()
    local q = single { engine = { max_num_seqs = 1 }, points = 6, count = 20000 }
    local rows = tperf.load_curve(q)
    assert.equal(6, #rows)
    for i = 2, 6 do
      assert.is_true(rows[i].rate > rows[i - 1].rate)
      assert.is_true(rows[i].served.ttft.mean > rows[i - 1].served.ttft.mean)
    end
    assert.is_true(rows[6].rate > 0.9 / STEP)
    assert.is_false(rows[6].served.saturated)
  end)

  it("refuses a rate, and plots refuse what they cannot draw", function()
    for message, f in pairs {
      ["tperf.load_curve: 'load.rate' does not go with it"] = function()
        tperf.load_curve(single { load = { rate = 3 } })
      end,
      ["tperf.saturation: 'load' must be a table, got 7"] = function() tperf.saturation(single { load = 7 }) end,
      ["plot.load: 'rows%[1%]' must be a table"] = function() tperf.plot.load { rows = { 1 } } end,
      ["plot.requests: 'result' must be"] = function() tperf.plot.requests { result = { requests = { 1 } } } end,
      ["plot.occupancy: 'result' must be"] = function() tperf.plot.occupancy { result = { steps = { {} } } } end,
      ["tperf.search_serving: 'system' is missing"] = function()
        tperf.search_serving { model = "llama-3.1-8b", rate = 3 }
      end,
    } do
      assert.matches("^spec/serve_answers_spec.lua:%d+: " .. message, raised(f))
    end
  end)

  it("takes rates, and draws them with the limits", function()
    local q = priced { rates = { 5, 10, 20 }, count = 200 }
    local rows = tperf.load_curve(q)
    assert.are.same({ 5, 10, 20 }, { rows[1].rate, rows[2].rate, rows[3].rate })
    local svg = tperf.plot.load { rows = rows, slo = q.slo }:svg()
    for _, text in ipairs { "Time to first token", "Time per output token", "p99", "limit", "Requests a second" } do
      assert.truthy(svg:find(text, 1, true), text)
    end
  end)
end)

describe("plots of a run", function()
  local requests = {}
  for i = 0, 4 do requests[i + 1] = { arrival = 0.1 * STEP, prompt = 10, output = i + 1 } end
  local function run(keep)
    return tperf.serve { step_time = { fixed = STEP }, engine = { max_num_seqs = 2, num_blocks = 11, block_size = 4 },
      requests = requests, keep = keep }
  end

  it("draw each request's waiting, prefill and decoding", function()
    local p = tperf.plot.requests { result = run "requests" }
    assert.equal("Gantt chart of 15 spans in 5 lanes.", p.description)
    local text = p:text { ascii = true, width = 60, height = 20 }
    -- two run at a time: the third waits for the end of the first, its first step, and decodes for two more
    assert.matches("\n +1  =", text)
    assert.matches("\n +3  %.+=+#+\n", text)
    assert.matches("%. waiting   = prefill   # decoding", text)
    assert.matches("plot.requests: 'result' must be tperf.serve's answer with requests: ask for keep = \"requests\"",
      raised(tperf.plot.requests, { result = run() }))
  end)

  it("draw an engine's occupancy", function()
    local result = run "steps"
    local rows = serving.held(result)
    -- requests of 10 tokens and more have 3 blocks of 4 each, of the 10 that can be used
    assert.are.same({ 0.6, 2, 3 }, { rows[1].part, rows[1].running, rows[1].waiting })
    assert.are.same({ 1, 0 }, { rows[#rows].running, rows[#rows].waiting })
    local svg = tperf.plot.occupancy { result = result }:svg()
    for _, text in ipairs { "KV cache in use", "running", "waiting" } do assert.truthy(svg:find(text, 1, true)) end
    assert.matches("ask for keep = \"steps\"", raised(tperf.plot.occupancy, { result = run "requests" }))
  end)
end)
