--- tperf.serve: requests through a serving engine, simulated event by event in C. docs/serving.md.
local bill = require "tperf.question.serve.bill"
local check = require "tperf.base.check"
local core = require "tperf.core"
local load = require "tperf.question.serve.load"
local pool = require "tperf.question.serve.pool"
local strategy = require "tperf.describe.strategy"
local trace = require "tperf.question.serve.trace"
local questions = require "tperf.question.ranks.questions"

local serve = {}

---@class tperf.latency seconds
---@field mean number
---@field p50 number
---@field p90 number
---@field p99 number
---@field margin { mean: number?, p50: number?, p90: number?, p99: number? } half of each one's 95 % interval: how far
---  a run of so many requests may be off by chance; absent where requests are too few to tell (50, 100, 500, 5,000)

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
---@field utilization number part of the time that engines are in a step (of the pool that decodes)
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
---@field num_blocks? integer of the KV cache of a rank, as given or predicted; of the pool that decodes
---@field gpus integer
---@field memory? { weights: number, buffers: number, cache: number, capacity: number } bytes on a GPU: buffers of the
---  largest step, all blocks of the cache and states, and all that CUDA sees; of the pool that decodes
---@field throughput_per_gpu? number output tokens a second
---@field cost? { generated: number, total: number } dollars per million tokens generated, and per million of prompts
---  and answers: all GPUs, from the first arrival to the last token; with gpu_hour or a system that has a price
---@field energy_per_token? number joules of a generated token: the power limit of all GPUs while they are in a step
---@field interval? { low: number, high: number } seconds: the mean TPOT that nine tenths of the engine's runs would
---  have had, by how far runs lay from predictions of fits that had not seen them; as training's
---@field pools? table with prefill and decode: of each { gpus, replicas, num_blocks, utilization }, transfer =
--- { latency, per_token } in seconds, matched = the ratio of the utilizations, at which many times the engines of the
--- prefill pool are as busy as those of the other
---@field requests? tperf.served_request[] with keep
---@field steps? tperf.served_step[] with keep = "steps"

local ROUTINGS = { round_robin = 0, least_loaded = 1, prefix = 2 }
local KEEPS = { requests = 1, steps = 2 }

local MOST <const> = (1 << 31) - 2
local limit = check.number { above = 0, max = 1e12, unit = "s", optional = true }

local own = {
  requests = check.any { optional = true },
  load = check.record_of(load.schema, { optional = true }),
  prompt = load.lengths, output = load.lengths,
  prefix = check.record_of({ tokens = check.integer { min = 1, max = 1 << 28 },
    groups = check.integer { min = 1, max = MOST, default = 1 } }, { optional = true }),
  count = check.integer { min = 1, max = MOST, optional = true }, seed = check.integer { default = 1 },
  router = check.choice { { "round_robin", "least_loaded", "prefix" }, default = "round_robin" },
  slo = check.record_of({ ttft = limit, tpot = limit, e2e = limit,
    quantile = check.number { min = 0, max = 1, default = 0.99 } }, { optional = true }),
  keep = check.choice { { "requests", "steps" }, optional = true },
  threads = check.integer { min = 1, max = 1024, optional = true },
}

local schemas = {} -- by the number of strategies that there are: none is ever taken away

local function schema()
  local count = #strategy.all()
  if not schemas[count] then
    schemas[count] = pool.schema()
    for name, checker in pairs(own) do schemas[count][name] = checker end
  end
  return schemas[count]
end

-- The requests as a list that the core copies once, or nil.
local function listed(o)
  if type(o.requests) == "string" then return trace.read(o.requests) end
  if o.requests ~= nil and type(o.requests) ~= "table" then
    check.fail("tperf.serve: 'requests' must be a list of requests or the name of a file, got %s",
      check.show(o.requests))
  end
  return o.requests
end

local function settings_of(o, latency, per_token)
  local given, slo, host = o.load or {}, o.slo or {}, o.host or {}
  return {
    seed = o.seed % (1 << 53), routing = ROUTINGS[o.router], concurrency = given.concurrency or 0,
    think = given.think or 0, threads = o.threads or core.search.threads(), keep = KEEPS[o.keep] or 0,
    front_end = host.front_end or 0, front_end_token = host.front_end_token or 0, transfer = latency,
    transfer_token = per_token,
    ttft = slo.ttft, tpot = slo.tpot, e2e = slo.e2e,
  }
end

-- Part of the time that a pool's engines are in a step; with stages, of the time that they have batches under way.
local function utilization(p, busy, time) return busy / (time * p.o.replicas * p.o.ranks * p.o.pp) end

-- What each of two pools did. matched: how many times as many engines the prefill pool would need to be as busy.
local function pools_of(r, decode, prefill, time, latency, per_token)
  local function one(p, busy)
    return { gpus = p.gpus, replicas = p.o.replicas, num_blocks = p.o.engine.num_blocks,
      utilization = utilization(p, busy, time) }
  end
  local pools = { prefill = one(prefill, r.prefill_busy), decode = one(decode, r.busy - r.prefill_busy),
    transfer = { latency = latency, per_token = per_token } }
  pools.matched = pools.prefill.utilization / pools.decode.utilization
  return pools
end

-- Rates and parts of the counts that the core gives.
local function complete(r, o, decode, prefill, latency, per_token)
  local time = r.duration > 0 and r.duration or math.huge
  r.throughput = r.output_tokens / time
  r.requests_per_second = r.finished / time
  r.gpus = decode.gpus + (prefill and prefill.gpus or 0)
  if prefill then r.pools = pools_of(r, decode, prefill, time, latency, per_token) end
  r.utilization = utilization(decode, r.busy - r.prefill_busy, time)
  r.concurrency = r.e2e and r.e2e.mean * r.finished / time or 0
  r.cache_hits = r.prompt_tokens > 0 and r.cached_tokens / r.prompt_tokens or 0
  if o.slo then
    r.goodput = r.good / time
    r.attainment = r.good / (r.finished + r.rejected)
    r.slo_met = r.attainment >= o.slo.quantile
  end
  bill.add(r, o, decode, prefill)
  r.good, r.busy, r.prefill_busy = nil, nil, nil
  return r
end

--- Simulates requests that go through serving engines: by the rules of vLLM's V1 scheduler, SGLang's or TensorRT-LLM's.
---@param given table
---  model, system          a name, a file, a table: steps are priced from the model's network on the system
---  software               the engine: "vllm", the newest release of it that software/ has (default), "sglang",
---                         "tensorrt-llm", with a release ("vllm-0.11"), a file or a table (see tperf.software)
---  strategy               how layers are cut: "tensor" (default), "context", "stationary", one of your own; follows
---                         from the axes
---  tp, cp, ulysses, tp1, tp2   GPUs along the strategy's axes, which cut layers, prompts and caches (1)
---  pp                     stages that hold layers in turn (1)
---  attention_dp           ranks of a replica, each with a queue and a cache of its own and the GPUs of those axes,
---                         whose steps go together; its experts are spread over them (1)
---  ep, etp                GPUs that experts are spread over, that cut each expert (1; as tp): out of tp x cp x ranks.
---                         Without attention_dp so many of the replicas as they take are ranks
---  cp_kind, moe_dispatcher   options of the strategy; with "deepep" up to 256 tokens of a GPU go by its kernels of low
---                         latency
---  precision, weight_dtype, kv_dtype, compute_dtype   as tperf.infer has them
---  rules                  "default"
---  gpu_hour               dollars per GPU-hour, in place of the system's price
---  memory_utilization     part of the memory that the engine may use, from which num_blocks follows (the engine's)
---  sampling   how tokens are drawn: "greedy" (default), "random", "top_p", or "none", which takes no time
---  host       what the host adds, in seconds: { front_end =, front_end_token =, step =, request =, token = }, for each
---             request outside of the engine, for each token of its prompt there, to each step, for each request and
---             each token in it (the engine's; 0 where the table does not say)
---  step_time  in place of a model: { fixed =, per_token =, per_context_token =, per_prefill_pair = }: seconds of a
---             step: fixed, and for each token that it computes, each key that a decode reads, each pair of a query and
---             a key in a prefill
---  engine     vLLM's settings: max_num_seqs (1024), max_num_batched_tokens (8192), max_model_len (no limit),
---             block_size (16), num_blocks (its num_gpu_blocks; what the memory
---             holds, no limit with step_time), prefix_caching (true with num_blocks),
---             chunked_prefill (true, but for TensorRT-LLM), async_scheduling (true with a model),
---             long_prefill_token_threshold (0: off), policy ("fcfs" or "priority"), speculation { method = "ngram",
---             "draft_model" or "eagle", tokens =, accepted = { … } or acceptance = }; scheduler ("vllm", "sglang" or
---             "tensorrt-llm": the engine's), receive_interval (steps between two looks for new requests: 1)
---  prefill, decode        two pools in place of one: prompts are computed in the first, and go over with their keys
---             and values and their first token. Each has what differs from the rest: { strategy =, its axes,
---             pp =, attention_dp =, replicas =, system =, memory_utilization =, engine = { … }, step_time = }
---  transfer   { latency =, per_token = }: seconds of that (what the network between the pools takes; 0 with step_time)
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
  local o = check.record("tperf.serve", given, schema())
  local decode, prefill = pool.of(o)
  local latency, per_token = 0, 0
  if prefill then latency, per_token = pool.transfer(o, decode, prefill) end
  local requests = listed(o)
  local drawn = load.of(o, requests and rawlen(requests))
  local r = core.serving(settings_of(o, latency, per_token), decode.core, prefill and prefill.core, requests, drawn)
  complete(r, o, decode, prefill, latency, per_token)
  r.num_blocks = decode.o.engine.num_blocks
  local spread = decode.held and decode.held.spread
  if spread and r.tpot then r.interval = { low = r.tpot.mean * spread[1], high = r.tpot.mean * spread[2] } end
  return r
end

questions.register("serve", serve.run)

return serve
