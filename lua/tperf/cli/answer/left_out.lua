--- Prints why rows of a table of measurements were left out: a line a reason.
---@param list table[]  { rows, reason }
return function(list)
  for _, left in ipairs(list) do print(("%6d left out: %s"):format(left.rows, left.reason)) end
end
