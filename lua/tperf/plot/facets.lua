--- Small multiples: one plot for each value of a field, on the same axes.
local argument = require "tperf.base.entry.argument"
local axes = require "tperf.plot.draw.axes"
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local map = require "tperf.plot.map"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"

local WHAT <const> = "plot.facets"
local MOST <const> = 64 -- plots
local TITLE <const> = 13 -- px

local schema = {
  rows = check.any {},
  by = rows.field,
  draw = check.func {},
  columns = check.integer { min = 1, max = 12, optional = true },
  share = check.choice { { "both", "x", "y", "none" }, default = "both" },
  title = figure.common.title, subtitle = figure.common.subtitle, width = figure.common.width,
  height = figure.length { min = 160, max = 8000, example = '"4 in"' },
  font = figure.common.font, font_size = figure.common.font_size,
  legend = check.choice { { "top", "bottom", "none" }, optional = true },
  legend_title = figure.common.legend_title,
}

-- The plots, one for each value of the field.
local function parts_of(o, by)
  local parts = {}
  for i, group in ipairs(rows.groups(WHAT, o.rows, by)) do
    if i > MOST then check.fail("%s: '%s' has more than %d values", WHAT, by.title or "by", MOST) end
    local own = { units = o.rows.units }
    for k, r in ipairs(group.rows) do own[k] = o.rows[r] end
    local part = o.draw(own, group.name)
    if not figure.is(part) then
      check.fail("%s: 'draw' must return a plot, got %s for '%s'", WHAT, check.show(part), group.name)
    end
    if not part.series and not part.parts and not part.values then
      check.fail("%s: 'draw' returned %s, which has no axes or colours to share; plot.panels stacks such plots", WHAT,
        part.what)
    end
    if parts[1] and part.what ~= parts[1].what then
      check.fail("%s: 'draw' must return plots of one kind, got %s and %s", WHAT, parts[1].what, part.what)
    end
    parts[i], part.facet = part, group.name
  end
  return parts
end

-- Gives all plots one scale along an axis, unless theirs are of several kinds.
local function join(parts, axis)
  local list, kind = {}, parts[1][axis] and parts[1][axis].kind
  for i, part in ipairs(parts) do
    list[i] = part[axis]
    local s = part[axis]
    if not s or (s.kind == "band") ~= (kind == "band") or kind ~= "band" and not s.again then return end
  end
  local joined = scale.joined(list)
  joined.title = joined.title or list[1].title
  for i, part in ipairs(parts) do
    if part.category == list[i] then part.category = joined end
    if part.value == list[i] then part.value = joined end
    part[axis] = joined
  end
end

-- Gives a series, or a part of bars, the same look wherever its name is the same. Returns one entry of the legend each.
local function join_looks(parts)
  local number, count, entries = {}, 0, {}
  for _, part in ipairs(parts) do
    for k, one in ipairs(part.series or part.parts or {}) do
      local name = one.name or one.title or k
      if not number[name] and not one.fixed then count, number[name] = count + 1, count + 1 end
      if part.parts then one.fill = number[name] elseif one.look and one.name and not one.fixed then
        one.look = style.series(number[name])
      end
    end
  end
  local seen = {}
  for _, part in ipairs(parts) do
    for _, entry in ipairs(part.entries or {}) do
      if not seen[entry.text] then seen[entry.text], entries[#entries + 1] = true, entry end
    end
  end
  return entries
end

-- Gives all maps one range of values. Returns their bar, with its title and the room that it takes; nil: they are no
-- maps.
local function join_values(parts)
  if not parts[1].values then return nil end
  local lo, hi, missing = math.huge, -math.huge, false
  for _, part in ipairs(parts) do
    local range = part.values.range
    lo, hi, missing = math.min(lo, range.lo), math.max(hi, range.hi), missing or range.missing > 0
  end
  local bar
  for _, part in ipairs(parts) do bar = part.values.set(lo, hi, missing) end
  return { bar = bar, title = bar.title, room = bar.width + 40 }
end

-- The label that all plots have along an axis, which the figure then writes once; else nil.
local function common_title(parts, axis)
  local title = parts[1][axis].title
  for _, part in ipairs(parts) do
    if part[axis].title ~= title then return "" end
  end
  for _, part in ipairs(parts) do part[axis].title = "" end
  return title
end

local function draw(c, plot, parts)
  local box = axes.top(plot)
  axes.draw_top(c, plot, box)
  axes.align(parts)
  for i, part in ipairs(parts) do
    local column, line = (i - 1) % plot.columns, (i - 1) // plot.columns
    part.draw(c:moved(column * part.width, box.height - 4 + line * part.height))
    part.margins = nil
  end
  if plot.shared then
    local top, bottom = box.height + 12, plot.height - box.below - (plot.x_title ~= "" and 44 or 22)
    map.draw_bar(c, { labels_at = plot.width - plot.shared.room + 4, top = top, height = bottom - top },
      plot.shared.bar)
  end
  if plot.x_title ~= "" then
    c:text(plot.width / 2, plot.height - box.below - 12, plot.x_title, { anchor = "middle" })
  end
end

--- One plot for each value of a field, on the same axes and with the same looks: plot.facets { rows =, by =,
--- draw = function(rows, value) return tperf.plot.lines { rows = rows, … } end }. The plots must be of one kind with
--- two axes; maps share the colours of their values, and have one bar, unless share = "none". Their own titles,
--- legends, widths and heights do not count.
---@param options table
---  by       the field
---  draw     a function of the rows that have one of its values, and of that value, as text; returns their plot
---  columns  plots side by side (as many as are 240 px wide, at most three)
---  share    which axes are the same: "both" (default), "x", "y" or "none"
---  width, height  of the whole figure; default height: by the number of plots
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  argument.list(WHAT, "rows", o.rows)
  local parts = parts_of(o, rows.column(WHAT, o.rows, o.by))
  for _, axis in ipairs { "x", "y" } do
    if o.share == "both" or o.share == axis then join(parts, axis) end
  end
  if o.share == "both" or o.share == "y" then join(parts, "y2") end
  local plot = figure.start(WHAT, o)
  plot.entries = join_looks(parts)
  plot.shared = o.share ~= "none" and join_values(parts)
  plot.right_title = plot.shared and plot.shared.title
  plot.x_title, plot.y = common_title(parts, "x"), { title = common_title(parts, "y") }
  plot.columns = o.columns or math.max(1, math.min(3, #parts, plot.width // 230))
  local lines = -(-#parts // plot.columns)
  local wide = (plot.width - (plot.shared and plot.shared.room or 0)) / plot.columns
  local box = axes.top(plot)
  local around = box.height + box.below + (plot.x_title ~= "" and 22 or 0)
  local high = math.max(150, o.height and (plot.height - around) / lines or math.min(300, 0.72 * wide))
  for _, part in ipairs(parts) do
    part.title, part.subtitle, part.title_size, part.legend = part.facet, nil, TITLE, "none"
    part.width, part.height, part.zoom = wide, high, 1
    axes.make_room(part)
    high = math.max(high, part.height)
  end
  for _, part in ipairs(parts) do part.height = high end
  plot.height = around + lines * high
  plot.draw = function(c) draw(c, plot, parts) end
  plot.lines = function(how)
    local texts = {}
    for i, part in ipairs(parts) do texts[i] = part.lines(how) end
    return (o.title and o.title .. "\n\n" or "") .. table.concat(texts, "\n")
  end
  plot.description = ("%d plots, one for each value of %s: %s"):format(#parts,
    type(o.by) == "string" and rows.title(o.by) or "a field", parts[1].description)
  return figure.new(plot)
end
