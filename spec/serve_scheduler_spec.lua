-- The scheduler of tperf.serve is vLLM V1's: request by request and step by step, on traces of the original (every n-th
-- step of 25 of them, in spec/data/serving) and on random cases against a reimplementation (scheduler_rules.lua).
local core = require "tperf.core"
local program = require "program"
local rules = require "scheduler_rules"
local tperf = require "tperf"

local FOLDER = "spec/data/serving/"

local RESULTS = {
  first_sched_ns = "first_scheduled", first_token_ns = "first_token", last_token_ns = "last_token", n_out = "tokens",
  preemptions = "preemptions", cached_tokens = "cached_tokens", max_gap_ns = "longest_gap", sched_steps = "steps",
}
local STEPS = {
  start_ns = "start", dur_ns = "duration", running = "running", waiting = "waiting", prefill_reqs = "prefills",
  prefill_tokens = "prefill_tokens", decode_reqs = "decodes", decode_tokens = "decode_tokens",
  decode_ctx_sum = "decode_context", prefill_pairs = "prefill_pairs", preempted = "preempted",
  free_blocks = "free_blocks",
}

local function records(t)
  local list = {}
  for i, row in ipairs(t.rows) do
    list[i] = {}
    for j, name in ipairs(t.columns) do
      if type(row[j]) ~= "userdata" then list[i][name] = row[j] end -- null
    end
  end
  return list
end

local function question_of(s)
  local c, requests = s.config, {}
  for i, r in ipairs(records(s.requests)) do
    requests[i] = { arrival = r.arrival_ns, prompt = r.prompt_len, output = r.max_tokens, priority = r.priority,
      segments = r.segments }
  end
  return {
    requests = requests, keep = "steps",
    load = s.load.mode == "closed" and { concurrency = s.load.concurrency, think = s.load.think_ns } or nil,
    engine = { max_num_seqs = c.max_num_seqs, max_num_batched_tokens = c.max_num_batched_tokens,
      max_model_len = c.max_model_len, block_size = c.block_size, num_blocks = c.num_gpu_blocks,
      prefix_caching = c.enable_prefix_caching, chunked_prefill = c.enable_chunked_prefill,
      long_prefill_token_threshold = c.long_prefill_token_threshold, policy = c.policy,
      speculation = c.spec and { method = c.spec.method, tokens = c.spec.k, accepted = c.spec.accept } },
    step_time = { fixed = s.cost.t0, per_token = s.cost.a, per_context_token = s.cost.b, per_prefill_pair = s.cost.c },
  }
end

describe("vLLM's scheduler", function()
  local count = 0
  for _, name in ipairs(core.resource.entries(FOLDER)) do
    if name:find "%.json$" then
      count = count + 1
      it("ran " .. name .. " as tperf.serve does", function()
        local s = assert(core.yaml(program.slurp(FOLDER .. name), name))
        local run = tperf.serve(question_of(s))
        for i, want in ipairs(records(s.results)) do
          local got = run.requests[i]
          assert.equal(want.status == "length" and "finished" or want.status, got.status)
          for theirs, ours in pairs(got.status == "finished" and RESULTS or {}) do
            assert.equal(want[theirs], got[ours], ("request %d %s"):format(i, ours))
          end
        end
        assert.equal(s.steps.count, #run.steps)
        for _, want in ipairs(records(s.steps)) do
          for theirs, ours in pairs(STEPS) do
            assert.equal(want[theirs], run.steps[want.step][ours], ("step %d %s"):format(want.step, ours))
          end
        end
      end)
    end
  end

  it("has 25 traces", function() assert.equal(25, count) end)
end)

local function generator(seed)
  local state = seed
  return function(low, high)
    state = state * 6364136223846793005 + 1442695040888963407 -- Knuth's, modulo 2^64
    return low + (state >> 33) % (high - low + 1)
  end
end

local function random_requests(R, capacity)
  local list = {}
  for i = 1, R(1, 14) do
    local r = { arrival = R(0, 30), prompt = R(1, capacity + 3), output = R(1, 30), priority = R(0, 2) }
    if R(0, 1) == 1 then
      local shared = R(1, r.prompt)
      r.segments = { { R(0, 2), shared } }
      if shared < r.prompt then r.segments[2] = { 1000000 + R(0, i), r.prompt - shared } end
    end
    list[i] = r
  end
  return list
end

local METHODS = { "ngram", "eagle", "draft_model" }

-- Groups of layers that share the blocks with the first, in every other engine.
local function random_groups(R)
  if R(0, 1) == 0 then return nil end
  return { whole = R(0, 2) == 0 and 1 or 0, windowed = R(0, 2), window_blocks = R(1, 5), states = R(0, 2) }
end

local function random_question(R)
  local blocks, size, k, longest = R(2, 40), R(1, 8), R(1, 4), R(2, 150)
  local accepted, chunked = {}, R(0, 2) > 0
  for i = 1, R(1, 7) do accepted[i] = R(0, k) end
  return {
    requests = random_requests(R, blocks * size), keep = "steps",
    step_time = { fixed = R(1, 5), per_token = R(0, 2), per_context_token = R(0, 2), per_prefill_pair = R(0, 1) },
    engine = {
      num_blocks = blocks, block_size = size, max_num_seqs = R(1, 8), max_model_len = longest,
      max_num_batched_tokens = chunked and R(1, 60) or longest, chunked_prefill = chunked,
      long_prefill_token_threshold = R(0, 2) == 0 and R(1, 10) or 0, prefix_caching = R(0, 2) > 0,
      policy = R(0, 1) == 0 and "priority" or "fcfs",
      speculation = R(0, 1) == 0 and { method = METHODS[R(1, 3)], tokens = k, accepted = accepted } or nil,
      groups = random_groups(R),
    },
  }
end

local SAME = { "first_scheduled", "first_token", "last_token", "longest_gap", "preemptions", "steps", "cached_tokens" }

local function compare(question, requests, steps)
  local run = tperf.serve(question)
  for i, want in ipairs(requests) do
    local got = run.requests[i]
    assert.equal(want.rejected and "rejected" or "finished", got.status)
    if not want.rejected then
      assert.equal(want.out, got.tokens)
      for _, name in ipairs(SAME) do assert.equal(want[name], got[name], name) end
    end
  end
  assert.equal(#steps, #run.steps)
  for i, want in ipairs(steps) do
    for name, value in pairs(want) do assert.equal(value, run.steps[i][name], name) end
  end
  return run
end

describe("the rules, written twice,", function()
  it("agree on random engines and requests", function()
    local R, preemptions, cached, drafted, rejected, pooled = generator(7), 0, 0, 0, 0, 0
    for _ = 1, 800 do
      local question = random_question(R)
      local requests, steps = rules.run(question, 5000)
      if requests then
        local run = compare(question, requests, steps)
        preemptions, cached = preemptions + run.preemptions, cached + run.cached_tokens
        rejected = rejected + run.rejected
        drafted = drafted + (question.engine.speculation and run.finished or 0)
        pooled = pooled + (question.engine.groups and run.preemptions or 0)
      end
    end
    assert.truthy(preemptions > 300 and cached > 200 and drafted > 500 and rejected > 500 and pooled > 100) -- all occur
  end)

  it("let two prompts of equal priority and arrival preempt each other for ever, which is an error, not a loop",
    function()
      local question = random_question(generator(1))
      question.requests = { { arrival = 2, prompt = 6, output = 1 }, { arrival = 2, prompt = 7, output = 2 } }
      question.step_time = { fixed = 1, per_token = 0, per_context_token = 0, per_prefill_pair = 0 }
      question.engine = { num_blocks = 4, block_size = 3, max_num_seqs = 4, max_model_len = 100, policy = "priority",
        max_num_batched_tokens = 8, chunked_prefill = true, long_prefill_token_threshold = 2, prefix_caching = false }
      assert.is_nil(rules.run(question, 5000))
      assert.error_matches(function() tperf.serve(question) end, "requests preempt one another for ever: %d+ ")
      question.requests[2].arrival = 3 -- of two keys the greater always yields
      assert.equal(2, tperf.serve(question).finished)
    end)
end)
