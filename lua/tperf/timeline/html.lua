--- Timelines as one self-contained HTML page: all on one time axis, with zoom and pan, details of the pass or task
-- under the pointer, memory per device, and a table that compares the schedules. The page makes no request to anywhere.
local check = require "tperf.check"
local most = require "tperf.timeline.costs".most
local number = require "tperf.report.number"
local palette = require "tperf.timeline.palette"
local page = require "tperf.timeline.page"
local task_lists = require "tperf.timeline.tasks"
local put_tasks = require "tperf.timeline.html_tasks"

local MOST_PASSES = 500000 -- a page of about 10 MB

local OPTIONS = {
  with = check.any { default = {} },
  title = check.string { optional = true },
  tasks = check.boolean { default = true },
}

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }
local function escape(text) return (text:gsub('[&<>"]', ENTITIES):gsub("%c", " ")) end

local CODE = {}
for i, pass in ipairs { "forward", "backward", "backward_input", "backward_weight" } do CODE[pass] = i - 1 end

-- The data of one timeline: its fields and, per device, flat lists of
-- pass, shade, stage, micro-batch, start, stop, half (0 alone, 1 forward or 2 backward of a pair), and of time, memory.
local function data(t, put, with_tasks)
  put(('{"name":"%s","devices":%d,"stages":%d,"microbatches":%d,"makespan":%s,"passes":['):format(t.schedule, t.devices,
    t.stages, t.microbatches, number.text(t.makespan)))
  for d = 1, t.devices do
    local row = {}
    for i, op in t:queue(d) do
      row[i] = ("%d,%d,%d,%d,%s,%s,%d"):format(CODE[op.type], palette.shade(op.type, palette.chunk(t, d, op.stage)),
        op.stage, op.microbatch, number.text(op.start), number.text(op.stop),
        op.overlapped == "forward" and 1 or op.overlapped and 2 or 0)
    end
    put((d > 1 and ",\n[" or "[") .. table.concat(row, ",") .. "]")
  end
  put '],"memory":['
  for d = 1, t.devices do
    local row = {}
    for i, step in ipairs(t:memory(d)) do row[i] = number.text(step.time) .. "," .. number.text(step.memory) end
    put((d > 1 and ",\n[" or "[") .. table.concat(row, ",") .. "]")
  end
  local right, peaks = t:peaks()
  put(('],"right":%d,"unit":"%s","peaks":["%s"],"held":"%s","end":%s,"tasks":'):format(right,
    t.units.time and " " .. t.units.time or "", table.concat(peaks, '","'), t.kept and "memory" or "activations",
    number.text(with_tasks and t.iteration_time or t.makespan)))
  if with_tasks then put_tasks(t, put) else put "null" end
  put "}"
end

local function comparison(timelines, put)
  local best = math.huge
  for _, t in ipairs(timelines) do best = math.min(best, t.makespan) end
  put '<table><caption>Comparison</caption><thead><tr><th scope="col">schedule</th>'
  for _, title in ipairs { "devices", "stages", "micro-batches", "makespan", "of the fastest", "bubble",
    "longest stage", "peak activations", "peak memory" } do
    put('<th scope="col" class="n">' .. title .. "</th>")
  end
  put "</tr></thead><tbody>\n"
  for _, t in ipairs(timelines) do
    put(('<tr%s><th scope="row">%s</th>'):format(t.makespan == best and ' class="best"' or "", escape(t.schedule)))
    for _, cell in ipairs {
      ("%d"):format(t.devices), ("%d"):format(t.stages), ("%d"):format(t.microbatches), t:show(t.makespan, "time"),
      ("%.3f×"):format(t.makespan / best), ("%.2f %%"):format(100 * t.bubble_rate),
      t:show(t.longest_stage_time, "time"), ("%d"):format(most(t.peak_activations)),
      t:show(t.peak and t.peak.total or most(t.peak_memory), "memory"),
    } do
      put('<td class="n">' .. cell .. "</td>")
    end
    put "</tr>\n"
  end
  put "</tbody></table>\n"
end

local function is_timeline(value) return type(value) == "table" and type(value.queue) == "function" end

--- The page's text.
---@param t table         the timeline
---@param options? table  with: list of more timelines to compare it with; title; tasks = false: passes alone
---@return string
return function(t, options)
  local o = check.record("timeline:html", options or {}, OPTIONS)
  local timelines, passes = { t }, 0
  if type(o.with) ~= "table" then check.fail("timeline:html: 'with' must be a list of timelines") end
  for i, other in ipairs(is_timeline(o.with) and { o.with } or o.with) do
    if not is_timeline(other) then check.fail("timeline:html: 'with[%d]' must be a timeline", i) end
    timelines[i + 1] = other
  end
  for _, each in ipairs(timelines) do passes = passes + each.ops end
  if passes > MOST_PASSES then
    check.fail("timeline:html: a page of %d passes is too large to open (at most %d): compare fewer schedules or "
      .. "micro-batches", passes, MOST_PASSES)
  end
  local names = {}
  for i, each in ipairs(timelines) do names[i] = each.schedule end
  local title = escape(o.title or table.concat(names, ", "))
  local out = {}
  local function put(piece) out[#out + 1] = piece end
  put('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>' .. title .. "</title>\n")
  put '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
  put "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
  put "script-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n"
  put("<style>\n" .. page.style .. palette.css() .. "</style>\n</head>\n<body>\n<main>\n<h1>" .. title .. "</h1>\n")
  comparison(timelines, put)
  put(page.controls)
  put('<svg width="0" height="0" aria-hidden="true">' .. palette.hatches() .. "</svg>\n")
  for i, each in ipairs(timelines) do
    put(('<section><h2>%s</h2><p class="legend">'):format(escape(each.schedule)))
    for _, entry in ipairs(palette.legend(each)) do
      put(('<span><svg width="18" height="12"><path class="%s%d" d="M0 0H18V12H0Z"/></svg> %s</span>'):format(
        palette.letter[entry.pass], entry.shade, entry.label))
    end
    local _, kinds = nil, {}
    if o.tasks and each.step then _, kinds = task_lists.used(each) end
    for _, kind in ipairs(kinds) do
      put(('<span><svg width="18" height="12"><path class="k%d" d="M0 0H18V12H0Z"/></svg> %s</span>'):format(
        palette.task[kind], kind))
    end
    put(('</p>\n<svg class="chart" id="chart%d" tabindex="0" role="application" aria-label="%s: timeline"></svg>'
      .. '</section>\n'):format(i, escape(each.schedule)))
  end
  put '<p id="status" role="status" aria-live="polite"></p>\n<div id="tip" hidden></div>\n</main>\n'
  put '<script type="application/json" id="data">['
  for i, each in ipairs(timelines) do
    if i > 1 then put ",\n" end
    data(each, put, o.tasks and each.step ~= nil)
  end
  put("]</script>\n<script>\n" .. page.script .. "</script>\n</body>\n</html>\n")
  return table.concat(out)
end
