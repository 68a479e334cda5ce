--- Numbers of keys between which the costs of a step are affine: they bend only where a window or a selection fills up.
---@param kinds table[]   of layers
---@param tokens integer  of a whole sequence
---@return integer[] list  ascending
return function(kinds, tokens)
  local top, list, seen = 2, { 1 }, {}
  while top < tokens do top = top * 2 end -- a power of two, so that many prompts share workloads
  for _, kind in ipairs(kinds) do
    local window = kind.window or kind.chosen
    if window and window > 1 and window < top and not seen[window] then
      seen[window] = true
      list[#list + 1] = window
    end
  end
  list[#list + 1] = top
  table.sort(list)
  return list
end
