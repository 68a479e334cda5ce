--- Fault injection: makes each allocation of the main questions and commands fail once (see
--- src/bind/base/bind_faults.c). The call must report that memory ran out, or answer as usual; it leaves nothing
--- behind, and the next call answers as usual. Leaks in C are found by the address sanitizer when the process ends.
local core = require "tperf.core"
local encode = require "tperf.output.json".encode
local program = require "program" -- spec/program.lua

local faults = {}

-- Returns what is printed while f runs.
-- luacheck: push ignore 121 122 (standard output is set)
local function printed_by(f)
  local before, sink, quiet = { io.stdout, io.stderr, print, io.output() }, io.tmpfile(), {}
  function quiet:write() return self end
  local function print_to_sink(...)
    for i = 1, select("#", ...) do sink:write(tostring((select(i, ...)))) end
    sink:write "\n"
  end
  io.stdout, io.stderr, print = sink, quiet, print_to_sink
  io.output(sink)
  f()
  io.stdout, io.stderr, print = table.unpack(before, 1, 3)
  io.output(before[4])
  sink:seek "set"
  local text = sink:read "a"
  sink:close()
  return text
end
-- luacheck: pop

local NEXT <const> = 8 -- failures between two calls without one
local MOST_KEPT <const> = 64 -- KB of Lua's that a case may leave behind: what it loads and remembers

local fail, count = core.faults and core.faults.fail, core.faults and core.faults.count

-- The answer and the printed text, or the message that f raised. Only allocations within the call fail.
local function answer(f, kind, n)
  local ok, result, used
  local text = printed_by(function()
    fail(kind, n)
    ok, result = pcall(f)
    used = count(kind)
    fail(kind, 0)
  end)
  if not ok then return nil, tostring(result), used end
  return encode(result) .. text, nil, used
end

-- The numbers of the allocations to fail: an even sample of at most `most`, of which only the part { i, of n }.
local function numbers(total, most, part)
  local list, stride = {}, most and math.max(1, (total + most - 1) // most) or 1
  part = part or { 1, 1 }
  for i = 1 + total % stride + stride * (part[1] - 1), total, stride * part[2] do list[#list + 1] = i end
  return list
end

-- Bytes that Lua holds, in KB, after finalizers have run.
local function held()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count"
end

-- Lua's table of strings doubles when it is full, by 64 KB. Grown before, it does not pass for what a case keeps.
local function grow_strings()
  local list = {}
  for i = 1, 5000 do list[i] = "a string " .. i end
  return list
end

--- Tries a case with all allocations of a kind, or an even sample. Raises on any wrong behaviour; else returns how many
--- failures were tried, how many of them the caller was told about, and what they left behind. Garbage is collected
--- between them: a failure makes Lua collect without finalizers, so what these hold would pile up, and tables that are
--- ours or Lua's own (of strings, of weak keys) would grow with it and keep their sizes.
---@param case table    of tools/fault_cases.lua
---@param kind string   "core", "site", "lua", "read" or "load": see src/bind/base/bind_faults.c
---@param most integer? the size of the sample
---@param part integer[]? { i, n }: the i-th of n parts, for n processes
---@return integer tried
---@return integer heard
---@return number kept  KB of Lua's
function faults.try(case, kind, most, part)
  local wanted = assert(answer(case.f, kind, 0)) -- also loads what is loaded once
  assert(wanted ~= "null", case.name .. ": without an answer nothing is compared")
  local _, _, total = answer(case.f, kind, 0)
  local list, heard = numbers(total, most, part), 0
  grow_strings()
  local before = held()
  for i, n in ipairs(list) do
    local got, message = answer(case.f, kind, n)
    local where = ("%s: %s allocation %d of %d: "):format(case.name, kind, n, total)
    if got and got ~= wanted then error(where .. "another answer:\n" .. got, 0) end
    if message and not message:find "memory" then error(where .. message, 0) end
    if i % NEXT == 0 or i == #list then
      local again, problem = answer(case.f, kind, 0)
      if again ~= wanted then error(where .. "the next call: " .. (problem or "another answer:\n" .. again), 0) end
      held()
    end
    heard = heard + (message and 1 or 0)
  end
  local kept = held() - before
  if kept > MOST_KEPT and not case.keeps then
    error(("%s: %.0f KB of Lua's are kept after %d failures"):format(case.name, kept, #list), 0)
  end
  return #list, heard, kept
end

-- --- loading ---

-- A case that loads a module again, all that it requires being loaded. What a module adds to lists of the library's, it
-- adds once more each time: `keeps`.
local function loading(name)
  require(name)
  return { name = "loading of " .. name, keeps = true, f = function()
    local own = package.loaded[name]
    package.loaded[name] = nil
    local ok, loaded = pcall(require, name)
    package.loaded[name] = own
    if not ok then error(loaded, 0) end
    return type(loaded)
  end }
end

--- The modules of the library. Whole runs (faults.try_program) need not try their loading: their kind "lua" leaves it
--- out.
---@return string[]
function faults.modules()
  local list = {}
  for path in program.shell("find lua/tperf -name '*.lua' | sort").out:gmatch "lua/(%S+)%.lua" do
    list[#list + 1] = path:gsub("/init$", ""):gsub("/", ".")
  end
  return list
end

--- Like faults.try, for loading a module: kind "load", or "read". In a process that has loaded little else, each of the
--- collections that failures cause is quick.
---@param name string
---@param kind string
---@param most integer?
---@param part integer[]?
---@return integer tried
---@return integer heard
---@return number kept
function faults.try_module(name, kind, most, part) return faults.try(loading(name), kind, most, part) end

-- --- whole runs of the program, in a separate folder ---

--- Command lines; their outputs go to out. What a run does before it comes to its command is tried with the first.
faults.programs = {
  "tperf version", "tperf collective all_gather -s system.yaml -n 1MiB -g 8",
  "tperf schedule 1f1b -d 2 -m 4 --svg out.svg", "tperf run --out out script.lua",
}

local SCRIPT <const> = [[
local tperf = require "tperf"
local system = tperf.system "system.yaml"
tperf.report.save("rows.csv", { { name = system.name, domain = system.network.fast.domain } })
print(system)
]]

local SANITIZERS <const> = "export ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=exitcode=99:halt_on_error=1; "

-- The folder of a program's runs: its script, and beside it the outcome of each run (N.out, N.err, N.code, N.files).
local function workplace()
  local place = { folder = program.folder(), notes = program.folder() }
  program.write(place.folder .. "/script.lua", SCRIPT)
  program.write(place.folder .. "/system.yaml", program.slurp "spec/data/small/system.yaml")
  return place
end

local RUN <const> = [[
  if [ -e out ] || [ -e out.svg ]; then rm -rf out out.svg; fi
  TPERF_FAULT=%s:$n TPERF_FAULT_COUNT=%s/$n.count %s > %s/$n.out 2> %s/$n.err; echo $? > %s/$n.code
  for f in *.svg .[!.]* out/* out/.[!.]*; do if [ -f $f ]; then cksum $f; fi; done > %s/$n.files
]]

-- Runs the command line once for each number of an allocation.
local function run_all(place, line, kind, list)
  local notes = place.notes
  local run = RUN:format(kind, notes, line, notes, notes, notes, notes)
  local loop = ("%s for n in %s; do\n%sdone"):format(SANITIZERS, table.concat(list, " "), run)
  local done = program.shell(loop, place.folder)
  assert(done.code == 0, done.err)
end

-- The sizes of what a command line asks for, if they are told, and their number.
local function requests(place, line, kind)
  local sizes = {}
  run_all(place, line, kind, { 0 })
  for size in program.slurp(place.notes .. "/0.count"):gmatch "%d+" do sizes[#sizes + 1] = size end
  return sizes, math.tointeger(tonumber(table.remove(sizes)))
end

-- How many of Lua's first requests are those of the first program, by their sizes: up to there both do the same, so
-- each failure was tried with the first.
local function shared(place, line, kind, sizes)
  if line == faults.programs[1] then return 0 end
  local first, same = requests(place, faults.programs[1], kind), 0
  while same < #sizes and sizes[same + 1] == first[same + 1] do same = same + 1 end
  return same
end

local function take_note(place, n, ending)
  local path = ("%s/%d.%s"):format(place.notes, n, ending)
  local text = program.slurp(path)
  os.remove(path)
  return text
end

local function take_run(place, n)
  take_note(place, n, "count")
  return { code = tonumber(take_note(place, n, "code")), out = take_note(place, n, "out"),
    err = take_note(place, n, "err"), files = take_note(place, n, "files") }
end

local function check_run(got, wanted, where)
  local told = got.code == 1 and got.err:find "^tperf: " and got.err:find "memory"
  local same = got.code == 0 and got.out == wanted.out and got.files == wanted.files
  if not told and not same then error(where .. ("status %d\n%s"):format(got.code, got.err), 0) end
  for file in got.files:gmatch "[^\n]+" do -- the journal grows by whole lines
    local journal = file:find "%.tperf%-written$"
    if not journal and not wanted.files:find(file, 1, true) then error(where .. "half a file: " .. file, 0) end
  end
end

--- Like faults.try, with runs of the program: status 1 and a message, or everything as usual; no partial file. Starts
--- where the run parts from the first program's.
---@param line string
---@param kind string
---@param most integer?
---@param part integer[]?
---@return integer tried
---@return integer heard
function faults.try_program(line, kind, most, part)
  local place, heard = workplace(), 0
  local sizes, total = requests(place, line, kind)
  local wanted, before = take_run(place, 0), shared(place, line, kind, sizes)
  local list = numbers(total - before, most, part)
  for i, n in ipairs(list) do list[i] = before + n end
  for first = 1, #list, 100 do
    local some = table.move(list, first, math.min(first + 99, #list), 1, {})
    run_all(place, line, kind, some)
    for _, n in ipairs(some) do
      local got = take_run(place, n)
      check_run(got, wanted, ("%s: %s allocation %d of %d: "):format(line, kind, n, total))
      heard = heard + (got.code == 1 and 1 or 0)
    end
  end
  program.remove(place.folder)
  program.remove(place.notes)
  return #list, heard
end

return faults
