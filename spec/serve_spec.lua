-- tperf.serve: arguments and refusals, loads, replicas, and determinism.
local cases = require "cases"
local program = require "program"
local tperf = require "tperf"

local STEP = { fixed = 5e-3, per_token = 2e-5, per_context_token = 4e-8, per_prefill_pair = 1e-9 }

local function with(more)
  local question = { step_time = STEP, load = { rate = 20 }, count = 300,
    prompt = { lognormal = { median = 300, sigma = 1 } }, output = { exponential = 60 } }
  for name, value in pairs(more or {}) do question[name] = value or nil end
  return question
end

local function listed(requests, more)
  local question = with(more)
  question.load, question.count, question.prompt, question.output = nil, nil, nil, nil
  question.load = more and more.load
  question.requests = requests
  return question
end

local function encode(value) return tperf.report.json(value) end

local function refused(question, message)
  local ok, raised = pcall(function() return tperf.serve(question) end)
  assert.is_false(ok)
  assert.truthy(raised:find(message, 1, true), raised)
  assert.truthy(raised:find("^spec/serve_spec.lua:%d+: tperf%.serve"), raised)
end

describe("tperf.serve", function()
  it("answers with the figures of its requests", function()
    local r = tperf.serve(with { keep = "requests", slo = { ttft = "20 ms", tpot = 0.008, quantile = 0.5 } })
    local ttft, e2e, good, tokens, first, last = {}, 0, 0, 0, math.huge, 0
    for i, q in ipairs(r.requests) do
      ttft[i] = q.first_token - q.arrival
      e2e, tokens = e2e + q.last_token - q.arrival, tokens + q.tokens
      first, last = math.min(first, q.arrival), math.max(last, q.last_token)
      local tpot = q.tokens > 1 and (q.last_token - q.first_token) / (q.tokens - 1) or 0
      if ttft[i] <= 0.02 and tpot <= 0.008 then good = good + 1 end
    end
    table.sort(ttft)
    local function near(want, got) assert.truthy(math.abs(want - got) < 1e-9 * want, ("%g %g"):format(want, got)) end
    local all = r.whole
    near(ttft[150] * 0.5 + ttft[151] * 0.5, all.ttft.p50)
    near(ttft[270] + 0.1 * (ttft[271] - ttft[270]), all.ttft.p90)
    near(ttft[297] + 0.01 * (ttft[298] - ttft[297]), all.ttft.p99)
    near(e2e / 300, all.e2e.mean)
    near(last - first, r.duration)
    near(tokens / r.duration, all.throughput)
    near(good / 300, all.attainment)
    near(good / r.duration, all.goodput)
    assert.equal(r.attainment >= 0.5, r.slo_met)
    assert.truthy(good > 20 and good < 290)
  end)

  it("is deterministic for any number of threads and runs", function()
    local speculation = { method = "eagle", tokens = 3, acceptance = 0.7 }
    local question = with { replicas = 7, count = cases(1500, 4000), load = { rate = 300 }, keep = "requests",
      engine = { num_blocks = 500, max_num_seqs = 16, speculation = speculation } }
    local answers = {}
    for i, threads in ipairs(cases({ 1, 5 }, { 1, 2, 5, 2 })) do
      question.threads = threads
      answers[i] = encode(tperf.serve(question))
    end
    assert.truthy(#answers[1] > cases(40000, 100000))
    for i = 2, #answers do assert.truthy(answers[1] == answers[i]) end
    question.seed = 2
    assert.is_false(encode(tperf.serve(question)) == answers[1])
  end)

  it("simulates replicas fed in turn alike, together and one by one", function()
    local apart = with { replicas = 5, count = 1000, load = { rate = 100 }, keep = "requests" }
    local together = with { replicas = 5, count = 1000, load = { rate = 100 }, keep = "steps" }
    local a, b = tperf.serve(apart), tperf.serve(together)
    assert.equal(encode(a.requests), encode(b.requests))
    assert.equal(a.preemptions, b.preemptions)
    assert.equal(a.step_count, #b.steps)
  end)

  it("satisfies conservation laws", function()
    local r = tperf.serve(with { keep = "steps", load = { rate = 60 },
      engine = { num_blocks = 150, max_model_len = 2000 } })
    assert.equal(300, r.finished + r.rejected)
    assert.truthy(r.rejected > 0 and r.preemptions > 0)
    local scheduled, preempted, last = 0, 0, 0
    for _, step in ipairs(r.steps) do
      scheduled = scheduled + step.prefill_tokens + step.decode_tokens
      preempted = preempted + step.preempted
      assert.truthy(step.start > last - 1e-9 and step.running <= 1024)
      last = step.start + step.duration
      assert.truthy(step.free_blocks >= 0 and step.free_blocks <= 149)
      assert.truthy(step.prefill_tokens + step.decode_tokens <= 8192)
    end
    assert.equal(r.scheduled_tokens, scheduled)
    assert.equal(r.preemptions, preempted)
    assert.truthy(scheduled >= r.prompt_tokens + r.output_tokens - r.finished - r.cached_tokens)
  end)

  it("does not need the requests in order", function()
    local forth, back = {}, {}
    for i = 1, 50 do
      forth[i] = { arrival = i * i % 51 * 0.01 + i * 1e-6, prompt = 10 * i, output = 5 }
      back[51 - i] = forth[i]
    end
    local a = tperf.serve(listed(forth, { keep = "requests" }))
    local b = tperf.serve(listed(back, { keep = "requests" }))
    for i = 1, 50 do assert.same(a.requests[i], b.requests[51 - i]) end
    assert.equal(a.duration, b.duration)
  end)

  it("speeds up only with accepted drafts", function()
    local function time(acceptance)
      return tperf.serve(with { engine = { speculation = { method = "ngram", tokens = 4, acceptance = acceptance } } })
    end
    local none, all, plain = time(0), time(1), tperf.serve(with())
    assert.equal(plain.output_tokens, none.output_tokens)
    assert.truthy(none.tpot.mean > plain.tpot.mean) -- drafts cost time and gain nothing
    assert.truthy(all.tpot.mean < 0.4 * plain.tpot.mean)
    local third = time(0.5) -- 1 + 1/2 + 1/4 + 1/8 + 1/16 tokens a step
    assert.truthy(third.step_count < plain.step_count and third.step_count > all.step_count)
  end)
end)

describe("loads of tperf.serve", function()
  local function arrivals(load, count)
    local list = {}
    local r = tperf.serve(with { load = load, count = count or false, prompt = 1, output = 1, keep = "requests" })
    for i, q in ipairs(r.requests) do list[i] = q.arrival end
    return list
  end

  local function gaps(list)
    local sum, square = 0, 0
    for i = 2, #list do
      local gap = list[i] - list[i - 1]
      sum, square = sum + gap, square + gap ^ 2
    end
    local mean = sum / (#list - 1)
    return mean, math.sqrt(math.max(0, square / (#list - 1) - mean ^ 2)) / mean
  end

  it("have the given rate and spread", function()
    for _, case in ipairs { { {}, 1 }, { { process = "uniform" }, 0 }, { { cv = 0.5 }, 0.5 }, { { cv = 2 }, 2 } } do
      local load, want = case[1], case[2]
      load.rate = 50
      local mean, cv = gaps(arrivals(load, 20000))
      assert.truthy(math.abs(mean * 50 - 1) < 0.05, mean)
      assert.truthy(math.abs(cv - want) < 0.08, ("%g, want %g"):format(cv, want))
    end
  end)

  it("come in bursts", function()
    local list = arrivals({ rate = 50, burst = 10 }, 10000)
    for i = 1, #list, 10 do assert.equal(list[i], list[i + 9]) end
    assert.truthy(math.abs(list[#list] * 50 / 10000 - 1) < 0.1)
  end)

  it("come in stages, each of exactly rate x duration requests", function()
    local list = arrivals { stages = { { rate = 10, duration = 20 }, { rate = 40, duration = "10 s" } } }
    assert.equal(600, #list)
    local first = 0
    for _, at in ipairs(list) do first = first + (at <= 20 and 1 or 0) end
    assert.equal(200, first)
    assert.truthy(math.abs(list[200] - 20) < 1e-6 and math.abs(list[600] - 30) < 1e-6)
  end)

  it("release requests as answers leave", function()
    local r = tperf.serve(with { load = { concurrency = 3, think = 0.5 }, count = 30, keep = "requests" })
    local q, ends = r.requests, {}
    for i = 1, 3 do assert.equal(0, q[i].arrival) end
    for i = 1, 30 do ends[i] = q[i].last_token end
    table.sort(ends)
    for i = 4, 30 do assert.truthy(math.abs(q[i].arrival - ends[i - 3] - 0.5) < 1e-9) end
  end)

  it("draw lengths from the given distributions", function()
    local function lengths(prompt)
      local r = tperf.serve(with { prompt = prompt, output = 1, count = 20000, load = { rate = 1e6 } })
      return r.prompt_tokens / 20000
    end
    local function near(want, got) assert.truthy(math.abs(got / want - 1) < 0.03, ("%g, want %g"):format(got, want)) end
    assert.equal(77, lengths(77))
    near(150, lengths { uniform = { 100, 200 } })
    near(300, lengths { exponential = 300 })
    near(1000 * math.exp(0.5 ^ 2 / 2), lengths { lognormal = { median = 1000, sigma = 0.5 } })
    near(400, lengths { lognormal = { mean = 400, cv = 0.8 } })
    near(20, lengths { values = { 10, 20, 30 } })
    assert.equal(50, lengths { exponential = 300, min = 50, max = 50 })
  end)

  it("share prefixes", function()
    local r = tperf.serve(with { prompt = 64, prefix = { tokens = 640, groups = 4 }, engine = { num_blocks = 4000 } })
    assert.truthy(r.cache_hits > 0.85 and r.cache_hits < 640 / 704)
    assert.equal(0, tperf.serve(with { prompt = 64, prefix = { tokens = 640, groups = 4 } }).cached_tokens)
  end)

  it("are spread by the given router", function()
    local hits, waits = {}, {}
    for _, router in ipairs { "round_robin", "least_loaded", "prefix" } do
      local r = tperf.serve(with { router = router, replicas = 4, prefix = { tokens = 2000, groups = 5 }, count = 1000,
        engine = { num_blocks = 2000 }, load = { rate = 40 } })
      hits[router] = r.cache_hits
      waits[router] = tperf.serve(with { router = router, replicas = 4, count = 3000, engine = { max_num_seqs = 2,
        num_blocks = 2000 }, load = { rate = 16 } }).ttft.mean
    end
    assert.truthy(hits.prefix > hits.round_robin)
    assert.truthy(waits.least_loaded < 0.5 * waits.round_robin)
  end)
end)

describe("traces", function()
  local function read(name, text)
    local folder = program.folder()
    program.write(folder .. "/" .. name, text)
    local question = listed(folder .. "/" .. name, { keep = "requests", engine = { num_blocks = 1000 } })
    local ok, r = pcall(tperf.serve, question)
    program.remove(folder)
    return ok and r, not ok and r:gsub(folder .. "/", "")
  end

  it("are read as CSV or as JSON lines, with the same meaning", function()
    local a = read("a.csv", "arrival,prompt,output,priority,prefix,prefix_tokens\n0,100,5,1,7,64\n0.5,200,6,,,\n"
      .. "1,100,5,0,7,64\n")
    local b = read("b.jsonl", '{"arrival": 0, "prompt": 100, "output": 5, "priority": 1, '
      .. '"segments": [[7, 64], [9, 36]]}\n'
      .. '{"arrival": 0.5, "prompt": 200, "output": 6}\n\n{"arrival": 1, "prompt": 100, "output": 5, '
      .. '"prefix": 7, "prefix_tokens": 64}\n')
    assert.equal(3, a.finished)
    assert.equal(64, a.requests[3].cached_tokens)
    assert.equal(encode(a), encode(b))
  end)

  it("with mistakes are refused by line", function()
    for _, case in ipairs {
      { "a.csv", "arrival,prompt,output\n0,10,5\n1,,5\n", "a.csv:3: 'prompt' is missing" },
      { "a.csv", "arrival,prompt,output\n0,10,5\n1,x,5\n", "a.csv:3: 'prompt' must be a number, got \"x\"" },
      { "a.csv", "arrival,prompt,output\n0,10,0\n", "a.csv:2: 'output' must be an integer from 1 to" },
      { "a.csv", "arrival,prompt,output\n-1,10,1\n", "a.csv:2: 'arrival' must be a number of seconds from 0 on" },
      { "a.csv", "arrival,promt,output\n0,10,0\n", "unknown column 'promt' (did you mean 'prompt'?)" },
      { "a.csv", "arrival,prompt,output\n", "there is no request in it" },
      { "a.csv", "arrival,prompt,output\n,10,1\n", "'requests[1].arrival' is missing" },
      { "a.csv", "arrival,prompt,output,prefix\n0,10,1,3\n", "'prefix' and 'prefix_tokens' go together" },
      { "a.jsonl", '{"prompt": 10, "output": 1, "arrival": 0, "x": 1}\n', "a.jsonl:1: unknown column 'x'" },
      { "a.jsonl", "7\n", "a.jsonl:1: a JSON object is needed" },
      { "a.jsonl", '{"arrival": 0, "prompt": 10, "output": 1}\n{"arrival": 0, "prompt": 10,\n', "a.jsonl:2:" },
    } do
      local r, message = read(case[1], case[2])
      assert.is_false(r)
      assert.truthy(message:find(case[3], 1, true), message)
    end
  end)
end)

describe("tperf.serve refuses", function()
  local good = { arrival = 0, prompt = 10, output = 1 }

  it("unknown arguments, with the nearest name", function()
    refused(with { engin = {} }, "unknown field 'engin' (did you mean 'engine'?)")
    refused(with { engine = { max_num_seq = 3 } }, "(did you mean 'max_num_seqs'?)")
    refused(listed { { arrival = 0, promt = 3, output = 1 } }, "\"promt\" (did you mean 'prompt'?)")
  end)

  it("invalid numbers", function()
    refused(listed { { arrival = 0 / 0, prompt = 10, output = 1 } }, "'requests[1].arrival' must be a number")
    refused(listed { { arrival = math.huge, prompt = 10, output = 1 } }, "'requests[1].arrival' must be a number")
    refused(listed { good, { arrival = 0, prompt = 0, output = 1 } }, "'requests[2].prompt' must be an integer")
    refused(listed { good, { arrival = 0, prompt = 10, output = -1 } }, "'requests[2].output' must be an integer")
    refused(listed { { arrival = 0, prompt = 1.5, output = 1 } }, "'requests[1].prompt' must be an integer")
    refused(listed { { arrival = 0, prompt = 10, output = 1, segments = { { 1, 5 } } } }, "have 5 tokens, but its")
    refused(listed { { arrival = 0, prompt = 10, output = 1, segments = { { -1, 10 } } } }, "streams")
    refused(with { load = { rate = 0 } }, "'load.rate' must be a number above 0")
    refused(with { load = { rate = 1 / 0 } }, "'load.rate' must be a number")
    refused(with { step_time = { fixed = -1 } }, "'step_time.fixed' must be")
    refused(with { step_time = {} }, "'step_time' is 0")
    refused(with { load = { rate = 1e-12 } }, "so few that the clock ends")
    refused(listed { { arrival = 1e12, prompt = 1, output = 1 } }, "beyond the clock")
  end)

  it("holes, empty lists and values that are no lists", function()
    refused(listed { good, nil, good }, "'requests[2]' must be a table")
    refused(listed { [1] = good, x = good }, "must be a list without holes, but has the key \"x\"")
    refused(listed {}, "'requests' is empty")
    refused(listed(7), "must be a list of requests or the name of a file")
    refused(listed { { prompt = 10, output = 1 } }, "'requests[1].arrival' is missing")
  end)

  it("contradictory arguments", function()
    refused(with { requests = { good } }, "'count' does not go with 'requests'")
    refused(listed({ good }, { load = { concurrency = 2 } }), "but 'load' says when requests arrive")
    refused(with { load = { concurrency = 2, rate = 3 } }, "'load.rate' does not go with concurrency")
    refused(with { load = { rate = 3, think = 3 } }, "'load.think' needs a concurrency")
    refused(with { load = { rate = 3, process = "poisson", cv = 3 } }, "'load.cv' is for gamma")
    refused(with { load = { rate = 3, process = "gamma" } }, "needs a cv")
    refused(with { prompt = { uniform = { 5, 3 } } }, "downwards")
    refused(with { prompt = { uniform = { 1, 3 }, exponential = 3 } }, "must be a number of tokens, or one of")
    refused(with { engine = { prefix_caching = true } }, "needs num_blocks")
    refused(with { engine = { chunked_prefill = false, max_num_batched_tokens = 10 } }, "whole")
    refused(with { step_time = false }, "say what a step takes: 'model' and 'system' price it")
    refused(with { model = "gpt2" }, "'step_time' says what a step takes, and so do 'model' and 'system'")
    refused(with { load = false }, "'requests' or 'load' is missing")
    refused(with { engine = { speculation = { method = "eagle", tokens = 2 } } }, "needs accepted")
  end)

  -- Four replicas take 16 requests in turn, which arrive within seconds. The first of a replica is computed alone; its
  -- other three follow with its second token, and their 5 tokens end a step later: 6 steps without a pause.
  it("no sum of times beyond the clock's end: engines are busy all the time, not -43 % of it", function()
    local step, replicas = 1e9 + 0.5, 4
    local r = tperf.serve { step_time = { fixed = step }, replicas = replicas, load = { rate = 1 }, count = 16,
      prompt = 10, output = 5 }
    assert.truthy(replicas * 6 * step > 2 ^ 63 * 1e-9)
    assert.truthy(math.abs(r.duration / (6 * step) - 1) < 1e-6, r.duration)
    assert.truthy(math.abs(r.utilization - 1) < 1e-6, r.utilization)
  end)

  it("a step beyond the clock's end", function()
    refused(with { step_time = { fixed = 1e9 }, count = 20000, output = 20 }, "the clock ends at 2^63")
  end)
end)

describe("tperf.serve rejects requests", function()
  it("that no engine can serve, and serves the others", function()
    local r = tperf.serve(listed({
      { arrival = 0, prompt = 100, output = 10 }, { arrival = 0, prompt = 200, output = 10 },
      { arrival = 0, prompt = 100, output = 80 }, { arrival = 0, prompt = 1, output = 500 },
    }, { keep = "requests", engine = { num_blocks = 11, max_model_len = 200 } }))
    assert.same({ "finished", "rejected", "rejected", "rejected" }, { r.requests[1].status, r.requests[2].status,
      r.requests[3].status, r.requests[4].status })
    assert.is_nil(r.requests[2].first_token)
    assert.same({ 1, 3 }, { r.finished, r.rejected })
    assert.equal(10, r.output_tokens)
  end)

  it("and reports it if there are no others", function()
    local r = tperf.serve(listed({ { arrival = 1, prompt = 100, output = 10 } }, { engine = { max_model_len = 50 } }))
    assert.same({ 0, 1, 0, 0 }, { r.finished, r.rejected, r.throughput, r.utilization })
    assert.is_nil(r.ttft)
  end)

  it("and lets a closed loop go on", function()
    local r = tperf.serve(with { load = { concurrency = 4 }, engine = { max_model_len = 300 }, count = 200 })
    assert.equal(200, r.finished + r.rejected)
    assert.truthy(r.rejected > 50 and r.finished > 50)
  end)
end)

describe("docs/serving.md", function()
  it("has the events of an instant in the order of the core's enum", function()
    local listed_in = program.slurp("src/serve/fleet.h"):match "typedef enum tperf_serve_event {(.-)}"
    local page, at, count = program.slurp "docs/serving.md", 1, 0
    for name in listed_in:gmatch "(TPERF_[%u_]+),"  do
      count = count + 1
      at = assert(page:find("\n| `" .. name .. "` |", at, true), name)
    end
    assert.equal(6, count)
  end)
end)

describe("tperf serve", function()
  local BASE = "tperf serve --step-time fixed=5ms,per_token=20us "
  local DRAWN = BASE .. "--rate 10 --count 50 --prompt 100..200 --output mean=20 "

  it("prints tperf.serve's result", function()
    local r = tperf.serve { step_time = { fixed = 5e-3, per_token = 20e-6 }, load = { rate = 10 }, count = 50,
      prompt = { uniform = { 100, 200 } }, output = { exponential = 20 }, slo = { ttft = 0.02 } }
    local row = program.ask(DRAWN .. "--slo ttft=20ms --csv").out
    local names, values = row:match "^([^\n]+)\n([^\n]+)\n$"
    local found, at = {}, {}
    for name in names:gmatch "[^,]+" do at[#at + 1] = name end
    local i = 0
    for value in values:gmatch "[^,]+" do i = i + 1 found[at[i]] = tonumber(value) end
    assert.equal(r.throughput, found.throughput)
    assert.equal(r.ttft.p99, found.ttft_p99)
    assert.equal(r.attainment, found.attainment)
    assert.truthy(program.ask(DRAWN .. "--json").out:find('"goodput"', 1, true) == nil)
    local text = program.ask(DRAWN).out
    assert.truthy(text:find "\nttft +%d" and text:find "\noutput tokens/s +%d")
  end)

  it("prints requests and steps one by one", function()
    local function lines(option) return select(2, program.ask(DRAWN .. option).out:gsub("\n", "\n")) end
    assert.equal(51, lines "--requests --csv")
    assert.truthy(lines "--steps" > 200)
  end)

  it("reads a trace, and reports overload", function()
    local folder = program.folder()
    local text = { "arrival,prompt,output" }
    for i = 1, 400 do text[#text + 1] = ("%g,100,10"):format(i * 1e-3) end
    program.write(folder .. "/t.csv", table.concat(text, "\n") .. "\n")
    local result = program.shell(BASE .. "--max-num-seqs 4 --trace t.csv", folder)
    program.remove(folder)
    assert.equal(0, result.code)
    assert.truthy(result.out:find "\nfinished +400\n")
    assert.truthy(result.err:find "^saturated: more requests come than the %d+%.?%d* a second")
  end)

  it("refuses invalid input", function()
    for arguments, message in pairs {
      ["--rate 3"] = "a model is missing, or --step-time",
      ["llama-3.1-8b --rate 3"] = "--system is missing",
      ["--step-time 5ms"] = "--step-time: NAME=TIME is needed, got '5ms'",
      ["--step-time fixed=5mb"] = "--step-time: fixed: ",
      ["--step-time fixed=1s --prompt 3.."] = "--prompt: tokens such as 512",
      ["--step-time fixed=1s --requests --steps"] = "--requests does not go with --steps",
      ["llama --step-time fixed=1s"] = "--step-time does not go with a model",
      ["llama 3.1 -s h100-sxm"] = "one model is needed, got '3.1' too",
    } do
      local result = program.ask("tperf serve " .. arguments)
      assert.equal(2, result.code, arguments)
      assert.truthy(result.err:find(message, 1, true), result.err)
    end
  end)

  it("ends at Ctrl-C", function()
    local folder = program.folder()
    program.write(folder .. "/s.lua", [[
      io.stdout:setvbuf "no"
      io.write "ready\n"
      require "tperf".serve { step_time = { fixed = 1e-3 }, load = { rate = 1 }, count = 1e6 // 1 | 0, prompt = 1,
        output = 1e7 // 1 | 0 }]])
    -- It takes 0.3 s of the processor only in the simulation.
    local result = program.interrupted("run s.lua > log", "grep -q ready log && computed $job 30", folder)
    program.remove(folder)
    assert.truthy(result.err:find "interrupted")
    assert.equal(1, result.code)
  end)
end)
