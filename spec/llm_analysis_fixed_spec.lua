-- Answers of tperf.compat.llm_analysis with `fixed = true`, against published figures and sums made here.
local cases = require "llm_analysis_cases"
local llm_analysis = require "tperf.compat.llm_analysis"
local upstream = require "tperf.compat.llm_analysis.upstream"
local fixed = require "tperf.compat.llm_analysis.fixed"
local custom, model, refused = cases.models, cases.model, cases.refused

describe("tperf.compat.llm_analysis, corrected", function()
  it("has a correction for every formula of upstream, and no more", function()
    for name in pairs(upstream) do assert.is_not_nil(fixed[name], name) end
    for name in pairs(fixed) do assert.is_not_nil(upstream[name], name) end
  end)

  -- Korthikanti et al. (arXiv 2205.05198), equations 1, 2 and 4: activations of a layer are
  -- s b h (34 + 5 a s / h), (10 + 24/t + 5 a s /(h t)) with tensor and (34 + 5 a s / h) / t with sequence
  -- parallelism too;
  -- 34 without the attention core, 2 under full recomputation.
  it("keeps the activations of the published formula", function()
    local L, s, b, h, a = 24, 2048, 2, 2048, 16
    local function layers(t, sp, R)
      local summary = llm_analysis.train { model = model(), gpu = "h100-sxm-80gb", fixed = true, tp_size = t,
        sp_size = sp,
        batch_size_per_gpu = b, flash_attn = false, softmax_dropout = true, activation_recomputation = R,
        layernorm_dtype_bytes = 2 }
      return (summary.activation_memory_attn_per_gpu + summary.activation_memory_mlp_per_gpu
        + summary.activation_memory_layernorm_per_gpu) / L / (s * b * h)
    end
    assert.are.equal(34 + 5 * a * s / h, layers(1, 1, 0))
    assert.are.equal(10 + 24 / 4 + 5 * a * s / (h * 4), layers(4, 1, 0))
    assert.are.equal((34 + 5 * a * s / h) / 4, layers(4, 4, 0))
    assert.are.equal(34 / 4, layers(4, 4, 1))
    assert.are.equal(2 / 4, layers(4, 4, 4))
    assert.are.equal(2, layers(4, 1, 4))
  end)

  it("counts published models' parameters", function()
    local function count(config, tp)
      return llm_analysis.infer { model = config, gpu = "mi250x-128gb", dtype = "w4a4e16", tp_size = tp or 8,
        fixed = true, seq_len = 16, num_tokens_to_generate = 1 }.num_params_total
    end
    local function untied(name)
      local config = { untied_embeddings = true }
      for key, value in pairs(custom[name]) do config[key] = value end
      return config
    end
    assert.are.equal(6738415616, count(untied "llama-7b-gated"))   -- LLaMA-7B
    assert.are.equal(7241732096, count(untied "mistral-7b"))       -- Mistral-7B-v0.1
    assert.are.equal(46702792704, count(untied "mixtral-8x7b"))    -- Mixtral-8x7B-v0.1
    assert.are.equal(8030261248, count(untied "llama3-8b"))        -- Llama-3.1-8B
    assert.are.equal(70553706496, count(untied "llama3-70b"))      -- Llama-3.1-70B
    local gpt2 = { name = "gpt2", num_layers = 12, n_head = 12, hidden_dim = 768, vocab_size = 50257,
      max_seq_len = 1024, learned_positions = 1024, biases = true }
    assert.are.equal(124439808, count(gpt2, 1))                     -- GPT-2 small
    local falcon, plain = custom["falcon-7b-mqa"], llm_analysis.infer { model = custom["falcon-7b-mqa"] }
    assert.are.equal(plain.num_params_total, llm_analysis.infer { model = falcon, fixed = true }.num_params_total)
  end)

  it("counts forward FLOPs as 2 per active parameter and token, plus attention", function()
    local s, b = 1024, 2
    for _, name in ipairs { "mixtral-8x7b", "dbrx-132b", "llama3-8b" } do
      local config = custom[name]
      local got = llm_analysis.infer { model = config, gpu = "mi250x-128gb", dtype = "w4a4e16", tp_size = 8,
        fixed = true, batch_size_per_gpu = b, seq_len = s, num_tokens_to_generate = 1 }
      local h, L = config.hidden_dim, config.num_layers
      local norms = (2 * L + 1) * h
      local core = 4 * L * b * h * s * (s + 1) / 2 -- every query against the keys up to its own
      assert.are.equal(2 * b * s * (got.num_active_params_total - norms) + core, got.prefill_num_flops_fwd_total)
    end
  end)

  it("charges selective recomputation once (Q14)", function()
    local request = { model = "decapoda-research_llama-7b-hf", gpu = "a100-sxm-80gb", tp_size = 8,
      batch_size_per_gpu = 1, flops_efficiency = 0.5 }
    local function extra()
      request.activation_recomputation = 0
      local without = llm_analysis.train(request)
      request.activation_recomputation = 1
      return (llm_analysis.train(request).latency_per_micro_batch - without.latency_per_micro_batch) * 1e3
    end
    assert.are.near(56.39, extra(), 0.01) -- 4 b s^2 h L^2 / (8 x 156e12), ms
    request.fixed = true
    assert.are.near(56.39 / 32 / 2 * 2049 / 2048, extra(), 0.001) -- once per layer, and half the square
  end)

  it("shards served weights under ZeRO-3 (Q10), and only then gathers (Q15)", function()
    local request = { model = "facebook_opt-13b", gpu = "a100-sxm-80gb", dp_size = 8, ds_zero = 3 }
    assert.are.near(25.23e9, llm_analysis.infer(request).weight_memory_per_gpu, 0.01e9)
    request.fixed = true
    local sharded = llm_analysis.infer(request)
    assert.are.near(12840719360 * 2 / 8, sharded.weight_memory_per_gpu, 1)
    assert.is_true(sharded.prefill_latency_fwd_sharded_dp_comm > 0)
    request.ds_zero = 2
    assert.are.equal(0, llm_analysis.infer(request).prefill_latency_fwd_sharded_dp_comm)
  end)

  it("reads the KV cache at its mean length (Q33)", function()
    local request = { model = "upstage_Llama-2-70b-instruct-v2", gpu = "a100-sxm-80gb", tp_size = 8,
      batch_size_per_gpu = 16,
      seq_len = 2048, num_tokens_to_generate = 2048 }
    local bytes = 2 * 16 * 128 * 8 / 8 * 2 * 80 -- of one token of 16 sequences, all layers, one GPU
    assert.are.equal(2 * 4096 * bytes / 2039e9, llm_analysis.infer(request).kv_cache_latency)
    request.fixed = true
    local mean = 2048 + 2047 / 2
    assert.are.near((mean + 1) * bytes / 2039e9, llm_analysis.infer(request).kv_cache_latency, 1e-15)
  end)

  it("counts gradients, gathers and the pipeline's bubble", function()
    local request = { model = "megatron-lm-175b", gpu = "a100-sxm-80gb", tp_size = 8, pp_size = 8, dp_size = 8,
      ds_zero = 1,
      activation_recomputation = 4, global_batch_size = 128, batch_size_per_gpu = 1, fixed = true }
    local summary = llm_analysis.train(request)

           local static = summary.weight_memory_per_gpu + summary.optimizer_state_memory_per_gpu
      + summary.gradient_memory_per_gpu
    assert.are.equal(static + summary.activation_memory_per_gpu + summary.loss_bwd_memory,
      summary.estimated_peak_memory_per_gpu)
    -- 1F1B: 16 micro-batches through 8 stages take 23 slots; tokens per second are of the whole iteration.
    assert.is_true(summary.latency_per_iter > 23 * summary.latency_per_micro_batch)
    assert.are.near(128 * 2048 / 512 / summary.latency_per_iter, summary.device_tokens_per_sec, 0.01)
    -- full recomputation keeps the layer's input of 12 layers for each of 8 micro-batches, split over sp = 8
    assert.are.equal(8 * 12 * 2048 * 12288 * 2 / 8, summary.activation_memory_layernorm_per_gpu)
    request.global_batch_size = 16 -- two micro-batches never fill the pipeline
    assert.are.equal(2 * 12 * 2048 * 12288 * 2 / 8, llm_analysis.train(request).activation_memory_layernorm_per_gpu)
  end)

  it("says what does not fit instead of a negative batch (Q27)", function()
    assert.are.equal(-25, llm_analysis.train { model = "facebook_opt-175b" }.batch_size_per_gpu)
    refused("train", { model = "facebook_opt-175b", fixed = true }, "batch_size_per_gpu 1 does not fit")
    refused("train", { batch_size_per_gpu = 100, fixed = true }, "does not fit (max_batch_size_per_gpu ")
  end)

  it("refuses shapes that do not divide", function()
    refused("infer", { tp_size = 5, fixed = true }, "tp_size (5) must divide n_head (32)")
    refused("infer", { pp_size = 25, fixed = true }, "pp_size (25) must be at most num_layers (24)")
    refused("infer", { seq_len = 2040, fixed = true }, "seq_len (2040) + num_tokens_to_generate (32)")
    refused("train", { ep_size = 2, fixed = true }, "ep_size (2) must divide moe_num_experts (1)")
    refused("train", { model = custom["mixtral-8x7b"], gpu = "h100-sxm-80gb", ep_size = 8, dp_size = 4,
      fixed = true },
      "ep_size (8) must divide dp_size (4)")
  end)
end)
