-- Reading Hugging Face config.json files: aliases, defaults and refusals. Counts are in parameters_spec.lua.
local hf_files = require "hf_files"
local program = require "program"
local tperf = require "tperf"
local yaml = require "tperf.core".yaml
local hf = require "tperf.describe.model.hf"

local function describe_text(text, path)
  local fields, positions = assert(yaml(text, path or "config.json"))
  return hf.describe(fields, path or "config.json", positions)
end

local fields_of, model = hf_files.fields, hf_files.model

-- A small valid Llama file, changed: set values, or "drop" a key.
local function llama(changes)
  local keys = {
    model_type = '"llama"', hidden_size = "64", num_attention_heads = "4", num_hidden_layers = "2",
    intermediate_size = "128", vocab_size = "1000", max_position_embeddings = "512",
  }
  for key, value in pairs(changes) do keys[key] = value ~= "drop" and value or nil end
  local lines = {}
  for key, value in pairs(keys) do lines[#lines + 1] = ('  "%s": %s'):format(key, value) end
  table.sort(lines)
  return "{\n" .. table.concat(lines, ",\n") .. "\n}\n"
end

local function refusal(text)
  local ok, message = pcall(describe_text, text)
  assert.is_false(ok)
  return message
end

describe("hf", function()
  it("distinguishes a configuration from tperf's own models", function()
    assert.is_true(hf.recognise { model_type = "llama" })
    assert.is_false(hf.recognise { layers = 2, hidden = 64 })
    assert.is_false(hf.recognise "llama")
  end)

  it("reads head sizes that differ from hidden / heads", function()
    local m = model "qwen3-235b-a22b"
    assert.same({ 128, 4, 64 }, { m.head_dim, m.kv_heads, m.heads })
    assert.equal(64, model "gpt-oss-120b".head_dim)
    assert.equal(128, model "gemma-2-27b".head_dim)
    assert.equal(192, model "deepseek-v3".head_dim) -- the width of a query, not the file's 64
  end)

  it("replaces nulls and absent keys by the class's defaults", function()
    assert.equal(32, model "llama-2-7b".kv_heads)
    assert.equal(3072, model "gpt2".ffn)
    assert.is_nil(model "mixtral-8x7b".window)
    assert.is_nil(model "deepseek-v2-lite".mla.q_rank)
    assert.equal(8, describe_text(llama { model_type = '"mistral"', num_attention_heads = "32" }).kv_heads)
    assert.equal(1, model "falcon-7b".kv_heads)
    assert.equal(8, model "falcon-40b".kv_heads)
    assert.equal(2048, model "falcon-40b".seq)
  end)

  it("knows which architectures tie embeddings", function()
    for name, tied in pairs { gpt2 = true, bloom = true, ["gemma-2-9b"] = true, ["falcon-40b"] = true,
      ["llama-2-7b"] = false, ["gpt-neox-20b"] = false, ["phi-3-mini"] = false, ["mamba2-130m"] = true } do
      assert.equal(tied, model(name).tied_embeddings, name)
    end
    assert.is_true(describe_text(llama { tie_word_embeddings = "true" }).tied_embeddings)
  end)

  it("tries the plain key, then the alias, then the old name", function()
    local text = llama { hidden_size = "drop", n_embed = "64" }
    assert.equal(64, describe_text(text).hidden)
    assert.equal(64, describe_text(llama { n_embed = "32" }).hidden)
    assert.equal(14336, model "bloom".hidden)
    local aliased = llama { model_type = '"mixtral"', num_experts = "8", num_experts_per_tok = "2" }
    assert.equal(8, describe_text(aliased).experts.count)
  end)

  it("reads the text model of a vision-language file", function()
    local m = model "llama-4-maverick"
    assert.equal("llama4_text", m.family)
    assert.equal(24, #m:groups() // 2)
    local nested = '{"model_type": "wrapped", "tie_word_embeddings": true, "text_config": ' .. llama {} .. "}"
    assert.is_true(describe_text(nested).tied_embeddings)
  end)

  it("puts windows on the right layers", function()
    local function windows(m)
      local sizes = {}
      for _, group in ipairs(m:groups()) do
        for _ = 1, group.count do sizes[#sizes + 1] = group.window or 0 end
      end
      return sizes
    end
    local gemma, oss = windows(model "gemma-2-27b"), windows(model "gpt-oss-20b")
    assert.same({ 4096, 0, 4096, 0 }, table.move(gemma, 1, 4, 1, {}))
    assert.same({ 128, 0, 128, 0 }, table.move(oss, 1, 4, 1, {}))
    assert.equal(46, #gemma)
    assert.same({ 4096 }, { windows(model "mistral-7b")[32] })
    assert.is_nil(model "qwen2.5-72b".window)
    local qwen = llama { model_type = '"qwen2"', use_sliding_window = "true", sliding_window = "16",
      max_window_layers = "1" }
    assert.same({ size = 16, pattern = "fw" }, describe_text(qwen).window)
    local typed = llama { model_type = '"gemma2"', head_dim = "16", sliding_window = "16",
      layer_types = '["full_attention", "sliding_attention"]' }
    assert.same({ size = 16, pattern = "fw" }, describe_text(typed).window)
    local chunked = windows(model "llama-4-maverick")
    assert.same({ 8192, 8192, 8192, 0, 8192 }, table.move(chunked, 1, 5, 1, {}))
  end)

  it("mixes dense layers and layers of experts", function()
    local function kinds(m)
      local list = {}
      for _, group in ipairs(m:groups()) do list[#list + 1] = group.kind .. " " .. group.count end
      return list
    end
    assert.same({ "dense 3", "moe 58" }, kinds(model "deepseek-v3"))
    assert.same({ "moe 32" }, kinds(model "mixtral-8x7b"))
    assert.same({ "mamba 24" }, kinds(model "mamba2-130m"))
    assert.same({ "mamba 1", "mlp 1", "mamba 1" }, table.move(kinds(model "nemotron-h-8b"), 1, 3, 1, {}))
    local sparse = describe_text(llama { model_type = '"qwen3_moe"', num_hidden_layers = "6", num_experts = "8",
      num_experts_per_tok = "2", moe_intermediate_size = "32", decoder_sparse_step = "2", mlp_only_layers = "[3]",
      num_key_value_heads = "2" })
    -- Layers 2 and 6; 4 is listed as dense.
    assert.same({ "dense 1", "moe 1", "dense 3", "moe 1" }, kinds(tperf.model(sparse)))
  end)

  it("refuses unknown architectures by name", function()
    local message = refusal(llama { model_type = '"lama"' })
    assert.matches('config.json:%d+:%d+: "model_type" = "lama": unknown architecture', message)
    assert.matches("(did you mean 'llama'", message, 1, true) -- or another that is as near
    assert.matches("docs/architectures.md lists those that are known", message, 1, true) -- see model_docs_spec.lua
    assert.matches('missing "model_type"', refusal '{"architectures": ["LlamaForCausalLM"]}', 1, true)
    assert.matches("a map of configuration keys", refusal "42", 1, true)
  end)

  it("names missing and invalid fields, with their position", function()
    local missing = refusal(llama { hidden_size = "drop" })
    assert.matches('missing "hidden_size" (or "n_embd", "d_model", "n_embed")', missing, 1, true)
    for _, value in ipairs { "-64", "0", "1.5", ".inf", ".nan", '"64"', "true", "[]", "1e300", "99999999999" } do
      local message = refusal(llama { hidden_size = value })
      assert.matches('config.json:2:%d+: "hidden_size" must be an integer from 1 to 1073741824, got ', message)
    end
    local function refuses(expected, changes) assert.matches(expected, refusal(llama(changes)), 1, true) end
    refuses('"num_hidden_layers" must be an integer from 1 to 65536', { num_hidden_layers = "1000000000" })
    refuses('3 heads do not divide the hidden size 64 (try 2 or 4), and there is no "head_dim"',
      { num_attention_heads = "3" })
    refuses('"tie_word_embeddings" must be true or false', { tie_word_embeddings = "1" })
    refuses('"hidden_act" = "sillu" is unknown (did you mean', { hidden_act = '"sillu"' })
    refuses('"layer_types" has 1 entries for 2 layers', { model_type = '"gemma2"', sliding_window = "16",
      layer_types = '["full_attention"]' })
    refuses('"mlp_only_layers" [1] = 7 is not a layer', { model_type = '"qwen3_moe"', num_experts = "8",
      num_experts_per_tok = "2", moe_intermediate_size = "32", mlp_only_layers = "[7]" })
    local nested = '{"model_type": "wrapped",\n"text_config": {"model_type": "llama",\n"num_hidden_layers": 0}}'
    assert.matches('config.json:3:%d+: "num_hidden_layers"', refusal(nested))
  end)

  it("is used by tperf.model for such files and tables", function()
    local m = tperf.model { model_type = "llama", _name_or_path = "a/b", hidden_size = 64, num_attention_heads = 4,
      num_hidden_layers = 2, intermediate_size = 128, vocab_size = 1000, max_position_embeddings = 512 }
    assert.same({ "b", 4, 16 }, { m.name, m.kv_heads, m.head_dim })
    local ok, message = pcall(tperf.model, { model_type = "lama" })
    assert.is_false(ok)
    assert.matches('config.json: "model_type"', message)
    local path = program.temporary ".json"
    local file <close> = assert(io.open(path, "w"))
    file:write(llama { num_key_value_heads = "3" })
    file:flush()
    ok, message = pcall(tperf.model, path)
    os.remove(path)
    assert.is_false(ok)
    assert.matches(path .. ":1:1: 'kv_heads' (3) must divide 'heads' (4)", message, 1, true)
  end)

  it("reads files as other programs write them: a byte order mark, CR LF, escaped pairs", function()
    local text = llama { _name_or_path = '"\\ud83e\\udd99"' }
    local path = os.tmpname() .. ".json"
    local file <close> = assert(io.open(path, "wb"))
    file:write("\xEF\xBB\xBF", (text:gsub("\n", "\r\n")))
    file:flush()
    local m = tperf.model(path)
    os.remove(path)
    assert.same({ "\u{1F999}", 64 }, { m.name, m.hidden })
  end)

  it("points at the user's line", function()
    assert.matches("^spec/hf_spec.lua:%d+: config.json", refusal(llama { vocab_size = "drop" }))
  end)

  it("names a model after its checkpoint, folder or file", function()
    assert.equal("Llama-2-7b-hf", describe_text(llama { _name_or_path = '"meta-llama/Llama-2-7b-hf"' }).name)
    assert.equal("mine", describe_text(llama {}, "models/mine/config.json").name)
    assert.equal("mine", describe_text(llama {}, "models/mine.json").name)
  end)
end)

-- Other fields of published files, by model_type, with the values that the transformers classes write.
local REST = {
  all = {
    architectures = { "LlamaForCausalLM" }, transformers_version = "4.46.3", torch_dtype = "bfloat16", use_cache = true,
    bos_token_id = 1, eos_token_id = { 2, 3 }, pad_token_id = 0, initializer_range = 0.02, pretraining_tp = 1,
    attention_dropout = 0.1, auto_map = { AutoConfig = "configuration_x.XConfig" }, _attn_implementation = "eager",
  },
  gpt2 = {
    activation_function = "gelu_new", attn_pdrop = 0.1, embd_pdrop = 0.1, resid_pdrop = 0.1, layer_norm_epsilon = 1e-5,
    n_ctx = 1024, n_special = 0, predict_special_tokens = true, summary_activation = "tanh", summary_type = "cls_index",
    summary_first_dropout = 0.1, summary_proj_to_labels = true, summary_use_proj = true,
    task_specific_params = { ["text-generation"] = { do_sample = true, max_length = 50 } },
  },
  opt = { activation_dropout = 0.1, dropout = 0.1, layerdrop = 0.1, init_std = 0.02, prefix = "</s>" },
  bloom = {
    apply_residual_connection_post_layernorm = true, attention_softmax_in_fp32 = true, bias_dropout_fusion = true,
    hidden_dropout = 0.1, masked_softmax_fusion = true, offset_alibi = 100, skip_bias_add = true,
    skip_bias_add_qkv = true, slow_but_exact = true, unk_token_id = 0, layer_norm_epsilon = 1e-5,
  },
  gpt_neox = { rotary_emb_base = 10000, rotary_pct = 0.25, classifier_dropout = 0.1, layer_norm_eps = 1e-5 },
  falcon = { hidden_dropout = 0.1, layer_norm_epsilon = 1e-5, multi_query = true, num_kv_heads = 71, rope_theta = 1e4 },
  llama = { rms_norm_eps = 1e-5, rope_scaling = { factor = 8, rope_type = "llama3" }, rope_theta = 5e5 },
  mixtral = { router_aux_loss_coef = 0.02, output_router_logits = true, router_jitter_noise = 0.1 },
  qwen3_moe = { norm_topk_prob = true, router_aux_loss_coef = 0.001, max_window_layers = 48, sliding_window = 4096 },
  gemma2 = {
    attn_logit_softcapping = 50, final_logit_softcapping = 30, query_pre_attn_scalar = 256,
    cache_implementation = "hybrid",
  },
  phi3 = { embd_pdrop = 0.1, resid_pdrop = 0.1, original_max_position_embeddings = 4096, partial_rotary_factor = 1.0 },
  deepseek_v3 = {
    aux_loss_alpha = 0.001, ep_size = 1, n_group = 8, norm_topk_prob = true, routed_scaling_factor = 2.5,
    seq_aux = true, scoring_func = "sigmoid", topk_group = 4, topk_method = "noaux_tc", head_dim = 64,
    qk_head_dim = 192,
    rope_interleave = true,
  },
  gpt_oss = {
    initial_context_length = 4096, swiglu_limit = 7.0, router_aux_loss_coef = 0.9, rope_theta = 150000,
  },
  mamba2 = {
    time_step_rank = 24, time_step_min = 0.001, time_step_limit = { 0.0, 1e9 }, residual_in_fp32 = true,
    rms_norm = true, rescale_prenorm_residual = true, norm_before_gate = true, layer_norm_epsilon = 1e-5,
    hidden_act = "silu", intermediate_size = 1536,
  },
  nemotron_h = {
    use_mamba_kernels = true, num_logits_to_keep = 1, rescale_prenorm_residual = true, time_step_max = 0.1,
    mamba_ssm_cache_dtype = "float32", hidden_dropout = 0.1, layer_norm_epsilon = 1e-5, residual_in_fp32 = true,
  },
  vit = {
    hidden_dropout_prob = 0.1, encoder_stride = 16, pooler_act = "tanh", pooler_output_size = 768,
    layer_norm_eps = 1e-12,
  },
}

local FILES = {
  gpt2 = "gpt2", opt = "opt-350m", bloom = "bloom", gpt_neox = "gpt-neox-20b", falcon = "falcon-7b",
  llama = "llama-3.1-8b",
  mixtral = "mixtral-8x7b", qwen3_moe = "qwen3-30b-a3b", gemma2 = "gemma-2-9b", phi3 = "phi-3-mini",
  deepseek_v3 = "deepseek-v3", gpt_oss = "gpt-oss-20b", mamba2 = "mamba2-130m", nemotron_h = "nemotron-h-8b",
  vit = "vit-base-patch16-224",
}

describe("the fields of a configuration", function()
  for model_type, file in pairs(FILES) do
    it("that do not change the work are ignored: " .. model_type, function()
      local fields = fields_of(file)
      local before = hf.describe(fields, "config.json")
      for _, rest in ipairs { REST.all, REST[model_type] } do
        for key, value in pairs(rest) do
          if fields[key] == nil then fields[key] = value end
        end
      end
      assert.same(before, hf.describe(fields, "config.json"))
    end)
  end

  it("that may change the work are refused by name, with a way to proceed", function()
    local function refused(name, changes)
      local fields = fields_of(name)
      for key, value in pairs(changes) do fields[key] = value end
      local ok, message = pcall(hf.describe, fields, "config.json")
      assert.is_false(ok)
      return message
    end
    -- DeepSeek-V3.2's sparse attention under V3's name
    local sparse = refused("deepseek-v3", { index_topk = 2048, index_n_heads = 64, index_head_dim = 128 })
    assert.matches('"index_head_dim" = 128 is not known of model_type "deepseek_v3", as are index_n_heads, index_topk:',
      sparse, 1, true)
    assert.matches("set it to null where it does not, or describe the model in tperf's own format", sparse, 1, true)
    assert.matches("(did you mean 'num_key_value_heads'?)", refused("llama-2-7b", { num_key_value_head = 8 }), 1, true)
    assert.matches('"sliding_window" = 4096', refused("llama-3.1-8b", { sliding_window = 4096 }), 1, true)
    assert.matches('"is_causal" = false', refused("llama-3.1-8b", { is_causal = false }), 1, true)
    assert.matches('"layer_types" = a table', refused("llama-3.1-8b",
      { layer_types = { "full_attention", "linear_attention" } }), 1, true)
    assert.matches('"layer_types" [2] = "sliding_attention" needs "sliding_window"', refused("mixtral-8x7b",
      { layer_types = { "full_attention", "sliding_attention" } }), 1, true)
    assert.matches('"moe_layers" is not every layer', refused("llama-4-maverick", { text_config = (function()
      local text = fields_of "llama-4-maverick".text_config
      text.moe_layers = { 0, 1 }
      return text
    end)() }), 1, true)
    for _, absent in ipairs { false, 0, "", {} } do
      local fields = fields_of "llama-3.1-8b"
      fields.num_experts = absent
      assert.is_nil(hf.describe(fields, "config.json").experts)
    end
  end)

  it("that set a head's size are obeyed for qwen2, too", function()
    local fields = fields_of "qwen2.5-7b"
    fields.head_dim = 64
    assert.equal(64, hf.describe(fields, "config.json").head_dim)
  end)
end)
