--- What the modules of stacks share. A module is a function(s, context) that turns settings s
-- (lua/tperf/import/launch/settings.lua) into a neutral reading. context: { gpus, gpus_otherwise, given,
-- gpus_of_launcher, assume(text), fail(format, …) }.
local check = require "tperf.base.check"
local checkpoints = require "tperf.import.launch.arguments.checkpoints"
local models = require "tperf.base.catalogue".shared(require "tperf.describe.model")

local common = {}

--- Gives a checkpoint's model the layers of multi-token prediction that the stack trains, whatever the checkpoint has.
---@param r table       the reading; its model_changes may be set
---@param context table
---@param layers integer
---@param why string    what the assumption says
function common.predicted_layers(r, context, layers, why)
  local name = checkpoints.model(r.model_name)
  if not name or models(name).mtp == layers then return end
  r.model_changes = { mtp = layers }
  context.assume(why)
end

--- The number of GPUs; raises if it is unknown.
function common.gpus(context)
  return context.gpus or context.gpus_otherwise or context.need("gpus", "how many GPUs")
end

--- whole / part; raises unless it is an integer.
function common.divided(context, whole, part, what)
  if part < 1 or whole % part ~= 0 then
    context.fail("%s: %d does not divide %d", what, part, whole)
  end
  return whole // part
end

--- vLLM's and SGLang's kernels of experts, as tperf.serve names them.
common.EXPERTS = { triton = "portable", flashinfer_trtllm = "fused", cutlass = "grouped",
  flashinfer_cutlass = "grouped", deep_gemm = "grouped" }

--- Whether attention runs in Triton, as tperf.serve names it; nil: in the kernels that the engine prefers.
function common.attention(backend)
  return tostring(backend):lower():find "^triton" and not tostring(backend):lower():find "mla" and "portable" or nil
end

--- "unfused" if Megatron-Core's attention is several kernels; nil if it is one, as by default.
function common.unfused(backend, implementation, flash)
  local name = tostring(backend):match "[%w_]+$" -- also of AttnBackend.unfused
  return (name == "unfused" or name == "local" or implementation == "local" and not flash) and "unfused" or nil
end

--- The largest of the numbers in a list, such as the batches of CUDA graphs; nil if there are none.
---@param list any
---@return integer?
function common.largest(list)
  local most
  for _, text in ipairs(type(list) == "table" and list or { list }) do
    for word in tostring(text):gmatch "%d+" do most = math.max(most or 0, math.tointeger(tonumber(word)) or 0) end
  end
  return most
end

--- Checks a size: an integer from 1 on.
function common.size(context, value, name)
  if value == nil then return nil end
  local size = math.tointeger(value)
  if not size or size < 1 or size > 1 << 31 then
    context.fail("%s must be a size from 1 on, got %s", name, check.show(value))
  end
  return size
end

--- Sets r.microbatches from the micro batch, the global batch and dp.
function common.batches(context, r)
  if not (r.micro_batch and r.global_batch and r.dp) then return r end
  local replica = common.divided(context, r.global_batch, r.dp, "dp in the global batch")
  r.microbatches = common.divided(context, replica, r.micro_batch, "the micro batch in a replica's share of the batch")
  return r
end

-- Kinds of context parallelism by the names of Megatron's cp_comm_type and PyTorch's rotate method. PyTorch's
-- all-to-all passes one block of keys after the other, as a ring does.
local CP_KINDS <const> = { p2p = "ring", alltoall = "ring", all_gather = "all_gather", allgather = "all_gather",
  a2a = "all_to_all" }

--- How context parallelism exchanges keys (cp_kind of tperf.train); nil without context parallelism.
---@param r table      with cp
---@param said any     the launch's name for it, or a list of names by layer
---@param usual string  the stack's default
function common.cp_kind(context, r, said, usual)
  if (r.cp or 1) == 1 then return nil end
  if type(said) == "table" then said = said[1] end
  if said == nil then return usual end
  local kind = CP_KINDS[tostring(said):lower()]
  if not kind then context.assume("context parallelism by %s: taken as %s", tostring(said), usual) end
  return kind or usual
end

--- Sets the stage of PyTorch's FSDP, which shards weights, gradients and states (ZeRO 3). Without resharding, which is
--- what it calls SHARD_GRAD_OP, weights are gathered with every micro-batch and kept until its backward pass: ZeRO 2
--- would gather them once a step, after the optimizer (torch/distributed/fsdp/api.py, ShardingStrategy).
---@param r table       receives zero, and reshard_after_forward = false
---@param reshards boolean  whether weights are let go after the forward pass
function common.fsdp(r, reshards)
  r.zero = 3
  if not reshards then r.reshard_after_forward = false end
end

--- Marks a server's option of the products' dtype as read if it has 16 bits, as predictions have it.
---@param s table       settings
---@param option string
function common.sixteen_bits(s, option)
  local entry = s.by_option[option]
  local dtype = tostring(entry and entry.value or "auto"):lower()
  if dtype == "auto" or dtype == "half" or dtype:find "16$" then s:set(option) end
end

--- A field of an option whose value is a map: a table, or JSON in a text, of which plain values are found.
---@param value any
---@param name string
---@return any
function common.field(value, name)
  if type(value) == "table" then
    local one = value[name]
    return type(one) == "table" and one[1] or one
  end
  local text = tostring(value)
  local plain = name:gsub("%p", "%%%0")
  return text:match(('"%s"%%s*:%%s*"([^"]*)"'):format(plain)) or text:match(('"%s"%%s*:%%s*([%%w.+-]+)'):format(plain))
end

-- Keys of config.json that change how positions are rotated, and how long a context may be.
local ROTATION <const> = { rope_scaling = true, rope_parameters = true, rope_type = true, type = true, factor = true,
  original_max_position_embeddings = true, rope_theta = true, max_position_embeddings = true, beta_fast = true,
  beta_slow = true, mscale = true, mscale_all_dim = true, attention_factor = true, mrope_section = true,
  mrope_interleaved = true, partial_rotary_factor = true, text_config = true }

--- Reads an option that overrides fields of config.json in JSON, if it has nothing but the rotation of positions: sets
--- r.seq_max to the context that follows, unless it is set. Others stay unread.
---@param s table       settings
---@param option string
---@param r table
function common.overridden(s, option, r)
  local text = s.by_option[option] and s.by_option[option].value
  if type(text) ~= "string" then return end
  for key in text:gmatch '"([%w_]+)"%s*:' do
    if not ROTATION[key] then return end
  end
  local function number(name) return tonumber(common.field(text, name)) end
  local longest, factor, original = number "max_position_embeddings", number "factor",
    number "original_max_position_embeddings"
  longest = longest or factor and original and factor * original
  if not longest and factor then return end -- of what length, the text does not say
  s:set(option)
  r.seq_max = r.seq_max or longest and math.floor(longest) or nil
end

--- Stacks' names of dtypes -> tperf's.
local DTYPES <const> = { bfloat16 = "bf16", bf16 = "bf16", float16 = "fp16", fp16 = "fp16", half = "fp16",
  float32 = "fp32", fp32 = "fp32", float = "fp32", ["torch.bfloat16"] = "bf16", ["torch.float16"] = "fp16",
  ["torch.float32"] = "fp32" }

function common.dtype(name) return DTYPES[tostring(name):lower()] or name end

return common
