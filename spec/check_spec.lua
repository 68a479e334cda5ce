local check = require "tperf.base.check"

local function refusal(value, schema)
  local ok, message = pcall(function()
    local checked = check.record("tperf.x", value, schema)
    return checked
  end)
  assert.is_false(ok)
  return message
end

describe("check.record", function()
  local schema = {
    gpus = check.integer { min = 1, max = 1 << 31 },
    size = check.number { unit = "bytes", above = 0, optional = true },
    kind = check.choice { { "all_reduce", "all_gather" }, default = "all_reduce" },
    list = check.list(check.integer(), { min = 1, max = 3, optional = true }),
    part = check.record_of({ deep = check.boolean { default = false } }, { optional = true }),
    either = check.one_of(check.string { optional = true }, check.integer { optional = true }),
    call = check.func { optional = true },
    any = check.any { optional = true },
  }

  it("copies, converts and fills in defaults", function()
    local given = { gpus = 8.0, size = "1 KiB", list = { 1, 2.0 }, part = {}, either = 3, call = print, any = false }
    local checked = check.record("tperf.x", given, schema)
    assert.same({ gpus = 8, size = 1024, kind = "all_reduce", list = { 1, 2 }, part = { deep = false }, either = 3,
      call = print, any = false }, checked)
    assert.equal("integer", math.type(checked.gpus))
    assert.not_equal(given.list, checked.list)
  end)

  local bad = {
    { 3, "tperf.x needs a table of arguments, got 3" },
    { {}, "'gpus' is missing" },
    { { gpu = 8 }, "unknown field 'gpu' (did you mean 'gpus'?)" },
    { { gpus = 8, part = { dep = true } }, "unknown field 'part.dep' (did you mean 'deep'?)" },
    { { gpus = 8, part = { zzzzz = 1 } }, "unknown field 'part.zzzzz'; there are deep" },
    { { gpus = 8, zzzzz = 1 }, "unknown field 'zzzzz'" },
    { { 8 }, "unknown field '[1]'" },
    { { gpus = "8" }, "'gpus' must be an integer from 1 to 2147483648, got \"8\"" },
    { { gpus = 2.5 }, "got 2.5" }, { { gpus = 0 }, "got 0" }, { { gpus = 0 / 0 }, "got nan" },
    { { gpus = -1 / 0 }, "got -inf" }, { { gpus = math.maxinteger }, "got 9223372036854775807" },
    { { gpus = 1e300 }, "got 1e+300" },
    { { gpus = 8, size = "3 s" }, "'size': \"3 s\" is in s; expected a quantity in bytes" },
    { { gpus = 8, size = 0 }, "'size' must be a quantity above 0 in bytes, got 0" },
    { { gpus = 8, size = "0 B" }, "got \"0 B\"" }, { { gpus = 8, size = 1 / 0 }, "got inf" },
    { { gpus = 8, kind = "allreduce" }, "one of all_reduce, all_gather, got \"allreduce\" (did you mean" },
    { { gpus = 8, list = {} }, "'list' must be a list, of a length from 1 to 3, got 0" },
    { { gpus = 8, list = { 1, "x" } }, "'list[2]' must be an integer, got \"x\"" },
    { { gpus = 8, list = { a = 1 } }, "'list' must be a list, but has the field \"a\"" },
    { { gpus = 8, part = 3 }, "'part' must be a table, got 3" },
    { { gpus = 8, either = {} }, "'either' must be a string, got a table; or 'either' must be an integer" },
    { { gpus = 8, call = 3 }, "'call' must be a function, got 3" },
    { { gpus = 8, ["a\nb"] = 1 }, "unknown field" },
  }
  for i, case in ipairs(bad) do
    it("refuses with: " .. case[2], function()
      local message = refusal(case[1], schema)
      assert.truthy(message:find(case[2], 1, true), i .. ": " .. message)
      assert.truthy(message:find("^spec/check_spec.lua:%d+: tperf.x"), message)
    end)
  end

  it("survives hostile keys and values", function()
    local cyclic = {}
    cyclic.part, cyclic.gpus, cyclic[cyclic] = cyclic, 1, 1
    assert.truthy(refusal(cyclic, schema):find "unknown field")
    assert.truthy(refusal({ gpus = 1, [("x"):rep(1e6)] = 1 }, schema):find "unknown field")
    assert.is_true(#refusal({ gpus = ("x"):rep(1e6) }, schema) < 300)
    local trap = setmetatable({}, { __index = function() error "asked" end, __pairs = error, __len = error })
    assert.truthy(refusal(trap, schema):find "'gpus' is missing")
  end)
end)

describe("check.suggest", function()
  it("suggests the nearest name only if it is close", function()
    local names = { "micro_batch", "pp", "tp", "global_batch" }
    assert.equal(" (did you mean 'micro_batch'?)", check.suggest("microbatch", names))
    assert.equal(" (did you mean 'global_batch'?)", check.suggest("globla_batch", names))
    assert.equal("", check.suggest("zzz", names))
    local systems = { "a100-sxm", "h100-pcie", "h100-sxm", "gh200" }
    assert.equal(" (did you mean 'h100-pcie' or 'h100-sxm'?)", check.suggest("H100", systems))
    assert.equal(" (did you mean 'h100-sxm'?)", check.suggest("nvidia/H100-SMX", systems))
    assert.equal(" (did you mean 'time'?)", check.suggest("tiem", { "time", "gpus", "time" }))
    assert.equal("", check.suggest(3, names))
    for _, list in ipairs { { "steps", "step_c", "step_a", "step_b" }, { "step_b", "step_c", "step_a", "steps" } } do
      assert.equal(" (did you mean 'step_a', 'step_b' or 'step_c'?)", check.suggest("step", list))
    end
  end)
end)
