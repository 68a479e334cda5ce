local tperf = require "tperf"
local catalogue = require "tperf.base.catalogue"

local function refusal(value)
  local ok, message = pcall(function()
    local model = tperf.model(value)
    return model
  end)
  assert.is_false(ok)
  return message
end

local function with(changes)
  local model = { name = "x", layers = 1, hidden = 7680, ffn = 30720, heads = 60, seq = 3000 }
  for key, value in pairs(changes or {}) do model[key] = value end
  return model
end

describe("tperf.model", function()
  it("reads the published models", function()
    local expected = { gpt3 = { 2048, 12288, 96, 96, 128 }, gpt3_1T = { 2048, 25600, 160, 128, 160 },
      vit_era5 = { 64800, 12288, 64, 48, 192 } }
    for name, sizes in pairs(expected) do
      local m = tperf.model("subramanian2024/" .. name)
      assert.same(sizes, { m.seq, m.hidden, m.heads, m.layers, m.head_dim })
      assert.equal(4 * m.hidden, m.ffn)
      assert.equal(m.heads, m.kv_heads)
    end
  end)

  it("derives the rest of a table, also after a change", function()
    local m = tperf.model(with())
    assert.same({ 60, 128, "gelu", "layernorm", "none", false, false },
      { m.kv_heads, m.head_dim, m.activation, m.norm, m.positions, m.gated, m.tied_embeddings })
    assert.is_nil(m.vocab)
    assert.equal("x", tostring(m))
    assert.same({ 1000, 10 }, { tperf.model { name = "y", layers = 1, hidden = 250, heads = 25, seq = 1 }.ffn,
      tperf.model { name = "y", layers = 1, hidden = 250, heads = 25, seq = 1 }.head_dim })
    local half = m:with { hidden = 3840, heads = 30 }
    assert.same({ 30, 128, 30720, 1 }, { half.kv_heads, half.head_dim, half.ffn, half.layers })
    assert.equal(1 << 31, m:with { seq = 1 << 31 }.seq)
  end)

  -- Parameters as their authors count them, from the shapes alone (arXiv:2307.09288, arXiv:2407.21783, gpt2's card).
  it("has the sizes that give the models' names", function()
    local billions = { gpt2 = 0.124, ["gpt3-175b"] = 175, ["llama-2-7b"] = 6.74, ["llama-2-70b"] = 69.0,
      ["llama-3.1-8b"] = 8.03, ["llama-3.1-70b"] = 70.6, ["llama-3.1-405b"] = 405.9 }
    for name, size in pairs(billions) do
      local m = tperf.model(name)
      local attention = m.hidden * m.head_dim * (2 * m.heads + 2 * m.kv_heads)
      local mlp = (m.gated and 3 or 2) * m.hidden * m.ffn
      local embeddings = m.vocab * m.hidden * (m.tied_embeddings and 1 or 2)
      local positions = m.positions == "learned" and m.seq * m.hidden or 0
      local count = m.layers * (attention + mlp) + embeddings + positions
      assert.is_true(math.abs(count / 1e9 / size - 1) < 0.005, name .. " has " .. count)
    end
  end)

  -- Billions of parameters as their publishers count them, with towers for images; within 0.5 %.
  local PUBLISHED <const> = { -- model cards and safetensors metadata on huggingface.co
    ["ernie-4.5-21b-a3b"] = 21.825, ["seed-oss-36b"] = 36.151, ["phi-4-mini"] = 3.836, ["nemotron-nano-9b-v2"] = 8.888,
    ["kimi-linear-48b-a3b"] = 49.12, ["qwen2.5-vl-72b"] = 73.41, ["qwen3-vl-235b-a22b"] = 236, ["lfm2-1.2b"] = 1.17,
    ["qwen3-vl-30b-a3b"] = 31.07, ["qwen3-vl-8b"] = 8.767, ["qwen3-vl-4b"] = 4.438, ["gemma-4-26b-a4b"] = 25.8,
    ["gemma-4-31b"] = 31.27, ["mimo-v2-flash"] = 309, ["trinity-large"] = 398, ["ring-1t"] = 1000,
    ["mistral-large-3-675b"] = 675, ["ministral-3-14b"] = 13.94, ["ministral-3-8b"] = 8.918, ["granite-3.2-2b"] = 2.53,
    ["hunyuan-a13b"] = 80.4, ["hy3"] = 295, ["step-3.5-flash"] = 196.8, ["deepseek-v4-flash"] = 284,
    ["glm-5.2"] = 743, ["nemotron-3-ultra-550b-a55b"] = 550, ["internvl3.5-8b"] = 8.53, ["distilgpt2"] = 0.0819,
    ["ernie-4.5-300b-a47b"] = 300, ["lfm2-8b-a1b"] = 8.34, ["granite-3.0-3b-a800m"] = 3.3,
  }

  it("has the sizes that publishers state", function()
    for name, billions in pairs(PUBLISHED) do
      local m = tperf.model(name)
      local total = m:parameters().total
      for _, one in ipairs(m.towers or {}) do total = total + one.parameters end
      assert.near(1, total / billions / 1e9, 0.005, name)
    end
  end)

  it("takes the values of a config.json, which other fields of the file come before", function()
    local config = { model_type = "qwen3", hidden_size = 4096, intermediate_size = 12288, num_attention_heads = 32,
      num_key_value_heads = 8, num_hidden_layers = 36, vocab_size = 151936, max_position_embeddings = 40960,
      head_dim = 128, quantization_config = { quant_method = "fp8", weight_block_size = { 128, 128 } } }
    local m = tperf.model { name = "mine", seq = 4096, config = config }
    assert.same({ "mine", 4096, 40960, 8190735360, "fp8-block" },
      { m.name, m.seq, m.context, m:parameters().total, m.stored.layers })
    assert.is_nil(tperf.model { name = "mine", stored = false, config = config }.stored)
    assert.error_matches(function() tperf.model { name = "mine", heds = 3, config = config } end,
      "unknown field 'heds'")
    config.hidden_siz = 3
    assert.error_matches(function() tperf.model { config = config } end, '"hidden_siz" = 3 is not known')
  end)

  it("says which towers around a model's text it leaves out", function()
    local account = require "tperf.describe.model.hf.account"
    for name, field in pairs { ["step-3.7-flash"] = "vision_config", ["qwen3-vl-8b"] = "towers.vision" } do
      account.ignore { "anything" } -- forgets what was noted before
      account.ignore(nil)
      tperf.model(name)
      local said = account.named()[1]
      assert.same({ field, "left out" }, { said.name, said.value })
    end
  end)

  it("loads every shipped model", function()
    for _, name in ipairs(catalogue.list "models") do assert.equal(name, tperf.model(name).name) end
  end)

  it("lets encoders attend to all tokens, decoders to earlier ones", function()
    local checked = 0
    local encoders = { ["vit-22b"] = true, ["subramanian2024/vit_era5"] = true, -- vision transformers
      ["vit-large-16"] = true, ["bert-large"] = true, ["dit-xl-2"] = true }
    for _, name in ipairs(catalogue.list "models") do
      local m = tperf.model(name)
      assert.equal(not encoders[name], m.causal, name)
      local described = m.heads and m.mla == nil and not m.architecture -- whose layers are not all attention
      for _, one in ipairs(described and tperf.layer { model = m, system = "h100-sxm" } or {}) do
        if one.name == "attention" and not m.window then -- 2 d - 1 for Q K'; 2 for each pair and value, less a row
          local whole = encoders[name] or m.encoder_stack -- an encoder's layers come first
          local pairs_seen = whole and m.seq ^ 2 or m.seq * (m.seq + 1) / 2
          local flops = m.heads * (pairs_seen * (2 * m.head_dim - 1) + m.head_dim * (2 * pairs_seen - m.seq))
          assert.near(1, one.forward.tensor_flops / flops, 1e-12, name)
          checked = checked + 1
        end
      end
    end
    assert.is_true(checked >= 20)
  end)

  local bad = {
    { with { layers = 0 }, "'layers' must be an integer from 1 to 65536, got 0" },
    { with { layers = -1 }, "got -1" }, { with { layers = 0 / 0 }, "got nan" }, { with { layers = 1 / 0 }, "got inf" },
    { with { seq = 3000.5 }, "got 3000.5" }, { with { hidden = (1 << 31) + 1 }, "got 2147483649" },
    { with { hidden = "7680" }, "got \"7680\"" }, { with { heads = 7681 }, "'heads' (7681) does not divide 'hidden'" },
    { with { kv_heads = 7 }, "'kv_heads' (7) must divide 'heads' (60)" },
    { with { kv_heads = 120 }, "'kv_heads' (120) must divide" },
    { with { gated = 1 }, "'gated' must be true or false, got 1" },
    { with { norm = "rms" }, "must be one of layernorm, rmsnorm, got \"rms\" (did you mean 'rmsnorm'?)" },
    { with { hiden = 3 }, "unknown field 'hiden' (did you mean 'hidden'?)" },
    { with { name = "" }, "'name' must be a string" }, { { name = "x" }, "'hidden' is missing" },
    { 3, "tperf.model needs a name, a path or a table, got 3" }, { "lama-2-7b", "did you mean 'llama-2-7b'?" },
  }
  for _, case in ipairs(bad) do
    it("refuses: " .. case[2], function()
      local message = refusal(case[1])
      assert.truthy(message:find("^spec/model_spec.lua:%d+: tperf.model"), message)
      assert.truthy(message:find(case[2], 1, true), message)
    end)
  end
end)
