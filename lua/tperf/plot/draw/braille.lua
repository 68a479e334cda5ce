--- Lines and points as text: braille dots, two across and four down per cell, or plain ASCII.
local format = require "tperf.output.format"
local terminal = require "tperf.output.terminal"

---@class tperf.Braille
local braille = {}
braille.__index = braille

-- The bit of each dot in U+2800 + bits, by column and row (Unicode chapter 21.1).
local bits = { { 0x01, 0x02, 0x04, 0x40 }, { 0x08, 0x10, 0x20, 0x80 } }

-- Colours of the 256-colour palette, close to style.colors.
local colors = { 32, 214, 36, 175, 166, 117, 245 }

local marks = "ox+*#@%&abcdefghijklmnpqrstuvwyz"

--- The character that marks points of the i-th series.
function braille.mark_of(i)
  local k = (i - 1) % #marks + 1
  return marks:sub(k, k)
end

--- An empty grid of columns × rows cells.
---@return tperf.Braille
function braille.new(columns, rows, ascii)
  return setmetatable({ columns = columns, rows = rows, ascii = ascii, dots = {}, marks = {}, colors = {} }, braille)
end

local function cell_of(self, u, v)
  local x = math.floor(u * (self.columns * 2 - 1) + 0.5)
  local y = math.floor((1 - v) * (self.rows * 4 - 1) + 0.5)
  return x, y, (y // 4) * self.columns + x // 2
end

--- Sets a dot; u and v from 0 to 1, v upwards.
function braille:dot(u, v, color)
  if not (u >= 0 and u <= 1 and v >= 0 and v <= 1) then return end
  local x, y, cell = cell_of(self, u, v)
  self.dots[cell] = (self.dots[cell] or 0) | bits[x % 2 + 1][y % 4 + 1]
  self.colors[cell] = color
end

--- Draws a straight line of dots.
function braille:line(u1, v1, u2, v2, color)
  local steps = math.ceil(math.max(math.abs(u2 - u1) * self.columns * 2, math.abs(v2 - v1) * self.rows * 4, 1))
  for i = 0, steps do
    local t = i / steps
    self:dot(u1 + (u2 - u1) * t, v1 + (v2 - v1) * t, color)
  end
end

--- Puts a character into the cell at (u, v), unless one is there already.
function braille:mark(u, v, character, color)
  if not (u >= 0 and u <= 1 and v >= 0 and v <= 1) then return end
  local _, _, cell = cell_of(self, u, v)
  if not self.marks[cell] then self.marks[cell], self.colors[cell] = character, color end
end

--- Puts a character into a cell; columns and rows count from 1 at the top left.
function braille:put(column, row, character) self.marks[(row - 1) * self.columns + column - 1] = character end

--- Renders the grid as lines of text.
---@return string[]
function braille:render(color)
  local lines = {}
  for row = 0, self.rows - 1 do
    local out = {}
    for column = 0, self.columns - 1 do
      local cell = row * self.columns + column
      local dots = self.dots[cell]
      local text = self.marks[cell] or (dots and (self.ascii and "." or utf8.char(0x2800 + dots))) or " "
      out[#out + 1] = text == " " and text
        or terminal.colored(text, colors[((self.colors[cell] or 1) - 1) % #colors + 1], color and self.colors[cell])
    end
    lines[#lines + 1] = table.concat(out):match "^.*[^ ]" or ""
  end
  return lines
end

-- Writes text into a list of cells if they, and one beside them, are free.
local function place(cells, at, text)
  local width = format.width(text)
  at = math.max(1, math.min(at, #cells - width + 1))
  for i = math.max(1, at - 1), math.min(#cells, at + width) do
    if cells[i] ~= " " then return end
  end
  local i = at
  for c in text:gmatch(utf8.charpattern) do
    cells[i] = c
    for k = 1, format.width(c) - 1 do cells[i + k] = "" end
    i = i + format.width(c)
  end
end

--- Renders a whole plot: title, labelled axes around a grid, and a legend.
---@param options { width: integer, height: integer, ascii: boolean, color: boolean }
---@param plot table  title, x, y (scales with .title)
---@param draw fun(grid: tperf.Braille)
---@param legend string[]
---@return string
function braille.plot(options, plot, draw, legend)
  local gutter = 0
  for _, tick in ipairs(plot.y.ticks) do gutter = math.max(gutter, format.width(tick.label)) end
  gutter = math.min(gutter, 24)
  local grid = braille.new(options.width - gutter - 2, options.height, options.ascii)
  draw(grid)
  local labels, bar, tick_bar, corner, rule = {}, "│", "┤", "└", "─"
  if options.ascii then bar, tick_bar, corner, rule = "|", "+", "+", "-" end
  for _, tick in ipairs(plot.y.ticks) do
    labels[math.floor((1 - plot.y.at(tick.value)) * (grid.rows - 1) + 0.5)] = tick.label
  end
  local out = {}
  if plot.title then out[1], out[2] = terminal.bold(format.printable(plot.title), options.color), "" end
  if plot.y.title ~= "" then out[#out + 1] = format.printable(plot.y.title) end
  for i, line in ipairs(grid:render(options.color)) do
    local label = labels[i - 1] and format.clip(labels[i - 1], gutter) or ""
    local edge = labels[i - 1] and tick_bar or bar
    out[#out + 1] = (" "):rep(gutter - format.width(label)) .. label .. " " .. edge .. line
  end
  out[#out + 1] = (" "):rep(gutter + 1) .. corner .. rule:rep(grid.columns)
  local cells = {}
  for i = 1, options.width do cells[i] = " " end
  for _, tick in ipairs(plot.x.ticks) do
    local label = format.clip(tick.label, 20)
    local middle = plot.x.at(tick.value) * (grid.columns - 1)
    place(cells, gutter + 3 + math.floor(middle - format.width(label) / 2 + 0.5), label)
  end
  out[#out + 1] = table.concat(cells):match "^.*[^ ]" or ""
  if plot.x.title ~= "" then out[#out + 1] = (" "):rep(gutter + 2) .. format.printable(plot.x.title) end
  for i, line in ipairs(legend) do
    if i == 1 then out[#out + 1] = "" end
    out[#out + 1] = line
  end
  local text = table.concat(out, "\n") .. "\n"
  if options.ascii then text = braille.to_ascii(text) end
  return text
end

local plain = { ["−"] = "-", ["×"] = "x", ["·"] = "*", ["…"] = "~", ["µ"] = "u", ["⁻"] = "-", ["⁰"] = "0", ["¹"] = "1",
  ["²"] = "2", ["³"] = "3", ["⁴"] = "4", ["⁵"] = "5", ["⁶"] = "6", ["⁷"] = "7", ["⁸"] = "8", ["⁹"] = "9" }

--- A text in ASCII; characters without a counterpart become "?".
---@return string
function braille.to_ascii(text)
  text = text:gsub("10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", "10^%1")
  return (text:gsub("[\xC2-\xF4][\x80-\xBF]*", function(c) return plain[c] or "?" end))
end

return braille
