-- Servers that Helm values and custom resources describe, several servers in a manifest, and abbreviated options. What
-- fields become is from production-stack a6c01db0 (deployment-vllm-multi.yaml, vllmruntime_controller.go), llm-d's
-- modelservice and KServe's runtimes.
local tperf = require "tperf"

local function read(text, given, name)
  return tperf.import.launch { files = { { name = name or "values.yaml", text = text } }, given = given }
end

local function refused(launch)
  local list = {}
  for i, one in ipairs(launch.refused) do list[i] = one.option end
  return list
end

describe("production-stack's values", function()
  local TEXT <const> = [[
# comments before the document
---
servingEngineSpec:
  runtimeClassName: ""
  modelSpec:
  - name: "llama3"
    repository: "lmcache/vllm-openai"
    modelURL: "meta-llama/Llama-3.1-8B-Instruct"
    replicaCount: 2
    requestGPU: 2
    vllmConfig:
      enableChunkedPrefill: true
      enablePrefixCaching: false
      maxModelLen: 16384
      dtype: "bfloat16"
      tensorParallelSize: 2
      extraArgs: ["--gpu-memory-utilization", "0.8"]
    lmcacheConfig: { enabled: %s }
]]

  it("start vllm serve with the options that the chart makes of them", function()
    local r = read(TEXT:format "false")
    assert.same({ "vLLM", 2, 16384, 0.8, false, "meta-llama/Llama-3.1-8B-Instruct" },
      { r.stack, r.tp, r.seq_max, r.memory_fraction, r.prefix_cache, r.model_name })
    assert.same({}, refused(r))
    assert.matches("llama3 has 2 replicas, of which one is predicted", table.concat(r.assumed, "\n"), 1, true)
  end)

  it("say what is assumed of caches outside the server", function()
    local r = read(TEXT:format "true")
    assert.same({}, refused(r))
    assert.matches("LMCacheConnectorV1: requests find no cached prefix", table.concat(r.assumed, "\n"), 1, true)
  end)

  it("may have several models, of which the first or the one asked for is taken", function()
    local two = TEXT:format "false" .. "  - { name: b, modelURL: x/y, vllmConfig: { tensorParallelSize: 4 } }\n"
    local r = read(two)
    assert.equal(2, r.tp)
    assert.matches("of 2 servers the first one is predicted", table.concat(r.assumed, "\n"), 1, true)
    assert.equal(4, read(two, { command = 2 }).tp)
  end)
end)

describe("custom resources of servers", function()
  it("are read: VLLMRuntime, InferenceService, LLMInferenceService, llm-d's modelservice, Dynamo's graphs", function()
    for text, expected in pairs {
      ["apiVersion: a/v1\nkind: VLLMRuntime\nspec:\n  model: { modelURL: x/y, maxModelLen: 4096, maxNumSeqs: 32 }\n"
        .. "  vllmConfig: { tensorParallelSize: 4, gpuMemoryUtilization: '0.8' }\n"] = { 4, 1, "x/y", 4096 },
      ["apiVersion: a/v1\nkind: InferenceService\nspec:\n  predictor:\n    model:\n      modelFormat: { name: "
        .. "huggingface }\n      args: [ --model_name=l, --model_id=x/y, --tensor-parallel-size=2 ]\n"]
        = { 2, 1, "x/y" },
      ["apiVersion: a/v1\nkind: LLMInferenceService\nspec:\n  model: { uri: 'hf://x/y', name: n }\n  parallelism: "
        .. "{ tensor: 2, data: 4, expert: true }\n"] = { 2, 4, "x/y" },
      ["modelArtifacts:\n  uri: hf://x/y\ndecode:\n  replicas: 1\n  parallelism: { tensor: 8 }\n  containers:\n"
        .. "  - name: vllm\n    modelCommand: vllmServe\n    args: [ --max-model-len, '8k' ]\n"
        .. "prefill: { create: false }\n"] = { 8, 1, "x/y", 8000 },
      ["apiVersion: a/v1\nkind: DynamoGraphDeployment\nspec:\n  services:\n    Worker:\n      replicas: 1\n"
        .. "      extraPodSpec:\n        mainContainer:\n          command: [ python3, -m, dynamo.vllm ]\n"
        .. "          args: [ --model, x/y, --tensor-parallel-size, '2' ]\n"] = { 2, 1, "x/y" },
    } do
      local r = read(text)
      assert.same(expected, { r.tp, r.dp, r.model_name, r.seq_max })
      assert.same({}, refused(r))
    end
  end)

  it("are told from templates, which have no values yet", function()
    assert.error_matches(function()
      read "apiVersion: v1\nkind: Deployment\nspec:\n  replicas: {{ .Values.replicas }}\n  a: {{ .Release.Name }}\n"
    end, "is a Helm template: give what `helm template` makes of it", 1, true)
  end)
end)

describe("a command's option", function()
  it("may be shortened to what begins it alone, as argparse takes it", function()
    local r = read("vllm serve x/y --max-num-seq 12 --tensor-para 2", nil, "run.sh")
    assert.same({ 12, 2 }, { r.max_batch, r.tp })
    assert.matches("--max-num-seq is taken for --max-num-seqs", table.concat(r.assumed, "\n"), 1, true)
    assert.same({ "--max-num" }, refused(read("vllm serve x/y --max-num 12", nil, "run.sh"))) -- begins two
  end)

  it("of 16 bits is what predictions have, and of others is refused", function()
    assert.same({}, refused(read("vllm serve x/y --dtype bfloat16", nil, "run.sh")))
    assert.same({}, refused(read("sglang serve --model-path x/y --dtype half", nil, "run.sh")))
    assert.same({ "--dtype" }, refused(read("vllm serve x/y --dtype float32", nil, "run.sh")))
  end)
end)
