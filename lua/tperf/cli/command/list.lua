local check = require "tperf.check"
local core = require "tperf.core"
local options = require "tperf.cli.options"

local function files(kind)
  local rows = {}
  for i, name in ipairs(require "tperf.resource".list(kind)) do rows[i] = { name = name } end
  return rows
end

-- The members of a folder of the library are alternatives to each other: those that say what they are.
local function members(prefix)
  local rows = {}
  for _, module in ipairs(core.modules()) do
    local name = module:match("^" .. prefix:gsub("%.", "%%.") .. "%.([%w_]+)$")
    local value = name and require(module)
    if type(value) == "table" and type(value.summary) == "string" then
      rows[#rows + 1] = { name = name, summary = value.summary }
    end
  end
  table.sort(rows, function(a, b) return a.name < b.name end)
  return rows
end

local SUBJECTS = {
  models = function() return files "models" end,
  systems = function() return files "systems" end,
  strategies = function() return members "tperf.strategy" end,
  schedules = function() return members "tperf.schedule" end,
  rules = function() return require "tperf.rules".list() end,
}
local NAMES = { "models", "systems", "strategies", "schedules", "rules" }

return {
  summary = "list what there is to choose from",
  arguments = table.concat(NAMES, "|"),
  options = options.formats,
  run = function(values, arguments)
    local name = arguments[1]
    if not name then return false, "say what to list: " .. table.concat(NAMES, ", ") end
    if arguments[2] then return false, "list takes one subject" end
    if not SUBJECTS[name] then return false, ("unknown subject '%s'%s"):format(name, check.suggest(name, NAMES)) end
    local rows = SUBJECTS[name]()
    if values.json or values.csv then
      require "tperf.cli.table"(values, rows, { { key = "name" }, { key = "summary" } })
      return
    end
    local width = 0
    for _, row in ipairs(rows) do width = math.max(width, #row.name) end
    for _, row in ipairs(rows) do
      print(row.summary and ("%-" .. width .. "s  %s"):format(row.name, row.summary) or row.name)
    end
  end,
}
