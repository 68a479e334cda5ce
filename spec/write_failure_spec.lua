-- Every write, sync and rename of the main commands fails once (src/tools/fail_write.c): the command reports it and
-- ends with 1, each file is complete, either the old or the new one, nothing else is left behind, and the next run
-- works. The same for every stat of a file, whose failure may also have no effect, and for interrupted calls, which
-- must have none. Of calls from the same place in the program (its function and the callers of that), for a file of the
-- same name, the first fails, in the first command that makes one; of a command's places so found, every other. With
-- TPERF_THOROUGH=1, each call in turn.
local cases = require "cases"
local core = require "tperf.core"
local lfs = require "lfs"
local program = require "program"
local shim = require "shim"

local here = io.popen("pwd"):read "l"

local LIBRARY = [[
local tperf = require "tperf"
local rows = {}
for i = 1, tonumber(arg[1]) do rows[i] = { n = i, square = i * i } end
tperf.report.save("rows.csv", rows, { "n" })
tperf.plot.lines { rows = rows, x = "n", y = "square" }:save "plot.svg"
local _ = tperf.sweep { cache = "points.db", run = tperf.collective, kind = "all_gather", system = "h100-sxm", gpus = 8,
  bytes = tperf.vary { 1e6, #rows * 1e7 } }
print(("printed "):rep(2000))
]]
local SCRIPT = LIBRARY .. [[
local file = assert(io.open("own.csv", "w"))
file:write(("own "):rep(3000), #rows)
file:close()
assert(io.open("left_open.csv", "w")):write("left open ", #rows)
file = assert(io.open("grown.csv", "a"))
if file:seek "end" == 0 then file:write "grown" end
file:close()
os.rename("own.csv", "renamed.csv")
]]

-- A few calls of each kind that look at a file.
local SHORT = [[
local system = require "tperf".system "linked.yaml"
local file = assert(io.open("own.csv", "w"))
file:write(system.name)
file:close()
os.rename("own.csv", "renamed.csv")
file = assert(io.open("grown.csv", "a"))
if file:seek "end" == 0 then file:write "grown" end
file:close()
assert(io.open("sub/left_open.csv", "w")):write(system.name)
print(system.name)
]]

-- Each command's outputs exist before: as other text, or as an earlier run of the same script left them.
local commands = {
  { "a script with a manifest", "tperf run --out out s.lua 4", {}, "tperf run --out out s.lua 3" },
  { "calibrate", "tperf calibrate h100-sxm memory.csv --keep --out mine.yaml --plot fit",
    { "mine.yaml", "fit-hbm.stream.svg" } },
  { "validate", "tperf validate gemm.csv --out predictions.csv", { "predictions.csv" } },
  { "schedule", "tperf schedule 1f1b -d 2 -m 4 --svg s.svg --trace s.json --html s.html", { "s.svg", "s.json",
    "s.html" } },
  { "compat", "tperf compat llm-analysis train --model_name facebook_opt-125m --output_dir .", {} },
  { "a trusted script", "tperf run --trust library.lua 4", { "rows.csv", "plot.svg" } },
  { "a script", "tperf run s.lua 4", {}, "tperf run s.lua 3" },
  { "a short script", "tperf run short.lua", {}, "tperf run short.lua" },
  { "a table", "tperf list schedules", {} },
  { "a long table", "tperf search llama-3.1-70b -s h100-sxm -g 64 -b 64 --json", {} },
}

local CACHES = { ["points.db"] = true, ["out/points.db"] = true }
local BESIDE = { ["-wal"] = true, ["-shm"] = true, ["-journal"] = true } -- what a database has to recover from

-- The points of a cache, a line each, read from a copy, since reading recovers a database. files: what lies there.
local function points_of(name, files)
  local copy, copied, lines = program.temporary(), {}, {}
  for beside, text in pairs(files) do
    if beside:sub(1, #name) == name then
      copied[#copied + 1] = copy .. beside:sub(#name + 1)
      program.write(copied[#copied], text)
    end
  end
  do
    local database <close> = assert(core.store.open(copy, "write"))
    for i, row in ipairs(assert(database:run "SELECT quote(key) || quote(record) AS line FROM records ORDER BY key")) do
      lines[i] = row.line
    end
  end
  for _, path in ipairs(copied) do os.remove(path) end
  for ending in pairs(BESIDE) do os.remove(copy .. ending) end
  return table.concat(lines, "\n")
end

local function is_cache(name) return CACHES[name] or CACHES[name:gsub("%-%w+$", "")] and BESIDE[name:match "%-%w+$"] end

-- Calls visit(name, attributes) for all below a folder: folders before what they hold.
local function each_below(folder, visit)
  local function look(inside)
    for entry in lfs.dir(folder .. "/" .. inside) do
      if entry ~= "." and entry ~= ".." then
        local name = inside .. entry
        local known = lfs.symlinkattributes(folder .. "/" .. name)
        visit(name, known)
        if known.mode == "directory" then look(name .. "/") end
      end
    end
  end
  look ""
end

-- Of a folder: name -> content; and all of it as one text, with what links say.
local function files_of(folder)
  local files, lines = {}, {}
  each_below(folder, function(name, known)
    if known.mode == "directory" then return end
    if known.mode == "file" then files[name] = program.slurp(folder .. "/" .. name) end
    lines[#lines + 1] = ("%s %s %q"):format(known.mode, name, files[name] or known.target or "")
  end)
  table.sort(lines)
  return files, table.concat(lines, "\n")
end

local function copy(from, to)
  assert(lfs.mkdir(to))
  each_below(from, function(name, known)
    local path = to .. "/" .. name
    if known.mode == "directory" then
      assert(lfs.mkdir(path))
    elseif known.mode == "link" then
      assert(lfs.link(known.target, path, true))
    else
      program.write(path, program.slurp(from .. "/" .. name))
    end
  end)
end

-- Name -> content of files; of caches, their points.
local function contents(files)
  local found = {}
  for name, text in pairs(files) do
    if CACHES[name] then
      found[name] = points_of(name, files)
    elseif not is_cache(name) then
      found[name] = text
    end
  end
  return found
end

local JOURNALS = { [".tperf-written"] = true, ["sub/.tperf-written"] = true, ["out/.tperf-written"] = true }
local ON_THE_WAY = { ["own.csv"] = "renamed.csv", ["out/own.csv"] = "out/renamed.csv" }
local RUNS_OWN = { ["out/manifest.json"] = true, ["out/stdout.txt"] = true } -- removed when a run starts
local REASONS = { "No space left on device", "Input/output error", "cannot write to standard output",
  "disk I/O error", "database or disk is full", "unable to open database file" }

local function is_told(err)
  for _, reason in ipairs(REASONS) do
    if err:find(reason, 1, true) then return true end
  end
  return false
end

local function prepare(command, folder)
  program.shell("mkdir -p " .. program.quote(folder .. "/sub"))
  program.write(folder .. "/s.lua", SCRIPT)
  program.write(folder .. "/library.lua", LIBRARY)
  program.write(folder .. "/short.lua", SHORT)
  program.shell(("cp %s/spec/data/small/system.yaml sub; ln -s sub/../sub/system.yaml linked.yaml; "
    .. "cd %s/spec/data/measured && cp gemm.csv memory.csv %s"):format(program.quote(here), program.quote(here),
    program.quote(folder)), folder)
  for _, name in ipairs(command[3]) do program.write(folder .. "/" .. name, "old\n") end
  if command[4] then
    local result = program.shell(command[4], folder)
    assert.equal(0, result.code, result.err)
  end
end

-- Runs it in a new copy, "run", of the folder "prepared" beside it; its n-th call of a kind fails, or, if n is 0, none.
local function run_failing(kind, command, place, n)
  local log = place .. "/log"
  local line = command[2]:gsub("^tperf", function()
    return shim.environment(("%s=%d FAIL_LOG=%s"):format(kind, n, log)) .. " " .. program.quote(program.absolute())
  end)
  program.remove(place .. "/run")
  copy(place .. "/prepared", place .. "/run")
  local result = program.shell(line, place .. "/run")
  local file = io.open(log)
  result.call = file and file:read "a"
  if file then file:close() end
  os.remove(log)
  return result
end

-- All faults of the folder after a failure, as texts.
local function faults(now, before, after)
  local wrong = {}
  for name, text in pairs(now) do
    local whole = text == before[name] or text == after[name]
    if ON_THE_WAY[name] then whole = text == after[ON_THE_WAY[name]] end
    if CACHES[name] then
      whole = true
      for line in text:gmatch "[^\n]+" do whole = whole and after[name]:find(line, 1, true) ~= nil end
    end
    if not whole and not JOURNALS[name] then wrong[#wrong + 1] = ("%s is left behind, or a half"):format(name) end
  end
  for name in pairs(before) do
    if not now[name] and not RUNS_OWN[name] then wrong[#wrong + 1] = name .. " is gone" end
  end
  return wrong
end

local DATABASES = { pwrite64 = true, fdatasync = true }

local function same(now, after)
  for name, text in pairs(after) do
    if now[name] ~= text and not JOURNALS[name] then return false end
  end
  return true
end

local function lies_beside(files)
  for name in pairs(files) do
    if name:find "points%-[^/]*$" then return true end
  end
  return false
end

-- Whether a run one of whose calls failed ended as it should.
local VERDICTS = {}

function VERDICTS.FAIL_WRITE(result) return result.code == 1 and is_told(result.err) end

function VERDICTS.FAIL_READ(result, printed)
  if result.code == 0 then return result.out == printed end
  return result.code == 1 and result.err:find "%f[%g]tperf: "
end

function VERDICTS.FAIL_EINTR(result, printed) return result.code == 0 and result.out == printed end

local tried_of = { FAIL_WRITE = {}, FAIL_READ = {}, FAIL_EINTR = {} } -- calls, as their lines in the log

-- The numbers of the calls that are to fail, and their names.
local function calls_of(kind, command, place)
  local result, tried, list, n, places = run_failing(kind, command, place, 0), tried_of[kind], {}, 0, 0
  assert.equal(0, result.code, result.err)
  for line in (result.call or ""):gmatch "[^\n]+" do
    n, line = n + 1, line:gsub("%.tperf%-%x+%-%d+", ".tperf"):gsub(place:gsub("%p", "%%%0"), "")
    if not tried[line] then places = places + 1 end
    if cases(not tried[line] and places % 3 == 1, true) then list[#list + 1] = { n = n, name = line:match "%S+" } end
    tried[line] = true
  end
  return list, n
end

local WORDS = { FAIL_WRITE = "write", FAIL_READ = "look at a file", FAIL_EINTR = "interruption" }
local LOOKS = { ["a short script"] = true }

local function let_fail(kind, command)
  it(("%s of %s may fail"):format(WORDS[kind], command[1]), function()
    local place = program.folder()
    local folder = place .. "/run"
    prepare(command, folder)
    program.shell("mv run prepared", place)
    prepare(command, folder)
    local before = contents(files_of(folder))
    local result = program.shell(command[2], folder)
    assert.equal(0, result.code, result.err)
    local printed, after = result.out, contents(files_of(folder))
    local wrong, tried = {}, {}

    -- What is wrong with a run after a failed one; where the same lies there, it does the same.
    local function next_run(state)
      if tried[state] then return tried[state] end
      local faulty, again = {}, program.shell(command[2], folder)
      local files = files_of(folder)
      if lies_beside(files) then faulty[1] = "something lies beside the cache afterwards" end
      local now = contents(files)
      for name, text in pairs(after) do
        if now[name] ~= text and not JOURNALS[name] then faulty[#faulty + 1] = name .. " is wrong afterwards" end
      end
      if again.code ~= 0 or again.out ~= printed then faulty[#faulty + 1] = "afterwards: " .. again.err end
      tried[state] = faulty
      return faulty
    end

    local calls, count = calls_of(kind, command, place)
    for _, call in ipairs(calls) do
      result = run_failing(kind, command, place, call.n)
      local where = ("%s, call %d, %s: "):format(command[2], call.n, call.name)
      assert.equal(call.name, result.call, where)
      local files, state = files_of(folder)
      local now = contents(files)
      for _, fault in ipairs(faults(now, before, after)) do wrong[#wrong + 1] = where .. fault end
      -- A database keeps beside it what it cannot move into place, and moves it later.
      local kept = DATABASES[call.name] and result.code == 0 and result.out == printed and same(now, after)
      if not kept and not VERDICTS[kind](result, printed) then
        wrong[#wrong + 1] = ("%sends with %d: %s"):format(where, result.code, result.err)
      end
      for _, fault in ipairs(next_run(state)) do wrong[#wrong + 1] = where .. fault end
    end
    program.remove(place)
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(count > 0)
  end)
end

describe("a file system without links", function()
  setup(shim.build)

  it("gets new files whole, and keeps those that others make meanwhile", function()
    for _, way in ipairs { { "1", 0, "mine", "" }, { "2", 1, "", "s.lua:1: .*File exists" } } do
      local folder = program.folder()
      program.write(folder .. "/s.lua", "local file = assert(io.open('own.csv', 'w')) file:write 'mine'; "
        .. "assert(file:close())")
      local result = program.shell(("%s %s run s.lua"):format(shim.environment("NO_LINKS=" .. way[1]),
        program.quote(program.absolute())), folder)
      assert.equal(way[2], result.code, result.err)
      assert.matches(way[4], result.err)
      assert.equal(way[3], program.slurp(folder .. "/own.csv"))
      assert.equal("own.csv\ns.lua\n", (program.shell("ls -A | grep -v .tperf-written", folder).out))
      program.remove(folder)
    end
  end)
end)

describe("each", function()
  setup(shim.build)

  for _, command in ipairs(commands) do
    let_fail("FAIL_WRITE", command)
    if LOOKS[command[1]] then
      let_fail("FAIL_READ", command)
      let_fail("FAIL_EINTR", command)
    end
  end
end)
