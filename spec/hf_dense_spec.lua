-- Dense decoders from Hugging Face files: what their parameter counts (parameters_spec.lua) do not show.
local hf = require "tperf.describe.model.hf"
local hf_files = require "hf_files"
local tperf = require "tperf"

local changed, fields_of, model, REMOVED = hf_files.changed, hf_files.fields, hf_files.model, hf_files.REMOVED

local function refuses(expected, name, changes) hf_files.refused(name, changes, expected, true) end

describe("dense decoders of Hugging Face", function()
  it("are found in files of several models", function()
    local text = fields_of "qwen2.5-7b"
    for _, file in ipairs {
      { model_type = "internvl_chat", llm_config = text }, { model_type = "internvl", text_config = text },
      { model_type = "qwen2_5_omni", thinker_config = { text_config = text } },
    } do
      assert.equal(28, hf.describe(file, "config.json").layers)
    end
    assert.is_true(model "glm-4.1v-9b".biases.qkv)
  end)

  it("have windows on the right layers", function()
    for name, expected in pairs {
      ["command-r7b"] = { 4096, ("wwwf"):rep(8) }, ["olmo-3-7b"] = { 4096, ("wwwf"):rep(8) },
      ["ministral-8b"] = { 32768, ("w"):rep(36) }, ["gpt-neo-2.7b"] = { 256, ("fw"):rep(16) },
    } do
      assert.same({ size = expected[1], pattern = expected[2] }, model(name).window, name)
    end
    for _, name in ipairs { "exaone-4.0-1.2b", "ministral-3-3b", "qwen2.5-vl-7b", "mimo-7b", "gemma-7b", "phi-2" } do
      assert.is_nil(model(name).window, name)
    end
    local full = { "full_attention", "sliding_attention", "sliding_attention", "sliding_attention" }
    local ministral = changed("ministral-8b", { model_type = "ministral", num_hidden_layers = 4, layer_types = full })
    assert.equal("fwww", ministral.window.pattern)
    local command = changed("command-r7b", { num_hidden_layers = 8, sliding_window_pattern = 2 })
    assert.equal("wfwfwfwf", command.window.pattern)
  end)

  it("read GPT-Neo's layers from lists of names and repeats, too", function()
    local runs = { { { "global" }, 1 }, { { "local", "global" }, 2 } }
    local m = changed("gpt-neo-2.7b", { num_layers = 5, attention_layers = REMOVED, attention_types = runs })
    assert.equal("fwfwf", m.window.pattern)
    refuses('"attention_layers" has 32 entries for 5 layers', "gpt-neo-2.7b", { num_layers = 5 })
    refuses('"attention_layers" [1] = "sparse" is not global or local', "gpt-neo-2.7b",
      { num_layers = 1, attention_layers = { "sparse" } })
    refuses('"attention_types" [1] must be a list of kinds', "gpt-neo-2.7b",
      { attention_layers = REMOVED, attention_types = { { "global", 3 } } })
    refuses('"attention_types" has 34 entries for 32 layers', "gpt-neo-2.7b",
      { attention_layers = REMOVED, attention_types = { { { "global", "local" }, 1 << 40 } } })
  end)

  it("read EXAONE's pattern as a number and as letters, whose last layer is global", function()
    local function pattern(p, layers)
      return changed("exaone-4.0-1.2b", { layer_types = REMOVED, num_hidden_layers = layers, sliding_window = 4096,
        sliding_window_pattern = p }).window.pattern
    end
    assert.equal("wwwfww", pattern(4, 6))
    assert.equal("wwwfwf", pattern("LLLG", 6))
    refuses('"sliding_window_pattern" = "LX" must be made of L and G', "exaone-4.0-1.2b",
      { layer_types = REMOVED, sliding_window = 4096, sliding_window_pattern = "LX" })
    assert.is_nil(changed("exaone-4.0-1.2b", { sliding_window_pattern = 0 }).window)
  end)

  it("have the positions, norms and biases of their layers", function()
    for _, name in ipairs { "mpt-30b-chat", "baichuan-13b-chat" } do
      local m = model(name)
      assert.same({ "alibi", true }, { m.positions, m.unbounded }, name)
    end
    assert.same({ "rotary", 4096 }, { model "baichuan2-7b".positions, model "baichuan2-7b".context })
    assert.same({ "learned", 1, 8192 }, { model "starcoder".positions, model "starcoder".kv_heads,
      model "starcoder".context })
    assert.equal(4, model "glm-4-9b-0414".norms_per_layer)
    assert.same({ "relu2", false }, { model "afm-4.5b-austral".activation, model "afm-4.5b-austral".gated })
    assert.same({ "gelu", true }, { model "gemma-2b".activation, model "gemma-2b".gated })
    for _, name in ipairs { "phi-2", "phi-2-old", "command-r7b", "codegen-2b-mono" } do
      assert.same({ true, 1 }, { model(name).parallel_block, model(name).norms_per_layer }, name)
    end
    local stable = changed("stablelm-2-1.6b", { use_parallel_residual = true })
    assert.same({ true, 1 }, { stable.parallel_block, stable.norms_per_layer })
    assert.is_true(changed("phi-2", { qk_layernorm = true }).qk_norm)
    assert.equal(11008, model "qwen-7b".ffn)
    local biases = changed("qwen-7b", { no_bias = REMOVED }).biases
    assert.same({ qkv = true, attention_out = false, mlp = false }, biases)
  end)

  it("have xIELU with its learned scalars, and norms without weights", function()
    local apertus, olmo = model "apertus-8b", model "olmo-7b"
    assert.same({ "xielu", false, true }, { apertus.activation, apertus.gated, apertus.qk_norm })
    assert.equal(64, apertus:parameters().total - apertus:with { activation = "relu2" }:parameters().total)
    assert.same({ "layernorm", false }, { olmo.norm, olmo.norm_weights })
    assert.equal(0, olmo:parameters().components.norms)
    for _, name in ipairs { "olmo-7b", "apertus-8b" } do
      local step = tperf.train { model = model(name), system = "h100-sxm", tp = 2, dp = 4, global_batch = 8 }
      assert.is_true(step.time > 0)
    end
    refuses('"post_norm" = true is not modelled: false is (docs/architectures.md)', "apertus-8b", { post_norm = true })
  end)

  it("are the text models of vision-language files, with fields beside the tower's or in text_config", function()
    local top = changed("qwen2.5-vl-7b", {})
    assert.same({ true, 28, 152064 }, { top.biases.qkv, top.layers, top.vocab })
    for _, name in ipairs { "qwen2_vl", "qwen2_5_vl" } do
      local text = fields_of "qwen2.5-vl-7b"
      text.vision_config, text.model_type = nil, name .. "_text"
      local nested = hf.describe({ model_type = name, text_config = text, vision_config = {} }, "config.json")
      assert.equal(name .. "_text", nested.family)
      nested.family, nested.towers = top.family, top.towers -- it names no tower
      assert.same(top, nested)
    end
    assert.equal("qwen3_vl_text", model "qwen3-vl-8b".family)
    assert.equal("ministral3", model "ministral-3-3b".family)
  end)

  it("count MiMo's module for multi-token prediction", function()
    local count = model "mimo-7b":parameters()
    local layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096 + 2 * 1024 + 3 * 4096 * 11008 + 2 * 4096
    assert.equal(layer + 2 * 4096 * 4096 + 3 * 4096, count.mtp)
  end)

  it("have the defaults of their classes", function()
    assert.is_true(changed("glm-4-9b", { attention_bias = REMOVED }).biases.qkv)
  end)

  it("count ERNIE 4.5's 0.3 billion parameters by its class's sizes", function()
    local m = tperf.model { model_type = "ernie4_5", hidden_size = 1024, num_hidden_layers = 18, head_dim = 128,
      num_attention_heads = 16, num_key_value_heads = 2, intermediate_size = 3072, vocab_size = 103424,
      max_position_embeddings = 131072, use_bias = false }
    assert.equal(360748032, m:parameters().total) -- seen
    assert.equal(18 * (2048 + 2 * 256 + 1024 + 2 * 3072 + 1024), tperf.model { model_type = "ernie4_5",
      hidden_size = 1024, num_hidden_layers = 18, head_dim = 128, num_attention_heads = 16, num_key_value_heads = 2,
      intermediate_size = 3072, vocab_size = 103424, max_position_embeddings = 131072, use_bias = true,
    }:parameters().total - 360748032)
  end)

  it("are refused where their layers differ from those that are modelled", function()
    local docs = "(docs/architectures.md)"
    for name, changes in pairs {
      ["stablelm-2-1.6b"] = { qk_layernorm = true }, ["hunyuan-0.5b"] = { use_cla = true },
      ["chatglm3-6b"] = { rmsnorm = false }, ["command-r7b"] = { use_parallel_block = false },
      ["mpt-30b-chat"] = { no_bias = false },
    } do
      local key, value = next(changes)
      refuses(('"%s" = %s is not modelled: %s is %s'):format(key, value, not value, docs), name, changes)
    end
    for _, change in ipairs { { "alibi", false }, { "qk_ln", true }, { "prefix_lm", true } } do
      local attention = fields_of "mpt-30b-chat".attn_config
      attention[change[1]] = change[2]
      refuses(('attn_config: "%s" = %s is not modelled'):format(change[1], change[2]), "mpt-30b-chat",
        { attn_config = attention })
    end
    refuses('"num_hidden_layers" = 3 is not "num_layers" = 28', "chatglm3-6b", { num_hidden_layers = 3 })
    refuses('"intermediate_size" = 7 must be even', "qwen-7b", { intermediate_size = 7 })
    refuses('missing "model_max_length"', "baichuan-13b-chat", { model_max_length = REMOVED })
  end)

  it("train without dropout if the file's rates are 0", function()
    for name, drops in pairs { ["gpt-neo-2.7b"] = false, ["mpt-30b-chat"] = false, bloom = true, gpt2 = true,
      ["gemma-7b"] = false } do -- BLOOM's and GPT-2's files name no rates
      assert.equal(drops, tperf.model("spec/data/hf/" .. name .. ".json").dropout, name)
    end
    local fields = fields_of "gpt-neo-2.7b"
    fields.attention_dropout = 0.1
    assert.is_nil(hf.describe(fields, "config.json").dropout)
  end)
end)
