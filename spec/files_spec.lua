-- The files that a run may write, and how: completely, or not at all.
local program = require "program"

local function ls(folder) return program.shell("find . -mindepth 1 | sort", folder).out end

describe("a script's files", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  local function run(text, options, name)
    program.write(folder .. "/" .. (name or "s.lua"), text)
    return program.shell(("tperf run %s %s"):format(options or "", name or "s.lua"), folder)
  end

  local function runs(text, options, name)
    local result = run(text, options, name)
    assert.same({ "", 0 }, { result.err, result.code })
    return result.out
  end

  local function refuses(message, text, options, name)
    local result = run(text, options, name)
    assert.truthy(result.err:find(message, 1, true), result.err)
    assert.equal(1, result.code)
  end

  local function content(name) return program.slurp(folder .. "/" .. name) end

  it("may be written again by later runs, with and without --out", function()
    for _, options in ipairs { "", "--out out" } do
      local prefix = options == "" and "" or "out/"
      for i = 1, 3 do
        runs(("local f = io.open('x.csv', 'w') f:write(%d) f:close()"):format(i), options)
        assert.equal(tostring(i), content(prefix .. "x.csv"))
      end
      program.write(folder .. "/" .. prefix .. "x.csv", "edited")
      refuses("cannot write 'x.csv': it has changed since a run of tperf wrote it (remove or rename it, or name "
        .. "another folder with --out; --trust lifts this)", "io.open('x.csv', 'w')", options)
      assert.equal("edited", content(prefix .. "x.csv"))
      os.remove(folder .. "/" .. prefix .. "x.csv")
      runs("io.open('x.csv', 'w'):write 'new'", options)
      assert.equal("new", content(prefix .. "x.csv"))
    end
  end)

  it("may be written again after a run that failed, was interrupted or wrote other files", function()
    refuses("broken", "io.open('x.csv', 'w'):write('1'):close() error 'broken'", "--out out")
    runs("io.open('x.csv', 'w'):write '2'", "--out out")
    program.write(folder .. "/s.lua", "io.open('x.csv', 'w'):write('3'):close() while true do end")
    local result = program.interrupted("run --out out s.lua", "grep -q 3 out/x.csv", folder)
    assert.truthy(result.err:find("interrupted", 1, true), result.err)
    assert.equal("3", content "out/x.csv")
    runs("io.open('y.csv', 'w'):write '1'", "--out out", "other.lua")
    runs("io.open('x.csv', 'w'):write '4'", "--out out")
    assert.equal("4", content "out/x.csv")
  end)

  it("are also recognised by the manifest's checksums", function()
    runs("io.open('x.csv', 'w'):write '1'", "--out out")
    os.remove(folder .. "/out/.tperf-written")
    runs("io.open('x.csv', 'w'):write '2'", "--out out")
    assert.equal("2", content "out/x.csv")
    -- by its checksum, not by its name
    os.remove(folder .. "/out/.tperf-written")
    program.write(folder .. "/out/x.csv", "3")
    refuses("cannot write 'x.csv': it is there already, and no run of tperf wrote it", "io.open('x.csv', 'w')",
      "--out out")
  end)

  it("may not be written again by another script", function()
    runs("io.open('x.csv', 'w'):write '1' print 'talk'", "--out out", "one.lua")
    for _, code in ipairs { "io.open('x.csv', 'w')", "os.remove 'x.csv'", "os.rename('x.csv', 'y.csv')" } do
      refuses("cannot write 'x.csv': another script wrote it", code, "--out out", "two.lua")
    end
    program.shell("mkdir other; cp one.lua other", folder)
    local result = program.shell("tperf run --out out other/one.lua", folder)
    assert.truthy(result.err:find("another script wrote it", 1, true), result.err)
    runs("print 'talk'", "--out out", "two.lua")
    for _, name in ipairs { "one.lua", "./one.lua", "other/../one.lua" } do
      assert.equal(0, program.shell("tperf run --out out " .. name, folder).code)
    end
    program.shell("mkdir moved; mv one.lua out moved", folder)
    assert.equal(0, program.shell("tperf run --out moved/out moved/one.lua", folder).code)
  end)

  it("may be written again by their script under another name", function()
    runs("io.open('x.csv', 'w'):write '1'", "", "one.lua")
    refuses("another script wrote it", "io.open('x.csv', 'w')", "", "two.lua")
    program.shell("mv one.lua renamed.lua", folder)
    assert.equal(0, program.shell("tperf run renamed.lua", folder).code)
    runs("print 'talk'", "", "one.lua") -- the renamed one's by now
    refuses("another script wrote it", "io.open('x.csv', 'w')", "", "two.lua")
  end)

  it("ignore another user's journal", function()
    if program.shell("id -u").out ~= "0\n" then return end
    runs "io.open('x.csv', 'w'):write 'one'"
    program.shell("chown 12345 .tperf-written", folder)
    refuses("no run of tperf wrote it", "io.open('x.csv', 'w')")
  end)

  it("can be updated, appended to, renamed and removed within a run", function()
    assert.equal("abc\tXbc\nnil\ttrue\n", runs [[
      local function put(mode, text) local f = assert(io.open("x.csv", mode)) f:write(text) assert(f:close()) end
      put("w", "a") put("a", "b") put("a+", "c")
      local first = io.open("x.csv"):read "a"
      put("r+", "X")
      print(first, io.open("x.csv"):read "a")
      assert(os.rename("x.csv", "y.csv"))
      io.open("z.csv", "w"):close()
      assert(os.rename("y.csv", "z.csv"))
      print(io.open "y.csv", os.remove "z.csv")
    ]])
    assert.equal("./.tperf-written\n./s.lua\n", ls(folder))
  end)

  it("appear when they are closed, and at the end of the run", function()
    assert.equal("nil\nab\n", runs [[
      local f = io.open("x.csv", "w")
      f:write "a" f:flush()
      print((io.open "x.csv"))
      f:write "b" f:close()
      print(io.open("x.csv"):read "a")
      io.output "y.csv" io.write "left open"
      io.open("z.csv", "w"):write "forgotten"
    ]])
    assert.same({ "left open", "forgotten" }, { content "y.csv", content "z.csv" })
    runs "io.open('z.csv', 'w'):write 'again' os.exit(0)"
    assert.equal("again", content "z.csv")
  end)

  it("stay as they were when the script fails before it closes them", function()
    runs "io.open('x.csv', 'w'):write 'old'"
    local before = ls(folder)
    refuses("broken", "local f = io.open('x.csv', 'w') f:write 'half' f:flush() error 'broken'")
    refuses("instructions", "local f = io.open('x.csv', 'w') f:write 'half' while true do end",
      "--max-instructions 100000")
    assert.same({ "old", before }, { content "x.csv", ls(folder) })
  end)

  it("leave nothing temporary behind when a signal ends the run", function()
    -- Under nohup, programs ignore HUP, as they should.
    local ignored = tonumber(program.shell "grep SigIgn /proc/self/status".out:match "%x%x%x+", 16)
    for name, number in pairs { TERM = 15, HUP = 1, PIPE = 13 } do
      if ignored >> number - 1 & 1 == 1 then goto continue end
      program.write(folder .. "/s.lua", "local f = io.open('x.csv', 'w') f:write 'half' f:flush() io.stderr:write 'on' "
        .. "while true do end")
      program.shell(("%s run s.lua 2> said & while [ ! -s said ] && running $!; do sleep 0.01; done; ls -A > during; "
        .. "kill -%s $!; wait; rm said"):format(program.quote(program.absolute()), name), folder)
      assert.truthy(content "during":find ".tperf-", 1, true)
      assert.equal("./during\n./s.lua\n", ls(folder))
      ::continue::
    end
  end)

  it("keep their permissions when they are written again", function()
    runs "io.open('x.csv', 'w'):write '1'"
    program.shell("chmod 640 x.csv", folder)
    runs "io.open('x.csv', 'w'):write '2'"
    assert.equal("640\n", program.shell("stat -c %a x.csv", folder).out)
  end)

  it("are no more than 64 at a time", function()
    refuses("Too many open files", "local t = {} for i = 1, 65 do t[i] = assert(io.open(i .. '.csv', 'w')) end")
  end)

  it("are no larger than 4 GiB, holes and all", function()
    refuses("cannot write 'x.csv': File too large",
      "local f = io.open('x.csv', 'w') f:seek('set', 5 << 30) f:write 'end' print(f:close())")
    assert.equal("./s.lua\n", ls(folder))
  end)

  it("are measured while they are written, not only when they are closed", function()
    local result = run("local f = io.open('x.csv', 'w') f:seek('set', (4 << 30) - 2) "
      .. "print(f:write 'en') print(f:write 'd') io.output(f) print(io.write 'd') io.stderr:write(f:seek()) os.exit()")
    assert.equal(("nil\tFile too large\t27\n"):rep(2), result.out:match "\n(.*)$")
    assert.equal("4294967296tperf: cannot write 'x.csv': File too large\n", result.err)
    assert.same({ 1, "./s.lua\n" }, { result.code, ls(folder) })
  end)

  local SECONDS <const> = require "tperf.core".faults and 200 or 20 -- of processor time, under sanitizers

  it("are paid for when they are hashed and copied: opened, closed, renamed and removed", function()
    program.write(folder .. "/s.lua", [[
      local file = io.open("x.csv", "w")
      for _ = 1, 64 do file:write(("x"):rep(1 << 20)) end
      file:close()
      for _ = 1, 1000 do
        if arg[1] == "append" then io.open("x.csv", "a"):close() end
        if arg[1] == "open" then io.open("x.csv", "w") end
        if arg[1] == "rename" then os.rename("x.csv", "y.csv") os.rename("y.csv", "x.csv") end
        if arg[1] == "update" then io.open("x.csv", "r+"):close() end
      end
    ]])
    for _, way in ipairs { "append", "open", "rename", "update" } do
      local command = ("ulimit -t %d; tperf run --max-instructions 2e8 s.lua %s"):format(SECONDS, way)
      local result = program.shell(command, folder)
      assert.truthy(result.err:find("more than 200000000 instructions", 1, true), way .. result.err)
      program.shell("rm -f x.csv y.csv .tperf-written", folder)
    end
  end)

  it("do not replace a file that appears meanwhile", function()
    program.write(folder .. "/s.lua",
      "local f = io.open('x.csv', 'w') f:write 'mine' io.stderr:write 'open\\n' io.read() "
      .. "print(f:close())")
    local result = program.shell([[
      (i=0; while [ ! -s said ] && [ $i -lt 60000 ]; do i=$((i + 1)); sleep 0.01; done; echo theirs > x.csv; echo) |
      tperf run s.lua 2> said]], folder)
    assert.equal("theirs\n", content "x.csv")
    assert.equal("nil\tFile exists\t17\n", result.out)
    assert.same({ "open\ntperf: cannot write 'x.csv': File exists\n", 1 }, { content "said", result.code })
  end)
end)

describe("a file that a command writes", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)
  local SCHEDULE <const> = "tperf schedule 1f1b -d 2 -m 4 --svg "

  it("replaces the old one atomically", function()
    program.shell("echo old > s.svg; chmod 600 s.svg; ln s.svg other", folder)
    assert.equal(0, program.shell(SCHEDULE .. "s.svg", folder).code)
    assert.equal("old\n", program.slurp(folder .. "/other")) -- a second name still holds the whole old file
    assert.equal("600\n", program.shell("stat -c %a s.svg", folder).out)
    assert.equal("./other\n./s.svg\n", ls(folder))
  end)

  it("may be a link's target, a pipe or a device", function()
    program.shell("echo old > real.svg; ln -s real.svg s.svg", folder)
    assert.equal(0, program.shell(SCHEDULE .. "s.svg", folder).code)
    local svg = program.slurp(folder .. "/real.svg")
    assert.equal("<svg", svg:sub(1, 4))
    assert.equal("s.svg\n", program.shell("find . -type l -printf '%P\\n'", folder).out)
    assert.equal(svg, program.shell("mkfifo p; cat p & " .. SCHEDULE .. "p > /dev/null; wait", folder).out)
    assert.truthy(program.shell(SCHEDULE .. "/dev/stdout", folder).out:find(svg, 1, true))
    local full = program.shell(SCHEDULE .. "/dev/full", folder)
    assert.equal("tperf: cannot write '/dev/full': No space left on device\n", full.err)
    assert.equal(1, full.code)
  end)

  it("reports what blocks it", function()
    for name, message in pairs {
      ["no/s.svg"] = "tperf: cannot write 'no/s.svg': No such file or directory (make the folder first)\n",
      ["sub"] = "tperf: cannot write 'sub': Is a directory\n",
      ["file/s.svg"] = "tperf: cannot write 'file/s.svg': Not a directory\n",
    } do
      assert.equal(message, program.shell("mkdir -p sub; touch file; " .. SCHEDULE .. name, folder).err)
    end
  end)
end)

describe("standard streams", function()
  it("that are full or closed end the run with status 1 if anything is to be printed", function()
    for _, command in ipairs { "list models", "version", "help", "search llama-3.1-8b -s h100-sxm -g 8 -b 8 --csv" } do
      for _, where in ipairs { "> /dev/full", ">&-" } do
        local result = program.shell(("tperf %s %s"):format(command, where))
        assert.equal(1, result.code)
        assert.truthy(result.err:find("tperf: cannot write to standard output", 1, true), result.err)
      end
    end
    assert.equal(1, program.shell("tperf list models > /dev/full 2> /dev/full").code)
    assert.equal(0, program.shell("tperf run /dev/null >&-").code)
  end)

  it("that are closed are not replaced by the next file opened", function()
    local folder = program.folder()
    program.write(folder .. "/s.lua", "local f = io.open('x.csv', 'w') io.stderr:write 'talk' io.stdout:write 'print' "
      .. "print(io.read()) f:write 'data' f:close()")
    program.shell("tperf run s.lua <&- >&- 2>&-", folder)
    assert.equal("data", program.slurp(folder .. "/x.csv"))
    program.write(folder .. "/s.lua", "local f = io.open('y.csv', 'w') f:write 'data' f:close() error 'an error'")
    program.shell("tperf run --trust s.lua 2>&-", folder)
    assert.equal("data", program.slurp(folder .. "/y.csv"))
    program.remove(folder)
  end)
end)

describe("require", function()
  local folder
  before_each(function()
    folder = program.folder()
    program.shell([[mkdir -p "there/pack" elsewhere; cd there
      echo 'return { name = "beside" }' > helper.lua; echo 'return { name = "package" }' > pack/init.lua
      echo 'return { name = "inner" }' > pack/inner.lua; echo 'return { name = "here" }' > ../helper2.lua
      echo 'print(require("helper").name, require("pack").name, require("pack.inner").name)' > s.lua]], folder)
  end)
  after_each(function() program.remove(folder) end)

  it("finds modules beside the script, wherever the run starts", function()
    for _, command in ipairs { "tperf run there/s.lua", "cd there && tperf run s.lua", "tperf run --trust there/s.lua",
      "cd elsewhere && tperf run ../there/s.lua", "cd / && tperf run --out \"$OLDPWD/out\" \"$OLDPWD\"/there/s.lua" } do
      local result = program.shell(command, folder)
      assert.same({ "beside\tpackage\tinner\n", "", 0 }, { result.out, result.err, result.code })
    end
  end)

  it("prefers them to those of the current folder", function()
    program.write(folder .. "/helper.lua", "return { name = 'wrong' }")
    assert.equal("beside\tpackage\tinner\n", program.shell("tperf run there/s.lua", folder).out)
  end)

  it("reads regular files only", function()
    program.shell("cd there && rm helper.lua && mkfifo helper.lua", folder)
    local result = program.shell("timeout 600 " .. program.quote(program.absolute()) .. " run there/s.lua", folder)
    assert.truthy(result.err:find("module 'helper' not found:\n\tno file 'there/helper.lua'", 1, true), result.err)
  end)
end)
