-- Models by the names that they have on the Hugging Face Hub: renames, marks of formats, the local cache.
local files = require "hf_files"
local hub = require "tperf.describe.model.hub"
local names = require "tperf.describe.model.hub.names"
local program = require "program"
local tperf = require "tperf"

-- Published names: the model of models/ that has their sizes, and the method by which their weights are stored.
local NAMES <const> = {
  ["deepseek-ai/DeepSeek-V3.1"] = { "deepseek-v3" }, ["deepseek-ai/DeepSeek-V3.1-Terminus"] = { "deepseek-v3" },
  ["deepseek-ai/DeepSeek-V3-0324"] = { "deepseek-v3" }, ["deepseek-ai/DeepSeek-V3.2-Exp"] = { "deepseek-v3.2" },
  ["MiniMaxAI/MiniMax-M2.5"] = { "minimax-m2" }, ["MiniMaxAI/MiniMax-M2.7"] = { "minimax-m2" },
  ["nvidia/MiniMax-M2.5-NVFP4"] = { "minimax-m2", "modelopt_fp4" }, ["zai-org/GLM-4.7-FP8"] = { "glm-4.6", "fp8" },
  ["zai-org/GLM-5.1-FP8"] = { "glm-5", "fp8" }, ["moonshotai/Kimi-K2.6"] = { "kimi-k2", "gptq" },
  ["moonshotai/Kimi-K2-Instruct-0905"] = { "kimi-k2" },
  ["deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"] = { "qwen2.5-32b" },
  ["deepseek-ai/DeepSeek-R1-Distill-Llama-70B"] = { "llama-3.1-70b" }, ["Qwen/QwQ-32B-AWQ"] = { "qwen2.5-32b", "awq" },
  ["Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8"] = { "qwen3-30b-a3b", "fp8" },
  ["mistralai/Mistral-Small-3.2-24B-Instruct-2506"] = { "mistral-small-24b" },
  ["nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"] = { "nemotron-3-super-120b-a12b", "bf16" },
  ["Intel/Qwen3-30B-A3B-Instruct-2507-int4-AutoRound"] = { "qwen3-30b-a3b", "gptq" },
  ["amd/Kimi-K2-Thinking-MXFP4-Preview"] = { "kimi-k2", "modelopt_fp4" },
  ["RedHatAI/Qwen3-32B-NVFP4A16"] = { "qwen3-32b", "modelopt_fp4" },
  ["moonshotai/Kimi-K2.7-Code"] = { "kimi-k2", "gptq" }, ["zai-org/Glyph"] = { "glm-4.1v-9b" },
  ["Qwen/Qwen3-Coder-Next-FP8"] = { "qwen3-next-80b-a3b", "fp8" }, ["zai-org/GLM-4.6V-FP8"] = { "glm-4.5v", "fp8" },
  ["mistralai/Ministral-3-14B-Instruct-2512"] = { "ministral-3-14b", "fp8" },
  ["mistralai/Ministral-3-8B-Reasoning-2512"] = { "ministral-3-8b" }, ["LiquidAI/LFM2.5-1.2B-JP"] = { "lfm2-1.2b" },
  ["amd/gpt-oss-120b-w-mxfp4-a-fp8"] = { "gpt-oss-120b", "modelopt_fp4" },
  ["RedHatAI/Hy3-NVFP4-FP8"] = { "hy3", "unknown" }, -- experts in one, attention in the other
  ["baidu/ERNIE-4.5-300B-A47B-PT"] = { "ernie-4.5-300b-a47b" }, ["microsoft/Phi-4-reasoning"] = { "phi-4" },
  ["x/Qwen3-8B-AWQ-8bit"] = { "qwen3-8b", "gptq_int8" },
  ["unsloth/Qwen3-32B-GGUF:Q4_K_M"] = { "qwen3-32b", "unknown" },
  ["bartowski/Qwen3-14B-GGUF:IQ4_XS"] = { "qwen3-14b", "unknown" },
  ["mlx-community/Qwen3-8B-MLX-4bit"] = { "qwen3-8b", "unknown" }, ["x/Qwen3-8B-4bit"] = { "qwen3-8b", "unknown" },
}

describe("a name of the Hugging Face Hub", function()
  for name, expected in pairs(NAMES) do
    it("says the sizes and the weights: " .. name, function()
      assert.equal(expected[1], names.model(name))
      assert.equal(expected[2], names.quantization(name))
    end)
  end

  it("is a MODEL, with the weights that it says", function()
    local plain = tperf.model "qwen3-32b"
    local named = tperf.model "Qwen/Qwen3-32B-FP8"
    assert.equal(plain:parameters().total, named:parameters().total)
    assert.same({ "fp8", "Qwen3-32B-FP8" }, { named.stored.layers, named.name })
    assert.is_nil(named.stored.experts)
    assert.same({ "nvfp4", "nvfp4" }, { tperf.model "nvidia/DeepSeek-R1-NVFP4".stored.layers,
      tperf.model "nvidia/DeepSeek-R1-NVFP4".stored.experts })
    assert.equal("fp8-block", tperf.model "deepseek-ai/DeepSeek-V3.1".stored.layers) -- as its publisher stores it
    assert.equal("mxfp4", tperf.model "openai/gpt-oss-120b".stored.experts)
    assert.is_nil(tperf.model "x/DeepSeek-V3-BF16".stored)
    assert.is_nil(tperf.model "x/DeepSeek-V4-Flash-BF16".stored)
    assert.equal("nvfp4", tperf.model "x/Mistral-Large-3-675B-Instruct-2512-NVFP4".stored.experts)
    local mlx = tperf.model "mlx-community/Qwen3-8B-MLX-4bit".stored.layers -- a scale and a bias of 16 bits for 64
    assert.same({ 4, 64, 4 }, { mlx.bits, mlx.group, mlx.scale })
  end)

  it("is asked about, where it settles no format", function()
    for _, name in ipairs { "unsloth/Qwen3-32B-GGUF:UD-Q4_K_XL", "x/Qwen3-8B-4bit" } do
      local ok, message = pcall(tperf.model, name)
      assert.is_false(ok)
      assert.matches("fewer bits, but not in which format: give its config.json, or the model 'qwen3", message, 1, true)
    end
    local folder = program.folder()
    program.write(folder .. "/run.sh", "vllm serve unsloth/Qwen3-32B-GGUF:Q4_K_M --tensor-parallel-size 2\n")
    local one = program.ask(("tperf memory --from %s/run.sh -s h100-sxm"):format(folder))
    assert.equal(1, one.code)
    assert.matches("but not in which format: name the MODEL, and weight_dtype", one.err, 1, true)
    program.remove(folder)
  end)

  it("that nothing is known of gets the command that fetches its config.json", function()
    local ok, message = pcall(tperf.model, "nobody/Unheard-7B-FP8")
    assert.is_false(ok)
    assert.matches('`hf download nobody/Unheard-7B-FP8 --include "*config.json" "*.index.json" --local-dir Unheard',
      message, 1, true)
    assert.is_false((pcall(tperf.model, "gpt3"))) -- no publisher's spelling
    assert.is_nil(select(2, pcall(tperf.model, "llama-9")):find "hf download")
  end)

  it("stands in the answer, with what it made assume", function()
    local one = program.ask "tperf params --json Qwen/Qwen3-32B-FP8"
    assert.matches('{"name": "weights", "value": "fp8", "why": "the name Qwen3-32B-FP8"}', one.out, 1, true)
    assert.matches("tperf: assumed MODEL = qwen3-32b", one.err, 1, true)
  end)
end)

describe("the local cache of the Hub", function()
  it("has a checkpoint's own config.json, of the branch main first", function()
    local home = program.folder()
    local folder = home .. "/hub/models--some--Thing-7B/"
    for _, name in ipairs { "hub", "hub/models--some--Thing-7B", "hub/models--some--Thing-7B/refs",
      "hub/models--some--Thing-7B/snapshots", "hub/models--some--Thing-7B/snapshots/aa11",
      "hub/models--some--Thing-7B/snapshots/ff22" } do
      os.execute(("mkdir -p '%s/%s'"):format(home, name))
    end
    local text = program.slurp(files.path "llama-2-7b")
    local short = text:gsub('"num_hidden_layers": 32', '"num_hidden_layers": 3')
    program.write(folder .. "snapshots/ff22/config.json", short)
    program.write(folder .. "snapshots/aa11/config.json", text)
    local function layers()
      local command = ("HF_HOME='%s' %s params some/Thing-7B --groups --csv 2> /dev/null"):format(home,
        program.absolute())
      local pipe <close> = assert(io.popen(command))
      return pipe:read "a":match "\n1,(%d+),"
    end
    assert.equal("3", layers()) -- the only snapshots: the last one by name
    program.write(folder .. "refs/main", "aa11")
    assert.equal("32", layers())
    program.remove(home)
  end)

  it("has no names that are paths", function()
    for _, name in ipairs { "../x/y", "/etc/x", "a/b/c", "a/..", "plain" } do assert.is_nil(hub.cached(name)) end
  end)
end)
