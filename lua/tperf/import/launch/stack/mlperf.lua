--- NVIDIA's MLPerf training submissions: the environment that their scripts set up for NeMo.
local common = require "tperf.import.launch.stack.common"

local mlperf = {}

-- The benchmark: by the model's size, else by a sourced file, else by the folder.
local function benchmark(s, context)
  local t = s.table
  local size = s:set "MODEL_SIZE"
  if size and t.sizes[size] then return t.benchmarks[t.sizes[size]], t.sizes[size] end
  for _, sourced in ipairs(context.sourced) do
    for name, known in pairs(t.sizes) do
      if sourced.name:find("_" .. name .. "%.sh") then return t.benchmarks[known], known end
    end
  end
  for _, name in ipairs { "llama31_405b", "llama31_8b", "llama2_70b_lora", "gpt3" } do
    if context.path:find(name, 1, true) then return t.benchmarks[name], name end
  end
  context.need("MODEL_SIZE", "which benchmark it is (" .. "MODEL_SIZE=405b)")
end

function mlperf.read(s, context)
  local known, name = benchmark(s, context)
  local hints = { TENSOR_MODEL_PARALLEL = "tp(%d+)", PIPELINE_MODEL_PARALLEL = "pp(%d+)", CONTEXT_PARALLEL = "cp(%d+)" }
  local size = function(option) -- from the file, else from its name: config_GB200_18x4x1xtp1pp1cp8.sh
    local value = s:get(option)
    local hint = value == nil and hints[option] and context.path:match("x?" .. hints[option] .. "[^/]*$")
    if hint then context.assume("%s is not set: %s, as the file is called", option, hint) end
    return common.size(context, value or tonumber(hint or nil), option)
  end
  local r = { tp = size "TENSOR_MODEL_PARALLEL" or 1, pp = size "PIPELINE_MODEL_PARALLEL" or 1,
    cp = size "CONTEXT_PARALLEL" or known.cp, ep = size "EXPERT_MODEL_PARALLEL" or 1,
    seq = size "SEQ_LENGTH" or known.seq }
  r.cp_kind = common.cp_kind(context, r, nil, "ring")
  r.etp = r.ep > 1 and (size "EXPERT_TENSOR_PARALLEL" or r.tp) or 1
  if not s:set "CONTEXT_PARALLEL" and known.cp > 1 then context.assume("CONTEXT_PARALLEL is not set: %d", known.cp) end
  local nodes = size "DGXNNODES" or context.need("DGXNNODES", "how many nodes")
  r.gpus = context.gpus or nodes * size "DGXNGPU"
  r.dp = common.divided(context, r.gpus, r.tp * r.pp * r.cp, "tp x pp x cp in the GPUs")
  local interleaved = s:set "INTERLEAVED_PIPELINE"
  r.vp = 1
  if r.pp > 1 and interleaved == nil and known.interleaved > 1 then
    r.vp = known.interleaved
    context.assume("INTERLEAVED_PIPELINE is not set: %d", r.vp)
  elseif r.pp > 1 and interleaved then
    local text = tostring(interleaved):lower()
    r.vp = (text == "null" or text == "none" or text == "0") and 1
      or common.size(context, tonumber(text), "INTERLEAVED_PIPELINE")
  end
  r.micro_batch = size "MICRO_BATCH_SIZE"
  local minibatch = size "MINIBS" or context.need("MINIBS", "the sequences of a step and data-parallel rank")
  r.global_batch = minibatch * r.dp
  common.batches(context, r)
  r.zero = s:set "USE_DIST_OPTIMIZER" == false and 0 or 1
  r.sequence_parallel = r.tp > 1 and s:set "SEQ_PARALLEL" ~= false
  r.overlap = { tp = s:set "TP_COMM_OVERLAP" == true }
  r.account_for_embedding_and_loss = s:set "ASYM_PP_EMBED" and s:set "ASYM_PP_LOSS" or nil
  r.recompute, r.precision = { granularity = s:set "ACT_CKPT_GRANULARITY" or "none" }, { compute = "bf16" }
  if s:set "FP8" then
    r.precision.fp8_format, r.precision.fp8_params = "hybrid", s:set "FP8_PARAM_GATHER" == true
  end
  if s:set "FP4" then r.precision.fp4_format = "e2m1" end
  local layer, core = s:set "LAYER_CUDA_GRAPH", s:set "MCORE_CUDA_GRAPH"
  r.axes = { cuda_graphs = (layer or core) and { "layer" } or nil }
  r.model_name, r.benchmark = known.model, name
  if known.peft then
    r.peft = { a2a = s:set "LORA_A2A" == true }
    for field, value in pairs(known.peft) do r.peft[field] = value end
  end
  return r
end

return mlperf
