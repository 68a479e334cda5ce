-- Random choices for specs; the same seed gives the same choices on every machine.
---@param seed integer
---@return fun(list: table): any  one of a list
return function(seed)
  local state = seed
  return function(list)
    state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger -- Knuth's, modulo 2^63
    return list[1 + (state >> 33) % #list]
  end
end
