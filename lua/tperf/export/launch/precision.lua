--- The precision of a configuration, by its name ("fp8-current (padding router, parameters narrow)"), and Transformer
--- Engine's recipes by Megatron-Core's names.
local precision = {}

-- What a name says beside its recipe -> the field of a launch that receives it, and its value (true unless captured).
local DETAILS <const> = {
  { "^parameters narrow$", "narrow_parameters" }, { "^padding router$", "router_padding" },
  { "^fused experts true$", "fused_experts" }, { "^attention fp8$", "narrow_attention" },
  { "^first layers (%d+)$", "first_layers" }, { "^last layers (%d+)$", "last_layers" },
  { "^gather narrow$", "narrow_gather" }, { "^weight grad bf16$", "wide_weight_grad" },
}

--- What Megatron-Core can be told beside the recipe.
precision.MEGATRON = { narrow_parameters = true, router_padding = true, fused_experts = true, first_layers = true,
  last_layers = true }
--- And Megatron-Bridge.
precision.BRIDGE = { narrow_attention = true }
for name in pairs(precision.MEGATRON) do precision.BRIDGE[name] = true end

--- Splits a precision's name: sets n.precision, and a field for each detail; the whole name is n.precision if there is
--- a detail that the stack cannot be told.
---@param name string
---@param n table
---@param tells table<string, boolean>?  which details the stack can be told
function precision.copy(name, n, tells)
  local recipe, details = name:match "^(%S+) %((.*)%)$"
  n.precision = recipe or name
  for detail in (details or ""):gmatch "[^,]+" do
    local text, known = detail:match "^%s*(.*)$", false
    for _, one in ipairs(DETAILS) do
      local value = text:match(one[1])
      if value and tells and tells[one[2]] then n[one[2]], known = math.tointeger(tonumber(value)) or true, true end
    end
    if not known then n.precision = name end
  end
end

--- Recipe and format; in "hybrid" gradients are e5m2.
precision.FP8 = {
  ["fp8-delayed"] = { "delayed", "hybrid" }, ["fp8-current"] = { "tensorwise", "hybrid" },
  ["fp8-block"] = { "blockwise", "e4m3" }, mxfp8 = { "mxfp8", "e4m3" },
}

--- Writes Megatron-Core's settings under a stack's names for them.
---@param n table
---@param w table
---@param name fun(part: string): string  turns a part, such as "fp8_recipe", into an option's name
function precision.put(n, w, name)
  local recipe = precision.FP8[n.precision]
  local kind = n.precision == "nvfp4" and "fp4" or recipe and "fp8"
  if kind == "fp4" then
    w.put(name "fp4_format", "e2m1")
    w.put(name "fp4_recipe", "nvfp4")
  elseif recipe then
    w.put(name "fp8_format", recipe[2])
    w.put(name "fp8_recipe", recipe[1])
  end
  if n.narrow_parameters then w.put(name(kind .. "_param_gather"), true) end
  if n.narrow_attention then w.put(name "fp8_dot_product_attention", true) end
  if n.router_padding then w.put(name "moe_router_padding_for_quantization", true) end
  if n.fused_experts then w.put(name "use_transformer_engine_op_fuser", true) end
  if not (n.first_layers or n.last_layers) then return end
  w.put(name "first_last_layers_bf16", true)
  w.put(name "num_layers_at_start_in_bf16", n.first_layers or 0)
  w.put(name "num_layers_at_end_in_bf16", n.last_layers or 0)
end

return precision
