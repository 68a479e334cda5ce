--- Options and columns of serving commands, for the axes and options of all strategies.
local axes = require "tperf.describe.strategy.axes"

local serving_axes = {}

local AXES <const>, OPTIONS <const> = {}, {}
for _, entry in ipairs(axes.every(true)) do
  if entry.axis and axes.shows(entry.axis, 0) then AXES[#AXES + 1] = entry end
  if entry.option and entry.option.serves then OPTIONS[#OPTIONS + 1] = entry end
end

--- The names of the axes.
---@return string[]
function serving_axes.names()
  local list = {}
  for i, entry in ipairs(AXES) do list[i] = entry.name end
  return list
end

--- The names of the choices that a strategy offers: itself, its axes and its options.
---@return string[]
function serving_axes.chosen()
  local list = serving_axes.names()
  for _, entry in ipairs(OPTIONS) do list[#list + 1] = entry.name end
  list[#list + 1] = "strategy"
  return list
end

--- The columns of sizes.
---@return tperf.Column[]
function serving_axes.columns()
  local list = {}
  for i, entry in ipairs(AXES) do
    list[i] = { key = entry.name, usual = i > 1 and 1 or nil, wide = entry.axis.default and 2 or nil }
  end
  return list
end

return serving_axes
