local configuration = require "tperf.cli.configuration"
local format = require "tperf.report.format"
local stages = require "tperf.cli.stages"

local function save_chart(path, rows, model, c, capacity)
  local axes = {}
  for _, axis in ipairs { "tp", "tp1", "tp2", "cp", "ep", "pp", "dp" } do
    if c[axis] and c[axis] > 1 then axes[#axes + 1] = axis .. " " .. c[axis] end
  end
  require "tperf".plot.bars {
    rows = rows, x = { key = "devices", title = "Pipeline stage" }, y = stages.parts, yunit = "bytes",
    title = "Memory of a GPU: " .. model, ylabel = "Memory", subtitle = ("%s; a GPU has %s"):format(
      #axes > 0 and table.concat(axes, ", ") or "one GPU", format.number(capacity, "bytes")),
  }:save(path)
end

return {
  summary = "what each stage's GPUs hold in training",
  arguments = "MODEL",
  from = { "models files" },
  details = [[
For example: tperf memory gpt3-175b -s h100-sxm -b 1536 --tp 8 --pp 8 --dp 16 --svg memory.svg
docs/memory.md says what the parts are. Where it does not fit, a single change that helps is told.]],
  options = configuration.options(false, {
    { long = "strategy", value = "NAME", from = "strategies", help = "how a layer is cut up (default tensor)" },
    { long = "svg", value = "FILE", writes = "plot", help = "also draw a stacked bar for each stage" },
  }),
  run = function(values, arguments)
    local asked, message = configuration.question(values, arguments, { "system", "batch" })
    if not asked then return false, message end
    local tperf = require "tperf"
    local c = tperf.train(asked)
    configuration.note(values)
    local rows, capacity = stages.rows(c), tperf.system(asked.system).accelerator.hbm.capacity
    require "tperf.cli.table"(values, rows, stages.columns)
    if not values.json and not values.csv then
      print(("\n%s on the fullest GPU, which has %s"):format(format.number(c.memory.total, "bytes"),
        format.number(capacity, "bytes")))
    end
    configuration.tell(values, { c }, asked.system)
    if c.reason then
      io.stdout:flush()
      io.stderr:write("tperf: ", c.reason, "\n")
    end
    if values.svg then save_chart(values.svg, rows, tperf.model(asked.model).name, c, capacity) end
  end,
}
