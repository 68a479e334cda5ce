-- Each correction in tperf.compat.llm_analysis separately, against a sum written out here for one small model.
local cases = require "llm_analysis_cases"
local llm_analysis = require "tperf.compat.llm_analysis"

local L, h, a, kv, f, V, E, k = 24, 2048, 16, 4, 8192, 50000, 8, 2
local s, b = 1024, 2
local PHI, HBM, INTRA, INTER, W = 312e12, 2039e9, 300e9, 25e9, 80 * 2 ^ 30 -- a100-sxm-80gb
local P_attn, P_mlp, P_router, P_norms = 2 * h * h + 2 * h * h * kv / a, 3 * h * f * E, h * E, 2 * h

local moe = cases.model { num_key_value_heads = kv, ffn_embed_dim = f, mlp_gated_linear_units = true,
  moe_num_experts = E, moe_top_k = k }

local function ask(question, request)
  local full = { model = moe, gpu = "a100-sxm-80gb", seq_len = s, batch_size_per_gpu = b, fixed = true }
  for key, value in pairs(request) do full[key] = value end
  return llm_analysis[question](full)
end
local function train(request) return ask("train", request) end
local function infer(request) return ask("infer", request) end

local function close(want, got) assert.are.near(want, got, 1e-12 * math.abs(want)) end

describe("tperf.compat.llm_analysis, each correction", function()
  it("Q5, Q6, Q7: routers and norms whole, experts over their own GPUs, master weights counted", function()
    local t, n, ep = 2, 8, 4
    local got = train { tp_size = t, dp_size = n, ep_size = ep, ds_zero = 3, master_weights_dtype_bytes = 2 }
    close(L * 2 * (P_mlp / (ep * t) / (n / ep) + P_router / n), got.weight_memory_mlp_per_gpu)
    close(L * 2 * P_norms / n, got.weight_memory_layernorm_per_gpu)
    close(L * 2 * P_attn / t / n, got.weight_memory_attn_per_gpu)
    local elements = L * (P_mlp / (ep * t) / (n / ep) + (P_attn / t + P_router + P_norms) / n) + h * V / t / n + h / n
    close((2 + 8) * elements, got.optimizer_state_memory_per_gpu)
    close(2 * elements, got.gradient_memory_per_gpu)
  end)

  it("Q1, Q25: kv heads are copied on GPUs, not in the model", function()
    local alone, spread = infer { model = cases.model { num_key_value_heads = kv }, dtype = "w8a8e16" },
      infer { model = cases.model { num_key_value_heads = kv }, dtype = "w8a8e16", tp_size = 8 }
    assert.are.equal(alone.num_params_total, spread.num_params_total)
    close(alone.kv_cache_memory_per_gpu / 4, spread.kv_cache_memory_per_gpu) -- 1 of 4 heads, not half a head
  end)

  it("Q2: a stated head dimension", function()
    local d = 256
    local wide = infer { model = cases.model { head_dim = d } }
    close(L * (h * d * 4 * a - 4 * h * h), wide.num_params_total - infer { model = cases.model() }.num_params_total)
    close(L * 2 * b * (s + 32) * a * d * 2, wide.kv_cache_memory_per_gpu)
  end)

  it("Q8, Q9: gradients in the budget, buffers only where weights are sharded", function()
    assert.are.equal(0, train { dp_size = 8, ds_zero = 2, tp_size = 8 }.estimated_bwd_prefetch_memory_per_gpu)
    local got = train { dp_size = 8, ds_zero = 3, fwd_prefetch = false, bwd_prefetch = false, tp_size = 8 }
    close(h * V * 2 / 8, got.estimated_fwd_prefetch_memory_per_gpu)
    close(got.unsharded_weight_memory_per_layer, got.estimated_bwd_prefetch_memory_per_gpu)
    local b_max = got.max_batch_size_per_gpu
    local free = W - got["(weight+op_state+grad)_memory_per_gpu"]
    local function need(n)
      local lambda = n * s * V * 2 / 8
      return n * got.activation_memory_batch_size_1
        + math.max(got.estimated_fwd_prefetch_memory_per_gpu, got.estimated_bwd_prefetch_memory_per_gpu, lambda)
    end
    assert.is_true(need(b_max) <= free and need(b_max + 1) > free)
  end)

  it("Q13, Q21: norms read and write; the embedding reads its rows", function()
    local got = train { model = cases.model() }
    close(L * 2 * 2 * 4 * s * b * h / HBM, got.latency_fwd_layernorm)
    close(b * s * h * 2 / HBM, got.latency_fwd_input_embedding)
  end)

  it("Q16, Q17: routed FLOPs, and an all-to-all only between GPUs", function()
    local gemms = (2 * 3 * b * s * h * f * k + 2 * b * s * h * E) / (4 * PHI)
    close(L * gemms, train { tp_size = 4, dp_size = 4, ds_zero = 3 }.latency_fwd_mlp)
    local exchange = 2 * k * b * s * h * 2 * (3 / 4) / 4
    local spread = train { tp_size = 4, dp_size = 4, ep_size = 4, ds_zero = 3 }.latency_fwd_mlp
    close(L * (gemms + exchange / INTER), spread) -- 16 GPUs: through the network
    local inside = train { tp_size = 4, dp_size = 4, ep_size = 2, ds_zero = 3 }.latency_fwd_mlp
    close(L * (gemms + 2 * k * b * s * h * 2 * (1 / 2) / 4 / INTRA), inside)
  end)

  it("Q18: a gated MLP keeps gate, up and product", function()
    local dense = cases.model { ffn_embed_dim = 5504, mlp_gated_linear_units = true }
    local function kept(request)
      request.model, request.mlp_dropout = dense, false
      return train(request).activation_memory_mlp_per_gpu / L
    end
    close(2 * s * b * h + 3 * 2 * s * b * 5504, kept {})
    close(2 * s * b * h + 2 * 2 * s * b * 5504, kept { mlp_recompute_gelu = true })
    close(1 * s * b * h + 3 * 1 * s * b * 5504, kept { mlp_activation_quant_bits = 8 })
  end)

  it("Q20, Q43: K and V by their heads; flash keeps its statistics", function()
    local got = train { attn_dropout = false, tp_size = 4, dp_size = 4, ds_zero = 3 }.activation_memory_attn_per_gpu
    close(L * (2 * s * b * h / 4 + 2 * s * b * (2 * h + 2 * h * kv / a) / 4 + 4 * a * s * b / 4), got)
  end)

  it("Q22, Q26: backward's GEMMs twice, its all-reduces once; the update's traffic", function()
    local got = train { model = cases.model(), tp_size = 4 }
    local again = 2 * (got.latency_fwd_attn + got.latency_fwd_mlp + got.latency_fwd_layernorm) + got.latency_fwd_tp_comm
      + got.latency_fwd_input_embedding + 2 * got.latency_fwd_output_embedding_loss
    close(got.latency_fwd + again, got.latency_per_micro_batch)
    local moved = 2 * got.optimizer_state_memory_per_gpu + got.weight_memory_per_gpu + got.gradient_memory_per_gpu
    close(got.latency_per_micro_batch + moved / HBM, got.latency_per_iter)
  end)

  it("Q28, Q29: full recomputation without the logits; a warning of costly recomputation", function()
    local once, full = train { model = cases.model() }, train { model = cases.model(), activation_recomputation = 4 }
    local forward = once.num_flops_total_per_micro_batch / 3
    close(4 * forward - 2 * b * s * h * V, full.num_flops_total_per_micro_batch)
    local function told(summary) return table.concat(summary.warnings):find("too large to ignore", 1, true) ~= nil end
    assert.is_false(told(train { model = cases.model(), activation_recomputation = 1 }))
    local long = cases.model { max_seq_len = 32768 }
    assert.is_true(told(train { model = long, seq_len = 32768, batch_size_per_gpu = 1, activation_recomputation = 1,
      tp_size = 8 }))
  end)

  it("Q30, Q31: any MLP width, no maximum length", function()
    local free = cases.model { ffn_embed_dim = 5504 }
    free.max_seq_len = nil
    assert.are.equal(s, train { model = free }.seq_len)
    cases.refused("train", { model = free, fixed = true }, "seq_len must be set if max_seq_len is not set")
  end)

  it("Q34: without a cache, the mean length of the steps", function()
    local got = infer { use_kv_cache = false, num_tokens_to_generate = 31, tp_size = 4 }
    close(infer { seq_len = s + 16, tp_size = 4 }.prefill_num_flops_fwd_total, got.decode_num_flops_fwd_total)
  end)

  it("Q35: a token passes every stage", function()
    local one, two = infer { tp_size = 4 }, infer { tp_size = 4, pp_size = 2 }
    close(one.prefill_latency + b * s * h * 2 / 4 / INTRA, two.prefill_latency)
    close(one.decode_latency + b * h * 2 / 4 / INTRA, two.decode_latency)
  end)

  it("Q36, Q41: the prompt's cache and the reserve", function()
    local got = infer { model = cases.model(), memory_reserve = 0.25 }
    local left = 0.75 * W - got.weight_memory_per_gpu
    local each = got.prefill_activation_memory_per_gpu / b + got.kv_cache_memory_per_gpu / b
    assert.are.equal(math.floor(left / each), got.prefill_max_batch_size_per_gpu)
  end)

  it("Q37, Q38: rates and bytes of the operands' own type", function()
    close(150, train { dtype = "w8a8e16", achieved_tflops = 150, tp_size = 8 }.achieved_flops)
    local function layers(dtype)
      local got = infer { model = cases.model(), dtype = dtype }
      return got.weight_memory_per_gpu - got.weight_memory_embedding_per_gpu
    end
    local plain = { name = "w4", weight_bits = 4 }
    local grouped = { name = "w4g128", weight_bits = 4, weight_group_size = 128 }
    close(layers(plain) * (4 + 16 / 128) / 4, layers(grouped))
  end)

  it("Q39: 25 GB/s a GPU between nodes, a latency per step of the ring", function()
    local gathered = 2 * (12 * h * h + 2 * h) * 63 / 64
    close(L * gathered / INTER, train { model = cases.model(), dp_size = 64, ds_zero = 3 }.latency_fwd_sharded_dp_comm)
    local tiny = infer { model = cases.model(), tp_size = 8, seq_len = 1, batch_size_per_gpu = 1 }
    close(L * 2 * 2 * 7 * 8e-6, tiny.prefill_latency_fwd_tp_comm)
    cases.refused("infer", { model = "facebook_opt-13b", gpu = "a10-pcie-28gb", fixed = true },
      "prefill activation memory is too large")
    assert.is_number(llm_analysis.infer { model = "facebook_opt-13b", gpu = "a10-pcie-28gb" }.total_latency)
  end)

  it("Q33, Q44: decoding reads the experts that it uses, and the cache so far", function()
    local got = infer { batch_size_per_gpu = 1, tp_size = 4, num_tokens_to_generate = 33 }
    local mlp = 2 * (P_mlp * k / E / 4 + P_router) + 2 * k * (h + 2 * f / 4 + f / 4 + h)
    close(L * mlp / HBM, got.decode_latency_fwd_mlp)
    local cached = s + 16 -- the mean of the 33 steps' lengths, the new token included
    local activations = h + 2 * (h + 2 * h * kv / a) / 4 + 2 * h / 4 + h
    local attention = 2 * P_attn / 4 + 2 * activations + 2 * (cached + 1) * 2 * h * kv / a / 4
    close(L * attention / HBM, got.decode_latency_fwd_attn)
  end)

  -- With an HBM this slow every kernel takes the time of its bytes.
  local SLOW = 1e9
  local slow = { name = "slow", mem_per_GPU_in_GB = 80, hbm_bandwidth_in_GB_per_sec = SLOW / 1e9,
    intra_node_bandwidth_in_GB_per_sec = 300, intra_node_min_message_latency = 8e-6, peak_fp16_TFLOPS = 312 }

  it("Q11, Q12: the options reach the traffic", function()
    local dense = cases.model()
    local tokens = 2 * s * b
    local got = train { model = dense, gpu = slow }
    close(L * (2 * 4 * h * h + tokens * ((h + 3 * h) + (3 * h + h) + (h + h))) / SLOW, got.latency_fwd_attn)
    local plain = train { model = dense, gpu = slow, flash_attn = false }
    close(got.latency_fwd_attn + L * 2 * a * s * s * b * 2 / SLOW, plain.latency_fwd_attn)
    close(L * (2 * 8 * h * h + tokens * (h + f + f + h)) / SLOW, got.latency_fwd_mlp)
    local narrow = train { model = dense, gpu = slow, mlp_activation_quant_bits = 8 }
    close(L * (2 * 8 * h * h + tokens * (h + f + f) / 2 + tokens * h) / SLOW, narrow.latency_fwd_mlp)
  end)

  it("Q13: a stated vector rate", function()
    local gpu = { peak_vector_TFLOPS = 1e-3 }
    for key, value in pairs(slow) do gpu[key] = value end
    close(L * 2 * 2 * 4 * s * b * h / SLOW, train { model = cases.model(), gpu = gpu }.latency_fwd_layernorm)
    gpu.peak_vector_TFLOPS = 1e-4
    close(L * 2 * 5 * s * b * h / 1e8, train { model = cases.model(), gpu = gpu }.latency_fwd_layernorm)
  end)

  it("Q3, Q23: one end per stage", function()
    local whole, half = train { tp_size = 4 }, train { tp_size = 4, pp_size = 2 }
    local untied = cases.model { untied_embeddings = true, learned_positions = 512 }
    close(h * (V + 512) * 2 / 4, train { model = untied, tp_size = 4, pp_size = 2 }.weight_memory_embedding_per_gpu)
    close(h * (2 * V + 512) * 2 / 4, train { model = untied, tp_size = 4 }.weight_memory_embedding_per_gpu)
    local function layers(got)
      return got.latency_fwd_attn + got.latency_fwd_mlp + got.latency_fwd_layernorm + got.latency_fwd_tp_comm
    end
    local input, output = whole.latency_fwd_input_embedding, whole.latency_fwd_output_embedding_loss
    close(2 * s * b * V * h / (4 * PHI), output)
    close(layers(whole) + input + output, whole.latency_fwd)
    close(layers(whole) / 2 + math.max(input, output), half.latency_fwd)
    local served = infer { tp_size = 4 }
    close(served.prefill_latency_fwd_attn + served.prefill_latency_fwd_mlp + served.prefill_latency_fwd_layernorm
      + served.prefill_latency_fwd_tp_comm + served.prefill_latency_fwd_input_embedding
      + served.prefill_latency_fwd_output_embedding_loss, served.prefill_latency)
    close(V * h * 2 / 4 / HBM, served.decode_latency_fwd_output_embedding_loss) -- the head is read for two tokens
  end)

  it("Q9: prefetching the embedding and a layer ahead", function()
    local got = train { dp_size = 8, ds_zero = 3, tp_size = 8 }
    close(h * V * 2 / 8 + got.unsharded_weight_memory_per_layer, got.estimated_fwd_prefetch_memory_per_gpu)
    close(2 * got.unsharded_weight_memory_per_layer, got.estimated_bwd_prefetch_memory_per_gpu)
  end)

  it("Q14, Q22: recomputation's time", function()
    local function extra(R)
      local got = train { model = cases.model(), tp_size = 4, activation_recomputation = R }
      local without = train { model = cases.model(), tp_size = 4 }
      return got.latency_per_micro_batch - without.latency_per_micro_batch, without
    end
    local function expect(want, got) assert.are.near(want, got, 1e-12) end
    local attention, once = extra(2)
    expect(once.latency_fwd_attn, attention)
    expect(once.latency_fwd_attn + once.latency_fwd_layernorm, (extra(3)))
    expect(once.latency_fwd - once.latency_fwd_input_embedding - once.latency_fwd_output_embedding_loss, (extra(4)))
  end)

  it("Q15: the traffic of sharding and replicas", function()
    local n, ep = 64, 8
    local got = train { dp_size = n, ep_size = ep, ds_zero = 3 }
    local experts, others = 2 * P_mlp / ep * (n / ep - 1) / (n / ep), 2 * (P_attn + P_router + P_norms) * (n - 1) / n
    local gather = (experts + others) / INTER
    close(L * gather, got.latency_fwd_sharded_dp_comm)
    -- gathered again, and the gradients (4 bytes where weights have 2) scattered; both outlast this small batch
    local small = train { dp_size = n, ep_size = ep, ds_zero = 3, seq_len = 16, batch_size_per_gpu = 1 }
    local ends = 2 * small.latency_fwd_input_embedding + 3 * small.latency_fwd_output_embedding_loss
    close(L * gather * (1 + 1 + 2) + ends, small.latency_per_micro_batch)
    -- replicas: one all-reduce an iteration, less the backward pass of the layers
    local dense = { model = cases.model(), dp_size = 16, total_num_gpus = 32, ds_zero = 1, seq_len = 16,
      batch_size_per_gpu = 1 }
    local pass = train(dense)
    local gradients = pass.gradient_memory_per_gpu
    local backward = pass.latency_per_micro_batch - pass.latency_fwd - pass.latency_fwd_input_embedding
      - 2 * pass.latency_fwd_output_embedding_loss
    local update = (2 * pass.optimizer_state_memory_per_gpu + pass.weight_memory_per_gpu + gradients) / HBM
    close(pass.latency_per_micro_batch + update + 2 * gradients * 31 / 32 / INTER - backward, pass.latency_per_iter)
  end)

  it("Q18: a mixture's router, softmax and combined tokens", function()
    local got = train { tp_size = 4, dp_size = 4, ds_zero = 3, mlp_dropout = false }.activation_memory_mlp_per_gpu
    local tokens = s * b * 2 / 4
    close(L * tokens * (h + h * k + E + h * k + k + 3 * f * k), got)
  end)

  it("Q27: the memory that is missing", function()
    local ok, message = pcall(train, { model = cases.model(), batch_size_per_gpu = 64 })
    assert.is_false(ok)
    local fits = train { model = cases.model() }
    local free = (W - fits["(weight+op_state+grad)_memory_per_gpu"]) / 2 ^ 30
    local needed = 64 * (fits.activation_memory_batch_size_1 + fits.loss_bwd_memory / b) / 2 ^ 30
    assert.is_truthy(message:find(("leave %.1f GiB of 80.0 GiB"):format(free), 1, true), message)
    assert.is_truthy(message:find(("need %.1f GiB"):format(needed), 1, true), message)
  end)

  it("Q34: the whole text's activations without a cache, logits and all", function()
    local got = infer { use_kv_cache = false, num_tokens_to_generate = 64 }
    close(V * b * (s + 64) * 2, got.decode_activation_memory_per_gpu)
    local free = W - got.weight_memory_per_gpu
    assert.are.equal(math.floor(free / (V * (s + 64) * 2)), got.decode_max_batch_size_per_gpu)
    local narrow = cases.model { vocab_size = 100 }
    local layer = infer { model = narrow, use_kv_cache = false, num_tokens_to_generate = 64 }
    close(4 * h * 2 * b * (s + 64), layer.decode_activation_memory_per_gpu) -- the MLP's wide tensor
  end)
end)
