--- Megatron-Bridge's mixed precision: a recipe by its name or as a call, and the fields that override it.
local with = require "tperf.base.tables".with

local precision = {}

local CURRENT <const> = { fp8 = "hybrid", fp8_recipe = "tensorwise", first_last_layers_bf16 = true,
  num_layers_at_start_in_bf16 = 1, num_layers_at_end_in_bf16 = 1, fp8_param_gather = true }
local DELAYED <const> = { fp8 = "hybrid", fp8_recipe = "delayed", fp8_param_gather = true }
local MXFP8 <const> = { fp8 = "e4m3", fp8_recipe = "mxfp8", fp8_param_gather = true }
local BLOCKS <const> = { fp8 = "hybrid", fp8_recipe = "blockwise" }
local NVFP4 <const> = { fp4 = "e2m1", fp4_recipe = "nvfp4", fp4_param_gather = true }

-- training/mixed_precision.py: the fields that each recipe sets.
local RECIPES <const> = {
  bf16_mixed = { bf16 = true },
  bf16_with_fp8_delayed_scaling_mixed = with(DELAYED, { bf16 = true }),
  bf16_with_fp8_current_scaling_mixed = with(CURRENT, { bf16 = true }),
  bf16_with_fp8_subchannel_scaling_mixed = with(BLOCKS, { bf16 = true }),
  bf16_with_mxfp8_mixed = with(MXFP8, { bf16 = true }),
  bf16_with_nvfp4_mixed = with(NVFP4, { bf16 = true }),
  nemotron_h_bf16_with_fp8_current_scaling_mixed = with(CURRENT, { bf16 = true, num_layers_at_start_in_bf16 = 2,
    num_layers_at_end_in_bf16 = 2 }),
  nanov2_bf16_with_fp8_current_scaling_mixed = with(CURRENT, { bf16 = true, fp8_recipe = "blockwise",
    num_layers_at_start_in_bf16 = 2, num_layers_at_end_in_bf16 = 2 }),
  nemotron_3_super_bf16_with_nvfp4_mixed = with(NVFP4, { bf16 = true, first_last_layers_bf16 = true,
    num_layers_at_end_in_bf16 = 14 }),
  fp16_mixed = { fp16 = true, grad_reduce_in_fp32 = false },
  fp16_with_fp8_delayed_scaling_mixed = with(DELAYED, { fp16 = true, grad_reduce_in_fp32 = false }),
  fp16_with_fp8_current_scaling_mixed = with(CURRENT, { fp16 = true, grad_reduce_in_fp32 = false }),
  fp16_with_fp8_subchannel_scaling_mixed = with(BLOCKS, { fp16 = true, grad_reduce_in_fp32 = false }),
  fp16_with_mxfp8_mixed = with(MXFP8, { fp16 = true, grad_reduce_in_fp32 = false }),
}

-- perf_recipes/_common.py: _perf_precision(NAME).
local NARROW <const> = { grad_reduce_in_fp32 = false }
local PERFORMANCE <const> = {
  bf16 = with(RECIPES.bf16_mixed, NARROW),
  fp8_cs = with(RECIPES.bf16_with_fp8_current_scaling_mixed, { grad_reduce_in_fp32 = false,
    first_last_layers_bf16 = false }),
  fp8_ds = with(RECIPES.bf16_with_fp8_delayed_scaling_mixed, NARROW),
  fp8_mx = with(RECIPES.bf16_with_mxfp8_mixed, NARROW), nvfp4 = with(RECIPES.bf16_with_nvfp4_mixed, NARROW),
}

-- The fields of a recipe: by its name, or by a call; nil: it is not known.
local function recipe_of(value)
  if type(value) == "string" then return RECIPES[value:gsub("-", "_")] end
  local first = type(value.first) == "string" and value.first
  if value.call == "MixedPrecisionConfig" then return {} end -- its fields are settings of their own
  if value.call == "_perf_precision" then return PERFORMANCE[first] end
  if value.call == "get_mixed_precision_config" then return first and RECIPES[first:gsub("-", "_")] end
  return not value.first and RECIPES[value.call] or nil
end

-- A reader of the fields: field(name) is what was set last, by the recipe or after it.
local function fields_of(s, context)
  local entry, at, recipe = s.by_option.mixed_precision, 0, {}
  for i, one in ipairs(s.list) do
    if one == entry then at = i end
  end
  local known = entry and recipe_of(entry.value)
  if known then
    recipe = known
    s:set "mixed_precision"
  end
  if not entry and not s:has "dtype.compute" and context.base then
    context.refuse("mixed_precision", ": " .. context.base)
  elseif not entry and not s:has "dtype.compute" then
    context.assume "the recipe does not say its precision: bf16"
  end
  local later = {}
  for i, one in ipairs(s.list) do
    local name = one.option:match "^mixed_precision%.(.+)$"
    if name and i > at then later[name] = true end
  end
  return function(name)
    local value = s:set("mixed_precision." .. name)
    if later[name] or recipe[name] == nil then return value end
    return recipe[name]
  end
end

-- "None" of Python is no value.
local function said(value) return value ~= "None" and value or nil end

--- The precision, and whether gradients are reduced in fp32 (nil: it is not said).
function precision.of(s, context)
  local field = fields_of(s, context)
  local format, fp4 = said(field "fp8") or said(s:set "model.fp8"), said(field "fp4")
  local recipe = field "fp8_recipe" or not said(field "fp8") and s:get "model.fp8_recipe" or "tensorwise"
  local gather, param = field "fp8_param_gather", field "fp8_param"
  local older = { s:set "ddp.fp8_param_gather", s:set "model.fp8_param", s:set "model.fp8_param_gather" }
  for i = 1, 3 do gather = gather or older[i] end
  local gather4, param4 = field "fp4_param_gather", field "fp4_param"
  local half, brain = field "fp16", field "bf16"
  local p = {
    compute = half and not brain and "fp16" or "bf16", fp8_format = format,
    fp8_recipe = format and recipe, fp8_params = format and (gather or param) == true, fp4_format = fp4,
    fp4_params = fp4 and (gather4 or param4) == true or nil,
    router_padding = s:get "model.moe_router_padding_for_quantization" == true or nil,
    fused_experts = s:get "model.use_transformer_engine_op_fuser" == true or nil,
  }
  field "fp4_recipe"
  if tostring(s.by_option["mixed_precision.params_dtype"] and field "params_dtype"):find "fp32" then
    s.by_option["mixed_precision.params_dtype"].read = false
  end
  if field "fp8_dot_product_attention" then p.attention = "fp8" end
  local first, last = field "num_layers_at_start_in_bf16" or 0, field "num_layers_at_end_in_bf16" or 0
  if field "first_last_layers_bf16" and (format or fp4) then p.first_layers, p.last_layers = first, last end
  return p, field "grad_reduce_in_fp32"
end

return precision
