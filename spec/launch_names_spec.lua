-- Launch files: what a checkpoint's name says of its model and weights; copies of a server; dtypes.
local checkpoints = require "tperf.import.launch.arguments.checkpoints"
local program = require "program"
local tperf = require "tperf"

describe("a server that a script starts several times", function()
  local function read(text)
    return tperf.import.launch { files = { { name = "run.sh", text = text } } }
  end

  it("is one launch if only its place differs", function()
    local copies = read [[
      CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-8B --max-num-seqs 64 --port 8000 &
      CUDA_VISIBLE_DEVICES=1 vllm serve Qwen/Qwen3-8B --max-num-seqs 64 --port=8001 &
    ]]
    assert.same({ 1, 64 }, { copies.gpus, copies.max_batch })
    local nodes = {}
    for rank = 0, 1 do
      nodes[#nodes + 1] = ("python3 -m sglang.launch_server --model-path x/y --tp 16 --nnodes 2 --node-rank %d")
        :format(rank)
    end
    assert.equal(16, read(table.concat(nodes, "\n") .. "\n").gpus)
  end)

  it("is several launches if anything else does", function()
    assert.error_matches(function()
      read "vllm serve Qwen/Qwen3-8B -tp 2 --port 1 &\nvllm serve Qwen/Qwen3-8B -tp 4 --port 2 &\n"
    end, "starts 2 commands; say which")
  end)
end)

describe("a checkpoint's name", function()
  -- Names on the Hugging Face Hub.
  for name, expected in pairs {
    ["meta-llama/Llama-3.1-8B-Instruct"] = { "llama-3.1-8b" },
    ["meta-llama/Meta-Llama-3-70B"] = { "llama-3-70b" },
    ["meta-llama/Llama-3.3-70B-Instruct"] = { "llama-3.1-70b" },
    ["nvidia/Llama-3.3-70B-Instruct-FP8"] = { "llama-3.1-70b", "fp8" },
    ["nvidia/Llama-3.1-405B-Instruct-FP4"] = { "llama-3.1-405b", "modelopt_fp4" },
    ["amd/Llama-3.1-405B-Instruct-FP8-KV"] = { "llama-3.1-405b", "fp8" },
    ["RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16"] = { "llama-3.1-70b", "gptq" },
    ["RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8"] = { "llama-3.1-8b", "w8a8_int8" },
    ["neuralmagic/Mistral-7B-Instruct-v0.3-FP8"] = { "mistral-7b", "fp8" },
    ["mistralai/Mixtral-8x7B-Instruct-v0.1"] = { "mixtral-8x7b" },
    ["Qwen/Qwen2.5-72B-Instruct-AWQ"] = { "qwen2.5-72b", "awq" },
    ["Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8"] = { "qwen2.5-72b", "gptq_int8" },
    ["Qwen/Qwen3-30B-A3B-Thinking-2507-FP8"] = { "qwen3-30b-a3b", "fp8" },
    ["Qwen/Qwen3-235B-A22B-Instruct-2507"] = { "qwen3-235b-a22b" },
    ["nvidia/DeepSeek-R1-0528-NVFP4-v2"] = { "deepseek-v3", "modelopt_fp4" },
    ["amd/DeepSeek-R1-0528-MXFP4"] = { "deepseek-v3", "modelopt_fp4" },
    ["deepseek-ai/DeepSeek-R1-0528"] = { "deepseek-v3" },
    ["moonshotai/Kimi-K2.5"] = { "kimi-k2", "gptq" }, -- experts of 4 bits, says its config.json
    ["moonshotai/Kimi-K2-Instruct"] = { "kimi-k2" },
    ["google/gemma-3-27b-it"] = { "gemma-3-27b" },
    ["openai/gpt-oss-120b"] = { "gpt-oss-120b" },
    ["meta-llama/Llama-4-Scout-17B-16E-Instruct"] = { "llama-4-scout" },
    ["zai-org/GLM-4.5-Air-FP8"] = { "glm-4.5-air", "fp8" },
    ["Qwen/Qwen2-1.5B-Instruct"] = { "qwen2.5-1.5b" }, -- the same sizes, says its config.json
    ["Qwen/Qwen3-0.6B-Base"] = { "qwen3-0.6b" },
    ["facebook/opt-125m"] = { "opt-125m" },
    ["Qwen/Qwen2.5-VL-7B-Instruct"] = { "qwen2.5-vl-7b" },
    ["Qwen/Qwen3.5-35B-A3B"] = { "qwen3.6-35b-a3b" }, -- the same sizes, say their config.json files
    ["Qwen/Qwen3.6-27B-FP8"] = { "qwen3.8-27b", "fp8" }, -- likewise
    ["qwen35_vl_122b_a10b"] = { "qwen3.5-122b-a10b" }, -- Megatron-Bridge's spelling
    ["TinyLlama/TinyLlama-1.1B-Chat-v1.0"] = { "tinyllama-1.1b" },
    ["codellama/CodeLlama-13b-hf"] = { "codellama-13b" },
    ["axolotl-quants/Llama-4-Scout-17B-16E-Linearized-bnb-nf4-bf16"] = { "llama-4-scout", "bf16" },
    ["someone/Unknown-13B-FP8"] = { nil, "fp8" },
    ["fp8"] = {},
  } do
    it("is understood: " .. name, function()
      assert.equal(expected[1], checkpoints.model(name))
      assert.equal(expected[2], checkpoints.quantization(name))
    end)
  end

  it("may be no text", function()
    assert.is_nil(checkpoints.model(nil))
    assert.is_nil(checkpoints.model(7, "8b"))
    assert.is_nil(checkpoints.quantization(nil))
    assert.equal("llama-3.1-8b", checkpoints.model("llama3", "8B"))
  end)

  it("decides the weights of a server that says nothing else of them", function()
    local function launch(name, more)
      return tperf.import.launch { files = { { name = "run.sh",
        text = ("vllm serve %s --tensor-parallel-size 8 %s\n"):format(name, more or "") } } }
    end
    local stored = launch "nvidia/Llama-3.3-70B-Instruct-FP8"
    assert.same({ "quantization fp8, as the name nvidia/Llama-3.3-70B-Instruct-FP8 says" }, stored.assumed)
    assert.same({}, launch "meta-llama/Llama-3.3-70B-Instruct".assumed)
    local arguments = require "tperf.import.launch.arguments"
    local function dtypes(...)
      local d = arguments.dtypes(launch(...))
      return { d.weight_dtype, d.compute_dtype }
    end
    assert.same({ "fp8", "fp8" }, dtypes "nvidia/Llama-3.3-70B-Instruct-FP8")
    assert.same({ "int4", "bf16" }, dtypes "Qwen/Qwen2.5-72B-Instruct-AWQ")
    assert.same({ "int4", "bf16" }, dtypes("x/Llama-3.1-8B-W4A16", "--quantization compressed-tensors"))
    assert.same({ "fp8", "fp8" }, dtypes("x/Llama-3.1-8B-Int8", "--quantization fp8")) -- the flag is the launch's word
    assert.same({}, dtypes "meta-llama/Llama-3.1-8B")
  end)

  it("is enough for a server with all defaults", function()
    local r = tperf.import.launch { files = { { name = "run.sh", text = "vllm serve Qwen/Qwen3-8B\n" } } }
    assert.same({ "vLLM", "Qwen/Qwen3-8B", 1 }, { r.stack, r.model_name, r.tp })
  end)

  it("makes a server's steps those of its weights", function()
    local folder = program.folder()
    local function tpot(name)
      program.write(folder .. "/run.sh", ("vllm serve %s --tensor-parallel-size 4\n"):format(name))
      local shown = program.ask(("tperf serve --from %s/run.sh -s h100-sxm --prompt 100 --output 50 --concurrency 4 "
        .. "--count 8 --json"):format(folder))
      return tonumber(shown.out:match '"tpot":%s*{.-"mean":%s*([%d.e+-]+)') or error(shown.err .. shown.out)
    end
    local wide, narrow = tpot "meta-llama/Llama-3.3-70B-Instruct", tpot "nvidia/Llama-3.3-70B-Instruct-FP8"
    assert.truthy(narrow < 0.75 * wide)
    program.remove(folder)
  end)
end)

describe("torchtitan's dtypes", function()
  local function arguments(lines)
    local text = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n"
      .. lines
    return (tperf.import.arguments(tperf.import.launch { files = { { name = "run.toml", text = text } },
      given = { gpus = 8 } }))
  end

  it("of weights are those of gradients and moments, without a wider copy", function()
    local a = arguments "dtype = \"bfloat16\"\n"
    assert.same({ "bf16", "none", "bf16", "bf16" }, { a.weights, a.master, a.gradients, a.moments })
    local usual = arguments ""
    assert.same({}, { usual.weights, usual.master, usual.gradients, usual.moments })
    assert.equal("bf16", arguments "mixed_precision_reduce = \"bfloat16\"\n".gradients)
  end)

  it("are not taken for harmless where they are not known", function()
    local r = tperf.import.launch { files = { { name = "run.toml",
      text = "[training]\nlocal_batch_size = 1\nseq_len = 8192\n[optimizer]\nnew_dtype = \"bfloat16\"\n" } },
      given = { gpus = 8 } }
    assert.equal("optimizer.new_dtype", r.refused[1].option)
  end)
end)
