--- The formulas of llm-analysis unchanged, quirks included. Every field is one quirk (Qn, section 12 of the formula
-- sheet cited in docs/compat_llm_analysis.md); fixed.lua has its corrected form under the same name.
-- m is the setup (setup.lua); b the micro-batch, s the tokens per sequence.
local check = require "tperf.base.check"
local memory = require "tperf.compat.llm_analysis.memory"
local latency = require "tperf.compat.llm_analysis.latency"
local max = math.max

local upstream = { extended = false }

-- Configuration -------------------------------------------------------------------------------------------
function upstream.validate() end                                       -- Q25: nothing has to divide
function upstream.expansion_ratio(_, _, r) return r end               -- Q4: f and r may disagree

function upstream.layers_per_gpu(L, p) return L // p end               -- Q23: remainder layers are lost

function upstream.achieved_peak(m)                                     -- Q37: whatever the operands' type
  if m.gpu.peak_fp16_TFLOPS == 0 then
    check.fail("%s: achieved_tflops needs a gpu with peak_fp16_TFLOPS above 0", m.what)
  end
  return m.gpu.peak_fp16_TFLOPS
end

upstream.inter_node_GBs = 200                                          -- Q39: a port's Gb/s taken for GB/s

function upstream.shipped_gpu(gpu) return gpu end                      -- Q39
function upstream.capacity(m) return m.gpu.mem_per_GPU_in_GB * 1024 ^ 3 end -- Q41: no reserve

-- Parameters (section 1) ----------------------------------------------------------------------------------
function upstream.attention_params(m)                                  -- Q1, Q2, Q3
  return 2 * m.h ^ 2 + 2 * m.h ^ 2 * max(m.a_kv, m.t) / m.a
end

function upstream.attention_params_per_gpu(m) return m.P_attn / m.t end
function upstream.mlp_params(m) return m.c * m.h * m.f * m.E end

function upstream.norm_params(m) return 2 * m.h end
function upstream.embedding_params(m) return m.h * m.V end             -- Q3: tied, no positions

function upstream.embedding_params_per_stage(m) return m.P_emb end     -- Q3: on every stage

-- Memory (sections 2 to 5) --------------------------------------------------------------------------------
function upstream.mlp_weight(m, _, Dm)                                 -- Q5: router cut up with the experts
  return (m.P_mlp / m.ep + m.P_router) * m.beta_w / (m.t * Dm)
end

function upstream.router_split(m) return m.t end                       -- Q5
function upstream.norm_split(m) return m.t end                         -- Q6

function upstream.optimizer_bytes(m)                                   -- Q7: master weights ignored without o
  local other = m.args.other_op_bytes
  return other and other + m.args.master_weights_dtype_bytes or 12
end

function upstream.attention_kept(m, b, s) return 4 * s * b * m.h / m.t * m.beta_a end -- Q20: K, V as wide as Q

function upstream.attention_scores(m, b, s, flash, dropout)            -- Q43
  local bytes = flash and (2 * s * b * m.h + 4 * m.a * s * b) * m.beta_a / m.t
    or 2 * m.a * s ^ 2 * b * m.beta_a / m.t
  return dropout and bytes + m.a * s ^ 2 * b / m.t or bytes
end

function upstream.attention_mask(m, b, s) return s * b * m.h / m.sp end -- Q20: always

function upstream.mlp_kept(m, b, s, beta_1, beta_g, beta_2, recompute_gelu, gated) -- Q18
  local sbh, k = s * b * m.h, m.k
  local base
  if m.E == 1 then
    base = m.beta_a * sbh / m.sp
  else
    base = 2 * m.beta_a * sbh / m.sp + beta_1 * sbh * k + beta_1 * b * s * k + beta_1 * sbh * k / m.sp
  end
  local wide = m.r * sbh * k / m.t
  if not recompute_gelu then return base + (beta_g + beta_2) * wide end
  return base + (gated and beta_g / 3 or beta_g) * wide
end

function upstream.checkpoint_split(m) return m.t end                   -- Q19
function upstream.layers_in_flight(m) return m.L end                   -- Q23: p micro-batches of l layers

function upstream.kv_heads_per_gpu(m) return max(m.a_kv / m.t, 1) end  -- Q25

-- FLOPs (section 6) ---------------------------------------------------------------------------------------
function upstream.projection_flops(m, b, s)                            -- Q2
  local dense = 4 * b * s * m.h ^ 2
  return dense + dense / m.g
end

function upstream.core_flops(m, b, s) return 4 * b * s ^ 2 * m.h end   -- Q33, Q42
function upstream.mlp_flops(m, b, s) return 2 * m.c * b * s * m.h ^ 2 * m.r end -- Q16

function upstream.full_recompute_flops(m, b, s)                        -- Q28: the logits too
  local rules = m.rules
  return m.L * (rules.projection_flops(m, b, s) + rules.core_flops(m, b, s) + rules.mlp_flops(m, b, s))
    + 2 * b * s * m.h * m.V
end

function upstream.check_flops(m, b, s, total)                          -- Q30: presumes c r = 8
  if m.a ~= m.a_kv then return end
  local expected = 24 * b * m.L * s * m.h ^ 2 * (1 + s / (6 * m.h) + m.V / (12 * m.L * m.h))
  if expected == 0 then
    check.fail("%s: division by zero: a micro-batch of %d has no FLOPs to check", m.what, b)
  end
  if math.abs(total - expected) / expected >= 0.01 then
    check.fail("%s: the model '%s' needs %.6g forward FLOPs, more than 1%% off the closed form %.6g for multi-head "
      .. "attention with 4x ungated MLPs that llm-analysis insists on; `fixed = true` drops that check", m.what,
      m.model.name, total, expected)
  end
end

-- Latencies (section 7) -----------------------------------------------------------------------------------
function upstream.attention_traffic(m, b, s, training)                 -- Q11, Q12: what is kept, flash always on
  if training then return memory.attention(m, b, s, 0, true, false) end
  return memory.attention_inference(m, b, s)
end

function upstream.mlp_traffic(m, b, s, training)                       -- Q11, Q12: nothing under full recompute
  if not training then return memory.mlp_inference(m, b, s) end
  return memory.mlp(m, b, s, m.R, m.beta_a, m.beta_a, m.beta_a, false, m.c == 3)
end

function upstream.mlp_weight_traffic(m) return m.P_mlp * m.beta_w / (m.ep * m.t) end -- Q44: every expert

function upstream.all_to_all_time(m, b, s)                             -- Q17
  return m.k * b * s * m.h * m.beta_a / (m.ep <= 8 and m.I or m.X)
end

function upstream.norm_time(m, b, s)                                   -- Q13
  return max(5 * s * b * m.h / m.Phi, 4 * s * b * m.h / (m.sp * m.H))
end

function upstream.all_reduce_time(m, bytes) return max(bytes / m.I, m.tau) end -- Q39

function upstream.gather_time(m)                                       -- Q15: whatever Z is, in inference too
  local experts, others = m.P_mlp * m.beta_w / m.ep, (m.P_attn + m.P_router + m.P_ln) * m.beta_w
  local nu, link = m.n_dp / m.ep, m.n_dp * m.t <= 8 and m.I or m.X
  return experts * (nu - 1) / (link * nu) + others * (m.n_dp - 1) / (link * m.n_dp)
end

function upstream.input_time(m, b, s)                                  -- Q21: the whole table
  return m.V * m.h * m.beta_e / m.H + latency.all_reduce(m, b, s, m.beta_e)
end

function upstream.output_time(m, b, s)                                 -- the head's weights are not read
  return 2 * s * b * m.V * m.h / (m.t * m.p) / m.Phi
end

function upstream.stage_time(_, layers, input, output) return layers + input + output end -- Q3, Q23

-- Training (section 8) ------------------------------------------------------------------------------------
function upstream.sequence_length(m, s)                                -- Q31
  if not m.s_max then
    if not s then check.fail("%s: seq_len must be set if max_seq_len is not set", m.what) end
    check.fail("%s: seq_len %d cannot be compared with the max_seq_len that the model '%s' lacks: llm-analysis cannot "
      .. "train it; give max_seq_len in a model table, or `fixed = true`", m.what, s, m.model.name)
  end
  if s and s > m.s_max then
    check.fail("%s: seq_len must be less than model max_seq_len (seq_len %d, max_seq_len %d)", m.what, s, m.s_max)
  end
  return s or m.s_max
end

function upstream.prefetch(m, embedding, layer)                        -- Q9: charged whatever Z is
  local args = m.args
  return embedding + layer, ((args.fwd_prefetch and 1 or 0) + (args.bwd_prefetch and 1 or 0)) * layer
end

function upstream.memory_left(m, weights, optimizer) return m.W - weights - optimizer end -- Q8: not the gradients
function upstream.gradients_to_come(gradients) return gradients end    -- Q8

function upstream.peak_memory(mem, activations, loss)                  -- Q8
  return mem.optimizer + mem.weights + max(activations, mem.gradients) + max(mem.prefetch_backward, loss)
end

function upstream.accept_batch() end                                   -- Q27: any batch, 0 and negative ones too

upstream.least_batch = math.mininteger                                 -- Q27

function upstream.backward_time(_, _, _, forward) return 2 * forward end -- Q22

function upstream.recompute_time(m, b, s, parts)                       -- Q14 (R = 1), Q28 (R = 3)
  if m.R == 0 then return 0 end
  if m.R == 1 then return m.l * m.L * upstream.core_flops(m, b, s) / (m.t * m.p * m.Phi) end
  if m.R == 2 then return m.l * parts.attention end
  local norms = 2 * parts.norm
  return m.l * (m.R == 3 and parts.attention + norms or parts.attention + parts.mlp + norms)
end

function upstream.recompute_is_costly(recompute, forward) return recompute < 0.05 * forward end -- Q29: inverted

function upstream.update_time(m, weights, gradients, optimizer)        -- Q26
  return (weights + gradients + optimizer) / m.H
end

function upstream.iteration_time(_, _, _, G, micro_batch, update) return micro_batch * G + update end -- Q15, Q23
function upstream.tokens_per_second(_, b, _, s, iteration) return s * b / iteration end -- Q24

-- Inference (section 9) -----------------------------------------------------------------------------------
function upstream.inference_shards() return 1, 1 end                   -- Q10

function upstream.decode_step(_, s, n, use_kv_cache)                   -- Q33 (cached tokens), Q34
  if use_kv_cache then return 1, nil end
  return (s + n) // 2, nil
end

function upstream.kv_cache_time(m, _, _, cache) return 2 * cache / m.H end -- Q33: load and store of all of it
function upstream.decode_time(forward, kv) return forward + kv end     -- Q33

function upstream.uncached_activation(m, b, s, n) return memory.layer_inference(m, b, s + n) end -- Q34
function upstream.uncached_limit(m, s) return max(memory.layer_inference(m, 1, s), memory.logits(m, 1, s)) end -- Q34

function upstream.prefill_cache() return 0 end                         -- Q36: the cache it fills is not counted
function upstream.pipeline_latency(_, _, _, stage) return stage end    -- Q35


return upstream
