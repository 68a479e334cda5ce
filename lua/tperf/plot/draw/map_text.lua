--- Contours and heat maps as text: characters from light to heavy.
local braille = require "tperf.plot.draw.braille"
local format = require "tperf.output.format"

local shades = ".:-=+*#%@"

-- For each of `count` cells along an axis, the index of the nearest grid position; 0: names that the grid has not, as
-- facets share their axes.
local function nearest(values, axis, count)
  local list = {}
  for cell = 1, count do
    local best, distance = 1, math.huge
    for i, value in ipairs(values) do
      local d = math.abs(axis.at(value) - (cell - 0.5) / count)
      if d < distance then best, distance = i, d end
    end
    list[cell] = axis.kind == "band" and distance > 0.51 / #axis.ticks and 0 or best
  end
  return list
end

--- The map as text; each character shows the value at the nearest grid cell.
---@param options { width: integer, height: integer, ascii: boolean, color: boolean }
---@param plot table   title, x, y
---@param grid table   xs, ys, values, lo, hi
---@param shade fun(value: number): number  0 to 1
---@param bar table    missing
---@param title string  of the values
---@return string
return function(options, plot, grid, shade, bar, title)
  local how = { width = options.width, height = plot.y.kind == "band" and #grid.ys or options.height,
    ascii = options.ascii, color = options.color }
  local legend = ("  %s: %s %s … %s %s%s"):format(format.printable(title), shades:sub(1, 1),
    format.number(grid.lo, grid.z.unit), shades:sub(-1), format.number(grid.hi, grid.z.unit),
    bar.missing and "; blank: " .. format.printable(bar.missing) or "")
  return braille.plot(how, plot, function(cells)
    local columns, lines = nearest(grid.xs, plot.x, cells.columns), nearest(grid.ys, plot.y, cells.rows)
    for row = 1, cells.rows do
      for column = 1, cells.columns do
        local value = (grid.values[columns[column]] or {})[lines[cells.rows - row + 1]]
        local k = value and math.min(#shades, math.floor(shade(value) * #shades) + 1)
        if k then cells:put(column, row, shades:sub(k, k)) end
      end
    end
  end, { legend })
end
