--- Timelines as one self-contained HTML page: all on one time axis, with zoom and pan, details of the pass or task
-- under the pointer, memory per device, and a table that compares the schedules. The page loads nothing.
local check = require "tperf.base.check"
local page = require "tperf.timeline.picture.page"
local view = require "tperf.timeline.picture.view"

local OPTIONS = {
  with = check.any { default = {} },
  title = check.string { optional = true },
  tasks = check.boolean { default = true },
}

local function is_timeline(value) return type(value) == "table" and type(value.queue) == "function" end

--- Returns the page as text.
---@param t table         the timeline
---@param options? table  with: a list of further timelines to compare; title; tasks = false: passes only
---@return string
return function(t, options)
  local o = check.record("timeline:html", options or {}, OPTIONS)
  local timelines, names = { t }, {}
  if type(o.with) ~= "table" then check.fail("timeline:html: 'with' must be a list of timelines") end
  for i, other in ipairs(is_timeline(o.with) and { o.with } or o.with) do
    if not is_timeline(other) then check.fail("timeline:html: 'with[%d]' must be a timeline", i) end
    timelines[i + 1] = other
  end
  for i, each in ipairs(timelines) do names[i] = each.schedule end
  local title = view.escape(o.title or table.concat(names, ", "))
  local body = view.body(timelines, "timeline:html", { tasks = o.tasks })
  return table.concat {
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>', title, "</title>\n",
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; ",
    "script-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n",
    "<style>\n", page.style, "</style>\n</head>\n<body>\n<main>\n<h1>", title, "</h1>\n", body, "</main>\n",
    "<script>\n", page.script, "showTimelines(document);\n</script>\n</body>\n</html>\n",
  }
end
