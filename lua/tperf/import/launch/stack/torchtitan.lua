--- torchtitan: TOML that counts sequences (to February 2026), and Python configurations that count tokens (from August
--- 2026).
local axes = require "tperf.import.launch.arguments.axes"
local common = require "tperf.import.launch.stack.common"

local torchtitan = {}

-- Schedules with one stage per rank. Of the others, the V-shaped ones have exactly 2.
-- Names are PyTorch's, in lower case and without the underscores of earlier versions.
local SINGLE <const> = { ["1f1b"] = "1f1b", gpipe = "gpipe" }
local V <const> = { zbvzerobubble = "zbv", dualpipev = "dualpipe_v" }
local LOOPED <const> = { interleaved1f1b = "interleaved_1f1b", loopedbfs = "interleaved_1f1b",
  interleavedzerobubble = "interleaved_1f1b", flexibleinterleaved1f1b = "interleaved_1f1b" }

-- Layers of the flavors; the file only has their names.
local LAYERS <const> = { ["llama3 8B"] = 32, ["llama3 70B"] = 80, ["llama3 405B"] = 126, ["deepseek_v3 671B"] = 61,
  ["deepseek_v3 16B"] = 27, ["llama4 17bx16e"] = 48, ["llama4 17bx128e"] = 48 }

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

local function has_experts(name, flavor, ep)
  flavor = tostring(flavor)
  return ep > 1 or name == "llama4" or name == "gpt_oss" or name:find "^deepseek" ~= nil
    or flavor:find "%d[bB]%-?[xX]%d+[eE]" ~= nil or flavor:find "A%d+%.?%d*B" ~= nil or flavor:find "moe" ~= nil
end

local function experts(s, context, r)
  local moe = has_experts(tostring(s:concept "model.name"), s:concept "model.size", s:concept "ep" or 1)
  r.ep, r.etp = common.size(context, s:concept "ep", "ep") or 1, 1
  if r.ep > 1 then
    r.etp = s:concept "etp" or 1
    if r.etp ~= 1 and r.etp ~= r.tp then context.fail("expert tensor parallelism is 1 or tp, got %d", r.etp) end
    common.divided(context, r.dp_shard * r.cp * r.tp, r.ep * r.etp, "ep x etp in shard x cp x tp")
  elseif moe then
    r.etp = r.tp
  end
end

local function zero(s, r)
  if r.zero_group == 1 then return 0 end
  local reshard = tostring(s:concept "zero")
  if reshard == "always" then return 3 elseif reshard == "never" then return 2 end
  return r.pp > 1 and 2 or 3
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
    local model = ("%s %s"):format(s:concept "model.name", s:concept "model.size")
    local layers = common.size(context, context.given.layers, "layers") or LAYERS[model]
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

function torchtitan.read(s, context)
  local r = {}
  degrees(s, context, r)
  experts(s, context, r)
  stages(s, context, r)
  sequences(s, context, r)
  r.zero = zero(s, r)
  r.sequence_parallel = r.tp > 1 and s:get "parallelism.enable_sequence_parallel" ~= false
  local mode = tostring(s:get "activation_checkpoint.mode" or "selective")
  r.recompute = { granularity = mode, option = mode == "selective"
    and tostring(s:get "activation_checkpoint.selective_ac_option" or "2") or nil }
  r.precision = { compute = common.dtype(s:get "training.mixed_precision_param"), params = common.dtype(
    s:get "training.dtype"), grads = common.dtype(s:get "training.mixed_precision_reduce") }
  local converters = s:set "model.converters"
  if type(converters) == "table" and table.concat(converters, " "):find "float8" then
    r.precision.fp8_recipe = s:get "quantize.linear.float8.recipe_name" or "tensorwise"
    r.precision.fp8_params = s:get "quantize.linear.float8.enable_fsdp_float8_all_gather" == true
  end
  if s:set "float8.enable_float8_linear" then -- the name in 2024
    r.precision.fp8_recipe = "tensorwise"
    r.precision.fp8_params = s:set "float8.enable_fsdp_float8_all_gather" == true
  end
  r.model_name, r.model_size = s:concept "model.name", s:concept "model.size"
  r.axes = axes.torchtitan(s, r)
  return r
end

return torchtitan
