--- Corrected versions of the formulas of upstream.lua, field by field under the same names (Qn as there). For the extra
-- fields that model, gpu and dtype tables may then have, see docs/compat_llm_analysis.md.
local check = require "tperf.base.check"
local memory = require "tperf.compat.llm_analysis.memory"
local latency = require "tperf.compat.llm_analysis.latency"
local max, min = math.max, math.min

local fixed = { extended = true }

-- Bytes/s within a group of neighbouring GPUs: inside a node, or through the network.
local function link(m, gpus)
  return gpus <= (m.args.num_gpus_per_node or 8) and m.I or m.X
end

-- Configuration -------------------------------------------------------------------------------------------
function fixed.validate(m)                                             -- what upstream lets through
  local what, args = m.what, m.args
  local function divides(small, large, name, of)
    if large % small ~= 0 then check.fail("%s: %s (%d) must divide %s (%d)", what, name, small, of, large) end
  end
  divides(m.t, m.a, "tp_size", "n_head")
  if not m.model.head_dim then divides(m.a, m.model.hidden_dim, "n_head", "hidden_dim unless head_dim is given") end
  if m.p > m.L then check.fail("%s: pp_size (%d) must be at most num_layers (%d)", what, m.p, m.L) end
  divides(m.ep, m.E, "ep_size", "moe_num_experts")
  divides(m.ep, m.n_dp, "ep_size", "dp_size")
  if m.k > m.E then check.fail("%s: moe_top_k (%d) must be at most moe_num_experts (%d)", what, m.k, m.E) end
  local n = args.num_tokens_to_generate
  if n and m.s_max and args.seq_len + n > m.s_max then
    check.fail("%s: seq_len (%d) + num_tokens_to_generate (%d) must be at most the model's max_seq_len (%d)", what,
      args.seq_len, n, m.s_max)
  end
end

function fixed.expansion_ratio(h, f) return f / h end                  -- Q4
function fixed.layers_per_gpu(L, p) return (L + p - 1) // p end        -- Q23

function fixed.achieved_peak(m) return m.peak end                      -- Q37

fixed.inter_node_GBs = 25                                              -- Q39: 200 Gb/s a port, a port per GPU

local true_memory = { ["a10-pcie-28gb"] = 24, ["v100-sxm-16gb"] = 16 } -- Q39

function fixed.shipped_gpu(gpu)
  local copy = {}
  for key, value in pairs(gpu) do copy[key] = value end
  copy.inter_node_bandwidth_in_GB_per_sec = gpu.inter_node_bandwidth_in_GB_per_sec / 8
  copy.mem_per_GPU_in_GB = true_memory[gpu.name] or gpu.mem_per_GPU_in_GB
  return copy
end

function fixed.capacity(m) return m.gpu.mem_per_GPU_in_GB * 1024 ^ 3 * (1 - m.args.memory_reserve) end -- Q41

-- Parameters (section 1) ----------------------------------------------------------------------------------
local function attention_params(m, heads, kv_heads)
  local biases = m.model.biases and m.d * (heads + 2 * kv_heads) + m.h or 0
  return m.h * m.d * (2 * heads + 2 * kv_heads) + biases
end

function fixed.attention_params(m) return attention_params(m, m.a, m.a_kv) end -- Q1, Q2, Q3

function fixed.attention_params_per_gpu(m)                             -- Q1: kv heads are replicated here
  return attention_params(m, m.a / m.t, fixed.kv_heads_per_gpu(m))
end

function fixed.mlp_params(m)                                           -- Q3
  return (m.c * m.h * m.f + (m.model.biases and (m.c - 1) * m.f + m.h or 0)) * m.E
end

function fixed.norm_params(m) return (m.model.biases and 4 or 2) * m.h end -- Q3

function fixed.embedding_params(m)                                     -- Q3
  return m.h * m.V * (m.model.untied_embeddings and 2 or 1) + m.h * m.model.learned_positions
end

function fixed.embedding_params_per_stage(m)                           -- Q3: the fuller of the two end stages
  return m.p == 1 and m.P_emb or m.h * m.V + m.h * m.model.learned_positions
end

-- Memory (sections 2 to 5) --------------------------------------------------------------------------------
function fixed.mlp_weight(m, D, Dm)                                    -- Q5: the router is whole on every rank
  return m.P_mlp * m.beta_w / (m.ep * m.t * Dm) + m.P_router * m.beta_w / D
end

function fixed.router_split() return 1 end                             -- Q5
function fixed.norm_split() return 1 end                               -- Q6

function fixed.optimizer_bytes(m)                                      -- Q7: master weights + Adam's moments in fp32
  return m.args.master_weights_dtype_bytes + (m.args.other_op_bytes or 8)
end

-- Elements per token of the query heads and of keys or values on one GPU.
local function widths(m)
  return m.a * m.d / m.t, fixed.kv_heads_per_gpu(m) * m.d
end

function fixed.attention_kept(m, b, s)                                 -- Q20: Q, K, V and the context
  local query, kv = widths(m)
  return s * b * (2 * query + 2 * kv) * m.beta_a
end

function fixed.attention_scores(m, b, s, flash, dropout)               -- Q20, Q43
  if flash then return 4 * m.a * s * b / m.t end                       -- log-sum-exp in fp32
  local scores = m.a * s ^ 2 * b / m.t
  return (dropout and 2 or 1) * scores * m.beta_a + (dropout and scores or 0)
end

function fixed.attention_mask(m, b, s) return m.args.attn_dropout and s * b * m.h / m.sp or 0 end -- Q20

function fixed.mlp_kept(m, b, s, beta_1, beta_g, beta_2, recompute_gelu) -- Q18
  local sbh, k = s * b * m.h / m.sp, m.E > 1 and m.k or 1
  local base = beta_1 * sbh * k                                        -- input of the first linear
  if m.E > 1 then                                                      -- router and softmax inputs, combined tokens
    base = base + m.beta_a * sbh + (m.beta_a * m.E + beta_1 * k) * s * b / m.sp + beta_1 * sbh * k
  end
  local wide = s * b * m.f * k / m.t * ((m.c - 1) * beta_g + (recompute_gelu and 0 or beta_2))
  return base + wide + (m.args.mlp_dropout and sbh or 0)
end

function fixed.checkpoint_split(m) return m.sp end                     -- Q19
function fixed.layers_in_flight(m, G) return m.l * max(1, min(G, m.p)) end -- Q23: on the first stage

function fixed.kv_heads_per_gpu(m) return (m.a_kv + m.t - 1) // m.t end -- Q25

-- FLOPs (section 6) ---------------------------------------------------------------------------------------
function fixed.projection_flops(m, b, s) return 4 * b * s * m.h * m.d * (m.a + m.a_kv) end -- Q2

function fixed.core_flops(m, b, s, past)                               -- Q33, Q42: flash kernels skip the upper half
  local attended = m.args.flash_attn == false and s or (past or 0) + (s + 1) / 2
  return 4 * b * s * attended * m.a * m.d
end

function fixed.mlp_flops(m, b, s)                                      -- Q16
  local router = m.E > 1 and 2 * b * s * m.h * m.E or 0
  return 2 * m.c * b * s * m.h * m.f * (m.E > 1 and m.k or 1) + router
end

function fixed.full_recompute_flops(m, b, s)                           -- Q28: not the logits
  return m.L * (fixed.projection_flops(m, b, s) + fixed.core_flops(m, b, s) + fixed.mlp_flops(m, b, s))
end

function fixed.check_flops() end                                       -- Q30: the closed form would be the same sum

-- Latencies (section 7) -----------------------------------------------------------------------------------
function fixed.attention_traffic(m, b, s, _, past)                     -- Q11, Q12, Q33: every kernel's input, output
  local query, kv = widths(m)
  local qkv, tokens = query + 2 * kv, s * b * m.beta_a
  local bytes = tokens * ((m.h + qkv) + (qkv + query) + (query + m.h))
  if m.args.flash_attn == false then bytes = bytes + 2 * m.a * s ^ 2 * b * m.beta_a / m.t end
  if past then bytes = bytes + memory.kv_cache(m, b, past + 1) + memory.kv_cache(m, b, 1) end
  return bytes
end

function fixed.mlp_traffic(m, b, s)                                    -- Q11, Q12
  local beta_1, beta_g, beta_2 = memory.mlp_bytes(m)
  local f = m.f / m.t
  return s * b * (m.E > 1 and m.k or 1) * ((beta_1 + m.beta_a) * m.h + (beta_g * (m.c - 1) + beta_2) * f)
end

function fixed.mlp_weight_traffic(m, b, s)                             -- Q44: the experts that b s tokens reach
  local reached = m.E > 1 and 1 - (1 - m.k / m.E) ^ (b * s) or 1
  return reached * m.P_mlp * m.beta_w / (m.ep * m.t) + m.P_router * m.beta_w
end

function fixed.all_to_all_time(m, b, s)                                -- Q17
  return m.k * b * s * m.h * m.beta_a * (m.ep - 1) / (m.ep * m.sp) / link(m, m.t * m.ep)
end

function fixed.norm_time(m, b, s)                                      -- Q13
  local elements, vector = s * b * m.h / m.sp, m.gpu.peak_vector_TFLOPS
  return max(vector and 5 * elements / (vector * m.e_f * 1e12) or 0, 2 * m.beta_n * elements / m.H)
end

function fixed.all_reduce_time(m, bytes)                               -- Q39: a latency per step of the ring
  return max(bytes / link(m, m.t), 2 * (m.t - 1) * m.tau)
end

function fixed.gather_time(m)                                          -- Q15: ZeRO-3 only, this rank's share only
  if m.Z < 3 then return 0 end
  local experts = m.P_mlp * m.beta_w / (m.ep * m.t)
  local others = (m.P_attn_gpu + m.P_router + m.P_ln) * m.beta_w
  local nu = m.n_dp / m.ep
  return (experts * (nu - 1) / nu + others * (m.n_dp - 1) / m.n_dp) / link(m, m.n_dp * m.t)
end

function fixed.input_time(m, b, s)                                     -- Q21: the rows looked up
  return b * s * m.h * m.beta_e / m.H + latency.all_reduce(m, b, s, m.beta_e)
end

function fixed.output_time(m, b, s)                                    -- the head's weights are read; last stage only
  return max(2 * s * b * m.V * m.h / (m.t * m.Phi), m.V * m.h * m.beta_e / (m.t * m.H))
end

function fixed.stage_time(m, layers, input, output)                    -- Q23: the ends are on different stages
  return layers + (m.p == 1 and input + output or max(input, output))
end

-- Training (section 8) ------------------------------------------------------------------------------------
function fixed.sequence_length(m, s)                                   -- Q31
  s = s or m.s_max
  if not s then check.fail("%s: seq_len must be set if max_seq_len is not set", m.what) end
  if m.s_max and s > m.s_max then
    check.fail("%s: seq_len must be less than model max_seq_len (seq_len %d, max_seq_len %d)", m.what, s, m.s_max)
  end
  return s
end

function fixed.prefetch(m, embedding, layer)                           -- Q9
  if m.Z < 3 then return 0, 0 end
  return embedding + (m.args.fwd_prefetch and layer or 0), (m.args.bwd_prefetch and 2 or 1) * layer
end

function fixed.memory_left(m, weights, optimizer, gradients) return m.W - weights - optimizer - gradients end -- Q8
function fixed.gradients_to_come() return 0 end                        -- Q8: memory_left has counted them

function fixed.peak_memory(mem, activations, loss)                     -- Q8
  return mem.weights + mem.optimizer + mem.gradients + activations + max(mem.prefetch, loss)
end

function fixed.accept_batch(m, mem, b, b_max, lambda)                  -- Q27
  if b <= b_max then return end
  local needed = b * mem.activation_1 + max(mem.prefetch, b * lambda)
  check.fail("%s: batch_size_per_gpu %d does not fit (max_batch_size_per_gpu %d): weights, optimizer states and "
    .. "gradients leave %.1f GiB of %.1f GiB, its activations and buffers need %.1f GiB; raise tp_size, pp_size, "
    .. "ds_zero or activation_recomputation", m.what, b, max(b_max, 0), mem.left / 2 ^ 30, m.W / 2 ^ 30,
    needed / 2 ^ 30)
end

fixed.least_batch = 1                                                  -- Q27: 0 and below are no batches

function fixed.backward_time(m, _, _, _, parts)                        -- Q22: GEMMs twice, communication once
  local gemms = parts.attention + parts.mlp - parts.all_to_all
  local compute = 2 * gemms + parts.all_to_all + 4 * parts.norm + 2 * parts.tp
  -- ZeRO-3 gathers the weights again and scatters the gradients (Q15).
  local sharded = parts.dp * (1 + m.args.master_weights_dtype_bytes / m.beta_w)
  parts.backward_layers = m.l * max(compute, sharded)
  return fixed.stage_time(m, parts.backward_layers, parts.input, 2 * parts.output)
end

function fixed.recompute_time(m, b, s, parts)                          -- Q14, Q22 (R = 4 repeats the all-reduces)
  if m.R == 0 then return 0 end
  if m.R == 1 then return m.l * fixed.core_flops(m, b, s) / (m.t * m.Phi) end
  if m.R == 2 then return m.l * parts.attention end
  return m.l * (m.R == 3 and parts.attention + 2 * parts.norm or parts.compute)
end

function fixed.recompute_is_costly(recompute, forward) return recompute > 0.05 * forward end -- Q29

function fixed.update_time(m, weights, gradients, optimizer)           -- Q26
  return (2 * optimizer + weights + gradients) / m.H
end

-- Q15: the gradients' all-reduce, less the part hidden by the last backward pass.
local function gradient_reduction(m, parts)
  local ranks = m.Z == 3 and m.n_r or m.n_dp * m.n_r
  local bytes = m.Z == 3 and memory.gradients(m, 2) or memory.gradients(m, 4)
  local seconds = 2 * bytes * (ranks - 1) / ranks / link(m, m.n_dp * m.n_r * m.t)
  return max(0, seconds - parts.backward_layers)
end

-- Seconds to send one micro-batch's activations to the next stage.
local function send_time(m, b, s)
  return m.p == 1 and 0 or b * s * m.h * m.beta_a / m.sp / link(m, m.t * m.p)
end

function fixed.iteration_time(m, b, _, G, micro_batch, update, parts)  -- Q23: 1F1B's bubble, and the sends
  local slots = G == 0 and 0 or G + m.p - 1
  return slots * (micro_batch + 2 * send_time(m, b, m.s)) + gradient_reduction(m, parts) + update
end

function fixed.tokens_per_second(m, _, B, s, iteration)                -- Q24
  return B * s / (m.t * m.p * m.n_dp * m.n_r) / iteration
end

-- Inference (section 9) -----------------------------------------------------------------------------------
function fixed.inference_shards(m) return memory.shards(m, 3) end      -- Q10

function fixed.decode_step(_, s, n, use_kv_cache)                      -- Q33, Q34: the mean of n steps
  if use_kv_cache then return 1, s + (n - 1) / 2 - 1 end
  return s + (n + 1) / 2, nil
end

function fixed.kv_cache_time(m, b, past)                               -- Q33: read at its length, write one token
  return m.l * (memory.kv_cache(m, b, past + 1) + memory.kv_cache(m, b, 1)) / m.H
end

function fixed.decode_time(forward) return forward end                 -- Q33: attention_traffic has the cache

function fixed.uncached_activation(m, b, s, n)                         -- Q34
  return max(memory.layer_inference(m, b, s + n), memory.logits(m, b, s + n))
end

function fixed.uncached_limit(m, s, n) return fixed.uncached_activation(m, 1, s, n) end -- Q34
function fixed.prefill_cache(cache) return cache end                   -- Q36

function fixed.pipeline_latency(m, b, s, _, parts)                     -- Q35: a token passes every stage
  return m.L * parts.layer + parts.input + parts.output + (m.p - 1) * send_time(m, b, s)
end

return fixed
