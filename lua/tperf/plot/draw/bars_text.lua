--- Bar charts as text: horizontal bars, one line per bar, or per part if grouped.
local braille = require "tperf.plot.draw.braille"
local format = require "tperf.output.format"
local terminal = require "tperf.output.terminal"

local blocks = { "█", "▒", "▓", "░", "▚", "▞", "▤" }
local letters = { "#", "=", "*", ":", "+", "o", "%" }

local function sum_of(plot, name)
  local sum = 0
  for _, part in ipairs(plot.parts) do sum = sum + (part.values[name] or 0) end
  return sum
end

-- The lines of the chart: { label, name, parts, value (as text), only (the part's number, if grouped) }.
local function lines_of(plot, gutter)
  local lines = {}
  for _, name in ipairs(plot.names) do
    local label = format.clip(format.printable(name), gutter)
    if plot.mode == "stacked" then
      local value = plot.value.unit == "%" and "" or format.number(sum_of(plot, name), plot.parts[1].unit)
      lines[#lines + 1] = { label = label, name = name, value = value, parts = plot.parts }
    else
      for k, part in ipairs(plot.parts) do
        local value = part.values[name]
        lines[#lines + 1] = { label = k == 1 and label or "", name = name, only = k, parts = { part },
          value = value and format.number(value, part.unit) or "" }
      end
    end
    local last = lines[#lines]
    for _, line in ipairs(plot.over) do
      local value = line.values[name]
      if value then
        last.value = (last.value ~= "" and last.value .. ", " or "") .. (line.title or "") .. " "
          .. format.number(value, line.unit)
      end
    end
  end
  return lines
end

---@param options { width: integer, height: integer, ascii: boolean, color: boolean }
---@param plot table  title, names, parts, over, mode, value
---@return string
return function(options, plot)
  local glyphs = options.ascii and letters or blocks
  local function glyph(k) return glyphs[(k - 1) % #glyphs + 1] end
  local gutter, widest, out = 0, 0, {}
  for _, name in ipairs(plot.names) do
    gutter = math.max(gutter, math.min(24, format.width(format.printable(name))))
  end
  local lines = lines_of(plot, gutter)
  for _, line in ipairs(lines) do widest = math.max(widest, format.width(line.value)) end
  local room = math.max(10, options.width - gutter - 3 - widest)
  if plot.title then out[1], out[2] = terminal.bold(format.printable(plot.title), options.color), "" end
  if plot.value.title ~= "" then out[#out + 1] = format.printable(plot.value.title) end
  local foot = plot.value.kind == "log" and 0 or plot.value.at(0)
  for _, line in ipairs(lines) do
    local bar, sum, drawn = {}, 0, 0
    for k, part in ipairs(line.parts) do
      local value = part.values[line.name]
      if value then
        sum = sum + math.abs(plot.value.at(value) - foot)
        -- Rounding the running sum, not each part, keeps the length of the whole bar exact.
        local stop = math.floor(sum * room + 0.5)
        bar[#bar + 1] = glyph(line.only or k):rep(stop - drawn)
        drawn = math.max(drawn, stop)
      end
    end
    out[#out + 1] = string.format("%s%s %s %s%s", (" "):rep(gutter - format.width(line.label)), line.label,
      options.ascii and "|" or "│", table.concat(bar), line.value ~= "" and " " .. line.value or "")
  end
  if #plot.parts > 1 then
    out[#out + 1] = ""
    for k, part in ipairs(plot.parts) do
      out[#out + 1] = "  " .. glyph(k) .. " " .. format.printable(part.title or "")
    end
  end
  local text = table.concat(out, "\n") .. "\n"
  return options.ascii and braille.to_ascii(text) or text
end
