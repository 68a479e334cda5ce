--- Step times from the rates that tables give instead: tokens or samples per second, or FLOP/s as each source counts
-- them. The count is checked against rows that have both (docs/accuracy.md).
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local read = require "tperf.measured.read"
local trained = require "tperf.describe.model.flops".trained

local rates = {}

-- Sources whose model FLOPs count only the attention scores that causal masks leave; others count all of them, like
-- Narayanan et al. (arXiv 2104.04473, section 5.1).
local CAUSAL = { "megatron%-bridge", "automodel", "modelzoo", "llama 3 405b" }

-- A row may say it itself.
local function counts_causal(row)
  local kind, source = row.tflops_kind, row.source
  if kind:find "attention not halved" then return false end
  if kind:find "attention halved" then return true end
  for _, name in ipairs(CAUSAL) do
    if source:lower():find(name) then return true end
  end
  return false
end

-- FLOPs per token: of the model only, or of the hardware, with the layers' forward pass (not the head's) done twice:
-- 96 B s l h^2 (1 + s / 6h + V / 16lh) in the same section.
local function flops_per_token(case, row)
  local m = model(case.model)
  local total = assert(trained(m, counts_causal(row), "matmul"))
  if not row.tflops_kind:find "^hardware" then return total end
  local head = 6.0 * m.hidden * m.vocab
  return (total - head) * 4 / 3 + head
end

local function tokens_of(case) return 1.0 * case.global_batch * case.model.seq end

-- Seconds from the row's rate; nil if it has none.
local function derived(case, row)
  local gpus, tokens = case.sizes.gpus, tokens_of(case)
  local rate, samples = read.positive(row.tokens_s_gpu), read.positive(row.samples_s)
  if rate then return tokens / (rate * gpus) end
  if samples then return case.global_batch / samples end
  local flops = read.positive(row.tflops_gpu)
  local stated = row.tflops_kind:find "^model" or row.tflops_kind:find "^hardware"
  if not (flops and stated) then return nil end
  return tokens * flops_per_token(case, row) / (flops * 1e12 * gpus)
end

-- A run that trains all its weights counts 6 FLOPs per weight; one that trains only adapters counts 4.
local FROZEN <const> = 0.78

local function trains_all(case, row, seconds)
  local flops = read.positive(row.tflops_gpu)
  if not (flops and row.tflops_kind:find "^model") then return true end
  return flops * 1e12 * case.sizes.gpus * seconds > FROZEN * tokens_of(case) * flops_per_token(case, row)
end

--- Seconds of a row's step, as given or from its rate; nil and a reason if it has neither.
---@param case table  other properties of the row: model, sizes, global_batch
---@param row table
---@return number? seconds
---@return string? reason
function rates.seconds(case, row)
  local printed = read.positive(row.iter_s)
  local seconds = printed or derived(case, row)
  if not seconds then return nil, "no step time is given" end
  if printed and not case.peft and not trains_all(case, row, printed) then
    return nil, "the FLOPs stated are not those of training all weights"
  end
  return seconds
end

-- NVIDIA's GPT-3 in MLPerf evaluates 5,662 sequences, in whole batches, after every 24,576 that it trains
-- (training_results_v3.1, gpt3/implementations/pytorch/conf/custom.yaml), and its throughput counts that time. A
-- forward pass is a third of a step.
local EVALUATED <const>, BETWEEN <const>, FORWARD <const> = 5662, 24576, 1 / 3

--- What a table counts as a step, in steps: more than 1 if its rate has evaluation in it. nil: one.
---@param row table
---@param global_batch integer
---@return number?
function rates.steps_counted(row, global_batch)
  local evaluates = row.source:find "^MLPerf" and row.model:find "^GPT3" and row.notes:find "^iter = gbs.* throughput"
  if not evaluates then return nil end
  return 1 + FORWARD * math.ceil(EVALUATED / global_batch) * global_batch / BETWEEN
end

return rates
