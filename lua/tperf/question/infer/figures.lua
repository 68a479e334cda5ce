--- What follows from the times of a static batch: costs, and times of a batch that is always full. docs/inference.md.
local figures = {}

local HOUR <const>, MILLION <const> = 3600, 1e6

--- Dollars of a million tokens, and joules of one; of prompts, of answers and of all.
---@param r table  a record with gpus, batch and memory
---@param p table  a problem of tperf.serving
---@param replicas integer  among all the GPUs, each with a batch
---@param prompts number  seconds of a batch's prompts
---@param steps number  seconds of its decode steps
function figures.add_cost(r, p, replicas, prompts, steps)
  local o, gpus = p.o, r.gpus // replicas
  local all, generated = r.batch * (o.prompt + o.generate), r.batch * o.generate
  if p.price then
    local rate = p.price / HOUR * gpus * MILLION
    r.cost = {
      input = rate * prompts / (r.batch * o.prompt), output = rate * steps / generated,
      total = rate * (prompts + steps) / all, generated = rate * (prompts + steps) / generated,
    }
  end
  local power = p.system.accelerator.power
  if power then r.energy_per_token = power * gpus * (prompts + steps) / generated end
end

-- A request of a batch that is always full waits in its decode steps, of `steps` seconds in all, for the prompts of the
-- requests that take the place of others: of n groups of prompts, each of which takes `prompt` seconds, n - 1 come
-- within a cycle of its own prompt and its decoding D. So D = steps + (n - 1) prompt D / (D + prompt).
local function decoding_when_full(steps, prompt, n)
  local b = steps + (n - 2) * prompt
  return (b + math.sqrt(b * b + 4 * steps * prompt)) / 2
end

--- Times of a batch that is always full: a prompt comes in as an answer leaves.
---@param r table  a record with ttft and prefill_busiest
---@param o table  prompt and generate
---@param groups integer  of prompts in a batch
---@param steps number  seconds of a batch's decode steps
function figures.add_steady(r, o, groups, steps)
  local decoding = decoding_when_full(steps, r.prefill_busiest, groups)
  r.steady = { latency = r.ttft + decoding, interruptions = decoding - steps,
    tpot = o.generate > 1 and decoding / (o.generate - 1) or nil }
end

return figures
