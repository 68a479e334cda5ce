local read = require "tperf.core".yaml

describe("the YAML reader", function()
  it("types plain scalars by the core schema of YAML 1.2", function()
    local value = read([[
a: [1, -2, +3, 0x10, 0o17, 007]
b: [1.5, .5, 1., 1e3, -2.5e-3, 12345678901234567890]
c: [true, True, FALSE]
d: [no, on, yes, 1_000, 1:30, 0b1, 2024-01-01, "12", 'true', 0x, 1e, .]
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
    assert.same({ "no", "on", "yes", "1_000", "1:30", "0b1", "2024-01-01", "12", "true", "0x", "1e", "." }, value.d)
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

  it("knows where every node is", function()
    local _, positions = read("a: 1\nb:\n  \u{e9}: {c: [x, 2]}\n", "f")
    assert.same({ 1, 4, 1, 1 }, positions.a)
    assert.same({ 3, 6, 3, 3 }, positions["b.\u{e9}"]) -- columns count characters
    assert.same({ 3, 14, 0, 0 }, positions["b.\u{e9}.c[2]"])
    assert.same({ 1, 1, 0, 0 }, positions[""])
  end)

  local bad = {
    { "a duplicate key", "a: 1\nb: 2\na: 3", "f:3:1: duplicate key 'a' (first on line 1)" },
    { "a duplicate key in JSON", '{"x": {"a": 1, "a": 1}}', "f:1:16: duplicate key 'a'" },
    { "the same key written differently", 'a: 1\n"\\x61": 2', "f:2:1: duplicate key 'a'" },
    { "an anchor", "a: &x 1", "f:1:4: anchors" },
    { "an alias", "a: *x", "f:1:4: aliases" },
    { "a bomb of aliases", "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", "f:1:4: anchors" },
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
    { "too much", (" "):rep((16 << 20) + 1), "f:1:1: larger than 16 MiB" },
  }
  for _, case in ipairs(bad) do
    it("refuses " .. case[1], function()
      local value, message = read(case[2], "f")
      assert.is_nil(value)
      assert.truthy(message:find(case[3], 1, true), message)
    end)
  end

  it("takes every cut of a file without harm", function()
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
