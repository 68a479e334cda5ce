--- The stored format of a model's weights in a serving engine, and the dtype of its products: as asked for by dtypes
-- or a precision, else as in the model's checkpoint (the description's `stored`, from a Hugging Face
-- quantization_config). A precision applies to the layers' products; the embedding, the head and routers stay in 16
-- bits, as in checkpoints. `weight_dtype` applies to all weights.
local gguf = require "tperf.describe.gguf"
local precision = require "tperf.describe.precision"
local refusal = require "tperf.base.refusal"

local stored = {}

--- The parts of layers whose weights may be stored in formats of their own.
stored.PARTS = { "attention", "recurrent", "mlp", "shared_experts", "latents", "experts" }

local ENDS <const> = { "head", "table" } -- the output's table and the input's, which few formats narrow

-- bytes: per weight, with its share of scales; products: the dtype that the format's kernels multiply in, if the system
-- supports it.
local FORMATS <const> = {
  fp8 = { bytes = 1, products = "fp8" }, -- one scale per tensor or channel
  ["fp8-block"] = { bytes = 1 + 4 / (128 * 128), products = "fp8" }, -- arXiv 2412.19437, section 3.3
  mxfp8 = { bytes = 1 + 1 / 32, products = "fp8" }, -- OCP Microscaling 1.0, as the next
  mxfp4 = { bytes = 0.5 + 1 / 32, products = "bf16", with_fp4 = "fp8" }, -- by activations of 8 bits where GPUs have 4
  nvfp4 = { bytes = 0.5 + 1 / 16, products = "fp4" }, -- arXiv 2509.25149, section 2
  int8 = { bytes = 1, products = "int8" },
  int4 = { bytes = 0.5 + 2 / 128, products = "bf16" }, -- a 16-bit scale per 128 weights: usual in GPTQ and AWQ
  bf16 = {}, -- a part that is not quantised
}

-- The format of a name, or of { bits, group, zero_points, scale }.
local function format_of(given)
  if type(given) ~= "table" then return FORMATS[given] end
  local each = given.bits / 8
  local shared = given.group and (given.scale + (given.zero_points and each or 0)) / given.group or 0
  return { bytes = each + shared, products = "bf16" }
end

local function shown(given)
  if type(given) ~= "table" then return given or "bf16" end
  if given.bits % 1 ~= 0 then return ("%.3g bits"):format(given.bits) end
  return ("int%d%s"):format(given.bits, given.group and ("/%d"):format(given.group) or "")
end

-- The format of each part of a checkpoint, as it is given there.
local function given_by_part(s, m)
  if s.gguf then return gguf.parts(s.gguf, m) end
  local given = { head = s.head, table = s.table }
  for _, part in ipairs(stored.PARTS) do
    given[part] = part == "experts" and s.experts or part ~= "experts" and (s[part] or s.layers) or nil
  end
  return given
end

--- Bytes per weight of each part of a checkpoint's layers; nil: its method is not known.
---@param m table  a model with `stored`
---@return table<string, number>?
function stored.bytes(m)
  local s = m.stored
  if not (s.layers or s.experts or s.gguf) then return nil end
  local bytes = {}
  for part, given in pairs(given_by_part(s, m)) do bytes[part] = format_of(given).bytes end
  return bytes
end

-- Weights of all parts but routed experts in one format, and of those in another. { part = { bytes, products } }
local function of_both(layers, experts)
  local parts = {}
  for _, part in ipairs(stored.PARTS) do
    if part == "experts" then parts[part] = experts else parts[part] = layers end
  end
  return parts
end

local function asked_for(o, system)
  local r = precision.of(o.precision)
  precision.check_system(r, system)
  if r.first_layers + r.last_layers > 0 then
    refusal.raise "'precision': 'first_layers' and 'last_layers' are only for training; a server's layers are all alike"
  end
  local format = not r.wide and { bytes = r.weight, products = r.dtype } or nil
  return { parts = of_both(r.products ~= "experts" and format or nil, r.products ~= "dense" and format or nil),
    name = r.name }, r.dtype
end

-- The dtype in which a format's products multiply on a system.
local function products_of(format, s, system)
  local tensor = system.accelerator.tensor
  local dtype = s.products or tensor.fp4 and format.with_fp4 or format.products
  return tensor[dtype] and dtype or "bf16"
end

-- The name of a checkpoint's formats: that of its layers, and of the parts that differ.
local function name_of(s)
  local names = { shown(s.layers) }
  for _, part in ipairs(stored.PARTS) do
    local own = s[part]
    if part == "experts" and not s.experts and s.layers then own = nil end
    if own and shown(own) ~= names[1] then names[#names + 1] = ("%s %s"):format(part:gsub("_", " "), shown(own)) end
  end
  return table.concat(names, ", ")
end

-- s: formats as a description's `stored` has them, or the name of a mix.
local function of_checkpoint(what, s, m, system)
  local parts = {}
  if not (s.layers or s.experts or s.gguf) then
    refusal.raise("%s: model '%s' stores its weights by '%s', which is not known: give 'weight_dtype' or 'precision'",
      what, m.name, s.method)
  end
  for part, given in pairs(given_by_part(s, m)) do
    local format = format_of(given)
    if format.bytes then parts[part] = { bytes = format.bytes, products = products_of(format, s, system) } end
  end
  if s.gguf then return { parts = parts, name = s.gguf:lower() }, "bf16" end
  local main = format_of(s.layers or s.experts)
  return { parts = parts, name = name_of(s) }, products_of(main, s, system)
end

-- Sets the products of all parts to one dtype, if it is asked for, and the key by which layouts are remembered.
local function complete(weights, dtype)
  local words = {}
  for _, list in ipairs { stored.PARTS, ENDS } do
    for _, part in ipairs(list) do
      local one = weights.parts[part]
      if one and dtype then one.products = dtype end
      words[#words + 1] = one and ("%.17g %s"):format(one.bytes, one.products) or "-"
    end
  end
  weights.key, weights.ends = table.concat(words, " "), weights.parts.head ~= nil or weights.parts.table ~= nil
  return weights
end

--- Fills in the dtypes that the arguments leave open.
---@param o table  checked arguments, changed in place: sets weight_dtype, compute_dtype, and other_dtype: the dtype of
---   products whose weights are not stored as `weights` says
---@return table? weights  { parts = { part = { bytes = per weight, products = dtype }, absent: 16 bits }, name, key,
---   ends = whether "head" or "table" is among the parts }; nil: all weights are stored in o.weight_dtype
function stored.fill(what, o, model, system)
  local weights, products
  local asked = o.compute_dtype
  if gguf.is(o.weight_dtype) then
    weights, products = of_checkpoint(what, { gguf = o.weight_dtype }, model, system)
    o.weight_dtype = nil
  elseif o.precision and not o.weight_dtype then
    weights, products = asked_for(o, system)
  elseif o.precision then
    products = precision.of(o.precision).dtype
  elseif not o.weight_dtype and model.stored then
    weights, products = of_checkpoint(what, model.stored, model, system)
  end
  o.compute_dtype = asked or products or "bf16"
  o.weight_dtype = o.weight_dtype or "bf16"
  o.other_dtype = o.compute_dtype
  if not weights or not next(weights.parts) then return nil end
  o.other_dtype = "bf16"
  return complete(weights, asked)
end

return stored
