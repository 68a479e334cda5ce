--- Steps of an engine from the price of its model's network: tables that the simulator looks up, made once for a
--- deployment. What sees all tokens of a step alike (products, norms, collectives) is priced by their number, the head
--- by the rows that are sampled, attention by each request's own length. docs/serving.md has the rules.
local check = require "tperf.base.check"
local core = require "tperf.core"
local engines = require "tperf.question.serve.engine"
local fitting = require "tperf.describe.strategy.fitting"
local infer = require "tperf.question.infer"
local machines = require "tperf.question.serve.machine"
local memory = require "tperf.question.serve.memory"
local refusal = require "tperf.base.refusal"
local runtime = require "tperf.describe.profile"
local sampling = require "tperf.describe.arch.sampling"
local serving = require "tperf.question.infer.deployment"
local strategy = require "tperf.describe.strategy"
local tables = require "tperf.question.serve.tables"

local priced = {}

local WHAT <const> = "tperf.serve"
local ELEMENT_BYTES <const> = 2 -- of the stream between stages

local optional = { optional = true }

--- The fields of tperf.serve that say what is served and on what.
priced.schema = {
  model = check.any(optional), system = check.any(optional), rules = check.any(optional),
  tp = serving.size, pp = serving.size, ep = serving.size,
  weight_dtype = serving.schema.weight_dtype, kv_dtype = serving.schema.kv_dtype,
  compute_dtype = serving.schema.compute_dtype, precision = serving.schema.precision,
  expert_dtype = serving.schema.expert_dtype, expert_compute_dtype = serving.schema.expert_compute_dtype,
  memory_utilization = check.number { above = 0, max = 1, optional = true },
  software = check.any(optional), host = engines.host_checker, gpu_hour = serving.schema.gpu_hour,
  sampling = check.choice { sampling.KINDS, default = "greedy" },
  moe_dispatcher = check.choice { fitting.options.moe_dispatcher.choices, optional = true },
}

local tensor = strategy.of "tensor"

local function check_sizes(p, o)
  for _, axis in ipairs(tensor.axes) do
    local reason = (o[axis.name] or 1) > 1 and infer.refusal(p, axis, o)
    if reason then refusal.raise("%s: '%s' = %d %s", WHAT, axis.name, o[axis.name], reason) end
  end
  if o.pp > p.model.layers then
    refusal.raise("%s: 'pp' = %d is more than the model's %d layers", WHAT, o.pp, p.model.layers)
  end
end

-- Between two stages go the stream and what is added to it, cut by tp: seconds of a batch, and for each token.
local function sends(p, o)
  if o.pp == 1 then return 0, 0 end
  local machine, many = core.machine(p.system), 1024
  local fast = o.tp * o.pp <= p.system.network.fast.domain and 2 or 1
  local function send(tokens)
    return machine:collective(p.rules, "send", 2 * ELEMENT_BYTES * p.model.hidden * tokens / o.tp, 2, fast)
  end
  local one, more = send(1), send(1 + many)
  local per_token = (more - one) / many
  return math.max(one - per_token, 0), per_token
end

--- The tables of the engine's steps, for the core; sets what the model decides about the engine: max_model_len and
--- num_blocks; and what the host adds.
---@param o table  checked arguments of tperf.serve
---@return table steps
---@return table held  token = bytes of a token of the cache on a GPU, memory, system, rules, spread of the engine
function priced.steps(o)
  local profile = engines.of(o.software)
  o.host = engines.host(profile, o.host, o.tp * o.pp * o.ep > 1)
  local engine = o.engine
  o.sampler = o.sampling ~= "none" and o.sampling or nil
  if o.sampler == "top_p" and profile.engine.sampler == "fused" then o.sampler = "top_p_fused" end
  local p = serving.problem(WHAT, {
    model = o.model, system = o.system, rules = o.rules, attention = "flash", prompt = 1, generate = 1,
    weight_dtype = o.weight_dtype, kv_dtype = o.kv_dtype, compute_dtype = o.compute_dtype, precision = o.precision,
    expert_dtype = o.expert_dtype, expert_compute_dtype = o.expert_compute_dtype, sequence_parallel = false,
    reserve = 0,
  })
  o.weight_dtype, o.compute_dtype, o.other_dtype = p.o.weight_dtype, p.o.compute_dtype, p.o.other_dtype
  p.software, p.profile, p.system = runtime.terms(profile), profile, machines.of(p.system, profile)
  check_sizes(p, o)
  if p.model.context then engine.max_model_len = math.min(engine.max_model_len, p.model.context) end
  engine.max_num_batched_tokens = math.min(engine.max_num_batched_tokens, 1 << 20)
  engine.scheduler = engine.scheduler or profile.engine.scheduler
  if engine.async_scheduling == nil then engine.async_scheduling = profile.engine.async_scheduling end
  local held = memory.of(p, o)
  engine.num_blocks = engine.num_blocks or memory.blocks(held, o, profile)
  local t = tables.of(p, o, held.fast)
  local send, send_token = sends(p, o)
  t.more = { window = t.more.window, step = o.host.step, request = o.host.request, token = o.host.token,
    separate = engine.scheduler == "tensorrt-llm", stages = o.pp, send = send, send_token = send_token,
    launch = profile.host * t.more.launches, eager_prefills = engine.scheduler ~= "vllm" }
  return t, { token = held.token, memory = held, system = p.system, rules = p.rules, spread = profile.spread }
end

return priced
