--- Prices an engine's steps from its model's network: tables that the simulator looks up, made once for each
--- deployment. Ops that treat all tokens of a step alike (products, norms, collectives) are priced by the number of
--- tokens, the head by the sampled rows, attention by each request's own length. docs/serving.md has the rules.
local core = require "tperf.core"
local drafts = require "tperf.question.serve.drafts"
local engines = require "tperf.question.serve.engine"
local machines = require "tperf.question.serve.machine"
local memory = require "tperf.question.serve.memory"
local refusal = require "tperf.base.refusal"
local runtime = require "tperf.describe.profile"
local schedulers = require "tperf.describe.schedulers"
local serving = require "tperf.question.infer.deployment"
local strategy = require "tperf.describe.strategy"
local tables = require "tperf.question.serve.tables"

local priced = {}

local WHAT <const> = "tperf.serve"
local ELEMENT_BYTES <const> = 2 -- of the residual stream between stages
local MANY <const> = 1024 -- tokens

-- Elements per token that a GPU sends to the next stage: its part of the residual stream, which GPUs there gather.
local function elements(p, o)
  local share = strategy.share(p.strategy, p.model, 1, o.own, p.rules, { mode = "prefill", sequence_parallel = true })
  share.seq = MANY * p.strategy.sequence_shards(share) -- so that every GPU holds tokens
  return share:boundary(p.model.hidden) / share.seq
end

-- Seconds to send a batch between two stages (the residual stream and what is added to it): fixed, and per token.
local function sends(p, o)
  if o.pp == 1 then return 0, 0 end
  local machine, many, sent = core.machine(p.system), MANY, elements(p, o)
  local fast = o.rank_gpus <= p.system.network.fast.domain and 2 or 1
  local function send(tokens)
    return machine:collective(p.rules, "send", 2 * ELEMENT_BYTES * sent * tokens, 2, fast)
  end
  local one, more = send(1), send(1 + many)
  local per_token = (more - one) / many
  return math.max(one - per_token, 0), per_token
end

-- The curves of portable attention. Beyond the heads that they were fitted to, they say nothing.
local function attention_of(p)
  local curves, m = p.system.accelerator.portable_attention, p.model
  local one = curves and curves.attention and curves.attention.bf16
  if not one then
    refusal.raise("%s: 'attention' = \"portable\": system '%s' has no curves of attention in Triton; leave it out, or "
      .. "fit 'portable_attention' to timed kernels with `tperf calibrate`", WHAT, p.system.name)
  end
  local least, most = one.head_dim[1], one.head_dim[#one.head_dim]
  if m.mla or m.head_dim < least or m.head_dim > most then
    refusal.raise("%s: 'attention' = \"portable\": the curves of system '%s' are of heads of %d to %d, and model '%s' "
      .. "has %s; \"fused\" kernels have curves", WHAT, p.system.name, least, most, m.name,
      m.mla and "latent attention" or "heads of " .. m.head_dim)
  end
  return curves
end

-- Experts with 4-bit weights under wider activations have kernels of their own, with routing as timed beside them.
local function kernels_of(p, o)
  local experts = p.weights and p.weights.parts.experts
  local narrow = experts and experts.bytes < 1 and o.compute_dtype ~= "fp4"
  local attention = o.attention == "portable" and attention_of(p) or nil
  return {
    family = p.model.family, dtype = o.compute_dtype, kernels = narrow and "grouped" or o.experts, narrow = narrow,
    attention = attention,
  }
end

--- The problem of tperf.question.infer.deployment, with the engine's `profile` and its terms. Sets the dtypes that
--- the arguments leave open.
---@param o table  checked arguments of tperf.serve
---@param s table  the strategy
---@return table problem
function priced.problem(o, s)
  local given = {
    model = o.model, system = o.system, rules = o.rules, attention = "flash", prompt = 1, generate = 1,
    weight_dtype = o.weight_dtype, kv_dtype = o.kv_dtype, compute_dtype = o.compute_dtype, precision = o.precision,
    placement = o.placement, rank_order = o.rank_order,
    state_dtype = o.state_dtype, sequence_parallel = false, reserve = 0, strategy = s,
  }
  for _, name in ipairs(s.option_names) do given[name] = o[name] end
  local profile = engines.of(o.software)
  local p = serving.problem(WHAT, given, profile.rank_order)
  o.weight_dtype, o.compute_dtype, o.other_dtype = p.o.weight_dtype, p.o.compute_dtype, p.o.other_dtype
  p.o.state_dtype = p.o.state_dtype or profile.engine.state_dtype
  o.state_dtype = p.o.state_dtype
  o.delta, o.eager_ops = profile.engine.delta, not profile.engine.compiled or nil
  p.software, p.profile, p.system = runtime.terms(profile), profile, machines.of(p.system, profile, kernels_of(p, o))
  return p
end

-- Seconds of a step for each of its tokens in which kernels that are not fused read and write activations.
local function wide_token(p, o)
  local bytes = p.profile.engine.activation_bytes * p.model.layers / o.pp * p.model.hidden
  local hbm = p.system.accelerator.hbm
  return bytes / (hbm.bandwidth * hbm.efficiency)
end

--- The tables of the engine's steps, for the core. Sets the engine settings that depend on the model, max_model_len and
--- those of the cache, and the host's times.
---@param p table  of priced.problem
---@param o table  checked arguments of tperf.serve, with the fields that tperf.question.serve.ranks sets
---@return table steps
---@return table held  token = bytes of a cached token on a GPU, memory, system, model, rules, weights = their dtype or
---  "stored", in parts of their own; the engine's profile
function priced.steps(p, o)
  local profile, engine = p.profile, o.engine
  o.taken = engines.fill(engine, profile, p.system, o.rank_gpus)
  if not o.memory_utilization then o.taken.memory_utilization = profile.engine.memory_utilization end
  o.host = engines.host(profile, o.host, o.rank_gpus * o.ranks > 1)
  o.sampler = o.sampling ~= "none" and o.sampling or nil
  if o.sampler == "top_p" and profile.engine.sampler == "fused" then o.sampler = "top_p_fused" end
  if p.model.context then engine.max_model_len = math.min(engine.max_model_len, p.model.context) end
  engine.max_num_batched_tokens = math.min(engine.max_num_batched_tokens, 1 << 20)
  engine.scheduler, o.estimate = engine.scheduler or profile.engine.scheduler, profile.engine.estimate
  if engine.async_scheduling == nil then engine.async_scheduling = profile.engine.async_scheduling end
  local layers = drafts.layers(p.plan.layout)
  drafts.check(WHAT, engine.speculation, p.plan.layout.kinds)
  local held = drafts.with(memory.of(p, o), engine.speculation, layers, p.model)
  memory.settle(held, p, o)
  local t = tables.of(p, o, held.fast)
  local send, send_token = sends(p, o)
  local graphs = profile.engine.prefill_graphs
  local scheduler = schedulers.of(engine.scheduler)
  if graphs == nil then graphs = scheduler.prefill_graphs end
  local even
  t.shapes, even = engines.uncompiled(p, o, t.graphs[#t.graphs] or 0)
  t.more = { window = t.more.window, whole_key = t.whole.key, whole_each = t.whole.each, whole_from = t.whole.from,
    whole_late = t.whole.late,
    compile = profile.engine.compile, even = even,
    step = o.host.step, request = o.host.request, token = o.host.token + wide_token(p, o),
    drafts = drafts.passes(engine.speculation), draft_part = drafts.part(engine.speculation, layers),
    separate = scheduler.separate, stages = o.pp, send = send, send_token = send_token,
    launch = profile.host * t.more.launches, eager_prefills = not graphs }
  return t, { token = held.token, memory = held, drafting_layers = layers, system = p.system, model = p.model,
    rules = p.rules, weights = p.weights and "stored" or o.weight_dtype, profile = profile, placed = p.placed,
    strategy = p.strategy }
end

return priced
