local read = require "tperf.core".yaml

describe("the YAML reader", function()
  it("types plain scalars by the core schema of YAML 1.2", function()
    local value = read([[
a: [1, -2, +3, 0x10, 0o17, 007]
b: [1.5, .5, 1., 1e3, -2.5e-3, 12345678901234567890]
c: [true, True, FALSE]
d: [no, on, yes, 1_000, 1:30, 0b1, 2024-01-01, "12", 'true', 0x, 1e, ., -, +, 1e+, .e1]
e: [.inf, -.Inf]
f: null
g: ~
h:
i: >-
  two
  lines]], "f")
    assert.same({ 1, -2, 3, 16, 15, 7 }, value.a)
    for _, integer in ipairs(value.a) do assert.equal("integer", math.type(integer)) end
    assert.same({ 1.5, 0.5, 1.0, 1000.0, -0.0025, 12345678901234567890.0 }, value.b)
    for _, float in ipairs(value.b) do assert.equal("float", math.type(float)) end
    assert.same({ true, true, false }, value.c)
    assert.same({ "no", "on", "yes", "1_000", "1:30", "0b1", "2024-01-01", "12", "true", "0x", "1e", ".", "-", "+",
      "1e+", ".e1" }, value.d)
    assert.same({ "0xfffffffffffffffff", "0o7777777777777777777777777" },
      (read("[0xfffffffffffffffff, 0o7777777777777777777777777]", "f"))) -- beyond 64 bits
    assert.same({ 1 / 0, -1 / 0 }, value.e)
    assert.is_nil(value.f)
    assert.is_nil(value.g)
    assert.is_nil(value.h)
    assert.equal("two lines", value.i)
  end)

  it("reads JSON", function()
    local value = read('{"a":{"b":[1,2.5,"x\\n\\u00e9"]},\n\t"c":false,"d":null,"e":{}}', "f")
    assert.same({ a = { b = { 1, 2.5, "x\n\u{e9}" } }, c = false, e = {} }, value)
  end)

  it("gives the position of every node", function()
    local _, positions = read("a: 1\nb:\n  \u{e9}: {c: [x, 2]}\n", "f")
    assert.same({ 1, 4, 1, 1 }, positions.a)
    assert.same({ 3, 6, 3, 3 }, positions["b.\u{e9}"]) -- columns count characters
    assert.same({ 3, 14, 0, 0 }, positions["b.\u{e9}.c[2]"])
    assert.same({ 1, 1, 0, 0 }, positions[""])
    for _, path in ipairs { "x", "b.x", "b.\u{e9}.c[3]", "b.\u{e9}.c[0]", "b.\u{e9}.c[2]x", "b.\u{e9}.c.2", ".a",
      "a." } do
      assert.is_nil(positions[path], path)
    end
  end)

  it("gives the position of keys that hold dots and brackets", function()
    local _, positions = read('{"a.b": {"c[1]": 1},\n"a": {"b": [2]}}', "f")
    assert.same({ 1, 18, 1, 10 }, positions["a.b.c[1]"])
    assert.same({ 2, 13, 0, 0 }, positions["a.b[1]"])
  end)

  it("stores no paths: a few long keys around many members take no more memory than the file's size", function()
    local members = {}
    for i = 1, 20000 do members[i] = ("k%d: 1"):format(i) end
    local key = ("k"):rep(1000)
    local text = ("{%s: "):rep(20):format(key, key, key, key, key, key, key, key, key, key, key, key, key, key, key,
      key, key, key, key, key) .. "{" .. table.concat(members, ",") .. "}" .. ("}"):rep(20)
    collectgarbage()
    collectgarbage "stop"
    local before = collectgarbage "count"
    local value, positions = read(text, "f")
    local kilobytes = collectgarbage "count" - before
    collectgarbage "restart"
    assert.equal("table", type(value))
    assert.is_true(kilobytes < 10000, kilobytes .. " KB") -- 20,000 paths of 20 keys would take 400,000 KB
    assert.equal(1, positions[(key .. "."):rep(20) .. "k20000"][1])
  end)

  it("skips a byte order mark", function()
    local value, positions = read("\xEF\xBB\xBFa: 1\nb: 2\n", "f")
    assert.same({ a = 1, b = 2 }, value)
    assert.same({ { 1, 4, 1, 1 }, { 2, 4, 2, 1 } }, { positions.a, positions.b })
    assert.same({ a = 1 }, (read('\xEF\xBB\xBF{"a": 1}', "f")))
    local _, message = read("\xEF\xBB\xBFa: \xff", "f")
    assert.matches("^f:1:4: invalid leading UTF%-8", message)
  end)

  it("reads surrogate pairs, JSON's escapes for characters beyond U+FFFF", function()
    local value, positions = read('{"a": "\\ud83d\\uDE00 b \\uDBFF\\uDFFF\\n", "\\ud800\\udc00": [1, "\\u00e9"]}', "f")
    assert.same({ a = "\u{1F600} b \u{10FFFF}\n", ["\u{10000}"] = { 1, "\u{e9}" } }, value)
    assert.same({ 1, 57, 0, 0 }, positions["\u{10000}[1]"]) -- as many columns as the file has
    value = read([[
a: '\ud83d\ude00' # \ud83d\ude00
b: "\ud83d\ude00"
c: \ud83d\ude00 x
d: |
  \ud83d\ude00
e: "\\ud83d"
f: '\ud83d\ude00 \'
]], "f")
    assert.same({ a = "\\ud83d\\ude00", b = "\u{1F600}", c = "\\ud83d\\ude00 x", d = "\\ud83d\\ude00\n",
      e = "\\ud83d", f = "\\ud83d\\ude00 \\" }, value)
  end)

  it("reads CR LF as LF", function()
    local value, positions = read("a: 1\r\nb: |\r\n  x\r\n  y\r\nc: 2\r\n", "f")
    assert.same({ a = 1, b = "x\ny\n", c = 2 }, value)
    assert.equal(5, positions.c[1])
  end)

  local bad = {
    { "a duplicate key", "a: 1\nb: 2\na: 3", "f:3:1: duplicate key 'a' (first on line 1)" },
    { "a duplicate key in JSON", '{"x": {"a": 1, "a": 1}}', "f:1:16: duplicate key 'a'" },
    { "the same key thrice on a line", "{b: 1, a: 1, a: 2, a: 3}", "f:1:14: duplicate key 'a' (first on line 1)" },
    { "a tagged list", "a: !x [1]", "f:1:4: tags" }, { "an anchored map", "&x {a: 1}", "f:1:1: anchors" },
    { "a control character far into a line", "a: " .. ("x"):rep(2000) .. "\1", "f:1:2004: control characters" },
    { "a colon far into a line", "a: " .. ("x"):rep(2000) .. ": 1", "f:1:" },
    { "an unfinished escape", '"\\ud83', "f:1:" }, { "half a pair and a letter", '"\\ud83d\\ue000"', "f:1:4: " },
    { "the same key written differently", 'a: 1\n"\\x61": 2', "f:2:1: duplicate key 'a'" },
    { "an anchor", "a: &x 1", "f:1:4: anchors" },
    { "an alias", "a: *x", "f:1:4: aliases" },
    { "aliases that multiply", "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", "f:1:4: anchors" },
    { "a tag", "a: !!binary aGk=", "f:1:4: tags" },
    { "an integer key", "1: a", "f:1:1: a key must be a string" },
    { "a null key", "~: a", "f:1:1: a key must be a string" },
    { "a boolean key", "{true: a}", "f:1:2: a key must be a string" },
    { "a list as a key", "[a]: b", "f:1:1: a key must be a string" },
    { "nothing", "", "f:1:1: is empty" },
    { "only a comment", "# x", "f:1:1: is empty" },
    { "two documents", "a: 1\n---\nb: 1", "f:2:1: only one document" },
    { "invalid UTF-8", "a: 1\nbc: \xff", "f:2:5: invalid leading UTF-8" },
    { "a NUL", "a: \0", "f:1:4: " },
    { "a tab as indentation", "a:\n\tb: 1", "f:2:1: found character" },
    { "an open list", "a: [1", "did not find expected ',' or ']'" },
    { "wrong indentation", "a:\n  b: 1\n c: 2", "f:3:2: did not find expected key" },
    { "an open string", 'a: "x', "found unexpected end of stream" },
    { "deep lists", ("["):rep(65), "f:1:65: nested more than 64 levels deep" },
    { "very deep maps", ("{a: "):rep(100000), "nested more than 64 levels deep" },
    { "very deep block lists", ("- "):rep(100000), "nested more than 64 levels deep" },
    { "half a pair of surrogates", '{"a": "\\ud83d"}', "f:1:10: found invalid Unicode character escape code" },
    { "swapped halves", '{"a": "\\ude00\\ud83d"}', "f:1:10: found invalid Unicode character escape code" },
    { "an escaped backslash and half a pair", '"\\\\ud83d\\ude00"', "f:1:11: found invalid Unicode" },
    { "noncharacters beside a pair of surrogates", '"\\ud83d\\ude00 \\ufffe\\uffff"', "f:1:1: U+FFFE is no character" },
    { "a NUL in an escape", '"\\ud8\0\0\0\0\0\0\0\0"', "f:1:" },
    { "a stray character far into a line", "[" .. ("x"):rep(1100) .. ", @]", "f:1:1104: found character that cannot" },
    { "UTF-16", "\xFF\xFEa\0", "f:1:1: is UTF-16 text; save it as UTF-8" },
    { "UTF-16, the other way round", "\xFE\xFF\0a", "f:1:1: is UTF-16 text; save it as UTF-8" },
    { "a number beyond doubles", "a: 1\nb: 1e400", "f:2:4: 1e400 is beyond what a number can be (1.8e308)" },
    { "a huge exponent", "[-1e99999999999999999999]", "f:1:2: -1e99999999999999999999 is beyond" },
    { "a long key", "{" .. ("k"):rep(1025) .. ": 1}", "f:1:2: a key of more than 1024 bytes" },
    { "a long key in quotes", '{"a": {"' .. ("k"):rep(2000) .. '": 1}}', "f:1:8: a key of more than 1024 bytes" },
    { "a very long key", "? " .. ("k"):rep(1 << 20) .. "\n: 1", "f:1:3: a key of more than 1024 bytes" },
    { "a long first key of a block", ("k"):rep(1025) .. ": 1", "a key of more than 1024 bytes" },
    { "a long second key of a block", "a: 1\n" .. ("k"):rep(1025) .. ": 1", "a key of more than 1024 bytes" },
    { "too many values", "[" .. ("1,"):rep(1 << 20) .. "]", "f:1:2097152: more than 1048576 values in one file" },
    { "a file over 16 MiB", (" "):rep((16 << 20) + 1), "f:1:1: larger than 16 MiB" },
  }
  for _, case in ipairs(bad) do
    it("refuses " .. case[1], function()
      local value, message = read(case[2], "f")
      assert.is_nil(value)
      assert.truthy(message:find(case[3], 1, true), message)
    end)
  end

  it("survives every cut of a file", function()
    local text = 'a: {b: [1, "x\\u00e9", \'y\'], c: |\n  text\n}\nd:\n- e: ~\n- >-\n  f\n? g\n: 1.5e3 # h\n'
    for length = 0, #text do
      local value, message = read(text:sub(1, length), "f")
      assert.is_true(value ~= nil or message:find "^f:%d+:%d+: ." ~= nil)
    end
  end)

  it("finds a duplicate among many keys quickly", function()
    local lines = {}
    for i = 1, 20000 do lines[i] = "key" .. i .. ": 1" end
    lines[#lines + 1] = "key77: 2"
    local _, message = read(table.concat(lines, "\n"), "f")
    assert.equal("f:20001:1: duplicate key 'key77' (first on line 77)", message)
  end)
end)
