-- Corner cases of files that scripts name, read and write: long names, long chains of links, root as the output folder,
-- a long journal, invalid modes, endless files.
local program = require "program"

local folder
local function run(text, options, command)
  program.write(folder .. "/s.lua", text)
  return program.shell(command or ("tperf run %s s.lua"):format(options or ""), folder)
end

local function runs(...)
  local result = run(...)
  assert.same({ "", 0 }, { result.err, result.code })
  return result.out
end

local function refuses(message, ...)
  local result = run(...)
  assert.equal(1, result.code)
  assert.truthy(result.err:find(message, 1, true), result.err)
end

local function each(name, f)
  it(name, function()
    folder = program.folder()
    local ok, problem = pcall(f)
    program.remove(folder)
    if not ok then error(problem, 0) end
  end)
end

local function reads(path) return ("print((select(2, io.open(%q))))"):format(path) end

describe("a script reads", function()
  each("names of up to 255 bytes and paths of up to 4095", function()
    local name = ("x"):rep(255)
    program.write(folder .. "/" .. name, "found")
    assert.equal("found\n", runs(("print(io.open(%q):read 'a')"):format(name)))
    assert.equal("found\n", runs(("print(io.open(%q):read 'a')"):format(("./"):rep(1900) .. name)))
    for _, path in ipairs { name .. "x", ("./"):rep(2048), name .. "x/y" } do
      assert.truthy(runs(reads(path)):find "File name too long\n$")
    end
  end)

  each("neither an empty name nor a folder", function()
    assert.equal(": No such file or directory\n", runs(reads ""))
    for _, path in ipairs { "/", "sub/", "sub/.", "./" } do
      program.shell("mkdir -p sub", folder)
      assert.truthy(runs(reads(path)):find "Is a directory\n$", path)
    end
    assert.truthy(runs(reads "none/x"):find "No such file or directory\n$")
    assert.truthy(runs(reads "s.lua/x"):find "Not a directory\n$")
  end)

  each("through up to forty links in a row, whose paths must not grow too long", function()
    program.write(folder .. "/1", "end")
    program.shell([[for i in $(seq 2 42); do ln -s $((i - 1)) $i; done
      d=$(printf 'y%.0s' $(seq 200)); p=$d; mkdir -p $d; ln -s . $d/$d
      for i in $(seq 18); do p=$p/$d; done; ln -s $p long; ln -s long/$p longer; ln -s longer/$p longest]], folder)
    assert.equal("end\n", runs "print(io.open('41'):read 'a')")
    assert.truthy(runs(reads "42"):find "Too many levels of symbolic links")
    local said = runs(reads "longest/1")
    assert.truthy(said:find "File name too long" or said:find "Too many levels", said)
  end)

  each("the target of an absolute link, except in /proc", function()
    program.write(folder .. "/real", "found")
    program.shell("ln -s $(pwd)/real absolute; ln -s /proc/version version", folder)
    assert.equal("found\n", runs "print(io.open('absolute'):read 'a')")
    assert.truthy(runs(reads "version"):find "none of /proc, /sys and /dev")
  end)

  each("nothing from within /proc", function()
    program.write(folder .. "/s.lua", reads "version")
    local result = program.shell(("cd /proc && tperf run --out %s %s/s.lua"):format(folder, folder))
    assert.truthy(result.out:find "none of /proc, /sys and /dev", result.err)
  end)
end)

describe("a script writes", function()
  each("only in the modes of C", function()
    for _, mode in ipairs { "", "x", "rw", "w++", "wb+", "wbb", "w\0", "r+b+" } do
      refuses("invalid mode", ("io.open('x.csv', %q)"):format(mode))
    end
    assert.equal("x.csv: No such file or directory\n", runs "print((select(2, io.open('x.csv', 'r+'))))")
    assert.equal("x.csv: No such file or directory\n", runs "print((select(2, io.open('x.csv', 'r+b'))))")
    assert.equal("ab\n", runs [[
      for _, mode in ipairs { "wb", "ab" } do
        local f = assert(io.open("x.csv", mode))
        f:write(mode:sub(1, 1) == "w" and "a" or "b")
        f:close()
      end
      print(io.open("x.csv", "rb"):read "a")]])
  end)

  each("a limited number of files at a time", function()
    local result = run [[
      local open, message = {}, nil
      for i = 1, 1000 do
        open[i], message = io.open("f" .. i .. ".csv", "w")
        if not open[i] then print(message) break end
      end
      for _, file in ipairs(open) do file:close() end
      print(#open > 10, io.open("again.csv", "w"):close())]]
    assert.truthy(result.out:find "^f%d+%.csv: Too many open files\ntrue\ttrue\n$", result.out)
    assert.truthy(result.err:find "^tperf: cannot write 'f%d+%.csv': Too many open files\n$", result.err)
  end)

  each("to folders that it makes, but moves and removes only what is there", function()
    runs "require 'tperf'.report.save('made/x.csv', { { a = 1 } }, { 'a' }) io.open('made/too/y.csv', 'w'):close()"
    assert.equal("a\n1\n", program.slurp(folder .. "/made/x.csv"))
    refuses("No such file or directory", "assert(io.open('none/x.csv', 'r+'))")
    refuses("a symbolic link or a file is in its way", "io.open('s.lua/x/y', 'w')")
    refuses("No such file or directory", "assert(os.remove 'none/x')")
    refuses("No such file or directory", "assert(os.rename('none/x', 'y'))")
    refuses("No such file or directory", "io.open('own.csv', 'w'):close() assert(os.rename('own.csv', 'none/x.csv'))")
    refuses("No such file or directory", "assert(os.remove 'x')")
    refuses("No such file or directory", "assert(os.rename('x', 'y.csv'))")
  end)

  each("by detours, as long as they stay inside", function()
    program.shell("mkdir -p a/b c", folder)
    assert.equal("1\n", runs "io.open('a/b/../../c/x.csv', 'w'):write(1):close() print(io.open 'c/x.csv':read 'a')")
    refuses("it is outside the output folder", "io.open('a/../../x', 'w')")
    refuses("it is the output folder itself", "io.open('a/..', 'w')")
  end)

  each("no invalid name if the root is the output folder", function()
    for path, message in pairs {
      ["/.x"] = "it starts with a dot", ["/../x"] = "it is outside the output folder", ["/x\1"] = "a control character",
      ["/manifest.json"] = "that is where the run's manifest goes", ["/"] = "it names a folder",
    } do
      refuses(message, ("io.open(%q, 'w')"):format(path), "--out /")
    end
  end)

  each("with a script of any name", function()
    program.write(folder .. "/a\nb.lua", "io.open('x.csv', 'w'):write 'x'")
    for _ = 1, 2 do assert.equal(0, program.shell("tperf run 'a\nb.lua'", folder).code) end
    local journal = program.slurp(folder .. "/.tperf-written")
    assert.truthy(journal:find "\tx.csv\ta%?b%.lua\n" or journal:find "x%.csv\ta%?b%.lua\n", journal)
  end)
end)

describe("the journal of written files", function()
  local LINE <const> = ("0"):rep(64) .. "  %s\ts.lua\n"

  each("is shortened when it is long: the last line of each file stays", function()
    local lines = {}
    for i = 1, 9000 do lines[2 * i - 1], lines[2 * i] = LINE:format "x.csv", LINE:format("other" .. i) end
    program.write(folder .. "/.tperf-written", table.concat(lines))
    runs "io.open('x.csv', 'w'):write '1'"
    local text = program.slurp(folder .. "/.tperf-written")
    assert.equal(2, select(2, text:gsub("  x%.csv\ts%.lua\n", ""))) -- the last of the old ones and the new one
    assert.equal(9000, select(2, text:gsub("  other%d+\ts%.lua\n", "")))
    runs "io.open('x.csv', 'w'):write '2'"
    assert.equal("2", program.slurp(folder .. "/x.csv"))
  end)

  each("has its last line completed after a crash", function()
    program.write(folder .. "/.tperf-written", LINE:format "y" .. "0123")
    runs "io.open('x.csv', 'w'):write '1'"
    runs "io.open('x.csv', 'w'):write '2'"
    assert.truthy(program.slurp(folder .. "/.tperf-written"):find("\n0123\n", 1, true))
  end)

  each("is neither believed nor written to if it has a second name", function()
    program.shell("touch old; ln old .tperf-written", folder)
    refuses("Operation not permitted", "assert(io.open('x.csv', 'w')):write '1'")
    assert.equal("", program.slurp(folder .. "/old"))
    program.shell("rm .tperf-written; mkdir .tperf-written", folder)
    refuses("cannot write 'x.csv'", "assert(io.open('x.csv', 'w')):write '1'")
    program.shell("rmdir .tperf-written; mkfifo .tperf-written", folder)
    refuses("cannot write 'x.csv'", "assert(io.open('x.csv', 'w')):write '1'")
    assert.equal("", program.shell("ls x.csv 2> /dev/null", folder).out)
  end)

  each("does not cover files with a second name", function()
    runs "io.open('x.csv', 'w'):write '1'"
    program.shell("ln x.csv second", folder)
    refuses("Operation not permitted", "assert(io.open('x.csv', 'w'))")
    assert.equal("1", program.slurp(folder .. "/second"))
  end)
end)

describe("the library's tree, in development,", function()
  each("is closed to scripts wherever it lies", function()
    program.shell("mkdir -p lib/tperf out", folder)
    local function with(tree, options, text)
      program.write(folder .. "/s.lua", text or "io.open('x.csv', 'w'):write '1'")
      return program.shell(("TPERF_LUA_DIR=%s tperf run %s s.lua"):format(tree, options), folder)
    end
    for _, case in ipairs { { "lib", "--out lib" }, { "lib", "--out lib/tperf" }, { "/", "" },
      { "lib", "", "io.open('lib/x.csv', 'w')" }, { "lib", "", "io.open('lib/tperf/x.csv', 'w')" } } do
      local result = with(table.unpack(case))
      assert.equal(1, result.code)
      assert.truthy(result.err:find("it is in TPERF_LUA_DIR", 1, true), result.err)
    end
    for _, tree in ipairs { "''", "none", "lib" } do
      local result = with(tree, "--out out")
      assert.equal(0, result.code, result.err)
    end
    assert.equal(0, with("lib", "--out lib2").code) -- a name with the same beginning
  end)
end)

describe("a trusted script's files", function()
  local function saves(path)
    return ("require 'tperf'.report.save(%q, { { a = 1 } }, { 'a' })"):format(path)
  end

  each("may be standard output and error", function()
    program.shell("ln -s /dev/stdout stdout.csv; ln -s /dev/stderr stderr.csv", folder)
    for name, got in pairs { ["stdout.csv"] = "out", ["stderr.csv"] = "err" } do
      local result = run(saves(name), "--trust")
      assert.same({ 0, "a\n1\n" }, { result.code, result[got] }, name)
    end
  end)

  each("need a folder, if it is named absolutely, and a possible name", function()
    for path, message in pairs {
      ["/none-such/x.csv"] = "No such file or directory", [("x"):rep(300) .. ".csv"] = "File name too long",
      [("./"):rep(2100) .. "x.csv"] = "cannot write './././", ["sub.csv"] = "Is a directory",
      ["s.lua/x.csv"] = "Not a directory", ["loop.csv"] = "Too many levels of symbolic links",
    } do
      program.shell("mkdir -p sub.csv; ln -sfn loop.csv loop.csv", folder)
      local result = run(saves(path), "--trust")
      assert.equal(1, result.code)
      assert.truthy(result.err:find(message, 1, true), result.err)
    end
  end)

  each("follow links to their targets", function()
    program.shell("mkdir real; touch real/new.csv; ln -s real/new.csv new.csv; ln -s real sub", folder)
    for _, path in ipairs { "new.csv", "sub/other.csv", "real/../new.csv" } do runs(saves(path), "--trust") end
    assert.equal("new.csv\nother.csv\n", program.shell("ls real", folder).out)
    assert.equal("a\n1\n", program.slurp(folder .. "/real/new.csv"))
  end)

  each("report a full device", function()
    refuses("No space left on device", saves "full.csv", nil, "ln -s /dev/full full.csv; tperf run --trust s.lua")
  end)
end)
describe("a temporary folder", function()
  each("is where TMPDIR says, or in /tmp, and refused if it cannot be made", function()
    runs("print(1)", "--out out")
    for value, message in pairs { ["TMPDIR="] = false, ["-u TMPDIR"] = false,
      ["TMPDIR=/nosuch"] = "No such file or directory",
      ["TMPDIR=$(printf '/%05000d' 0)"] = "cannot make a temporary folder" } do
      local result = program.shell(("env %s %s verify out"):format(value, program.quote(program.absolute())), folder)
      assert.equal(message and 1 or 0, result.code, result.err)
      if message then assert.truthy(result.err:find(message, 1, true), result.err) end
    end
  end)
end)

describe("a script's file", function()
  each("is opened in the modes that C has, and no others", function()
    local text = [[
      for mode in ("w wb w+ w+b a ab a+ a+b r+ r+b"):gmatch "%S+" do
        assert(io.open("own.csv", mode)):close()
      end
      local refused = {}
      for mode in ("wx w+x w+bx wbb w++ z +w bw r+x"):gmatch "%S+" do
        local ok, message = pcall(io.open, "own.csv", mode)
        if not ok and message:find "invalid mode" then refused[#refused + 1] = mode end
      end
      print(table.concat(refused, " "), (pcall(io.open, "own.csv", "w\0")), (pcall(io.open, "own.csv", "")))]]
    assert.equal("wx w+x w+bx wbb w++ z +w bw r+x\tfalse\tfalse\n", runs(text))
  end)
end)
