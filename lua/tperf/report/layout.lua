--- How a configuration cuts its work, in a few words.
local strategy = require "tperf.strategy"

local layout = {}

local function axes_of(c)
  local names = {}
  for i, name in ipairs(c.strategy and strategy.of(c.strategy).axis_names or {}) do names[i] = name end
  names[#names + 1] = "pp"
  names[#names + 1] = "dp"
  return names
end

local function list(c, values)
  local parts = {}
  for _, name in ipairs(axes_of(c)) do
    if values[name] and (values[name] > 1 or name ~= "ep") then
      parts[#parts + 1] = ("%s %d"):format(name, values[name])
    end
  end
  return table.concat(parts, ", ")
end

--- The GPUs along each axis: "tp 8, pp 16, dp 4".
---@param c table  a configuration
---@return string? text
function layout.sizes(c)
  return c.dp and list(c, c) or nil
end

--- How many of them share a fast domain: "tp 8, pp 1, dp 1".
---@param c table
---@return string? text
function layout.placement(c)
  return c.fast and list(c, c.fast) or nil
end

return layout
