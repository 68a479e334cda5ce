--- In which precision the products of layers with their weights run, as a table row each: what is
-- quantised, by which scales, in how many copies, and what is kept. The ops that it makes of a layer are in
-- tperf.describe.arch.narrowed. What stays in 16 bits whatever the recipe: the router, the embedding and the head,
-- gradients, and what layers send to each other; master weights and moments are the optimizer's.
--
--   bf16, fp16       16 bits, at the same cost
--   fp8-delayed      one scale per tensor, from the maxima of earlier iterations: no extra pass
--                    (Transformer Engine's DelayedScaling)
--   fp8-current      one scale per tensor, from its own maximum: a pass that reads it first
--                    (Transformer Engine's Float8CurrentScaling; Megatron-Core's --fp8-recipe tensorwise)
--   fp8-block        one fp32 scale per 1 x 128 numbers of activations and gradients, 128 x 128 of weights
--                    (DeepSeek-V3, arXiv 2412.19437, section 3.3; Transformer Engine's Float8BlockScaling)
--   mxfp8            one byte of scale per 32 numbers (OCP Microscaling 1.0; Transformer Engine's MXFP8BlockScaling)
--   nvfp4            4 bits, one byte of scale per 16 numbers and one scale per tensor, hence a pass that reads it
--                    first; the inputs of the weight gradient go through a 16 x 16 Hadamard transform (arXiv
--                    2509.25149, section 4; Transformer Engine's NVFP4BlockScaling)
--   fp8-tensorwise, fp8-rowwise   torchao's Float8Linear: inputs are kept in 16 bits and quantised again in the
--                    backward pass, weights are quantised in every pass (torchao.float8)
--   int8             8-bit integers with a scale for each row and column, made anew for each product, also of gradients
--                    (AQT, MaxText's quantization = int8)
--
-- Two copies of a tensor are needed if the matrix units read it from both sides: by rows for Y = X W, by columns
-- for the gradients. FP8 tensor cores of Hopper and Ada need a contiguous inner dimension (cuBLAS, only "TN"), so a
-- tensor with one scale is written a second time, transposed; Blackwell takes any layout, but torchao turns tensors for
-- every GPU (float8_ops.py, preprocess_addmm). Blocks along rows are not blocks along columns, so block scales always
-- need a second copy, made from the 16-bit numbers.
local check = require "tperf.base.check"
local workload = require "tperf.describe.workload"
local refusal = require "tperf.base.refusal"
local catalogue = require "tperf.base.catalogue"
local roots = require "tperf.base.roots"

local precision = {}

local BYTES <const> = { bf16 = 2, fp16 = 2, fp8 = 1, int8 = 1, fp4 = 0.5 }

-- Generations whose matrix units support block scales.
local SCALING <const> = { Blackwell = true, ["Blackwell Ultra"] = true, ["CDNA 4"] = true }

-- scale               bytes of one scale
-- block, weight_block numbers that share a scale (nil: the whole tensor)
-- own_columns         the copy by columns has separate scales
-- column_scales       one scale per row or column, so that separate kernels make the copy by columns and read 16
--                     bits twice: for the scales and for writing
-- measured            a pass over each tensor finds its maximum first
-- hadamard            size of the transform
-- norms_quantise      a norm's kernel writes the quantised input of the next product (Transformer Engine's
--                     LayerNormLinear)
-- row_multiple        of rows of an expert that its products want (tperf/describe/arch/experts/padding.lua)
-- turned              the copy by columns is a transposition on every GPU
-- units               generations whose matrix units support it, if the dtype is not enough
-- The other fields are defaults of precision.schema's fields.
local RECIPES <const> = {
  bf16 = { dtype = "bf16" },
  fp16 = { dtype = "fp16" },
  ["fp8-delayed"] = { dtype = "fp8", row_multiple = 16, norms_quantise = true },
  ["fp8-current"] = { dtype = "fp8", row_multiple = 16, measured = true },
  ["fp8-block"] = { dtype = "fp8", row_multiple = 16, block = 128, weight_block = 128 * 128, scale = 4,
    own_columns = true },
  mxfp8 = { dtype = "fp8", row_multiple = 32, block = 32, weight_block = 32, scale = 1, own_columns = true,
    units = SCALING, norms_quantise = true },
  nvfp4 = { dtype = "fp4", row_multiple = 32, block = 16, weight_block = 16, scale = 1, own_columns = true,
    measured = true, hadamard = 16, units = SCALING },
  ["fp8-tensorwise"] = { dtype = "fp8", row_multiple = 16, padding = "sort", measured = true, inputs = "bf16",
    cached = false, turned = true },
  ["fp8-rowwise"] = { dtype = "fp8", row_multiple = 16, padding = "sort", own_columns = true, column_scales = true,
    inputs = "bf16", cached = false, tensor_gather = "bf16" },
  int8 = { dtype = "int8", row_multiple = 16, own_columns = true, column_scales = true, inputs = "bf16", cached = false,
    tensor_gather = "bf16" },
}

--- The recipes, in display order.
precision.names = { "bf16", "fp16", "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4", "fp8-tensorwise",
  "fp8-rowwise", "int8" }

local NARROW <const> = { "narrow", "bf16" }
local layers = check.integer { min = 0, max = 1 << 16, default = 0 }
local kept = check.choice { NARROW, optional = true }

--- The fields of a custom recipe.
precision.schema = {
  recipe = check.choice { precision.names },
  name = check.string { name = true, optional = true }, -- in answers; default: the recipe's name and the changed fields
  products = check.choice { { "all", "experts", "dense" }, default = "all" }, -- products that run in it
  first_layers = layers, last_layers = layers, -- number of the model's layers that stay in bf16
  parameters = check.choice { NARROW, default = "bf16" }, -- narrow: no 16-bit copy (Megatron's fp8 params)
  gather = kept, -- what replicas gather of weights; default: as `parameters`
  cached = check.boolean { optional = true }, -- copies of weights live across micro-batches (true)
  inputs = kept, -- the form of a product's input kept for the backward pass (narrow)
  tensor_gather = kept, -- what tensor-parallel gathers of a product's input or gradient carry (narrow)
  weight_grad = kept, -- precision of the weight gradient's product (narrow)
  activation = check.choice { { "fp8", "bf16" }, default = "bf16" }, -- how an activation function's inputs are kept
  -- Attention's output is kept in 16 bits for its own backward pass, or once for both it and the next product.
  attention_output = check.choice { { "bf16", "e5m6" }, default = "bf16" },
  dispatch = check.choice { { "fp8", "bf16" }, default = "bf16" }, -- how tokens, and their gradients, go to experts
  padding = check.choice { { "experts", "sort", "router" }, optional = true }, -- of rows (arch/experts/padding.lua)
  -- The products of experts, their activation and the quantisation between them are two kernels in each pass
  -- (Transformer Engine's fused grouped MLP, of mxfp8 alone).
  fused_experts = check.boolean { default = false },
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

--- The checkers of training (default 16 bits) and of serving (optional).
precision.checker, precision.optional = checker_of "bf16", checker_of()

local function bytes_of(recipe, block) return BYTES[recipe.dtype] + (block and recipe.scale / block or 0) end

local known = {} -- name -> record

local ALL <const> = { products = "all", first_layers = 0, last_layers = 0, parameters = "bf16", activation = "bf16",
  attention_output = "bf16", dispatch = "bf16", attention = "bf16", fused_experts = false }

-- "fp8-current (parameters narrow)": the recipe, and the fields that differ from its defaults.
local function name_of(o)
  local list = {}
  for _, field in ipairs(check.names(precision.schema)) do
    local said = field ~= "recipe" and field ~= "name" and o[field] ~= nil and o[field] ~= ALL[field]
    if said then list[#list + 1] = ("%s %s"):format(field:gsub("_", " "), tostring(o[field])) end
  end
  return #list > 0 and ("%s (%s)"):format(o.recipe, table.concat(list, ", ")) or o.recipe
end

local FUSES <const> = "mxfp8" -- the recipe whose experts' kernels may be fused

local function record_of(value)
  local o = value
  if type(o) == "string" then
    o = { recipe = value }
    for name, field in pairs(ALL) do o[name] = field end
  elseif RECIPES[o.name] then
    check.fail("'precision.name' must not be a recipe's, got '%s'", o.name)
  end
  if o.fused_experts and o.recipe ~= FUSES then
    check.fail("'precision.fused_experts' is for recipe '%s', got '%s'", FUSES, o.recipe)
  end
  local recipe, r = RECIPES[o.recipe], {}
  for name, field in pairs(recipe) do r[name] = field end
  for name, field in pairs(o) do r[name] = field end
  r.name, r.wide = o.name or name_of(o), BYTES[recipe.dtype] == 2
  r.number, r.weight = bytes_of(recipe, recipe.block), bytes_of(recipe, recipe.weight_block)
  r.eight = BYTES.fp8 + (recipe.block and recipe.scale / recipe.block or 0)
  r.inputs = r.weight_grad == "bf16" and "bf16" or r.inputs or "narrow"
  r.tensor_gather, r.weight_grad = r.tensor_gather or "narrow", r.weight_grad or "narrow"
  r.gather, r.padding = r.gather or r.parameters, r.padding or "experts"
  if r.cached == nil then r.cached = true end
  return r
end

--- The record of a checked argument, completed: the recipe's row, the fields of precision.schema, and
---   wide             true: 16 bits, nothing is quantised
---   number, weight   bytes per number and per weight, each with its share of a scale
---   eight            bytes per number in 8 bits, with its share of a scale
function precision.of(value)
  if type(value) ~= "string" then return record_of(value) end
  known[value] = known[value] or record_of(value)
  return known[value]
end

local function runs(r, system)
  local generation = system.generation -- optional in custom systems
  return rawget(system.accelerator.tensor, r.dtype) and (not r.units or not generation or r.units[generation])
end

local function holders(r)
  local list, system = {}, catalogue.shared(require "tperf.describe.system")
  roots.browse(function()
    for _, name in ipairs(catalogue.list "systems") do
      if runs(r, system(name)) then list[#list + 1] = name end
    end
  end)
  return table.concat(list, ", ")
end

--- Raises if a system's matrix units do not support the recipe, and names the systems that do.
function precision.check_system(r, system)
  if r.wide or runs(r, system) then return end
  refusal.raise("precision '%s' needs matrix units for %s%s, which system '%s' does not have; these have them: %s",
    r.name, r.dtype, r.units and " with scales of blocks" or "", system.name, holders(r))
end

local TRANSPOSING <const> = { Hopper = true, Ada = true }

-- Whether the systems need transposed copies; raises if they differ.
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
    refusal.raise("precision '%s' needs layers from the description; rules '%s' only know GPT-3's in 16 bits", r.name,
      p.rules.name)
  end
  for _, s in ipairs(p.strategies) do
    if s.panels then refusal.raise("precision '%s' is not for the products of strategy '%s'", r.name, s.name) end
  end
  if r.first_layers + r.last_layers >= p.model.layers then
    refusal.raise("precision: 'first_layers' and 'last_layers' leave none of the model's %d layers", p.model.layers)
  end
end

-- What blocks read. Each field is nil where it is as in 16 bits, so that blocks that do not depend on it are the same.
--   kept_element   bytes per number of an activation's input
--   sent_element   bytes per number of tokens, and their gradients, that travel to experts
--   fused_dtype    in which fused attention multiplies
--   row_multiple, row_padding   of the rows of each expert, and who adds them
--   fused_experts  whether the activation between experts' products is part of their kernels
local function share_of(r)
  local padded = r.products ~= "dense" and r.row_multiple or nil
  return {
    kept_element = r.activation == "fp8" and r.eight or nil, sent_element = r.dispatch == "fp8" and r.eight or nil,
    fused_dtype = r.attention == "fp8" and "fp8" or nil, row_multiple = padded, row_padding = padded and r.padding,
    fused_experts = padded and r.fused_experts or nil,
  }
end

--- The record for these systems and a problem's strategies, rules and ZeRO stages; nil if everything runs in 16 bits.
--- Adds:
---   columns   "none", "transposed" or "own": the second copy of a tensor
---   copies    number of copies of a weight
---   key       the same for equal records
---   share     the fields of blocks' shares that it decides
---@param p table  { model, rules, strategies, zero = the stages tried }
---@param peft table?  the question's adapters
function precision.resolve(p, value, systems, peft)
  local r = precision.of(value)
  for _, system in ipairs(systems) do precision.check_system(r, system) end
  if r.wide then return nil end
  if peft and peft.kind == "qlora" then
    refusal.raise("precision '%s' is not for peft.kind = \"qlora\", whose frozen weights are multiplied in 16 bits "
      .. "(arXiv 2305.14314): ask for precision = \"bf16\", or kind = \"lora\"", r.name)
  end
  check_layers(r, p)
  local made = {}
  for name, field in pairs(r) do made[name] = field end
  made.columns = r.own_columns and "own" or (r.turned or transposes(r, systems)) and "transposed" or "none"
  made.copies = made.columns == "none" and 1 or 2
  if check_sharded(r, p.zero) then made.cached = false end
  made.key = workload.signature(made)
  made.share = share_of(made)
  return made
end

return precision
