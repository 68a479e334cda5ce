--- Figures that follow from the times of a static batch: costs, and times of an always-full batch. docs/inference.md.
local figures = {}

local HOUR <const>, MILLION <const> = 3600, 1e6

--- Adds the dollars per million tokens (of prompts, outputs and all) and the joules per output token.
---@param r table  a record with gpus, batch and memory
---@param p table  a problem of tperf.question.infer.deployment
---@param replicas integer  among all the GPUs, each with its own batch
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

-- A request of an always-full batch decodes for `steps` seconds in all, interrupted by the prompts of the requests that
-- replace others. There are n groups of prompts, each of which takes `prompt` seconds; n - 1 of them fall into a cycle
-- of its own prompt and its decoding time D. So D = steps + (n - 1) prompt D / (D + prompt).
local function decoding_when_full(steps, prompt, n)
  local b = steps + (n - 2) * prompt
  return (b + math.sqrt(b * b + 4 * steps * prompt)) / 2
end

--- Adds the times of an always-full batch: a prompt starts whenever a request finishes.
---@param r table  a record with ttft and prefill_busiest
---@param o table  prompt and generate
---@param groups integer  of prompts in a batch
---@param steps number  seconds of a batch's decode steps
function figures.add_steady(r, o, groups, steps)
  local decoding = decoding_when_full(steps, r.prefill_busiest, groups)
  r.steady = { latency = r.ttft + decoding, interruptions = decoding - steps,
    tpot = o.generate > 1 and decoding / (o.generate - 1) or nil }
end

--- Keeps of an encoder's record what passes over batches of sequences have: their time and rate, and as the largest
--- batch, of which buffers are in proportion, what fits beside the weights.
---@param r table  a record
function figures.of_passes(r)
  local m = r.memory
  r.sequences_per_second, r.tokens_per_second = r.tokens_per_second, r.prefill_tokens_per_second
  r.tokens_per_second_per_gpu, r.total_tokens_per_second = r.tokens_per_second / r.gpus, r.tokens_per_second
  r.steady, r.energy_per_token, r.cache_sequence, r.decode = nil, nil, nil, nil
  if r.cost then r.cost = { input = r.cost.input, total = r.cost.input } end
  local most = m.buffers > 0 and (m.capacity - m.weights) * r.prefill_batch / m.buffers or math.huge
  r.max_batch = math.tointeger(math.max(math.min(most, 2.0 ^ 53) // 1, 0))
  r.feasible = m.total <= m.capacity
end

return figures
