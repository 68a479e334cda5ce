--- A stack that only has a table of options: its concepts are taken literally.
local common = require "tperf.import.launch.stack.common"

local generic = {}

-- The product of a concept's options: MaxText has ici_… (inside a slice) and dcn_… (between slices) for each axis.
local function product(s, context, concept)
  local value, open, seen = 1, false, false
  for _, row in ipairs(s.table.by_concept[concept] or {}) do
    local one = s:get(row.option)
    if one ~= nil then
      seen = true
      if one == -1 then open = true else value = value * common.size(context, one, row.option) end
    end
  end
  return seen and value or nil, open
end

local function sizes(s, context, r)
  local open
  for _, axis in ipairs { "tp", "pp", "cp", "ep" } do
    local value, rest = product(s, context, axis)
    r[axis], open = value or 1, open or rest and axis
  end
  local shard, rest_shard = product(s, context, "dp.shard")
  local replicate, rest_replicate = product(s, context, "dp.replicate")
  local dp, rest_dp = product(s, context, "dp")
  local given = (shard or 1) * (replicate or 1) * (dp or 1)
  open = open or (rest_shard or rest_replicate or rest_dp) and "dp"
  local known = (dp or shard or replicate) and not open
  local others = r.tp * r.pp * r.cp
  r.gpus = context.gpus or known and given * others or common.gpus(context)
  r.dp = given
  if open then
    r[open] = (r[open] or 1) * common.divided(context, r.gpus, others * given, "the product of all axes in the GPUs")
  elseif not known then
    r.dp = common.divided(context, r.gpus, others, "tp x pp x cp in the GPUs")
  elseif r.dp * others ~= r.gpus then
    context.fail("the axes multiply to %d, but there are %d GPUs", r.dp * others, r.gpus)
  end
  r.zero_group = shard
  if open == "dp" and rest_shard then r.zero_group = r.dp // ((replicate or 1) * (dp or 1)) end
end

local STRATEGIES <const> = { full_shard = 3, shard_grad_op = 3, no_shard = 0, ddp = 0, none = 0 }
-- PyTorch's strategies that keep gathered weights until the backward pass.
local KEEPING <const> = { shard_grad_op = true }

-- The ZeRO stage from a number, a switch, a strategy's name, or a file name such as "ds_z3_config.json".
local function stage(s, context, r)
  local zero = s:concept "zero"
  if math.type(zero) == "integer" then return zero end
  if type(zero) == "string" then
    if KEEPING[zero:lower()] then r.reshard_after_forward = false end
    if zero:lower():find "^hybrid_shard" then
      context.fail("a strategy %s shards within a machine: which GPUs it has is not in the file", zero)
    end
    return STRATEGIES[zero:lower()] or tonumber(zero:lower():match "zero[_-]?(%d)" or zero:lower():match "z(%d)"
      or zero:lower():match "stage[_-]?(%d)") or nil
  end
  return zero == true and 1 or (r.zero_group or 1) > 1 and 3 or 0
end

local function training(s, context, r)
  sizes(s, context, r)
  r.vp = common.size(context, s:concept "vp", "vp") or 1
  r.etp = s:has "etp" and s:concept "etp" or 1
  if r.ep == 1 and not s:has "etp" then r.etp_of_experts = r.tp end -- as most stacks cut them
  local micro, option = s:concept "micro_batch"
  if type(micro) == "number" and option and option:find "per_device_batch" then
    micro = micro * r.gpus / r.dp -- it is counted per device, not per replica
  end
  r.micro_batch = common.size(context, micro, "the micro batch")
  local steps = s:concept "grad_accumulation"
  local global = s:concept "global_batch"
  if type(global) == "number" and global > 0 then r.global_batch = global end
  if not r.global_batch and r.micro_batch then r.global_batch = r.micro_batch * (steps or 1) * r.dp end
  common.batches(context, r)
  r.seq = common.size(context, s:concept "seq", "seq")
  r.zero = stage(s, context, r)
end

-- Caches by their bits, as LMDeploy's quant_policy has them.
local BITS <const> = { [0] = "auto", [4] = "int4", [8] = "int8" }

-- Layouts of checkpoints that say nothing of their dtypes.
local PLAIN <const> = { hf = true, llama = true }

local function serving(s, context, r)
  for _, axis in ipairs { "tp", "pp", "cp", "dp" } do r[axis] = common.size(context, s:concept(axis), axis) or 1 end
  r.gpus = r.tp * r.pp * r.cp * r.dp
  r.attention_tp, r.attention_dp = r.tp, r.dp
  local ep = s:concept "ep"
  r.ep = ep == true and r.tp * r.dp or math.tointeger(ep) or 1
  r.etp = math.max(1, r.tp // r.ep)
  r.max_batch, r.max_tokens = s:concept "scheduler.max_batch", s:concept "scheduler.max_tokens"
  r.seq_max, r.kv_dtype = s:concept "seq.max", s:concept "kv_cache.dtype"
  r.kv_dtype = BITS[r.kv_dtype] or r.kv_dtype
  local stored = s:concept "quantization"
  r.quantization, r.engine = not PLAIN[stored] and stored or nil, {}
  for _, row in ipairs(s.table.by_concept["dtype.compute"] or {}) do common.sixteen_bits(s, row.option) end
end

function generic.read(s, context)
  local r = {}
  if s.table.kind == "serving" then serving(s, context, r) else training(s, context, r) end
  context.assume("%s has no module of its own: its options are taken for what their concepts say", s.table.stack)
  r.model_name = s:concept "model.name" or s.table.kind == "serving" and s.words[1] or nil
  return r
end

return generic
