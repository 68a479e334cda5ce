--- What a simulated run takes: memory, GPUs paid for from the first arrival to the last token, energy of their steps.
local bill = {}

local HOUR <const>, MILLION <const> = 3600, 1e6

--- The GPUs of a deployment; nil where only the length of steps is given.
---@param o table  checked arguments of tperf.serve
function bill.gpus(o) return o.machine and o.tp * o.pp * o.replicas end

-- Bytes on a GPU: what the engine holds before it serves, and what is left for the cache.
local function memory_of(o)
  local m, e = o.memory, o.engine
  return { weights = m.weights, buffers = m.buffers, capacity = m.capacity,
    cache = (e.num_blocks or 0) * e.block_size * m.token + e.max_num_seqs * m.request }
end

--- Adds gpus, memory, throughput_per_gpu, cost and energy_per_token to an answer.
---@param r table  with busy, seconds in steps summed over engines
---@param o table  with machine, the system, where steps are priced
function bill.add(r, o)
  local gpus = bill.gpus(o)
  if not gpus then return end
  r.gpus, r.throughput_per_gpu = gpus, r.throughput / gpus
  r.memory = memory_of(o)
  local price = o.gpu_hour or o.machine.price and o.machine.price.gpu_hour
  local power, tokens = o.machine.accelerator.power, r.output_tokens
  if tokens == 0 then return end
  if price then
    local dollars = price / HOUR * gpus * r.duration
    r.cost = { generated = dollars / tokens * MILLION, total = dollars / (tokens + r.prompt_tokens) * MILLION }
  end
  r.energy_per_token = power and power * gpus / o.replicas * r.busy / tokens
end

return bill
