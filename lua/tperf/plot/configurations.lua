--- Configurations compared: the sizes of their axes and their memory above, the breakdown of their time below.
local bars = require "tperf.plot.bars"
local check = require "tperf.base.check"
local core = require "tperf.core"
local figure = require "tperf.plot.figure"
local columns = require "tperf.output.columns"
local panels = require "tperf.plot.panels"
local strategy = require "tperf.describe.strategy"

local WHAT = "plot.configurations"

local schema = {
  rows = check.any {},
  x = check.one_of(check.string {}, check.func {}, check.any {}),
  xlabel = figure.common.xlabel,
  title = check.string { optional = true },
  subtitle = check.string { optional = true },
  width = figure.length { min = 240, max = 4000, default = 860, example = '"3.5 in"' },
  font = figure.common.font, font_size = figure.common.font_size,
}

local TITLES <const> = { tensor_comm = "tensor communication", data_comm = "data communication",
  pipeline_comm = "pipeline communication", host = "host's launches", straggling = "slowest GPU" }
local parts = {} -- of the time; those that take none are left out
for i, name in ipairs(core.time_parts) do
  parts[i] = { key = "breakdown." .. name, title = TITLES[name] or name, above = 0 }
end

-- The fields that some row has, with a value greater than `above` where the field sets it.
local function present(rows, list)
  local kept = {}
  for _, field in ipairs(list) do
    for _, row in ipairs(rows) do
      local value = columns.at(row, field.key)
      if value ~= nil and not math.type(value) then
        check.fail("%s: '%s' of a row must be a number, got %s", WHAT, field.key, check.show(value))
      end
      if value ~= nil and not (field.above and value <= field.above) then
        kept[#kept + 1] = { key = field.key, title = field.title, unit = field.unit }
        break
      end
    end
  end
  return kept
end

-- The axes of the rows' strategies; axes that are 1 in every row are left out.
local function axes_of(rows)
  local list, seen = { { key = "microbatches", title = "micro-batches" } }, {}
  local function add(name)
    if not seen[name] then list[#list + 1] = { key = name, title = name, above = 1 } end
    seen[name] = true
  end
  for _, row in ipairs(rows) do
    for _, name in ipairs(row.strategy and strategy.of(row.strategy).axis_names or {}) do add(name) end
  end
  add "dp"
  add "pp"
  return present(rows, list)
end

--- Compares configurations in two panels: bars of the axes' sizes with memory as a line, and stacked shares of the
--- time with the iteration time as a line.
---@param options table  rows: configurations; x: a field or function that names each; xlabel, title, subtitle, width
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  columns.check_rows(WHAT, o.rows)
  local fastest, slowest = math.huge, 0
  for i, row in ipairs(o.rows) do
    if row.time ~= nil and not math.type(row.time) then
      check.fail("%s: 'time' of row %d must be a number, got %s", WHAT, i, check.show(row.time))
    end
    fastest, slowest = math.min(fastest, row.time or fastest), math.max(slowest, row.time or slowest)
  end
  return panels {
    title = o.title,
    bars {
      rows = o.rows, x = o.x, xlabel = o.xlabel, y = axes_of(o.rows), mode = "grouped", logy = 2, width = o.width,
      height = 330, font = o.font, font_size = o.font_size,
      ylabel = "GPUs along an axis, micro-batches", subtitle = o.subtitle,
      y2 = { { key = "memory.total", title = "memory", unit = "bytes" } }, y2label = "memory of a GPU",
    },
    bars {
      rows = o.rows, x = o.x, xlabel = o.xlabel, y = present(o.rows, parts), share = true, width = o.width,
      height = 330, font = o.font, font_size = o.font_size,
      ylabel = "share of the time",
      y2 = { { key = "time", title = "iteration", unit = "s" } }, y2label = "time of an iteration",
      logy2 = slowest > 10 * fastest,
    },
  }
end
