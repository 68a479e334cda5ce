--- Overlap within a training step, as switches of the question that default to the stack's, in Megatron-LM's words.
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"

local overlap = {}

-- Default parameters of a bucket: megatron/core/distributed/distributed_data_parallel.py.
local LEAST_BUCKET <const>, BUCKET_EACH <const> = 40e6, 1e6

--- Rows of tperf.question.arguments.
overlap.arguments = {
  { name = "overlap_moe_a2a", group = "overlap", check = check.boolean { default = false },
    doc = "hide expert all-to-alls behind another micro-batch's opposite pass",
    more = "Megatron-LM's --overlap-moe-expert-parallel-comm. Schedules 1f1b and interleaved_1f1b pair passes for it; "
      .. "schedules that already overlap then hide only these collectives." },
  { name = "delay_wgrad", group = "overlap", check = check.boolean { default = false },
    doc = "delay experts' weight gradients to hide more of their all-to-alls",
    more = "They wait until the exchange has started (Megatron-LM's --delay-wgrad-compute)." },
  { name = "overlap_shared_experts", group = "overlap", check = check.boolean { default = false },
    doc = "run shared experts beside their own micro-batch's all-to-alls",
    more = "The first product beside the dispatch, the last beside the combine (Megatron-LM's "
      .. "--moe-shared-expert-overlap, and refused where it refuses it)." },
  { name = "overlap_grad_reduce", group = "overlap", open = true, check = check.boolean { optional = true },
    doc = "reduce gradients in buckets during the backward pass (as the software)" },
  { name = "overlap_param_gather", group = "overlap", open = true, check = check.boolean { optional = true },
    doc = "gather weights during the forward pass (as the software)" },
  { name = "overlap_param_gather_with_optimizer_step", group = "overlap", check = check.boolean { default = false },
    doc = "gather the first bucket's weights during the optimizer's step",
    option = { long = "overlap-gather-with-step" } },
  { name = "overlap_p2p", group = "overlap", open = true, check = check.boolean { optional = true },
    doc = "send between interleaved stages while GPUs compute (as the software)",
    more = "Megatron-LM's default, which --no-overlap-p2p-communication turns off." },
  { name = "bucket_size", group = "overlap", check = check.number { above = 0, max = 1e15, optional = true },
    doc = "parameters that are gathered or reduced together",
    more = "Megatron-LM's --ddp-bucket-size; by default the larger of 40 million and a million for each replica.",
    option = { long = "bucket", value = "N" } },
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

--- The switches that differ from their defaults: name -> value.
function overlap.said(o)
  local said = {}
  for _, row in ipairs(overlap.arguments) do
    local name = row.name
    local off = check.missing(row.check).default == false
    if o[name] or o[name] == false and not off then said[name] = o[name] end
  end
  if o.overlap_p2p == overlap.hides_messages({}, o.profile) then said.overlap_p2p = nil end
  return said
end

return overlap
