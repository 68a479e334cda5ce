--- Interprets the arguments of Megatron-LM.
local axes = require "tperf.import.launch.arguments.axes"
local common = require "tperf.import.launch.stack.common"
local layout = require "tperf.import.launch.stack.core.layout"
local model = require "tperf.import.launch.stack.core.model"
local offloading = require "tperf.import.launch.arguments.offloading"

local megatron = {}

local SHARDING <const> = { no_shard = 0, optim = 1, optim_grads = 2, optim_grads_params = 3 }

--- Sets the ZeRO stage of the sharding over dp.
function megatron.zero(s, context, r)
  local distributed = s:get "--use-distributed-optimizer"
  if s:get "--use-megatron-fsdp" then
    local strategy = s:get "--data-parallel-sharding-strategy"
    r.zero = SHARDING[strategy]
      or context.fail("--data-parallel-sharding-strategy %s is not known", tostring(strategy))
  elseif s:get "--use-torch-fsdp2" then
    common.fsdp(r, s:set "--torch-fsdp2-no-reshard-after-forward" == nil)
  else
    r.zero = distributed and 1 or 0
  end
end

--- The recomputation: { granularity, method, num_layers, modules }.
function megatron.recompute(s)
  local old_method = s:set "--activations-checkpoint-method"
  local granularity = s:get "--recompute-granularity"
  if s:get "--recompute-activations" then granularity = "selective" end
  if s:get "--checkpoint-activations" or old_method then granularity = "full" end
  local modules = s:set "--recompute-modules"
  if type(modules) == "string" then modules = { modules } end
  if s:get "--moe-layer-recompute" then -- an older name
    granularity, modules = granularity or "selective", table.move(modules or {}, 1, #(modules or {}), 2, { "moe" })
  end
  if not granularity then return { granularity = "none" } end
  local full = granularity == "full"
  return {
    granularity = granularity,
    method = full and (s:get "--recompute-method" or old_method or "uniform") or nil,
    num_layers = full and (s:concept "recompute.num_layers" or 1) or nil,
    modules = granularity == "selective" and (modules or { "core_attn" }) or nil,
  }
end

local function precision(s, context)
  local compute = s:get "--bf16" and "bf16" or s:get "--fp16" and "fp16" or "fp32"
  if compute == "fp32" then context.assume "products in 16 bits, though neither --bf16 nor --fp16 is on" end
  local p = { compute = compute, grads = compute == "bf16" and not s:get "--grad-reduce-in-bf16" and "fp32" or compute }
  if s:get "--accumulate-allreduce-grads-in-fp32" then p.grads = "fp32" end
  local format = s:set "--fp8-format" or s:get "--fp8-hybrid" and "hybrid" or s:get "--fp8-e4m3" and "e4m3"
  if format then
    p.fp8_format, p.fp8_recipe = format, s:get "--fp8-recipe"
    p.fp8_params = s:get "--fp8-param-gather" == true
  end
  p.fp4_format = s:set "--fp4-format"
  p.fp4_params = s:get "--fp4-param-gather" == true or nil
  if s:get "--first-last-layers-bf16" then
    p.first_layers, p.last_layers = s:get "--num-layers-at-start-in-bf16", s:get "--num-layers-at-end-in-bf16"
  end
  p.router_padding = s:get "--moe-router-padding-for-quantization" == true or nil
  p.fused_experts = s:get "--use-transformer-engine-op-fuser" == true or nil
  if s:get "--use-precision-aware-optimizer" then
    p.main_params, p.main_grads = s:get "--main-params-dtype", s:get "--main-grads-dtype"
    p.exp_avg, p.exp_avg_sq = s:get "--exp-avg-dtype", s:get "--exp-avg-sq-dtype"
  end
  return p
end

local function overlap(s)
  return {
    dp_grad = s:get "--overlap-grad-reduce" == true, dp_param = s:get "--overlap-param-gather" == true,
    tp = s:get "--tp-comm-overlap" == true and s:concept "tp" > 1,
    ep = s:get "--overlap-moe-expert-parallel-comm" == true,
  }
end

--- The degrees of parallelism, with dp computed from the GPUs.
function megatron.degrees(s, context)
  local r = { model = model.of_arguments(s, context) }
  local size = function(concept) return common.size(context, s:concept(concept), concept) end
  r.gpus, r.tp, r.pp, r.cp = common.gpus(context), size "tp" or 1, size "pp" or 1, size "cp" or 1
  local experts = r.model.experts
  r.ep = size "ep" or 1
  local mixture = experts or r.ep > 1 -- whose experts the file of a checkpoint has
  r.etp = mixture and (size "etp" or r.tp) or 1
  local shards = s:set "--tensor-parallel-num-weight-shards"
  local factor = shards and common.divided(context, shards, r.tp, "tp in --tensor-parallel-num-weight-shards") or 1
  local what = ("tp x pp x cp = %d x %d x %d in the GPUs"):format(r.tp, r.pp, r.cp)
  r.dp = common.divided(context, r.gpus, r.tp * r.pp * r.cp * factor, what)
  if mixture then
    r.edp = common.divided(context, r.gpus, r.pp * r.ep * r.etp, ("pp x ep x etp = %d x %d x %d in the GPUs"):format(
      r.pp, r.ep, r.etp))
  end
  if experts then common.divided(context, experts, r.ep, "ep in the experts") end
  r.sequence_parallel = s:concept "sequence_parallel" == true and r.tp > 1
  if r.ep > 1 and r.tp > 1 and not r.sequence_parallel and not context.experts_apart then
    context.fail "expert and tensor parallelism together need --sequence-parallel"
  end
  return r
end

--- The batches; for a ramp, the global batch is the final one.
function megatron.batches(s, context, r)
  r.micro_batch = common.size(context, s:concept "micro_batch", "the micro batch")
  if not r.micro_batch then context.need("micro_batch", "the sequences of a micro-batch") end
  r.global_batch = common.size(context, s:concept "global_batch", "the global batch") or r.micro_batch * r.dp
  local steps = s:set "--step-batch-size-schedule"
  if steps and s:has "global_batch" then
    context.fail "--global-batch-size and --step-batch-size-schedule exclude each other"
  elseif steps then
    r.global_batch = math.tointeger(tonumber(tostring(steps):match ":(%d+)%s*$")) or r.global_batch
  end
  r.batch_rampup = s:set "--rampup-batch-size"
  common.batches(context, r)
  if r.vp > 1 and r.microbatches % (s:set "--microbatch-group-size-per-virtual-pipeline-stage" or r.pp) ~= 0 then
    context.assume("most versions want pp to divide the %d micro-batches when they interleave", r.microbatches)
  end
end

---@param s table settings
---@param context table
---@return table
function megatron.read(s, context)
  local r = megatron.degrees(s, context)
  layout.read(s, context, r)
  megatron.batches(s, context, r)
  r.seq = common.size(context, s:concept "seq", "seq")
  megatron.zero(s, context, r)
  r.recompute = megatron.recompute(s)
  r.precision, r.overlap = precision(s, context), overlap(s)
  r.attention = common.unfused(s:get "--attention-backend", s:get "--transformer-impl", s:get "--use-flash-attn")
  r.moe_dispatcher = (r.model.experts or r.ep > 1) and s:get "--moe-token-dispatcher-type" or nil
  if r.moe_dispatcher == "flex" then
    r.moe_dispatcher_backend = s:set "--moe-enable-deepep" and "deepep" or s:get "--moe-flex-dispatcher-backend"
  end
  r.cp_kind = common.cp_kind(context, r, s:set "--cp-comm-type", "ring")
  if s:get "--optimizer-cpu-offload" then r.offload = { optimizer = "cpu" } end
  r.offloading = offloading.megatron(s)
  r.axes = axes.megatron(s, r)
  if not r.axes.loss and s:get "--cross-entropy-loss-fusion" == nil then
    context.assume "the loss is the software's (Megatron-LM's own, without --cross-entropy-loss-fusion, is 'in-place')"
  end
  return r
end

return megatron
