--- What of a training step runs beside what, as switches of the question: a stack's own, in Megatron-LM's words.
--   overlap_moe_a2a   the exchanges with experts of one micro-batch run beside the kernels of another's pass the other
--                     way (--overlap-moe-expert-parallel-comm). Schedules 1f1b and interleaved_1f1b overlap passes for
--                     it; schedules that overlap anyway hide these collectives alone
--   delay_wgrad       weight gradients of experts wait until their exchange is under way (--delay-wgrad-compute)
--   overlap_grad_reduce, overlap_param_gather   gradients are reduced beside the backward pass, weights gathered beside
--                     the forward pass, bucket by bucket; false: not beside anything
--   overlap_param_gather_with_optimizer_step    the first bucket's weights travel beside the optimizer's step
--   bucket_size       parameters of a bucket (--ddp-bucket-size)
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"

local overlap = {}

-- Parameters of a bucket where none are given: megatron/core/distributed/distributed_data_parallel.py.
local LEAST_BUCKET <const>, BUCKET_EACH <const> = 40e6, 1e6

overlap.schema = {
  overlap_moe_a2a = check.boolean { default = false }, delay_wgrad = check.boolean { default = false },
  overlap_grad_reduce = check.boolean { optional = true }, overlap_param_gather = check.boolean { optional = true },
  overlap_param_gather_with_optimizer_step = check.boolean { default = false },
  bucket_size = check.number { above = 0, max = 1e15, optional = true },
}

-- The schedule whose passes overlap in the place of one whose passes do not.
local OVERLAPPED <const> = { ["1f1b"] = "1f1b_overlap", interleaved_1f1b = "interleaved_1f1b_overlap" }
local OVERLAPS <const> = {
  ["1f1b_overlap"] = true, interleaved_1f1b_overlap = true, dualpipe = true, dualpipe_v = true,
}

--- Refuses switches that contradict each other or the model.
---@param o table      checked arguments
---@param model table
function overlap.check(o, model)
  if o.overlap_moe_a2a and not model.experts then
    refusal.raise("'overlap_moe_a2a' hides the exchanges with experts, and model '%s' has none", model.name)
  end
  if o.delay_wgrad and not o.overlap_moe_a2a then
    refusal.raise("'delay_wgrad' delays weight gradients for 'overlap_moe_a2a', which is not on")
  end
  if o.overlap_param_gather_with_optimizer_step and o.overlap_param_gather == false then
    refusal.raise("'overlap_param_gather_with_optimizer_step' goes with 'overlap_param_gather', which is off")
  end
end

--- The schedules that overlap passes in the places of those that a question names.
---@param what string  whose arguments
---@param value string|string[]
---@return string|string[]
function overlap.schedules(what, value)
  if type(value) == "table" then
    local list = {}
    for i, name in ipairs(value) do list[i] = overlap.schedules(what, name) end
    return list
  end
  if value == "any" then return check.names(OVERLAPS) end
  local name = OVERLAPPED[value] or OVERLAPS[value] and value
  if not name then
    refusal.raise("%s: 'overlap_moe_a2a' pairs a forward and a backward pass, as 1f1b, interleaved_1f1b, dualpipe and "
      .. "dualpipe_v can, schedule '%s' cannot", what, tostring(value))
  end
  return name
end

local function part(switch)
  if switch == nil then return -1 end
  return switch and 1 or 0
end

--- For the core: fields of its tperf_training.
function overlap.terms(o)
  local buckets = o.overlap_grad_reduce or o.overlap_param_gather or o.bucket_size
  return {
    hide_experts = o.overlap_moe_a2a, delay_grads = o.delay_wgrad, gather_overlap = part(o.overlap_param_gather),
    reduce_overlap = part(o.overlap_grad_reduce), bucket = buckets and (o.bucket_size or LEAST_BUCKET) or 0,
    bucket_each = buckets and not o.bucket_size and BUCKET_EACH or 0,
    gather_in_step = o.overlap_param_gather_with_optimizer_step,
  }
end

--- The switches.
overlap.names = {
  "overlap_moe_a2a", "delay_wgrad", "overlap_grad_reduce", "overlap_param_gather",
  "overlap_param_gather_with_optimizer_step", "bucket_size",
}
local OFF_BY_DEFAULT <const> = { overlap_moe_a2a = true, delay_wgrad = true,
  overlap_param_gather_with_optimizer_step = true }

--- The switches that are not as they are where nothing is said: name -> value.
function overlap.said(o)
  local said = {}
  for _, name in ipairs(overlap.names) do
    if o[name] or o[name] == false and not OFF_BY_DEFAULT[name] then said[name] = o[name] end
  end
  return said
end

return overlap
