-- tperf read, tperf.check and `tperf test`: data of scripts, and their tests.
local program = require "program"
local tperf = require "tperf"

local function refuses(text, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok, "not refused: " .. text)
  assert.truthy(message:find(text, 1, true), message)
  assert.truthy(message:find("own_tests_spec.lua:", 1, true), message)
end

local folder
before_each(function() folder = program.folder() end)
after_each(function() program.remove(folder) end)

local function written(name, text)
  program.write(folder .. "/" .. name, text)
  return folder .. "/" .. name
end

describe("tperf.read", function()
  it("reads rows of numbers and texts", function()
    local rows, columns = tperf.read(written("a.csv", "n,x,code,word\n1,2.5,007,a\n-3,,010,b c\n4e2,.5,,\n"))
    assert.same({ "n", "x", "code", "word" }, columns)
    assert.same({ { n = 1, x = 2.5, code = "007", word = "a" }, { n = -3, code = "010", word = "b c" },
      { n = 400.0, x = 0.5 } }, rows)
    assert.equal("integer", math.type(rows[1].n))
    rows = tperf.read(written("b.csv", "a,b\n1,0x10\n,nan\n"))
    assert.same({ { a = 1, b = "0x10" }, { b = "nan" } }, rows) -- a column with one text has texts alone
  end)

  it("reads JSON, YAML and TOML", function()
    local expected = { a = { b = { 1, 2.5, "x" } }, c = true }
    assert.same(expected, tperf.read(written("a.json", '{"a": {"b": [1, 2.5, "x"]}, "c": true, "d": null}')))
    assert.same(expected, tperf.read(written("a.yaml", "a:\n  b: [1, 2.5, x]\nc: true\n")))
    assert.same(expected, tperf.read(written("a.toml", 'c = true\n[a]\nb = [1, 2.5, "x"]\n')))
    refuses("must end in .csv, .json, .yaml or .toml", tperf.read, written("a.txt", "1"))
    refuses("needs a file's name, got 7", tperf.read, 7)
    refuses("a.json:1:", tperf.read, written("a.json", "{"))
    refuses("No such file", tperf.read, folder .. "/none.csv")
  end)

  it("works in the sandbox, and a manifest lists what was read", function()
    written("rows.csv", "x\n1\n2\n")
    written("s.lua", "local t = require 'tperf' print(#t.read 'rows.csv')")
    local result = program.shell("tperf run --out out s.lua && cat out/manifest.json", folder)
    assert.truthy(result.out:find("^2\n"), result.err)
    assert.truthy(result.out:find('"file": "rows.csv"', 1, true))
  end)
end)

describe("a script's outputs", function()
  it("may lie in folders that are not there yet", function()
    written("s.lua", [[
      local tperf = require "tperf"
      local file = assert(io.open("a/b/c.csv", "w"))
      file:write "x\n1\n"
      file:close()
      tperf.report.save("d/rows.csv", { { x = 1 } })
      tperf.sweep { run = function(o) return o.x end, x = tperf.vary { 1 }, cache = "e/points.db", key = "k" }]])
    local result = program.shell("tperf run s.lua && tperf run --out out s.lua && tperf verify out", folder)
    assert.equal(0, result.code, result.err)
    for _, name in ipairs { "a/b/c.csv", "d/rows.csv", "e/points.db", "out/a/b/c.csv", "out/e/points.db" } do
      assert.truthy(program.slurp(folder .. "/" .. name), name)
    end
    written("t.lua", "io.open('../out.csv', 'w')")
    assert.equal(1, program.shell("tperf run t.lua", folder).code)
  end)
end)

describe("tperf.check", function()
  it("compares numbers by their parts, and tables field by field", function()
    tperf.check.near(100, 101, 0.01)
    tperf.check.near(0, 0)
    tperf.check.near({ a = { 1, "x", true } }, { a = { 1 + 1e-12, "x", true } })
    refuses("got 100, expected 102 within 0.01", tperf.check.near, 100, 102, 0.01)
    refuses("got 0, expected 1e-09", tperf.check.near, 0, 1e-9)
    refuses("'a.2': got 3, expected 4", tperf.check.near, { a = { 1, 3 } }, { a = { 1, 4 } })
    refuses("'a': got nil, expected 1", tperf.check.near, {}, { a = 1 })
    refuses("'b' is not expected, got 2", tperf.check.near, { a = 1, b = 2 }, { a = 1 })
    refuses("got \"1\", expected 1", tperf.check.near, "1", 1)
    refuses("the tolerance must be", tperf.check.near, 1, 1, -1)
    refuses("got", tperf.check.near, 0 / 0, 0 / 0)
    tperf.check.raises("broken", error, "it is broken")
    refuses("no error, expected one with 'x'", tperf.check.raises, "x", print)
    refuses("got 'a', expected an error with 'b'", tperf.check.raises, "b", error, "a")
  end)
end)

describe("tperf test", function()
  it("runs every *_test.lua, each on its own, and says which failed and where", function()
    program.shell("mkdir -p sub/deeper", folder)
    written("one_test.lua", "local t = require 'tperf' t.schedule.define('mine', function() end)")
    written("sub/two_test.lua", "local t = require 'tperf' t.schedule.define('mine', function() end)")
    written("sub/deeper/three_test.lua", "local t = require 'tperf'\nt.check.near(1e9, 2e9, 0.1)")
    written("helper.lua", "error 'is no test'")
    local result = program.shell("tperf test", folder)
    assert.equal(1, result.code)
    local where = "FAILED ./sub/deeper/three_test.lua\n  tperf: sub/deeper/three_test.lua:2: "
    assert.truthy(result.out:find(where, 1, true), result.out)
    assert.truthy(result.out:find("2 passed, 1 failed\n", 1, true), result.out)
    assert.same({ "ok     sub/two_test.lua\n1 passed, 0 failed\n", 0 }, (function()
      local one = program.shell("tperf test sub/two_test.lua", folder)
      return { one.out, one.code }
    end)())
    assert.equal(1, program.shell("mkdir none && tperf test none", folder).code)
    written("four_test.lua", "while true do end")
    result = program.shell("tperf test --max-instructions 1000000 four_test.lua", folder)
    assert.truthy(result.out:find("FAILED", 1, true), result.out)
  end)
end)
