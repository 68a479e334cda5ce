--- The common part of contours and heat maps: values on a grid, the colour bar, marked points.
local axes = require "tperf.plot.draw.axes"
local canvas = require "tperf.plot.draw.canvas"
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local map_text = require "tperf.plot.draw.map_text"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"
local units = require "tperf.base.units"

local map = {}

local BAR <const> = 16 -- px, the colour bar's width

--- Adds the options that both kinds take.
--  z        the value: a field, a path, a function of the row or { key =, title =, unit = }
--  zlabel, zunit   label and unit of the value
--  logz     true: shades follow the logarithm
--  center   the value that is white in a diverging map; default: 0 if values lie on both sides of it; false: none
--  marks    highlighted points { x =, y =, label = }
--  missing  the meaning of a cell without a value
function map.schema(own)
  own.rows, own.x, own.y, own.z = check.any {}, rows.field, rows.field, rows.field
  own.zunit, own.zlabel = check.string { optional = true }, check.string { optional = true }
  own.logz = check.boolean { default = false }
  own.center = check.one_of_or_nil(check.number {}, check.boolean {})
  own.missing = check.string { default = "no value" }
  own.marks = check.list(check.record_of {
    x = check.one_of(check.number {}, check.string {}),
    y = check.one_of(check.number {}, check.string {}),
    label = check.string { optional = true },
  }, { default = {} })
  return figure.schema(own, { "legend", "legend_title", "alpha" })
end

-- Whether the positions along an axis are numbers. Raises if numbers and names are mixed.
local function has_numbers(what, column, o)
  local of_kind = {} -- kind -> the first row that has it
  for r = 1, #o.rows do
    local value = column.get(o.rows[r])
    if value ~= nil then
      local kind = (type(value) == "number" or column.quantities) and "number" or "name"
      of_kind[kind] = of_kind[kind] or r
    end
  end
  local number, name = of_kind.number, of_kind.name
  if number and name then
    check.fail("%s: %s has numbers and names (row %d: %s, row %d: %s); an axis takes one of them", what,
      column.title and "'" .. column.title .. "'" or "an axis", number, check.show(column.get(o.rows[number])), name,
      check.show(column.get(o.rows[name])))
  end
  return number ~= nil
end

-- A row's position along an axis.
local function place_of(what, column, o, r, log)
  if not column.numeric then return rows.name(what, column, o.rows, r) end
  local value = rows.number(what, column, o.rows, r, log)
  if not value then check.fail("%s: row %d has no number for %s", what, r, column.title or "an axis") end
  return value
end

-- The distinct positions of a field, sorted, and the index of each.
local function distinct(what, column, o, log)
  local list, index = {}, {}
  for r = 1, #o.rows do
    local value = place_of(what, column, o, r, log)
    if not index[value] then
      list[#list + 1] = value
      index[value] = true
    end
  end
  if column.numeric then table.sort(list) end
  for i, value in ipairs(list) do index[value] = i end
  return list, index
end

--- The grid of values: z[i][j] at xs[i], ys[j]. Raises if two rows give the same cell; a missing cell is a gap.
---@param numeric boolean  whether both axes must be numbers
function map.grid(what, o, numeric)
  local x, y = rows.column(what, o.rows, o.x, o.xunit), rows.column(what, o.rows, o.y, o.yunit)
  local z = rows.column(what, o.rows, o.z, o.zunit)
  for _, column in ipairs { x, y } do column.numeric = numeric or has_numbers(what, column, o) end
  local xs, xi = distinct(what, x, o, o.logx)
  local ys, yi = distinct(what, y, o, o.logy)
  local values, lo, hi, missing, from = {}, nil, nil, #xs * #ys, {}
  for i = 1, #xs do values[i], from[i] = {}, {} end
  for r = 1, #o.rows do
    local at_x, at_y = place_of(what, x, o, r), place_of(what, y, o, r)
    local i, j = xi[at_x], yi[at_y]
    if from[i][j] then
      check.fail("%s: rows %d and %d are both at %s = %s, %s = %s", what, from[i][j], r, x.title or "x",
        check.show(at_x), y.title or "y", check.show(at_y))
    end
    local value = rows.number(what, z, o.rows, r, o.logz)
    values[i][j], from[i][j] = value, r
    if value then lo, hi, missing = math.min(lo or value, value), math.max(hi or value, value), missing - 1 end
  end
  if not lo then check.fail("%s: no row has a number for %s", what, z.title or "z") end
  return { x = x, y = y, z = z, xs = xs, ys = ys, values = values, lo = lo, hi = hi, missing = missing }
end

-- The middle of a diverging map, or nil for a sequential one.
local function center_of(what, o, grid)
  if o.center == true then check.fail("%s: 'center' must be a number or false, got true", what) end
  if o.center and o.logz then check.fail("%s: 'center' needs a linear scale: leave out 'logz'", what) end
  if o.logz or o.center == false then return nil end
  return o.center or grid.lo < 0 and grid.hi > 0 and 0 or nil
end

--- How values are coloured: shade(value), from 0 to 1, and color(shade). A sequential map is lighter for larger values;
--- a diverging one is white in the middle, blue below and red above, equally far from it equally dark.
---@return { of: function, color: function }
function map.shade(what, o, grid)
  local middle = center_of(what, o, grid)
  if middle then
    local reach = math.max(grid.hi / 2 - middle / 2, middle / 2 - grid.lo / 2, 5e-324)
    return { of = function(value) return 0.5 + (value / 2 - middle / 2) / reach / 2 end, color = style.diverging }
  end
  local of
  if o.logz then
    local a, b = math.log(grid.lo), math.log(grid.hi)
    of = function(value) return b > a and (math.log(value) - a) / (b - a) or 0.5 end
  else
    of = function(value) return grid.hi > grid.lo and (value / 2 - grid.lo / 2) / (grid.hi / 2 - grid.lo / 2) or 0.5 end
  end
  return { of = of, color = style.ramp }
end

--- Hatches a rectangle: no value here.
function map.hatch(c, x, y, width, height, step)
  for d = step, width + height, step do
    local x1, y1 = math.min(d, width), math.max(0, d - width)
    local x2, y2 = math.max(0, d - height), math.min(d, height)
    c:line({ x + x1, y + y1, x + x2, y + y2 }, { class = "tp-grid", color = style.grid, width = 1.2 })
  end
end

--- Draws the colour bar: one block per colour; the value at the border of two blocks beside it.
---@param c tperf.Canvas
---@param box table  labels_at, top, height
---@param bar table  of map.bar
function map.draw_bar(c, box, bar)
  local x, n = box.labels_at + 4, #bar.blocks
  local room = bar.missing and 24 or 0
  local h = (box.height - room) / n
  local step = math.max(1, math.ceil(#bar.labels * 14 / (box.height - room)))
  for i, color in ipairs(bar.blocks) do
    -- Each block reaches to the top and the next one is drawn over it, which leaves no seams.
    c:rect(x, box.top, BAR, (n - i + 1) * h, { color = color })
  end
  for i, label in ipairs(bar.labels) do
    if (i - 1) % step == 0 then
      c:text(x + BAR + 6, box.top + (1 - label.at) * (box.height - room) + 4, label.text)
    end
  end
  if bar.missing then
    map.hatch(c, x, box.top + box.height - 16, BAR, 16, 6)
    c:text(x + BAR + 6, box.top + box.height - 4, canvas.fit(bar.missing, bar.width),
      { class = "tp-soft", color = style.soft })
  end
end

--- The colour bar's blocks and labels, all in one unit.
function map.bar(grid, o, values, positions, blocks)
  local factor, unit = scale.unit(math.max(math.abs(grid.lo), math.abs(grid.hi)), grid.z.unit)
  local labels, width = {}, 0
  for i, value in ipairs(values) do
    local text = scale.number(value / factor, nil, 4)
    labels[i] = { text = text, at = positions[i] }
    width = math.max(width, canvas.text_width(text))
  end
  local title = scale.title(o.zlabel or grid.z.title, unit)
  local missing = grid.missing > 0 and o.missing or nil
  width = math.max(width, missing and canvas.text_width(missing) or 0)
  return { labels = labels, blocks = blocks, title = title, missing = missing, width = math.min(width, 150) }
end

-- Converts the quantities in marks' positions to numbers.
local function check_marks(what, o, grid)
  for i, mark in ipairs(o.marks) do
    for name, column in pairs { x = grid.x, y = grid.y } do
      local value = mark[name]
      if column.numeric and type(value) == "string" then
        local number, unit = units.read(value)
        mark[name] = unit and unit == column.unit and number or tonumber(value)
      end
      if column.numeric and not mark[name] then
        check.fail("%s: 'marks[%d].%s' must be a number%s, got %s", what, i, name,
          column.unit and " or a quantity in " .. column.unit or "", check.show(value))
      end
      if not column.numeric then mark[name] = tostring(mark[name]) end
    end
  end
end

-- Draws marked points. Returns their positions.
local function points_of(c, box, plot, marks)
  local points = {}
  for _, mark in ipairs(marks) do
    local u, v = plot.x.at(mark.x), plot.y.at(mark.y)
    if u and v and u >= 0 and u <= 1 and v >= 0 and v <= 1 then
      local px, py = box.left + u * box.width, box.top + (1 - v) * box.height
      c:marker(px, py, "circle", 6, { color = "#ffffff" })
      c:marker(px, py, "circle", 4, { color = "#c2185b", title = mark.label })
      points[#points + 1] = { px = px, py = py, label = mark.label, title = mark.label }
    end
  end
  return points
end

-- Writes the names of marks on plates of the paper's colour, readable on any fill.
local function name_points(c, box, points)
  for _, p in ipairs(points) do
    if p.label then
      local text = canvas.fit(p.label, 170)
      local w = canvas.text_width(text) + 8
      local left = p.px + 10
      if left + w > box.left + box.width then left = math.max(box.left, p.px - 10 - w) end
      local y = math.max(box.top + 10, math.min(box.top + box.height - 10, p.py)) -- clear of the axes' labels
      c:rect(left, y - 9, w, 18, { color = "#ffffff", opacity = 0.85 })
      c:text(left + 4, y + 4, text, { color = "#1b1f24", class = "tp-fixed" })
    end
  end
end

-- The accessible description.
local function description_of(kind, o, plot, grid)
  return string.format("%s of %s over %s and %s, from %s to %s.", kind, o.zlabel or grid.z.title or "z", plot.x.title,
    plot.y.title, scale.number(grid.lo, grid.z.unit), scale.number(grid.hi, grid.z.unit))
end

-- Facets of maps have one range of values, whose bar the figure draws once.
local function share_of(plot, of, grid, take)
  return {
    range = grid, title = of.bar.title, room = BAR + of.bar.width + 26,
    -- Shades all values from lo to hi. Returns the bar; missing: a facet has cells without a value.
    set = function(lo, hi, missing)
      grid.lo, grid.hi = lo, hi
      if missing and grid.missing == 0 then grid.missing = 1 end
      plot.right, plot.right_title = 8, nil
      return take()
    end,
  }
end

--- The figure of a map: the area, drawn by `fill(c, box, of)`, its axes, marked points and legend.
---@param kind string  for the accessible description: "Heat map"
---@param plot table   with its axes
---@param o table      checked options
---@param grid table   of map.grid
---@param make function  returns { shade, bar }, as made by map.shade and map.bar, for the range of the grid's values
---@param fill function
---@return tperf.Plot
function map.figure(kind, plot, o, grid, make, fill)
  local of, shared = make(), false
  check_marks(plot.what, o, grid)
  plot.right, plot.right_title = BAR + of.bar.width + 26, of.bar.title
  plot.values = share_of(plot, of, grid, function()
    of, shared = make(), true
    return of.bar
  end)
  plot.draw = function(c)
    local box = axes.layout(plot)
    fill(c, box, of)
    axes.draw(c, plot, box)
    name_points(c, box, points_of(c, box, plot, o.marks))
    if not shared then map.draw_bar(c, box, of.bar) end
  end
  plot.lines = function(how)
    return map_text(how, plot, grid, of.shade.of, of.bar, o.zlabel or grid.z.title or "z")
  end
  plot.description = description_of(kind, o, plot, grid)
  axes.make_room(plot, plot.y.kind == "band" and 15 * #grid.ys or nil)
  return figure.new(plot)
end

return map
