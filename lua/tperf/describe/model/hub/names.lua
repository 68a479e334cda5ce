--- What the name of a checkpoint on the Hugging Face Hub, or in a launch file, says: the model of models/ that has its
--- sizes, and how its weights are stored.
local catalogue = require "tperf.base.catalogue"
local gguf = require "tperf.describe.gguf"
local roots = require "tperf.base.roots"

local names = {}

-- Names that publishers have for the models of models/, unless they are similar anyway: renames, and fine-tunes that
-- keep all sizes. Marks of versions and of formats are gone from them (see below).
local CALLED <const> = {
  ["llama3-8b"] = "llama-3.1-8b", ["llama3-70b"] = "llama-3.1-70b", ["llama3-405b"] = "llama-3.1-405b",
  ["deepseek-v3-671b"] = "deepseek-v3", ["llama4-17bx128e"] = "llama-4-maverick", ["llama31-405b"] = "llama-3.1-405b",
  ["llama3-1-405b"] = "llama-3.1-405b", ["gpt3"] = "gpt3-175b", ["deepseek-r1"] = "deepseek-v3",
  ["llama-3-3-70b"] = "llama-3.1-70b", ["llama-4-maverick-17b-128e"] = "llama-4-maverick",
  ["llama-4-scout-17b-16e"] = "llama-4-scout", ["kimi-k2-5"] = "kimi-k2", ["kimi-k2-6"] = "kimi-k2",
  ["kimi-k2-7-code"] = "kimi-k2", ["minimax-m2-1"] = "minimax-m2", ["minimax-m2-5"] = "minimax-m2",
  ["minimax-m2-7"] = "minimax-m2", ["glm-4-7"] = "glm-4.6", ["glm-5-1"] = "glm-5", ["deepseek-v3-1"] = "deepseek-v3",
  ["deepseek-v3-1-terminus"] = "deepseek-v3", ["deepseek-v3-2-exp"] = "deepseek-v3.2",
  ["deepseek-v3-2-speciale"] = "deepseek-v3.2", ["deepseek-v2-5"] = "deepseek-v2",
  ["deepseek-coder-v2"] = "deepseek-v2", ["deepseek-coder-v2-lite"] = "deepseek-v2-lite",
  ["deepseek-r1-distill-llama-8b"] = "llama-3.1-8b", ["deepseek-r1-distill-llama-70b"] = "llama-3.1-70b",
  ["deepseek-r1-distill-qwen-7b"] = "qwen2.5-7b", ["deepseek-r1-distill-qwen-14b"] = "qwen2.5-14b",
  ["deepseek-r1-7b"] = "qwen2.5-7b", ["deepseek-r1-14b"] = "qwen2.5-14b", ["deepseek-r1-32b"] = "qwen2.5-32b",
  ["deepseek-r1-70b"] = "llama-3.1-70b", -- tags of Ollama
  ["deepseek-r1-distill-qwen-32b"] = "qwen2.5-32b", ["deepseek-r1-0528-qwen3-8b"] = "qwen3-8b",
  ["llama-3-1-tulu-3-8b-dpo"] = "llama-3.1-8b",
  ["qwq-32b"] = "qwen2.5-32b", ["qwen2-5-coder-7b"] = "qwen2.5-7b", ["qwen2-5-coder-14b"] = "qwen2.5-14b",
  ["qwen2-5-coder-32b"] = "qwen2.5-32b", ["qwen3-coder-30b-a3b"] = "qwen3-30b-a3b",
  ["qwen2-0-5b"] = "qwen2.5-0.5b", ["qwen2-1-5b"] = "qwen2.5-1.5b", ["qwen2-7b"] = "qwen2.5-7b",
  ["qwen2-72b"] = "qwen2.5-72b", ["qwen2-5-coder-0-5b"] = "qwen2.5-0.5b", ["qwen2-5-coder-1-5b"] = "qwen2.5-1.5b",
  ["qwen2-5-coder-3b"] = "qwen2.5-3b", ["qwen3guard-gen-0-6b"] = "qwen3-0.6b", ["qwen3guard-gen-4b"] = "qwen3-4b",
  ["qwen3guard-gen-8b"] = "qwen3-8b",
  ["hermes-3-llama-3-1-8b"] = "llama-3.1-8b", ["hermes-3-llama-3-1-70b"] = "llama-3.1-70b",
  ["hermes-3-llama-3-1-405b"] = "llama-3.1-405b", ["llama-3-1-nemotron-70b"] = "llama-3.1-70b",
  ["llama-3-1-tulu-3-8b"] = "llama-3.1-8b", ["llama-3-1-tulu-3-70b"] = "llama-3.1-70b",
  ["vicuna-7b"] = "llama-2-7b", ["vicuna-13b"] = "llama-2-13b",
  ["mistral-large"] = "mistral-large-123b", ["mistral-nemo"] = "mistral-nemo-12b",
  ["mistral-small-3-1-24b"] = "mistral-small-24b", ["mistral-small-3-2-24b"] = "mistral-small-24b",
  ["magistral-small"] = "mistral-small-24b", ["devstral-small"] = "mistral-small-24b",
  ["c4ai-command-r-plus"] = "command-r-plus", ["nvidia-nemotron-3-nano-30b-a3b"] = "nemotron-3-nano-30b-a3b",
  ["nvidia-nemotron-3-super-120b-a12b"] = "nemotron-3-super-120b-a12b",
  ["qwen3-5-27b"] = "qwen3.8-27b", ["qwen3-6-27b"] = "qwen3.8-27b", ["qwen3-5-35b-a3b"] = "qwen3.6-35b-a3b",
  ["c4ai-command-r7b-12"] = "command-r7b", ["tinyllama"] = "tinyllama-1.1b", ["llama-7b"] = "llama-2-7b",
  ["llama-13b"] = "llama-2-13b", ["redpajama-incite-chat-3b"] = "redpajama-incite-3b",
  ["pythia-12b-deduped"] = "pythia-12b", ["pythia-1-4b-deduped"] = "pythia-1.4b", ["pythia-1b-deduped"] = "pythia-1b",
  ["pythia-1b-deduped-tldr-sft"] = "pythia-1b", ["xgen-7b-8k"] = "xgen-7b", ["mimo-7b-rl"] = "mimo-7b",
  ["mimo-7b-sft"] = "mimo-7b", ["olmo-3-7b-instruct-sft"] = "olmo-3-7b", ["orpheus-3b-0-1-pretrained"] = "orpheus-3b",
  ["plano-orchestrator-4b"] = "qwen3-4b", ["smolvlm"] = "smolvlm-2.2b", ["glm-4-6v-flash"] = "glm-4.1v-9b",
  ["glm-4-6v"] = "glm-4.5v", ["ministral-3-3b-reasoning"] = "ministral-3-3b",
  ["ministral-3-8b-reasoning"] = "ministral-3-8b", ["ministral-3-14b-reasoning"] = "ministral-3-14b",
  ["llava-v1-6-mistral-7b"] = "llava-1.6-mistral-7b", ["translategemma-27b"] = "gemma-3-27b",
  ["translategemma-4b"] = "gemma-3-4b", ["deepcoder-14b"] = "qwen2.5-14b",
  ["cogito-v1-preview-llama-3b"] = "llama-3.2-3b", ["cogito-v1-preview-qwen-14b"] = "qwen2.5-14b",
  ["gpt-oss-safeguard-20b"] = "gpt-oss-20b", ["gpt-oss-120b-dequantized"] = "gpt-oss-120b",
  ["phi-3-5-mini"] = "phi-3-mini", ["qwen2-5-math-7b"] = "qwen2.5-7b", ["qwen2-5-math-1-5b"] = "qwen2.5-1.5b",
  ["dbrx-base-converted"] = "dbrx", ["qwen1-5-1-8b-sft"] = "qwen1.5-1.8b", ["ai21-jamba-1-5-large"] = "jamba-1.5-large",
  ["nvidia-nemotron-3-ultra-550b-a55b"] = "nemotron-3-ultra-550b-a55b",
  ["nvidia-nemotron-nano-9b-v2"] = "nemotron-nano-9b-v2", ["ernie-4-5-21b-a3b-pt"] = "ernie-4.5-21b-a3b",
  ["phi-4-mini-reasoning"] = "phi-4-mini", ["phi-4-reasoning"] = "phi-4",
  ["llama-4-scout-17b-16e-linearized-bnb-nf4"] = "llama-4-scout",
  ["llama-4-maverick-17b-128e-linearized-bnb-nf4"] = "llama-4-maverick", ["deepseek-v2-5-bnb-nf4"] = "deepseek-v2",
  ["llama-3-1-405b-bnb-nf4"] = "llama-3.1-405b", ["qwen35-vl-35b-a3b"] = "qwen3.6-35b-a3b",
  ["qwen35-vl-122b-a10b"] = "qwen3.5-122b-a10b", ["qwen35-vl-397b-a17b"] = "qwen3.5-397b-a17b",
  ["nemotron-3-super"] = "nemotron-3-super-120b-a12b",
  ["nemotron-3-nano"] = "nemotron-3-nano-30b-a3b", ["nemotron-3-ultra"] = "nemotron-3-ultra-550b-a55b",
  ["nemotronh-56b"] = "nemotron-h-56b", ["skywork-reward-v2-qwen3-8b"] = "qwen3-8b",
  ["phi-3-mini-4k"] = "phi-3-mini", ["phi-3-mini-128k"] = "phi-3-mini",
  ["phi-4-reasoning-plus"] = "phi-4", ["qwen3-coder-next"] = "qwen3-next-80b-a3b",
  ["deepseek-math-v2"] = "deepseek-v3.2",
  ["macaron-v1-coding-venti"] = "glm-5.2", ["glyph"] = "glm-4.1v-9b", ["lfm2-5-1-2b"] = "lfm2-1.2b",
  ["lfm2-5-1-2b-jp"] = "lfm2-1.2b",
  ["lfm2-5-350m"] = "lfm2-350m", ["ling-1t"] = "ring-1t", ["ernie-4-5-300b-a47b-pt"] = "ernie-4.5-300b-a47b",
  ["nvidia-nemotron-3-5-lightning-30b-a3b"] = "nemotron-3.5-lightning-30b-a3b",
}

-- How published checkpoints say that their weights have fewer bits, wherever it stands in a name, as quantization
-- methods of engines; of several that fit, the first counts. Marks of 8 and 4 bits for weights alone are those of GPTQ.
-- "unknown": the name settles no method. A third word is the format, where it is not the method's.
local STORED <const> = {
  { "w%-mxfp4%-a%-fp8", "modelopt_fp4", "mxfp4" }, { "nvfp4%-fp8", "unknown" }, { "fp8%-nvfp4", "unknown" },
  { "fp8%-dynamic", "fp8" }, { "fp8%-kv", "fp8" }, { "fp8%-block", "fp8" }, { "mxfp8", "fp8", "mxfp8" },
  { "fp8", "fp8" },
  { "nvfp4a16", "modelopt_fp4" }, { "nvfp4", "modelopt_fp4" }, { "mxfp4", "modelopt_fp4", "mxfp4" },
  { "fp4", "modelopt_fp4" },
  { "awq%-int8", "gptq_int8" }, { "awq%-8bit", "gptq_int8" }, { "int8%-awq", "gptq_int8" },
  { "awq%-int4", "awq" }, { "awq%-4bit", "awq" }, { "int4%-awq", "awq" }, { "4bit%-awq", "awq" }, { "awq", "awq" },
  { "int4%-autoround", "gptq" }, { "autoround%-int4", "gptq" }, { "int8%-autoround", "gptq_int8" },
  { "gptq%-int4", "gptq" }, { "int4%-gptq", "gptq" }, { "gptq%-int8", "gptq_int8" }, { "gptq%-8bit", "gptq_int8" },
  { "gptq%-4bit", "gptq" }, { "gptq%-int3", "unknown" }, { "gptq%-3bit", "unknown" }, { "gptq", "gptq" },
  { "bnb%-4bit", "gptq" }, { "bnb%-8bit", "w8a8_int8" },
  { "quantized%-w4a16", "gptq" }, { "w4a16%-g128", "gptq" }, { "w4a16", "gptq" }, { "w8a16", "gptq_int8" },
  { "quantized%-w8a16", "gptq_int8" }, { "quantized%-w8a8", "w8a8_int8" }, { "w8a8", "w8a8_int8" },
  { "w4afp8", "unknown" }, { "w4a8", "unknown" }, { "int4", "gptq" }, { "int8", "w8a8_int8" },
  { "autoround", "unknown" }, { "mlx%-4bit", "unknown", "mlx4" }, { "mlx%-8bit", "unknown", "mlx8" },
  { "4bit", "unknown" },
  { "8bit", "unknown" }, { "6bit", "unknown" }, { "5bit", "unknown" }, { "3bit", "unknown" }, { "2bit", "unknown" },
  { "ud%-i?q%d%-[%w%-]*", "unknown" }, { "i?q%d%-[%w%-]*", "unknown" }, { "gguf", "unknown" },
  { "exl[23]", "unknown" }, { "aqlm", "unknown" },
  { "hqq", "unknown" }, { "eetq", "unknown" }, { "quip", "unknown" }, { "vptq", "unknown" }, { "int3", "unknown" },
  { "bf16", "bf16" }, { "fp16", "bf16" },
}

-- Checkpoints whose publisher stores them so, whatever the name says: experts in integers of 4 bits, or in fp8.
local PUBLISHED <const> = { ["kimi-k2-5"] = "gptq", ["kimi-k2-6"] = "gptq", ["kimi-k2-thinking"] = "gptq",
  ["kimi-k2-7-code"] = "gptq", ["ministral-3-14b-instruct"] = "fp8", ["ministral-3-8b-instruct"] = "fp8",
  ["ministral-3-3b-instruct"] = "fp8" }

-- Marks of fine-tuned or dated versions, which have the same sizes.
local VERSIONS <const> = { "hf", "instruct", "chat", "it", "base", "thinking", "original", "preview", "quantized",
  "%d%d%d%d", "%d%d%d%d%d%d", "v0%-%d", "v%d", "v%d%-%d" }

local function plain(name) return (roots.last(name):lower():gsub("[^%w]+", "-"):gsub("%-$", "")) end

local function known(name)
  if CALLED[name] then return CALLED[name] end
  for _, one in ipairs(catalogue.list "models") do
    if plain(one) == name then return one end
  end
  return nil
end

-- The name without one mark of a list at its end, and the mark; nil: it has none.
local function without(name, marks)
  for _, mark in ipairs(marks) do
    local stem = name:match("^(.+)%-" .. (type(mark) == "table" and mark[1] or mark) .. "$")
    if stem then return stem, mark end
  end
end

-- The name without one mark of formats, wherever it stands but at the start, and the mark.
local function unmarked(name)
  local stem, mark = without(name, STORED)
  if stem then return stem, mark end
  for _, one in ipairs(STORED) do
    local before, after = name:match("^(.+)%-" .. one[1] .. "(%-.+)$")
    if before then return before .. after, one end
  end
end

-- Calls test(name) for a checkpoint's name, and for what is left of it without one mark after the other, until it
-- returns something.
local function first(name, test)
  if type(name) ~= "string" then return nil end
  name = plain(name):gsub("^meta%-", "")
  while name do
    local found = test(name)
    if found then return found end
    name = unmarked(name) or without(name, VERSIONS)
  end
  return nil
end

--- The model of models/ that a name refers to, or nil.
---@param name string?
---@param size string?
---@return string?
function names.model(name, size)
  return first(type(name) == "string" and size and name .. "-" .. size or name, known)
end

--- How the weights of a checkpoint are stored, by its name, as an engine's quantization method ("unknown": the name
--- says that they are in fewer bits, but not in which); nil: the name says nothing.
---@param name string?
---@return string?
function names.quantization(name)
  return first(name, function(stem)
    local _, mark = unmarked(stem)
    return mark and mark[2] or PUBLISHED[stem]
  end)
end

--- The same, but a format of weights where that is not the method's: "mxfp4", "mlx4", "mlx8".
function names.format(name)
  return first(name, function(stem)
    local _, mark = unmarked(stem)
    return mark and (mark[3] or mark[2]) or PUBLISHED[stem]
  end)
end

--- The mix of llama.cpp's that a name ends in ("…-GGUF:Q4_K_M"), as tperf.describe.gguf has it; nil: none.
---@param name string?
---@return string?
function names.mix(name)
  local mark = type(name) == "string" and name:lower():gsub("%.gguf$", ""):match "[:%-%._/](i?q%d_[%w_]+)$"
  return mark and gguf.is(mark) and mark or nil
end

return names
