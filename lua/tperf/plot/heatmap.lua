--- Heat maps: one cell for each pair of names or numbers.
local canvas = require "tperf.plot.draw.canvas"
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local map = require "tperf.plot.map"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"

local WHAT = "plot.heatmap"

local schema = map.schema { values = check.boolean { optional = true } }

local function text_of(value, column)
  return column.numeric and scale.text(value, column.unit) or value
end

local function axis(values, column, label)
  local s = scale.band(values)
  s.sorted, s.label = column.numeric, function(value) return text_of(value, column) end -- for scale.joined
  for _, tick in ipairs(s.ticks) do tick.label = s.label(tick.value) end
  s.title, s.bare = label or column.title or "", true
  return s
end

local function cells(c, box, grid, shade, o, plot)
  local w, h = box.width / #plot.x.ticks, box.height / #plot.y.ticks
  local largest = math.max(math.abs(grid.lo), math.abs(grid.hi))
  local factor = scale.unit(largest, grid.z.unit)
  -- The same number of decimals in all cells: as many as give the largest value three digits. On a log scale each has
  -- three of its own.
  local power = math.floor(math.log(math.max(largest / factor, 1e-6), 10))
  local pattern = "%." .. math.max(0, math.min(6, 2 - power)) .. "f"
  for i, x in ipairs(grid.xs) do
    for j, y in ipairs(grid.ys) do
      local value = grid.values[i][j]
      local left = box.left + plot.x.at(x) * box.width - w / 2
      local top = box.top + (1 - plot.y.at(y)) * box.height - h / 2
      local at = string.format("%s, %s: ", text_of(x, grid.x), text_of(y, grid.y))
      if value then
        local color = shade.color(shade.of(value))
        c:rect(left, top, w, h, { color = color, title = at .. scale.number(value, grid.z.unit) })
        local text = o.logz and scale.number(value / factor, nil, 3)
          or string.format(pattern, value / factor):gsub("^%-0%.?0*$", "0"):gsub("^%-", "−")
        if o.values ~= false and h >= 14 and canvas.text_width(text, 11) <= w - 4 then
          c:text(left + w / 2, top + h / 2 + 4, text, { size = 11, anchor = "middle", color = style.text_on(color),
            class = "tp-fixed" })
        end
      else
        map.hatch(c, left, top, w, h, 7)
      end
    end
  end
end

-- The colours of the values, and their bar.
local function shaded(o, grid)
  local shade, blocks, values, positions = map.shade(WHAT, o, grid), {}, {}, {}
  local low, high = shade.of(grid.lo), shade.of(grid.hi) -- a diverging map may use less of one half
  for i = 1, 32 do blocks[i] = shade.color(low + (high - low) * (i - 0.5) / 32) end
  if high <= low then low, high = 0, 1 end
  local factor = scale.unit(math.max(math.abs(grid.lo), math.abs(grid.hi)), grid.z.unit) -- round in the unit shown
  local s = (o.logz and scale.log or scale.linear)(grid.lo / factor, grid.hi / factor, {})
  for _, tick in ipairs(s.ticks) do
    local value = tick.value * factor
    if value >= grid.lo and value <= grid.hi then
      values[#values + 1], positions[#positions + 1] = value, (shade.of(value) - low) / (high - low)
    end
  end
  return { shade = shade, bar = map.bar(grid, o, values, positions, blocks) }
end

--- A heat map: z for each pair of x and y, which are names or numbers (numbers in ascending order, names in the order
--- of the rows; strings such as "40 GB" are numbers).
--- values: false omits the numbers in the cells. A pair without a value is hatched; missing says why.
---@param options table
---  values  false omits the numbers in the cells
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  local grid = map.grid(WHAT, o, false)
  local plot = figure.start(WHAT, o)
  plot.x, plot.y = axis(grid.xs, grid.x, o.xlabel), axis(grid.ys, grid.y, o.ylabel)
  return map.figure("Heat map", plot, o, grid, function() return shaded(o, grid) end, function(c, box, of)
    cells(c, box, grid, of.shade, o, plot)
  end)
end
