--- In which precision the products of layers with their weights run, as a table row each: what is
-- quantised, by which scales, in how many copies, and what is kept. The ops that it makes of a layer are in
-- tperf.describe.arch.narrowed. What stays in 16 bits whatever the recipe: the router, the embedding and the head,
-- gradients, and what layers send to each other; master weights and moments are the optimizer's.
--
--   bf16, fp16       16 bits; they cost the same
--   fp8-delayed      one scale a tensor, from the greatest numbers of earlier iterations: no pass of its own
--                    (Transformer Engine's DelayedScaling)
--   fp8-current      one scale a tensor, from its own greatest number: a pass that reads it first
--                    (Transformer Engine's Float8CurrentScaling; Megatron-Core's --fp8-recipe tensorwise)
--   fp8-block        one fp32 scale for 1 x 128 numbers of activations and gradients, 128 x 128 of weights
--                    (DeepSeek-V3, arXiv 2412.19437, section 3.3; Transformer Engine's Float8BlockScaling)
--   mxfp8            one byte of scale for 32 numbers (OCP Microscaling 1.0; Transformer Engine's MXFP8BlockScaling)
--   nvfp4            4 bits, one byte of scale for 16 numbers and one a tensor, hence a pass that reads it first; what
--                    the weight gradient multiplies goes through a 16 x 16 Hadamard transform (arXiv 2509.25149,
--                    section 4; Transformer Engine's NVFP4BlockScaling)
--   fp8-tensorwise, fp8-rowwise   torchao's Float8Linear: inputs are kept in 16 bits and quantised again in the
--                    backward pass, weights are quantised in every pass (torchao.float8)
--
-- Two copies of a tensor are needed where the matrix units read it from both sides: by rows for Y = X W, by columns
-- for the gradients. FP8 tensor cores of Hopper and Ada take factors whose inner dimension is contiguous (cuBLAS,
-- "TN" alone), so a tensor with one scale is written a second time, transposed; Blackwell takes any workload. Blocks
-- along rows are none along columns, so scales of blocks always need a second copy, made from the 16-bit numbers.
local check = require "tperf.base.check"
local workload = require "tperf.describe.workload"
local refusal = require "tperf.base.refusal"
local catalogue = require "tperf.base.catalogue"

local precision = {}

local BYTES <const> = { bf16 = 2, fp16 = 2, fp8 = 1, fp4 = 0.5 }

-- Generations whose matrix units take scales of blocks.
local SCALING <const> = { Blackwell = true, ["Blackwell Ultra"] = true, ["CDNA 4"] = true }

-- scale               bytes of one
-- block, weight_block numbers that share it (nil: all of a tensor)
-- own_columns         the copy by columns has scales of its own
-- column_scales       one a row, or a column, so that the copy by columns is made by kernels of its own, which read 16
--                     bits twice: for the scales and to write
-- measured            a pass over each tensor finds its greatest number first
-- hadamard            size of the transform
-- norms_quantise      a norm's kernel writes what the product behind it reads (Transformer Engine's LayerNormLinear)
-- units               generations whose matrix units can do it, where they need more than the dtype
-- The rest are the defaults of a table's fields.
local RECIPES <const> = {
  bf16 = { dtype = "bf16" },
  fp16 = { dtype = "fp16" },
  ["fp8-delayed"] = { dtype = "fp8", norms_quantise = true },
  ["fp8-current"] = { dtype = "fp8", measured = true },
  ["fp8-block"] = { dtype = "fp8", block = 128, weight_block = 128 * 128, scale = 4, own_columns = true },
  mxfp8 = { dtype = "fp8", block = 32, weight_block = 32, scale = 1, own_columns = true, units = SCALING,
    norms_quantise = true },
  nvfp4 = { dtype = "fp4", block = 16, weight_block = 16, scale = 1, own_columns = true, measured = true,
    hadamard = 16, units = SCALING },
  ["fp8-tensorwise"] = { dtype = "fp8", measured = true, inputs = "bf16", cached = false },
  ["fp8-rowwise"] = { dtype = "fp8", own_columns = true, column_scales = true, inputs = "bf16", cached = false,
    tensor_gather = "bf16" },
}

--- The recipes, in the order in which people meet them.
precision.names = { "bf16", "fp16", "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4", "fp8-tensorwise",
  "fp8-rowwise" }

local NARROW <const> = { "narrow", "bf16" }
local layers = check.integer { min = 0, max = 1 << 16, default = 0 }
local kept = check.choice { NARROW, optional = true }

--- The fields of a recipe of one's own.
precision.schema = {
  recipe = check.choice { precision.names },
  name = check.string { optional = true }, -- in answers; the recipe's, and what the table changes of it
  products = check.choice { { "all", "experts", "dense" }, default = "all" }, -- which run in it
  first_layers = layers, last_layers = layers, -- so many of the model's stay in bf16
  parameters = check.choice { NARROW, default = "bf16" }, -- narrow: they have no 16-bit copy (Megatron's fp8 params)
  gather = kept, -- what replicas gather of weights: as the parameters are
  cached = check.boolean { optional = true }, -- copies of weights live from micro-batch to micro-batch (true)
  inputs = kept, -- what is kept of a product's input for the backward pass (narrow)
  tensor_gather = kept, -- what a tensor-parallel gather of a product's input or gradient carries (narrow)
  weight_grad = kept, -- in which the weight gradient's product runs (narrow)
  activation = check.choice { { "fp8", "bf16" }, default = "bf16" }, -- how an activation function's inputs are kept
  -- How attention's output is kept: for its own backward pass in 16 bits, or once for both it and the product behind.
  attention_output = check.choice { { "bf16", "e5m6" }, default = "bf16" },
  dispatch = check.choice { { "fp8", "bf16" }, default = "bf16" }, -- how tokens, and their gradients, go to experts
  -- In which attention multiplies queries, keys and values (Transformer Engine's fp8_dpa); what it keeps stays.
  attention = check.choice { { "fp8", "bf16" }, default = "bf16" },
}

local given_as = check.one_of(check.choice { precision.names }, check.record_of(precision.schema))

-- A checker of the argument: a recipe's name, or a table of precision.schema.
local function checker_of(default)
  local function checked(value, path)
    if value == nil then return default end
    return given_as(value, path)
  end
  check.describe(checked, {
    kind = "one_of", default = default, optional = not default, choices = check.describe(given_as).choices,
  })
  return checked
end

--- Of training, where 16 bits are the default; of serving, where nothing may be asked.
precision.checker, precision.optional = checker_of "bf16", checker_of()

local function bytes_of(recipe, block) return BYTES[recipe.dtype] + (block and recipe.scale / block or 0) end

local known = {} -- name -> record

local ALL <const> = { products = "all", first_layers = 0, last_layers = 0, parameters = "bf16", activation = "bf16",
  attention_output = "bf16", dispatch = "bf16", attention = "bf16" }

-- "fp8-current (parameters narrow)": a recipe, and what a table says beyond its defaults.
local function name_of(o)
  local list = {}
  for _, field in ipairs(check.names(precision.schema)) do
    local said = field ~= "recipe" and field ~= "name" and o[field] ~= nil and o[field] ~= ALL[field]
    if said then list[#list + 1] = ("%s %s"):format(field:gsub("_", " "), tostring(o[field])) end
  end
  return #list > 0 and ("%s (%s)"):format(o.recipe, table.concat(list, ", ")) or o.recipe
end

local function record_of(value)
  local o = value
  if type(o) == "string" then
    o = { recipe = value }
    for name, field in pairs(ALL) do o[name] = field end
  elseif RECIPES[o.name] then
    check.fail("'precision.name' must not be a recipe's, got '%s'", o.name)
  end
  local recipe, r = RECIPES[o.recipe], {}
  for name, field in pairs(recipe) do r[name] = field end
  for name, field in pairs(o) do r[name] = field end
  r.name, r.wide = o.name or name_of(o), BYTES[recipe.dtype] == 2
  r.number, r.weight = bytes_of(recipe, recipe.block), bytes_of(recipe, recipe.weight_block)
  r.eight = BYTES.fp8 + (recipe.block and recipe.scale / recipe.block or 0)
  r.inputs = r.weight_grad == "bf16" and "bf16" or r.inputs or "narrow"
  r.tensor_gather, r.weight_grad = r.tensor_gather or "narrow", r.weight_grad or "narrow"
  r.gather = r.gather or r.parameters
  if r.cached == nil then r.cached = true end
  return r
end

--- What a checked argument says, completed: the recipe's row, the fields of precision.schema, and
---   wide             16 bits: nothing is quantised
---   number, weight   bytes of a number and of a weight, with their share of a scale
---   eight            bytes of a number in 8 bits, likewise
function precision.of(value)
  if type(value) ~= "string" then return record_of(value) end
  known[value] = known[value] or record_of(value)
  return known[value]
end

local function runs(r, system)
  local generation = system.generation -- which one's own need not say
  return rawget(system.accelerator.tensor, r.dtype) and (not r.units or not generation or r.units[generation])
end

local function holders(r)
  local list, system = {}, catalogue.shared(require "tperf.describe.system")
  for _, name in ipairs(catalogue.list "systems") do
    if runs(r, system(name)) then list[#list + 1] = name end
  end
  return table.concat(list, ", ")
end

--- Refuses a system whose matrix units do not multiply so, by the names of those that do.
function precision.check_system(r, system)
  if r.wide or runs(r, system) then return end
  refusal.raise("precision '%s' needs matrix units for %s%s, which system '%s' does not have; these have them: %s",
    r.name, r.dtype, r.units and " with scales of blocks" or "", system.name, holders(r))
end

local TRANSPOSING <const> = { Hopper = true, Ada = true }

-- Whether systems differ in what copies they need, and what they need.
local function transposes(r, systems)
  local first = TRANSPOSING[systems[1].generation] or false
  for _, system in ipairs(systems) do
    if (TRANSPOSING[system.generation] or false) ~= first then
      refusal.raise("precision '%s' keeps transposed copies on '%s' or on '%s', not on both: ask for each system by "
        .. "itself", r.name, systems[1].name, system.name)
    end
  end
  return first
end

local function check_sharded(r, zero)
  local whole, sharded = false, false
  for _, stage in ipairs(zero) do
    whole, sharded = whole or stage < 3, sharded or stage >= 3
  end
  if whole and sharded and r.cached then
    refusal.raise("precision '%s' keeps copies of weights between micro-batches, which zero = 3 cannot: ask for "
      .. "zero = 3 by itself", r.name)
  end
  return sharded
end

local function check_layers(r, p)
  if not p.rules.layers_from_description then
    refusal.raise("precision '%s' is of layers as they are described; rules '%s' know GPT-3's in 16 bits alone", r.name,
      p.rules.name)
  end
  for _, s in ipairs(p.strategies) do
    if s.panels then refusal.raise("precision '%s' is not for the products of strategy '%s'", r.name, s.name) end
  end
  if r.first_layers + r.last_layers >= p.model.layers then
    refusal.raise("precision: 'first_layers' and 'last_layers' leave none of the model's %d layers", p.model.layers)
  end
end

--- The record for these machines and a problem's strategies, rules and ZeRO stages; nil where all runs in 16 bits.
--- Further:
---   columns   "none", "transposed" or "own": the second copy of a tensor
---   copies    of a weight
---   key       the same for equal records
---@param p table  { model, rules, strategies, zero = the stages tried }
function precision.resolve(p, value, systems)
  local r = precision.of(value)
  for _, system in ipairs(systems) do precision.check_system(r, system) end
  if r.wide then return nil end
  check_layers(r, p)
  local made = {}
  for name, field in pairs(r) do made[name] = field end
  made.columns = r.own_columns and "own" or transposes(r, systems) and "transposed" or "none"
  made.copies = made.columns == "none" and 1 or 2
  if check_sharded(r, p.zero) then made.cached = false end
  made.key = workload.signature(made)
  return made
end

return precision
