-- Hybrids and encoders from Hugging Face files: what parameter counts do not show. Counts are in parameters_spec.lua.
local hf_files = require "hf_files"
local tperf = require "tperf"

local changed, model, path_of, refused = hf_files.changed, hf_files.model, hf_files.path, hf_files.refused

-- The layers with attention, and the number of groups of equal layers.
local function attention_layers(m)
  local list = {}
  for _, group in ipairs(m:groups()) do
    for layer = group.first, group.first + group.count - 1 do
      if group.attention ~= "none" then list[#list + 1] = layer end
    end
  end
  return list
end

describe("hf hybrids", function()
  it("have attention where the files say", function()
    assert.same({ 6, 16, 26, 36 }, attention_layers(model "granite-4.0-h-small"))
    assert.same({ 10, 19, 28 }, attention_layers(model "bamba-9b"))
    assert.equal(40, #attention_layers(model "granite-4.0-micro"))
    assert.equal("MMMMMMMMM*", changed("bamba-9b", { num_hidden_layers = 10, attn_layer_indices = { 9 } }).mixers)
    refused("bamba-9b", { attn_layer_indices = { 32 } }, '"attn_layer_indices" %[1%] = 32 is not a layer from 0 to 31')
    refused("granite-4.0-h-tiny", { num_hidden_layers = 39 }, '"layer_types" has 40 entries for 39 layers')
    refused("granite-4.0-h-tiny", { num_hidden_layers = 1, layer_types = { "conv" } }, "conv\" is not mamba or att")
  end)

  it("have experts in every layer of Granite, or none", function()
    local small, micro = model "granite-4.0-h-small", model "granite-4.0-h-micro"
    assert.same({ 72, 10, 768, 1, 1536 }, { small.experts.count, small.experts.top_k, small.experts.ffn,
      small.experts.shared, small.experts.shared_ffn })
    for _, group in ipairs(small:groups()) do assert.equal("experts", group.mlp) end
    assert.is_nil(micro.experts)
    assert.equal(8192, micro.ffn)
    assert.is_nil(model "granite-4.0-micro".mamba)
  end)

  it("rotate only where the files say", function()
    assert.equal("none", model "granite-4.0-h-tiny".positions)
    assert.equal("rotary", model "granite-4.0-micro".positions)
    assert.equal("rotary", model "bamba-9b".positions)
    refused("granite-4.0-h-tiny", { position_embedding_type = "alibi" }, "alibi\" is not rope or nope")
  end)

  it("work out the width of a head that is \"auto\"", function()
    assert.equal(64, changed("bamba-9b", { mamba_d_head = "auto" }).mamba.head_dim)
    assert.equal(32, changed("bamba-9b", { mamba_d_head = "auto", mamba_n_heads = 256 }).mamba.head_dim)
  end)

  it("refuse variants that are not modelled", function()
    refused("granite-4.0-h-tiny", { normalization_function = "layernorm" }, "architectures.md")
    refused("bamba-9b", { attention_bias = true }, '"attention_bias" = true')
    refused("bamba-9b", { sliding_window = 4096 }, '"sliding_window" = 4096 is not known')
  end)

  -- Layers with attention keep keys and values; the others a state in fp32 and the convolution's last three inputs.
  it("keep keys and values of attention layers, and the states of the others", function()
    for name, layers in pairs { ["granite-4.0-h-tiny"] = { 36, 4, 3072, 4 }, ["bamba-9b"] = { 29, 3, 8192, 8 } } do
      local recurrent, attending, inner, kv_heads = table.unpack(layers)
      local state = 4 * inner * 128 + 2 * 3 * (inner + 2 * 128)
      local token = 2 * 2 * kv_heads * 128
      local got = tperf.infer { model = path_of(name), system = "h100-sxm", prompt = 1000, generate = 24 }
      assert.equal(recurrent * state + attending * token * 1024, got.cache_sequence)
    end
  end)

  -- SGLang's mamba_full_memory_ratio is 0.9: states get 0.9 of what keys and values get; without a prefix cache a
  -- request has one.
  it("are served to as many requests at once as there is room for states of", function()
    local state = 29 * (4 * 8192 * 128 + 2 * 3 * (8192 + 2 * 128))
    local block = 16 * 3 * 2 * 2 * 8 * 128
    local function served(seqs)
      return tperf.serve { model = path_of "bamba-9b", system = "h100-sxm", software = "sglang",
        engine = { max_num_seqs = seqs, prefix_caching = false },
        requests = { { arrival = 0, prompt = 100, output = 10 } } }
    end
    local usual, few = served(nil), served(16)
    local least = 0.9 / 1.9 * (usual.memory.cache - block)
    assert.truthy(usual.max_num_seqs * state <= 0.9 / 1.9 * (usual.memory.cache + block))
    assert.truthy((usual.max_num_seqs + 1) * state > least)
    assert.equal(usual.num_blocks * block + usual.max_num_seqs * state, usual.memory.cache)
    assert.equal(16, few.max_num_seqs)
    assert.truthy(few.num_blocks > usual.num_blocks)
    local pure = tperf.serve { model = "mamba2-2.7b", system = "l4",
      requests = { { arrival = 0, prompt = 9, output = 9 } } }
    assert.truthy(pure.max_num_seqs < 1024 and pure.memory.weights + pure.memory.cache < pure.memory.capacity)
  end)

  -- Every layer keeps a state of 24 heads of 64 x 128 in fp32, three inputs of the convolution, and keys and values of
  -- two heads of 64.
  it("have Mamba-2 beside attention in every layer of Falcon-H1", function()
    local m, found = model "falcon-h1-0.5b", {}
    assert.equal(36, #attention_layers(m))
    local state, token = 4 * 24 * 64 * 128 + 2 * 3 * (1536 + 2 * 128), 2 * 2 * 2 * 64
    local got = tperf.infer { model = m, system = "h100-sxm", prompt = 1000, generate = 24 }
    assert.equal(36 * (state + token * 1024), got.cache_sequence)
    local flops = m:flops_per_token { seq = 4096, causal = false, backward = false }
    assert.equal(36 * 4 * 8 * 64 * 4096, flops.attention)
    assert.equal(36 * (2 * 128 * 128 + 24 * (2 * 128 * 64 + 4 * 128 * 64)), flops.scan)
    for _, one in ipairs(tperf.layer { model = m, system = "h100-sxm", seq = 1024 }) do
      found[one.name] = one.forward.tensor_flops
    end
    assert.equal((2 * 1024 - 1) * 1024 * (2 * 1536 + 2 * 128 + 24), found["in"])
    assert.equal((2 * 1024 - 1) * 1024 * (8 + 2 * 2) * 64, found.qkv)
    assert.is_nil(found["gated-norm"])
    assert.equal(36 * 1536, tperf.model(changed("falcon-h1-0.5b", { mamba_rms_norm = true })):parameters().total
      - m:parameters().total)
    refused("falcon-h1-0.5b", { mamba_d_ssm = 2048 }, '"mamba_d_ssm" = 2048 is not')
    refused("falcon-h1-0.5b", { projectors_bias = true }, '"projectors_bias" = true is not modelled')
    local served = tperf.serve { model = m, system = "h100-sxm", software = "vllm-0.15",
      requests = { { arrival = 0, prompt = 100, output = 10 } } }
    -- A group of all layers for tokens, one for states, in 16 bits: 403,968 bytes take 50 x 16 tokens.
    assert.equal(36 * 800 * token * served.num_blocks, served.memory.cache)
    assert.equal(served.num_blocks // 2 * 800, served.cache_tokens)
  end)

  -- 20 layers keep a state of 32 heads of 128 x 128 in fp32 and three inputs of the convolution over q, k and v; 7 a
  -- latent of 512 and 64 numbers of every token.
  it("decay every feature of a key in Kimi Linear", function()
    local m, found = model "kimi-linear-48b-a3b", {}
    assert.same({ 4, 8, 12, 16, 20, 24, 27 }, attention_layers(m))
    local got = tperf.infer { model = m, system = "h200-sxm", prompt = 1000, generate = 24 }
    assert.equal(20 * (4 * 32 * 128 * 128 + 2 * 3 * 3 * 4096) + 7 * 2 * 576 * 1024, got.cache_sequence)
    for _, one in ipairs(tperf.layer { model = m, system = "h100-sxm", seq = 1024, kind = 1 }) do
      found[one.name] = one.forward.tensor_flops
    end
    assert.equal((2 * 2304 - 1) * 1024 * 3 * 4096, found["in-qkv"])
    assert.equal((2 * 128 - 1) * 1024 * 4096, found["decay-out"])
    assert.equal((2 * 2304 - 1) * 1024 * 128, found["gate-in"])
    refused("kimi-linear-48b-a3b", { mla_use_output_gate = true }, '"mla_use_output_gate" = true is not known')
    refused("kimi-linear-48b-a3b", { linear_attn_config = { num_heads = 32, head_dim = 128, kda_layers = { 1, 1 } } },
      "kda_layers.* %[2%] = 1 is not a layer from 1 to 27 that no list had before")
    refused("kimi-linear-48b-a3b", { num_hidden_layers = 1, linear_attn_config = { num_heads = 32, head_dim = 128,
      kda_layers = { 1 }, use_full_rank_gate = true } }, '"use_full_rank_gate" is not known of Kimi Linear')
  end)

  it("normalise Falcon-Mamba's steps, B and C without weights", function()
    local plain = model "falcon3-mamba-7b"
    assert.equal("plain", plain.mamba1.norms)
    local weighted = plain:with { mamba1 = { norms = true } }
    assert.equal(64 * (256 + 2 * 16), weighted:parameters().total - plain:parameters().total)
    local function norms(m)
      local found = {}
      for _, op in ipairs(tperf.layer { model = m, system = "h100-sxm" }) do
        if op.name:find "^[dbc]t?%-norm$" then found[#found + 1] = op.name end
      end
      return found
    end
    assert.same({ "dt-norm", "b-norm", "c-norm" }, norms(plain))
    assert.same({}, norms(model "mamba-130m-hf"))
    assert.equal(8192, plain.mamba1.inner) -- not "expand" times the width
    assert.equal(8192, model "falcon-mamba-7b-pre-decay".mamba1.inner)
  end)
end)

describe("hf encoders", function()
  it("leave RoBERTa's first positions unused", function()
    local m = model "roberta-base"
    assert.same({ 512, 514, 1 }, { m.seq, m.position_rows, m.encoder.segments })
    assert.equal(513, changed("roberta-base", { pad_token_id = 0 }).seq)
    refused("roberta-base", { pad_token_id = 513 }, '"max_position_embeddings" = 514 leaves no position')
    assert.is_false(model "xlm-roberta-base".causal)
  end)

  it("know the classes that files name", function()
    local bare = changed("roberta-base", { architectures = { "RobertaModel" } })
    assert.same({ pooler = true, head = false, segments = 1 }, bare.encoder)
    assert.is_true(changed("xlm-roberta-base", { architectures = {} }).encoder.transform)
    assert.is_false(changed("distilbert-base-uncased", { architectures = { "DistilBertModel" } }).encoder.head)
    refused("roberta-base", { architectures = { "RobertaForCausalLM" } }, "known: RobertaForMaskedLM, .*, RobertaModel")
    refused("xlm-roberta-base", { architectures = { "RobertaModel" } }, "not known of XLMRoberta")
    refused("roberta-base", { position_embedding_type = "relative_key" }, "architectures.md")
  end)

  it("give BART's stacks a table of positions each", function()
    local m = model "bart-large"
    assert.same({ 12, 24, 1024, 1026 }, { m.encoder_stack.layers, m.layers, m.seq, m.position_rows })
    assert.equal(2 * 1026 * 1024, m:parameters().components.positions)
    local first, second = table.unpack(m:groups())
    assert.same({ "encoder", 2, "decoder", 3 }, { first.kind, first.norms, second.kind, second.norms })
    assert.equal(2 * 1024, m:parameters().total - m:with { embedding_norm = false }:parameters().total - 2 * 1024)
    refused("bart-base", { normalize_before = true }, '"normalize_before" = true is not modelled')
    refused("bart-base", { normalize_embedding = false }, '"normalize_embedding" = false is not modelled')
    refused("bart-base", { decoder_ffn_dim = 4096 }, '"decoder_ffn_dim" = 4096 differs from "encoder_ffn_dim" = 3072')
    refused("bart-base", { architectures = { "BartForCausalLM" } }, "BartForCausalLM\" is not modelled; known: Bart")
  end)

  it("read CLIP's text tower as a causal model without an output table", function()
    local m = model "clip-vit-large-text"
    assert.same({ 77, true, false, "quick_gelu" }, { m.seq, m.causal, m.encoder.head, m.activation })
    refused("clip-vit-large-text", { architectures = { "CLIPTextModelForThings" } }, "known: CLIPTextModel")
    local with = changed("clip-vit-large-text", { architectures = { "CLIPTextModelWithProjection" },
      projection_dim = 768 })
    assert.equal(123060480 + 768 * 768, tperf.model(with):parameters().total)
    assert.error_matches(function() tperf.infer { model = m, system = "h100-sxm", prompt = 32, generate = 8 } end,
      "generates no tokens")
  end)

  it("give DeiT a distillation token, and its teacher's classes", function()
    local m = model "deit-base-distilled-hasta"
    assert.equal(198, m.seq)
    local labels = {}
    for i = 0, 999 do labels[tostring(i)] = "class" end
    local taught = tperf.model(changed("deit-base-distilled-hasta", {
      architectures = { "DeiTForImageClassificationWithTeacher" }, id2label = labels }))
    assert.equal(87338192, taught:parameters().total) -- seen
    refused("deit-base-distilled-hasta", { architectures = { "DeiTModel" } }, "known: DeiTForImageClassification, ")
  end)

  it("scale the outputs of DINOv2's sublayers", function()
    local m, giant = model "dinov2-base", model "dinov2-giant"
    assert.same({ 1370, 3072, false }, { m.seq, m.ffn, m.gated })
    assert.same({ 4096, true, "silu" }, { giant.ffn, giant.gated, giant.activation })
    assert.equal(12 * 2 * 768, m:parameters().components.scales)
    local found = 0
    for _, op in ipairs(tperf.layer { model = m, system = "h100-sxm" }) do
      if op.name == "scale" then found = found + 1 end
    end
    assert.equal(2, found)
    local unmasked = tperf.model(changed("dinov2-base", { use_mask_token = false }))
    assert.equal(768, m:parameters().total - unmasked:parameters().total)
    refused("dinov2-base", { architectures = { "Dinov2ForImageClassification" } }, "Dinov2Backbone, Dinov2Model")
    refused("dinov2-base", { drop_path_rate = 0.1 }, '"drop_path_rate" = 0.1 is not known')
    assert.error_matches(function() m:with { parallel_block = true } end, "'output_scale' does not go with")
  end)

  it("give ModernBERT windows on both sides of a token", function()
    local m = model "modernbert-base"
    assert.same({ size = 129, pattern = "fwwfwwfwwfwwfwwfwwfwwf" }, m.window)
    assert.is_false(m.causal)
    local listed = changed("modernbert-base", { num_hidden_layers = 2, global_attn_every_n_layers = 2,
      layer_types = { "sliding_attention", "full_attention" } })
    assert.equal("wf", listed.window.pattern)
    -- 8 layers see all keys, 14 a window; scores and values are products of 2 FLOPs
    local flops = m:flops_per_token { seq = 4096, backward = false }
    assert.equal(4 * 768 * (8 * 4096 + 14 * 129), flops.attention)
    refused("modernbert-base", { sparse_prediction = true }, '"sparse_prediction" = true is not modelled')
    refused("modernbert-base", { classifier_activation = "relu" }, '"classifier_activation" = "?relu')
  end)

  it("leave out the norm before ModernBERT's first sublayer", function()
    local m = model "modernbert-base"
    local first, second = table.unpack(m:groups())
    assert.same({ 1, 1, true }, { first.count, first.norms, first.bare })
    assert.same({ 2, 2 }, { second.count, second.norms })
    assert.equal(768, m:with { first_norm = true }:parameters().total - m:parameters().total)
    local function norms(of) -- the blocks of the first layer that have one
      local found = {}
      for _, op in ipairs(tperf.layer { model = of, system = "h100-sxm" }) do
        if op.name == "norm" then found[#found + 1] = op.block end
      end
      return found
    end
    assert.same({ "mlp" }, norms(m))
    assert.same({ "attention", "mlp" }, norms(m:with { first_norm = true }))
    assert.error_matches(function() m:with { norms_per_layer = 0 } end, "'first_norm' = false needs norms")
  end)

  it("give ELECTRA tables of their own width, and a head for every token", function()
    local small = model "electra-small-discriminator"
    assert.equal(128, small.embedding_width)
    assert.equal(1, small.encoder.token_classes)
    assert.is_true(model "electra-base-generator".encoder.transform)
    local bare = changed("electra-small-discriminator", { architectures = { "ElectraModel" } })
    bare.architecture = nil
    assert.equal(13548800 - 256 * 256 - 256, tperf.model(bare):parameters().total)
    assert.error_matches(function() model "electra-base-generator":with { encoder = { transform = false } } end,
      "'encoder.transform' must lead from")
    assert.error_matches(function() small:with { encoder = { head = true, transform = true } } end,
      "'encoder.head' must be false")
  end)

  it("give DistilBERT no token types", function()
    local m = model "distilbert-base-uncased"
    assert.same({ 6, 0, 3072, 512 }, { m.layers, m.encoder.segments, m.ffn, m.seq })
    refused("distilbert-base-uncased", { sinusoidal_pos_embds = true }, '"sinusoidal_pos_embds" = true is not modelled')
  end)
end)
