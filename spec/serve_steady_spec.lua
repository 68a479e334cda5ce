-- Serving runs that reach no steady state, and speculation, whose drafts cost nothing yet: both are said in the answer.
-- Times are calculated by hand: with step_time { fixed = 20e-3 } a request of 101 tokens that waits for nothing has its
-- first token after 20 ms and its last one 2 s later.
local program = require "program"
local tperf = require "tperf"

local RESIDENCE <const> = 2.02

-- Requests that come one every 0.1 s.
local function question(count, more)
  local q = {
    step_time = { fixed = 20e-3 }, prompt = 10, output = 101, count = count, load = { rate = 10, process = "uniform" },
  }
  for name, value in pairs(more or {}) do q[name] = value end
  return q
end

local function warned(r, text)
  for _, warning in ipairs(r.warnings or {}) do
    if warning:find(text, 1, true) then return true end
  end
  return false
end

describe("a run before its steady state", function()
  it("is told by how long a request takes and how long the run is", function()
    -- 50 requests come within 4.9 s: less than 4 x 2.02 s are left between ramp-up and drain.
    local short = tperf.serve(question(50))
    assert.near(49 * 0.1 + RESIDENCE, short.duration, 0.05)
    assert.is_false(short.steady)
    assert.is_true(warned(short, "reaches no steady state"))
    -- 120 come within 11.9 s and finish within 13.9 s: 8.6 a second instead of 10, of which drain is the cause.
    local drained = tperf.serve(question(120))
    assert.near(120 / (11.9 + RESIDENCE), drained.requests_per_second, 0.05)
    assert.is_false(drained.steady)
    assert.is_true(warned(drained, "ramp-up and drain take part"))
    -- 1,000 come within 99.9 s: 9.8 a second.
    local long = tperf.serve(question(1000))
    assert.is_true(long.steady)
    assert.is_nil(long.warnings)
  end)

  it("is told of closed loops and of loads that outrun the engine, by the rate of the middle", function()
    local function closed(count)
      return tperf.serve(question(count, { load = { concurrency = 16 } }))
    end
    assert.is_true(warned(closed(32), "reaches no steady state"))
    assert.is_true(closed(1600).steady)
    -- Sixteen at a time finish 7.92 a second; 20 come.
    local function outrun(count)
      return tperf.serve(question(count, { load = { rate = 20 }, engine = { max_num_seqs = 16 } }))
    end
    assert.is_true(warned(outrun(40), "reaches no steady state"))
    local long = outrun(3000)
    assert.is_true(long.saturated and long.steady)
    assert.near(16 / RESIDENCE, long.requests_per_second, 0.1)
  end)

  it("is told where a rate, a fleet or a curve is judged by it", function()
    local found = tperf.search_serving { model = "llama-3.1-8b", system = "h100-sxm", prompt = 100, output = 500,
      max_num_seqs = 1024, max_num_batched_tokens = 2048, tp = 1, rate = 100, count = 100, slo = { e2e = 60 } }
    assert.is_false(found[1].served.steady)
    assert.is_true(warned(found, "runs without a steady state judge 1 of 1 deployments"))
    -- An engine that computes 1,000 tokens a second serves at most 9.9 requests of 101 a second for long.
    local q = { step_time = { fixed = 1e-3, per_token = 1e-3 }, prompt = 1, output = 101, count = 100 }
    local most = tperf.saturation(q)
    assert.is_true(most.rate < 9.9 or warned(most, "no steady state"))
    q.rates = { 2, 30 }
    local rows = tperf.load_curve(q)
    assert.same({ true, false }, { rows[1].served.steady, rows[2].served.steady })
  end)

  it("is no matter of a list of requests with arrivals of its own, or of stages", function()
    local list = {}
    for i = 1, 20 do list[i] = { arrival = i * 0.01, prompt = 10, output = 101 } end
    local q = { step_time = { fixed = 20e-3 }, requests = list }
    assert.is_true(tperf.serve(q).steady)
    assert.is_nil(tperf.serve(q).warnings)
    local stages = question(nil, { load = { stages = { { rate = 5, duration = 2 }, { rate = 50, duration = 1 } } } })
    assert.is_true(tperf.serve(stages).steady)
  end)

  it("is told on the command line, in text, JSON and CSV", function()
    local command = "tperf serve --step-time fixed=20ms --rate 10 --process uniform --prompt 10 --output 101 --count 50"
    for _, form in ipairs { "", " --csv", " --json" } do
      assert.matches("tperf: the run reaches no steady state", program.shell(command .. form).err)
    end
    local json = program.shell(command .. " --json").out
    assert.matches('"steady": *false', json)
    assert.matches('"warnings": *%[[^%]]*no steady state', json)
    local steady = program.shell((command:gsub("50$", "1000")))
    assert.equal("", steady.err)
  end)
end)

describe("speculation, until drafts are priced", function()
  local function drafts(method, tokens)
    return { speculation = { method = method, tokens = tokens, acceptance = 0.7 } }
  end

  it("is marked in every answer", function()
    local r = tperf.serve(question(1000, { engine = drafts("eagle", 3) }))
    assert.is_true(warned(r, "speculation: drafts take no time"))
    local model = { model = "llama-3.1-8b", system = "h100-sxm", prompt = 100, output = 100,
      engine = drafts("ngram", 2) }
    local most = tperf.saturation(model)
    assert.is_true(warned(most, "speculation: drafts take no time"))
    model.rate, model.tp, model.max_num_seqs, model.max_num_batched_tokens = 5, 1, 256, 2048
    assert.is_true(warned(tperf.search_serving(model), "speculation: drafts take no time"))
    local run = program.shell("tperf serve llama-3.1-8b -s h100-sxm --prompt 100 --output 100 --rate 2 --speculation "
      .. "eagle:3 --acceptance 0.7")
    assert.matches("tperf: speculation: drafts take no time", run.err)
  end)

  it("is searched in neither method nor number", function()
    for name, value in pairs { tokens = { 1, 2, 4 }, method = { "eagle", "ngram" } } do
      local engine = drafts("eagle", 2)
      engine.speculation[name] = value
      local ok, message = pcall(tperf.search_serving, { model = "llama-3.1-8b", system = "h100-sxm", prompt = 100,
        output = 100, rate = 5, engine = engine })
      assert.is_false(ok)
      assert.matches("engine.speculation." .. name, message, 1, true)
    end
  end)
end)
