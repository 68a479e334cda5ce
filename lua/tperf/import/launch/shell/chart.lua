--- Helm values and custom resources that describe a server by fields, as the containers that their charts and operators
--- start: production-stack's values and VLLMRuntime, llm-d's modelservice, KServe's InferenceService and
--- LLMInferenceService.
local chart = {}

local function is_table(value) return type(value) == "table" and value or {} end

-- Adds an option with its value; a switch by its positive or negative name.
local function add(words, option, value)
  if value == nil or type(value) == "userdata" or value == "" then return end
  if type(value) == "boolean" then
    words[#words + 1] = value and option or option:gsub("^%-%-", "--no-")
  else
    words[#words + 1] = option
    words[#words + 1] = tostring(value)
  end
end

local function append(words, list)
  for _, word in ipairs(is_table(list)) do words[#words + 1] = word end
end

-- Fields of production-stack's chart (helm/templates/deployment-vllm-multi.yaml) and operator
-- (vllmruntime_controller.go), and the options that they become.
local OPTIONS <const> = { { "enableChunkedPrefill", "--enable-chunked-prefill" },
  { "enablePrefixCaching", "--enable-prefix-caching" }, { "maxModelLen", "--max-model-len" }, { "dtype", "--dtype" },
  { "tensorParallelSize", "--tensor-parallel-size" }, { "pipelineParallelSize", "--pipeline-parallel-size" },
  { "maxNumSeqs", "--max-num-seqs" }, { "gpuMemoryUtilization", "--gpu-memory-utilization" },
  { "maxLoras", "--max-loras" }, { "runner", "--runner" }, { "convert", "--convert" } }

local CACHES <const> = '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'

local function of_stack(list, spec, name, path, config, model, cache)
  local part = tonumber(spec.requestGPU) -- of a GPU that others use as well
  local shared = part and part % 1 ~= 0 and ("%s asks for %s of a GPU: a whole one is predicted"):format(name,
    tostring(spec.requestGPU)) or nil
  local words = { "vllm", "serve", model.modelURL }
  if spec.enableLoRA == true or model.enableLoRA == true then words[#words + 1] = "--enable-lora" end
  for _, one in ipairs(OPTIONS) do
    local value = config[one[1]]
    if value == nil then value = model[one[1]] end
    add(words, one[2], value)
  end
  append(words, config.extraArgs)
  if is_table(cache).enabled == true then add(words, "--kv-transfer-config", CACHES) end
  list[#list + 1] = { name = name, words = words, path = path, replicas = spec.replicaCount or spec.replicas,
    environment = spec.env or config.env, note = shared }
end

-- servingEngineSpec.modelSpec of production-stack's values.
local function of_values(content, list)
  for i, spec in ipairs(is_table(is_table(content.servingEngineSpec).modelSpec)) do
    if type(spec) == "table" and type(spec.modelURL) == "string" then
      of_stack(list, spec, spec.name or i, ("servingEngineSpec.modelSpec[%d].modelURL"):format(i),
        is_table(spec.vllmConfig), spec, spec.lmcacheConfig)
    end
  end
end

local function of_runtime(content, list)
  local spec = is_table(content.spec)
  local model = is_table(spec.model)
  if type(model.modelURL) ~= "string" then return end
  of_stack(list, spec, is_table(content.metadata).name or "runtime", "spec.model.modelURL", is_table(spec.vllmConfig),
    model, spec.lmCacheConfig)
end

-- A model's name in an address such as hf://Qwen/Qwen3-8B.
local function name_of(uri)
  return type(uri) == "string" and (uri:match "^hf://(.+)$" or uri:match "^pvc://[^/]+/(.+)$" or uri) or nil
end

-- The sizes of llm-d's charts, and of KServe's LLMInferenceService.
local function sizes(words, parallelism)
  add(words, "--tensor-parallel-size", parallelism.tensor)
  add(words, "--data-parallel-size", parallelism.data)
  add(words, "--pipeline-parallel-size", parallelism.pipeline)
  if parallelism.expert == true then words[#words + 1] = "--enable-expert-parallel" end
end

-- llm-d's modelservice: decode and prefill, whose containers run `vllm serve MODEL`, unless they name a command.
local function of_service(content, list)
  local model = name_of(is_table(content.modelArtifacts).uri)
  for _, role in ipairs { "decode", "prefill" } do
    local part = is_table(content[role])
    local one = is_table(is_table(part.containers)[1])
    if part.create ~= false and model and next(part) ~= nil then
      local words = { "vllm", "serve", model }
      sizes(words, is_table(part.parallelism))
      append(words, one.args)
      if type(one.command) == "table" then
        words = {}
        append(words, one.command)
        append(words, one.args)
      end
      list[#list + 1] = { name = role, words = words, path = role, replicas = part.replicas, environment = one.env }
    end
  end
end

-- KServe's Hugging Face runtime, which serves by vLLM.
local function of_inference_service(content, list)
  local predictor = is_table(is_table(content.spec).predictor)
  local model = is_table(predictor.model)
  local words, name = { "vllm", "serve" }, name_of(model.storageUri)
  local rest = {}
  for _, word in ipairs(is_table(model.args)) do
    local id = tostring(word):match "^%-%-model_id=(.+)$"
    name = id or name
    if not id and not tostring(word):find "^%-%-model_name" then rest[#rest + 1] = word end
  end
  if not name then return end
  words[3] = name
  append(words, rest)
  list[#list + 1] = { name = is_table(content.metadata).name or "predictor", words = words,
    path = "spec.predictor.model", replicas = predictor.minReplicas, environment = model.env }
end

local function of_llm_service(content, list)
  local spec = is_table(content.spec)
  local name = name_of(is_table(spec.model).uri)
  if not name then return end
  local one = is_table(is_table(is_table(spec.template).containers)[1])
  local words = { "vllm", "serve", name }
  sizes(words, is_table(spec.parallelism))
  append(words, one.args)
  list[#list + 1] = { name = is_table(content.metadata).name or "server", words = words, path = "spec.model",
    replicas = spec.replicas, environment = one.env }
end

local KINDS <const> = { VLLMRuntime = of_runtime, InferenceService = of_inference_service,
  LLMInferenceService = of_llm_service }

--- Whether a text has Helm values that are known.
---@param text string
function chart.recognise(text)
  return text:find "\nservingEngineSpec:" ~= nil or text:find "\nmodelArtifacts:" ~= nil
end

--- Adds the servers that a document describes: { name, words, path, replicas, environment }.
---@param content table
---@param list table[]
function chart.servers(content, list)
  if content.servingEngineSpec then of_values(content, list) end
  if content.modelArtifacts then of_service(content, list) end
  local kind = KINDS[content.kind]
  if kind then kind(content, list) end
end

return chart
