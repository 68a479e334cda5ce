-- Summarizes gcov's results after runs of the coverage variant: lines and branches of every file in src, and in total.
-- tperf run --trust tools/coverage.lua [FILE.c …] prints for the named files every line that was not reached.
package.path = "./spec/?.lua;" .. package.path
local program = require "program"

local OBJECTS <const> = "build/coverage"

-- Parses "Lines executed:35.29% of 34" to "12 of 34".
local function share(text, words)
  local percent, total = text:match(words .. ":([%d.]+)%% of (%d+)")
  if not percent then return 0, 0 end
  return math.floor(tonumber(percent) * total / 100 + 0.5), math.tointeger(tonumber(total))
end

-- { file, lines reached, lines, branches taken, branches } from gcov's summary of one object.
local function summary(object)
  local text = program.shell(("gcov -b -n -r %s"):format(program.quote(object))).out
  local rows = {}
  for file, part in (text .. "File"):gmatch "File '([^']+)'\n(.-)%f[F]" do
    if file:find "^src/.*%.c$" then
      local reached, lines = share(part, "Lines executed")
      local taken, branches = share(part, "Taken at least once")
      rows[#rows + 1] = { file, reached, lines, taken, branches }
    end
  end
  return rows
end

local function percent(part, whole) return whole == 0 and 100 or 100 * part / whole end

local function print_row(row)
  print(("%-32s %5d of %5d lines %6.2f %%  %5d of %5d branches %6.2f %%"):format(row[1], row[2], row[3],
    percent(row[2], row[3]), row[4], row[5], percent(row[4], row[5])))
end

local function print_summary()
  local all = { "all", 0, 0, 0, 0 }
  for object in program.shell("find " .. OBJECTS .. " -name '*.gcda' | sort").out:gmatch "%S+" do
    for _, row in ipairs(summary(object)) do
      if row[1] ~= "src/bind/base/bind_faults.c" then -- the tests' own
        print_row(row)
        for i = 2, 5 do all[i] = all[i] + row[i] end
      end
    end
  end
  print_row(all)
end

-- Prints lines that were not executed, and lines with branches not taken.
local function print_unreached(file)
  local object = OBJECTS .. "/" .. file:gsub("^src/", ""):gsub("%.c$", ".gcda")
  local line, missed
  local function flush()
    if line and missed ~= "" then print(("%s:%s  %s"):format(file, line:match "^%s*[^:]+:%s*(%d+:.*)$", missed)) end
    missed = ""
  end
  for text in program.shell(("gcov -b -c -r -t %s"):format(program.quote(object))).out:gmatch "[^\n]+" do
    if text:find "^ *[#%-%d=*]+:" then
      flush()
      line, missed = text, text:find "^ *#####" and "never" or ""
    elseif text:find "^branch" and (text:find "taken 0" or text:find "never executed") and missed ~= "never" then
      missed = missed .. " b" .. text:match "%d+"
    end
  end
  flush()
end

if #arg == 0 then print_summary() end
for _, file in ipairs(arg) do print_unreached(file) end
