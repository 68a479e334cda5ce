--- Values over a plane as characters, from light to heavy.
local format = require "tperf.report.format"
local terminal = require "tperf.report.terminal"
local braille = require "tperf.plot.braille"

local shades = ".:-=+*#%@"

--- The map as text: the value at the nearest place of the grid decides a character.
---@param options { width: integer, height: integer, ascii: boolean, color: boolean }
---@param plot table   title, x, y
---@param grid table   xs, ys, values, lo, hi
---@param shade fun(value: number): number  0 to 1
---@param bar table    title, missing
---@return string
return function(options, plot, grid, shade, bar)
  local gutter, names = 0, {}
  local function name(value, column)
    return type(value) == "number" and format.number(value, column.unit, 3) or value
  end
  for j, value in ipairs(grid.ys) do
    names[j] = format.clip(name(value, grid.y), 20)
    gutter = math.max(gutter, format.width(names[j]))
  end
  local height = math.min(options.height, math.max(#grid.ys, 6))
  if plot.y.kind == "band" then height = #grid.ys end
  local width = options.width - gutter - 2
  -- The index of the grid's place nearest to a share of the axis.
  local function nearest(values, axis, t)
    local best, distance = 1, math.huge
    for i, value in ipairs(values) do
      local d = math.abs(axis.at(value) - t)
      if d < distance then best, distance = i, d end
    end
    return best
  end
  local columns, out, named = {}, {}, {}
  for c = 1, width do columns[c] = nearest(grid.xs, plot.x, (c - 0.5) / width) end
  if plot.title then out[1], out[2] = terminal.bold(format.printable(plot.title), options.color), "" end
  if plot.y.title ~= "" then out[#out + 1] = format.printable(plot.y.title) end
  for row = 1, height do
    local j = nearest(grid.ys, plot.y, 1 - (row - 0.5) / height)
    local line = {}
    for c = 1, width do
      local value = grid.values[columns[c]][j]
      local k = value and math.min(#shades, math.floor(shade(value) * #shades) + 1)
      line[c] = k and shades:sub(k, k) or " "
    end
    local label = named[j] and "" or names[j]
    named[j] = true
    out[#out + 1] = (" "):rep(gutter - format.width(label)) .. label .. " |" .. (table.concat(line):gsub(" +$", ""))
  end
  local first, last = name(grid.xs[1], grid.x), name(grid.xs[#grid.xs], grid.x)
  local gap = math.max(1, width - format.width(first) - format.width(last))
  out[#out + 1] = (" "):rep(gutter + 2) .. first .. (" "):rep(gap) .. last
  out[#out + 1] = (" "):rep(gutter + 2) .. format.printable(plot.x.title)
  out[#out + 1] = ""
  out[#out + 1] = string.format("  %s: %s %s … %s %s%s", bar.title, shades:sub(1, 1),
    format.number(grid.lo, grid.z.unit), shades:sub(-1), format.number(grid.hi, grid.z.unit),
    bar.missing and "; blank: " .. bar.missing or "")
  local text = table.concat(out, "\n") .. "\n"
  return options.ascii and braille.to_ascii(text) or text
end
