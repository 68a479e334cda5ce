-- Attempts to escape the sandbox in every known way; each must end in a clear error.
local sampled = require "cases"
local program = require "program"

-- Runs a script and removes its folder afterwards.
local function run(text, options, prepare)
  local result = program.script(text, options, prepare)
  program.remove(result.folder)
  return result
end

local function prints(expected, text, options, prepare)
  local result = run(text, options, prepare)
  assert.equal("", result.err)
  assert.equal(expected, result.out)
  assert.equal(0, result.code)
end

-- The script must fail with this message (plain text) on standard error, and print nothing.
local function fails(message, text, options, prepare)
  local result = run(text, options, prepare)
  assert.truthy(result.err:find(message, 1, true), ("no %q in %q"):format(message, result.err))
  assert.equal("tperf: ", result.err:sub(1, 7))
  assert.equal("", result.out)
  assert.equal(1, result.code)
end

describe("a script", function()
  it("has the standard library", function()
    prints("a-b\t3\t6.0\t2\tnil\n", [[
      local co = coroutine.wrap(function(x) coroutine.yield(x + 1) end)
      print(table.concat({ "a", "b" }, "-"), co(2), math.max(6.0, 1), utf8.len "é!", (next {}))
    ]])
  end)

  it("has its arguments", function()
    local folder = program.folder()
    program.write(folder .. "/s.lua", "print(arg[0], arg[1], arg[2], #arg, ...)")
    local result = program.shell("tperf run s.lua --json -- x", folder)
    program.remove(folder)
    assert.equal("s.lua\t--json\t--\t3\t--json\t--\tx\n", result.out)
  end)

  it("can be read from standard input", function()
    assert.equal("7\n", program.shell("echo 'print(3 + 4)' | tperf run -").out)
  end)

  it("requires Lua files beside it", function()
    prints("42\tm.lua\n", [[
      package.path = (arg[0]:match "^(.*/)" or "") .. "?.lua;" .. package.path
      local m, from = require "m"
      print(m.answer(), from)
    ]], nil, "echo 'local m = {} function m.answer() return 42 end return m' > m.lua")
  end)

  it("traverses tables in a fixed order", function()
    prints("1=a 2=b 3.5=c a=1 b=2 c=3 d=4\n", [[
      local t, out = { d = 4, [3.5] = "c", c = 3, b = 2, a = 1, "a", "b" }, {}
      for k, v in pairs(t) do out[#out + 1] = k .. "=" .. v end
      print(table.concat(out, " "))
    ]])
  end)

  it("may clear fields while it traverses", function()
    prints("3\tnil\n", [[
      local t, n = { a = 1, b = 2, c = 3 }, 0
      for k in pairs(t) do n = n + 1; t[k] = nil end
      print(n, (next(t)))
    ]])
  end)

  it("may exit with a status, after what it printed", function()
    local result = run "io.write 'done' os.exit(3)"
    assert.equal("done", result.out)
    assert.equal(3, result.code)
    assert.equal(0, run "os.exit(true)".code)
    assert.equal(1, run "os.exit(false)".code)
  end)
end)

describe("the sandbox refuses", function()
  local refusals = {
    ["os.execute"] = "os.execute 'true'",
    ["os.getenv"] = "os.getenv 'HOME'",
    ["os.tmpname"] = "os.tmpname()",
    ["os.setlocale"] = "os.setlocale 'C'",
    ["os.clock"] = "os.clock()",
    ["io.popen"] = "io.popen 'true'",
    ["io.tmpfile"] = "io.tmpfile()",
    ["package.loadlib"] = "package.loadlib('libc.so.6', '*')",
    ["string.dump"] = "string.dump(print)",
    ["debug"] = "debug.getregistry()",
    ["tperf.core"] = "require 'tperf.core'",
    ["tperf.cli.sandbox"] = "require 'tperf.cli.sandbox'",
    ["collectgarbage 'stop'"] = "collectgarbage 'stop'",
    ["binary chunks: load"] = "load('return 1', 'x', 'b')",
    ["binary chunks: loadfile"] = "loadfile('x', 'b')",
    ["__gc"] = "setmetatable({}, { __gc = print })",
  }
  for name, text in pairs(refusals) do
    it(name, function()
      fails("script.lua:1: ", text)
      fails(name, text)
      fails("not available to scripts", text)
    end)
  end

  it("the clock", function()
    fails("os.time without a date reads the clock", "print(os.time())")
    fails("os.date without a time reads the clock", "print(os.date '%Y')")
    prints("2001-09-09\n", "print(os.date('!%Y-%m-%d', 1e9 // 1 | 0))")
  end)

  it("unseeded random numbers", function()
    fails("math.random: call math.randomseed(NUMBER) first", "print(math.random())")
    fails("math.randomseed needs a number", "math.randomseed()")
    local first = run("math.randomseed(7) print(math.random(1e9 | 0))").out
    assert.equal(first, run("math.randomseed(7) print(math.random(1e9 | 0))").out)
  end)

  it("bytecode, however it is loaded", function()
    local compile = "printf '\\033Lua' > code.luac"
    fails("attempt to load a binary chunk", "assert(load('\\27Lua'))")
    fails("attempt to load a binary chunk", "local done; assert(load(function() if done then return end done = 1 "
      .. "return '\\27Lua' end))")
    fails("attempt to load a binary chunk", "assert(loadfile 'code.luac')", nil, compile)
    fails("attempt to load a binary chunk", "dofile 'code.luac'", nil, compile)
    fails("attempt to load a binary chunk", "package.path = '?.luac' require 'code'", nil, compile)
    local result = program.shell("printf '\\033Lua' | tperf run -")
    assert.truthy(result.err:find("attempt to load a binary chunk", 1, true))
  end)

  it("native modules", function()
    fails("module 'lfs' not found", "package.cpath = '/usr/lib/x86_64-linux-gnu/lua/5.4/?.so' require 'lfs'")
    fails("package.searchers", "assert(package.searchers, 'package.searchers')")
  end)

  it("undeclared globals, by name", function()
    fails("script.lua:2: undeclared global 'cuont'", "local count = 1\nprint(cuont)")
    fails("undeclared global 'tonumbr' (did you mean 'tonumber'?)", "print(tonumbr '1')")
    fails("script.lua:1: assignment to undeclared global 'x' (write 'local x')", "x = 1")
    fails("assignment to undeclared global 'f'", "function f() end")
    fails("undeclared global 'y'", "package.path = './?.lua' require 'm'", nil, "echo 'y = 1' > m.lua")
    prints("1\n", "rawset(_G, 'declared', 1) print(declared)")
    fails("cannot change a protected metatable", "setmetatable(_G, nil)")
    prints("false\n", "print(getmetatable(_G))")
  end)

  it("code loaded with other globals", function()
    fails("debug is not available", "load('return debug')()")
    fails("debug is not available", "dofile 'd.lua'", nil, "echo 'return debug.getinfo' > d.lua")
    prints("nil\n", "print(load('return debug', 'x', 't', {})())")
    fails("attempt to index a nil value (upvalue '_ENV')", "load('return debug', 'x', 't', nil)()")
  end)

  it("tables shared with the library", function()
    prints("false\tfalse\n", "print(getmetatable '', getmetatable(io.stdout))")
    prints("AB\n", "string.upper = function() return 'mine' end print(('ab'):upper())")
    prints("true\n", "print(require 'string' == string and package.loaded.string == string)")
    -- a script's changes to its libraries do not reach the library's
    fails("unknown system \"no-such\"", [[
      table.concat, string.format, math.type, io.open = nil, nil, nil, nil
      require "tperf".system "no-such"
    ]])
  end)
end)

describe("files", function()
  it("are read anywhere and written below the current folder", function()
    prints("hello\n", [[
      local f = assert(io.open("sub/x.csv", "w"))
      f:write "hello\n"
      f:close()
      for line in io.lines "sub/x.csv" do print(line) end
    ]], nil, "mkdir sub")
    prints("hello",
      "io.output 'x.csv' io.write 'hello' io.close() io.output(io.stdout) io.write(io.open('x.csv'):read 'a')")
    prints("ab\n",
      "local f = io.open('x.csv', 'w') f:write 'a' f:close() f = io.open('x.csv', 'a') f:write 'b' f:close() "
      .. "print(io.open('x.csv'):read 'a')")
    prints("true\tnil\n",
      "io.open('x.csv', 'w'):close() os.rename('x.csv', 'y.md') print(os.remove 'y.md', (io.open 'y.md'))")
    prints("true\n", "print(io.open('./a/../b.csv', 'w') ~= nil)")
  end)

  it("go to the folder that --out names", function()
    local result = program.script("io.open('x.csv', 'w'):write('1'):close()", "--out results", "mkdir results")
    assert.equal("", result.err)
    assert.equal("1", program.slurp(result.folder .. "/results/x.csv"))
    program.remove(result.folder)
    result = program.script("io.open('x.csv', 'w'):write('2'):close()", "--out new/sub/folder/")
    assert.equal("", result.err)
    assert.equal("2", program.slurp(result.folder .. "/new/sub/folder/x.csv"))
    program.remove(result.folder)
    fails("cannot use the output folder script.lua/x: Not a directory", "print(1)", "--out script.lua/x")
  end)

  local escape = program.temporary ".csv"
  local outside = {
    ["an absolute path"] = "io.open('" .. escape .. "', 'w')",
    ["appending"] = "io.open('" .. escape .. "', 'a+b')",
    ["updating"] = "io.open('/etc/passwd', 'r+')",
    ["the folder above"] = "io.open('../tperf-escape', 'w')",
    ["a detour"] = "io.open('sub/../../tperf-escape', 'w')",
    ["io.output"] = "io.output '../tperf-escape'",
    ["os.remove"] = "os.remove '../tperf-escape'",
    ["os.rename from"] = "os.rename('../a', 'b')",
    ["os.rename to"] = "io.open('a.csv', 'w'):close() os.rename('a.csv', '../b')",
    ["a folder with the same beginning"] = "io.open(here .. '2/x', 'w')",
    ["a zero byte"] = "io.open('x\\0/../../y', 'w')",
    ["a report"] = "require 'tperf'.report.save('" .. escape .. "', { { x = 1 } })",
  }
  for name, text in pairs(outside) do
    it("are not written elsewhere: " .. name, function()
      local script = "local here = io.open('here'):read 'l'\n" .. text .. "\nreturn here"
      fails("outside the output folder", script, nil, "mkdir sub; pwd > here")
      assert.is_nil(io.open(escape))
    end)
  end

  it("are not written through links, nor to anything but regular files", function()
    local target = program.folder()
    local prepare = ("ln -s %s out; ln -s %s/x file; mkfifo pipe; ln %s/y hard"):format(target, target, target)
    program.write(target .. "/y", "keep")
    fails("a symbolic link or a file is in its way", "io.open('out/x', 'w')", nil, prepare)
    fails("a symbolic link or a file is in its way", "io.open('file', 'w')", nil, prepare)
    fails("a symbolic link or a file is in its way", "io.open('out/../out/x', 'w')", nil, prepare)
    fails("a symbolic link or a file is in its way", "os.remove('out/y')", nil, prepare)
    fails("a symbolic link or a file is in its way", "io.open('a.csv', 'w'):close() os.rename('a.csv', 'out/z')", nil,
      prepare)
    fails("pipe:", "assert(io.open('pipe', 'w'))", nil, prepare)
    fails("hard: Operation not permitted", "assert(io.open('hard', 'w'))", nil, prepare)
    assert.equal("keep", program.slurp(target .. "/y"))
    assert.is_nil(io.open(target .. "/x"))
    program.remove(target)
  end)

  it("report errors as io.open does", function()
    prints("nil\tno/x: No such file or directory\t2\n", "print(io.open('no/x', 'w'))")
    fails("invalid mode", "io.open('x.csv', 'wz')")
  end)
end)

describe("next", function()
  local TABLE <const> = "local t = { z = 1, b = 2, [3] = 3, [1] = 4, [2.5] = 5, [-1] = 6, [true] = 7, [false] = 8, "
    .. "a = 9 } "

  it("goes through a table in the order of pairs", function()
    local order = "-1 1 2.5 3 a b z false true \n"
    prints(order, TABLE .. "for key in next, t do io.write(tostring(key), ' ') end print()")
    prints(order, TABLE .. "for key in pairs(t) do io.write(tostring(key), ' ') end print()")
    prints(order, TABLE .. "local key = next(t) while key ~= nil do io.write(tostring(key), ' ') "
      .. "key = next(t, key) end print()")
  end)

  it("lets fields be removed and changed during a traversal", function()
    prints("9\tnil\n", TABLE .. "local n = 0 for key in next, t do n, t[key] = n + 1, nil end print(n, (next(t)))")
    prints("-1 1 2.5 \n", TABLE .. [[for key in next, t do
      io.write(tostring(key), " ")
      for other in pairs(t) do if other ~= key and other ~= 1 and other ~= 2.5 then t[other] = nil end end
    end print()]])
    prints("81\n", TABLE .. "local n = 0 for _ in next, t do for _ in next, t do n = n + 1 end end print(n)")
  end)

  it("sees fields added before a traversal", function()
    prints("0\tx\t1\n", "local t = { x = 1 } next(t, 'x') t[0] = 1 print(next(t), next(t, 0))")
  end)

  it("raises the errors of stock Lua", function()
    fails("bad argument #1 to 'next' (table expected, got nil)", "next()")
    fails("bad argument #2 to 'next'", "next({}, {})")
    prints("nil\n", "print(next {})")
  end)
end)

describe("limits", function()
  local FEW = "--max-instructions 200000"

  local loops = {
    ["a loop"] = "while true do end",
    ["a loop that catches errors"] = "while true do pcall(function() while true do end end) end",
    ["a coroutine"] = "coroutine.wrap(function() while true do end end)()",
    ["many coroutines"] = "while true do coroutine.wrap(pcall)(function() while true do end end) end",
    ["a message handler"] = "xpcall(function() while true do end end, function() while true do end end)",
    ["a __close metamethod"] = "local c <close> = setmetatable({}, { __close = function() while true do end end }) "
      .. "while true do end",
    ["a closed coroutine"] = "local w = coroutine.wrap(function() local c <close> = setmetatable({}, { __close = "
      .. "function() while true do end end }) while true do end end) while true do pcall(w) end",
    ["a __tostring in an error"] = "error(setmetatable({}, { __tostring = function() while true do end end }))",
    ["a comparison function"] = "table.sort({ 3, 2, 1 }, function() while true do end end)",
    ["a replacement function"] = "('x'):gsub('x', function() while true do end end)",
    ["a loader"] = "load(function() while true do end end)",
    ["a module"] = "package.path = './?.lua' require 'm'",
  }
  for name, text in pairs(loops) do
    it("end " .. name, function()
      fails("more than 200000 instructions (--max-instructions N raises the limit)", text, FEW,
        "echo 'while true do end' > m.lua")
    end)
  end

  it("end patterns that would backtrack for ever", function()
    for call, arguments in pairs { find = "", match = "", gsub = ", ''" } do
      fails("script.lua:1: more than 200000 instructions",
        ("local s = ('a'):rep(60) s:%s(('a*'):rep(30) .. 'b'%s)"):format(call, arguments), FEW)
    end
    fails("more than 200000 instructions", "for _ in (('a'):rep(5000)):gmatch('.-.-.-.-b') do end", FEW)
    fails("more than 200000 instructions", "(('('):rep(4000)):find '%b()'", FEW)
    fails("more than 200000 instructions", "(('x'):rep(4000)):find '(x*)%1y'", FEW)
  end)

  it("end long calls of the C library", function()
    prints("0\n", "print(#(''):rep(1e18 | 0))")
    fails("more than 16777216 elements in one call", "table.move({}, 1, math.maxinteger - 1, 2)")
    fails("more than 16777216 elements in one call", "table.move({}, math.mininteger, 0 - 2, 2)")
    fails("more than 16777216 elements in one call",
      "local t = { 1, 1, 1, 1, 1 } for i = 0, 60 do t[1 << i] = 1 end t[9] = 1 table.insert(t, 1, 0)")
    fails("the table has a __len metamethod",
      "table.insert(setmetatable({}, { __len = function() return 1 << 60 end }), 1, 0)")
    fails("more than 16777216 elements in one call",
      "table.concat(setmetatable({}, { __len = function() return 1 << 60 end, __index = function() return '' end }))")
  end)

  it("charge for the work of one call in C", function()
    local calls = { "s:upper()", "s:lower()", "s:reverse()", "s:find('b', 1, true)", "s:gsub('b', '')",
      "s:match '.-b'", "s:byte(1, 1e4)", "('%s'):format(s)", "string.pack('z', s)", "string.unpack(fmt, bytes)",
      "utf8.len(s)",
      "utf8.offset(s, 9e5)", "utf8.codepoint(s, 1, 1e4)", "table.concat(t)", "table.move(t, 1, #t, 2)", "table.sort(t)",
      "table.unpack(t, 1, 1e4)", "table.insert(t, 1, 1) t[#t] = nil", "tonumber(blank)", "load(s)", "collectgarbage()",
      "local _ = s .. 'b'", "('ab'):rep(5e5)", "s:find(s)", "table.remove(t, 1) t[#t + 1] = 1" }
    for i = 1, #calls, sampled(3, 1) do
      fails("more than 600000 instructions", [[
        local s, blank, t = ("a"):rep(1e6), (" "):rep(1e6), {}
        local fmt, bytes = ("b"):rep(10000), ("x"):rep(10000)
        for i = 1, 20000 do t[i] = i end
        for _ = 1, 30000 do ]] .. calls[i] .. " end", "--max-instructions 600000")
    end
    fails("more than 600000 instructions", [[
      local s, t = ("a"):rep(1e6), {}
      for i = 1, 1000 do t[i] = s end
      table.sort(t)]], "--max-instructions 600000")
    fails("more than 600000 instructions", [[
      local s = "a" .. ("\x80"):rep(1e6)
      local following = utf8.codes(s, true)
      while true do pcall(following, s, 1) end]], "--max-instructions 600000")
  end)

  it("charge little for little work", function()
    prints("300000\t0\n", [[
      local t, text = {}, ("x"):rep(1e6)
      for i = 1, 300000 do table.insert(t, i) end
      local n = #t
      for _ = 1, n do table.remove(t) end
      for i = 1, #text, 100 do text:byte(i) text:sub(i, i + 9) utf8.offset(text, 1, i) end
      print(n, #t)]], "--max-instructions 20000000")
  end)

  it("count ranges that hold every integer", function()
    fails("more than 16777216 elements in one call",
      'table.concat(setmetatable({}, { __index = table.concat }), "", math.mininteger, 5)')
    fails("more than 16777216 elements in one call", "table.concat({}, '', math.mininteger, math.maxinteger)")
    fails("more than 16777216 elements in one call", "table.move({}, math.mininteger, math.maxinteger, 1)")
    prints("\n", "print(table.concat({}, '', math.maxinteger, math.mininteger))")
    prints("0\t1\n", "print(utf8.len('', 1), #table.pack(utf8.codepoint('a', math.mininteger + 1 < 0 and 1, -1)))")
  end)

  it("end memory bombs", function()
    fails("not enough memory (the limit is 16 MiB; --max-memory SIZE raises it)",
      "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end", "--max-memory 16MiB")
    fails("not enough memory", "local s = 'x' while true do s = s .. s end", "--max-memory 16MiB")
    fails("not enough memory", "('x'):rep(1e9 | 0)", "--max-memory 16MiB")
    prints("false\tnot enough memory\n", "print(pcall(string.rep, 'x', 1e9 | 0))", "--max-memory 16MiB")
    fails("too many results to unpack", "table.unpack({}, 1, 1e7 | 0)")
    fails("stack overflow", "local function f() return 1 + f() end f()")
  end)

  it("keep what was printed before", function()
    local result = run("print 'so far' while true do end", FEW)
    assert.equal("so far\n", result.out)
    assert.equal(1, result.code)
  end)
end)

describe("string patterns", function()
  -- The same script in the sandbox (our matcher) and trusted (the standard library's) must print the same.
  local function same_as_standard(text)
    local ours, standard = run(text), run(text, "--trust")
    assert.equal("", ours.err)
    assert.truthy(#standard.out > 1000)
    assert.equal(standard.out, ours.out)
  end

  it("match as the standard library's do, on thousands of random patterns", function()
    same_as_standard(("local COUNT <const> = %d\n"):format(sampled(2000, 6000)) .. [==[
      local state = 1
      local function random(n)
        state = (state * 6364136223846793005 + 1442695040888963407)
        return (state >> 33) % n + 1
      end
      local singles = { "a", "b", ".", "%a", "%D", "%s", "[ab]", "[^a]", "[a-c%d]", "[]x]", "[^]]", "[%]a-]", "%.",
        "%%", "[-a]", "%l", "%p", "%X", "%u", "%c", "%G", "%w", "%z", "[%l%p]" }
      local repeats = { "", "", "", "*", "+", "-", "?" }
      local whole = { "%b()", "%bab", "%f[%a]", "%f[^b]", "()" }
      local function piece(depth)
        local kind = random(8)
        if kind == 1 then return whole[random(#whole)] end
        if kind == 2 and depth > 0 then
          return "(" .. piece(depth - 1) .. piece(depth - 1) .. ")"
        end
        return singles[random(#singles)] .. repeats[random(#repeats)]
      end
      local letters = { "a", "b", "c", "1", " ", "(", ")", "]", ".", "%", "-", "\0", "x", "\xe9" }
      local function subject()
        local t = {}
        for i = 1, random(12) - 1 do t[i] = letters[random(#letters)] end
        return table.concat(t)
      end
      local function show(...)
        local t = table.pack(...)
        for i = 1, t.n do t[i] = tostring(t[i]):gsub("[^%g ]", function(c) return ("\\%d"):format(c:byte()) end) end
        return table.concat(t, "|")
      end
      local function unless_a(text) if text ~= "a" then return text end end
      local replacements = { "<%0>", "%1-%%", unless_a, { a = "A", b = 2, c = false } }
      for _ = 1, COUNT do
        local p, s = "", subject()
        for _ = 1, random(5) do p = p .. piece(2) end
        local captured = p:find "^%^?%(.*%)"
        if random(4) == 1 then p = "^" .. p end
        if random(4) == 1 then p = p .. "$" end
        if captured and p:find "^%^?%([^()]*%)[^()]*$" and random(3) == 1 then p = p:gsub("%$$", "") .. "%1" end
        local init = random(9) - 4
        local out = { show(p), show(s), show(s:find(p, init)), show(s:match(p, init)) }
        for a, b in s:gmatch(p) do out[#out + 1] = show(a, b) end
        out[#out + 1] = show(pcall(string.gsub, s, p, replacements[random(4)], random(3) == 1 and 2 or nil))
        out[#out + 1] = show(s:find(p, init, true))
        print(table.concat(out, " ; "))
      end
      local long = ("ab"):rep(3000)
      print((long:gsub("a", "<%0%%>")), (long:gsub("x", "y")), (long:gsub("%f[b]", "%%")), select(2, long:gsub("", "")))
      print((long:gsub("a", 7)), pcall(string.gsub, "a", "a", "%:"), pcall(string.gsub, "a", "a", "%"))
      print(("a\0b"):find "\0", ("a\0b"):find "\0b", ("a"):gmatch("a", 9)(), ("$a$"):find "a$", ("$"):find "$$")
      print(("%d"):find("%d", 1, true), ("a^b"):find "a^", ("a"):match "^(a)$", ("é"):find "[\xc3-\xc4]")
    ]==])
  end)

  it("refuse malformed patterns", function()
    local cases = {
      ["%"] = "malformed pattern (ends with '%')",
      ["[a"] = "malformed pattern (missing ']')",
      ["[]"] = "malformed pattern (missing ']')",
      ["[^]"] = "malformed pattern (missing ']')",
      ["[a%"] = "malformed pattern (missing ']')",
      ["(a"] = "unfinished capture",
      ["a)"] = "invalid pattern capture",
      ["%1"] = "invalid capture index",
      ["(%1)"] = "invalid capture index",
      ["%b("] = "malformed pattern (missing arguments to '%b')",
      ["%fa"] = "missing '[' after '%f' in pattern",
      [("()"):rep(33)] = "too many captures",
      [("a?"):rep(201)] = "pattern too complex",
    }
    for pattern, message in pairs(cases) do
      fails("script.lua:1: " .. message, ("local _ = ('a'):match(%q)"):format(pattern))
    end
    fails("invalid capture index %2 in replacement string", "local _ = ('a'):gsub('(a)', '%2')")
    fails("invalid use of '%' in replacement string", "local _ = ('a'):gsub('a', '%x')")
    fails("invalid replacement value (a table)", "local _ = ('a'):gsub('a', { a = {} })")
    fails("bad argument #3 to 'gsub' (string/function/table expected, got no value)", "local _ = string.gsub('a', 'a')")
    fails("bad argument #1 to 'find' (string expected, got nil)", "string.find(nil, 'a')")
  end)
end)

describe("error objects", function()
  it("are printed whatever their type", function()
    fails("tperf: script.lua:1: plain", "error 'plain'")
    fails("tperf: mine", "error(setmetatable({}, { __tostring = function() return 'mine' end }))")
    fails("the error is a table value", "error(setmetatable({}, { __tostring = function() error 'again' end }))")
    fails("the error is a table value", "error {}")
    fails("the error is a nil value", "error(nil)")
    fails("the error is a function value", "error(print)")
  end)
end)

describe("--trust", function()
  it("lifts the sandbox", function()
    prints("true\ttrue\n", "print(os.execute 'true', debug.getinfo(1) ~= nil)", "--trust")
    prints("5\n", "x = 5 print(x)", "--trust")
  end)

  it("keeps the limits that are asked for", function()
    fails("more than 1000000 instructions", "while true do end", "--trust --max-instructions 1000000")
    fails("not enough memory", "('x'):rep(1e9 | 0)", "--trust --max-memory 16MiB")
  end)
end)
