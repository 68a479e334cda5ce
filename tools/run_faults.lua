-- Lets every allocation of every case of tools/faults.lua fail once: build/asan/tperf run --trust tools/run_faults.lua
-- [MOST [PATTERN]]: of Lua's allocations, which are many, an even sample of MOST a case (default 300); the cases whose
-- names have the pattern. Of C's all, but where files are read by the dozen an even sample of 2,000.
package.path = "./tools/?.lua;./spec/?.lua;" .. package.path
local faults = require "faults"

local most, pattern, failed = math.tointeger(tonumber(arg[1] or 300)), arg[2] or "", 0
local samples = { core = 2000, lua = most }
for _, case in ipairs(faults.cases) do
  for _, kind in ipairs(case.name:find(pattern) and { "core", "lua" } or {}) do
    local ok, tried, heard = pcall(faults.try, case, kind, samples[kind])
    if ok then
      print(("%-75s %-4s %6d failures, %6d heard of"):format(case.name, kind, tried, heard))
      io.stdout:flush()
    else
      failed = failed + 1
      io.stderr:write(tried, "\n")
    end
  end
end
for _, line in ipairs(faults.programs) do
  for _, kind in ipairs(line:find(pattern) and { "core", "lua" } or {}) do
    local ok, tried = pcall(faults.try_program, line, kind, most)
    if ok then
      print(("%-75s %-4s %6d failures"):format(line, kind, tried))
    else
      failed = failed + 1
      io.stderr:write(tried, "\n")
    end
  end
end
if failed > 0 then os.exit(1) end
