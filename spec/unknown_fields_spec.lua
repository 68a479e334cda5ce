-- A field that a function does not know has no effect: each argument of each function of the library refuses it by
-- name, on every level, except where anything may stand.
package.path = "tools/fuzz/?.lua;" .. package.path
local calls = require "every_call"
local tperf = require "tperf"
local values = require "values"

local FIELD <const> = "no_such_field"

-- Where fields are the caller's own: columns of rows, parameters of a sweep, what a script's blocks find in their
-- group, the variables of a launch's script (those without use are in the answer), and answers of the library that it
-- is given back, to which scripts may add.
local FREE <const> = {
  "^plot_[%w_]+ 1%.rows", "^report_%w+ 1%.%d$", "^report_objects 4", "^sweep_given 1$", "^sweep_run 1$", "^grid 1$",
  "^zip 1$", "^architecture_groups 1%.groups", "^import_launch 1%.given$", "^import_arguments 1",
  "^plot_occupancy 1%.result", "^import_arguments_alone 1$", "^plot_requests 1%.result",
  "^schedule_default_stages 1$", "^strategy_share ", "^architecture_of 2$", "^report_launch 3%.question$",
}
-- Those that other mistakes of the call are told before.
local OTHER <const> = { "^calibrate_cases 1%.files%.1%.cases" }

local function is_in(list, where)
  for _, pattern in ipairs(list) do
    if where:find(pattern) then return true end
  end
  return false
end

-- Calls visit(path) for every table of fields within plain tables.
local function walk(value, path, visit)
  if type(value) ~= "table" or getmetatable(value) or #path > 7 then return end
  if #path > 0 and value[1] == nil then visit(path) end
  for _, key in ipairs(values.keys(value)) do
    if type(key) == "string" or key < 3 then -- lists are alike further on
      local inner = table.move(path, 1, #path, 1, {})
      inner[#inner + 1] = key
      walk(value[key], inner, visit)
    end
  end
end

describe("an unknown field", function()
  for _, name in ipairs(values.keys(calls)) do
    it("in the arguments of " .. name .. " is refused by name", function()
      walk((calls[name]()), {}, function(path)
        local where = name .. " " .. table.concat(path, ".")
        if is_in(FREE, where) then return end
        local sound, call, hooks = calls[name]()
        local given = values.copy(sound, 8)
        for _, hook in ipairs(hooks or {}) do given[1][hook] = function() return true end end
        local at = given
        for _, key in ipairs(path) do at = at[key] end
        local ok, message = pcall(function()
          at[FIELD] = 1 -- refused by objects that scripts cannot change
          call(table.unpack(given, 1, 8))
        end)
        assert(not ok, where .. " is taken")
        assert(message:find(FIELD, 1, true) or is_in(OTHER, where), where .. ": " .. message)
      end)
    end)
  end

  it("in place of a configuration is no gap", function()
    local hole = { 1, nil, 3 }
    local message = "the configuration has no 'tokens_per_second'"
    for _, row in ipairs { { x = hole }, { x = 1 }, {}, { gpus = 8, tokens_per_secnd = 5 } } do
      assert.error_matches(function() tperf.cost(row, { tokens = 1e9 }) end, message)
    end
    assert.error_matches(function() tperf.cost { gpus = 8, tokens_per_secnd = 5 } end, '"tokens_per_secnd"')
    assert.same({}, tperf.cost({ gpus = 8, reason = "does not fit" }, { tokens = 1e9 }))
  end)
end)
