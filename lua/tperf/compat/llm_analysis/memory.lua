--- Bytes per GPU: sections 2 (weights), 3 (gradients, optimizer states), 4 (activations) and 5 (KV cache).
local setup = require "tperf.compat.llm_analysis.setup"
local max = math.max

local memory = {}

--- The divisors of a ZeRO stage: D for dense parameters, Dm for expert parameters.
---@return number D, number Dm
function memory.shards(m, stage)
  if m.Z >= stage then return m.n_dp, m.n_dp / m.ep end
  return 1, 1
end

--- Section 2: weights of one layer.
---@return number attention, number mlp, number norms
function memory.layer_weights(m, D, Dm)
  local norms = m.P_ln * m.beta_w / m.rules.layer_norm_split(m) / D
  return m.P_attn_gpu * m.beta_w / D, m.rules.mlp_weight(m, D, Dm), norms
end

--- Section 2: weights at the ends of the model.
---@return number embedding, number embedding_unsharded, number last_norm
function memory.end_weights(m)
  local unsharded, D = m.P_emb_stage * m.beta_e / m.t, memory.shards(m, 3)
  return unsharded / D, unsharded, m.P_last * m.beta_w / m.rules.norm_split(m) / D
end

-- Section 3: `bytes` per parameter of one layer, of the embedding and of the last norm.
local function per_parameter(m, bytes, norm_split, stage)
  local t, D, Dm = m.t, memory.shards(m, stage)
  local router = m.P_router / m.rules.router_split(m)
  local layer = bytes * m.P_mlp / (m.ep * t * Dm) + bytes * (m.P_attn_gpu + router + m.P_ln / norm_split) / D
  return layer, bytes * m.P_emb_stage / (t * D), bytes * m.P_last / (m.rules.norm_split(m) * D)
end

--- Section 3: optimizer states, of one layer and at the ends.
---@return number layer, number embedding, number last_norm
function memory.optimizer_parts(m)
  return per_parameter(m, m.rules.optimizer_bytes(m), m.rules.layer_norm_split(m), 1)
end

--- Section 3: gradients, of one layer and at the ends, sharded from a ZeRO stage on.
---@return number layer, number embedding, number last_norm
function memory.gradient_parts(m, stage)
  return per_parameter(m, m.args.master_weights_dtype_bytes, m.rules.norm_split(m), stage)
end

local function on_a_gpu(m, layer, embedding, last_norm) return m.l * layer + embedding + last_norm end

--- Section 3: M_o, optimizer states.
function memory.optimizer(m) return on_a_gpu(m, memory.optimizer_parts(m)) end

--- Section 3: M_g, gradients, sharded from a ZeRO stage on (2; with 4, never reached, they are whole).
function memory.gradients(m, stage) return on_a_gpu(m, memory.gradient_parts(m, stage)) end

-- Section 4.1: attention scores and related tensors, unless recomputed.
local function attention_core(m, b, s, R, flash, softmax_dropout)
  return R == 1 and 0 or m.rules.attention_scores(m, b, s, flash, softmax_dropout)
end

--- Section 4.1: what attention saves for the backward pass of one layer.
---@param dropout boolean?  false: without the dropout mask after the projection
function memory.attention(m, b, s, R, flash, softmax_dropout, dropout)
  local sbh = s * b * m.h
  local input = sbh * m.beta_a / m.sp
  if R >= 3 then return m.rules.checkpoint_in_attention and input or 0 end
  if R == 2 then return input end
  local core = attention_core(m, b, s, R, flash, softmax_dropout)
  local mask = dropout == false and 0 or m.rules.attention_mask(m, b, s)
  return input + m.rules.attention_kept(m, b, s) + core + mask
end

--- Section 4.1 in inference: the largest single tensor. Flash attention and no dropout by default.
function memory.attention_inference(m, b, s, R, flash, softmax_dropout)
  local core = attention_core(m, b, s, R or 0, flash ~= false, softmax_dropout or false)
  return max(3 * m.beta_a * s * b * m.h / m.rules.inference_attention_split(m), core)
end

--- Section 4.2: bytes per element of the MLP's three inputs.
function memory.mlp_bytes(m)
  local args, all = m.args, setup.given(m.args.mlp_activation_quant_bits)
  local function bytes(bits)
    bits = all or setup.given(bits)
    return bits and bits / 8 or m.beta_a
  end
  return bytes(args.mlp_1linear_quant_bits), bytes(args.mlp_gelu_input_quant_bits), bytes(args.mlp_2linear_quant_bits)
end

--- Section 4.2: what the MLP saves for the backward pass of one layer.
function memory.mlp(m, b, s, R, beta_1, beta_g, beta_2, recompute_gelu, gated)
  if R == 4 then return 0 end
  return m.rules.mlp_kept(m, b, s, beta_1, beta_g, beta_2, recompute_gelu, gated)
end

--- Section 4.2 in inference. By default, inputs have the width of activations.
function memory.mlp_inference(m, b, s, beta_1, beta_g)
  return max(beta_1 or m.beta_a, (beta_g or m.beta_a) * m.r) * s * b * m.h * m.k / m.t
end

--- Section 4.3.
function memory.norm(m, b, s)
  return m.rules.norm_is_kept(m) and s * b * m.h * m.beta_n / m.sp or 0
end

--- Section 4.4: one layer in training, and its parts.
---@param gated boolean  whether the MLP is gated
---@return number layer, number attention, number mlp, number norms
function memory.layer(m, b, s, gated)
  local args, R = m.args, m.R
  if R == 4 then
    local input = s * b * m.h * m.beta_a / m.rules.checkpoint_split(m)
    return input, 0, 0, m.rules.checkpoint_among_norms and input or 0
  end
  local attention = memory.attention(m, b, s, R, args.flash_attn, args.softmax_dropout)
  local beta_1, beta_g, beta_2 = memory.mlp_bytes(m)
  local mlp = memory.mlp(m, b, s, R, beta_1, beta_g, beta_2, args.mlp_recompute_gelu, gated)
  local norms = (R == 3 and 1 or 2) * memory.norm(m, b, s)
  return attention + mlp + norms, attention, mlp, norms
end

--- Section 4.5: one layer in inference.
function memory.layer_inference(m, b, s)
  return max(memory.attention_inference(m, b, s), memory.mlp_inference(m, b, s), memory.norm(m, b, s))
end

--- Section 4.6: the input embedding's activation, and the logits (also the loss's scratch, Lambda).
function memory.input(m, b, s) return m.h * b * s * m.beta_a / m.rules.checkpoint_split(m) end
function memory.logits(m, b, s) return m.V * b * s * m.beta_a / m.t end

--- Section 4.7: A(b) with `layers` layers in flight, and its parts; the model's ends are in the total only.
---@return number total, number attention, number mlp, number norms
function memory.activations(m, b, s, layers, gated)
  local layer, attention, mlp, norms = memory.layer(m, b, s, gated)
  return layers * layer + m.rules.end_activations(m, b, s), layers * attention, layers * mlp, layers * norms
end

--- Section 5: KV cache of one layer for T tokens of b sequences.
function memory.kv_cache(m, b, T)
  local bytes = m.args.kv_cache_dtype_bytes or m.beta_a
  return 2 * b * T * m.d * m.rules.kv_heads_per_gpu(m) * bytes
end

return memory
