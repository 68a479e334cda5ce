--- Memory, cost and energy of a simulated run: GPUs are paid for as long as they serve at the run's rate.
local bill = {}

local HOUR <const>, MILLION <const> = 3600, 1e6

-- Bytes on a GPU: what the engine holds before it serves, and the cache.
local function memory_of(pool)
  local m, e = pool.held.memory, pool.o.engine
  return { weights = m.weights, buffers = math.max(m.buffers, m.logits), capacity = m.capacity,
    cache = (e.num_blocks or 0) * e.block_bytes + e.states_bytes }
end

-- Joules of a pool whose engines were in steps for `busy` seconds, summed over engines.
local function energy_of(pool, busy)
  local power = pool.held.system.accelerator.power
  return power and power * pool.gpus / pool.o.replicas / pool.o.ranks * busy
end

local function price_of(pool, o)
  local price = o.gpu_hour or pool.held.system.price and pool.held.system.price.gpu_hour
  return price and price * pool.gpus
end

-- The sum over the pools; nil if a value is missing.
local function sum(decode, prefill)
  if not prefill then return decode end
  return decode and prefill[1] and decode + prefill[1]
end

--- Adds memory, tokens_per_second_per_gpu, cost and energy_per_token to a result, if steps are priced from a model.
---@param r table  with gpus, busy and prefill_busy, seconds in steps summed over engines
---@param o table  checked arguments
---@param decode table  the pool that decodes, or the only one
---@param prefill table?
function bill.add(r, o, decode, prefill)
  if not decode.held or prefill and not prefill.held then return end
  r.tokens_per_second_per_gpu, r.memory = r.tokens_per_second / r.gpus, memory_of(decode)
  local tokens = r.output_tokens
  if tokens == 0 then return end
  local rate = sum(price_of(decode, o), prefill and { price_of(prefill, o) })
  if rate then
    local dollars = rate / HOUR / r.tokens_per_second -- of a token
    r.cost = { generated = dollars * MILLION, total = dollars * tokens / (tokens + r.prompt_tokens) * MILLION }
  end
  local joules = sum(energy_of(decode, r.busy - r.prefill_busy), prefill and { energy_of(prefill, r.prefill_busy) })
  r.energy_per_token = joules and joules / tokens
end

return bill
