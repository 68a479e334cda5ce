--- tperf.rules: the modelling assumptions, each a boolean field.
-- A set of rules is data: "default" has every correction, "subramanian2024" reproduces the published solver
-- to the last digit. A custom set starts from one of them:
--   tperf.rules { base = "default", data_overlap_excludes_comm = false }
-- The core reads the fields of include/tperf/rules.h; the others affect how a layer is laid out.
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local sets = require "tperf.describe.rules.sets"

local rules = {}

--- The names of the sets, in order.
function rules.names()
  return { "default", "subramanian2024" }
end

--- The meaning of each field: a list of { name =, meaning =, otherwise = }, and its value in each set under the set's
--- name.
function rules.describe()
  local list = {}
  for i, field in ipairs(sets.fields) do
    list[i] = { name = field[1], meaning = field[2], otherwise = field[3] }
    for name, set in pairs(sets.bases) do list[i][name] = set[field[1]] end
  end
  return list
end

--- The names of the sets of rules that this run has used so far, sorted.
---@return string[]
function rules.used()
  return check.names(sets.used)
end

--- A set of rules: by name, or a table of fields over a base. It is never changed.
---@param value string|table|nil  a name (default "default"), or a table of fields and
---   base  the set that provides the other fields
---@return table<string, boolean> rules  with `name`
function rules.of(value) return frozen.show(sets.of(value)) end

return setmetatable(rules, { __call = function(_, value) return rules.of(value) end })
