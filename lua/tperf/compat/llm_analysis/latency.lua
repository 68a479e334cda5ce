--- FLOPs (section 6, whole model, per micro-batch) and seconds (section 7, per GPU).
local max = math.max

local latency = {}

--- F_attn of one layer. past: tokens already in the KV cache (upstream's formula ignores them, Q33).
function latency.attention_flops(m, b, s, past)
  return m.rules.projection_flops(m, b, s) + m.rules.core_flops(m, b, s, past)
end

--- F_fwd, checked as upstream does.
function latency.forward_flops(m, b, s, past)
  local rules = m.rules
  local total = m.L * (latency.attention_flops(m, b, s, past) + rules.mlp_flops(m, b, s)) + 2 * b * s * m.h * m.V
  rules.check_flops(m, b, s, total)
  return total
end

--- F_rec: the forward work recomputed in the backward pass.
function latency.recompute_flops(m, b, s)
  if m.R == 0 then return 0 end
  if m.R == 1 then return m.L * m.rules.core_flops(m, b, s) end
  if m.R < 4 then return m.L * latency.attention_flops(m, b, s) end
  return m.rules.full_recompute_flops(m, b, s)
end

--- Section 7.2.
function latency.attention(m, b, s, training, past)
  local compute = latency.attention_flops(m, b, s, past) / (m.t * m.Phi)
  return max(compute, m.P_attn_gpu * m.beta_w / m.H + m.rules.attention_traffic(m, b, s, training, past) / m.H)
end

--- Section 7.3: the GEMMs, and separately the two all-to-alls of a mixture of experts.
---@return number total, number all_to_all
function latency.mlp(m, b, s, training)
  local rules = m.rules
  local compute = rules.mlp_flops(m, b, s) / (m.t * m.Phi)
  local traffic = rules.mlp_weight_traffic(m, b, s) / m.H + rules.mlp_traffic(m, b, s, training) / m.H
  local all_to_all = m.E > 1 and 2 * rules.all_to_all_time(m, b, s) or 0
  return max(compute, traffic) + all_to_all, all_to_all
end

--- Section 7.5.
function latency.all_reduce(m, b, s, beta)
  if m.t == 1 then return 0 end
  return m.rules.all_reduce_time(m, 2 * b * s * m.h * ((m.t - 1) / m.t) * beta)
end

--- Sections 7.7 to 7.9: the forward pass, and its parts per layer.
---@return number total, table parts
function latency.forward(m, b, s, training, past)
  local rules = m.rules
  local attention = latency.attention(m, b, s, training, past)
  local mlp, all_to_all = latency.mlp(m, b, s, training)
  local norm, tp = rules.norm_time(m, b, s), latency.all_reduce(m, b, s, m.beta_a)
  local dp = rules.gather_time(m)
  local compute = attention + mlp + 2 * norm + 2 * tp
  local input, output = rules.input_time(m, b, s), rules.output_time(m, b, s)
  local parts = {
    attention = attention, mlp = mlp, all_to_all = all_to_all, norm = norm, tp = tp, dp = dp,
    compute = compute, layer = max(compute, dp), input = input, output = output,
  }
  return rules.stage_time(m, m.l * parts.layer, input, output), parts
end

--- The seven breakdown keys of 7.9.
function latency.put_breakdown(m, summary, prefix, parts)
  local l = m.l
  summary[prefix .. "latency_fwd_attn"] = l * parts.attention
  summary[prefix .. "latency_fwd_mlp"] = l * parts.mlp
  summary[prefix .. "latency_fwd_layernorm"] = l * 2 * parts.norm
  summary[prefix .. "latency_fwd_tp_comm"] = l * 2 * parts.tp
  summary[prefix .. "latency_fwd_sharded_dp_comm"] = l * parts.dp
  summary[prefix .. "latency_fwd_input_embedding"] = parts.input
  summary[prefix .. "latency_fwd_output_embedding_loss"] = parts.output
end

return latency
