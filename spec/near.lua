-- What was worked out by hand against what tperf says, to nine digits.
---@param expected number
---@param got number
---@param what string  of which both are, for the message
return function(expected, got, what)
  if math.abs(expected - got) <= 1e-9 * math.abs(expected) then return end
  error(("%s: %.10g, not %.10g"):format(what, got, expected), 2)
end
