--- The frame around the data: title, axes with ticks and units, grid, labels beside the data.
local canvas = require "tperf.plot.draw.canvas"
local style = require "tperf.plot.draw.style"

local axes = {}

local LINE <const>, TITLE_LINE <const>, NAME_LINE <const> = 17, 18, 14 -- px between lines of text
local ENTRY <const> = 15   -- px between entries of a legend beside the data
local NARROW <const> = 480 -- px: on a narrower page the legend goes above the data
local BESIDE <const> = 0.3 -- of the page's width: the most that a legend beside the data takes
local LEAST <const> = 150  -- px, of the data's height
local SLANT <const> = 37   -- degrees
local SIN <const>, COS <const> = math.sin(math.rad(SLANT)), math.cos(math.rad(SLANT))
local LONGEST_NAME <const> = 260 -- px

-- The step n at which every n-th tick can be labelled without labels touching.
local function labelled(ticks, sizes, room, scale)
  local step = 1
  while step < #ticks do
    local clear, last = true, -math.huge
    for i = 1, #ticks, step do
      local position = scale.at(ticks[i].value) * room
      if position - sizes[i] / 2 < last then
        clear = false
        break
      end
      last = position + sizes[i] / 2 + 6
    end
    if clear then break end
    step = step + 1
  end
  return step
end

local function widths(ticks, limit)
  local list, widest = {}, 0
  for i, tick in ipairs(ticks) do
    list[i] = math.min(limit or math.huge, canvas.text_width(tick.label))
    widest = math.max(widest, list[i])
  end
  return list, widest
end

-- A subtitle as one line or two, broken after a clause (";") if the rest then fits, else between words; on a narrow
-- page as up to five. The last line is truncated if it is too long.
local function lines_of(text, width)
  if canvas.text_width(text) <= width then return { text } end
  local lines, most = canvas.wrap(text, width), width < NARROW and 5 or 2
  if #lines == 2 then
    local clause, rest = text:match "^(.*;)%s+(.*)$"
    if clause and canvas.text_width(clause) <= width and canvas.text_width(rest) <= width then
      return { clause, rest }
    end
  end
  if #lines > most then
    local rest = text
    for _ = 1, most - 1 do rest = rest:sub(#canvas.wrap(rest, width)[1] + 1):match "^%s*(.*)$" end
    lines = table.move(lines, 1, most - 1, 1, {})
    lines[most] = rest
  end
  for i, line in ipairs(lines) do lines[i] = canvas.fit(line, width) end
  return lines
end

-- A heading as lines, the last truncated.
local function heading(text, width, size, most)
  local lines = canvas.wrap(text, width, size)
  if #lines > most then
    lines[most] = table.concat(lines, " ", most)
    for i = #lines, most + 1, -1 do lines[i] = nil end
  end
  for i, line in ipairs(lines) do lines[i] = canvas.fit(line, width, size) end
  return lines
end

-- The texts above the data, and the height that they need.
local function above(plot, box)
  local room = plot.width - 24
  box.title = plot.title and heading(plot.title, room, (plot.title_size or style.title_size) * 1.08, 3) or {}
  box.subtitle = plot.subtitle and lines_of(plot.subtitle, room) or {}
  local right = plot.right_title or plot.y2 and plot.y2.title or ""
  local left_width, right_width = canvas.text_width(plot.y.title), canvas.text_width(right)
  local together = left_width + right_width + (right ~= "" and 20 or 0) <= room
  box.y_title = plot.y.title ~= "" and heading(plot.y.title, room, nil, 3) or {}
  box.right_title = right ~= "" and heading(right, room, nil, 3) or {}
  local top = 14
  if plot.title then top = top + 20 + (#box.title - 1) * TITLE_LINE end
  if plot.subtitle then top = top + #box.subtitle * LINE + 3 end
  if box.legend_rows then
    box.legend_at = top
    top = top + #box.legend_rows * LINE + 4
  end
  box.headings_at = top
  if #box.y_title + #box.right_title > 0 then
    box.apart = not together
    local lines = together and 1 or #box.y_title + #box.right_title
    top = top + lines * LINE + 4
  end
  if plot.x2 then top = top + 2 * LINE end
  return top
end

local KEY <const>, AFTER_KEY <const>, BETWEEN <const> = 26, 6, 16 -- px of a legend's sample, and around its text

-- The rows of a legend that lies above or below the data: { { x, entry } … }, broken where the page ends. An entry too
-- long for a row is wrapped.
local function legend_rows(plot)
  local rows, row, x = {}, nil, nil
  local left, stop = 12, plot.width - 12
  local function start()
    row, x = {}, left
    rows[#rows + 1] = row
  end
  start()
  if plot.legend_title then
    row[1] = { x = x, text = plot.legend_title, bold = true }
    x = x + canvas.text_width(plot.legend_title) * 1.08 + BETWEEN
  end
  for _, entry in ipairs(plot.entries) do
    local lines = canvas.wrap(entry.text, stop - left - KEY - AFTER_KEY)
    local widest = 0
    for _, line in ipairs(lines) do widest = math.max(widest, canvas.text_width(line)) end
    if x > left and x + KEY + AFTER_KEY + widest > stop then start() end
    for i, line in ipairs(lines) do
      if i > 1 then
        local at = x
        start()
        x = at
      end
      row[#row + 1] = { x = x, text = line, entry = i == 1 and entry or nil, of = entry, indent = KEY + AFTER_KEY }
    end
    x = x + KEY + AFTER_KEY + widest + BETWEEN
  end
  return rows
end

-- Where the legend goes: where the plot says, or beside the data if its texts are short and the page is wide.
local function legend_position(plot)
  if not plot.entries or #plot.entries == 0 or plot.legend == "none" then return "none" end
  if plot.legend then return plot.legend end
  local _, widest = 0, 0
  for _, entry in ipairs(plot.entries) do widest = math.max(widest, canvas.text_width(entry.text)) end
  return plot.width >= NARROW and widest <= BESIDE * plot.width and "right" or "top"
end

-- Sets the room that a legend beside the data needs.
local function legend_beside(plot, box)
  local widest = plot.legend_title and canvas.text_width(plot.legend_title) * 1.08 - KEY - AFTER_KEY or 0
  for _, entry in ipairs(plot.entries) do widest = math.max(widest, canvas.text_width(entry.text)) end
  box.label_room = math.min(widest, BESIDE * plot.width) + 1
  return box.label_room + KEY + AFTER_KEY + 10
end

-- How the names below the data are written: side by side, each on several lines if that suffices, else slanted, the
-- longest upright. Sets x.names: { lines = …, height, angle? } and widens the margin on the left for the first ones.
local function name_axis(plot, box)
  local x, n = plot.x, #plot.x.ticks
  local band = box.width / math.max(1, n)
  local labels, lines, most, fits = {}, {}, 1, true
  for i, tick in ipairs(x.ticks) do
    labels[i] = tick.label
    local own, whole = canvas.wrap(tick.label, band - 6)
    lines[i], most, fits = own, math.max(most, #own), fits and whole
  end
  if fits and most <= 3 then
    x.names = { lines = lines, height = most * NAME_LINE + 3 }
    return
  end
  labels = canvas.fit_all(labels, math.max(150, math.min(LONGEST_NAME, 0.6 * plot.width)))
  local widest, reach = 0, 0
  for i, label in ipairs(labels) do
    local w = canvas.text_width(label)
    widest, reach = math.max(widest, w), math.max(reach, COS * w - (i - 0.5) * band - box.left + 4)
  end
  local upright = reach > 0.22 * plot.width or band < 14
  if not upright and reach > 0 then
    box.left = box.left + reach
    box.width = plot.width - box.left - box.right
  end
  x.names = { slanted = labels, angle = upright and -90 or -SLANT, height = (upright and widest or SIN * widest) + 12 }
end

-- The room at the right that the last label of an axis of numbers needs beyond the data.
local function overhang(ticks, scale, box)
  local most = 0
  for _, tick in ipairs(ticks) do
    local right = scale.at(tick.value) * box.width + canvas.text_width(tick.label) / 2
    most = math.max(most, right - box.width - box.right + 3)
  end
  return most
end

--- Places the frame's parts.
---@param plot table  width, height, x, y, y2?, x2? (scales with .title), title, subtitle, entries? (of the legend:
---  { text, title?, class?, color?, key = function(c, x, y) draws a sample 26 px wide }), legend?, legend_title?,
---  right? (px for what else is beside the data), right_title? (above it), margins? (minimum left and right); receives
---  measured, the resulting margins
---@return table box  left, top, width, height of the data's area; the lines of the texts around it
function axes.layout(plot)
  local box = { left = 12, right = 16, bottom = 12 }
  box.legend = legend_position(plot)
  if box.legend == "top" or box.legend == "bottom" then box.legend_rows = legend_rows(plot) end
  local below = box.legend == "bottom" and box.legend_rows
  if below then box.legend_rows = nil end
  box.top = above(plot, box)
  if below then
    box.legend_rows = below
    box.bottom = box.bottom + #below * LINE + 2
  end
  local _, widest = widths(plot.y.ticks, plot.y.kind == "band" and math.min(LONGEST_NAME, 0.4 * plot.width) or 180)
  box.left = box.left + widest + 8
  if plot.y2 then
    _, widest = widths(plot.y2.ticks)
    box.right = box.right + widest + 4
  end
  box.labels_at = box.right -- from the data's right edge, once the width is known
  local beside = box.legend == "right" and legend_beside(plot, box) + (plot.y2 and 10 or 0)
  box.right = box.right + (beside or plot.right or 0)
  if plot.margins then
    box.left, box.right = math.max(box.left, plot.margins.left), math.max(box.right, plot.margins.right)
  end
  box.width = plot.width - box.left - box.right
  if plot.x.kind == "band" then
    name_axis(plot, box)
  else
    local more = overhang(plot.x.ticks, plot.x, box)
    box.right, box.width = box.right + more, box.width - more
  end
  box.x_title = plot.x.title ~= "" and heading(plot.x.title, plot.width - 24, nil, 3) or {}
  box.below = box.bottom
  box.bottom = box.bottom + (plot.x.names and plot.x.names.height or LINE)
    + (#box.x_title > 0 and #box.x_title * LINE + 2 or 0)
  box.height = plot.height - box.top - box.bottom
  plot.measured = { left = box.left, right = box.right }
  box.labels_at = box.left + box.width + (plot.y2 and box.labels_at - 4 + 10 or 12)
  return box
end

--- Makes a plot as high as its data and a legend beside them need, whatever the texts around them take.
---@param plot table  as for axes.layout
---@param least? number  px, of the data's area
function axes.make_room(plot, least)
  local box = axes.layout(plot)
  least = math.max(least or 0, math.min(LEAST, 0.4 * plot.height))
  if box.legend == "right" then
    least = math.max(least, ENTRY * (#plot.entries + (plot.legend_title and 1 or 0)) - 8)
  end
  plot.height = plot.height + math.max(0, least - box.height)
end

local function draw_name(c, names, i, at, bottom, tick)
  if names.lines then
    for k, line in ipairs(names.lines[i]) do
      c:text(at, bottom + LINE + (k - 1) * NAME_LINE, line, { anchor = "middle", title = k == 1 and tick.label or nil })
    end
  elseif names.angle == -90 then
    c:text(at + 4, bottom + 7, names.slanted[i], { anchor = "end", rotate = -90, title = tick.label })
  else
    c:text(at + 4, bottom + 14, names.slanted[i], { anchor = "end", rotate = names.angle, title = tick.label })
  end
end

local function x_axis(c, box, x, page)
  local bottom = box.top + box.height
  local step = 1
  if x.names and x.names.slanted then
    step = math.max(1, math.ceil(#x.ticks * (x.names.angle == -90 and 13 or 20) / box.width))
  elseif not x.names then
    step = labelled(x.ticks, widths(x.ticks), box.width, x)
  end
  for i, tick in ipairs(x.ticks) do
    local at = box.left + x.at(tick.value) * box.width
    if x.kind ~= "band" and not x.bare then
      c:line({ at, box.top, at, bottom }, { class = "tp-grid", color = style.grid })
    end
    if x.kind ~= "band" then c:line({ at, bottom, at, bottom + 4 }, { class = "tp-axis", color = style.axis }) end
    if (i - 1) % step == 0 then
      if x.names then draw_name(c, x.names, i, at, bottom, tick) else
        c:text(at, bottom + LINE, tick.label, { anchor = "middle" })
      end
    end
  end
  for _, tick in ipairs(x.minor) do
    local at = box.left + x.at(tick.value) * box.width
    c:line({ at, bottom, at, bottom + 2.5 }, { class = "tp-axis", color = style.axis })
  end
  c:line({ box.left, bottom, box.left + box.width, bottom }, { class = "tp-axis", color = style.axis })
  for i, line in ipairs(box.x_title) do
    local half = canvas.text_width(line) / 2
    local middle = math.max(12 + half, math.min(box.left + box.width / 2, page.width - 12 - half))
    c:text(middle, page.height - box.below + 2 - (#box.x_title - i) * LINE, line, { anchor = "middle" })
  end
end

-- The names beside an axis of names, on as many lines as their bands have room for; the others' text on one.
local function lines_beside(y, limit, band)
  local list, cut = {}, {}
  for i, tick in ipairs(y.ticks) do
    local lines, fits = { tick.label }, canvas.text_width(tick.label) <= limit
    if not fits and y.kind == "band" then lines, fits = canvas.wrap(tick.label, limit) end
    list[i] = fits and #lines * NAME_LINE <= math.max(band, NAME_LINE) and lines or false
    cut[i] = tick.label
  end
  cut = canvas.fit_all(cut, limit)
  for i in ipairs(list) do list[i] = list[i] or { cut[i] } end
  return list
end

local function y_axis(c, box, y, side)
  local edge, sign = box.left, -1
  if side == "right" then edge, sign = box.left + box.width, 1 end
  local step = math.max(1, math.ceil(#y.ticks * 15 / box.height))
  local band = box.height / math.max(1, #y.ticks)
  local names = lines_beside(y, side == "left" and box.left - 18 or 180, band)
  for i, tick in ipairs(y.ticks) do
    local at = box.top + (1 - y.at(tick.value)) * box.height
    if side == "left" and y.kind ~= "band" and not y.bare then
      c:line({ box.left, at, box.left + box.width, at }, { class = "tp-grid", color = style.grid })
    end
    if side == "right" or y.bare then
      c:line({ edge, at, edge + sign * 4, at }, { class = "tp-axis", color = style.axis })
    end
    if (i - 1) % step == 0 then
      for k, line in ipairs(names[i]) do
        c:text(edge + sign * 7, at + 4 + (k - 0.5 - #names[i] / 2) * NAME_LINE, line,
          { anchor = side == "left" and "end" or "start", title = line ~= tick.label and k == 1 and tick.label or nil })
      end
    end
  end
  for _, tick in ipairs(y.minor) do
    local at = box.top + (1 - y.at(tick.value)) * box.height
    c:line({ edge, at, edge + sign * 2.5, at }, { class = "tp-axis", color = style.axis })
  end
  if side == "right" then
    c:line({ edge, box.top, edge, box.top + box.height }, { class = "tp-axis", color = style.axis })
  end
end

local function top_axis(c, box, x2)
  for i, tick in ipairs(x2.ticks) do
    local at = box.left + x2.at(tick.value) * box.width
    c:line({ at, box.top - 4, at, box.top }, { class = "tp-axis", color = style.axis })
    if (i - 1) % labelled(x2.ticks, widths(x2.ticks), box.width, x2) == 0 then
      c:text(at, box.top - 8, tick.label, { anchor = "middle" })
    end
  end
  c:line({ box.left, box.top, box.left + box.width, box.top }, { class = "tp-axis", color = style.axis })
  c:text(box.left + box.width / 2, box.top - 8 - LINE, x2.title, { anchor = "middle" })
end

local function draw_rows(c, plot, box)
  local y = box.legend == "top" and box.legend_at + 8 or plot.height - 14 - (#box.legend_rows - 1) * LINE
  for _, row in ipairs(box.legend_rows) do
    for _, part in ipairs(row) do
      if part.entry then part.entry.key(c, part.x, y - 4) end
      local of = part.of or {}
      c:text(part.x + (part.indent or 0), y, part.text, { title = part.entry and (of.title or of.text) or nil,
        class = of.class or part.bold and "tp-soft" or nil, color = of.color or part.bold and style.soft or nil,
        bold = part.bold })
    end
    y = y + LINE
  end
end

--- The texts and the legend above a figure of several plots.
---@param plot table  width, title?, subtitle?, entries?, legend?, legend_title?, y = { title = "" }
---@return table box  for axes.draw_top; height: what they take
function axes.top(plot)
  local box = { legend = legend_position(plot) }
  if box.legend == "right" then box.legend = "top" end
  if box.legend ~= "none" then box.legend_rows = legend_rows(plot) end
  local below = box.legend == "bottom" and box.legend_rows or nil
  if below then box.legend_rows = nil end
  box.height = above(plot, box)
  box.legend_rows = box.legend_rows or below
  box.below = below and #below * LINE + 2 or 0
  return box
end

--- Draws the title, the subtitle, the headings of the axes and the legend unless it is beside the data.
---@param c tperf.Canvas
---@param plot table  as for axes.layout
---@param box table   as returned by axes.layout or axes.top
function axes.draw_top(c, plot, box)
  local y = 22
  for i, line in ipairs(box.title) do
    c:text(12, y, line, { size = plot.title_size or style.title_size, bold = true,
      title = i == 1 and plot.title or nil })
    y = y + TITLE_LINE
  end
  y = plot.title and y - TITLE_LINE + 12 or 14
  for i, line in ipairs(box.subtitle) do
    c:text(12, y + 5, line, { class = "tp-soft", color = style.soft })
    y = y + LINE + (i == #box.subtitle and 3 or 0)
  end
  y = box.headings_at + 6
  for _, line in ipairs(box.y_title) do
    c:text(12, y, line, { class = "tp-soft", color = style.soft })
    if box.apart then y = y + LINE end
  end
  for _, line in ipairs(box.right_title) do
    local half = canvas.text_width(line) / 2
    local middle = plot.y2 and math.min(box.left + box.width, plot.width - 12 - half) or plot.width - 12 - half
    if not box.apart then middle = math.max(middle, 12 + canvas.text_width(plot.y.title) + 16 + half) end
    c:text(middle, y, line, { class = "tp-soft", color = style.soft, anchor = "middle" })
    y = y + LINE
  end
  if box.legend_rows then draw_rows(c, plot, box) end
end

--- Draws everything except the data and a legend beside them.
---@param c tperf.Canvas
---@param plot table  as for axes.layout
---@param box table   as returned by axes.layout
function axes.draw(c, plot, box)
  axes.draw_top(c, plot, box)
  y_axis(c, box, plot.y, "left")
  if plot.y2 then y_axis(c, box, plot.y2, "right") end
  x_axis(c, box, plot.x, plot)
  if plot.x2 then top_axis(c, box, plot.x2) end
end

--- Sets the widest margins of any plot on all of them, so that their data areas line up.
---@param plots table[]
function axes.align(plots)
  local left, right = 0, 0
  for _, part in ipairs(plots) do
    part.draw(canvas.new(part.width, part.height))
    local zoom = part.zoom or 1
    if part.measured then
      left, right = math.max(left, part.measured.left * zoom), math.max(right, part.measured.right * zoom)
    end
  end
  for _, part in ipairs(plots) do
    local zoom = part.zoom or 1
    part.margins = { left = left / zoom, right = right / zoom }
  end
end

--- Spreads labels vertically: moves them as little as possible from the heights wanted, keeps their order and a
--- gap between them, and stays within lo … hi.
---@param wanted number[]
---@param gap number
---@return number[]
function axes.spread(wanted, gap, lo, hi)
  local order, positions = {}, {}
  for i = 1, #wanted do order[i] = i end
  table.sort(order, function(a, b)
    if wanted[a] ~= wanted[b] then return wanted[a] < wanted[b] end
    return a < b
  end)
  -- Blocks of touching labels, each at the mean of its members' wanted heights (pool adjacent violators).
  local blocks = {}
  for _, i in ipairs(order) do
    local block = { sum = wanted[i], size = 1 }
    while #blocks > 0 do
      local last = blocks[#blocks]
      local space = gap * (last.size + block.size) / 2
      if block.sum / block.size - last.sum / last.size >= space then break end
      block = { sum = last.sum + block.sum, size = last.size + block.size }
      blocks[#blocks] = nil
    end
    blocks[#blocks + 1] = block
  end
  local k, floor = 0, lo
  for b, block in ipairs(blocks) do
    local below = 0
    for later = b, #blocks do below = below + blocks[later].size end
    local first = block.sum / block.size - gap * (block.size - 1) / 2
    first = math.max(floor, math.min(first, hi - gap * (below - 1)))
    for j = 1, block.size do
      k = k + 1
      positions[order[k]] = first + gap * (j - 1)
    end
    floor = first + gap * block.size
  end
  return positions
end

--- Draws a legend beside the data, each entry as near as the others allow to the height of what it names: entry.y,
--- or, without one, from the top on.
function axes.side_labels(c, plot, box)
  if box.legend ~= "right" then return end
  local wanted, shown, top = {}, {}, box.top + 4
  if plot.legend_title then
    c:text(box.labels_at, top, plot.legend_title, { class = "tp-soft", color = style.soft, bold = true })
    top = top + ENTRY + 2
  end
  for _, entry in ipairs(plot.entries) do
    if entry.y ~= false then
      shown[#shown + 1] = entry
      wanted[#shown] = plot.legend_title and top + ENTRY * (#shown - 1) or entry.y or top
    end
  end
  local positions = axes.spread(wanted, ENTRY, top, box.top + box.height + 8)
  for i, entry in ipairs(shown) do
    entry.key(c, box.labels_at, positions[i])
    c:text(box.labels_at + KEY + AFTER_KEY, positions[i] + 4, canvas.fit(entry.text, box.label_room, nil, true),
      { title = entry.title or entry.text, class = entry.class, color = entry.color })
  end
end

return axes
