-- Makes every allocation of every case of tools/faults.lua fail once:
--   build/asan/tperf run --trust tools/run_faults.lua [PATTERN [JOBS]]
-- for the cases whose names match the pattern, in JOBS processes (2). Each process gets a part of a case:
--   build/asan/tperf run --trust tools/run_faults.lua case NUMBER TRY KIND PART PARTS [WHAT]
package.path = "./tools/?.lua;./spec/?.lua;" .. package.path
local faults = require "faults"
local program = require "program"

local PARTS <const> = 4

-- Lua reads the code of every module in the same way, so one with nested functions and long strings stands for all.
local READ <const> = "tperf.describe.system"

-- Every thing to try: its name, its kinds of failure, and in how many parts.
local function everything()
  local all = {}
  local function add(name, try, what, kinds, parts)
    all[#all + 1] = { name = name, try = try, what = what, kinds = kinds or { "core", "lua" }, parts = parts or PARTS }
  end
  for _, case in ipairs(require "fault_cases") do add(case.name, "try", case) end
  add("reading of " .. READ, "try_module", READ, { "read" }, 1)
  for _, name in ipairs(faults.modules()) do add("loading of " .. name, "try_module", name, { "load" }, 1) end
  for _, line in ipairs(faults.programs) do add(line .. " (a process)", "try_program", line) end
  return all
end

-- case NUMBER TRY KIND PART PARTS [WHAT]: only calls of the library need their number, and all cases loaded.
if arg[1] == "case" then
  local number, try, kind = arg[2], arg[3], arg[4]
  local part = { math.tointeger(tonumber(arg[5])), math.tointeger(tonumber(arg[6])) }
  local what = arg[7] or require "fault_cases"[tonumber(number)]
  local ok, tried, heard, kept = pcall(faults[try], what, kind, nil, part)
  if not ok then io.stderr:write(tried, "\n") os.exit(1) end
  print(("part\t%s\t%s\t%d\t%d\t%.0f"):format(number, kind, tried, heard, kept or 0))
  return
end

local all = everything()
local pattern, jobs, list = arg[1] or "", arg[2] or "2", {}
for i, case in ipairs(all) do
  local what = type(case.what) == "string" and " " .. program.quote(case.what) or ""
  for _, kind in ipairs(case.name:find(pattern) and case.kinds or {}) do
    for part = 1, case.parts do
      list[#list + 1] = ("case %d %s %s %d %d%s"):format(i, case.try, kind, part, case.parts, what)
    end
  end
end

-- Prints a line once all parts of a case are done.
local done, failures, all_heard = {}, 0, 0
local function take(number, kind, tried, heard, kept)
  local key = number .. kind
  local sum = done[key] or { 0, 0, 0, 0 }
  done[key] = { sum[1] + 1, sum[2] + tried, sum[3] + heard, math.max(sum[4], kept) }
  failures, all_heard = failures + tried, all_heard + heard
  local case = all[tonumber(number)]
  if done[key][1] < case.parts then return end
  print(("%-90s %-4s %6d failures, %6d heard of, %3d KB kept"):format(case.name:sub(1, 90), kind,
    table.unpack(done[key], 2)))
  io.stdout:flush()
end

local path = program.temporary()
program.write(path, table.concat(list, "\n") .. "\n")
local pipe = assert(io.popen(("xargs -r -P %s -L 1 %s run --trust tools/run_faults.lua < %s"):format(jobs,
  program.quote(program.absolute()), path)))
for line in pipe:lines() do
  local number, kind, tried, heard, kept = line:match "^part\t(%d+)\t(%a+)\t(%d+)\t(%d+)\t(-?%d+)$"
  if number then take(number, kind, tonumber(tried), tonumber(heard), tonumber(kept)) else print(line) end
end
local ok = pipe:close()
print(("%d failures, %d heard of%s"):format(failures, all_heard, ok and "" or "; some went wrong, see above"))
if not ok then os.exit(1) end
