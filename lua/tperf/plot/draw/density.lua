--- Many points as a density: cells of the plane, the more opaque the more points lie in each.
local density = {}

density.MOST = 20000 -- points that are drawn one by one; more would make a picture of megabytes

local CELL <const>, LEVELS <const> = 4, 6 -- px, and steps of opacity
local FAINTEST <const> = 0.18

-- The opacity of a level from 1 to LEVELS.
local function opacity(level) return FAINTEST + (1 - FAINTEST) * (level - 1) / (LEVELS - 1) end

-- How many points lie in each cell: by row, by column; and the most.
local function counted(points, plot, box)
  local rows, most, columns, lines = {}, 0, math.ceil(box.width / CELL), math.ceil(box.height / CELL)
  for _, point in ipairs(points) do
    local u, v = plot.x.at(point.x), point.y and plot.y.at(point.y)
    if v and u >= 0 and u <= 1 and v >= 0 and v <= 1 then
      local column = math.min(columns - 1, math.floor(u * box.width / CELL))
      local line = math.min(lines - 1, math.floor((1 - v) * box.height / CELL))
      rows[line] = rows[line] or {}
      local count = (rows[line][column] or 0) + 1
      rows[line][column], most = count, math.max(most, count)
    end
  end
  return rows, most, columns, lines
end

-- The level of a count, by its logarithm.
local function level_of(count, most)
  if most == 1 then return LEVELS end
  return 1 + math.floor((LEVELS - 1) * math.log(count) / math.log(most) + 0.5)
end

--- Draws a series' points as cells; neighbours of one level share a rectangle.
---@param c tperf.Canvas
---@param box table
---@param plot table    x, y
---@param series table  points, look
---@return integer most  points in one cell
function density.draw(c, box, plot, series)
  local rows, most, columns, lines = counted(series.points, plot, box)
  local rings = {}
  for level = 1, LEVELS do rings[level] = {} end
  for line = 0, lines - 1 do
    local row, from, level = rows[line] or {}, 0, nil
    local top, bottom = box.top + line * CELL, math.min(box.top + (line + 1) * CELL, box.top + box.height)
    for column = 0, columns do
      local own = row[column] and column < columns and level_of(row[column], most) or nil
      if own ~= level then
        if level then
          local left, right = box.left + from * CELL, math.min(box.left + column * CELL, box.left + box.width)
          table.insert(rings[level], { left, top, right, top, right, bottom, left, bottom })
        end
        from, level = column, own
      end
    end
  end
  for level, list in ipairs(rings) do
    c:area(list, { color = series.look.color, opacity = opacity(level), title = series.name })
  end
  return most
end

--- Draws a sample for a legend, 26 px wide.
function density.key(c, x, y, color)
  local wide = 26 / LEVELS
  for level = 1, LEVELS do
    c:rect(x + (level - 1) * wide, y - 5, wide, 10, { color = color, opacity = opacity(level) })
  end
end

--- The points of a long line that a picture can show: of those in one column of pixels the first, the last, the
--- lowest and the highest (M4: Jugel et al., PVLDB 7(10), 2014), so that the line covers the same pixels.
---@param run number[]      { u1, v1, … } in the unit square, u ascending
---@param columns integer   px
---@return number[]
function density.thin(run, columns)
  if #run // 2 <= 8 * columns then return run end
  for i = 3, #run, 2 do
    if run[i] < run[i - 2] then return run end -- names in another order
  end
  local out, at = {}, 1
  while at < #run do
    local column, low, high, last = math.floor(run[at] * columns), at, at, at
    for i = at, #run, 2 do
      if math.floor(run[i] * columns) ~= column then break end
      if run[i + 1] < run[low + 1] then low = i end
      if run[i + 1] > run[high + 1] then high = i end
      last = i
    end
    local before
    for _, i in ipairs { at, math.min(low, high), math.max(low, high), last } do
      if i ~= before then out[#out + 1], out[#out + 2] = run[i], run[i + 1] end
      before = i
    end
    at = last + 2
  end
  return out
end

return density
