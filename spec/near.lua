-- Compares a value worked out by hand with tperf's, to nine digits.
---@param expected number
---@param got number
---@param what string  what the values are, for the message
return function(expected, got, what)
  if math.abs(expected - got) <= 1e-9 * math.abs(expected) then return end
  error(("%s: %.10g, not %.10g"):format(what, got, expected), 2)
end
