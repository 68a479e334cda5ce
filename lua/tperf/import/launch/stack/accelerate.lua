--- Hugging Face Accelerate's YAML: FSDP 1 and 2, DeepSpeed, Megatron-LM; or a DeepSpeed JSON that it fills.
local common = require "tperf.import.launch.stack.common"
local deepspeed = require "tperf.import.launch.stack.deepspeed"
local offloading = require "tperf.import.launch.arguments.offloading"

local accelerate = {}

-- PyTorch's strategies, by name or number: whether weights are let go after the forward pass, and whether all ranks
-- share them or, of hybrids, those of a machine. false: nothing is sharded.
local STRATEGIES <const> = {
  FULL_SHARD = { reshards = true }, SHARD_GRAD_OP = { reshards = false }, NO_SHARD = false,
  HYBRID_SHARD = { reshards = true, hybrid = true }, HYBRID_SHARD_ZERO2 = { reshards = false, hybrid = true },
}
for i, name in ipairs { "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2" } do
  STRATEGIES[tostring(i)] = STRATEGIES[name]
end

-- Sets the sharding of FSDP 1 and 2.
local function fsdp(s, context, r)
  local reshard, strategy = s:set "fsdp_config.fsdp_reshard_after_forward", s:get "fsdp_config.fsdp_sharding_strategy"
  local version = tonumber(s:get "fsdp_config.fsdp_version") or 1
  local named = STRATEGIES[tostring(reshard)]
  if version == 1 and named then strategy = reshard end -- FSDP 1 puts the strategy's name there
  if version >= 2 then
    local text = tostring(reshard == nil and true or reshard):lower()
    return common.fsdp(r, text ~= "false")
  end
  local known = STRATEGIES[tostring(strategy):upper()]
  if known == nil then context.fail("fsdp_sharding_strategy %s is not known", tostring(strategy)) end
  if not known then
    r.zero = 0
    return
  end
  common.fsdp(r, known.reshards)
  if not known.hybrid then return end
  local each = common.divided(context, r.gpus, s:get "num_machines", "num_machines in num_processes")
  if each < r.dp then r.axes = { shard = each } end
end

-- The ZeRO stage of the other engines.
local function zero(s, context)
  local kind = tostring(s:get "distributed_type")
  local file = s:set "deepspeed_config.deepspeed_config_file"
  if kind == "DEEPSPEED" and file and s:set "deepspeed_config.zero_stage" == nil then
    context.fail("the ZeRO stage is in %s: import that file", tostring(file))
  end
  if kind == "DEEPSPEED" then return math.tointeger(tonumber(s:get "deepspeed_config.zero_stage")) end
  if kind == "MEGATRON_LM" then
    return s:get "megatron_lm_config.megatron_lm_use_distributed_optimizer" and 1 or 0
  end
  return 0
end

local HALVES <const> = { bf16 = true, fp16 = true }

local P <const> = "parallelism_config.parallelism_config_"
local M <const> = "megatron_lm_config.megatron_lm_"

function accelerate.read(s, context)
  if context.config then return deepspeed.read(context.config, context) end
  context.gpus = context.given.gpus and context.gpus or s:set "num_processes" or context.gpus
  local megatron = s:get "distributed_type" == "MEGATRON_LM"
  local r = { gpus = common.gpus(context), vp = 1, ep = 1, etp = 1, zero = zero(s, context) }
  local sharded = s:get "distributed_type" == "FSDP"
  if megatron then
    r.tp, r.pp = s:get(M .. "tp_degree"), s:get(M .. "pp_degree")
    r.cp, r.ep = s:get(M .. "context_parallel_size") or 1, s:get(M .. "expert_model_parallel_size") or 1
    r.etp = s:get(M .. "expert_tensor_parallel_size") or r.tp -- Megatron-Core's default
  else
    r.tp, r.pp = s:get(P .. "tp_size"), 1
    r.etp_of_experts = r.tp -- the models' plans (base_model_tp_plan) cut experts, too
    r.cp = s:get(P .. "cp_size") * s:get(P .. "sp_size")
  end
  local gathered = s:set(P .. "cp_comm_strategy")
  r.cp_kind = megatron and common.cp_kind(context, r, nil, "ring")
    or common.cp_kind(context, r, gathered, s:get(P .. "cp_size") > 1 and "all_gather" or "all_to_all")
  if s:set(P .. "dp_replicate_size") or s:set(P .. "dp_shard_size") then
    r.dp_replicate, r.dp_shard = s:get(P .. "dp_replicate_size"), s:get(P .. "dp_shard_size")
    r.dp = r.dp_replicate * r.dp_shard
    if r.dp * r.cp * r.tp ~= r.gpus then
      context.fail("replicate x shard x cp x tp = %d, but %d processes", r.dp * r.cp * r.tp, r.gpus)
    end
  else
    r.dp = common.divided(context, r.gpus, r.tp * r.pp * r.cp, "tp x pp x cp in the processes")
  end
  if sharded then fsdp(s, context, r) end
  if sharded and r.zero == 3 and s:get "fsdp_config.fsdp_offload_params" then r.offloading = offloading.fsdp end
  if r.zero == 3 and sharded and r.dp_replicate then
    if r.dp_shard * r.cp == 1 then r.zero = 0 elseif r.dp_shard < r.dp then r.axes = { shard = r.dp_shard } end
  end
  r.recompute = { granularity = s:get "fsdp_config.fsdp_activation_checkpointing" and "full" or "none" }
  r.precision = { compute = HALVES[s:get "mixed_precision"] and s:set "mixed_precision" or nil } -- fp8 is not modelled
  r.seq = s:set(P .. "sp_seq_length")
  return r
end

return accelerate
