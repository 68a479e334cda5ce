--- A timeline as a self-contained SVG picture: a row per device, a time axis, a legend, and the memory of each device
-- over time; for a model's timeline also a thin row for each of a device's resources, with its tasks. Passes and tasks
-- have tooltips.
local check = require "tperf.base.check"
local costs = require "tperf.describe.schedule.costs"
local canvas = require "tperf.plot.draw.canvas"
local html = require "tperf.output.html"
local sheet = require "tperf.output.sheet"
local palette = require "tperf.timeline.picture.palette"
local task_lists = require "tperf.timeline.tasks"
local task_rows = require "tperf.timeline.picture.svg_tasks"

local LEFT, GAP = 84, 4 -- pixels
local MEMORY_ROW = 26
local OWN_ROW = 16
local THIN = 3 -- pixels; the outline of a narrower pass would hide it
local MOST_PASSES = 100000 -- browsers choke on more

local OPTIONS = {
  width = check.integer { min = 320, max = 100000, default = 1280 },
  title = check.string { optional = true },
  from = check.number { min = 0, default = 0 },
  to = check.number { above = 0, optional = true },
  memory = check.boolean { default = true },
  tasks = check.boolean { optional = true },
  theme = check.choice { { "light", "dark" }, default = "light" },
}


local function pixels(x) return (("%.2f"):format(x):gsub("%.?0+$", "")) end
local function short(x) return ("%.6g"):format(x) end

local LIGHT <const> = { paper = "#fff", ink = "#1b1f24", soft = "#59636e", line = "#d9dee3", band = "#f0f2f4" }

-- The style rules in the colours of a theme.
local function style_of(colors)
  return ([[
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; font-size: 12px;
  fill: $ink; }
.title { font-size: 16px; font-weight: 600; } .soft { fill: $soft; } .right { text-anchor: end; }
.mid { text-anchor: middle; } .small { font-size: 10px; }
.row { fill: $band; } .grid { stroke: $line; } .axis { stroke: $soft; } .p { stroke: $paper; stroke-width: .6; }
.held { fill: #c9d3de; stroke: #41566b; stroke-width: 1; } .limit { stroke: #41566b; stroke-dasharray: 2 3; }
]]):gsub("%$(%a+)", colors)
end

local picture = {}
picture.__index = picture

function picture:put(format, ...)
  self[#self + 1] = select("#", ...) > 0 and format:format(...) or format
end

function picture:x(time)
  return LEFT + (time - self.from) / (self.to - self.from) * (self.width - LEFT - self.right)
end

local function describe(op)
  return ("%s of micro-batch %d, stage %d: %s to %s"):format(palette.name[op.type], op.microbatch, op.stage,
    short(op.start), short(op.stop))
end

-- Draws a pass, or one half of an overlapped pair: forward above, backward below.
function picture:pass(d, op, y)
  local left, right = self:x(math.max(op.start, self.from)), self:x(math.min(op.stop, self.to))
  local height, top = self.row, y
  if op.overlapped then
    height = self.row / 2
    if op.overlapped == "backward" then top = y + height end
  end
  local class = palette.letter[op.type] .. palette.shade(op.type, palette.chunk(self.timeline, d, op.stage))
  self:put('<g><title>device %d: %s%s</title><rect class="%s%s" x="%s" y="%s" width="%s" height="%s"/>', d,
    describe(op), op.overlapped and ", overlapped" or "", right - left > THIN and "p " or "", class,
    pixels(left), pixels(top), pixels(right - left), pixels(height))
  local size, label = height < 20 and 10 or 12, tostring(op.microbatch)
  if right - left >= #label * size * 0.6 + 3 and height > size then
    self:put('<text class="mid%s t%s" x="%s" y="%s">%s</text>', size == 10 and " small" or "", class,
      pixels((left + right) / 2), pixels(top + height / 2 + size * 0.36), label)
  end
  self:put "</g>\n"
end

-- Passes of the schedule's own kinds, in rows by resource.
function picture:own_rows(d, y)
  for i, lane in ipairs(self.timeline:own_lanes(d)) do
    local top = y + (i - 1) * OWN_ROW
    self:put('<text class="right soft small" x="%d" y="%s">%s</text>\n', LEFT - 8, pixels(top + 11),
      html.xml(canvas.fit(lane.name, LEFT - 16, 10)))
    for _, pass in ipairs(lane) do
      if pass.stop > self.from and pass.start < self.to then
        local left, right = self:x(math.max(pass.start, self.from)), self:x(math.min(pass.stop, self.to))
        local label = pass.kind .. (pass.microbatch or "")
        self:put("<g><title>device %d, %s: %s, %s to %s</title>", d, html.xml(lane.name), html.xml(label),
          short(pass.start), short(pass.stop))
        self:put('<rect class="held" x="%s" y="%s" width="%s" height="%d"/>', pixels(left), pixels(top),
          pixels(right - left), OWN_ROW - 2)
        if right - left >= canvas.text_width(label, 10) + 3 then
          self:put('<text class="mid small" x="%s" y="%s">%s</text>', pixels((left + right) / 2), pixels(top + 10.5),
            html.xml(label))
        end
        self:put "</g>\n"
      end
    end
  end
end

function picture:axis(top, bottom)
  for _, tick in ipairs(palette.ticks(self.from, self.to, (self.width - LEFT - self.right) / 90)) do
    local x = pixels(self:x(tick))
    self:put('<line class="grid" x1="%s" x2="%s" y1="%d" y2="%d"/>', x, x, top, bottom)
    self:put('<text class="mid soft" x="%s" y="%d">%s</text>\n', x, bottom + 16, short(tick))
  end
end

function picture:memory_row(d, y, scale)
  local points, level = {}, 0
  local base = y + MEMORY_ROW - GAP
  local function point(time, memory)
    points[#points + 1] = pixels(self:x(time)) .. "," .. pixels(base - memory / scale * (MEMORY_ROW - GAP))
  end
  point(self.from, 0)
  for _, step in ipairs(self.timeline:memory(d)) do
    local time = math.min(math.max(step.time, self.from), self.to)
    point(time, level)
    level = step.memory
    point(time, level)
  end
  point(self.to, level)
  point(self.to, 0)
  self:put('<g><title>device %d: %s</title><polygon class="held" points="%s"/></g>', d, self.peaks[d],
    table.concat(points, " "))
  self:put('<text class="right soft" x="%d" y="%s">Device %d</text>', LEFT - 8, pixels(base - 4), d)
  self:put('<text class="soft" x="%d" y="%s">%s</text>\n', self.width - self.right + 8, pixels(base - 4),
    self.peaks[d])
end

-- The title, and below it what the timeline says in short, on as many lines as they need. Returns the last line's
-- height.
function picture:heading(title)
  local t, y = self.timeline, 28
  for _, line in ipairs(canvas.wrap(title, self.width - LEFT - 8, 16)) do
    self:put('<text class="title" x="%d" y="%d">%s</text>\n', LEFT, y, html.xml(line))
    y = y + 20
  end
  local short_of = ("%s, %s, %s · %s %s · bubble %.1f %%"):format(t:count "device", t:count "stage",
    t:count "micro-batch", t.iteration_time and "iteration" or "makespan",
    t:show(t.iteration_time or t.makespan, "time"), 100 * t.bubble_rate)
  for _, line in ipairs(canvas.wrap(short_of, self.width - LEFT - 8)) do
    self:put('<text class="soft" x="%d" y="%d">%s</text>\n', LEFT, y, html.xml(line))
    y = y + 17
  end
  return y - 17
end

function picture:legend(y)
  local x = LEFT
  local function add(class, label)
    local width = 24 + #label * 6.6 + 18
    if x + width > self.width - self.right and x > LEFT then x, y = LEFT, y + 20 end
    self:put('<rect class="%s" x="%s" y="%d" width="18" height="12"/>', class, pixels(x), y - 10)
    self:put('<text class="soft" x="%s" y="%d">%s</text>\n', pixels(x + 24), y, label)
    x = x + width
  end
  for _, entry in ipairs(palette.legend(self.timeline)) do
    add(("p %s%d"):format(palette.letter[entry.pass], entry.shade), entry.label)
  end
  if self.kinds[1] then x, y = LEFT, y + 20 end
  for _, kind in ipairs(self.kinds) do add("k" .. palette.task[kind], kind) end
  return y
end

-- The passes of a device within a span of time. They start one after another.
local function passes_in(t, d, from, to)
  local following = t:queue(d)
  return function()
    local at, op
    repeat at, op = following() until not at or op.stop > from
    return at and op.start < to and op or nil
  end
end

local function count_passes(t, from, to)
  local count = 0
  for d = 1, t.devices do
    for _ in passes_in(t, d, from, to) do count = count + 1 end
  end
  return count
end

--- Returns the picture as text.
---@param t table         the timeline
---@param options? table  width (pixels), title, from, to (the time span to show), memory = false (leave out),
--- tasks = false (passes only), theme ("light" or "dark")
---@return string
return function(t, options)
  local o = check.record("timeline:svg", options or {}, OPTIONS)
  local with_tasks = o.tasks or o.tasks == nil and t.step ~= nil
  local resources, kinds = {}, {}
  if with_tasks then resources, kinds = task_lists.used(t) end
  local to = o.to or with_tasks and t.iteration_time or t.makespan
  if to <= o.from then
    check.fail("timeline:svg: there is nothing between 'from' = %s and the end, %s", short(o.from), short(to))
  end
  local right, peaks = t:peaks()
  local function new() return setmetatable({ timeline = t, from = o.from, to = to, width = o.width, right = right,
    peaks = peaks, row = t.devices > 16 and 16 or 30, left = LEFT, resources = resources, kinds = kinds }, picture) end
  local count = count_passes(t, o.from, to)
  if count > MOST_PASSES then
    check.fail("timeline:svg: a picture of %d passes is too large to open (at most %d): show a part of the time with "
      .. "'from' and 'to', or fewer micro-batches", count, MOST_PASSES)
  end
  local self, body = new(), new()
  local top = body:legend(body:heading(o.title or t:title()) + 24) + 16
  local lanes = 0
  for d = 1, t.devices do lanes = math.max(lanes, #t:own_lanes(d)) end
  local band = body.row + GAP + #resources * task_rows.HEIGHT + lanes * OWN_ROW -- height of a device's rows
  local bottom = top + t.devices * band
  for d = 1, t.devices do
    local y = top + (d - 1) * band
    body:put('<text class="right" x="%d" y="%d">Device %d</text>', LEFT - 8, y + body.row // 2 + 4, d)
    body:put('<rect class="row" x="%d" y="%d" width="%d" height="%d"/>\n', LEFT, y, o.width - LEFT - right, body.row)
  end
  body:axis(top, bottom)
  for d = 1, t.devices do
    local y = top + (d - 1) * band
    for op in passes_in(t, d, o.from, to) do body:pass(d, op, y) end
    if with_tasks then task_rows.draw(body, d, y + body.row + 1, html.xml) end
    body:own_rows(d, y + body.row + 2 + #resources * task_rows.HEIGHT)
  end
  bottom = bottom + 26
  if o.memory then
    local most = t.peak and t.peak.total or costs.most(t.peak_memory)
    body:put('<text class="soft" x="%d" y="%d">%s held, to one scale</text>\n', LEFT, bottom + 14,
      t.kept and "memory" or "activations")
    bottom = bottom + 22
    for d = 1, t.devices do body:memory_row(d, bottom + (d - 1) * MEMORY_ROW, most) end
    bottom = bottom + t.devices * MEMORY_ROW
  end
  self:put('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">\n', o.width,
    bottom + 12, o.width, bottom + 12)
  self:put("<title>%s</title>\n", html.xml(o.title or t:title()))
  local colors = o.theme == "dark" and sheet.dark or LIGHT
  self:put("<style>\n%s%s</style>\n%s", style_of(colors), palette.css(), palette.hatches())
  self:put('<rect width="100%%" height="100%%" fill="%s"/>\n', colors.paper)
  self:put(table.concat(body))
  self:put "</svg>\n"
  return table.concat(self)
end
