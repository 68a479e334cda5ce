--- Runs every benchmark in this folder, for `make bench`. Each has its own process, so that one does not count as
--- another's memory. Fails if one misses its target.
local core = require "tperf.core"

local names = {}
for _, entry in ipairs(core.resource.entries "bench") do
  if entry:match "%.lua$" and entry ~= "all.lua" then names[#names + 1] = entry end
end
table.sort(names)

local first = 0
while arg[first - 1] do first = first - 1 end
local program = "'" .. arg[first]:gsub("'", "'\\''") .. "'"

local failed = {}
for _, name in ipairs(names) do
  print("\n== " .. name)
  io.stdout:flush()
  if not os.execute(program .. " run --trust bench/" .. name) then failed[#failed + 1] = name end
end
if #failed > 0 then error("missed its target or failed: " .. table.concat(failed, ", "), 0) end
