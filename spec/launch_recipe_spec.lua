-- vLLM's recipes, whose arguments its site puts together (its src/lib/command-synthesis.js at 8959cf64), and options of
-- servers that change the room for a cache.
local tperf = require "tperf"

local RECIPE <const> = [[
meta:
  title: "A model"
model:
  model_id: "Qwen/Qwen3-32B"
  base_args:
    - "--trust-remote-code"
features:
  reasoning:
    args: [ "--reasoning-parser", "qwen3" ]
  drafts:
    args: [ "--speculative-config", '{"method":"ngram","num_speculative_tokens":3}' ]
opt_in_features:
  - drafts
variants:
  default: { precision: bf16, vram_minimum_gb: 77 }
  large: { precision: bf16, vram_minimum_gb: 160 }
  fp8:
    model_id: "Qwen/Qwen3-32B-FP8"
    vram_minimum_gb: 39
    tp: { default: 2, hopper: 4 }
    extra_args: [ "--kv-cache-dtype", "fp8" ]
compatible_strategies: [ single_node_tp, single_node_dep, multi_node_tp ]
strategy_overrides:
  single_node_dep: { extra_args: [ "--max-num-seqs", "64" ] }
hardware_overrides:
  amd: { extra_args: [ "--block-size", "64" ] }
]]

local function read(text, given, gpus, name)
  return tperf.import.launch { files = { { name = name or "recipe.yaml", text = text } }, given = given, gpus = gpus }
end

local function refused(launch)
  local list = {}
  for i, one in ipairs(launch.refused) do list[i] = one.option end
  return list
end

describe("a recipe of vLLM", function()
  it("is a server of its default variant, on a GPU if all fits there, and on a node if not", function()
    local r = read(RECIPE)
    assert.same({ "vLLM", "Qwen/Qwen3-32B", 1, 1 }, { r.stack, r.model_name, r.tp, r.dp })
    assert.is_nil(r.speculative) -- drafts are opted in
    local assumed = table.concat(r.assumed, "\n")
    assert.matches("variant 'default' of default, fp8, large (--set variant=NAME", assumed, 1, true)
    assert.matches("1 GPU, as the recipes' site has it", assumed, 1, true)
    assert.matches("without what the recipe adds on some hardware (--set hardware=NAME): amd", assumed, 1, true)
    assert.equal(8, read(RECIPE, { variant = "large" }).tp)
    assert.equal(4, read(RECIPE, { variant = "large" }, 4).tp)
  end)

  it("has the arguments of the variant, the strategy and the hardware that are asked for", function()
    local r = read(RECIPE, { variant = "fp8" })
    assert.same({ "Qwen/Qwen3-32B-FP8", 2, "fp8" }, { r.model_name, r.tp, r.kv_dtype })
    assert.equal(4, read(RECIPE, { variant = "fp8", hardware = "hopper" }).tp)
    assert.equal(64, read(RECIPE, { hardware = "amd" }).engine.block_size)
    r = read(RECIPE, { strategy = "single_node_dep" })
    assert.same({ 1, 8, 64 }, { r.tp, r.dp, r.max_batch })
    assert.same({}, r.without_use)
  end)

  it("is refused for what it has not, and for what is not modelled", function()
    assert.error_matches(function() read(RECIPE, { variant = "fp9" }) end, "no variant 'fp9' (did you mean 'fp8'?)", 1,
      true)
    assert.error_matches(function() read(RECIPE, { strategy = "multi_node_tp" }) end,
      "strategy 'multi_node_tp' is not read", 1, true)
    assert.error_matches(function() read(RECIPE .. "omni: { tasks: [ image ] }\n") end, "stages of vLLM-Omni", 1, true)
  end)
end)

describe("a server's option", function()
  local function arguments(options, model)
    local command = ("vllm serve %s %s\n"):format(model or "meta-llama/Llama-3.1-8B", options)
    local launch = read(command, nil, nil, "run.sh")
    return tperf.import.arguments(launch)
  end

  it("for adapters holds their buffers: 41.9 million numbers for rank 16 of all products of Llama 3.1 8B", function()
    -- per layer, rank 1: q, k, v, gate, up read 4096; they write 4096 + 2 x 1024 + 2 x 14336; o 4096 + 4096; down
    -- 14336 + 4096
    local one = 5 * 4096 + 4096 + 2048 + 2 * 14336 + 2 * 4096 + 14336 + 4096
    assert.equal(2 * 4 * 16 * 32 * one, (arguments "--enable-lora --max-loras 4").reserved)
    assert.equal(2 * 64 * 32 * one, (arguments "--enable-lora --max-lora-rank 64").reserved)
    local cut = 5 * 4096 + 2048 + 1024 + 14336 + (2048 + 4096) + (7168 + 4096)
    assert.equal(2 * 16 * 32 * cut, (arguments "--enable-lora -tp 2").reserved)
    assert.is_nil((arguments "--max-loras 4").reserved)
    assert.error_matches(function() arguments("--enable-lora", "deepseek-ai/DeepSeek-V3") end,
      "which model 'deepseek-v3' does not have alone", 1, true)
  end)

  it("for a cache's bytes is the room for it", function()
    local function blocks(engine)
      engine.max_num_seqs = 8
      return tperf.serve { model = "llama-3.1-8b", system = "h100-sxm", engine = engine,
        count = 2, prompt = 64, output = 4, load = { concurrency = 2 } }.num_blocks
    end
    local bytes = 16 * 2 * 32 * 8 * 128 * 2 -- a block: 16 tokens, keys and values of 32 layers, 8 heads of 128
    assert.equal(1000, blocks { kv_cache_memory = 1000 * bytes + 5 })
    assert.equal(blocks {} - 100, blocks { reserved = 100 * bytes })
    assert.equal(10 << 30, read("vllm serve x/y --kv-cache-memory-bytes 10G", nil, nil,
      "run.sh").engine.kv_cache_memory)
  end)

  it("of ModelOpt's checkpoints is of the format that their name says", function()
    local dtypes = require "tperf.import.launch.arguments".dtypes
    local function stored(name)
      return dtypes(read("vllm serve " .. name .. " --quantization modelopt\n", nil, nil, "run.sh")).weight_dtype
    end
    assert.equal("fp4", stored "nvidia/Llama-3.1-8B-Instruct-NVFP4")
    assert.equal("fp8", stored "nvidia/Llama-3.1-8B-Instruct-FP8")
    assert.equal("fp8", stored "nvidia/Llama-3.1-8B-Instruct") -- as before it had other formats
  end)

  it("may be a part of a map", function()
    local r = read("vllm serve x/y --speculative-config.method ngram --speculative-config.num_speculative_tokens=3 "
      .. "--kernel-config.enable_flashinfer_autotune=False\n", nil, nil, "run.sh")
    assert.same({ method = "ngram", draft_tokens = 3 }, r.speculative)
    assert.same({}, refused(r))
    assert.equal("--kernel-config", r.understood.assumed[1].option)
    assert.same({ "--speculative-config" }, refused(read(
      "vllm serve x/y --speculative-config '{\"method\": \"mtp\"}' --speculative-config.num_speculative_tokens 3\n",
      nil, nil, "run.sh")))
  end)

  it("that overrides how positions are rotated says the longest context; others are refused", function()
    local yarn = [['{"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}']]
    for command, option in pairs { ["vllm serve x/y --hf-overrides "] = "--hf-overrides",
      ["sglang serve --model-path x/y --json-model-override-args "] = "--json-model-override-args" } do
      local r = read(command .. yarn, nil, nil, "run.sh")
      assert.same({}, refused(r))
      assert.equal(131072, r.seq_max)
      assert.same({ option }, refused(read(command .. [['{"num_hidden_layers": 2}']], nil, nil, "run.sh")))
    end
  end)

  it("against windows changes models without them in nothing", function()
    assert.equal("llama-3.1-8b", (arguments "--disable-sliding-window").model)
    assert.error_matches(function() arguments("--disable-sliding-window", "openai/gpt-oss-20b") end,
      "no longer than the model's window of 128", 1, true)
  end)

  it("of Triton's attention is of plain attention alone", function()
    local launch = read("sglang serve --model-path zai-org/GLM-4.7-Flash --attention-backend triton\n", nil, nil,
      "run.sh")
    local _, left = tperf.import.arguments(launch)
    assert.matches("Triton's kernels of latent attention", table.concat(left, "\n"), 1, true)
    assert.is_nil(launch.attention_kernels)
  end)
end)

describe("a part of a GPU", function()
  it("is remarked", function()
    local r = read("servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: facebook/opt-125m\n"
      .. "    requestGPU: 0.5\n", nil, nil, "values.yaml")
    assert.matches("m asks for 0.5 of a GPU: a whole one is predicted", table.concat(r.assumed, "\n"), 1, true)
  end)
end)

describe("a server of an engine that is not simulated", function()
  it("has weights and a cache, and says whose scheduler stands for its own", function()
    for command, expected in pairs {
      ["lmdeploy serve api_server Qwen/Qwen3-32B --tp 2 --session-len 32768 --quant-policy 8 --model-format hf "
        .. "--max-batch-size 64 --server-port 1"] = { "LMDeploy", "Qwen/Qwen3-32B", 2, 32768, "int8", 64 },
      ["text-generation-launcher --model-id Qwen/Qwen3-32B --num-shard 4 --max-total-tokens 8192 --quantize awq"]
        = { "TGI", "Qwen/Qwen3-32B", 4, 8192, "auto", nil, "awq" },
    } do
      local r = read(command .. "\n", nil, nil, "run.sh")
      assert.same(expected, { r.stack, r.model_name, r.tp, r.seq_max, r.kv_dtype, r.max_batch, r.quantization })
      assert.same({}, refused(r))
      local engine, left = require "tperf.import.launch.arguments".engine(r)
      assert.is_nil(engine.software)
      assert.matches("which is not simulated: vLLM's rules stand for it", left[1], 1, true)
    end
    assert.same({ "--speculate", "--lora-adapters" }, refused(read(
      "text-generation-launcher --model-id x/y --speculate 3 --lora-adapters a\n", nil, nil, "run.sh")))
  end)
end)
