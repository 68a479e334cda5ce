--- torchtitan's flavors of the models in models/: what a name and a flavor in its files mean, and which of them, if
-- any, is a given model (torchtitan/models/*/__init__.py of v0.2.2, 2026-02-20).
local models = require "tperf.base.catalogue".shared(require "tperf.describe.model")

local flavors = {}

-- The smallest flavors, with which torchtitan tries its features (models/*/__init__.py of b5bcd76c, 2026-08-21).
local LLAMA <const> = { name = "torchtitan's llama3 debugmodel", layers = 6, hidden = 256, heads = 16, ffn = 768,
  vocab = 2048, gated = true, activation = "silu", norm = "rmsnorm", tied_embeddings = false, seq = 2048 }
local QWEN <const> = { name = "torchtitan's qwen3 debugmodel", layers = 8, hidden = 256, heads = 16, kv_heads = 8,
  head_dim = 128, ffn = 3072, vocab = 2048, gated = true, activation = "silu", norm = "rmsnorm", qk_norm = true,
  tied_embeddings = true, seq = 2048 }

local QWEN_EXPERTS <const> = { name = "torchtitan's qwen3 debugmodel_moe", layers = 8, hidden = 256, heads = 16,
  kv_heads = 8, head_dim = 128, experts = { count = 64, top_k = 8, ffn = 768 }, vocab = 2048, gated = true,
  activation = "silu", norm = "rmsnorm", qk_norm = true, tied_embeddings = false, seq = 4096 }
local DEEPSEEK <const> = { name = "torchtitan's deepseek_v3 debugmodel", layers = 6, hidden = 256, heads = 16,
  ffn = 1024, vocab = 2048, mla = { kv_rank = 512, nope_dim = 128, rope_dim = 64, v_dim = 128 },
  experts = { count = 8, top_k = 3, ffn = 256, shared = 2, dense_layers = 1 }, gated = true, activation = "silu",
  norm = "rmsnorm", tied_embeddings = false, seq = 16384 }
local QWEN35 <const> = { name = "torchtitan's qwen3_5 debugmodel", layers = 8, mixers = "DDD*", hidden = 256, heads = 4,
  kv_heads = 2, head_dim = 64, ffn = 512, vocab = 248320, gated = true, activation = "silu", norm = "rmsnorm",
  qk_norm = true, attention_gate = true, positions = "rotary", tied_embeddings = false, seq = 4096,
  delta = { heads = 2, value_heads = 4, key_dim = 64, value_dim = 64 } }
local QWEN35_EXPERTS <const> = { name = "torchtitan's qwen3_5 debugmodel_moe", layers = 4, mixers = "DDD*",
  hidden = 256, heads = 4, kv_heads = 2, head_dim = 64, vocab = 248320, gated = true, activation = "silu",
  norm = "rmsnorm", qk_norm = true, attention_gate = true, positions = "rotary", tied_embeddings = false, seq = 4096,
  delta = { heads = 2, value_heads = 4, key_dim = 64, value_dim = 64 },
  experts = { count = 8, top_k = 2, ffn = 256, shared = 1, shared_gate = true } }
local MUSE <const> = { name = "torchtitan's muse_glimmer debugmodel", layers = 8, hidden = 256, heads = 4,
  kv_heads = 2, head_dim = 64, ffn = 768, vocab = 2048, gated = true, activation = "silu", norm = "rmsnorm",
  norms_per_layer = 4, qk_norm = "plain", attention_gate = true, positions = "rotary", tied_embeddings = false,
  window = { size = 128, pattern = "wwwf" }, seq = 4096 }
local GPT_OSS <const> = { name = "torchtitan's gpt_oss debugmodel", layers = 4, hidden = 256, vocab = 2048,
  experts = { count = 8 } }

-- Its Qwen3.5 has no modules of multi-token prediction, and a head of its own.
local PLAIN <const>, UNTIED <const> = { mtp = 0 }, { mtp = 0, tied_embeddings = false }

-- { torchtitan's model, its flavor, the model of models/ or a description, what is different of it }. Flavors without
-- "_irope" attend to the whole sequence in every layer.
local ALL <const> = {
  { "llama3", "debugmodel", LLAMA }, { "qwen3", "debugmodel", QWEN }, { "qwen3", "debugmodel_moe", QWEN_EXPERTS },
  { "deepseek_v3", "debugmodel", DEEPSEEK }, { "gpt_oss", "debugmodel", "gpt-oss-20b", GPT_OSS },
  { "qwen3_5", "debugmodel", QWEN35 }, { "qwen3_5", "debugmodel_moe", QWEN35_EXPERTS },
  { "muse_glimmer", "debugmodel", MUSE }, { "muse_glimmer", "30B", "muse-glimmer-30b" },
  { "llama3", "8B", "llama-3.1-8b" }, { "llama3", "70B", "llama-3.1-70b" }, { "llama3", "405B", "llama-3.1-405b" },
  { "llama4", "17bx16e_irope", "llama-4-scout" }, { "llama4", "17bx128e_irope", "llama-4-maverick" },
  { "llama4", "17bx16e", "llama-4-scout", { window = { size = 10485760 } } },
  { "llama4", "17bx128e", "llama-4-maverick", { window = { size = 1048576 } } },
  { "deepseek_v3", "16B", "deepseek-v2-lite" }, { "deepseek_v3", "236B", "deepseek-v2" },
  { "deepseek_v3", "671B", "deepseek-v3", { mtp = 0 } },
  { "qwen3_5", "0.8B", "qwen3.5-0.8b", UNTIED }, { "qwen3_5", "2B", "qwen3.5-2b", UNTIED },
  { "qwen3_5", "4B", "qwen3.5-4b", UNTIED }, { "qwen3_5", "9B", "qwen3.5-9b", PLAIN },
  { "qwen3_5", "27B", "qwen3.8-27b", PLAIN }, { "qwen3_5", "35B-A3B", "qwen3.6-35b-a3b", PLAIN },
  { "qwen3_5", "122B-A10B", "qwen3.5-122b-a10b", PLAIN }, { "qwen3_5", "397B-A17B", "qwen3.5-397b-a17b", PLAIN },
  { "qwen3", "0.6B", "qwen3-0.6b" }, { "qwen3", "1.7B", "qwen3-1.7b" },
  { "qwen3", "4B", "qwen3-4b" }, { "qwen3", "8B", "qwen3-8b" },
  { "qwen3", "14B", "qwen3-14b" }, { "qwen3", "32B", "qwen3-32b" }, { "qwen3", "30B-A3B", "qwen3-30b-a3b" },
  { "qwen3", "235B-A22B", "qwen3-235b-a22b" },
  { "gpt_oss", "20b", "gpt-oss-20b" }, { "gpt_oss", "120b", "gpt-oss-120b" },
}

--- The model that a file names: its name, or if something is different a model; nil if it is none of them.
---@param name string?
---@param flavor string?
---@return string|table|nil model
function flavors.model(name, flavor)
  for _, one in ipairs(ALL) do
    if one[1] == name and one[2] == flavor then
      local own = type(one[3]) == "table" and models(one[3]) or one[3]
      return one[4] and models(own):with(one[4]) or own
    end
  end
end

-- What is not of the architecture.
local OTHER <const> = { name = true, source = true, family = true, seq = true, context = true, unbounded = true,
  training_tokens = true, packing = true, stored = true, rotary = true }

-- Whether two values are alike; fields of a description that are absent count as their defaults.
local function alike(a, b, top)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for _, pair in ipairs { { a, b }, { b, a } } do
    for key, value in pairs(pair[1]) do
      if not (top and OTHER[key]) and not alike(value, pair[2][key]) then return false end
    end
  end
  return true
end

--- The name and the flavor of a model; nil if torchtitan has none that is the same.
---@param model table
---@return string? name, string? flavor
function flavors.of(model)
  for _, one in ipairs(ALL) do
    if alike(models(flavors.model(one[1], one[2])), model, true) then return one[1], one[2] end
  end
end

return flavors
