--- Pools of engines, from tperf.serve's arguments to the core's form: one pool for everything, or two, if prefill
--- is disaggregated. docs/serving.md.
local arguments = require "tperf.question.serving_arguments"
local check = require "tperf.base.check"
local axes = require "tperf.describe.strategy.axes"
local core = require "tperf.core"
local engines = require "tperf.question.serve.engine"
local estimate = require "tperf.describe.estimate"
local priced = require "tperf.question.serve.priced"
local problem = require "tperf.question.problem"
local ranks = require "tperf.question.serve.ranks"
local schedulers = require "tperf.describe.schedulers"
local serving = require "tperf.question.infer.deployment"
local strategy = require "tperf.describe.strategy"

local pool = {}

local WHAT <const> = "tperf.serve"
local USUAL_PROMPT <const> = 1024 -- of which blocks are asked what they leave out
local METHODS = { ngram = 1, draft_model = 2, eagle = 3 }

local seconds = check.number { min = 0, max = 1e12, unit = "s", default = 0 }
local size = check.integer { min = 1, max = 1 << 20, optional = true }
local engine_schema = arguments.schema("serve", "engine")

-- The fields of tperf.serve, except those of strategies.
local common = arguments.schema "serve"
common.engine = check.record_of(engine_schema, { default = {} })
common.load = check.record_of(arguments.schema("serve", "load"), { optional = true })
common.transfer = check.record_of({ latency = seconds, per_token = seconds }, { optional = true })

-- The fields that a pool may set for itself; the rest applies to both.
local own = {
  step_time = common.step_time, replicas = size, pp = size, attention_dp = size,
  engine = check.record_of(arguments.without_defaults(engine_schema), { default = {} }),
  system = check.any { optional = true }, memory_utilization = common.memory_utilization,
}

--- The fields of tperf.serve, with the axes and options of all strategies.
---@return table schema
function pool.schema()
  local schema, one = {}, {}
  for name, checker in pairs(common) do schema[name] = checker end
  for name, checker in pairs(own) do one[name] = checker end
  for _, s in ipairs(strategy.all()) do
    serving.add_strategy(schema, s, size)
    serving.add_strategy(one, s, size)
  end
  schema.prefill, schema.decode = check.record_of(one, { optional = true }), check.record_of(one, { optional = true })
  return schema
end

local function check_times(o)
  local t = o.step_time
  if not t and not (o.model and o.system) then
    check.fail("%s: say what a step takes: 'model' and 'system' price it, or step_time = { fixed = 5e-3, "
      .. "per_token = 20e-6 } gives its seconds", WHAT)
  end
  if t and (o.model ~= nil or o.system ~= nil) then
    check.fail("%s: 'step_time' says what a step takes, and so do 'model' and 'system': give one of them", WHAT)
  end
  if t and o.software ~= nil then
    check.fail("%s: 'software' goes with a model; 'step_time' says what steps take", WHAT)
  end
  for _, name in ipairs { "pooled", "swa_full_tokens_ratio" } do
    if t and o.engine[name] ~= nil then
      check.fail("%s: 'engine.%s' goes with a model; 'engine.groups' says the same of step_time", WHAT, name)
    end
  end
  for _, name in ipairs { "placement", "rank_order" } do
    if t and o[name] ~= nil then
      check.fail("%s: '%s' goes with a model, whose steps depend on which GPUs are neighbours", WHAT, name)
    end
  end
  if t and o.host ~= nil then
    check.fail("%s: 'host' goes with a model; 'step_time' has the host's part", WHAT)
  end
  if t and t.fixed + t.per_token + t.per_context_token + t.per_prefill_pair == 0 then
    check.fail("%s: 'step_time' is 0: a step takes time", WHAT)
  end
end

local function check_engine(e)
  local s = e.speculation
  if s and (s.accepted == nil) == (s.acceptance == nil) then
    check.fail("%s: 'engine.speculation' needs accepted, a list of numbers of drafts, or acceptance, a probability",
      WHAT)
  end
  local waits = e.batch_wait_timeout_iters > 0 or e.batch_wait_max_tokens_ratio > 0
  local scheduler, shown = schedulers.of(e.scheduler), check.show(e.scheduler or schedulers.USUAL)
  if waits and not (scheduler.waits and e.policy == "fcfs") then
    check.fail("%s: 'engine.batch_wait_timeout_iters' and 'engine.batch_wait_max_tokens_ratio' are TensorRT-LLM's: "
      .. "they go with scheduler = %s and policy = \"fcfs\", got %s and %s", WHAT, schedulers.with("waits", true),
      shown, check.show(e.policy))
  end
  if e.mixed_chunk and not scheduler.mixes then
    check.fail("%s: 'engine.mixed_chunk' is SGLang's: it goes with software or scheduler = %s, got %s", WHAT,
      schedulers.with("mixes", true), shown)
  end
  local g, pools = e.groups, scheduler.pools
  local lone = g and pools == "apart" and g.apart > 0 and g.whole + g.states + g.window == 0
  if g and pools ~= "shared" and not lone then
    check.fail("%s: 'engine.groups' share blocks under scheduler = %s, not %s%s", WHAT,
      schedulers.with("pools", "shared"), shown,
      pools == "apart" and ", under which only windowed ones have blocks, 'apart' from the others'" or "")
  end
  if g and pools == "shared" and g.apart > 0 then
    check.fail("%s: 'engine.groups.apart' is of scheduler = %s: groups share num_blocks under %s", WHAT,
      schedulers.with("pools", "apart"), shown)
  end
  if e.prefix_caching and not e.num_blocks then
    check.fail("%s: 'engine.prefix_caching' needs num_blocks: what is cached depends on how many there are", WHAT)
  end
end

-- All layers are of one group, and keep all tokens.
local ALONE <const> = { whole = 0, windowed = 0, window_blocks = 0, states = 0, apart = 0, window = 0 }
local NO_TIME = { fixed = 0, per_token = 0, per_context_token = 0, per_prefill_pair = 0 }

-- A pool's settings in the core's form.
local function encode(o)
  local e, time, s = o.engine, o.step_time or NO_TIME, o.engine.speculation or {}
  local caching, ahead, chunked = e.prefix_caching, e.async_scheduling, e.chunked_prefill
  local scheduler, groups = schedulers.of(e.scheduler), e.groups or ALONE
  local expected = o.estimate or estimate(nil, "estimate")
  if caching == nil then caching = e.num_blocks ~= nil end
  if ahead == nil then ahead = o.step_time == nil end
  if chunked == nil then chunked = not scheduler.whole_prompts end
  return {
    scheduler = scheduler.name,
    engine = {
      max_num_seqs = e.seats or e.max_num_seqs,
      max_num_batched_tokens = e.max_num_batched_tokens, max_model_len = e.max_model_len, block_size = e.block_size,
      num_blocks = e.num_blocks or 0, long_prefill_token_threshold = e.long_prefill_token_threshold,
      prefix_caching = caching, chunked_prefill = chunked,
      mixed_chunk = e.mixed_chunk or false, policy = e.policy == "priority" and 1 or 0,
      async_scheduling = ahead, draft_method = METHODS[s.method] or 0, draft_tokens = s.tokens or 0,
      estimate_first = expected.init_new_token_ratio, estimate_least = expected.min_new_token_ratio_factor,
      estimate_steps = expected.new_token_ratio_decay_steps, estimate_ahead = expected.retract_decode_steps,
      estimate_longest = expected.clip_max_new_tokens,
      acceptance = s.acceptance or 0, receive_interval = e.receive_interval,
      batch_wait_steps = e.batch_wait_timeout_iters,
      batch_wait_tokens = math.ceil(e.batch_wait_max_tokens_ratio * e.max_num_batched_tokens),
      whole_groups = groups.whole, windowed_groups = groups.windowed, window_blocks = groups.window_blocks,
      state_groups = groups.states, apart = groups.apart, window = groups.window,
      replicas = o.replicas, ranks = o.ranks, stages = o.pp,
    },
    line = {
      fixed = time.fixed, per_token = time.per_token, per_context_token = time.per_context_token,
      per_prefill_pair = time.per_prefill_pair,
    },
    accepted = s.accepted, steps = o.steps,
  }
end

-- Sets the sizes of all axes in checked arguments, and returns their problem.
local function divided(o)
  check_times(o)
  local s = axes.asked(o, true)
  problem.refuse_axes(WHAT, o, { s })
  local p = o.step_time and ranks.unpriced(s) or priced.problem(o, s)
  ranks.set(o, p)
  return p
end

--- The sizes of all axes of checked arguments, by name.
function pool.sizes(o)
  local sizes = {}
  for i, name in ipairs(divided(o).strategy.axis_names) do sizes[name] = o.own[i] end
  return sizes
end

-- A pool: its checked arguments, the core's form and, with a model, its memory.
local function made(o)
  local p, held = divided(o), nil
  if o.step_time then engines.fill(o.engine) else o.steps, held = priced.steps(p, o) end
  check_engine(o.engine)
  return {
    o = o, core = encode(o), held = held, gpus = o.rank_gpus * o.ranks * o.replicas, strategy = p.strategy,
    warnings = held and serving.warnings(p, o.own, ranks.whole(USUAL_PROMPT, ranks.shards(o, p))),
  }
end

-- Arguments that pools do not depend on, but for their number of replicas.
local LOADS <const> = { "load", "count", "seed", "slo", "keep", "threads", "router", "replicas" }

-- A pool with the load and the replicas of other arguments.
local function again(known, o)
  local q, encoded, engine = {}, {}, {}
  for name, value in next, known.o do q[name] = value end
  for _, name in ipairs(LOADS) do q[name] = o[name] end
  ranks.replicate(q, known.strategy)
  for name, value in next, known.core do encoded[name] = value end
  for name, value in next, known.core.engine do engine[name] = value end
  encoded.engine, engine.replicas = engine, q.replicas
  return { o = q, core = encoded, held = known.held, gpus = q.rank_gpus * q.ranks * q.replicas,
    strategy = known.strategy, warnings = known.warnings }
end

-- The pool that decodes and prefills. held: what a prepared question keeps, that of the last arguments.
local function alone(o, held)
  if not held then return made(o) end
  local rest = {}
  for name, value in next, o do rest[name] = value end
  for _, name in ipairs(LOADS) do rest[name] = nil end
  local key = core.codec.identity(rest)
  if held.key == key then return again(held.pool, o) end
  local one = made(o)
  held.key, held.pool = key, one
  return one
end

-- The arguments of one of two pools: the common ones, overridden by its own.
local function with(o, mine)
  local q = {}
  for name, value in pairs(o) do q[name] = value end
  for name, value in pairs(mine) do q[name] = value end
  q.engine = {}
  for name, value in pairs(o.engine) do q.engine[name] = value end
  for name, value in pairs(mine.engine) do q.engine[name] = value end
  if mine.step_time then q.model, q.system = nil, nil end
  return q
end

--- The pools of checked arguments: the one that decodes, and the one that prefills for it, or nil.
---@param o table
---@param held table?  what a prepared question keeps
function pool.of(o, held)
  if (o.prefill == nil) ~= (o.decode == nil) then
    check.fail("%s: 'prefill' and 'decode' go together: a pool for prompts, one for answers", WHAT)
  end
  if not o.prefill then
    if o.transfer then check.fail("%s: 'transfer' goes with 'prefill' and 'decode'", WHAT) end
    local one = alone(o, held)
    o.host = one.o.host
    return one
  end
  local prefill, decode = made(with(o, o.prefill)), made(with(o, o.decode))
  if prefill.core.engine.draft_method > 0 then -- only the pool that decodes drafts
    prefill.core.engine.draft_method, prefill.core.accepted = 0, nil
    if prefill.core.steps then prefill.core.steps.more.drafts = 0 end
  end
  o.host = prefill.o.host
  return decode, prefill
end

--- Seconds to transfer keys and values from one pool to the other: fixed, and per token of a prompt. GPUs send in
--- parallel, as many as the smaller pool's replica has, over the fast network if both fit into one fast domain.
function pool.transfer(o, decode, prefill)
  if o.transfer or not (decode.held and prefill.held) then
    return o.transfer and o.transfer.latency or 0, o.transfer and o.transfer.per_token or 0
  end
  local from, to = prefill.o.rank_gpus, decode.o.rank_gpus
  local senders = math.min(from, to)
  local bytes = math.min(prefill.held.token * from, decode.held.token * to) / senders
  local system, many = decode.held.system, 1024
  local near = prefill.gpus + decode.gpus <= system.network.fast.domain
  local machine = core.machine(system)
  local function send(tokens)
    return machine:collective(decode.held.rules, "send", bytes * tokens, 2, near and 2 or 1)
  end
  local one, more = send(1), send(1 + many)
  local per_token = (more - one) / many
  return math.max(one - per_token, 0), per_token
end

return pool
