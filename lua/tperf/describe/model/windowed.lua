--- The attention of layers whose heads differ from the other layers': those with a window (MiMo-V2, Gemma 4), and those
--- of groups with fields of their own (arch/composed.lua).
local windowed = {}

local OWN <const> = { "heads", "kv_heads", "head_dim", "value_dim", "tied_values", "attention_sinks" }

--- The model as a layer's attention sees it: with the group's own fields, or the window's if the layer has a window.
---@param m table  a model's description
---@param group tperf.layer_group
---@return table m
function windowed.view(m, group)
  if group.own then return setmetatable({}, { __index = function(_, name)
    local value = group.own[name]
    if value ~= nil then return value end
    return m[name]
  end }) end
  if not (group.window and m.window) then return m end
  local own
  for _, name in ipairs(OWN) do
    local value = m.window[name]
    if value ~= nil then
      own = own or {}
      own[name] = value
    end
  end
  return own and setmetatable(own, { __index = m }) or m
end

--- The kinds of attention that a model has: itself, and what its layers with a window see if that differs.
---@param m table
---@return table[]
function windowed.kinds(m)
  local other = windowed.view(m, { window = true })
  return other == m and { m } or { m, other }
end

--- Features of a head's value.
function windowed.value_dim(m) return m.value_dim or m.head_dim end

--- Checks the consistency of a description: returns a message and the field's path, or nothing.
function windowed.disagreement(m)
  for _, one in ipairs(windowed.kinds(m)) do
    local where = one == m and "" or "window."
    if one.heads % one.kv_heads ~= 0 then
      return ("'%skv_heads' (%d) must divide 'heads' (%d)"):format(where, one.kv_heads, one.heads), where .. "kv_heads"
    end
    if one.tied_values and windowed.value_dim(one) ~= one.head_dim then
      return ("'%stied_values' are as wide as keys (%d), not a 'value_dim' of %d"):format(where, one.head_dim,
        one.value_dim), where .. "tied_values"
    end
  end
  for _, name in ipairs { "value_dim", "tied_values" } do
    for _, other in ipairs { "mla", "encoder_stack" } do
      if m[name] and m[other] then return ("'%s' does not go with '%s'"):format(name, other), name end
    end
  end
end

return windowed
