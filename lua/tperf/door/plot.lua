--- A picture of rows as a question: { kind = "lines", rows = …, x = "gpus", y = "time" … }, the arguments of
--- tperf.plot.KIND as plain data; the answer has its SVG.
local check = require "tperf.base.check"
local plots = require "tperf.plot"

local KINDS <const> = { "bars", "box", "contour", "ecdf", "heatmap", "histogram", "lines", "scatter" }

local check_kind = check.choice { KINDS, default = "lines" }

return {
  run = function(given)
    local kind, message = check_kind(given.kind, "kind")
    if message then check.fail("%s", message) end
    local arguments = {}
    for name, value in pairs(given) do arguments[name] = name ~= "kind" and value or nil end
    return { svg = plots[kind](arguments):svg() }
  end,
}
