--- Megatron-Bridge's recipes: Megatron's settings as fields.
local axes = require "tperf.import.launch.arguments.axes"
local common = require "tperf.import.launch.stack.common"
local offloading = require "tperf.import.launch.arguments.offloading"

local bridge = {}

local SHARDING <const> = { no_shard = 0, optim = 1, optim_grads = 2, optim_grads_params = 3 }

local function zero(s, context)
  if s:get "ddp.use_megatron_fsdp" then
    return SHARDING[s:get "ddp.data_parallel_sharding_strategy"] or context.fail "the sharding strategy is not known"
  end
  local set = s:set "ddp.use_distributed_optimizer"
  if set == nil then set = s:set "optimizer.use_distributed_optimizer" end
  local optimizer = s:set "model.optim.name"
  if optimizer then return optimizer == "distributed_fused_adam" and 1 or 0 end
  if set == nil then
    context.assume "the recipe does not say it: the distributed optimizer (ZeRO 1), as base recipes have it"
    return 1
  end
  return set and 1 or 0
end

-- MixedPrecisionConfig's fields override TransformerConfig's.
local function precision(s)
  local format = s:set "mixed_precision.fp8" or s:set "model.fp8"
  local recipe = s:set "mixed_precision.fp8" and s:get "mixed_precision.fp8_recipe" or s:get "model.fp8_recipe"
  return {
    compute = s:set "mixed_precision.fp16" and "fp16" or "bf16", fp8_format = format, fp8_recipe = format and recipe,
    fp8_params = format and (s:set "mixed_precision.fp8_param_gather" or s:set "ddp.fp8_param_gather") == true,
    fp4_format = s:set "mixed_precision.fp4",
    router_padding = s:get "model.moe_router_padding_for_quantization" == true or nil,
    fused_experts = s:get "model.use_transformer_engine_op_fuser" == true or nil,
  }
end

-- The GPUs in a performance recipe's name: "llama31_405b_pretrain_1024gpu_h100_bf16_config".
local function gpus_of_name(name)
  return math.tointeger(tonumber(tostring(name):match "_(%d+)gpus?_"))
end

function bridge.read(s, context)
  local nodes, devices = s:set "trainer.num_nodes", s:set "trainer.devices"
  context.gpus = context.gpus or s:set "num_gpus" or devices and devices * (nodes or 1)
    or gpus_of_name(context["function"])
  local size = function(concept) return common.size(context, s:concept(concept), concept) end
  local r = { gpus = common.gpus(context), tp = size "tp" or 1, pp = size "pp" or 1, cp = size "cp" or 1 }
  r.cp_kind = common.cp_kind(context, r, s:set "model.cp_comm_type", "ring")
  local experts = s:set "model.num_moe_experts"
  r.ep = size "ep" or 1
  local moe = experts or r.ep > 1
  r.etp = moe and (size "etp" or r.tp) or 1
  r.dp = common.divided(context, r.gpus, r.tp * r.pp * r.cp, "tp x pp x cp in the GPUs")
  if moe then r.edp = common.divided(context, r.gpus, r.pp * r.ep * r.etp, "pp x ep x etp in the GPUs") end
  r.vp = size "vp" or 1
  if r.vp > 1 and r.pp == 1 then context.fail "virtual stages need pp of at least 2" end
  r.micro_batch, r.global_batch = size "micro_batch", size "global_batch"
  if r.micro_batch and not r.global_batch then r.global_batch = r.micro_batch * r.dp end
  common.batches(context, r)
  r.seq, r.zero = s:has "seq" and s:concept "seq" or nil, zero(s, context)
  r.sequence_parallel = s:concept "sequence_parallel" == true and r.tp > 1
  r.recompute = { granularity = s:has "recompute.granularity" and s:concept "recompute.granularity" or "none",
    modules = s:set "model.recompute_modules", method = s:set "model.recompute_method",
      num_layers = s:set "model.recompute_num_layers" }
  r.precision = precision(s)
  r.offloading, r.axes = offloading.bridge(s), axes.bridge(s, r)
  r.peft, r.lora_rank = r.axes.peft, nil
  r.moe_dispatcher = moe and s:set "model.moe_token_dispatcher_type" or nil
  if r.moe_dispatcher == "flex" then r.moe_dispatcher_backend = s:get "model.moe_flex_dispatcher_backend" end
  r.model_name = tostring(context["function"] or ""):match "^(.-)_pretrain" or nil
  return r
end

return bridge
