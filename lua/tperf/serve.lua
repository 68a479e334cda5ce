--- tperf.serve: requests through a serving engine, simulated event by event in C. docs/serving.md.
local check = require "tperf.check"
local core = require "tperf.core"
local load = require "tperf.serve.load"
local priced = require "tperf.serve.priced"
local trace = require "tperf.serve.trace"

local serve = {}

---@class tperf.latency seconds
---@field mean number
---@field p50 number
---@field p90 number
---@field p99 number

---@class tperf.served_request
---@field status string "finished" or "rejected": a prompt of max_model_len or more, or one that no empty cache can hold
---@field arrival number seconds
---@field first_scheduled? number start of the first step that computes it; absent, as the next three, when rejected
---@field first_token? number end of the step that gave it
---@field last_token? number
---@field longest_gap? number between two steps that gave tokens
---@field tokens integer of the answer
---@field preemptions integer
---@field cached_tokens integer of the prompt, found in the prefix cache at first admission
---@field steps integer that computed tokens of it

---@class tperf.served_step
---@field start number seconds
---@field duration number 0 for one that only preempted
---@field replica integer
---@field running integer requests, once the step is scheduled
---@field waiting integer
---@field prefills integer requests that prefill
---@field decodes integer requests that decode
---@field prefill_tokens integer
---@field decode_tokens integer drafts included
---@field decode_context integer keys that decodes read
---@field prefill_pairs integer pairs of a query and a key in prefills
---@field preempted integer
---@field free_blocks? integer absent where blocks have no limit

---@class tperf.served
---@field throughput number output tokens a second, from the first arrival to the last token
---@field requests_per_second number
---@field ttft? tperf.latency from arrival to the first token; absent, as the next two, when there is none
---@field tpot? tperf.latency from the first token to the last, by the tokens between, for answers of two and more
---@field e2e? tperf.latency from arrival to the last token
---@field goodput? number requests a second that keep all limits of slo
---@field attainment? number part of all requests that keep them
---@field slo_met? boolean whether attainment is at least slo.quantile
---@field utilization number part of the time that engines are in a step
---@field concurrency number requests in the system, on average
---@field saturated boolean more came than could be served: waits depend on how long the load lasts
---@field preemptions integer
---@field cache_hits number part of prompt tokens found in the prefix cache
---@field duration number seconds, from the first arrival to the last token
---@field finished integer
---@field rejected integer
---@field step_count integer
---@field prompt_tokens integer of finished requests
---@field output_tokens integer
---@field cached_tokens integer
---@field scheduled_tokens integer recomputed ones and drafts included
---@field num_blocks? integer of the KV cache, as given or predicted
---@field requests? tperf.served_request[] with keep
---@field steps? tperf.served_step[] with keep = "steps"

local HUGE <const> = 1 << 30 -- tokens; no limit
local METHODS = { ngram = 1, draft_model = 2, eagle = 3 }
local ROUTINGS = { round_robin = 0, least_loaded = 1, prefix = 2 }
local KEEPS = { requests = 1, steps = 2 }

local whole = { min = 1, max = (1 << 31) - 2 }
local function count(default)
  return check.integer { min = whole.min, max = whole.max, default = default, optional = default == nil }
end
local seconds = check.number { min = 0, max = 1e12, unit = "s", default = 0 }
local limit = check.number { above = 0, max = 1e12, unit = "s", optional = true }

local engine_schema = {
  max_num_seqs = count(1024), max_num_batched_tokens = count(8192),
  max_model_len = check.integer { min = 2, max = HUGE, default = HUGE },
  block_size = check.integer { min = 1, max = 1 << 20, default = 16 },
  num_blocks = check.integer { min = 2, max = whole.max, optional = true },
  prefix_caching = check.boolean { optional = true }, async_scheduling = check.boolean { optional = true },
  chunked_prefill = check.boolean { default = true },
  long_prefill_token_threshold = check.integer { min = 0, max = whole.max, default = 0 },
  policy = check.choice { { "fcfs", "priority" }, default = "fcfs" },
  speculation = check.record_of({
    method = check.choice { { "ngram", "draft_model", "eagle" } },
    tokens = check.integer { min = 1, max = 1024 },
    accepted = check.list(check.integer { min = 0, max = 1024 }, { min = 1, max = 1e7, optional = true }),
    acceptance = check.number { min = 0, max = 1, optional = true },
  }, { optional = true }),
}

local schema = {
  step_time = check.record_of({ fixed = seconds, per_token = seconds, per_context_token = seconds,
    per_prefill_pair = seconds }, { optional = true }),
  engine = check.record_of(engine_schema, { default = {} }),
  requests = check.any { optional = true },
  load = check.record_of(load.schema, { optional = true }),
  prompt = load.lengths, output = load.lengths,
  prefix = check.record_of({ tokens = check.integer { min = 1, max = 1 << 28 }, groups = count(1) },
    { optional = true }),
  count = count(), seed = check.integer { default = 1 },
  replicas = check.integer { min = 1, max = 1 << 20, default = 1 },
  router = check.choice { { "round_robin", "least_loaded", "prefix" }, default = "round_robin" },
  slo = check.record_of({ ttft = limit, tpot = limit, e2e = limit,
    quantile = check.number { min = 0, max = 1, default = 0.99 } }, { optional = true }),
  keep = check.choice { { "requests", "steps" }, optional = true },
  threads = check.integer { min = 1, max = 1024, optional = true },
}
for name, checker in pairs(priced.schema) do schema[name] = checker end

-- The requests as a list that the core copies once, or nil.
local function listed(o)
  if type(o.requests) == "string" then return trace.read(o.requests) end
  if o.requests ~= nil and type(o.requests) ~= "table" then
    check.fail("tperf.serve: 'requests' must be a list of requests or the name of a file, got %s",
      check.show(o.requests))
  end
  return o.requests
end

-- Steps take what a line says, or what the model's network is priced at on the system.
local function check_times(o)
  local t = o.step_time
  if not t and not (o.model and o.system) then
    check.fail("tperf.serve: say what a step takes: 'model' and 'system' price it, or step_time = { fixed = 5e-3, "
      .. "per_token = 20e-6 } gives its seconds")
  end
  if t and (o.model ~= nil or o.system ~= nil) then
    check.fail "tperf.serve: 'step_time' says what a step takes, and so do 'model' and 'system': give one of them"
  end
  if t and o.host ~= nil then check.fail "tperf.serve: 'host' goes with a model; 'step_time' has the host's part" end
  if t and t.fixed + t.per_token + t.per_context_token + t.per_prefill_pair == 0 then
    check.fail "tperf.serve: 'step_time' is 0: a step takes time"
  end
end

local function check_engine(e)
  local s = e.speculation
  if s and (s.accepted == nil) == (s.acceptance == nil) then
    check.fail("tperf.serve: 'engine.speculation' needs accepted, a list of numbers of drafts, or acceptance, a "
      .. "probability")
  end
  if e.prefix_caching and not e.num_blocks then
    check.fail "tperf.serve: 'engine.prefix_caching' needs num_blocks: what is cached depends on how many there are"
  end
end

local NO_TIME = { fixed = 0, per_token = 0, per_context_token = 0, per_prefill_pair = 0 }

local function settings_of(o)
  local e, given, slo, time = o.engine, o.load or {}, o.slo or {}, o.step_time or NO_TIME
  local s = e.speculation or {}
  local caching = e.prefix_caching
  if caching == nil then caching = e.num_blocks ~= nil end
  local ahead = e.async_scheduling
  if ahead == nil then ahead = o.step_time == nil end
  return {
    max_num_seqs = e.max_num_seqs, max_num_batched_tokens = e.max_num_batched_tokens,
    max_model_len = e.max_model_len, block_size = e.block_size, num_blocks = e.num_blocks or 0,
    long_prefill_token_threshold = e.long_prefill_token_threshold, prefix_caching = caching,
    chunked_prefill = e.chunked_prefill, priority = e.policy == "priority", async_scheduling = ahead,
    draft_method = METHODS[s.method] or 0, draft_tokens = s.tokens or 0, acceptance = s.acceptance or 0,
    seed = o.seed % (1 << 53), replicas = o.replicas, routing = ROUTINGS[o.router],
    concurrency = given.concurrency or 0, think = given.think or 0,
    threads = o.threads or core.search.threads(), keep = KEEPS[o.keep] or 0,
    front_end = o.host and o.host.front_end or 0, ttft = slo.ttft, tpot = slo.tpot, e2e = slo.e2e,
    fixed = time.fixed, per_token = time.per_token,
    per_context_token = time.per_context_token, per_prefill_pair = time.per_prefill_pair,
  }
end

-- Rates and parts of the counts that the core gives.
local function complete(r, o)
  local time = r.duration > 0 and r.duration or math.huge
  r.throughput = r.output_tokens / time
  r.requests_per_second = r.finished / time
  r.utilization = r.busy / (time * o.replicas)
  r.concurrency = r.e2e and r.e2e.mean * r.finished / time or 0
  r.cache_hits = r.prompt_tokens > 0 and r.cached_tokens / r.prompt_tokens or 0
  if o.slo then
    r.goodput = r.good / time
    r.attainment = r.good / (r.finished + r.rejected)
    r.slo_met = r.attainment >= o.slo.quantile
  end
  r.good, r.busy = nil, nil
  return r
end

--- Simulates requests that go through a serving engine, by the rules of vLLM's V1 scheduler.
---@param given table
---  model, system          a name, a file, a table: steps are priced from the model's network on the system
---  tp, pp, ep             GPUs that cut layers, that hold layers in turn (1 alone), replicas that share experts (1)
---  weight_dtype, kv_dtype, compute_dtype  as tperf.infer has them ("bf16")
---  rules                  "default"
---  memory_utilization     part of the HBM that the engine may use, from which num_blocks follows (0.9)
---  host       what the host adds, in seconds: { front_end =, step =, request =, token = }, for each request outside
---             of the engine, to each step, for each request and each token in it (0), or the name of a profile
---             ("vllm-0.15": front_end = 7.5e-3)
---  step_time  in place of a model: { fixed =, per_token =, per_context_token =, per_prefill_pair = }: seconds of a
---             step: fixed, and for each token that it computes, each key that a decode reads, each pair of a query and
---             a key in a prefill
---  engine     vLLM's settings: max_num_seqs (1024), max_num_batched_tokens (8192), max_model_len (no limit),
---             block_size (16), num_blocks (its num_gpu_blocks; what the memory
---             holds, no limit with step_time), prefix_caching (true with num_blocks),
---             chunked_prefill (true), async_scheduling (true with a model), long_prefill_token_threshold (0: off),
---             policy ("fcfs" or "priority"), speculation { method = "ngram", "draft_model" or "eagle", tokens =,
---             accepted = { … } or acceptance = }
---  requests   a list of { arrival =, prompt =, output =, priority =, segments = }, or the name of a CSV or JSONL file
---  load       { concurrency =, think = }, { rate =, process = "poisson", "gamma" or "uniform", cv =, burst = }, or
---             { stages = { { rate =, duration = } … } }; arrivals in the list otherwise
---  prompt     without requests: tokens, or { uniform = { 100, 200 } }, { lognormal = { median =, sigma = } } (or mean
---             and cv), { exponential = mean }, { values = { … } }, each with min and max
---  output     the same for answers
---  prefix     { tokens =, groups = }: tokens that stand before each prompt, the same within a group (1)
---  count      requests to draw
---  seed       of what is drawn
---  replicas   engines behind a router
---  router     "round_robin", "least_loaded" or "prefix": the longest cached prefix
---  slo        { ttft =, tpot =, e2e =, quantile = }: limits in seconds, and the part of requests that must keep them
---             (0.99)
---  keep       "requests" or "steps" (both): what to return one by one
---  threads    as many as processors that may be used; the answer is the same
---@return tperf.served result
function serve.run(given)
  local o = check.record("tperf.serve", given, schema)
  check_times(o)
  local steps = not o.step_time and priced.steps(o) or nil
  check_engine(o.engine)
  local requests = listed(o)
  local drawn = load.of(o, requests and rawlen(requests))
  local s = o.engine.speculation
  local r = complete(core.serving(settings_of(o), s and s.accepted, requests, drawn, steps), o)
  r.num_blocks = o.engine.num_blocks
  return r
end

return serve
