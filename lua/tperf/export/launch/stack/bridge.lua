--- Writes a configuration as a Megatron-Bridge recipe.
local names = require "tperf.import.launch.stack.core.model".bridge
local format = require "tperf.export.launch.format"
local megatron_model = require "tperf.export.launch.megatron_model"
local offloading = require "tperf.export.launch.offloading"
local precision = require "tperf.export.launch.precision"
local recomputation = require "tperf.export.launch.recomputation"

local SHARDING <const> = { [2] = "optim_grads", [3] = "optim_grads_params" }

local OFFLOAD <const> = {
  optimizer = "optimizer.optimizer_cpu_offload", fraction = "optimizer.optimizer_offload_fraction",
  layers = "model.cpu_offloading_num_layers", fine = "model.fine_grained_activation_offloading",
  modules = "model.offload_modules", on = "model.cpu_offloading",
}

local FUNCTIONAL <const> = "import torch.nn.functional as F\n\n\n" -- the activations

local FUNCTIONS <const> = { quick_gelu = true, squared_relu = true }

local function literal(value)
  if type(value) == "table" then return ('["%s"]'):format(table.concat(value, '", "')) end
  if type(value) == "boolean" then return value and "True" or "False" end
  if type(value) ~= "string" then return tostring(value) end
  if value:find "^%[?%(?%[" or value:find "^F%." or FUNCTIONS[value] then return value end -- a list, a function
  local left = value:match "^(%d+),0$" -- a window
  return left and ("(%s, 0)"):format(left) or ('"%s"'):format(value)
end

local function pipelines(n, w)
  w.put("model.pipeline_model_parallel_size", n.pp)
  if n.vp > 1 and n.pp == 1 then w.cannot("virtual_stages", n.vp, "interleaves only with pp above 1") end
  if n.pp > 1 and n.schedule ~= "1f1b" and n.schedule ~= "interleaved_1f1b" then
    w.cannot("schedule", n.schedule, "runs 1f1b and interleaved_1f1b")
  end
  if n.vp > 1 then w.put("model.virtual_pipeline_model_parallel_size", n.vp) end
end

-- Settings of the model; the others are of cfg.mixed_precision, where formats have names of their own.
local OF_MODEL <const> = { moe_router_padding_for_quantization = true, use_transformer_engine_op_fuser = true }

local function precision_name(part)
  return (OF_MODEL[part] and "model." or "mixed_precision.") .. part:gsub("_format$", "")
end

-- Fields that the model's reader knows by other names, or that have other values.
local OTHERS <const> = { vocab = "model.vocab_size", no_linear_bias = { "model.add_bias_linear", false },
  untied = { "model.share_embeddings_and_output_weights", false },
  swiglu = { "model.gated_linear_unit", true, "F.silu" },
  quick_geglu = { "model.gated_linear_unit", true, "quick_gelu" },
  gelu = { "model.gated_linear_unit", false, "F.gelu" },
  squared_relu = { "model.gated_linear_unit", false, "squared_relu" },
  router_bias = { "model.moe_router_enable_expert_bias", true } }

local function model(m, w)
  megatron_model(m, w, function(field, value)
    if value == nil then return end
    local other = OTHERS[field]
    if type(other) ~= "table" then return w.put(other or names[field], value) end
    w.put(other[1], other[2])
    if other[3] then w.put("model.activation_func", other[3]) end
  end)
  -- What the recipe may have set and this model has not.
  for field, value in pairs { qkv_bias = false, qk_norm = false, gate = false } do
    if w.by_name[names[field]] == nil then w.put(names[field], value) end
  end
end

return function(n, w)
  w.put("model.tensor_model_parallel_size", n.tp)
  pipelines(n, w)
  w.put("model.context_parallel_size", n.cp)
  if n.cp > 1 then w.put("model.cp_comm_type", n.cp_comm_type) end
  if n.experts or n.ep > 1 then
    w.put("model.expert_model_parallel_size", n.ep)
    w.put("model.expert_tensor_parallel_size", n.etp)
    if n.ep > 1 and (n.moe_dispatcher or "alltoall") == "alltoall" then
      w.put("model.moe_token_dispatcher_type", "alltoall")
    end
  end
  w.put("model.sequence_parallel", n.sequence_parallel)
  w.put("model.seq_length", n.seq)
  recomputation.put(n, w, function(part) return "model.recompute_" .. part end)
  offloading.put(n, w, OFFLOAD)
  if n.model then model(n.model, w) else w.note "the model's own fields are not here: no model was given" end
  w.put("train.micro_batch_size", n.micro_batch)
  w.put("train.global_batch_size", n.global_batch)
  if n.iterations then w.put("train.train_iters", n.iterations) end
  w.put("ddp.use_distributed_optimizer", n.zero >= 1)
  if n.zero >= 2 then
    w.put("ddp.use_megatron_fsdp", true)
    w.put("ddp.data_parallel_sharding_strategy", SHARDING[n.zero])
  end
  w.put("ddp.overlap_grad_reduce", n.overlap_grad_reduce ~= false)
  if n.zero > 0 then w.put("ddp.overlap_param_gather", n.overlap_param_gather ~= false) end
  w.put("ddp.grad_reduce_in_fp32", n.gradients ~= "bf16")
  w.put("mixed_precision.bf16", true)
  precision.put(n, w, precision_name)
  w.note "cfg is the recipe of your model; data, tokenizer and learning rate stay as it has them"
  local lines = { format.notes(w.notes), FUNCTIONAL, ("def tperf_%dgpu_config(cfg):\n"):format(n.gpus) }
  for _, one in ipairs(w.list) do lines[#lines + 1] = ("    cfg.%s = %s\n"):format(one.option, literal(one.value)) end
  return table.concat(lines) .. "    return cfg\n"
end
