-- Makes every allocation of every case of tools/faults.lua fail once:
--   build/asan/tperf run --trust tools/run_faults.lua [PATTERN [JOBS]]
-- for the cases whose names match the pattern, in JOBS processes (2). Each process gets a part of a case:
--   build/asan/tperf run --trust tools/run_faults.lua case NUMBER KIND PART PARTS
package.path = "./tools/?.lua;./spec/?.lua;" .. package.path
local faults = require "faults"
local program = require "program"

local PARTS <const> = 4

local all = {}
for _, case in ipairs(faults.cases) do all[#all + 1] = { name = case.name, try = faults.try, what = case } end
all[#all + 1] = { name = "reading a module's code", try = faults.try, what = faults.reading, kinds = { "read" } }
all[#all + 1] = { name = "loading each module", try = faults.try_modules, kinds = { "load" } }
for _, line in ipairs(faults.programs) do
  all[#all + 1] = { name = line .. " (a process)", try = faults.try_program, what = line }
end

if arg[1] == "case" then
  local case, kind = all[tonumber(arg[2])], arg[3]
  local part, parts = math.tointeger(tonumber(arg[4])), math.tointeger(tonumber(arg[5]))
  local ok, tried, heard = pcall(case.try, case.what, kind, nil, { part, parts })
  if not ok then io.stderr:write(tried, "\n") os.exit(1) end
  print(("part\t%s\t%s\t%d\t%d"):format(arg[2], kind, tried, heard))
  return
end

local pattern, jobs, list = arg[1] or "", arg[2] or "2", {}
for i, case in ipairs(all) do
  for _, kind in ipairs(case.name:find(pattern) and (case.kinds or { "core", "lua" }) or {}) do
    for part = 1, PARTS do list[#list + 1] = ("case %d %s %d %d"):format(i, kind, part, PARTS) end
  end
end

-- Prints a line once all parts of a case are done.
local done, failures, all_heard = {}, 0, 0
local function take(number, kind, tried, heard)
  local key = number .. kind
  local sum = done[key] or { 0, 0, 0 }
  done[key] = { sum[1] + 1, sum[2] + tried, sum[3] + heard }
  failures, all_heard = failures + tried, all_heard + heard
  if done[key][1] < PARTS then return end
  print(("%-90s %-4s %6d failures, %6d heard of"):format(all[tonumber(number)].name:sub(1, 90), kind, done[key][2],
    done[key][3]))
  io.stdout:flush()
end

local path = program.temporary()
program.write(path, table.concat(list, "\n") .. "\n")
local pipe = assert(io.popen(("xargs -r -P %s -L 1 %s run --trust tools/run_faults.lua < %s"):format(jobs,
  program.quote(program.absolute()), path)))
for line in pipe:lines() do
  local number, kind, tried, heard = line:match "^part\t(%d+)\t(%a+)\t(%d+)\t(%d+)$"
  if number then take(number, kind, tonumber(tried), tonumber(heard)) else print(line) end
end
local ok = pipe:close()
print(("%d failures, %d heard of%s"):format(failures, all_heard, ok and "" or "; some went wrong, see above"))
if not ok then os.exit(1) end
