--- Overlap within a training step, as switches of the question that default to the stack's, in Megatron-LM's words.
--   overlap_moe_a2a   expert exchanges of one micro-batch overlap with the opposite pass of another
--                     (--overlap-moe-expert-parallel-comm). Schedules 1f1b and interleaved_1f1b pair passes for
--                     it; schedules that already overlap then hide only these collectives
--   delay_wgrad       weight gradients of experts wait until their exchange has started (--delay-wgrad-compute)
--   overlap_shared_experts   the shared experts' products run beside the exchanges of their own micro-batch: the first
--                     beside the dispatch, the last beside the combine (--moe-shared-expert-overlap). Refused where
--                     Megatron-LM refuses it
--   overlap_grad_reduce, overlap_param_gather   bucket by bucket, gradients are reduced during the backward pass,
--                                               weights
--                     gathered during the forward pass; false: no overlap
--   overlap_param_gather_with_optimizer_step    the first bucket's weights are gathered during the optimizer's step
--   overlap_p2p       messages between the stages of interleaved pipelines travel beside passes (Megatron-LM's default,
--                     off with --no-overlap-p2p-communication). Without a stack they do
--   bucket_size       parameters of a bucket (--ddp-bucket-size)
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"

local overlap = {}

-- Default parameters of a bucket: megatron/core/distributed/distributed_data_parallel.py.
local LEAST_BUCKET <const>, BUCKET_EACH <const> = 40e6, 1e6

overlap.schema = {
  overlap_moe_a2a = check.boolean { default = false }, delay_wgrad = check.boolean { default = false },
  overlap_shared_experts = check.boolean { default = false },
  overlap_grad_reduce = check.boolean { optional = true }, overlap_param_gather = check.boolean { optional = true },
  overlap_param_gather_with_optimizer_step = check.boolean { default = false },
  overlap_p2p = check.boolean { optional = true },
  bucket_size = check.number { above = 0, max = 1e15, optional = true },
}

-- The overlapping schedule that replaces one without overlap.
local OVERLAPPED <const> = { ["1f1b"] = "1f1b_overlap", interleaved_1f1b = "interleaved_1f1b_overlap" }
local OVERLAPS <const> = {
  ["1f1b_overlap"] = true, interleaved_1f1b_overlap = true, dualpipe = true, dualpipe_v = true,
}

local function listed(value)
  return type(value) == "table" and value or { value }
end

-- As Megatron-LM checks it (transformer_config.py, moe_layer.py).
local function check_shared(o, model)
  if not o.overlap_shared_experts then return end
  local e = model.experts
  if not e or e.shared == 0 then
    refusal.raise("'overlap_shared_experts' runs shared experts beside exchanges, and model '%s' has none", model.name)
  end
  if e.latent then
    refusal.raise("'overlap_shared_experts' is not for model '%s', whose routed experts work in a latent", model.name)
  end
  if o.overlap_moe_a2a then
    refusal.raise("'overlap_shared_experts' hides the exchanges that 'overlap_moe_a2a' hides too: ask for one of them")
  end
  for _, name in ipairs(listed(o.recompute_modules)) do
    if name == "shared_experts" then
      refusal.raise("'overlap_shared_experts' runs what recompute_modules = \"shared_experts\" runs again: ask for one "
        .. "of them")
    end
  end
  for _, name in ipairs(listed(o.moe_dispatcher)) do
    if name ~= "alltoall" then
      refusal.raise("'overlap_shared_experts' goes with moe_dispatcher = \"alltoall\", not with '%s'", name)
    end
  end
end

--- Raises if switches contradict each other or the model.
---@param o table      checked arguments
---@param model table
function overlap.check(o, model)
  if o.overlap_moe_a2a and not model.experts then
    refusal.raise("'overlap_moe_a2a' hides the exchanges with experts, and model '%s' has none", model.name)
  end
  if o.delay_wgrad and not o.overlap_moe_a2a then
    refusal.raise("'delay_wgrad' delays weight gradients for 'overlap_moe_a2a', which is not on")
  end
  check_shared(o, model)
  if o.overlap_param_gather_with_optimizer_step and o.overlap_param_gather == false then
    refusal.raise("'overlap_param_gather_with_optimizer_step' goes with 'overlap_param_gather', which is off")
  end
end

--- The overlapping versions of the schedules that a question names.
---@param what string  the caller's name, for messages
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

--- Whether messages travel beside passes: as a question says, else as its stack does.
---@param given table
---@param profile table?
---@return boolean
function overlap.hides_messages(given, profile)
  if given.overlap_p2p ~= nil then return given.overlap_p2p end
  return not profile or profile.overlap_p2p or false
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
    gather_in_step = o.overlap_param_gather_with_optimizer_step, overlap_p2p = overlap.hides_messages(o, o.profile),
  }
end

--- The names of the switches.
overlap.names = {
  "overlap_moe_a2a", "delay_wgrad", "overlap_shared_experts", "overlap_grad_reduce", "overlap_param_gather",
  "overlap_param_gather_with_optimizer_step", "overlap_p2p", "bucket_size",
}
local OFF_BY_DEFAULT <const> = { overlap_moe_a2a = true, delay_wgrad = true,
  overlap_shared_experts = true, overlap_param_gather_with_optimizer_step = true }

--- The switches that differ from their defaults: name -> value.
function overlap.said(o)
  local said = {}
  for _, name in ipairs(overlap.names) do
    if o[name] or o[name] == false and not OFF_BY_DEFAULT[name] then said[name] = o[name] end
  end
  if o.overlap_p2p == overlap.hides_messages({}, o.profile) then said.overlap_p2p = nil end
  return said
end

return overlap
