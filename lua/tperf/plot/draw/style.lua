--- Colours, dashes and markers that stay distinguishable in greyscale and for colour-blind readers.
local sheet = require "tperf.output.sheet"

local style = {}

style.font = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
style.size = 12        -- px, of labels
style.title_size = 15

style.ink, style.soft, style.axis, style.grid, style.paper = "#1b1f24", "#59636e", "#59636e", "#e1e5e9", "#ffffff"

-- The colours in the dark of what follows the page (sheet.figures), by class.
local dark = sheet.dark
style.dark = { ["tp-paper"] = dark.paper, ["tp-ink"] = dark.ink, ["tp-soft"] = dark.soft, ["tp-axis"] = dark.soft,
  ["tp-grid"] = dark.line, ["tp-gap"] = dark.paper, ["tp-line"] = dark.ink }

-- Okabe and Ito's colours ("Color Universal Design", 2008) without black, invisible on dark pages, and yellow,
-- invisible on white ones. Neighbours differ in lightness too.
style.colors = { "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7f7f7f" }

-- Five dashes, seven colours and six markers: the first 210 series all look different.
style.dashes = { {}, { 7, 3 }, { 2, 2.5 }, { 9, 3, 2, 3 }, { 4, 2, 1.5, 2, 1.5, 2 } }
style.markers = { "circle", "square", "triangle", "diamond", "cross", "ring" }

local function turn(list, i) return list[(i - 1) % #list + 1] end

--- The look of the i-th series.
---@param i integer
---@return { color: string, dash: number[], marker: string }
function style.series(i)
  return { color = turn(style.colors, i), dash = turn(style.dashes, i), marker = turn(style.markers, i) }
end

-- Fills differ in lightness, and every second one is hatched.
local fills = { "#1f5a8a", "#f2b84b", "#4fae8d", "#b04a2f", "#a9d3ee", "#8a5a83", "#c9c9c9" }
local hatches = { false, "/", false, "\\", false, "/", "x" }

--- The look of the i-th part of a stacked bar; hatch: "/", "\\", "x" or false.
---@param i integer
---@return { color: string, hatch: string|false }
function style.fill(i)
  local round = (i - 1) // #fills
  return { color = turn(fills, i), hatch = turn(hatches, i + round * 3) }
end

-- From dark blue to pale yellow: lightness only rises, so the order survives greyscale, and blue against yellow
-- survives red-green blindness.
local ramp = { { 27, 36, 84 }, { 33, 82, 125 }, { 38, 128, 142 }, { 86, 171, 138 },
  { 166, 207, 128 }, { 243, 238, 158 } }

-- From blue over white to red, both ends equally dark: a sign, and a distance from the middle. Blue against red
-- survives red-green blindness; greyscale loses the sign, which the numbers in the cells and the colour bar keep.
local both = { { 27, 60, 120 }, { 74, 128, 185 }, { 158, 197, 226 }, { 247, 247, 247 }, { 246, 180, 140 },
  { 207, 92, 66 }, { 121, 22, 32 } }

local function between(list, t)
  local at = math.max(0.0, math.min(1.0, t)) * (#list - 1)
  local i = math.min(math.floor(at), #list - 2)
  local a, b, part = list[i + 1], list[i + 2], at - i
  local rgb = {}
  for c = 1, 3 do rgb[c] = math.floor(a[c] + (b[c] - a[c]) * part + 0.5) end
  return string.format("#%02x%02x%02x", rgb[1], rgb[2], rgb[3])
end

--- The colour at a position of the sequential scale.
---@param t number  0 (dark) to 1 (light)
---@return string
function style.ramp(t) return between(ramp, t) end

--- The colour at a position of the diverging scale.
---@param t number  0 (blue) over 0.5 (white) to 1 (red)
---@return string
function style.diverging(t) return between(both, t) end

--- Relative luminance of a colour, 0 (black) to 1 (white), as WCAG 2 defines it.
---@param color string  "#rrggbb"
---@return number
function style.luminance(color)
  local total = 0
  for i, weight in ipairs { 0.2126, 0.7152, 0.0722 } do
    local c = tonumber(color:sub(2 * i, 2 * i + 1), 16) / 255
    total = total + weight * (c <= 0.04045 and c / 12.92 or ((c + 0.055) / 1.055) ^ 2.4)
  end
  return total
end

--- Black or white, whichever contrasts more with a background colour.
function style.text_on(color)
  return style.luminance(color) > 0.3 and "#000000" or "#ffffff"
end

return style
