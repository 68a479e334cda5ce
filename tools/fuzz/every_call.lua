--- The calls of tools/fuzz/calls.lua and more_calls.lua. Finds that specs keep by seed and number are of the former.
local every = {}

for _, name in ipairs { "calls", "more_calls" } do
  for key, call in pairs(require(name)) do every[key] = call end
end

return every
