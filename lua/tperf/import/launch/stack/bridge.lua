--- Megatron-Bridge's recipes: Megatron's settings as fields.
local axes = require "tperf.import.launch.arguments.axes"
local checkpoints = require "tperf.import.launch.arguments.checkpoints"
local common = require "tperf.import.launch.stack.common"
local layout = require "tperf.import.launch.stack.core.layout"
local model = require "tperf.import.launch.stack.core.model"
local models = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local offloading = require "tperf.import.launch.arguments.offloading"
local precision = require "tperf.import.launch.stack.core.precision"

local bridge = {}

local SHARDING <const> = { no_shard = 0, optim = 1, optim_grads = 2, optim_grads_params = 3 }

local function zero(s, context)
  local set = s:set "ddp.use_distributed_optimizer"
  local other, optimizer = s:set "optimizer.use_distributed_optimizer", s:set "model.optim.name"
  if s:get "ddp.use_megatron_fsdp" then
    return SHARDING[s:get "ddp.data_parallel_sharding_strategy"] or context.fail "the sharding strategy is not known"
  end
  if set == nil then set = other end
  if optimizer then return optimizer == "distributed_fused_adam" and 1 or 0 end
  if set == nil then
    context.assume "the recipe does not say it: the distributed optimizer (ZeRO 1), as base recipes have it"
    return 1
  end
  return set and 1 or 0
end

-- The activation's functions by PyTorch's names.
local ACTIVATIONS <const> = { ["F.gelu"] = "gelu", ["torch.nn.functional.gelu"] = "gelu", ["F.silu"] = "silu",
  ["torch.nn.functional.silu"] = "silu", squared_relu = "relu2", quick_gelu = "quick_gelu", fast_gelu = "gelu" }

-- The description by the fields of the model's provider; not all of them are set where the model has a name.
local function description(s, context)
  local name = s:get "model.activation_func"
  local gated, activation = s:get "model.gated_linear_unit" == true, ACTIVATIONS[name]
  if not activation then context.fail("model.activation_func %s is not modelled", tostring(name)) end
  local layers, heads = s:get "model.num_layers", s:concept "model.heads"
  return model.of(s, context, model.bridge, {
    layers = math.tointeger(tonumber(layers)), gated = gated, activation = activation,
    kv_heads = s:set "model.num_query_groups" or heads, vocab = s:concept "model.vocab",
    untied = s:get "model.share_embeddings_and_output_weights" == false,
    linear_bias = s:get "model.add_bias_linear" ~= false,
  })
end

-- The GPUs in a performance recipe's name: "llama31_405b_pretrain_1024gpu_h100_bf16_config".
local function gpus_of_name(name)
  return math.tointeger(tonumber(tostring(name):match "_(%d+)gpus?_"))
end

-- Fields that recipes repeat of the model that they are called after.
local REPEATED <const> = { "model.position_embedding_type", "model.vocab_size", "model.kv_channels" }

-- What recipes say of a model that has a name.
local function of_named(s, context, r)
  for _, option in ipairs(REPEATED) do
    if s:set(option) ~= nil then context.assume("%s is the named model's", option) end
  end
  local mtp = s:set "model.mtp_num_layers"
  if mtp and mtp > 0 then r.model_changes = { mtp = mtp } end
  if r.axes.gradients == "bf16" and s:get "optimizer.main_grads_dtype" == "bf16" then
    s:set "optimizer.main_grads_dtype"
  end
end

-- Whether a description is of the model that a recipe is called after, of which it leaves something out: its
-- vocabulary, layers of other kinds than attention.
local function is_part(d, name)
  local known = name and models(name)
  if not known or d.vocab then return false end
  for _, field in ipairs { "layers", "hidden", "heads", "kv_heads" } do
    if d[field] ~= nil and d[field] ~= known[field] then return false end
  end
  return true
end

-- The model: described, or the one that the recipe is called after.
local function model_of(s, context, r)
  if not s.by_option["model.num_layers"] then return of_named(s, context, r) end
  r.model = description(s, context)
  if not is_part(r.model, checkpoints.model(r.model_name)) then
    r.model_name = nil -- whatever the recipe is called, its model is what it says
    return
  end
  context.assume("the model is %s, whose sizes the recipe repeats: it does not say the vocabulary", r.model_name)
  r.model = nil
  local mtp = s:set "model.mtp_num_layers"
  if mtp and mtp > 0 then r.model_changes = { mtp = mtp } end
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
  r.etp = moe and size "etp" or 1
  if moe and r.tp > 1 and not s:has "etp" then
    context.assume "the recipe does not say it: experts are whole (expert_tensor_parallel_size 1), as in base recipes"
  end
  r.dp = common.divided(context, r.gpus, r.tp * r.pp * r.cp, "tp x pp x cp in the GPUs")
  if moe then r.edp = common.divided(context, r.gpus, r.pp * r.ep * r.etp, "pp x ep x etp in the GPUs") end
  r.vp = size "vp" or 1
  local text = s:set "model.pipeline_model_parallel_layout"
  if type(text) == "string" then
    r.pipeline_layout = layout.chunks(text, context)
    r.vp = common.divided(context, #r.pipeline_layout, r.pp, "pp in the chunks of model.pipeline_model_parallel_layout")
  end
  if r.vp > 1 and r.pp == 1 then context.fail "virtual stages need pp of at least 2" end
  r.micro_batch, r.global_batch = size "micro_batch", size "global_batch"
  if r.micro_batch and not r.global_batch then r.global_batch = r.micro_batch * r.dp end
  common.batches(context, r)
  r.seq, r.zero = s:has "seq" and s:concept "seq" or nil, zero(s, context)
  for _, entry in ipairs(s.list) do -- the model's and the data's, which have to agree
    if entry.concept == "seq" then entry.read = true end
  end
  r.sequence_parallel = s:concept "sequence_parallel" == true and r.tp > 1
  r.recompute = { granularity = s:has "recompute.granularity" and s:concept "recompute.granularity" or "none",
    modules = s:set "model.recompute_modules", method = s:set "model.recompute_method",
      num_layers = s:set "model.recompute_num_layers" }
  local wide
  r.precision, wide = precision.of(s, context)
  if s:has "mixed_precision" or s.by_option.mixed_precision then s:set "model.first_last_layers_bf16" end -- it decides
  r.offloading, r.axes = offloading.bridge(s), axes.bridge(s, r)
  if wide == false then r.axes.gradients = "bf16" end
  if r.axes.overlap_param_gather == false and r.axes.overlap_param_gather_with_optimizer_step then
    r.axes.overlap_param_gather_with_optimizer_step = nil
    context.assume "overlap_param_gather_with_optimizer_step does nothing: overlap_param_gather is off"
  end
  r.peft, r.lora_rank = r.axes.peft, nil
  r.attention = common.unfused(s:get "model.attention_backend", s:get "model.transformer_impl")
  local dispatcher, backend = s:set "model.moe_token_dispatcher_type", s:get "model.moe_flex_dispatcher_backend"
  r.moe_dispatcher = moe and dispatcher or nil
  if r.moe_dispatcher == "flex" then r.moe_dispatcher_backend = backend end
  r.model_name = tostring(context["function"] or ""):match "^(.-)_pretrain" or nil
  model_of(s, context, r)
  return r
end

return bridge
