--- Writes a configuration as a Megatron-Bridge recipe.
local fp8 = require "tperf.export.launch.fp8"
local format = require "tperf.export.launch.format"
local offloading = require "tperf.export.launch.offloading"
local recomputation = require "tperf.export.launch.recomputation"

local SHARDING <const> = { [2] = "optim_grads", [3] = "optim_grads_params" }

local OFFLOAD <const> = {
  optimizer = "optimizer.optimizer_cpu_offload", fraction = "optimizer.optimizer_offload_fraction",
  layers = "model.cpu_offloading_num_layers", fine = "model.fine_grained_activation_offloading",
  modules = "model.offload_modules", on = "model.cpu_offloading",
}

local function literal(value)
  if type(value) == "table" then return ('["%s"]'):format(table.concat(value, '", "')) end
  if type(value) == "boolean" then return value and "True" or "False" end
  return type(value) == "string" and ('"%s"'):format(value) or tostring(value)
end

local function pipelines(n, w)
  w.put("model.pipeline_model_parallel_size", n.pp)
  if n.vp > 1 and n.pp == 1 then w.cannot("virtual_stages", n.vp, "interleaves only with pp above 1") end
  if n.pp > 1 and n.schedule ~= "1f1b" and n.schedule ~= "interleaved_1f1b" then
    w.cannot("schedule", n.schedule, "runs 1f1b and interleaved_1f1b")
  end
  if n.vp > 1 then w.put("model.virtual_pipeline_model_parallel_size", n.vp) end
end

local function precision(n, w)
  local recipe = fp8[n.precision]
  if n.precision == "nvfp4" then
    w.put("mixed_precision.fp4", "e2m1")
    w.put("mixed_precision.fp4_recipe", "nvfp4")
  elseif recipe then
    w.put("mixed_precision.fp8", recipe[2])
    w.put("mixed_precision.fp8_recipe", recipe[1])
    if n.narrow_parameters then w.put("mixed_precision.fp8_param_gather", true) end
  end
  if n.router_padding then w.put("model.moe_router_padding_for_quantization", true) end
  if n.fused_experts then w.put("model.use_transformer_engine_op_fuser", true) end
end

local function model(m, w)
  w.put("model.num_layers", m.layers)
  w.put("model.hidden_size", m.hidden)
  w.put("model.num_attention_heads", m.heads)
  if m.kv_heads ~= m.heads then w.put("model.num_query_groups", m.kv_heads) end
  if m.ffn then w.put("model.ffn_hidden_size", m.ffn) end
  if m.experts then
    w.put("model.num_moe_experts", m.experts.count)
    w.put("model.moe_router_topk", m.experts.top_k)
    w.put("model.moe_ffn_hidden_size", m.experts.ffn)
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
  w.put("ddp.use_distributed_optimizer", n.zero >= 1)
  if n.zero >= 2 then
    w.put("ddp.use_megatron_fsdp", true)
    w.put("ddp.data_parallel_sharding_strategy", SHARDING[n.zero])
  end
  w.put("ddp.overlap_grad_reduce", n.overlap_grad_reduce ~= false)
  if n.zero > 0 then w.put("ddp.overlap_param_gather", n.overlap_param_gather ~= false) end
  w.put("ddp.grad_reduce_in_fp32", n.gradients ~= "bf16")
  w.put("mixed_precision.bf16", true)
  precision(n, w)
  w.note "cfg is the recipe of your model; data, tokenizer and learning rate stay as it has them"
  local lines = { format.notes(w.notes), ("def tperf_%dgpu_config(cfg):\n"):format(n.gpus) }
  for _, one in ipairs(w.list) do lines[#lines + 1] = ("    cfg.%s = %s\n"):format(one.option, literal(one.value)) end
  return table.concat(lines) .. "    return cfg\n"
end
