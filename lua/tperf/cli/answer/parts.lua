--- The parts of the iteration time and of the memory, in display order.
local check = require "tperf.base.check"
local core = require "tperf.core"

local parts = {}

local TIMES <const> = {
  compute = "computing", memory = "waiting for memory", tensor_comm = "communication inside a layer",
  pipeline_comm = "communication between stages", data_comm = "gradients and weights over dp",
  bubble = "pipeline bubble: waiting for stages", host = "waiting for launches",
  optimizer = "optimizer and host, between steps",
  straggling = "the slowest GPU", offload = "copies to and from the host",
}
local TITLES <const> = { optimizer = "optimizer state", passing = "during one pass", buffers = "libraries' buffers",
  runtime = "context and allocator" }
parts.time, parts.memory = {}, {}
for i, name in ipairs(core.time_parts) do parts.time[i] = { name, TIMES[name] } end
for i, part in ipairs(core.memory_parts) do parts.memory[i] = { part.name, TITLES[part.name] or part.name } end

--- The parts of a record of numbers, in the order of names, then any others; the total last.
---@param title string   of the column of the parts
---@param record table<string, number>
---@param names string[][]  parts.time or parts.memory
---@param total number
---@param unit string
---@return table[] rows, tperf.Column[] columns
function parts.of(title, record, names, total, unit)
  local rows, seen = {}, { total = true }
  local function add(name, words)
    local value = record[name]
    if type(value) == "number" and value ~= 0 and not seen[name] then
      rows[#rows + 1] = { part = words, value = value }
    end
    seen[name] = true
  end
  for _, name in ipairs(names) do add(name[1], name[2]) end
  for _, name in ipairs(check.names(record)) do add(name, name) end
  rows[#rows + 1] = { part = "total", value = total }
  for _, row in ipairs(rows) do row.share = total > 0 and row.value / total or 0.0 end
  return rows, {
    { key = "part", title = title }, { key = "value", title = "", unit = unit },
    { key = "share", title = "", unit = "%", digits = 3 },
  }
end

return parts
