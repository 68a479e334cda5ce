--- The axes of strategies that serve, in the tables of serving commands.
local axes = require "tperf.describe.strategy.axes"

local serving_axes = {}

local AXES <const> = {}
for _, entry in ipairs(axes.every(true)) do
  if entry.axis and axes.shows(entry.axis, 0) then AXES[#AXES + 1] = entry end
end

--- The names of the axes.
---@return string[]
function serving_axes.names()
  local list = {}
  for i, entry in ipairs(AXES) do list[i] = entry.name end
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
