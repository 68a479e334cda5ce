--- A timeline for the terminal: a line per device, a few cells per pass with its letter and micro-batch: "F12--".
local check = require "tperf.base.check"
local palette = require "tperf.timeline.picture.palette"

local FILL = { F = "-", B = "=", D = "~", W = ":" }
local OPTIONS = { width = check.integer { min = 20, max = 100000, default = 100 } }

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

---@param t table         the timeline
---@param options? table  width: cells for the whole time (default 100)
---@return string
return function(t, options)
  local width = check.record("timeline:text", options or {}, OPTIONS).width
  local out, used = {}, {}
  out[1] = ("%s: %d devices, %d stages, %d micro-batches; makespan %s, bubble %.1f %%"):format(t.schedule, t.devices,
    t.stages, t.microbatches, t:show(t.makespan, "time"), 100 * t.bubble_rate)
  local digits, _, peaks = #tostring(t.devices), t:peaks()
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
  out[#out + 1] = table.concat(legend, "   ") .. "   . idle"
  return table.concat(out, "\n") .. "\n"
end
