local check = require "tperf.check"
local options = require "tperf.cli.options"

local function named(names)
  local rows = {}
  for i, name in ipairs(names) do rows[i] = { name = name } end
  return rows
end

-- Names, with the summary of what get finds by them.
local function summarised(names, get)
  local rows = named(names)
  for _, row in ipairs(rows) do row.summary = get(row.name).summary end
  return rows
end

local function span_of(span) return span and (span[1] == span[2] and span[1] or span[1] .. "-" .. span[2]) or nil end

local FIRST <const> = { typical = 1, tuned = 2 } -- for stacks without a profile of their own

-- Profiles, with what their runs were and the median error of runs that the fit did not see.
local function profiles()
  local software, rows = require "tperf.software", named(require "tperf.resource".list "software")
  table.sort(rows, function(a, b)
    local x, y = FIRST[a.name] or math.huge, FIRST[b.name] or math.huge
    if x ~= y then return x < y end
    return a.name < b.name
  end)
  for _, row in ipairs(rows) do
    local p = software(row.name)
    row.runs, row.error, row.gpus = p.runs, p.error, span_of(p.gpus)
    row.spread = p.spread and ("%.2f-%.2f"):format(table.unpack(p.spread)) or nil
    row.systems = table.concat(p.systems, " ")
  end
  return rows, {
    { key = "name" }, { key = "runs" }, { key = "gpus", title = "GPUs" }, { key = "error", unit = "%", digits = 3 },
    { key = "spread", title = "nine in ten" }, { key = "systems" },
  }
end

local SUBJECTS = {
  models = function() return named(require "tperf.resource".list "models") end,
  software = profiles,
  systems = function() return named(require "tperf.resource".list "systems") end,
  strategies = function()
    local strategy = require "tperf.strategy"
    return summarised(strategy.names(), strategy.of)
  end,
  schedules = function()
    local schedule = require "tperf.schedule"
    return summarised(schedule.names(), schedule.get)
  end,
  recipes = function() -- the tables of options of launch files
    local rows = {}
    for i, t in ipairs(require "tperf.import.launch.tables".all()) do
      rows[i] = { name = t.name, stack = t.stack, version = t.version, kind = t.kind, options = #t.options }
    end
    return rows, { { key = "name" }, { key = "stack" }, { key = "version" }, { key = "kind" }, { key = "options" } }
  end,
  rules = function() -- what each set says about each assumption
    local rules = require "tperf.rules"
    local columns = { { key = "name" } }
    for i, name in ipairs(rules.names()) do columns[i + 1] = { key = name } end
    columns[#columns + 1] = { key = "meaning" }
    return rules.describe(), columns
  end,
}
local NAMES = { "models", "systems", "software", "strategies", "schedules", "rules", "recipes" }

return {
  summary = "list what there is to choose from",
  arguments = table.concat(NAMES, "|"),
  from = { NAMES },
  options = options.formats,
  run = function(values, arguments)
    local name = arguments[1]
    if not name then return false, "say what to list: " .. table.concat(NAMES, ", ") end
    if arguments[2] then return false, "list takes one subject" end
    if not SUBJECTS[name] then return false, ("unknown subject '%s'%s"):format(name, check.suggest(name, NAMES)) end
    local rows, columns = SUBJECTS[name]()
    if columns or values.json or values.csv then
      require "tperf.cli.table"(values, rows, columns or { { key = "name" }, { key = "summary" } })
      return
    end
    local width = 0
    for _, row in ipairs(rows) do width = math.max(width, #row.name) end
    for _, row in ipairs(rows) do
      print(row.summary and ("%-" .. width .. "s  %s"):format(row.name, row.summary) or row.name)
    end
  end,
}
