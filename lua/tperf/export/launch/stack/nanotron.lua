--- Writes a configuration as nanotron's YAML.
local check = require "tperf.base.check"
local format = require "tperf.export.launch.format"
local offloading = require "tperf.export.launch.offloading"
local recomputation = require "tperf.export.launch.recomputation"
local windowed = require "tperf.describe.model.windowed"

local ENGINES <const> = { ["1f1b"] = "1f1b", gpipe = "afab" }

local function refuse(n, w)
  if n.vp > 1 then w.cannot("virtual_stages", n.vp, "has one chunk on a stage") end
  if n.pp > 1 and not ENGINES[n.schedule] then w.cannot("schedule", n.schedule, "runs 1f1b and gpipe (afab)") end
  if n.zero > 1 then w.cannot("zero", n.zero, "shards optimizer states at most (1)") end
  if n.ep > 1 then w.cannot("ep", n.ep, "takes further GPUs for it, tperf shares those of dp") end
  if n.experts and n.etp ~= n.tp then w.cannot("etp", n.etp, "cuts experts over tp") end
  recomputation.refuse_parts(n, w)
  offloading.refuse(n, w)
end

-- The words for what nanotron's Llama and Qwen cannot be told of a model; nil: they can be told all of it.
local function unsaid(m)
  local fields = { "delta", "mamba", "mamba1", "mla", "sparse", "value_dim", "tied_values", "encoder", "encoder_stack",
    "vision", "diffusion", "parallel_block", "embedding_norm", "output_scale", "embedding_width", "qk_norm",
    "attention_gate", "attention_sinks", "limited_activation", "mixers", "dropout", "classes" }
  for _, field in ipairs(fields) do
    if m[field] then return field end
  end
  local usual = { gated = true, activation = "silu", norm = "rmsnorm", positions = "rotary", norms_per_layer = 2,
    first_norm = true, final_norm = true, norm_weights = true, causal = true, head_dim = m.hidden // m.heads, mtp = 0 }
  for _, field in ipairs(check.names(usual)) do
    if m[field] ~= usual[field] then return ("%s = %s"):format(field, tostring(m[field])) end
  end
  if rawget(m, "layer_pattern") then return "layers that differ" end
  if m.biases.attention_out or m.biases.mlp or m.biases.head then return "its biases" end
  if m.window and (m.window.pattern:find "f" or #windowed.kinds(m) > 1) then return "layers without its window" end
  local e = m.experts
  if e and (e.dense_layers ~= 0 or e.every ~= 1 or e.zero > 0 or e.latent or e.capacity_factor or e.shared_gate
    or e.router_bias) then return "its experts" end
end

local function model(m, w)
  local beyond = unsaid(m)
  if beyond then w.cannot("model", m.name, "cannot be told of " .. beyond) end
  local p = "model.model_config."
  w.put(p .. "hidden_size", m.hidden)
  if m.ffn then w.put(p .. "intermediate_size", m.ffn) end
  w.put(p .. "num_hidden_layers", m.layers)
  w.put(p .. "num_attention_heads", m.heads)
  w.put(p .. "num_key_value_heads", m.kv_heads)
  if m.vocab then w.put(p .. "vocab_size", m.vocab) end
  w.put(p .. "tie_word_embeddings", m.tied_embeddings)
  w.put(p .. "max_position_embeddings", m.context or m.seq)
  if m.biases.qkv then w.put(p .. "attention_bias", true) end
  if m.window then w.put(p .. "sliding_window_size", m.window.size) end
  local e = m.experts
  if not e then return end
  w.put(p .. "moe_config.num_experts", e.count)
  w.put(p .. "moe_config.top_k", e.top_k)
  w.put(p .. "moe_config.moe_intermediate_size", e.ffn)
  if e.shared > 0 then
    w.put(p .. "moe_config.enable_shared_expert", true)
    w.put(p .. "moe_config.shared_expert_intermediate_size", e.shared * (e.shared_ffn or e.ffn))
  end
end

return function(n, w)
  refuse(n, w)
  w.put("parallelism.dp", n.dp)
  w.put("parallelism.pp", n.pp)
  w.put("parallelism.tp", n.tp)
  w.put("parallelism.context_parallel_size", n.cp)
  w.put("parallelism.expert_parallel_size", 1)
  w.put("parallelism.pp_engine", ENGINES[n.schedule] or "1f1b")
  w.put("parallelism.tp_mode", n.sequence_parallel and "REDUCE_SCATTER" or "ALL_REDUCE")
  w.put("parallelism.tp_linear_async_communication", n.sequence_parallel)
  w.put("parallelism.recompute_layer", n.recompute == "full")
  w.put("tokens.micro_batch_size", n.micro_batch)
  w.put("tokens.batch_accumulation_per_replica", n.microbatches)
  w.put("tokens.sequence_length", n.seq)
  if n.iterations then w.put("tokens.train_steps", n.iterations) end
  w.put("optimizer.zero_stage", n.zero)
  w.put("optimizer.accumulate_grad_in_fp32", true)
  w.put("model.dtype", "bfloat16")
  if n.model then model(n.model, w) else w.note "model.model_config is not here: no model was given" end
  w.note("%d GPUs: torchrun says it", n.gpus)
  w.note "general, data_stages, tokenizer, checkpoints and the learning rate are yours to add"
  return format.notes(w.notes) .. format.yaml(w.list)
end
