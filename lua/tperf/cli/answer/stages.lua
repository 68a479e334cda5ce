--- The memory of each device of a pipeline as a table and as a chart, for `train` and `memory`.
local axes = require "tperf.describe.strategy.axes"
local core = require "tperf.core"
local format = require "tperf.output.format"

local stages = {}

--- The parts of a GPU's memory, in display order.
stages.parts = {}
for i, part in ipairs(core.memory_parts) do stages.parts[i] = part.name end

--- One row per run of neighbouring stages with equal memory.
---@param c tperf.configuration  from tperf.train
function stages.rows(c)
  local rows = {}
  for i, stage in ipairs(c.stages) do
    local last = stage.device + stage.repeats - 1
    local row = {
      devices = (stage.repeats > 1 and "%d-%d" or "%d"):format(stage.device, last), layers = stage.layers,
      in_flight = math.min(stage.in_flight, c.microbatches), total = stage.memory.total,
      ends = (stage.first and "first" or "") .. (stage.first and stage.last and ", " or "")
        .. (stage.last and "last" or ""),
    }
    for _, part in ipairs(stages.parts) do row[part] = stage.memory[part] end
    rows[i] = row
  end
  return rows
end

--- A stacked bar for each of these rows.
---@param c tperf.configuration  from tperf.train
---@param model string      its name
---@param capacity number   bytes of a GPU
---@param options? table    of tperf.plot.bars; they override the defaults
---@return tperf.Plot
function stages.chart(c, model, capacity, options)
  local sizes = {}
  for _, axis in ipairs(axes.names()) do
    if c[axis] and c[axis] > 1 then sizes[#sizes + 1] = axis .. " " .. c[axis] end
  end
  local o = {
    rows = stages.rows(c), x = { key = "devices", title = "Pipeline stage" }, y = stages.parts, yunit = "bytes",
    title = "Memory of a GPU: " .. model, ylabel = "Memory", subtitle = ("%s; a GPU has %s"):format(
      #sizes > 0 and table.concat(sizes, ", ") or "one GPU", format.number(capacity, "bytes")),
  }
  for name, value in pairs(options or {}) do o[name] = value end
  return require "tperf".plot.bars(o)
end

-- A narrow table keeps the parts, whose sum is the total, in as few columns as 80 characters have room for.
stages.titles = { optimizer = "states", activations = "saved" }
stages.columns = {
  { key = "devices", title = "stages", align = "right" }, { key = "layers", wide = 1 },
  { key = "in_flight", title = "in flight", wide = 3 },
}
for _, part in ipairs(stages.parts) do
  stages.columns[#stages.columns + 1] = { key = part, title = stages.titles[part], unit = "bytes", digits = 3 }
end
table.move({ { key = "total", unit = "bytes", digits = 3 }, { key = "ends", wide = 2 } }, 1, 2,
  #stages.columns + 1, stages.columns)

return stages
