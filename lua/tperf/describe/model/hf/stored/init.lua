--- The formats of a checkpoint's weights: from config.json's quantization_config or, where it has none, from a file
-- beside it. Tables, the head, norms and routers stay in 16 bits in all methods that are known. What is not understood
-- is kept by name: serving refuses it, training does not read it.
local catalogue = require "tperf.base.catalogue"
local methods = require "tperf.describe.model.hf.stored.methods"
local modules = require "tperf.describe.model.hf.stored.modules"
local roots = require "tperf.base.roots"
local account = require "tperf.describe.model.hf.account"
local tensors = require "tperf.describe.model.hf.stored.tensors"

local hf_stored = {}

-- The files in which quantisers put their settings, and the method of those that name none.
local COMPANIONS <const> = {
  { "hf_quant_config.json", "modelopt" }, { "quantize_config.json", "gptq" }, { "quant_config.json", "awq" },
}

-- The settings of the first file beside config.json, and its method.
local function beside(path)
  local folder = path:match "^(.*/)[^/]*config%.json$" or path:find "^[^/]*config%.json$" and ""
  for _, one in ipairs(folder and COMPANIONS or {}) do
    local name = folder .. one[1]
    if name ~= path and roots.exists(name) then
      local content = catalogue.read(name)
      if type(content) ~= "table" then return {}, ("an unreadable %s"):format(one[1]) end
      return content, type(content.quant_method) == "string" and content.quant_method or one[2]
    end
  end
end

-- ModelOpt's files name the method only through the producer's name, MLX's not at all.
local function method_of(q)
  if type(q.quant_method) == "string" then return q.quant_method end
  local producer = type(q.producer) == "table" and q.producer.name
  if producer == "modelopt" then return "modelopt" end
  return q.bits and q.group_size and not q.quant_method and "MLX's groups" or "an unnamed method"
end

-- The settings, and the name of their method; nil: 16 bits.
local function settings_of(c, path)
  for _, reader in ipairs { c, c.outer } do
    for _, key in ipairs { "quantization_config", "compression_config", "quantization" } do
      local q = reader:table(key)
      if q then
        return q, key == "compression_config" and "compressed-tensors" or method_of(q)
      end
    end
  end
  return beside(path)
end

-- The dtype in which the products of a format multiply unless a file says otherwise.
local PRODUCTS <const> = { fp8 = "fp8", ["fp8-block"] = "fp8", mxfp8 = "fp8", nvfp4 = "fp4", int8 = "int8" }

local function key_of(format)
  if type(format) ~= "table" then return format end
  return ("%s/%s/%s/%s"):format(format.bits, format.group, format.zero_points, format.scale)
end

-- Makes the values that modules have: { format, products = the dtype, if it is not the format's usual one }, the same
-- table for the same value.
local function values()
  local known = {}
  return function(format, products)
    if products == PRODUCTS[format] or type(format) == "table" and products == "bf16" then products = nil end
    local key = ("%s %s"):format(key_of(format), products)
    known[key] = known[key] or { format, products = products }
    return known[key]
  end
end

-- The lists by which a method says what is quantised, as one of modules.list, of which the last match counts; and the
-- value of all other modules. nil and a name that is not understood.
local function list_of(found, experts)
  local list, value = {}, values()
  local usual = found.format and value(found.format, found.products) or false
  local function add(names, of)
    local more, fault = modules.list(names)
    for _, one in ipairs(more or {}) do
      one.value, list[#list + 1] = of, one
    end
    return fault
  end
  for _, group in ipairs(found.groups or {}) do
    local names, of = {}, value(group.format, group.products)
    for _, target in ipairs(group.targets) do
      if target == "Linear" then usual = of else names[#names + 1] = target end
    end
    local fault = add(names, of)
    if fault then return nil, fault end
  end
  for _, one in ipairs(found.listed or {}) do
    local fault = add({ one.name }, value(one.format, one.products))
    if fault then return nil, fault end
  end
  if experts then add({ "experts" }, value(experts)) end
  local fault = add(found.ignore, false)
  if fault then return nil, fault end
  return list, usual
end

local WIDE <const> = { float32 = 4, float64 = 8 } -- bytes of weights that are not quantised; others: 2

local function dtype_of(c)
  local dtype
  for _, reader in ipairs { c, c.outer } do
    if not dtype and reader:has "torch_dtype|dtype" then dtype = reader:value "torch_dtype|dtype" end
  end
  return dtype
end

local function wide_of(c) return WIDE[dtype_of(c)] or 2 end

-- Keeps how to count the tensors of the file's checkpoint. usual, value_of: of modules.by_part; none: 16 bits.
local function keep_tensors(c, path, dense, found, list, usual, value_of)
  local rules = { wide = wide_of(c), index = found.index, row_scale = found.row_scale, head = found.head,
    tables = found.tables, shape = found.shape, routers = found.routers }
  account.keep(path, function(m)
    if m.architecture then return nil, rules end
    local rows, fault = tensors.of(m, function(part) return modules.holders(part, dense) end, usual, value_of, rules)
    local unclear = rows and modules.unmatched(list, m)
    if unclear then return nil, rules, unclear end
    return rows, rules, fault
  end)
end

-- The values of all parts, by name; nil and a module that is not understood.
local function formats_of(m, found, c, path)
  -- DeepSeek-V4's experts have 4 bits, with one scale for 32.
  local list, usual = list_of(found, c:has "expert_dtype" and c:value "expert_dtype" == "fp4" and "mxfp4" or nil)
  if not list then return nil, usual end
  local dense = (c.fields.model_type or ""):find "^gemma4" ~= nil
  local function value_of(name, layer)
    local value, wrong = modules.value(list, name, layer)
    if value == nil and not wrong then return usual end
    return value, wrong
  end
  keep_tensors(c, path, dense, found, list, usual, value_of)
  local found_in, fault = modules.by_part(m, usual, value_of, dense)
  if not found_in then return nil, fault end
  local unclear = modules.unmatched(list, m)
  if unclear then return nil, unclear end
  return found_in
end

-- The record of a description: the format of routed experts, the usual one of all other parts, and those that differ.
local function record_of(method, found)
  local record, products = { method = method }, nil
  for _, part in ipairs(modules.PARTS) do
    local value = found[part]
    if value then
      if part == "experts" then record.experts = value[1] else record.layers = record.layers or value[1] end
      if products ~= nil and products ~= (value.products or false) then
        return { method = ("%s with products of several dtypes"):format(method) }
      end
      products = value.products or false
    end
  end
  if products == nil then return nil end -- all is in 16 bits
  record.products = products or nil
  for _, part in ipairs(modules.PARTS) do
    local format = found[part] and found[part][1] or "bf16"
    if part ~= "experts" and found[part] ~= nil and record.layers and format ~= record.layers then
      record[part] = format
    end
  end
  return record
end

local said = {} -- path -> whether a file says how the checkpoint is quantised, if only that nothing is

--- Whether the last file at this path, or one beside it, said how weights are stored.
function hf_stored.is_said(path) return said[path] end

--- The description's `stored`: formats by the names of tperf.describe.stored; only `method` if it is not known. nil:
--- 16 bits.
---@param c table  reader of tperf.input.config
---@param m table  the unfinished description
---@param path string  the file's
---@return table?
function hf_stored.of(c, m, path)
  local q, method = settings_of(c, path)
  said[path] = q ~= nil
  if not q then
    account.keep(path, nil)
    if dtype_of(c) then keep_tensors(c, path, false, {}, {}, false, function() return false end) end
    return nil
  end
  account.keep(path, nil)
  local found = methods[method] and methods[method](q)
  if not found or not (found.format or found.groups or found.listed_alone) and not found.fault then
    return { method = method }
  end
  if found.fault then return { method = ("%s with %s"):format(method, found.fault) } end
  local by_part, unclear = formats_of(m, found, c, path)
  if not by_part then return { method = ("%s without %s"):format(method, unclear) } end
  local record = record_of(method, by_part)
  if record then record.cache = found.cache end
  return record
end

return hf_stored
