-- The models in models/*.yaml against published figures.
local tperf = require "tperf"

-- name, total, active (nil: the total), tolerance of the published figure (nil: exact). Exact ones are the sizes of
-- the published checkpoints, from safetensors totals or public model tables; rounded ones are from the papers and
-- model cards named as each file's source.
local published = {
  { "gpt2", 124439808 },
  { "gpt3-175b", 175e9, nil, 0.005 },
  { "llama-2-7b", 6738415616 },
  { "llama-2-70b", 68976648192 },
  { "llama-3-8b", 8030261248 },
  { "llama-3-70b", 70553706496 },
  { "llama-3.1-8b", 8030261248 },
  { "llama-3.1-70b", 70553706496 },
  { "llama-3.1-405b", 405853388800 },
  { "codellama-34b", 33743970304 },
  { "yi-34b", 34388917248 },
  { "mistral-7b", 7241732096 },
  { "mixtral-8x7b", 46702792704, 12879925248 },
  { "mixtral-8x22b", 141e9, 39e9, 0.005 },
  { "deepseek-v2", 235741434880, 21e9, 0.02 },
  { "deepseek-v3", 671e9, 37e9, 0.02 },
  { "kimi-k2", 1.04e12, 32e9, 0.03 }, -- the paper counts 1.04T and 32.6B
  { "moonlight-16b-a3b", 15.29e9 + 2 * 163840 * 2048, 2.24e9 + 2 * 163840 * 2048, 0.002 }, -- without tables
  { "qwen2.5-7b", 7615616512 },
  { "qwen2.5-32b", 32763876352 },
  { "qwen2.5-72b", 72706203648 },
  { "qwen3-32b", 32.8e9, nil, 0.002 },
  { "qwen3-30b-a3b", 30532122624, 3.35e9, 0.005 }, -- the card's 3.3B
  { "qwen3-235b-a22b", 235093634560, 22e9, 0.01 },
  { "llama-4-maverick", 400e9, 17e9, 0.015 },
  { "gpt-oss-120b", 116829156672, 5.71e9, 0.001 }, -- the card's 5.13B leaves the input table out; see below
  { "gpt-oss-20b", 20914757184, 3.61e9 + 201088 * 2880, 0.001 },
  { "nemotron-3-nano-30b-a3b", 31.6e9, 3.6e9, 0.01 },
  { "gemma-2-27b", 27227128320 },
  { "falcon-180b", 179522565120 - 65024 * 14848 }, -- the files store the tied table twice
  { "bloom-176b", 176247271424 },
  { "opt-175b", 175e9, nil, 0.005 },
  { "palm-540b", 540.35e9, nil, 1e-4 },
  { "megatron-530b", 529.6e9, nil, 1e-4 }, -- arXiv 2104.04473, table 1
  { "mamba2-2.7b", 2.7e9, nil, 0.002 },
  { "vit-22b", 21743e6, nil, 0.001 },
  { "vit-large-16", 304326632 },
  { "bert-large", 336226108 },
  { "dit-xl-2", 675129632 },
  { "t5-large", 737668096 },
  { "t5-11b", 11307321344 },
  { "flan-t5-xxl", 11135332352 },
  { "gemma-3-12b", 12187325040 - 416866032 - 1152 * 3840 - 1152 },
  { "gemma-3-27b", 27432406640 - 416866032 - 1152 * 5376 - 1152 },
  { "glm-4.5", 358337791296 - 5539962272, 32e9, 0.06 }, -- without the module and its tables; the card's 355B-A32B
  { "glm-4.5-air", 110468824832 - 3616573568, 12e9, 0.12 }, -- likewise; the card's 106B-A12B
  { "glm-4.6", 358337791296 - 5539962272, 32e9, 0.06 },
  { "minimax-m2", 228689764864, 10e9, 0.12 },
  { "deepseek-v3.2", 671877944064, 37e9, 0.04 },
  { "jamba-v0.1", 52e9, 12e9, 0.01 },
  { "mamba-2.8b", 2768345600 },
  { "nemotron-h-8b", 8.1e9, nil, 0.001 },
  { "nemotron-h-56b", 56.3e9, nil, 0.001 },
  { "nemotron-3-super-120b-a12b", 120.6e9, 12.7e9, 0.01 }, -- the report's 120.6B and 12.7B
  { "qwen3-next-80b-a3b", 81324862720 - 1650471424, 3.9e9, 0.01 },
  { "qwen3.6-35b-a3b", 35951822704 - 446571248 - 844640768, 3.45e9, 0.01 },
  { "qwen3.5-397b-a17b", 396346350336, 17e9, 0.03 },
  { "glm-5", 744e9, 40e9, 0.05 }, -- the report's 744B and 40B; the tables are 1.9B of our active parameters
  { "qwen3.8-27b", 27781427952 - 460730096 - 424699392 },
  -- by hand, as the sum for qwen3.8-27b gives its checkpoint's
  { "qwen3.5-4b", 4205751296 }, { "qwen3.5-9b", 8953803264 },
  { "bloom-7b1", 7069016064 },
  { "command-r-plus", 103810674688 },
  { "dbrx", 131596523520, 36e9, 0.02 },
  { "deepseek-67b", 67.4e9, nil, 0.001 },
  { "deepseek-v2-lite", 15706484224, 2.7e9, 0.02 },
  { "falcon-7b", 6921720704 },
  { "falcon-40b", 41303293952 },
  { "gemma-2-9b", 9241705984 },
  { "glm-4-9b", 9399951360 },
  { "gpt-j-6b", 6050882784 },
  { "gpt-neox-20b", 20554567680 },
  { "grok-1", 314e9, 86e9, 0.03 }, -- a quarter of the weights, with attention's, for a token
  { "llama-2-13b", 13015864320 },
  { "llama-3.2-1b", 1235814400 },
  { "llama-3.2-3b", 3212749824 },
  { "llama-4-scout", 107769861120, 17e9, 0.015 },
  { "mistral-large-123b", 122610069504 },
  { "mistral-nemo-12b", 12247782400 },
  { "mistral-small-24b", 23572403200 },
  { "nemotron-4-15b", 15.6e9, nil, 0.005 },
  { "nemotron-4-340b", 341e9, nil, 0.002 },
  { "olmoe-1b-7b", 6919161856, 1.3e9, 0.02 },
  { "opt-125m", 125239296 },
  { "opt-6.7b", 6658473984 },
  { "opt-13b", 12853473280 },
  { "opt-30b", 30e9, nil, 0.002 },
  { "opt-66b", 65719701504 },
  { "phi-3-mini", 3821079552 },
  { "phi-4", 14659507200 },
  { "qwen2-57b-a14b", 57.4e9, 14e9, 0.02 },
  { "qwen2.5-0.5b", 494032768 },
  { "qwen2.5-1.5b", 1543714304 },
  { "qwen2.5-3b", 3085938688 },
  { "qwen2.5-14b", 14770033664 },
  { "qwen3-0.6b", 596049920 },
  { "qwen3-1.7b", 1720574976 },
  { "qwen3-4b", 4022468096 },
  { "qwen3-8b", 8190735360 },
  { "qwen3-14b", 14768307200 },
  { "qwen3-coder-480b-a35b", 480154875392, 35e9, 0.02 },
  { "cerebras-gpt-1.3b", 1.3e9, nil, 0.015 },
  { "codellama-7b", 6738546688 },
  { "codellama-13b", 13016028160 },
  { "deepseek-r1-distill-qwen-1.5b", 1777088000 },
  { "deepseek-v4-flash", 284e9, 13e9, 0.07 },
  { "deepseek-v4-pro", 1.6e12, 49e9, 0.02 },
  { "falcon-h1-7b", 7.59e9, nil, 0.001 },
  { "falcon-h1-34b", 33.6e9, nil, 0.002 },
  { "gemma-2-2b", 2614341888 },
  { "gemma-3-270m", 268098176 },
  { "gemma-3-4b", 4300079472 - 416866032 - 1152 * 2560 - 1152 },
  { "glm-4-32b", 32.6e9, nil, 0.002 },
  { "glm-5.2", 744e9, 40e9, 0.05 },
  { "internvl3-8b", 7944373760 - 331552768 },
  { "internvl3.5-8b", 8528318464 - 337583104 },
  { "internvl3.5-30b-a3b", 30.8e9 - 316607488, 3.35e9, 0.005 },
  { "jamba-1.5-large", 398e9, 94e9, 0.002 },
  { "llava-1.5-7b", 7063427072 - 324487168 },
  { "llava-1.6-mistral-7b", 7566747648 - 324491264 },
  { "ministral-3-8b", 8.4e9, nil, 0.02 },
  { "ministral-3-14b", 13.5e9, nil, 0.001 },
  { "mpt-7b", 6649286656 },
  { "nemotron-3-ultra-550b-a55b", 550e9, 55e9, 0.02 },
  { "nemotron-mini-4b", 4.19e9, nil, 0.001 },
  { "open-llama-3b", 3426473600 },
  { "orpheus-3b", 3.78e9 - 156940 * 3072, nil, 0.001 }, -- its files store the tied table twice
  { "phi-1.5", 1418270720 },
  { "pixtral-12b", 12247782400 }, -- Mistral Nemo's
  { "pythia-1b", 1011781632 },
  { "pythia-1.4b", 1414647808 },
  { "pythia-12b", 11846072320 },
  { "qwen1.5-1.8b", 1836828672 },
  { "qwen2-vl-2b", 2208985600 - 665271296 },
  { "qwen2-vl-7b", 8291375616 - 675759104 },
  { "qwen2.5-omni-7b", 7615616512 }, -- Qwen2.5-7B's
  { "qwen2.5-vl-3b", 3754622976 - 668684288 },
  { "qwen2.5-vl-72b", 73410777344 - 704573696 },
  { "qwen3-vl-2b", 2127532032 - 406957056 },
  { "qwen3-vl-4b", 4437815808 - 415347712 },
  { "qwen3-vl-32b", 33357390064 - 595266800 },
  { "qwen3.5-0.8b", 0.8e9, nil, 0.07 }, -- names of the checkpoints, all with their towers
  { "qwen3.5-2b", 2e9, nil, 0.07 },
  { "qwen3.5-122b-a10b", 122e9, 10e9, 0.025 },
  { "redpajama-incite-3b", 2775864320 },
  { "smollm2-135m", 134515008 },
  { "smolvlm-2.2b", 2246272880 - 434220912 },
  { "smolvlm2-2.2b", 2246784880 - 434220912 },
  { "starcoder2-3b", 3030371328 },
  { "tinyllama-1.1b", 1100048384 },
  { "voxtral-mini-3b", 4.68e9 - 662134784, nil, 0.002 },
  { "xgen-7b", 6.9e9, nil, 0.001 },
}

-- The same models as their config.json files describe them (spec/data/hf).
local imported = { "mixtral-8x7b", "mixtral-8x22b", "deepseek-v2", "deepseek-v3", "kimi-k2", "qwen2.5-7b",
  "qwen2.5-72b", "qwen3-30b-a3b", "qwen3-32b", "gpt-oss-20b", "qwen3-235b-a22b",
  "llama-4-maverick", "gpt-oss-120b", "gemma-2-27b", "opt-175b", "gpt2", "t5-large", "t5-11b",
  "flan-t5-xxl", "glm-5", "qwen3.5-397b-a17b", "llama-2-7b", "llama-2-70b", "llama-3.1-8b", "llama-3.1-70b",
  "llama-3.1-405b", "llama-2-13b", "falcon-7b", "falcon-40b", "gemma-2-9b", "gpt-neox-20b", "opt-66b", "phi-3-mini",
  "qwen2-57b-a14b", "qwen3-8b", "deepseek-v2-lite",
  "apertus-8b", "command-r7b", "ernie-4.5-21b-a3b", "falcon-h1-0.5b", "gemma-2b", "gemma-7b", "gemma-3-1b",
  "gemma-4-12b", "gemma-4-26b-a4b", "gemma-4-31b", "glm-4-9b-0414", "glm-4.1v-9b",
  "glm-4.5v", "glm-4.7-flash", "granite-3.1-8b", "hunyuan-0.5b", "hunyuan-a13b", "kimi-linear-48b-a3b",
  "mimo-7b", "mimo-v2-flash", "ministral-8b", "ministral-3-3b", "nemotron-nano-9b-v2",
  "olmo-2-7b", "olmo-3-7b", "phi-2", "phi-4-mini", "qwen-7b", "qwen1.5-moe-a2.7b", "qwen2.5-vl-7b",
  "qwen3-omni-30b-a3b", "qwen3-vl-8b", "qwen3-vl-30b-a3b", "qwen3-vl-235b-a22b", "seed-oss-36b", "smollm3-3b",
  "stablelm-2-1.6b", "trinity-mini", "trinity-nano" }

-- Their files in models/ have the fields of config.json, whose architectures no other fields describe.
local architectures = { "gemma-4-e2b", "gemma-4-e4b", "lfm2-350m", "lfm2-2.6b", "lfm2-8b-a1b" }

-- Likewise, where the files have longer names. Counts of all are in parameters_spec.lua.
local longer = { ["afm-4.5b"] = "afm-4.5b-austral", ["internlm2.5-7b"] = "internlm2.5-7b-chat",
  ["muse-glimmer-30b"] = "muse-glimmer" }

local function near(expected, actual, tolerance)
  if not tolerance then return assert.equal(expected, actual) end
  assert.near(1, actual / expected, tolerance)
end

describe("zoo", function()
  for _, row in ipairs(published) do
    it("has " .. row[1] .. " as published", function()
      local m = tperf.model(row[1])
      local count = m:parameters()
      assert.equal(row[1], m.name)
      assert.matches("%S", m.source)
      -- An exact total beside a rounded active figure: the tolerance is the latter's.
      near(row[2], count.total, math.type(row[2]) == "float" and row[4] or nil)
      near(row[3] or row[2], count.active, math.type(row[3] or row[2]) == "float" and row[4] or nil)
    end)
  end

  it("agrees with the card of gpt-oss-120b on active parameters without the input table", function()
    local count = tperf.model "gpt-oss-120b":parameters()
    assert.near(1, (count.active - count.embedding) / 5.13e9, 0.001)
  end)

  for _, name in ipairs(architectures) do
    it("counts " .. name .. " as its config.json does", function()
      local ours, theirs = tperf.model(name), tperf.model("spec/data/hf/" .. name .. ".json")
      local a, b = ours:parameters(), theirs:parameters()
      assert.same({ b.total, b.active, name }, { a.total, a.active, ours.name })
    end)
  end

  for name in pairs(longer) do imported[#imported + 1] = name end
  table.sort(imported)
  for _, name in ipairs(imported) do
    it("describes " .. name .. " as its config.json does", function()
      local ours, theirs = tperf.model(name), tperf.model("spec/data/hf/" .. (longer[name] or name) .. ".json")
      assert.same(theirs:parameters(), ours:parameters())
      assert.same(theirs:groups(), ours:groups())
      for _, field in ipairs { "layers", "hidden", "heads", "kv_heads", "head_dim", "context", "vocab", "activation",
        "gated", "norm", "positions", "tied_embeddings", "mla", "mtp", "experts", "window", "delta", "mamba" } do
        assert.same(theirs[field], ours[field], field)
      end
    end)
  end
end)
