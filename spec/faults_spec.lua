-- Failing allocations (tools/faults.lua): here the first one at every call site in C, and a few of Lua's; `make faults`
-- tries all. Test variants have the hook (src/bind/base/bind_faults.c).
package.path = "./tools/?.lua;" .. package.path
local core = require "tperf.core"
local faults = require "faults"
local program = require "program"

if not core.faults then
  describe("the program that ships", function()
    it("has no hook that makes allocations fail", function()
      local result = program.shell "TPERF_FAULT=lua:30 tperf version"
      assert.same({ 0, "" }, { result.code, result.err })
    end)
  end)
  return
end

describe("when memory runs out", function()
  for _, case in ipairs(require "fault_cases") do
    it(case.name .. " reports it or answers as usual, and the next call answers", function()
      faults.try(case, case.small and "core" or "site")
      local tried = faults.try(case, "lua", case.small ~= "every" and 4 or nil)
      assert.is_true(tried > 0)
    end)
  end

  it("a case may leave garbage that waits for finalizers, and nothing else", function()
    local known, meta = setmetatable({}, { __mode = "k" }), { __gc = function() end }
    local function litter()
      for _ = 1, 200 do known[setmetatable({}, meta)] = true end
      return 1
    end
    assert.is_true(faults.try({ name = "garbage", f = litter }, "lua", 100) > 50)
    local kept = {}
    local function leak()
      kept[#kept + 1] = ("1"):rep(1500)
      for i = 1, 100 do kept[0] = { i } end
      return 1
    end
    assert.error_matches(function() faults.try({ name = "a leak", f = leak }, "lua", 100) end,
      "a leak: %d+ KB of Lua's are kept after %d+ failures")
  end)

  it("databases report it, wherever it happens", function()
    local path = program.temporary()
    program.write(path, assert(core.store.empty "CREATE TABLE t (x); INSERT INTO t VALUES (1)"))
    -- Fails each of SQLite's allocations once.
    local function each(f)
      core.faults.fail("lua", 0)
      f()
      local total, heard = core.faults.count "lua", 0
      for n = 1, total do
        core.faults.fail("lua", n)
        local ok, value, message = pcall(f)
        core.faults.fail("lua", 0)
        local told = not ok and value or value == nil and message
        if told then
          heard = heard + 1
          assert.truthy(tostring(told):find "memory", tostring(told))
        end
      end
      return heard
    end
    assert.is_true(each(function() return core.store.empty "CREATE TABLE t (x)" end) > 0)
    assert.is_true(each(function()
      local database <close>, problem = core.store.open(path, "query")
      if not database then return nil, problem end
      return database:run("SELECT x FROM t WHERE x = ?", 1)
    end) > 0)
  end)

  it("messages name it", function()
    core.faults.fail("core", 1)
    local value, message = core.yaml("a: 1", "f")
    core.faults.fail("core", 0)
    assert.is_nil(value)
    assert.equal("f:1:1: not enough memory", message)
  end)

  for i = #faults.programs - 1, #faults.programs do -- those that write files
    local line = faults.programs[i]
    it(line .. " ends with a message and no partial file", function()
      assert.is_true(faults.try_program(line, "site") > 0)
      assert.is_true(faults.try_program(line, "lua", 2) > 0)
    end)
  end
end)
