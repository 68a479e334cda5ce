-- The sandbox's replacements of standard functions behave like the originals, in corner cases too: each line of a
-- script prints the same inside and outside the sandbox.
local program = require "program"

local CALLS <const> = [==[
utf8.len("a\u{e9}b", 10)
utf8.len("a\u{e9}b", -1, -1)
utf8.len("a\u{e9}b", 1, 99)
utf8.len("a\u{e9}b", -99)
utf8.len("a\xff")
utf8.len("", 1)
utf8.codepoint("a\u{e9}", 1, 99)
utf8.codepoint("a\u{e9}", 0)
utf8.codepoint("a\u{e9}", 2)
utf8.codepoint("a\u{e9}", 2, 1)
utf8.codepoint("a\u{e9}", -2, -1)
utf8.offset("a\u{e9}b", 2)
utf8.offset("a\u{e9}b", -1)
utf8.offset("a\u{e9}b", 9)
utf8.offset("a\u{e9}b", -9)
utf8.offset("a\u{e9}b", 0, 3)
utf8.offset("a\u{e9}b", 1, 3)
utf8.offset("a\u{e9}b", -2, 99)
utf8.offset("a\u{e9}b", -2, -1)
(function() local t = {} for p, c in utf8.codes "a\u{e9}b" do t[#t + 1] = p .. ":" .. c end return #t, t[2], t[3] end)()
(function() for _ in utf8.codes "a\xff" do end end)()
string.unpack("<i2 s1", "\1\0\2xy")
string.unpack({}, "x")
string.unpack(7, "x")
string.packsize("i4i8")
string.byte("abc", -2, 99)
string.rep("ab", 3, ",")
string.rep("ab", -1)
table.insert({ 1, 2, 3 }, 2, 9)
table.insert({ 1, 2, 3 }, -5, 9)
table.insert({ 1, 2, 3 }, 9, 9)
table.remove({ 1, 2, 3 })
table.remove({ 1, 2, 3 }, 1)
table.remove({ 1, 2, 3 }, -1)
table.remove({ 1, 2, 3 }, nil)
table.remove({}, 0)
table.unpack({ 1, 2, 3 }, 2)
table.unpack({ 1, 2, 3 }, 3, 1)
table.concat({ 1, "x", 2.5 }, "-", 2, 3)
table.concat({}, "x")
table.move({ 1, 2, 3 }, 2, 3, 1)[1]
table.move({ 1, 2, 3 }, 3, 2, 1)[1]
select("#", table.unpack({}, 1, 3))
tostring(12) .. tonumber("0x10") .. tostring(tonumber("z", 36))
("x"):find("[")
("x"):find("[^")
("x("):find("(")
("x"):find("%f")
("THE (quick) fox"):find("%f[%a]%a+%f[%A]")
("x0"):find("%0")
("x"):find("(x%1)")
("xx"):find("(x)%1")
("a\0b"):find("a\0")
("a\0b"):find("a\0*b")
("a%q"):find("%%%q")
("a]b"):find("[]]")
("a-b"):find("[a-]+")
("b^"):find("[b^]+")
("é"):find("[\x80-\xff]+")
("f(a(b)c)d"):match("%b()")
("f(a"):match("%b()")
("abc"):gsub("", "-")
("abc"):gsub("%w", "%0%0", 2)
("abc"):gsub("%w", "%9")
("abc"):gsub("%w", "%")
("abc"):gsub("(a)(b)", "%2%1%%")
("abc"):gsub("b", { b = false })
("abc"):gsub("b", {})
("abc"):gsub("b", function() return 7 end)
("abc"):gsub("b", function() return {} end)
("k=v"):match("^(%w+)=(%w*)$")
("  trim "):match("^%s*(.-)%s*$")
("x"):rep(3):find("x", -1, true)
("xyx"):find("x", 99)
("xyx"):find("", 4)
("xyx"):find("", 5)
]==]

local function script()
  local lines = {}
  for call in CALLS:gmatch "[^\n]+" do
    lines[#lines + 1] = ("print(pcall(function() return %s end))"):format(call)
  end
  return table.concat(lines, "\n")
end

-- The output without the places of errors and the names of functions, which differ.
local function said(text)
  return (text:gsub("false\tscript%.lua:%d+: ", "false\t"):gsub("bad argument #(%d+) to '[^']*'", "bad argument #%1")
    :gsub("invalid capture index[^\n]*", "invalid capture index"))
end

describe("a script's functions of strings, texts and lists", function()
  it("return what the standard ones return", function()
    local inside, outside = program.script(script()), program.script(script(), "--trust")
    assert.equal(0, outside.code, outside.err)
    assert.equal(0, inside.code, inside.err)
    local standard = {}
    for line in said(outside.out):gmatch "[^\n]*" do standard[#standard + 1] = line end
    local calls, i = {}, 0
    for call in CALLS:gmatch "[^\n]+" do calls[#calls + 1] = call end
    for line in said(inside.out):gmatch "[^\n]*" do
      i = i + 1
      assert.equal(standard[i], line, calls[i])
    end
    program.remove(inside.folder)
    program.remove(outside.folder)
  end)
end)
