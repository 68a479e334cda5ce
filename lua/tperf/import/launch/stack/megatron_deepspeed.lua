--- Megatron-DeepSpeed: Megatron's arguments with DeepSpeed's sharding, and a JSON that must say the same.
local common = require "tperf.import.launch.stack.common"
local megatron = require "tperf.import.launch.stack.megatron"

local both = {}

-- Raises if DeepSpeed's JSON and a flag give different values; returns the value.
local function agree(context, json, key, value, flag)
  local other = json and json:set(key)
  if other ~= nil and value ~= nil and other ~= value then
    context.fail("%s = %s in DeepSpeed's JSON, but %s = %s", key, tostring(other), flag, tostring(value))
  end
  return value ~= nil and value or other
end

-- The number of GPUs from the JSON's batches, if the launcher does not give it.
local function gpus_of_batches(s, json)
  local total = json and json:set "train_batch_size"
  local micro = json and json:set "train_micro_batch_size_per_gpu"
  local steps = json and json:set "gradient_accumulation_steps"
  if not (total and micro and steps) or total % (micro * steps) ~= 0 then return nil end
  return total // (micro * steps) * s:concept "tp" * s:concept "pp" * s:get "--ds-sequence-parallel-size"
end

local function zero(s, context, r, json)
  if not s:get "--deepspeed" then return r.zero end
  local stage = agree(context, json, "zero_optimization.stage", s:set "--zero-stage", "--zero-stage") or 1
  local pipelines = not s:get "--no-pipeline-parallel"
  if stage >= 2 and pipelines and r.pp > 1 then
    context.fail("ZeRO %d does not run with DeepSpeed's pipelines (pp %d)", stage, r.pp)
  end
  if stage == 0 and pipelines and r.precision.compute == "bf16" then return 1 end -- its bf16 optimizer always shards
  return stage
end

function both.read(s, context)
  local json = context.config
  context.gpus = context.gpus or gpus_of_batches(s, json)
  local enabled = s:set "--moe-expert-parallel-size"
  if enabled and not s:set "--expert-model-parallel-size" then
    s.by_option["--expert-model-parallel-size"] = s.by_option["--moe-expert-parallel-size"]
  end
  context.experts_apart = true -- DeepSpeed's experts are outside of sequence parallelism
  local r = megatron.read(s, context)
  if r.model.experts then
    r.etp = s:get "--enable-expert-tensor-parallelism" and r.tp or 1
    common.divided(context, r.dp, r.ep, "ep in dp")
  end
  local half = json and (json:get "bf16.enabled" and "bf16" or json:get "fp16.enabled" and "fp16")
  if half and half ~= r.precision.compute then
    context.fail("%s is enabled in DeepSpeed's JSON, but the flags train in %s", half, r.precision.compute)
  end
  agree(context, json, "train_batch_size", s:set "--global-batch-size", "--global-batch-size")
  agree(context, json, "train_micro_batch_size_per_gpu", s:set "--micro-batch-size", "--micro-batch-size")
  r.zero = zero(s, context, r, json)
  if json and json:set "use_data_before_expert_parallelism" and r.ep > 1 then r.axes.rank_order = "tp-cp-dp-ep-pp" end
  local offload = json and json:set "zero_optimization.offload_optimizer.device"
  if offload and offload ~= "none" then r.offload = { optimizer = offload } end
  return r
end

return both
