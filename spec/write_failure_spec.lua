-- Every write, sync and rename of the main commands fails once, the n-th of them for all n (src/tools/fail_write.c):
-- the command reports it and ends with 1, each file is complete, either the old or the new one, nothing else is left
-- behind, and the next run works. The same for every stat of a file, whose failure may also have no effect, and for
-- interrupted calls, which must have none.
local core = require "tperf.core"
local program = require "program"

local build = io.popen("readlink -f " .. program.quote(program.absolute())):read("l"):match "^(.*)/"
local shim = build .. "/fail_write.so"
local here = io.popen("pwd"):read "l"

local LIBRARY = [[
local tperf = require "tperf"
local rows = {}
for i = 1, tonumber(arg[1]) do rows[i] = { n = i, square = i * i } end
tperf.report.save("rows.csv", rows, { "n" })
tperf.plot.lines { rows = rows, x = "n", y = "square" }:save "plot.svg"
local _ = tperf.sweep { cache = "points", run = tperf.collective, kind = "all_gather", system = "h100-sxm", gpus = 8,
  bytes = tperf.vary { 1e6, #rows * 1e7 } }
print(("printed "):rep(2000))
]]
local SCRIPT = LIBRARY .. [[
local file = assert(io.open("own.txt", "w"))
file:write(("own "):rep(3000), #rows)
file:close()
assert(io.open("left_open.txt", "w")):write("left open ", #rows)
file = assert(io.open("grown.txt", "a"))
if file:seek "end" == 0 then file:write "grown" end
file:close()
os.rename("own.txt", "renamed.txt")
]]

-- A few calls of each kind that looks at a file.
local SHORT = [[
local system = require "tperf".system "linked.yaml"
local file = assert(io.open("own.txt", "w"))
file:write(system.name)
file:close()
os.rename("own.txt", "renamed.txt")
file = assert(io.open("grown.txt", "a"))
if file:seek "end" == 0 then file:write "grown" end
file:close()
assert(io.open("sub/left_open.txt", "w")):write(system.name)
print(system.name)
]]

-- What each command writes stands there before: as other text, or as an earlier run of the same script left it.
local commands = {
  { "calibrate", "tperf calibrate h100-sxm memory.csv --keep --out mine.yaml --plot fit",
    { "mine.yaml", "fit-hbm.stream.svg" } },
  { "validate", "tperf validate gemm.csv --out predictions.csv", { "predictions.csv" } },
  { "schedule", "tperf schedule 1f1b -d 2 -m 4 --svg s.svg --trace s.json --html s.html", { "s.svg", "s.json",
    "s.html" } },
  { "compat", "tperf compat llm-analysis train --model_name facebook_opt-125m --output_dir .", {} },
  { "a trusted script", "tperf run --trust library.lua 4", { "rows.csv", "plot.svg" } },
  { "a script", "tperf run s.lua 4", {}, "tperf run s.lua 3" },
  { "a script with a manifest", "tperf run --out out s.lua 4", {}, "tperf run --out out s.lua 3" },
  { "a short script", "tperf run short.lua", {}, "tperf run short.lua" },
  { "a table", "tperf list models", {} },
  { "a long table", "tperf search llama-3.1-70b -s h100-sxm -g 64 -b 64 --json", {} },
}

local CACHES = { points = true, ["out/points"] = true }
local BESIDE = { ["-wal"] = true, ["-shm"] = true, ["-journal"] = true } -- what a database has to recover from

-- The points of a cache, a line each. A copy is looked into, as looking recovers it.
local function points_of(path)
  local copy = program.folder()
  program.shell(("cp %s* %s"):format(program.quote(path), program.quote(copy)))
  local lines = {}
  do
    local database <close> = assert(core.store.open(copy .. "/points", "write"))
    for i, row in ipairs(assert(database:run "SELECT quote(key) || quote(record) AS line FROM records ORDER BY key")) do
      lines[i] = row.line
    end
  end
  program.remove(copy)
  return table.concat(lines, "\n")
end

local function is_cache(name) return CACHES[name] or CACHES[name:gsub("%-%w+$", "")] and BESIDE[name:match "%-%w+$"] end

-- Name -> content of what lies in a folder and in its folder out; of caches, their points.
local function contents(folder)
  local found = {}
  local pipe = io.popen(("cd %s && find . -type f | sort"):format(program.quote(folder)))
  for name in pipe:lines() do
    name = name:sub(3)
    if CACHES[name] then
      found[name] = points_of(folder .. "/" .. name)
    elseif not is_cache(name) then
      found[name] = program.slurp(folder .. "/" .. name)
    end
  end
  pipe:close()
  return found
end

local JOURNALS = { [".tperf-written"] = true, ["sub/.tperf-written"] = true, ["out/.tperf-written"] = true }
local ON_THE_WAY = { ["own.txt"] = "renamed.txt", ["out/own.txt"] = "out/renamed.txt" }
local RUNS_OWN = { ["out/manifest.json"] = true, ["out/stdout.txt"] = true } -- taken away when a run starts
local REASONS = { "No space left on device", "Input/output error", "cannot write to standard output",
  "disk I/O error", "database or disk is full", "unable to open database file" }

local function is_told(err)
  for _, reason in ipairs(REASONS) do
    if err:find(reason, 1, true) then return true end
  end
  return false
end

local function prepare(command)
  local folder = program.folder()
  program.write(folder .. "/s.lua", SCRIPT)
  program.write(folder .. "/library.lua", LIBRARY)
  program.write(folder .. "/short.lua", SHORT)
  program.shell(("mkdir sub; cp %s/spec/data/small/system.yaml sub; ln -s sub/../sub/system.yaml linked.yaml"):format(
    program.quote(here)), folder)
  program.shell(("cd %s/spec/data/measured && cp gemm.csv memory.csv %s"):format(here, program.quote(folder)))
  for _, name in ipairs(command[3]) do program.write(folder .. "/" .. name, "old\n") end
  if command[4] then
    local result = program.shell(command[4], folder)
    assert.equal(0, result.code, result.err)
  end
  return folder
end

local function run_failing(kind, command, folder, n)
  local log = os.tmpname()
  os.remove(log)
  local line = command[2]:gsub("^tperf", function()
    return ("ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 %s=%d FAIL_LOG=%s LD_PRELOAD=%s %s")
      :format(kind, n, log, shim, program.quote(program.absolute()))
  end)
  local result = program.shell(line, folder)
  local file = io.open(log)
  result.call = file and file:read "a"
  if file then file:close() end
  os.remove(log)
  return result
end

-- All that is wrong in the folder after a failure, as texts.
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

local function lies_beside(folder)
  return program.shell("find . -name 'points-*' | grep -q .", folder).code == 0
end

-- What a run should have come to whose call has failed: nil, or what is wrong.
local VERDICTS = {}

function VERDICTS.FAIL_WRITE(result) return result.code == 1 and is_told(result.err) end

function VERDICTS.FAIL_READ(result, printed)
  if result.code == 0 then return result.out == printed end
  return result.code == 1 and result.err:find "%f[%g]tperf: "
end

function VERDICTS.FAIL_EINTR(result, printed) return result.code == 0 and result.out == printed end

local WORDS = { FAIL_WRITE = "write", FAIL_READ = "look at a file", FAIL_EINTR = "interruption" }
local LOOKS = { ["a short script"] = true }

local function let_fail(kind, command)
  it(("%s of %s may fail"):format(WORDS[kind], command[1]), function()
    local folder, prepared = prepare(command), prepare(command)
    local before = contents(folder)
    local result = program.shell(command[2], folder)
    assert.equal(0, result.code, result.err)
    local printed, after = result.out, contents(folder)
    program.remove(folder)
    local n, wrong = 0, {}
    repeat
      n = n + 1
      folder = program.folder()
      program.shell(("cp -R %s/. ."):format(program.quote(prepared)), folder)
      result = run_failing(kind, command, folder, n)
      local place = ("%s, call %d, %s: "):format(command[2], n, result.call)
      if result.call then
        for _, fault in ipairs(faults(contents(folder), before, after)) do wrong[#wrong + 1] = place .. fault end
        -- What a database cannot move to its place it keeps beside it, and moves later.
        local kept = DATABASES[result.call] and result.code == 0 and result.out == printed
          and same(contents(folder), after)
        if not kept and not VERDICTS[kind](result, printed) then
          wrong[#wrong + 1] = ("%sends with %d: %s"):format(place, result.code, result.err)
        end
      end
      local again = program.shell(command[2], folder)
      if lies_beside(folder) then wrong[#wrong + 1] = place .. "something lies beside the cache afterwards" end
      local now = contents(folder)
      for name, text in pairs(after) do
        if now[name] ~= text and not JOURNALS[name] then wrong[#wrong + 1] = place .. name .. " is wrong afterwards" end
      end
      if again.code ~= 0 or again.out ~= printed then wrong[#wrong + 1] = place .. "afterwards: " .. again.err end
      program.remove(folder)
    until not result.call or n == 500
    program.remove(prepared)
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(n > 1 and n < 500)
  end)
end

local function build_shim()
  local made = program.shell(("make -s -C %s VARIANT=%s %s"):format(here, build:match "[^/]*$",
    build:match "build/[^/]*$" .. "/fail_write.so"))
  assert.equal(0, made.code, made.err)
end

describe("a file system without links", function()
  setup(build_shim)

  it("gets new files whole, and keeps those that others make meanwhile", function()
    for _, way in ipairs { { "1", 0, "mine", "" }, { "2", 1, "", "s.lua:1: .*File exists" } } do
      local folder = program.folder()
      program.write(folder .. "/s.lua", "local file = assert(io.open('own.txt', 'w')) file:write 'mine'; "
        .. "assert(file:close())")
      local result = program.shell(("ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 NO_LINKS=%s LD_PRELOAD=%s "
        .. "%s run s.lua"):format(way[1], shim, program.quote(program.absolute())), folder)
      assert.equal(way[2], result.code, result.err)
      assert.matches(way[4], result.err)
      assert.equal(way[3], program.slurp(folder .. "/own.txt"))
      assert.equal("own.txt\ns.lua\n", (program.shell("ls -A | grep -v .tperf-written", folder).out))
      program.remove(folder)
    end
  end)
end)

describe("each", function()
  setup(build_shim)

  for _, command in ipairs(commands) do
    let_fail("FAIL_WRITE", command)
    if LOOKS[command[1]] then
      let_fail("FAIL_READ", command)
      let_fail("FAIL_EINTR", command)
    end
  end
end)
