-- The published solver's layer is GPT-3's: under its rules, a model with any other feature is refused by name in every
-- question, never treated as a GPT of the same size.
local tperf = require "tperf"

local plain = { name = "plain", layers = 8, hidden = 4096, heads = 32, seq = 2048, vocab = 50000 }
local RULES <const> = "subramanian2024"

local questions = {
  search = function(m)
    return tperf.search { model = m, system = "h100-sxm", gpus = 8, global_batch = 8, rules = RULES }
  end,
  train = function(m)
    return tperf.train { model = m, system = "h100-sxm", global_batch = 8, tp = 8, rules = RULES }
  end,
  layer = function(m) return tperf.layer { model = m, system = "h100-sxm", tp = 8, rules = RULES } end,
}

local function refusal(question, model)
  local ok, message = pcall(questions[question], model)
  assert.is_false(ok, question)
  assert.matches("^spec/published_layer_spec.lua:%d+: ", message)
  assert.truthy(message:find("rules 'subramanian2024' only know GPT-3's layer", 1, true), message)
  return message
end

local own = tperf.architecture {
  name = "mine", layer = { tperf.block("one", function(m, p)
    return { p:column { name = "a", n_in = m.hidden, n_out = m.hidden } }
  end) },
}

describe("the rules of the published model", function()
  it("take a layer of GPT-3", function()
    for name, question in pairs(questions) do assert.is_table(question(plain), name) end
    for _, name in ipairs { "gpt3-175b", "opt-175b", "bloom-176b", "megatron-530b", "subramanian2024/vit_era5" } do
      assert.is_table(questions.layer(name), name)
    end
  end)

  it("refuse further features of a model, by name", function()
    local beyond = {
      { { architecture = own }, "an architecture of its own" },
      { { experts = { count = 8, top_k = 2, ffn = 1024 } }, "experts" },
      { { mla = { kv_rank = 512, nope_dim = 128, rope_dim = 64, v_dim = 128 } }, "latent attention (mla)" },
      { { mamba = { state = 128, heads = 64, head_dim = 128 } }, "Mamba layers (mamba)" },
      { { kv_heads = 8 }, "kv_heads = 8 of 32 heads" },
      { { head_dim = 64 }, "head_dim = 64 where hidden / heads is 128" },
      { { gated = true, ffn = 16384 }, "a gated MLP (gated)" },
      { { window = { size = 128 } }, "attention to a window of tokens (window)" },
      { { parallel_block = true }, "attention and MLP side by side (parallel_block)" },
      { { layer_pattern = "*-*-*-*-" }, "layers that differ (layer_pattern)" },
    }
    for question in pairs(questions) do
      for _, case in ipairs(beyond) do
        local message = refusal(question, tperf.model(plain):with(case[1]))
        local expected = "cannot describe what 'plain' has: " .. case[2] .. "; use the rules 'default'"
        assert.truthy(message:find(expected, 1, true), message)
      end
    end
  end)

  it("name all such features of the shipped models", function()
    local expected = {
      ["mixtral-8x7b"] = "experts, kv_heads = 8 of 32 heads, a gated MLP (gated);",
      ["mamba2-2.7b"] = "Mamba layers (mamba);",
      ["deepseek-v3"] = "experts, latent attention (mla), a gated MLP (gated);",
      ["qwen3-30b-a3b"] =
        "experts, kv_heads = 4 of 32 heads, head_dim = 128 where hidden / heads is 64, a gated MLP (gated);",
      ["llama-3.1-8b"] = "kv_heads = 8 of 32 heads, a gated MLP (gated);",
    }
    for name, text in pairs(expected) do
      for question in pairs(questions) do
        local message = refusal(question, name)
        assert.truthy(message:find(("what '%s' has: %s"):format(name, text), 1, true), message)
      end
    end
  end)
end)
