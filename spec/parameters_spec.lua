-- Exact parameter counts of published checkpoints, from their config.json files in spec/data/hf.
-- Expected totals: the figures in parentheses were found outside this project (safetensors metadata, public model
-- tables, model cards); the others are the published formulas worked out independently of this code.
local yaml = require "tperf.core".yaml
local hf = require "tperf.import.hf"
local check = require "tperf.check"
local description = require "tperf.arch.description"
local parameters = require "tperf.arch.parameters"

local function model(name)
  local path = "spec/data/hf/" .. name .. ".json"
  local file <close> = assert(io.open(path))
  local fields, positions = assert(yaml(file:read "a", path))
  local raw = hf.describe(fields, path, positions)
  return assert(description.complete(check.record("tperf.model", raw, description.schema)))
end

local expected = { -- name, total, active (nil: the total)
  { "gpt2", 124439808 }, -- seen
  { "gpt2-xl", 1557611200 },
  { "opt-125m", 125239296 },
  { "opt-350m", 331196416 },
  { "opt-1.3b", 1315758080 },
  { "opt-66b", 65719701504 },
  { "opt-175b", 174604468224 },
  { "bloom", 176247271424 }, -- seen
  { "gpt-neox-20b", 20554567680 },
  { "falcon-7b", 6921720704 },
  { "falcon-7b-old", 6921720704 },
  { "falcon-40b", 41303293952 },
  { "falcon-40b-old", 41303293952 },
  { "llama-2-7b", 6738415616 }, -- seen
  { "llama-2-13b", 13015864320 }, -- seen
  { "llama-2-70b", 68976648192 }, -- seen
  { "llama-3.1-8b", 8030261248 }, -- seen
  { "llama-3.1-70b", 70553706496 }, -- seen
  { "llama-3.1-405b", 405853388800 }, -- seen
  { "mistral-7b", 7241732096 },
  { "mixtral-8x7b", 46702792704, 12879925248 }, -- seen
  { "mixtral-8x22b", 140620634112, 39152031744 },
  { "qwen2.5-7b", 7615616512 }, -- seen
  { "qwen2.5-72b", 72706203648 }, -- seen
  { "qwen1.5-moe-a2.7b", 14315784192, 2689173504 },
  { "qwen2-57b-a14b", 57408658944, 14249270784 },
  { "qwen3-8b", 8190735360 }, -- seen
  { "qwen3-32b", 32762123264 },
  { "qwen3-30b-a3b", 30532122624, 3353032704 },
  { "qwen3-235b-a22b", 235093634560, 22190763520 }, -- seen
  { "gemma-2-9b", 9241705984 },
  { "gemma-2-27b", 27227128320 },
  { "phi-3-mini", 3821079552 },
  { "phi-3-medium", 13960238080 },
  { "gpt-oss-20b", 20914757184, 4187440704 },
  { "gpt-oss-120b", 116829156672, 5711982912 }, -- seen
  { "deepseek-v2-lite", 15706484224, 2661150208 },
  { "deepseek-v2", 235741434880, 21375800320 }, -- seen
  { "deepseek-v3", 671026419200, 37552297472 },
  { "kimi-k2", 1026408232448, 32861500928 },
  { "vit-base-patch16-224", 86567656 },
  { "vit-large-patch16-224", 304326632 },
  { "mamba2-130m", 128989632 },
  { "mamba-codestral-7b", 7285403648 },
}

describe("parameters", function()
  for _, row in ipairs(expected) do
    it("counts " .. row[1], function()
      local count = assert(parameters.count(model(row[1])))
      assert.equal(row[2], count.total)
      assert.equal(row[3] or row[2], count.active)
    end)
  end
end)
