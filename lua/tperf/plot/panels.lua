--- Several plots in one figure, one above the other.
local argument = require "tperf.base.entry.argument"
local canvas = require "tperf.plot.draw.canvas"
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"

local WHAT = "plot.panels"

-- Sets the widest margins of any panel on all of them, so that their data areas line up.
local function align(plots)
  local left, right = 0, 0
  for _, part in ipairs(plots) do
    part.draw(canvas.new(part.width, part.height))
    if part.measured then left, right = math.max(left, part.measured.left), math.max(right, part.measured.right) end
  end
  for _, part in ipairs(plots) do part.margins = { left = left, right = right } end
end

--- Stacks plots vertically under one title: plot.panels { title =, plot1, plot2, … }.
---@param options table  the plots in order, and
---  title  of the figure
---@return tperf.Plot
return function(options)
  if type(options) ~= "table" then check.fail("%s needs a table of plots, got %s", WHAT, check.show(options)) end
  argument.list(WHAT, "plots", options)
  local plots, named = {}, {}
  for key, value in pairs(options) do
    if math.type(key) == "integer" then plots[key] = value else named[key] = value end
  end
  local o = check.record(WHAT, named, { title = check.string { optional = true } })
  if #plots == 0 then check.fail("%s has no plots to draw", WHAT) end
  local plot = { what = WHAT, title = o.title, width = 0, height = o.title and 34 or 0 }
  local about = {}
  for i, part in ipairs(plots) do
    if not figure.is(part) then check.fail("%s: [%d] must be a plot, got %s", WHAT, i, check.show(part)) end
    plot.width, plot.height = math.max(plot.width, part.width), plot.height + part.height
    about[i] = part.description
  end
  plot.draw = function(c)
    local y = 0
    if o.title then
      c:text(12, 24, canvas.fit(o.title, plot.width - 24, 18), { size = 17, bold = true })
      y = 34
    end
    align(plots)
    for _, part in ipairs(plots) do
      part.draw(c:moved(0, y))
      part.margins = nil
      y = y + part.height
    end
  end
  plot.lines = function(how)
    local texts = {}
    for i, part in ipairs(plots) do texts[i] = part.lines(how) end
    return (o.title and o.title .. "\n\n" or "") .. table.concat(texts, "\n")
  end
  plot.description = table.concat(about, " ")
  return figure.new(plot)
end
