--- The task rows of an SVG timeline: a thin row for each resource below a device's passes.
local palette = require "tperf.timeline.picture.palette"
local tasks = require "tperf.timeline.tasks"

local rows = {}

rows.HEIGHT = 11 -- pixels

local function pixels(x) return (("%.2f"):format(x):gsub("%.?0+$", "")) end

-- Whether to draw a task: if it covers a pixel or crosses a pixel's edge, which samples the narrower ones fairly.
local function is_drawn(left, right, last)
  return right > last and (right - left >= 1 or math.floor(left) ~= math.floor(right))
end

--- Draws the rows with their upper edge at y. escape: escapes text for XML.
function rows.draw(picture, device, y, escape)
  local t, last, row = picture.timeline, {}, {}
  for i, resource in ipairs(picture.resources) do
    local top = y + (i - 1) * rows.HEIGHT
    row[resource], last[resource] = top, -1
    picture:put('<text class="right small soft" x="%d" y="%s">%s</text>\n', picture.left - 8, pixels(top + 9),
      tasks.titles[resource])
  end
  for task in tasks.each(t, device) do
    if task.stop > picture.from and task.start < picture.to then
      local left = picture:x(math.max(task.start, picture.from))
      local right = picture:x(math.min(task.stop, picture.to))
      for _, resource in ipairs(task.resources) do
        if is_drawn(left, right, last[resource]) then
          last[resource] = math.floor(right)
          picture:put('<rect class="k%d" x="%s" y="%s" width="%s" height="%d"><title>%s</title></rect>\n',
            palette.task[task.kind], pixels(left), pixels(row[resource]), pixels(math.max(right - left, 1)),
            rows.HEIGHT - 2, escape(tasks.details(t, task)))
        end
      end
    end
  end
end

return rows
