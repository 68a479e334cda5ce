--- tperf.serve: an event-by-event simulation in C of requests through a serving engine. docs/serving.md.
local bill = require "tperf.question.serve.bill"
local check = require "tperf.base.check"
local core = require "tperf.core"
local intervals = require "tperf.describe.intervals"
local load = require "tperf.question.serve.load"
local placement = require "tperf.question.placement"
local pool = require "tperf.question.serve.pool"
local strategy = require "tperf.describe.strategy"
local trace = require "tperf.question.serve.trace"
local questions = require "tperf.question.ranks.questions"
local steady = require "tperf.question.serve.steady"
local warnings = require "tperf.question.warnings"

local serve = {}

---@class tperf.latency seconds
---@field mean number
---@field p50 number
---@field p90 number
---@field p99 number
---@field margin { mean: number?, p50: number?, p90: number?, p99: number? } half of each one's 95 % confidence interval
---  for a run of so many requests; absent below 50, 100, 500 and 5,000 requests

---@class tperf.served_request a request of a simulation (if requests are kept)
---@field status string "finished" or "rejected": its prompt reaches max_model_len, or an empty cache cannot hold it
---@field arrival number seconds
---@field first_scheduled? number start of the first step that computes it; absent if rejected, as are the next three
---@field first_token? number end of the step that generated it
---@field last_token? number end of the step that generated it
---@field longest_gap? number longest time between two steps that generated tokens of it
---@field tokens integer output tokens
---@field preemptions integer
---@field cached_tokens integer tokens of the prompt found in the prefix cache at first admission
---@field steps integer steps that computed tokens of it

---@class tperf.served_step a step of an engine (if steps are kept)
---@field start number seconds
---@field duration number seconds; 0 if it only preempted
---@field replica integer
---@field running integer running requests, once the step is scheduled
---@field waiting integer waiting requests
---@field prefills integer requests that prefill
---@field decodes integer requests that decode
---@field prefill_tokens integer
---@field decode_tokens integer with drafts
---@field decode_context integer keys that decodes read
---@field prefill_pairs integer pairs of a query and a key in prefills
---@field preempted integer
---@field free_blocks? integer absent if blocks are unlimited

---@class tperf.served the result of a simulation
---@field tokens_per_second number output tokens a second: of a load that lasts, in the steady middle of the run; else,
---  as all rates, costs and latencies, from the first arrival to the last token
---@field requests_per_second number
---@field ttft? tperf.latency from arrival to the first token; absent without any, as are the next two
---@field tpot? tperf.latency mean time per output token after the first, of requests with two and more
---@field e2e? tperf.latency from arrival to the last token
---@field goodput? number requests a second that keep all limits of slo
---@field attainment? number part of all requests that keep them
---@field slo_met? boolean whether attainment is at least slo.quantile
---@field utilization number part of the time that engines are in a step (of the decode pool)
---@field concurrency number mean requests in the system
---@field saturated boolean requests arrive faster than they are served: waits grow with the length of the load
---@field steady boolean whether rates, costs and latencies are those of a steady state, without ramp-up and drain: the
---  rest of the run is several times as long as a request takes; true of lists with arrivals and of stages, which are
---  answered as they are
---@field ramp_up? number seconds from the first arrival until the engines are as full as ever, of a load that lasts
---@field drain? number seconds from the last request's first token to the last token, likewise
---@field whole? { tokens_per_second: number, requests_per_second: number, ttft: tperf.latency?, tpot: tperf.latency?,
---  e2e: tperf.latency?, goodput: number?, attainment: number? } of the whole run, ramp-up and drain included, as
---  benchmarks report them; present if the figures above are those of its middle
---@field preemptions integer
---@field cache_hits number part of the prompt tokens found in the prefix cache
---@field duration number seconds, from the first arrival to the last token
---@field finished integer
---@field rejected integer
---@field step_count integer
---@field prompt_tokens integer of finished requests
---@field output_tokens integer
---@field cached_tokens integer
---@field scheduled_tokens integer with recomputed tokens and drafts
---@field num_blocks? integer blocks of a rank's KV cache, given or predicted; of the decode pool
---@field cache_tokens? integer tokens in these blocks, if every group of layers kept all of them, as vLLM logs it
---@field full_context? { tokens: integer, requests: number } the longest request, and how many of them have room in a
---  rank's cache at once, as vLLM prints its "maximum concurrency"
---@field max_num_seqs integer most requests that a rank runs at once: the engine's, or fewer if there is no room for
---  the states of so many; of the decode pool
---@field defaults? { max_num_seqs: integer?, max_num_batched_tokens: integer?, max_cudagraph_capture_size: integer?,
---  memory_utilization: number? } what the engine takes on this device where the question says nothing; of the decode
---  pool
---@field gpus integer
---@field placement? "stack"|"best" how GPUs are placed: in the engine's order of ranks, or as is fastest
---@field rank_order? string of "stack": axes from neighbours to distant GPUs; of the decode pool
---@field memory? { weights: number, buffers: number, cache: number, capacity: number } bytes on a GPU: buffers of the
---  largest step, all blocks of the cache and states, and all memory that CUDA sees; of the decode pool
---@field tokens_per_second_per_gpu? number output tokens a second
---@field cost? { generated: number, total: number } dollars per million output tokens, and per million of prompts and
---  outputs: all GPUs, from the first arrival to the last token; needs gpu_hour or a system with a price
---@field energy_per_token? number joules per output token: the power limit of all GPUs while they are in a step
---@field intervals? table of engines with a profile: `tpot`, `ttft` (means, seconds), and of closed loops and of loads
---  beyond what is served, `duration` (seconds) and `tokens_per_second`: { low, high } each, in which 90 % of
---  comparable runs lie
---@field interval? { low: number, high: number } intervals.tpot
---@field throughput number deprecated: tokens_per_second, also in `whole` and `intervals`
---@field throughput_per_gpu? number deprecated: tokens_per_second_per_gpu
---@field warnings? string[] what the figures do not hold for: a run without a steady state, what drafts are assumed to
---  cost, what of the question no run of the engine resembled
---@field pools? table with prefill and decode: of each { gpus, replicas, num_blocks, utilization }, transfer =
--- { latency, per_token } in seconds, matched = the ratio of the utilizations: by how much the prefill pool's number of
--- engines would have to grow for both to be equally busy
---@field requests? tperf.served_request[] with keep
---@field steps? tperf.served_step[] with keep = "steps"

local ROUTINGS = { round_robin = 0, least_loaded = 1, prefix = 2 }
local KEEPS = { requests = 1, steps = 2 }

local schemas = {} -- by the number of strategies: none is ever removed

local function schema()
  local count = #strategy.all()
  if not schemas[count] then
    schemas[count] = pool.schema()
  end
  return schemas[count]
end

-- The requests as a list that the core copies once; nil if they are drawn.
local function listed(o)
  if type(o.requests) == "string" then return trace.read(o.requests) end
  if o.requests ~= nil and type(o.requests) ~= "table" then
    check.fail("tperf.serve: 'requests' must be a list of requests or the name of a file, got %s",
      check.show(o.requests))
  end
  return o.requests
end

-- Front ends of a replica. vLLM starts one for each data-parallel rank (vllm/entrypoints/cli/serve.py).
local function front_ends_of(first)
  local o = first.o
  return o.engine.front_ends or first.held and first.held.profile.engine.scheduler == "vllm" and o.ranks or 1
end

local function settings_of(o, latency, per_token, front_ends)
  local given, slo, host = o.load or {}, o.slo or {}, o.host or {}
  return {
    seed = o.seed % (1 << 53), routing = ROUTINGS[o.router], concurrency = given.concurrency or 0,
    think = given.think or 0, threads = o.threads or core.search.threads(), keep = KEEPS[o.keep] or 0,
    front_end = host.front_end or 0, front_end_token = host.front_end_token or 0, front_ends = front_ends,
    transfer = latency, transfer_token = per_token,
    ttft = slo.ttft, tpot = slo.tpot, e2e = slo.e2e,
  }
end

-- The part of the time that a pool's engines are in a step; with stages, that they have batches in flight.
local function utilization(p, busy, time) return busy / (time * p.o.replicas * p.o.ranks * p.o.pp) end

-- The results of two pools. matched: by how much the number of prefill engines would have to grow to be as busy.
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

-- Adds the rates and ratios that follow from the core's counts; returns its steadiness.
local function complete(r, o, decode, prefill, latency, per_token)
  local time = r.duration > 0 and r.duration or math.huge
  r.tokens_per_second = r.output_tokens / time
  r.requests_per_second = r.finished / time
  r.gpus = decode.gpus + (prefill and prefill.gpus or 0)
  if prefill then r.pools = pools_of(r, decode, prefill, time, latency, per_token) end
  r.utilization = utilization(decode, r.busy - r.prefill_busy, time)
  r.cache_hits = r.prompt_tokens > 0 and r.cached_tokens / r.prompt_tokens or 0
  if o.slo then
    r.goodput = r.good / time
    r.attainment = r.good / (r.finished + r.rejected)
  end
  local steadiness = steady.settle(r, o)
  r.concurrency = r.e2e and r.e2e.mean * r.requests_per_second or 0
  if o.slo then r.slo_met = r.attainment >= o.slo.quantile end
  bill.add(r, o, decode, prefill)
  r.good, r.busy, r.prefill_busy = nil, nil, nil
  return steadiness
end

-- How many requests of the longest length have room at once, as vLLM prints ("Maximum concurrency for N tokens per
-- request"): blocks over those that such a request takes of each group of layers (docs/serving.md).
local function full_context(engine)
  local longest = engine.max_model_len
  if not engine.num_blocks or longest >= 1 << 30 then return nil end
  local g, size = engine.groups, engine.block_size
  local blocks = (longest + size - 1) // size
  local one = blocks
  if g and g.apart == 0 then
    local window = g.window > 0 and (g.window + engine.max_num_batched_tokens - 1 + size - 1) // size + 1 or blocks
    one = math.min(blocks, window) * (1 + g.whole) + g.windowed * math.min(blocks, g.window_blocks) + g.states
  end
  return { tokens = longest, requests = engine.num_blocks / one }
end

-- The ends of a figure's interval; nil: nothing comparable was measured.
local function around(value, part) return value and part and { low = value * part[1], high = value * part[2] } end

-- Adds what nine tenths of comparable runs have. With arrivals at a rate that the engine keeps up with, the load alone
-- decides how many tokens come in how much time.
local function add_intervals(r, o, decode)
  local held = decode.held
  local parts = intervals.of_serving { model = held.model, system = held.system,
    weights = held.weights, requests = r.concurrency / decode.o.replicas }
  local all = { tpot = around(r.tpot and r.tpot.mean, parts.tpot), ttft = around(r.ttft and r.ttft.mean, parts.ttft) }
  if parts.duration and (r.saturated or o.load and o.load.concurrency) then
    all.duration = around(r.duration, parts.duration)
    all.tokens_per_second = { low = r.tokens_per_second / parts.duration[2],
      high = r.tokens_per_second / parts.duration[1] }
  end
  r.intervals, r.interval = next(all) and all or nil, all.tpot
end

-- Adds the deprecated names of figures.
local function add_copies(r)
  for _, of in ipairs { r, r.whole or {}, r.intervals or {} } do of.throughput = of.tokens_per_second end
  r.throughput_per_gpu = r.tokens_per_second_per_gpu
end

-- As serve.run. kept: what a prepared question keeps.
local function ask(given, kept)
  local o = check.record("tperf.serve", given, schema())
  local decode, prefill = pool.of(o, kept)
  local latency, per_token = 0, 0
  if prefill then latency, per_token = pool.transfer(o, decode, prefill) end
  local requests, steadiness = listed(o), nil
  local settings, listed_count = settings_of(o, latency, per_token, front_ends_of(prefill or decode)),
    requests and rawlen(requests)
  local function run(count)
    local r = core.serve(settings, decode.core, prefill and prefill.core, requests, load.of(o, listed_count, count))
    steadiness = complete(r, o, decode, prefill, latency, per_token)
    return r
  end
  local free = not requests and not o.count and steady.lasts(o)
  local r = free and steady.sized(run, nil, true) or run(o.count)
  local engine = decode.o.engine
  r.num_blocks, r.max_num_seqs = engine.num_blocks, engine.seats or engine.max_num_seqs
  local groups = engine.groups
  r.full_context = decode.held and full_context(engine)
  r.cache_tokens = r.num_blocks
    and r.num_blocks // (groups and groups.count or 1) * (groups and groups.least or engine.block_size)
  local held = decode.held
  r.defaults = held and next(decode.o.taken) and decode.o.taken or nil
  if held then placement.tell(r, held.placed, held.strategy) end
  if held and held.profile.spread and r.e2e then add_intervals(r, o, decode) end
  add_copies(r)
  r.warnings = warnings.of(r, decode, prefill, steadiness)
  r.unsettled = nil
  return r
end

--- Simulates requests through serving engines, by the rules of the scheduler of vLLM (V1), SGLang or TensorRT-LLM.
---@param given table  the arguments of serving (tperf.question.serving_arguments), and
---  prefill    disaggregated serving: settings of the pool that computes prompts and sends their keys and values and
---             their first token to the decode pool: { strategy =, its axes, pp =, attention_dp =, replicas =,
---             system =, memory_utilization =, engine = { … }, step_time = }
---  decode     settings of the pool that decodes, the same fields as prefill
---  transfer   { latency =, per_token = }: seconds to send a prompt's keys and values to the decode pool (by default
---             those of the network between the pools; 0 with step_time)
---  engine     the engine's settings, in vLLM's words; those of other engines have theirs
---  load       how requests arrive; by default as in the list of requests
---@return tperf.served result
function serve.run(given) return ask(given) end

--- The sizes of the axes of a deployment (one pool), those not given too.
---@param given table  the arguments of tperf.serve
---@return table<string, integer>
function serve.sizes(given) return pool.sizes(check.record("tperf.serve", given, schema())) end

questions.register("serve", serve.run, ask)

return serve
