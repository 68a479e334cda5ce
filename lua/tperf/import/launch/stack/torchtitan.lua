--- torchtitan: TOML that counts sequences (to February 2026), and Python configurations that count tokens (from August
--- 2026).
local axes = require "tperf.import.launch.arguments.axes"
local common = require "tperf.import.launch.stack.common"
local flavors = require "tperf.import.launch.stack.core.flavors"
local models = require "tperf.base.catalogue".shared(require "tperf.describe.model")

local torchtitan = {}

-- Schedules with one stage per rank. Of the others, the V-shaped ones have exactly 2.
-- Names are PyTorch's, in lower case and without the underscores of earlier versions.
local SINGLE <const> = { ["1f1b"] = "1f1b", gpipe = "gpipe" }
local V <const> = { zbvzerobubble = "zbv", dualpipev = "dualpipe_v" }
local LOOPED <const> = { interleaved1f1b = "interleaved_1f1b", loopedbfs = "interleaved_1f1b",
  interleavedzerobubble = "interleaved_1f1b", flexibleinterleaved1f1b = "interleaved_1f1b" }

local function degrees(s, context, r)
  local size = function(concept) return common.size(context, s:concept(concept), concept) end
  r.gpus, r.tp, r.pp, r.cp = common.gpus(context), size "tp" or 1, size "pp" or 1, size "cp" or 1
  r.cp_kind = common.cp_kind(context, r, s:set "parallelism.context_parallel_rotate_method", "all_gather")
  r.dp_replicate = size "dp.replicate" or 1
  local shard = s:concept "dp.shard"
  local others = r.dp_replicate * r.cp * r.tp * r.pp
  if shard == -1 then
    shard = common.divided(context, r.gpus, others, "replicate x cp x tp x pp in the GPUs")
  elseif shard * others ~= r.gpus then
    context.fail("replicate x shard x cp x tp x pp = %d, but %d GPUs", shard * others, r.gpus)
  end
  r.dp_shard, r.dp = shard, shard * r.dp_replicate
  r.zero_group = shard * r.cp
end

-- A model's name that the file does not say: a Python configuration is called after it, and after its flavor.
local function model_of(s, context)
  local name, size = s:concept "model.name", s:concept "model.size"
  local spec, called = s:set "model_spec", context["function"]
  if type(spec) == "table" and spec.call == "model_registry" and called then
    size = type(spec.first) == "string" and spec.first or nil
    local family = context.path:match "models/([%w_]+)/[%w_]*%.py$" -- as the repository has it
    if family and size then return family, size end
    local ending = size and "_" .. size:lower():gsub("[^%w]+", "_")
    local at = ending and (called:lower() .. "_"):find(ending .. "_", 1, true) -- llama3_8b, llama3_8b_mxfp8
    if not at then return nil end
    return called:sub(1, at - 1), size
  end
  return name and tostring(name), size
end

local function has_experts(name, flavor, ep)
  flavor = tostring(flavor)
  return ep > 1 or name == "llama4" or name == "gpt_oss" or name:find "^deepseek" ~= nil
    or flavor:find "%d[bB]%-?[xX]%d+[eE]" ~= nil or flavor:find "A%d+%.?%d*B" ~= nil or flavor:find "moe" ~= nil
end

local function experts(s, context, r)
  local moe = has_experts(tostring(r.model_name), r.model_size, s:concept "ep" or 1)
  r.ep, r.etp = common.size(context, s:concept "ep", "ep") or 1, 1
  s:set "parallelism.expert_tensor_parallel_degree" -- without ep it says nothing
  if r.ep > 1 then
    r.etp = s:concept "etp" or 1
    if r.etp ~= 1 and r.etp ~= r.tp then context.fail("expert tensor parallelism is 1 or tp, got %d", r.etp) end
    common.divided(context, r.dp_shard * r.cp * r.tp, r.ep * r.etp, "ep x etp in shard x cp x tp")
  elseif moe then
    r.etp = r.tp
  end
  if r.ep == 1 then r.etp_of_experts = r.tp end -- whichever model it is
end

-- FSDP over the shards, and over the GPUs that repeat an expert (distributed/parallel_dims.py: fsdp, efsdp); nothing if
-- both are one. By default pipelines do not reshard (distributed/fsdp.py, get_fsdp_reshard_after_forward_policy).
local function zero(s, r)
  local reshard = tostring(s:concept "zero")
  if r.zero_group == 1 and (r.ep == 1 or r.tp == r.ep * r.etp) then
    r.zero = 0
  else
    common.fsdp(r, reshard == "always" or reshard ~= "never" and r.pp == 1)
  end
end

local function stages(s, context, r)
  local name = tostring(s:concept "pipeline.schedule"):lower():gsub("_", "")
  r.vp = 1
  if r.pp == 1 then return end
  r.schedule = SINGLE[name] or V[name] or LOOPED[name]
    or context.fail("pipeline schedule %s is not known", tostring(name))
  if V[name] then
    r.vp = 2
    return
  end
  local each = s:set "parallelism.pipeline_parallel_layers_per_stage"
  if each then
    local model = ("%s %s"):format(r.model_name or "the model", r.model_size or "")
    local known = flavors.model(r.model_name, r.model_size)
    local layers = common.size(context, context.given.layers, "layers") or known and models(known).layers
      or context.need("layers", "the layers of " .. model)
    layers = layers + (s:get "parallelism.pipeline_parallel_first_stage_less_layers" or 1)
      + (s:get "parallelism.pipeline_parallel_last_stage_less_layers" or 1)
    r.vp = common.divided(context, -(-layers // each), r.pp, "pp in the stages")
  elseif LOOPED[name] then
    r.vp = 2
  end
  if SINGLE[name] and r.vp > 1 then context.fail("%s has one stage on a rank, got %d", name, r.vp) end
  if LOOPED[name] and r.vp == 1 then context.fail("%s needs several stages on a rank", name) end
end

-- Sets the batches in sequences, converted from tokens if the file counts those.
local function sequences(s, context, r)
  local tokens = s.table.by_name["training.num-tokens-per-microbatch-per-dp-rank"] ~= nil
  r.seq = common.size(context, s:concept "seq", "seq")
  local whole = function(count, what)
    if not tokens or count == -1 then return count end
    return common.divided(context, count, r.seq, "the sequence in " .. what)
  end
  local global, local_batch
  if tokens then
    r.micro_batch = whole(s:get "training.num_tokens_per_microbatch_per_dp_rank", "the tokens of a micro-batch")
    local_batch = r.micro_batch * (r.pp > 1 and s:get "parallelism.num_pp_microbatches" or 1)
    global = whole(s:get "training.num_tokens_per_train_step", "the tokens of a step")
  else
    local_batch = s:set "training.batch_size" or s:get "training.local_batch_size"
    r.micro_batch, global = local_batch, s:get "training.global_batch_size"
    if r.pp > 1 then
      r.micro_batch = s:get "parallelism.pipeline_parallel_microbatch_size"
      local count = s:set "experimental.pipeline_parallel_microbatches"
        or s:set "experimental.pipeline_parallel_degree"
      if count then r.micro_batch = common.divided(context, local_batch, count, "micro-batches in the local batch") end
    end
  end
  r.global_batch = global > 0 and global or local_batch * r.dp
  common.divided(context, r.global_batch, local_batch * r.dp, "local batch x dp in the global batch")
  common.batches(context, r)
end

local CONVERTERS <const> = { float8 = true, ["quantize.linear.float8"] = true }
-- Products that float8 leaves out as predictions do: the output table's and the router's.
local LEFT_OUT <const> = { output = true, lm_head = true, ["router.gate"] = true }

-- Whether all of an option's words are known; only then is it marked as read.
local function all_of(s, option, words)
  local entry = s.by_option[option]
  for _, one in ipairs(entry and (type(entry.value) == "table" and entry.value or { entry.value }) or {}) do
    if not words[one] then return false end
  end
  s:set(option)
  return true
end

-- Products in float8; other converters are refused as options that are not in the prediction.
local function float8(s, precision)
  local converters = all_of(s, "model.converters", CONVERTERS) and s:set "model.converters" or {}
  if #converters > 0 then
    precision.fp8_recipe = s:get "quantize.linear.float8.recipe_name" or "tensorwise"
    precision.fp8_params = s:get "quantize.linear.float8.enable_fsdp_float8_all_gather" == true
    all_of(s, "quantize.linear.float8.filter_fqns", LEFT_OUT)
  end
  if s:set "float8.enable_float8_linear" then -- the name in 2024
    precision.fp8_recipe = "tensorwise"
    precision.fp8_params = s:set "float8.enable_fsdp_float8_all_gather" == true
    all_of(s, "float8.filter_fqns", LEFT_OUT)
  end
end

-- The recipe of the converters of a Python configuration, each with its arguments; nothing of it counts as read unless
-- all of it is predicted.
local function converted(s, precision, context)
  local entry = s.by_option["model_spec.converters"]
  local text = entry and type(entry.value) == "table" and entry.value.expression or ""
  local list = {}
  for name, arguments in text:gmatch "([%w_]+)%.Config(%b())" do list[#list + 1] = { name, arguments } end
  if #list ~= 1 then return end
  local name, arguments = list[1][1], list[1][2]
  local only = arguments:match "%f[%w_]fqns%s*=%s*(%b[])" or arguments:match "%f[%w_]fqns%s*=%s*([%w_]+)"
  if name == "Float8LinearConverter" and not arguments:find "emulate%s*=%s*True" then
    local without = arguments:match "filter_fqns%s*=%s*(%b[])" or ""
    for word in without:gmatch "[\"']([^\"']+)[\"']" do
      if not LEFT_OUT[word] then return end
    end
    precision.fp8_recipe = arguments:match "recipe_name%s*=%s*[\"']([%w_]+)" or "rowwise"
  elseif name == "MXFP8LinearConverter" and not only then
    precision.fp8_format, precision.fp8_recipe = "e4m3", "mxfp8"
  elseif name == "NVFP4LinearConverter" and only and only:find "^%[%s*[\"']layers[\"']%s*%]$" then
    precision.fp4_format = "e2m1"
  else
    return
  end
  s:set "model_spec.converters"
  if not text:find "lm_head" and name ~= "NVFP4LinearConverter" then
    context.assume "the product with the output table is in 16 bits"
  end
end

-- Activation checkpointing: by its mode in TOML, by its class in Python.
local CLASSES <const> = { ["FullAC.Config"] = { granularity = "full" }, None = { granularity = "none" },
  ["SelectiveAC.Config"] = { granularity = "selective", option = "op" } }

local function recomputation(s, context)
  local class = s:set "activation_checkpoint"
  if s.table.by_name["activation-checkpoint"] then
    local known = class == nil and CLASSES["SelectiveAC.Config"]
      or CLASSES[type(class) == "table" and class.call or class]
    return known or context.fail("activation_checkpoint %s is not modelled", tostring(type(class) == "table"
      and class.expression or class))
  end
  local mode = tostring(s:get "activation_checkpoint.mode" or "selective")
  if mode ~= "none" and mode ~= "full" and mode ~= "selective" then
    context.fail("activation_checkpoint.mode %s is not modelled", mode)
  end
  return { granularity = mode, option = mode == "selective"
    and tostring(s:get "activation_checkpoint.selective_ac_option" or "2") or nil }
end

-- The optimizer by its name (TOML), or by the function that makes it (Python); others are refused.
local OPTIMIZERS <const> = { Adam = true, AdamW = true, default_adamw = true }

local function optimizer(s)
  for _, option in ipairs { "optimizer.name", "optimizer" } do
    local entry = s.by_option[option]
    local value = entry and (type(entry.value) == "table" and entry.value.call or entry.value)
    if OPTIMIZERS[value] then s:set(option) end
  end
end

-- The cross-entropy: PyTorch's, whole or in chunks of the sequence.
local function loss(s, found)
  local entry = s.by_option.loss
  local class = entry and type(entry.value) == "table" and entry.value.call
  if class == "CrossEntropyLoss.Config" or class == "ChunkedLossWrapper.Config" then s:set "loss" end
  if class == "ChunkedLossWrapper.Config" then found.loss = "chunked" end
end

function torchtitan.read(s, context)
  local r = {}
  r.model_name, r.model_size = model_of(s, context)
  degrees(s, context, r)
  experts(s, context, r)
  stages(s, context, r)
  sequences(s, context, r)
  zero(s, r)
  r.sequence_parallel = s:get "parallelism.enable_sequence_parallel" ~= false and r.tp > 1
  r.recompute = recomputation(s, context)
  r.precision = { compute = common.dtype(s:get "training.mixed_precision_param"), params = common.dtype(
    s:get "training.dtype"), grads = common.dtype(s:get "training.mixed_precision_reduce") }
  float8(s, r.precision)
  converted(s, r.precision, context)
  optimizer(s)
  r.axes = axes.torchtitan(s, r)
  loss(s, r.axes)
  return r
end

return torchtitan
