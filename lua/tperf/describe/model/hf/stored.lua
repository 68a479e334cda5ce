--- The formats of a checkpoint's weights: config.json's quantization_config, as transformers, compressed-tensors
-- (vLLM's llm-compressor) and NVIDIA's ModelOpt write it. Weights of the embedding, the head and routers stay in 16
-- bits in all of them. An unknown method is kept only by name: serving refuses it, training does not read it.
local hf_stored = {}

-- Modules that stay in 16 bits in any case, by parts of their names.
local LEFT <const> = { "lm_head", "head", "embed", "router", "gate", "norm", "vis", "img", "image", "audio",
  "multi_modal", "projector", "mtp", "eh_proj", "conv1d", "linear_attn" }
local ATTENTION <const> = { "self_attn", "attention", "attn" }

local function finds(name, list)
  for _, part in ipairs(list) do
    if name:find(part, 1, true) then return true end
  end
  return false
end

-- Whether the unconverted modules include attention; nil and the first unknown name if there is one. Shared experts
-- have the format of attention: where they alone stay in 16 bits, that is unknown.
local function skipped(names)
  local attention, shared = false, nil
  for _, name in ipairs(names or {}) do
    if type(name) ~= "string" then return nil, "a module's name" end
    if finds(name, ATTENTION) and not name:find "layers%.?%d" then
      attention = true
    elseif name:find("shared_expert", 1, true) and not name:find "layers%.?%d" then
      shared = name
    elseif not finds(name, LEFT) and not finds(name, ATTENTION) then
      return nil, name
    end
  end
  if shared and not attention then return nil, shared end
  return attention
end

local function first_of(config, ...)
  for _, name in ipairs { ... } do
    if type(config[name]) == "table" then return config[name] end
  end
end

local function is_block(size) return type(size) == "table" and size[1] == 128 and size[2] == 128 end

local METHODS = {}

function METHODS.fp8(q)
  if q.weight_block_size == nil then return "fp8" end
  return is_block(q.weight_block_size) and "fp8-block" or nil
end

-- transformers converts only gpt-oss's experts.
function METHODS.mxfp4() return "mxfp4", true end

local function of_bits(q) return q.bits == 4 and "int4" or q.bits == 8 and "int8" or nil end
METHODS.gptq, METHODS.awq = of_bits, of_bits

local ALGORITHMS <const> = { FP8 = "fp8", NVFP4 = "nvfp4", FP8_PB_WO = "fp8-block", MXFP8 = "mxfp8" }
function METHODS.modelopt(q)
  local inner = type(q.quantization) == "table" and q.quantization or q
  return ALGORITHMS[inner.quant_algo]
end
METHODS.modelopt_fp4 = METHODS.modelopt

-- The format of one compressed-tensors group, from its bits, type and scale granularity.
local function of_group(group)
  local w = type(group) == "table" and group.weights
  if type(w) ~= "table" then return nil end
  if w.type == "float" and w.num_bits == 8 then
    if w.strategy == "group" then return w.group_size == 32 and "mxfp8" or nil end
    if w.strategy == "block" then return is_block(w.block_structure) and "fp8-block" or nil end
    return "fp8"
  elseif w.type == "float" and w.num_bits == 4 then
    return w.group_size == 16 and "nvfp4" or w.group_size == 32 and "mxfp4" or nil
  elseif w.type == "int" then
    return w.num_bits == 8 and "int8" or w.num_bits == 4 and "int4" or nil
  end
end

METHODS["compressed-tensors"] = function(q)
  local format
  for _, group in pairs(type(q.config_groups) == "table" and q.config_groups or {}) do
    local one = of_group(group)
    if not one or format and one ~= format then return nil end -- groups that differ
    format = one
  end
  return format
end

-- ModelOpt's files name the method only through the producer's name.
local function method_of(q)
  if type(q.quant_method) == "string" then return q.quant_method end
  local producer = type(q.producer) == "table" and q.producer.name
  return producer == "modelopt" and "modelopt" or nil
end

--- { method, layers, experts } from a parsed config: formats by the names of tperf.describe.stored; only method if it
--- is not known. nil: 16 bits.
---@param c table  reader of tperf.input.config
---@return table?
function hf_stored.of(c)
  local q = c:table "quantization_config" or c.outer and c.outer:table "quantization_config"
  if not q then return nil end
  local method = method_of(q)
  local format, experts_alone
  if METHODS[method] then format, experts_alone = METHODS[method](q) end
  local inner = type(q.quantization) == "table" and q.quantization or q
  local attention, unknown = skipped(first_of(inner, "modules_to_not_convert", "ignore", "exclude_modules"))
  if not format then return { method = method or "an unnamed method" } end
  if unknown then return { method = ("%s without %s"):format(method, unknown) } end
  return { method = method, layers = not (attention or experts_alone) and format or nil, experts = format }
end

return hf_stored
