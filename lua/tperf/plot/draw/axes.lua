--- The frame around the data: title, axes with ticks and units, grid, labels beside the data.
local canvas = require "tperf.plot.draw.canvas"
local style = require "tperf.plot.draw.style"

local axes = {}

local LINE = 17 -- px between lines of text

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

-- A text as one line or two, broken after a clause (";") if the rest then fits, else between words; the second line is
-- truncated if it is too long.
local function lines_of(text, width)
  if canvas.text_width(text) <= width then return { text } end
  local first, rest, clause, after_clause = "", text, nil, nil
  for word, after in text:gmatch "(%S+)%s*()" do
    local longer = first == "" and word or first .. " " .. word
    if canvas.text_width(longer) > width then break end
    first, rest = longer, text:sub(after)
    if word:sub(-1) == ";" then clause, after_clause = first, rest end
  end
  if clause and canvas.text_width(after_clause) <= width then return { clause, after_clause } end
  return first == "" and { canvas.fit(text, width) } or { first, canvas.fit(rest, width) }
end

--- Places the frame's parts.
---@param plot table  width, height, x, y, y2?, x2? (scales with .title), title, subtitle, right (px for labels beside
---  the data), margins? (minimum left and right); receives measured, the resulting margins
---@return table box  left, top, width, height of the data's area; subtitle: its lines
function axes.layout(plot)
  local box = { left = 12, top = 14, right = 16, bottom = 12 }
  box.subtitle = plot.subtitle and lines_of(plot.subtitle, plot.width - 24) or {}
  if plot.title then box.top = box.top + 20 end
  if plot.subtitle then box.top = box.top + #box.subtitle * LINE + 3 end
  if plot.y.title ~= "" or plot.y2 and plot.y2.title ~= "" then box.top = box.top + LINE + 4 end
  if plot.x2 then box.top = box.top + 2 * LINE end
  local _, widest = widths(plot.y.ticks, 180)
  box.left = box.left + widest + 8
  if plot.y2 then
    _, widest = widths(plot.y2.ticks)
    box.right = box.right + widest + 4
  end
  box.labels_at = box.right -- from the data's right edge, once the width is known
  box.right = box.right + (plot.right or 0)
  if plot.margins then
    box.left, box.right = math.max(box.left, plot.margins.left), math.max(box.right, plot.margins.right)
  end
  box.bottom = box.bottom + LINE + (plot.x.title ~= "" and LINE + 2 or 0)
  box.width = plot.width - box.left - box.right
  local sizes, limit = widths(plot.x.ticks, 150)
  if plot.x.kind == "band" and limit + 6 > box.width / math.max(1, #sizes) then
    -- Names too long to stand side by side are slanted; the first may reach as far left as the page's edge.
    plot.x.lean = true
    box.bottom = box.bottom + 0.6 * limit - 2
    box.left = math.max(box.left, 12 + 0.8 * sizes[1] - box.width / #sizes / 2)
    box.width = plot.width - box.left - box.right
  end
  box.height = plot.height - box.top - box.bottom
  plot.measured = { left = box.left, right = box.right }
  box.labels_at = box.left + box.width + (plot.y2 and box.labels_at - 4 or 12)
  return box
end

local function x_axis(c, box, x)
  local bottom = box.top + box.height
  local sizes = widths(x.ticks)
  local step = x.lean and math.max(1, math.ceil(#x.ticks * 20 / box.width))
    or labelled(x.ticks, sizes, box.width, x)
  for i, tick in ipairs(x.ticks) do
    local at = box.left + x.at(tick.value) * box.width
    if x.kind ~= "band" and not x.bare then
      c:line({ at, box.top, at, bottom }, { class = "tp-grid", color = style.grid })
    end
    if x.kind ~= "band" then c:line({ at, bottom, at, bottom + 4 }, { class = "tp-axis", color = style.axis }) end
    if (i - 1) % step == 0 then
      if x.lean then
        c:text(at + 4, bottom + 14, canvas.fit(tick.label, 150, nil, true),
          { anchor = "end", rotate = -37, title = tick.label })
      else
        c:text(at, bottom + LINE, tick.label, { anchor = "middle" })
      end
    end
  end
  for _, tick in ipairs(x.minor) do
    local at = box.left + x.at(tick.value) * box.width
    c:line({ at, bottom, at, bottom + 2.5 }, { class = "tp-axis", color = style.axis })
  end
  c:line({ box.left, bottom, box.left + box.width, bottom }, { class = "tp-axis", color = style.axis })
  c:text(box.left + box.width / 2, c.frame_height - 10, canvas.fit(x.title, box.width), { anchor = "middle" })
end

local function y_axis(c, box, y, side)
  local edge, sign = box.left, -1
  if side == "right" then edge, sign = box.left + box.width, 1 end
  local step = math.max(1, math.ceil(#y.ticks * 15 / box.height))
  for i, tick in ipairs(y.ticks) do
    local at = box.top + (1 - y.at(tick.value)) * box.height
    if side == "left" and y.kind ~= "band" and not y.bare then
      c:line({ box.left, at, box.left + box.width, at }, { class = "tp-grid", color = style.grid })
    end
    if side == "right" or y.bare then
      c:line({ edge, at, edge + sign * 4, at }, { class = "tp-axis", color = style.axis })
    end
    if (i - 1) % step == 0 then
      c:text(edge + sign * 7, at + 4, canvas.fit(tick.label, 180, nil, true),
        { anchor = side == "left" and "end" or "start" })
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

--- Draws everything except the data.
---@param c tperf.Canvas
---@param plot table  as for axes.layout
---@param box table   as returned by axes.layout
function axes.draw(c, plot, box)
  c.frame_height = plot.height
  local y = 14
  if plot.title then
    y = y + 8
    c:text(12, y, canvas.fit(plot.title, plot.width - 24, style.title_size * 1.08),
      { size = style.title_size, bold = true, title = plot.title })
    y = y + 12
  end
  for i, line in ipairs(box.subtitle) do
    c:text(12, y + 5, line, { class = "tp-soft", color = style.soft })
    y = y + LINE + (i == #box.subtitle and 3 or 0)
  end
  c:text(12, y + 6, canvas.fit(plot.y.title, plot.width * 0.6), { class = "tp-soft", color = style.soft })
  if plot.y2 then
    c:text(box.left + box.width, y + 6, plot.y2.title, { class = "tp-soft", color = style.soft, anchor = "middle" })
  end
  y_axis(c, box, plot.y, "left")
  if plot.y2 then y_axis(c, box, plot.y2, "right") end
  x_axis(c, box, plot.x)
  if plot.x2 then top_axis(c, box, plot.x2) end
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

--- Draws labels to the right of the data, each as near to its wanted height as the others allow.
--- labels: { y, text, key = function(c, x, y) draws a sample 26 px wide }
function axes.side_labels(c, box, labels)
  local wanted = {}
  for i, label in ipairs(labels) do wanted[i] = label.y end
  local positions = axes.spread(wanted, 15, box.top + 4, box.top + box.height + 8)
  for i, label in ipairs(labels) do
    label.key(c, box.labels_at, positions[i])
    c:text(box.labels_at + 32, positions[i] + 4, canvas.fit(label.text, box.label_room, nil, true),
      { title = label.title or label.text, class = label.class, color = label.color })
  end
end

--- The width in px that labels beside the data need, capped at a share of the plot's width.
function axes.label_room(texts, width)
  local widest = 0
  for _, text in ipairs(texts) do widest = math.max(widest, canvas.text_width(text)) end
  return math.min(widest, 0.3 * width)
end

return axes
