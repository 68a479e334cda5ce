--- Runs every benchmark in this folder, for `make bench`. Fails if one misses its target.
local core = require "tperf.core"

local names = {}
for _, entry in ipairs(core.resource.entries "bench") do
  if entry:match "%.lua$" and entry ~= "all.lua" then names[#names + 1] = entry end
end
table.sort(names)

local failed = {}
for _, name in ipairs(names) do
  print("\n== " .. name)
  local ok, message = pcall(dofile, "bench/" .. name)
  if not ok then failed[#failed + 1] = name .. ": " .. tostring(message) end
end
if #failed > 0 then error(table.concat(failed, "\n"), 0) end
