--- Between rollout and training: weights to the engine, what leaves a GPU and comes back, and what is on it meanwhile.
local axes = require "tperf.describe.strategy.axes"
local catalogue = require "tperf.base.catalogue"
local format = require "tperf.output.format"
local kernels = require "tperf.describe.kernels"
local visible_memory = require "tperf.describe.machine.visible_memory"
local model = catalogue.shared(require "tperf.describe.model")
local system = catalogue.shared(require "tperf.describe.system")

local switching = {}

local WEIGHT <const> = 2 -- bytes of a parameter that is sent, in 16 bits
local HOST_GPUS <const> = 8 -- of a host, where the system does not say

-- Bytes of the weights that training changes: all of them, or the adapters, by their gradients, which tp shares.
local function trained_bytes(o, c)
  local whole = WEIGHT * model(o.model):parameters().total
  if not (o.train and o.train.peft) then return whole end
  local bytes = 0
  for _, kind in ipairs(c.kinds) do
    for _, op in ipairs(kind.ops) do bytes = bytes + kind.count * op.weight_grad_bytes end
  end
  return math.min(whole, bytes * axes.product(o.train, true))
end

-- The engine's GPUs that hold one copy of the weights.
local function engine_gpus(r) return r.gpus / r.replicas end

local function gpu_network(machine)
  local slow = machine.network.slow
  return slow.bandwidth * (slow.nics_per_gpu or 1)
end

-- How long weights take by each method, from a value of its rate. Broadcasts pass all weights through every GPU, in
-- buckets that wait for one another (nccl) or as fast as one GPU's network sends them (broadcast); resharding moves
-- each rank only its own part.
local METHODS <const> = {
  ipc = function(bytes, _, rates, end_) return bytes / rates.ipc[end_] end,
  nccl = function(bytes, _, rates, end_) return bytes / rates.nccl[end_] end,
  broadcast = function(bytes, of, rates, end_) return bytes / (rates.broadcast[end_] * of.network) end,
  disk = function(bytes, _, rates, end_) return 2 * bytes / rates.disk[end_] end,
  reshard = function(bytes, of, rates, end_)
    local slowest = end_ == "low" and "high" or end_ == "high" and "low" or "value"
    return rates.reshard_start[slowest] + bytes / of.engine_gpus / (rates.reshard[end_] * of.network)
  end,
}

local function refit_of(o, t, r, rates)
  local method = o.refit
  if method == "auto" then method = o.mode == "colocated" and "ipc" or "nccl" end
  local bytes = trained_bytes(o, t.configuration)
  local of = { engine_gpus = engine_gpus(r), network = gpu_network(system(o.system)) }
  local seconds = METHODS[method]
  return { method = method, bytes = bytes, time = seconds(bytes, of, rates, "value"),
    low = seconds(bytes, of, rates, "high"), high = seconds(bytes, of, rates, "low") }
end

-- Bytes of a trainer on a GPU that leave it while the engine runs.
local function parked_bytes(o, t)
  local m = t.configuration.memory
  return o.mode == "colocated" and o.park and m.weights + m.optimizer or 0
end

--- What a step takes beside rollout and training.
---@param o table  checked arguments of tperf.rl
---@param t table  of training.of
---@param r table  of rollout.of
---@return table switching  { phases = { { name, time } … }, refit = { method, bytes, time, low, high }, low, high =
---  seconds of all phases at best and at worst }
function switching.of(o, t, r)
  local rates = kernels.of "rl"
  local refit = refit_of(o, t, r, rates)
  local phases = { { name = "refit", time = refit.time } }
  local low, high = refit.low, refit.high
  local function add(name, time, least, most)
    phases[#phases + 1] = { name = name, time = time }
    low, high = low + least, high + most
  end
  if o.mode == "colocated" then
    local parked, weights = parked_bytes(o, t), r.served.memory.weights
    for _, one in ipairs { { "offload", parked, rates.park }, { "reload", parked, rates.unpark },
      { "sleep", weights, rates.sleep }, { "wake", weights, rates.wake } } do
      local name, bytes, rate = table.unpack(one)
      if bytes > 0 then add(name, bytes / rate.value, bytes / rate.high, bytes / rate.low) end
    end
  end
  return { phases = phases, refit = refit, low = low, high = high }
end

local REMEDY <const> = {
  rollout = "a lower rollout.memory_utilization, or offloading the trainer (park)",
  training = "recompute = \"full\", a smaller tokens_per_gpu, or a trainer cut over more GPUs",
}

-- Why a phase does not fit, with the remedy; nil: it does.
local function unfit(phase, total, capacity)
  return total > capacity and ("%s does not fit: a GPU needs %s of %s; try %s"):format(phase,
    format.number(total, "bytes"), format.number(capacity, "bytes"), REMEDY[phase]) or nil
end

-- Bytes on a GPU while training, beside the engine that sleeps.
local function while_training(o, t)
  return t.configuration.memory.total + (o.mode == "colocated" and kernels.of "rl".asleep.value or 0)
end

--- Why training does not fit, whatever the engine; nil: it does.
function switching.unfit(o, t) return unfit("training", while_training(o, t), visible_memory(system(o.system))) end

--- Bytes on a GPU in each phase.
---@return table[] memory  { phase, total, capacity, fits } of the rollout and of training
---@return number host     bytes on a host while the trainer is parked
---@return string? reason  why a phase does not fit, with the remedy
function switching.memory(o, t, r)
  local machine = system(o.system)
  local c, capacity = t.configuration.memory, visible_memory(machine)
  local m, parked = r.served.memory, parked_bytes(o, t)
  local rolls = m.weights + m.buffers + m.cache
  if o.mode == "colocated" then rolls = rolls + kernels.of "rl".floor.value + (c.weights + c.optimizer - parked) end
  local memory, reason = {}, nil
  for i, one in ipairs { { "rollout", rolls }, { "training", while_training(o, t) } } do
    memory[i] = { phase = one[1], total = one[2], capacity = capacity, fits = one[2] <= capacity }
    reason = reason or unfit(one[1], one[2], capacity)
  end
  return memory, parked * (machine.network.fast.host_gpus or HOST_GPUS), reason
end

return switching
