--- DeepSpeed: its JSON, and the arguments of scripts that pass one.
local axes = require "tperf.import.launch.arguments.axes"
local common = require "tperf.import.launch.stack.common"
local offloading = require "tperf.import.launch.arguments.offloading"

local deepspeed = {}

-- train_batch_size = micro batch x accumulation x dp; a missing one follows from the others, with accumulation 1 if
-- that is not given either.
local function batches(s, context, r)
  local total = s:set "train_batch_size"
  local micro = common.size(context, s:concept "micro_batch", "the micro batch")
  local steps = s:set "gradient_accumulation_steps" or s:set "--gradient_accumulation_steps"
  if s.by_option["elasticity.micro_batch_sizes"] and not s:set "train_micro_batch_size_per_gpu" then micro = nil end
  if type(micro) ~= "number" then micro = nil end
  if total and micro and steps and total ~= micro * steps * r.dp then
    context.fail("train_batch_size %d is not micro batch %d x accumulation %d x dp %d", total, micro, steps, r.dp)
  end
  if total and not micro then
    micro = common.divided(context, total, (steps or 1) * r.dp, "accumulation x dp in train_batch_size")
  end
  r.micro_batch = micro
  r.global_batch = total or micro and micro * (steps or 1) * r.dp
  common.batches(context, r)
  r.microbatches = r.microbatches or steps
end

local function precision(s)
  if s:get "bf16.enabled" or s:set "--bf16" then return { compute = "bf16" } end
  if s:get "fp16.enabled" or s:set "--fp16" then return { compute = "fp16" } end
  if s:get "torch_autocast.enabled" then
    return { compute = common.dtype(s:get "torch_autocast.dtype" or "bf16") }
  end
  return { compute = s:set "--dtype" or nil }
end

local function gpus_of_batches(s, context, others)
  local function size(name) return common.size(context, s:set(name), name) end
  local total, micro = size "train_batch_size", size "train_micro_batch_size_per_gpu"
  local steps = size "gradient_accumulation_steps"
  if not (total and micro and steps) or total % (micro * steps) ~= 0 then return nil end
  return total // (micro * steps) * others
end

--- Sets a launch's ZeRO stage and offloading from a configuration.
---@param s table  settings of DeepSpeed's table
---@param r table  receives zero, offload, offloading
---@return table r
function deepspeed.stages(s, context, r)
  r.zero = s:concept "zero" or 0
  if math.type(r.zero) ~= "integer" then r.zero = math.tointeger(tonumber(r.zero)) or r.zero end
  if math.type(r.zero) ~= "integer" or r.zero < 0 or r.zero > 3 then
    context.fail("a ZeRO stage is 0 to 3, got %s", tostring(r.zero))
  end
  local offload = {}
  for name, key in pairs { optimizer = "zero_optimization.offload_optimizer.device",
    params = "zero_optimization.offload_param.device" } do
    local device = s:set(key)
    if device and device ~= "none" then offload[name] = device end
  end
  r.offload, r.offloading = next(offload) and offload or nil, offloading.deepspeed(s)
  return r
end

function deepspeed.read(s, context)
  local stages = tonumber(s:get "pipeline.stages")
  local tp = s:get "tensor_parallel.autotp_size" or 0
  local r = { tp = math.max(tp, 1), pp = math.tointeger(stages) or 1, cp = s:get "sequence_parallel_size" or 1, vp = 1,
    ep = common.size(context, context.given.ep, "ep") or 1, etp = 1, sequence_parallel = false } -- AutoTP has none
  if r.ep == 1 then r.etp_of_experts = r.tp end -- AutoTP cuts every product, experts' too; MoE layers of ep keep theirs
  r.cp_kind = common.cp_kind(context, r, nil, "all_to_all") -- Ulysses
  context.gpus = context.gpus or gpus_of_batches(s, context, r.tp * r.pp * r.cp)
  r.gpus = common.gpus(context)
  r.dp = common.divided(context, r.gpus, r.tp * r.pp * r.cp, "tp x pp x sequence parallelism in the GPUs")
  deepspeed.stages(s, context, r)
  if r.zero >= 2 and r.pp > 1 then context.fail("ZeRO %d does not run with pipelines (pp %d)", r.zero, r.pp) end
  batches(s, context, r)
  r.seq, r.precision = common.size(context, s:concept "seq", "seq"), precision(s)
  r.recompute = { granularity = s:get "--gradient_checkpointing" and "full" or "none" }
  r.model_name, r.axes = s:concept "model.name", axes.deepspeed(s, r)
  local rank = s:set "--lora_dim"
  r.lora_rank = rank and rank > 0 and rank or nil
  local only = s:set "--only_optimize_lora"
  if r.lora_rank and not only then context.assume "all but the adapters is frozen (--only_optimize_lora)" end
  if r.lora_rank then -- --lora_module_name is a path in the model
    r.peft = { rank = rank, targets = "all-linear", dropout = s:set "--lora_dropout" }
  end
  return r
end

return deepspeed
