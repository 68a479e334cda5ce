local say = require "tperf.output.terminal".say

--- Prints why rows of a table of measurements were left out: a line a reason.
---@param list table[]  { rows, reason }
return function(list)
  for _, left in ipairs(list) do say(("%6d left out: %s"):format(left.rows, left.reason)) end
end
