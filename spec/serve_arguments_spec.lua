-- Arguments that the core of tperf.serve refuses, whoever calls it: lua/tperf/question/serve/init.lua checks first,
-- with better messages, but the core sizes its memory by these numbers.
local core = require "tperf.core"

local SETTINGS <const> = {
  routing = 0, concurrency = 0, seed = 1, threads = 1, keep = 0, think = 0, front_end = 0, front_end_token = 0,
}

local ENGINE <const> = {
  ranks = 1, stages = 1, receive_interval = 1, batch_wait_steps = 0, mixed_chunk = false,
  batch_wait_tokens = 0, max_num_seqs = 4, max_num_batched_tokens = 32,
  max_model_len = 64, block_size = 4, num_blocks = 40,
  long_prefill_token_threshold = 0, draft_method = 0, draft_tokens = 0, replicas = 1, prefix_caching = true,
  chunked_prefill = true, policy = 0, async_scheduling = false, acceptance = 0,
  whole_groups = 0, windowed_groups = 0, window_blocks = 0, state_groups = 0, apart = 0, window = 0,
  estimate_first = 0.7, estimate_least = 0.14, estimate_steps = 600, estimate_longest = 4096, estimate_ahead = 20,
}

local TIME <const> = { fixed = 1, per_token = 0, per_context_token = 0, per_prefill_pair = 0 }

local function line(x, y) return { x = x or { 1, 8 }, y = y or { 1e-6, 2e-6 } } end
local function surface(z) return { x = { 1, 8 }, y = { 1, 64 }, z = z or { 1e-6, 2e-6, 3e-6, 4e-6 } } end

local STEPS <const> = {
  graphs = { 1, 2, 4 }, shapes = {}, decode_tokens = line(), prefill_tokens = line(), rows = line(),
  decode = surface(), decode_window = surface(), chunk = surface(), chunk_among = surface(),
  more = { step = 0, request = 0, token = 0, window = 16, separate = false, stages = 1, send = 0, send_token = 0,
    launch = 0, compile = 0, even = 1, whole_key = 0, whole_each = 0, whole_from = 0, whole_late = 0,
    eager_prefills = false },
}

local function with(base, more)
  local made = {}
  for name, value in pairs(base) do made[name] = value end
  for name, value in pairs(more) do made[name] = value end
  for name, value in pairs(made) do
    if value == "nil" then made[name] = nil end
  end
  return made
end

local function request(more) return with({ arrival = 0, prompt = 8, output = 4 }, more or {}) end

-- changes: fields of the settings or of the engine; prefill: of another engine that computes the prompts.
local function served(changes, accepted, requests, load, steps, prefill)
  local settings, engine, time, pool = {}, {}, {}, { scheduler = "vllm", accepted = accepted, steps = steps }
  for name, value in pairs(changes) do
    (ENGINE[name] ~= nil and engine or TIME[name] and time or pool[name] and pool or settings)[name] = value
  end
  pool.engine, pool.line = with(ENGINE, engine), with(TIME, time)
  prefill = prefill and { scheduler = "vllm", engine = with(ENGINE, prefill), line = TIME }
  return core.serve(with(SETTINGS, settings), pool, prefill, requests, load)
end

local function refused(message, ...)
  local ok, raised = pcall(served, ...)
  assert.is_false(ok, message)
  assert.truthy(tostring(raised):find(message, 1, true), ("no %q in %q"):format(message, tostring(raised)))
end

local HUGE <const>, LONGEST <const> = 1 << 40, 1 << 29

describe("the core's simulation of serving", function()
  it("answers valid questions", function()
    local r = served({ keep = 2 }, nil, { request(), request() })
    assert.same({ 2, 8, 2 }, { r.finished, r.output_tokens, #r.requests })
    assert.equal(2, served({}, nil, { request(), request() }, nil, STEPS).finished)
  end)

  for _, case in ipairs {
    { "'max_num_seqs' is out of range", { max_num_seqs = -1 } },
    { "'max_num_seqs' must be an integer of 32 bits", { max_num_seqs = HUGE } },
    { "must be at least 1", { max_num_seqs = 0 } },
    { "must be at least 1", { max_num_batched_tokens = 0 } },
    { "'max_model_len' must be from 2", { max_model_len = 1 } },
    { "'max_model_len' must be from 2", { max_model_len = 2 * LONGEST + 1 } },
    { "'block_size' must be from 1", { block_size = 0 } },
    { "'block_size' must be from 1", { block_size = (1 << 20) + 1 } },
    { "'num_blocks' must be at least 2", { num_blocks = 1 } },
    { "'num_blocks' must be at least 2", { num_blocks = (1 << 31) - 1 } },
    { "'prefix_caching' needs 'num_blocks'", { num_blocks = 0 } },
    { "'tokens' must be from 1", { draft_method = 1, draft_tokens = 0 } },
    { "'tokens' must be from 1", { draft_method = 1, draft_tokens = 1025 } },
    { "'acceptance' must be from 0 to 1", { draft_method = 1, draft_tokens = 1, acceptance = -0.1 } },
    { "'acceptance' must be from 0 to 1", { draft_method = 1, draft_tokens = 1, acceptance = 1.1 } },
    { "'whole_groups' is out of range", { whole_groups = -1 } },
    { "pooled groups must be from 0 to 65536", { state_groups = 65537 } },
    { "pooled groups are vLLM's", { state_groups = 1, scheduler = "sglang" } },
    { "'replicas' must be from 1", { replicas = 0 } },
    { "'fixed' is out of range", { fixed = -1 } },
    { "'per_token' is out of range", { per_token = -1 } },
    { "'per_context_token' is out of range", { per_context_token = -1 } },
    { "'per_prefill_pair' is out of range", { per_prefill_pair = -1 } },
    { "'draft_method' is out of range", { draft_method = -1 } },
    { "'draft_method' is out of range", { draft_method = 4 } },
    { "'routing' is out of range", { routing = -1 } },
    { "'routing' is out of range", { routing = 3 } },
    { "'threads' is out of range", { threads = 0 } },
    { "'threads' is out of range", { threads = 1025 } },
    { "'think' is out of range", { think = -1 } },
    { "'front_end' is out of range", { front_end = -1 } },
    { "'front_end' is out of range", { front_end = 1e6 } },
    { "'front_end_token' is out of range", { front_end_token = -1 } },
    { "'front_end_token' is out of range", { front_end_token = 1 } },
    { "'transfer' is out of range", { transfer = -1 } },
    { "'transfer' is out of range", { transfer = 1e6 } },
    { "'transfer_token' is out of range", { transfer_token = -1 } },
    { "'transfer_token' is out of range", { transfer_token = 1e3 } },
    { "must be a finite number", { transfer_token = 0 / 0 } },
    { "'scheduler' must be the name of one, got vllm0", { scheduler = "vllm0" } },
    { "'scheduler' must be the name of one, got ", { scheduler = "" } },
    { "'scheduler' must be the name of one, got 1", { scheduler = 1 } },
    { "'estimate_first' is out of range", { estimate_first = -0.1 } },
    { "'estimate_first' is out of range", { estimate_first = 1.1 } },
    { "'estimate_least' is out of range", { estimate_least = -0.1 } },
    { "'estimate_least' is out of range", { estimate_least = 1.1 } },
    { "'estimate_steps' is out of range", { estimate_steps = -1 } },
    { "'estimate_longest' is out of range", { estimate_longest = -1 } },
    { "'estimate_ahead' is out of range", { estimate_ahead = -1 } },
    { "'replicas' must be from 1", { replicas = (1 << 20) + 1 } },
    { "replicas x ranks must be at most", { ranks = (1 << 20) + 1 } },
    { "'ranks' is out of range", { ranks = -1 } },
    { "stages of a pipeline must be at most", { stages = 1 << 20 } },
    { "'stages' is out of range", { stages = -1 } },
    { "'seed' must be an integer", { seed = 0.5 } },
    { "'seed' must be an integer", { seed = 1 << 60 } },
    { "'prefix_caching' must be true or false", { prefix_caching = 1 } },
    { "is missing", { keep = "nil" } },
    { "beyond the clock, which ends after 2^63 ticks of a second", { think = 9.3e18 } },
    { "beyond the clock, which ends after 2^63 ticks of a nanosecond", { think = 9.3e9 + 0.5 } },
  } do
    local name, value = next(case[2])
    it(("refuses %s = %s"):format(name, tostring(value)), function()
      refused(case[1], case[2], nil, { request() })
    end)
  end

  -- Ticks are seconds if all times are whole seconds, else nanoseconds: 1 + 8 x 0.5, 3 x (1 + 0.5).
  it("keeps fractions of a second in every time", function()
    for _, more in ipairs { {}, { fixed = 1.25 }, { per_token = 0.5 }, { per_context_token = 0.25 },
      { per_prefill_pair = 0.125 }, { front_end_token = 0.25 }, { transfer = 0.5 }, { transfer_token = 0.5 },
      { think = 0.5 } } do
      assert.equal(1, served(more, nil, { request() }).finished, next(more))
    end
    local r = served({ per_token = 0.5, keep = 1 }, nil, { request() })
    assert.equal(5 + 3 * 1.5, r.requests[1].last_token)
    assert.equal(1 + 3, served({ keep = 1 }, nil, { request() }).requests[1].last_token)
  end)

  for _, more in ipairs { { stages = 0 }, { stages = 1 << 31 }, { send = -1 }, { send_token = -1 }, { window = -1 },
    { window = LONGEST + 1 }, { step = -1 }, { request = -1 }, { token = -1 }, { even = 0 }, { compile = -1 },
    { launch = -1 }, { whole_key = -1 }, { whole_each = -1 }, { whole_from = -1 } } do
    local name, value = next(more)
    it(("refuses a table of steps with %s = %d"):format(name, value), function()
      local why = value == 1 << 31 and "must be an integer of 32 bits" or "is out of range"
      refused(("'%s' %s"):format(name, why), {}, nil, { request() }, nil,
        with(STEPS, { more = with(STEPS.more, more) }))
    end)
  end

  it("refuses invalid numbers of accepted drafts", function()
    local drafts = { draft_method = 1, draft_tokens = 2 }
    for _, list in ipairs { { -1 }, { 1 << 31 }, { "x" }, { 0.5 } } do
      refused("'accepted' must be a list of integers from 0", drafts, list, { request() })
    end
  end)

  for what, case in pairs {
    ["an empty list"] = { "'requests' is empty", {} },
    ["a hole"] = { "a list without holes", { request(), [3] = request() } },
    ["a key of text"] = { "a list without holes", { request(), x = request() } },
    ["a number"] = { "'requests[1]' must be a table", { 1 } },
    ["no prompt"] = { "'requests[1].prompt' is missing", { request { prompt = "nil" } } },
    ["no arrival"] = { "'requests[1].arrival' is missing", { request { arrival = "nil" } } },
    ["a prompt of text"] = { "'requests[1].prompt' must be an integer", { request { prompt = "8" } } },
    ["a prompt of no tokens"] = { "'requests[1].prompt' must be an integer from 1", { request { prompt = 0 } } },
    ["an endless answer"] = { "'requests[1].output' must be an integer from 1", { request { output = LONGEST + 1 } } },
    ["an arrival of text"] = { "'requests[1].arrival' must be a number of seconds", { request { arrival = "0" } } },
    ["an arrival that never comes"] = { "must be a number of seconds", { request { arrival = math.huge } } },
    ["a field that has no name"] = { "unknown field 1", { request { 1 } } },
    ["segments of text"] = { "a list of { stream, tokens }", { request { segments = "x" } } },
    ["no segments"] = { "not empty", { request { segments = {} } } },
    ["a segment that is a number"] = { "a list of { stream, tokens }", { request { segments = { 8 } } } },
    ["a stream below 0"] = { "streams that are integers from 0 on", { request { segments = { { -1, 8 } } } } },
    ["a stream of text"] = { "streams that are integers from 0 on", { request { segments = { { "x", 8 } } } } },
    ["a segment without tokens"] = { "must be an integer from 1", { request { segments = { { 1, 0 } } } } },
  } do
    it("refuses requests with " .. what, function() refused(case[1], {}, nil, case[2]) end)
  end

  -- A table's order depends on its size, too.
  it("names the same one of several wrong fields, whatever the table's order", function()
    for size = 0, 60, 4 do
      local unknown, values = {}, {}
      for i = 1, size do unknown["spare" .. i], values["spare" .. i] = i, i end
      for i = 1, size do unknown["spare" .. i], values["spare" .. i] = nil, nil end
      for _, name in ipairs { "zeal", "arrive", "promt", "bar", 7 } do unknown[name] = 1 end
      for _, name in ipairs { "output", "priority", "arrival", "prompt" } do values[name] = "x" end
      refused('unknown field "arrive" (did you mean', {}, nil, { unknown })
      refused("'requests[1].arrival' must be a number of seconds", {}, nil, { values })
    end
  end)

  local function drawn(prompt, counts, stage)
    local fixed = { { kind = 0, a = 4, b = 0, least = 1, most = 8 } }
    local one = with({ process = 0, burst = 1, count = 2, cv = 1, rate = 1, start = 0, fill = false }, stage or {})
    return {
      drawn = with({ count = 2, prefix_tokens = 0, prefix_groups = 1 }, counts or {}),
      prompt = { with(fixed[1], prompt and prompt[1] or {}), prompt and prompt[2] }, output = fixed, stages = { one },
    }
  end

  it("draws requests", function() assert.equal(2, served({}, nil, nil, drawn()).finished) end)

  for what, case in pairs {
    ["a distribution below the first"] = { "'prompt' is no distribution", { { kind = -1 } } },
    ["a distribution beyond the last"] = { "'prompt' is no distribution", { { kind = 5 } } },
    ["lengths from 0"] = { "'prompt' is no distribution", { { least = 0 } } },
    ["lengths downwards"] = { "'prompt' is no distribution", { { least = 9 } } },
    ["lengths without end"] = { "'prompt' is no distribution", { { most = LONGEST + 1 } } },
    ["no values"] = { "'prompt' has no values", { { kind = 4 }, {} } },
    ["a value of 0"] = { "'prompt' must be a list of integers from 1", { { kind = 4 }, { 0 } } },
    ["no requests"] = { "'count' and 'prefix' are out of range", nil, { count = 0 } },
    ["too many requests"] = { "'count' and 'prefix' are out of range", nil, { count = 1 << 31 } },
    ["a prefix below 0"] = { "'count' and 'prefix' are out of range", nil, { prefix_tokens = -1 } },
    ["an endless prefix"] = { "'count' and 'prefix' are out of range", nil, { prefix_tokens = LONGEST } },
    ["no groups"] = { "'count' and 'prefix' are out of range", nil, { prefix_groups = 0 } },
    ["a process below the first"] = { "stage 1 of 'load' is out of range", nil, nil, { process = -1 } },
    ["a process beyond the last"] = { "stage 1 of 'load' is out of range", nil, nil, { process = 3 } },
    ["no burst"] = { "stage 1 of 'load' is out of range", nil, nil, { burst = 0 } },
    ["an endless burst"] = { "stage 1 of 'load' is out of range", nil, nil, { burst = 1 << 31 } },
    ["a count below 0"] = { "stage 1 of 'load' is out of range", nil, nil, { count = -1 } },
    ["no rate"] = { "stage 1 of 'load' is out of range", nil, nil, { rate = 0 } },
    ["no variation"] = { "stage 1 of 'load' is out of range", nil, nil, { cv = 0 } },
    ["fewer arrivals than requests"] = { "arrivals for 1 of 2 requests", nil, nil, { count = 1 } },
  } do
    it("refuses to draw " .. what, function() refused(case[1], {}, nil, nil, drawn(case[2], case[3], case[4])) end)
  end

  for what, case in pairs {
    ["lack their shapes"] = { "lacks 'shapes'", { shapes = "nil" } },
    ["lack their graphs"] = { "lacks 'graphs'", { graphs = "nil" } },
    ["lack a line"] = { "lacks 'rows'", { rows = "nil" } },
    ["lack a line's values"] = { "lacks 'y'", { rows = { x = { 1 } } } },
    ["have too many values"] = { "has too many values", {}, long = true },
    ["have a value of text"] = { "'y' must be numbers from 0 on", { rows = line(nil, { "x", 1 }) } },
    ["have a value below 0"] = { "'y' must be numbers from 0 on", { rows = line(nil, { -1, 1 }) } },
    ["have a value without end"] = { "'y' must be numbers from 0 on", { rows = line(nil, { math.huge, 1 }) } },
    ["descend"] = { "'x' must ascend", { rows = line { 2, 1 } } },
    ["have more values than places"] = { "'y' is not of its axes", { rows = line(nil, { 1, 2, 3 }) } },
    ["are of no places"] = { "'y' is not of its axes", { rows = line({}, {}) } },
    ["lack a surface's values"] = { "'z' is not of its axes", { decode = surface { 1 } } },
    ["lack what stands beside"] = { "lacks 'more'", { more = "nil" } },
    ["have a window below 0"] = { "out of range", { more = with(STEPS.more, { window = -1 }) } },
    ["have a window beyond the longest"] = { "out of range", { more = with(STEPS.more, { window = LONGEST + 1 }) } },
    ["have chunks alone only"] = { "lacks 'chunk_among'", { chunk_among = "nil" } },
    ["have steps below 0"] = { "out of range", { more = with(STEPS.more, { step = -1 }) } },
    ["have requests below 0"] = { "out of range", { more = with(STEPS.more, { request = -1 }) } },
    ["have tokens below 0"] = { "out of range", { more = with(STEPS.more, { token = -1 }) } },
  } do
    it("refuses priced steps that " .. what, function()
      local steps = with(STEPS, case[2])
      if case.long then
        steps.graphs = {}
        for i = 1, (1 << 20) + 1 do steps.graphs[i] = i end
      end
      refused(case[1], {}, nil, { request() }, nil, steps)
    end)
  end

  it("prices steps by tables of one point, and without the tables of attention", function()
    local one = { x = { 1 }, y = { 2e-3 } }
    local steps = { graphs = {}, shapes = {}, decode_tokens = one, prefill_tokens = one, more = STEPS.more,
      rows = { x = { 1 }, y = { 0 } } }
    -- a prefill and three decodes of a millisecond or two each, whatever they hold
    assert.near(8e-3, served({}, nil, { request() }, nil, steps).duration, 1e-9)
    steps.decode = { x = { 1 }, y = { 1 }, z = { 5e-3 } }
    assert.near(8e-3 + 3 * 5e-3, served({}, nil, { request() }, nil, steps).duration, 1e-9)
  end)

  it("refuses times beyond the end of the clock", function()
    refused("the clock ends at 2^63", { fixed = 6e18 }, nil, { request() })
    refused("the clock ends at 2^63", { fixed = 0.5, per_token = 1e300 }, nil, { request() })
    refused("a think time ends after the clock does", { concurrency = 1, think = 9e18 }, nil,
      { request { arrival = "nil" }, request { arrival = "nil" }, request { arrival = "nil" } })
    local late <const>, long <const> = 9.19e9, 50000000 -- seconds: 3.3e7 before the clock's end; tokens
    local roomy = { max_model_len = 1 << 29, max_num_batched_tokens = 1 << 29, num_blocks = 0, prefix_caching = false }
    local front = with(roomy, { front_end_token = 0.9 })
    refused("the clock ends before request 1 comes", front, nil, { request { arrival = late, prompt = long } })
    refused("the clock ends before request 2 comes", with(front, { concurrency = 1, think = late }), nil,
      { request { arrival = "nil", prompt = 1 }, request { arrival = "nil", prompt = long } })
    refused("a transfer ends after the clock does", with(roomy, { transfer_token = 999 }), nil,
      { request { arrival = late, prompt = 50000 } }, nil, nil, roomy)
    local slow = with(STEPS, { more = with(STEPS.more, { step = 1e300 }) })
    refused("the clock ends at 2^63", {}, nil, { request() }, nil, slow)
  end)

  it("checks the engine that computes prompts like the other", function()
    refused("'replicas' must be from 1", {}, nil, { request() }, nil, nil, { replicas = 0 })
    refused("must take its prompt of 33 tokens whole", {}, nil, { request { prompt = 33 } }, nil, nil,
      { chunked_prefill = false, prefix_caching = false })
    local r = served({}, nil, { request { prompt = 12 }, request { prompt = 8 } }, nil, nil, { max_model_len = 12 })
    assert.same({ 1, 8 }, { r.finished, r.prompt_tokens }) -- 12 tokens and the first of the answer do not fit
  end)

  it("lets no prompt wait for others where they come by priority", function()
    local trt <const> = "tensorrt-llm"
    local function first_token(changes)
      local requests = { request { arrival = 0, output = 30, priority = 0 }, request { arrival = 3, priority = 0 } }
      return served(with({ scheduler = trt, keep = 1 }, changes), nil, requests).requests[2].first_token
    end
    local waiting = { batch_wait_steps = 5, batch_wait_tokens = 20 }
    assert.equal(4, first_token { policy = 1 })
    assert.equal(4, first_token(with(waiting, { policy = 1 })))
    assert.equal(4 + 5, first_token(waiting))
  end)

  it("lets prompts wait for as many others as have seats", function()
    local function first_token(tokens)
      local requests = { request { arrival = 0, output = 30 } }
      for i = 2, 6 do requests[i] = request { arrival = 3 } end
      return served({ scheduler = "tensorrt-llm", keep = 1, max_num_seqs = 3, batch_wait_steps = 5,
        batch_wait_tokens = tokens }, nil, requests).requests[2].first_token
    end
    assert.equal(4, first_token(9))      -- the first of them is enough
    assert.equal(4, first_token(17))     -- a decode and two prompts of 8 tokens
    assert.equal(4 + 5, first_token(18)) -- a third prompt would be enough, but has no seat
  end)

  it("schedules decodes for as many tokens as a step has, and no prompt beside them", function()
    for _, scheduler in ipairs { "vllm", "sglang", "tensorrt-llm" } do
      local requests = {}
      for i = 1, 8 do requests[i] = request { output = 20 } end
      local r = served({ scheduler = scheduler, keep = 2, max_num_seqs = 8, max_num_batched_tokens = 5 }, nil, requests)
      assert.equal(8, r.finished)
      local drafting = served({ scheduler = scheduler, max_num_seqs = 8, max_num_batched_tokens = 5, draft_method = 1,
        draft_tokens = 2, acceptance = 0.5 }, nil, requests)
      assert.equal(8, drafting.finished)
      for _, step in ipairs(r.steps) do
        -- SGLang's decodes do not count against the tokens of a step
        assert.is_true(step.prefill_tokens + (scheduler == "sglang" and 0 or step.decodes) <= 5)
      end
    end
  end)

  it("lets no step take less than a tick", function()
    local r = served({ fixed = 0, per_token = 1e-12 }, nil, { request() })
    assert.near(4e-9, r.duration, 1e-12) -- a prefill and three decodes
  end)

  it("draws lengths of one token if their mean is one", function()
    local r = served({}, nil, nil, drawn({ { kind = 3, a = 1 } }))
    assert.equal(2, r.prompt_tokens)
  end)
end)
