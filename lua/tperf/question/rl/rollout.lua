--- The rollout of a step: all responses at once through the engines until the last has ended (tperf.serve).
local arguments = require "tperf.question.rl.arguments"
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local kernels = require "tperf.describe.kernels"
local serve = require "tperf.question.serve"

local rollout = {}

-- Arguments that the step decides.
local OWN <const> = { model = true, system = true, replicas = true, load = true, requests = true, count = true,
  prompt = true, output = true, prefix = true, slo = true, keep = true, rules = true, prefill = true, decode = true,
  seed = true }
local ENGINE <const> = { max_num_seqs = true, max_cudagraph_capture_size = true, speculation = true,
  max_num_batched_tokens = true, max_model_len = true, num_blocks = true, prefix_caching = true }

-- The arguments of tperf.serve, of which those of the engine may stand beside the others.
local function copy_of(given)
  local q = arguments.passed_on(given, "rollout", "tperf.serve", OWN)
  local engine = {}
  for name, value in pairs(q.engine or {}) do engine[name] = value end
  for name in pairs(ENGINE) do
    if q[name] ~= nil then engine[name], q[name] = q[name], nil end
  end
  q.engine = engine
  return q
end

-- GPUs of an engine.
local function gpus_of(q)
  return (q.pp or 1) * (q.attention_dp or 1) * axes.product(serve.sizes(q))
end

local function question(o, response, gpus, assumed)
  local q, rates = copy_of(o.rollout), kernels.of "rl"
  q.model, q.system, q.rules, q.seed = o.model, o.system, o.rules, o.seed
  if not q.memory_utilization and not q.engine.num_blocks then
    q.memory_utilization = rates[o.mode == "colocated" and "colocated_utilization" or "split_utilization"].value
    assumed["rollout.memory_utilization"] = q.memory_utilization
  end
  q.output = response.serve
  q.prompt = o.prompt
  if o.samples > 1 and o.prompt > 1 and q.engine.prefix_caching ~= false then -- one prefill for all samples
    q.prompt, q.prefix, q.router = 1, { tokens = o.prompt - 1, groups = o.generated // o.samples }, q.router or "prefix"
  end
  q.load, q.count = { concurrency = o.generated }, o.generated
  local one = gpus_of(q)
  if gpus % one ~= 0 or gpus < one then
    check.fail("tperf.rl: 'rollout' has engines of %d GPUs, and %d GPUs roll out; change train_gpus or the axes", one,
      gpus)
  end
  q.replicas = gpus // one
  return q
end

local ROUNDS <const> = 4 -- steps' responses of a run that shows the steady rate

-- Tokens a second of engines that never drain: as many responses as may be in flight.
local function steady_rate(q, flight)
  q.load, q.count = { concurrency = flight }, ROUNDS * flight
  local r = serve.run(q)
  return r.throughput
end

--- The rollout.
---@param o table         checked arguments of tperf.rl, with mode, staleness and generated = responses of a step
---@param response table  of lengths.of
---@param gpus integer    that roll out
---@param assumed table   name -> what is assumed, added to
---@return table rollout  { time, saturated, tail = of the last tenth of the responses, served, replicas, steady?,
---  interval }
function rollout.of(o, response, gpus, assumed)
  local q = question(o, response, gpus, assumed)
  local served = serve.run(q)
  local time = served.duration
  local r = { served = served, replicas = q.replicas, drained = time, gpus = gpus }
  local tail = served.e2e and time - math.min(served.e2e.p90, time) or 0
  if o.staleness > 1 then -- engines do not wait for the last response of a step
    local rate = steady_rate(q, o.generated)
    r.steady = served.output_tokens / rate
    if r.steady < time then time, tail = r.steady, 0 end
  end
  local tools = (o.turns - 1) * o.tool_time
  time, tail = time + tools, tail + tools
  if o.sandboxes then
    local work = o.generated * tools / o.sandboxes
    if work > time then time, r.sandbox = work, true end
  end
  r.time, r.tail, r.saturated, r.tools = time, tail, time - tail, tools
  local around = served.intervals and served.intervals.duration
  r.low, r.high = around and around.low / served.duration or 1, around and around.high / served.duration or 1
  return r
end

return rollout
