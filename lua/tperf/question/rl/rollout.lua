--- The rollout of a step: all responses at once through the engines until the last has ended (tperf.serve).
local arguments = require "tperf.question.rl.arguments"
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local kernels = require "tperf.describe.kernels"
local serve = require "tperf.question.serve"

local rollout = {}

local OWN_TOKENS <const> = 1 << 41 -- the streams of what a request shares with none; the core's own start at 2^40

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

local FEW <const> = 256 -- responses of the engines that are simulated: those of more stand for all

-- How many of the engines are simulated, and how many responses they get.
local function sampled(generated, replicas)
  local each = generated / replicas
  local engines = math.min(replicas, math.ceil(FEW / each))
  return engines, engines == replicas and generated or math.ceil(each * engines)
end

-- The numbers 1 to n in an order that the seed decides (a linear congruential generator; Knuth's MMIX).
local function shuffled(n, seed)
  local order, x = {}, seed
  for i = 1, n do order[i] = i end
  for i = n, 2, -1 do
    x = x * 6364136223846793005 + 1442695040888963407
    local j = (x >> 33) % i + 1
    order[i], order[j] = order[j], order[i]
  end
  return order
end

-- So many requests with lengths that stand for those of all responses: equally likely parts of the distribution, and
-- as the longest the median of the longest of all. The samples of a prompt share it.
local function requests_of(o, response, count, all, shared)
  local list = {}
  for i, k in ipairs(shuffled(count, o.seed)) do
    local p = k % count == 0 and 0.5 ^ (1 / all) or (k - 0.5) / count
    local one = { prompt = o.prompt, output = math.max(math.floor(response.of(p) + 0.5), 1) }
    if shared then
      one.segments = { { (i - 1) // o.samples, o.prompt - 1 }, { OWN_TOKENS + i, 1 } }
    end
    list[i] = one
  end
  return list
end

local function question(o, response, gpus, assumed)
  local q, rates = copy_of(o.rollout), kernels.of "rl"
  q.model, q.system, q.rules, q.seed = o.model, o.system, o.rules, o.seed
  if not q.memory_utilization and not q.engine.num_blocks then
    q.memory_utilization = rates[o.mode == "colocated" and "colocated_utilization" or "split_utilization"].value
    assumed["rollout.memory_utilization"] = q.memory_utilization
  end
  local one = gpus_of(q)
  if gpus % one ~= 0 or gpus < one then
    check.fail("tperf.rl: 'rollout' has engines of %d GPUs, and %d GPUs roll out; change train_gpus or the axes", one,
      gpus)
  end
  local replicas = gpus // one
  local engines, count = sampled(o.generated, replicas)
  local shared = o.samples > 1 and o.prompt > 1 and q.engine.prefix_caching ~= false -- one prefill for all samples
  if shared then q.router = q.router or "prefix" end
  q.replicas, q.load = engines, { concurrency = count }
  q.requests = requests_of(o, response, count, o.generated, shared)
  return q, replicas
end

-- Seconds of a step's responses with engines that never drain: what twice as many responses take longer. In flight are
-- as many as the staleness allows, which is so many steps' (NeMo-RL's collector: prompts of a step x the oldest age).
local function steady_time(o, q, replicas, response)
  local flight = math.max(math.floor(o.staleness * o.generated * q.replicas / replicas + 0.5), 1)
  local shared = q.requests[1].segments
  local function duration(rounds)
    q.load = { concurrency = flight }
    q.requests = requests_of(o, response, rounds * flight, rounds * flight, shared)
    return serve.run(q).duration
  end
  return (duration(2) - duration(1)) / o.staleness
end

--- The responses of a step through the engines, all at once, until the last has ended.
---@param o table         checked arguments of tperf.rl, with mode, staleness and generated = responses of a step
---@param response table  of lengths.of
---@param gpus integer    that roll out
---@param assumed table   name -> what is assumed, added to
---@return table burst    { served, replicas, gpus, preemptions, steady = a function: see rollout.of }
function rollout.burst(o, response, gpus, assumed)
  local q, replicas = question(o, response, gpus, assumed)
  local served, known = serve.run(q), {}
  return {
    served = served, replicas = replicas, gpus = gpus,
    preemptions = math.floor(served.preemptions * replicas / q.replicas + 0.5),
    steady = function(one)
      known[one.staleness] = known[one.staleness] or steady_time(one, q, replicas, response)
      return known[one.staleness]
    end,
  }
end

--- The rollout of a step.
---@param o table       checked arguments of tperf.rl
---@param burst table   of rollout.burst
---@param train number  seconds of the trainer: engines that are faster wait for it, and drain
---@return table rollout  { time, saturated, tail = of the last tenth of the responses, served, replicas, gpus, drained,
---  steady?, preemptions, low, high = its interval's ends as parts of the time }
function rollout.of(o, burst, train)
  local served, time = burst.served, burst.served.duration
  local r = { served = served, replicas = burst.replicas, drained = time, gpus = burst.gpus,
    preemptions = burst.preemptions }
  local tail = served.e2e and time - math.min(served.e2e.p90, time) or 0
  if o.staleness > 1 and time > train then -- engines do not wait for the last response of a step
    r.steady = burst.steady(o)
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
