--- A timeline for the terminal: a line per device, a few cells per pass with its letter and micro-batch: "F12--".
local check = require "tperf.base.check"
local palette = require "tperf.timeline.picture.palette"
local wrap = require "tperf.base.wrap"

local FILL = { F = "-", B = "=", D = "~", W = ":" }
local OPTIONS = { width = check.integer { min = 20, max = 100000, optional = true },
  columns = check.integer { min = 40, max = 100000, optional = true } }
local CELLS <const> = 100

local function round(x) return math.floor(x + 0.5) end

-- The cells of a device's line; an overlapped pair shares its cells: "F12+B7".
local function line(t, d, width)
  local cells, scale, used, label = {}, width / t.makespan, {}, nil
  for _, op in t:queue(d) do
    local letter = palette.letter[op.type]
    used[letter] = true
    local text = letter .. op.microbatch
    label = op.overlapped == "backward" and label .. "+" .. text or text
    if op.overlapped ~= "forward" then
      local from, to = round(op.start * scale), round(op.stop * scale)
      for i = 1, to - from do
        cells[from + i] = i <= #label and label:sub(i, i) or FILL[letter]
      end
    end
  end
  for i = 1, width do cells[i] = cells[i] or "." end
  return table.concat(cells, "", 1, width), used
end

-- The cells of passes of the schedule's own kinds: the name of the kind, cut or filled.
local function own_line(t, passes, width)
  local cells, scale = {}, width / t.makespan
  for _, pass in ipairs(passes) do
    local from, to = round(pass.start * scale), round(pass.stop * scale)
    local label = pass.kind .. (pass.microbatch or "")
    for i = 1, to - from do cells[from + i] = i <= #label and label:sub(i, i) or "*" end
  end
  for i = 1, width do cells[i] = cells[i] or "." end
  return table.concat(cells, "", 1, width)
end

-- The cells for the whole time, in lines of so many columns.
local function cells_in(t, columns, digits, peaks)
  local longest = 0
  for d, peak in ipairs(peaks) do
    longest = math.max(longest, #peak)
    for _, lane in ipairs(t:own_lanes(d)) do longest = math.max(longest, #lane.name) end
  end
  return math.max(columns - (#"device  |" + digits) - (#"| " + longest), 10)
end

---@param t table         the timeline
---@param options? table  width: cells for the whole time (default 100), or columns: the longest line, names included
---@return string
return function(t, options)
  local o = check.record("timeline:text", options or {}, OPTIONS)
  local out, used = {}, {}
  local digits, _, peaks = #tostring(t.devices), t:peaks()
  local width = o.width or o.columns and cells_in(t, o.columns, digits, peaks) or CELLS
  local head = ("%s: %s, %s, %s; makespan %s, bubble %.1f %%"):format(t:title(), t:count "device",
    t:count "stage", t:count "micro-batch", t:show(t.makespan, "time"), 100 * t.bubble_rate)
  out[1] = table.concat(wrap(head, o.columns or math.huge, "  "), "\n")
  for d = 1, t.devices do
    local text, letters = line(t, d, width)
    for letter in pairs(letters) do used[letter] = true end
    out[#out + 1] = ("device %" .. digits .. "d |%s| %s"):format(d, text, peaks[d])
    for _, lane in ipairs(t:own_lanes(d)) do
      out[#out + 1] = ("%" .. 7 + digits .. "s |%s| %s"):format("", own_line(t, lane, width), lane.name)
    end
  end
  local legend = {}
  for _, pass in ipairs(t.PASSES) do
    if used[palette.letter[pass]] then
      legend[#legend + 1] = palette.letter[pass] .. FILL[palette.letter[pass]] .. " " .. palette.name[pass]
    end
  end
  legend[#legend + 1] = ". idle"
  local keys = table.concat(legend, "   ")
  out[#out + 1] = #keys > (o.columns or math.huge) and table.concat(legend, "\n") or keys
  return table.concat(out, "\n") .. "\n"
end
