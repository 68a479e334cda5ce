-- Runs the attempts of spec/escapes.lua. Each has a folder: work, where the script runs and may make new files, beside
-- other things that nobody may touch. Afterwards all that was there must be as it was.
local escapes = require "escapes"
local program = require "program"

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

-- What there is, with its content: one line each. The script's new files in work are its own business.
local LOOK = [[
find . -mindepth 1 -printf '%p %y %m %l\n' | sort; find . -type f | sort | xargs -d '\n' sha256sum
]]

local function look(folder)
  local seen = {}
  for line in program.shell(LOOK, folder).out:gmatch "[^\n]+" do seen[line] = true end
  return seen
end

-- Lines that are missing now, and new ones outside work or in folders of work with dots.
local function changes(before, after)
  local list = {}
  for line in pairs(before) do
    if not after[line] then list[#list + 1] = "was: " .. line end
  end
  for line in pairs(after) do
    local inside = line:find "%./work/"
    if not before[line] and (not inside or line:find "/%." and not line:find "%.tperf%-written") then
      list[#list + 1] = "new: " .. line
    end
  end
  return table.concat(list, "\n")
end

local function attempt(case)
  local folder = program.folder()
  program.shell(SETUP, folder)
  program.write(folder .. "/work/script.lua", case[2])
  if case.before then assert.equal(0, program.shell("cd work && " .. case.before, folder).code) end
  local before = look(folder)
  local result = program.shell(("cd work && %s timeout 30 %s run %s script.lua"):format(case.env or "",
    program.quote(program.absolute()), case.options or ""), folder)
  local changed = changes(before, look(folder))
  program.remove(folder)
  return result, changed
end

-- Internal modules are out of reach once `require` knows the documented ones.
local documented_only = program.script("require 'tperf.layout'")
program.remove(documented_only.folder)

describe("a script that tries to leave the sandbox by", function()
  it("150 ways and more", function()
    local names = {}
    for _, case in ipairs(escapes) do names[case[1] .. "\n" .. case[2]] = true end
    local count = 0
    for _ in pairs(names) do count = count + 1 end
    assert.equal(#escapes, count)
    assert.is_true(count >= 150)
  end)

  for _, case in ipairs(escapes) do
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
  it("never leads out", function()
    local folder = program.folder()
    program.shell("mkdir -p work/turns other", folder)
    program.write(folder .. "/work/script.lua", [[
      local before = io.open("turns/before", "w")
      before:write "1"
      io.stderr:write "opened\n"
      io.read() -- here the folder turns into a link
      before:close()
      for _, name in ipairs { "turns/x", "turns/before" } do
        print((select(2, pcall(io.open, name, "w")):match "a symbolic link or a file is in its way"))
      end
      print((select(2, pcall(os.remove, "turns/file")):match "a symbolic link or a file is in its way"))
    ]])
    program.shell("echo keep > other/file", folder)
    local result = program.shell([[cd work
      (while [ ! -s ../said ]; do sleep 0.01; done; mv turns ../aside; ln -s ../other turns; echo) |
      tperf run script.lua 2> ../said]], folder)
    assert.equal(("a symbolic link or a file is in its way\n"):rep(3), result.out)
    assert.equal("file\n", program.shell("ls -A other", folder).out)
    assert.equal("1", program.slurp(folder .. "/aside/before")) -- in the folder in which it was opened
    program.remove(folder)
  end)
end)

describe("an output folder that turns into a link while a script runs", function()
  it("stays the folder that it was", function()
    local folder = program.folder()
    program.shell("mkdir -p work/out other && echo keep > other/file", folder)
    program.write(folder .. "/work/script.lua", [[
      io.stderr:write "runs\n"
      io.read() -- here the output folder turns into a link
      io.open("x", "w"):write "1"
      io.open("file", "w"):write "2"
    ]])
    local result = program.shell([[cd work
      (while [ ! -s ../said ]; do sleep 0.01; done; mv out ../aside; ln -s ../other out; echo) |
      tperf run --out out script.lua 2> ../said]], folder)
    assert.equal(0, result.code)
    assert.equal("file\n", program.shell("ls -A other", folder).out)
    assert.equal("keep\n", program.slurp(folder .. "/other/file"))
    assert.equal("1", program.slurp(folder .. "/aside/x"))
    assert.equal("2", program.slurp(folder .. "/aside/file"))
    program.remove(folder)
  end)
end)
