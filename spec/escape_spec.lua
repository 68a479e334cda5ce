-- Runs the attempts in spec/escapes.lua. Each gets a folder: work, where the script runs and may create files, beside
-- other things that it must not touch. Afterwards everything else must be unchanged. A folder in which all that was
-- there still is serves the next attempt, without what is new.
local cases = require "cases"
local escapes = require "escapes"
local lfs = require "lfs"
local program = require "program"
local sha256 = require "tperf.core".file.sha256

local SETUP = [[
mkdir -p work/.git/hooks work/.hidden work/sub work/bare work/lib/tperf other work2
echo keep > other/file; echo keep > other/second; echo keep > work/.git/config; echo keep > work/.bashrc
echo keep > work/Makefile; echo keep > work/existing.csv; echo keep > work/existing.svg; echo keep > work/existing.md
echo keep > work/sub/setup.py; : > work/empty
echo 'return debug' > work/wants_debug.lua
printf '\033Lua' > work/code.luac; printf '#!\n\033Lua' > work/comment.luac
cd work; pwd > here
ln -s ../other out_link; ln -s ../other/file file_link; ln -s ../other/nothing dangling; ln -s Makefile make_link
ln -s loop loop; ln -s ../other/file link.csv; ln ../other/second hard; mkfifo pipe
ln -s /proc/self/environ env_link; ln -s /dev/zero zero_link; ln -s /dev/zero zero.yaml; ln -s /proc proc_link
]]

-- A line for each file below the folder, with its mode, and its contents or the link's target.
local function seen_in(folder)
  local seen = {}
  local function look(inside)
    for name in lfs.dir(folder .. inside) do
      if name ~= "." and name ~= ".." then
        local path = inside .. "/" .. name
        local known = lfs.symlinkattributes(folder .. path)
        local kind, rest = known.mode, known.target or ""
        if kind == "file" then rest = sha256(program.slurp(folder .. path)) end
        if path ~= "/work/script.lua" then -- attempt compares its text
          seen[("%s %s %s %s"):format(path, kind, known.permissions, rest)] = path
        end
        if kind == "directory" then look(path) end
      end
    end
  end
  look ""
  return seen
end

-- Lines that are missing now, and new ones outside work or in dot folders of work.
local function changes(before, after)
  local list = {}
  for line in pairs(before) do
    if not after[line] then list[#list + 1] = "was: " .. line end
  end
  for line, path in pairs(after) do
    local inside = path:find "^/work/"
    if not before[line] and (not inside or path:find "/%." and not path:find "%.tperf%-written") then
      list[#list + 1] = "new: " .. line
    end
  end
  return table.concat(list, "\n")
end

-- Removes what is new; false if anything else has changed.
local function restore(folder, before, after)
  for line in pairs(before) do
    if not after[line] then return false end
  end
  for line, path in pairs(after) do
    if not before[line] then program.remove(folder .. path) end
  end
  return true
end

local template, place, whole -- place: "tree", the folder of the attempts, with all of `whole` and nothing else

setup(function()
  template = program.folder()
  program.shell(SETUP, template)
end)
teardown(function()
  program.remove(template)
  if place then program.remove(place) end
end)

local function fresh_tree()
  if place then return place .. "/tree" end
  place = program.folder()
  program.shell(("cp -a %s tree && cd tree/work && pwd > here"):format(program.quote(template)), place)
  whole = seen_in(place .. "/tree")
  return place .. "/tree"
end

local function attempt(case)
  local folder = fresh_tree()
  program.write(folder .. "/work/script.lua", case[2])
  if case.before then assert.equal(0, program.shell("cd work && " .. case.before, folder).code) end
  local before = case.before and seen_in(folder) or whole
  local result = program.shell(("ulimit -t 60; cd work; %s exec %s run %s script.lua"):format(case.env or "",
    program.quote(program.absolute()), case.options or ""), folder)
  local after = seen_in(folder)
  local changed = changes(before, after)
  if program.slurp(folder .. "/work/script.lua") ~= case[2] then changed = changed .. "was: the script" end
  if not restore(folder, whole, after) then
    program.remove(place)
    place = nil
  end
  return result, changed
end

-- Internal modules are out of reach once `require` knows the documented ones.
local documented_only = program.script("require 'tperf.describe.workload'")
program.remove(documented_only.folder)

describe("a script that tries to leave the sandbox by", function()
  it("at least 405 distinct ways", function()
    local names = {}
    for _, case in ipairs(escapes) do names[case[1] .. "\n" .. case[2]] = true end
    local count = 0
    for _ in pairs(names) do count = count + 1 end
    assert.equal(#escapes, count)
    assert.is_true(count >= 405)
  end)

  for i = 1, #escapes, cases(3, 1) do -- ways of one kind follow each other
    local case = escapes[i]
    local try = case.internal and documented_only.code == 0 and pending or it
    try(case[1], function()
      local result, changed = attempt(case)
      assert.equal("", changed)
      if case.prints then
        assert.same({ case.prints, 0 }, { result.out, result.code }, result.err)
        if not case.talks then assert.equal("", result.err) end
      else
        assert.equal(1, result.code, result.err)
        assert.equal("", result.out)
        assert.truthy(result.err:find(case[3], 1, true), ("no %q in %q"):format(case[3], result.err))
        assert.equal("tperf: ", result.err:sub(1, 7))
      end
    end)
  end
end)

describe("a folder that turns into a link while a script writes below it", function()
  it("never leads outside", function()
    local folder = program.folder()
    program.shell("mkdir -p work/turns other", folder)
    program.write(folder .. "/work/script.lua", [[
      local before = io.open("turns/before.csv", "w")
      before:write "1"
      io.stderr:write "opened\n"
      io.read() -- here the folder turns into a link
      before:close()
      for _, name in ipairs { "turns/x.csv", "turns/before.csv" } do
        print((select(2, pcall(io.open, name, "w")):match "a symbolic link or a file is in its way"))
      end
      print((select(2, pcall(os.remove, "turns/file")):match "a symbolic link or a file is in its way"))
    ]])
    program.shell("echo keep > other/file", folder)
    local result = program.shell([[cd work
      (i=0; while [ ! -s ../said ] && [ $i -lt 60000 ]; do i=$((i + 1)); sleep 0.01; done
      mv turns ../aside; ln -s ../other turns; echo) |
      tperf run script.lua 2> ../said]], folder)
    assert.equal(("a symbolic link or a file is in its way\n"):rep(3), result.out)
    assert.equal("file\n", program.shell("ls -A other", folder).out)
    assert.equal("1", program.slurp(folder .. "/aside/before.csv")) -- in the folder in which it was opened
    program.remove(folder)
  end)
end)

describe("an output folder that turns into a link while a script runs", function()
  it("stays the same folder", function()
    local folder = program.folder()
    program.shell("mkdir -p work/out other && echo keep > other/file", folder)
    program.write(folder .. "/work/script.lua", [[
      io.stderr:write "runs\n"
      io.read() -- here the output folder turns into a link
      io.open("x.csv", "w"):write "1"
      io.open("file.csv", "w"):write "2"
    ]])
    local result = program.shell([[cd work
      (i=0; while [ ! -s ../said ] && [ $i -lt 60000 ]; do i=$((i + 1)); sleep 0.01; done
      mv out ../aside; ln -s ../other out; echo) |
      tperf run --out out script.lua 2> ../said]], folder)
    assert.equal(0, result.code)
    assert.equal("file\n", program.shell("ls -A other", folder).out)
    assert.equal("keep\n", program.slurp(folder .. "/other/file"))
    assert.equal("1", program.slurp(folder .. "/aside/x.csv"))
    assert.equal("2", program.slurp(folder .. "/aside/file.csv"))
    program.remove(folder)
  end)
end)

describe("a forged manifest", function()
  local SCRIPT <const> = "local f = assert(io.open('x.csv', 'w')) f:write '1' f:close()"
  local folder
  before_each(function()
    folder = program.folder()
    program.write(folder .. "/s.lua", SCRIPT)
    assert.equal(0, program.shell("tperf run --out out s.lua && rm out/.tperf-written", folder).code)
  end)
  after_each(function() program.remove(folder) end)

  local function again(outputs)
    local path = folder .. "/out/manifest.json"
    local list = '"outputs": [' .. outputs .. "]"
    local text, count = program.slurp(path):gsub('"outputs": %b[]', function() return list end)
    assert.equal(1, count)
    program.write(path, text)
    return program.shell("tperf run --out out s.lua", folder)
  end

  local function output(file, sum) return ('{"file": "%s", "bytes": 1, "sha256": "%s"}'):format(file, sum) end
  local ONE <const> = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b" -- sha256sum of "1"

  it("gives a script no file that differs from its entry", function()
    program.shell("mkdir out/sub && mkfifo out/pipe && ln -s ../s.lua out/link", folder)
    local lies = { output("x.csv", "short"), output("x.csv", ("0"):rep(64)), output("none", ONE), output("sub", ONE),
      output("pipe", ONE), output("link", ONE), output(".git/config", ONE), output("/etc/passwd", ONE),
      output("nosuch/x.csv", ONE) }
    local result = again(table.concat(lies, ", "))
    assert.equal(1, result.code)
    assert.truthy(result.err:find("it is there already, and no run of tperf wrote it", 1, true), result.err)
  end)

  it("is accepted if its entries are true", function()
    local result = again(output("x.csv", ONE))
    assert.same({ "", 0 }, { result.err, result.code })
  end)
end)

describe("the temporary folder of a verification", function()
  it("is made in TMPDIR, whose absence is reported", function()
    local folder = program.folder()
    program.write(folder .. "/s.lua", "print(1)")
    assert.equal(0, program.shell("tperf run --out out s.lua && mkdir tmp", folder).code)
    for _, base in ipairs { "", folder .. "/tmp" } do
      local result = program.shell(("TMPDIR=%s tperf verify out && ls tmp"):format(program.quote(base)), folder)
      assert.same({ "1 of 1 outputs are the same, to the byte\n", 0 }, { result.out, result.code }, result.err)
    end
    for _, base in ipairs { folder .. "/none/at/all", "/" .. ("x"):rep(5000) } do
      local result = program.shell(("TMPDIR=%s tperf verify out"):format(base), folder)
      assert.equal(1, result.code)
      assert.truthy(result.err:find("cannot make a temporary folder", 1, true), result.err)
    end
    program.remove(folder)
  end)
end)
