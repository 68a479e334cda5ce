--- The markup of timelines: a table that compares them, a chart for each, and their data, which the script in
-- tperf/timeline/picture/page.lua draws.
local check = require "tperf.base.check"
local json = require "tperf.output.json"
local most = require "tperf.describe.schedule.costs".most
local number = require "tperf.output.number"
local page = require "tperf.timeline.picture.page"
local palette = require "tperf.timeline.picture.palette"
local put_tasks = require "tperf.timeline.picture.html_tasks"
local task_lists = require "tperf.timeline.tasks"

local view = {}

local MOST_PASSES = 500000 -- a page of about 10 MB

local PASSES <const> = { "forward", "backward", "backward_input", "backward_weight" } -- in the order of their numbers

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }
--- Escapes text for HTML.
function view.escape(text) return (text:gsub('[&<>"]', ENTITIES):gsub("%c", " ")) end

-- The passes of a device: flat lists of pass, shade, stage, micro-batch, start, stop, half (0 no pair, 1 forward or 2
-- backward of a pair). Nine digits are more than a screen shows however far it zooms.
local function passes_of(t, device)
  local row, at, i = {}, t.at, 1
  local pass, stage, microbatch, start, stop, half = at(device, 1)
  while pass do
    local shade = palette.shade(PASSES[pass + 1], palette.chunk(t, device, stage))
    row[i] = ("%d,%d,%d,%d,%.9g,%.9g,%d"):format(pass, shade, stage, microbatch, start, stop, half or 0)
    i = i + 1
    pass, stage, microbatch, start, stop, half = at(device, i)
  end
  return row
end

local function memory_of(t, device)
  local row = {}
  for i, step in ipairs(t:memory(device)) do row[i] = ("%.9g,%.9g"):format(step.time, step.memory) end
  return row
end

-- Passes of the schedule's own kinds on a device, by lane: its name, and flat lists of start, stop, label.
local function own_of(t, device)
  local lanes = {}
  for i, lane in ipairs(t:own_lanes(device)) do
    local row = {}
    for k, pass in ipairs(lane) do
      row[k] = ("%.9g,%.9g,%s"):format(pass.start, pass.stop, json.quote(pass.kind .. (pass.microbatch or "")))
    end
    lanes[i] = ('{"name":%s,"passes":[%s]}'):format(json.quote(lane.name), table.concat(row, ","))
  end
  return lanes
end

-- Writes the data of one timeline: its fields and, per device, flat lists of its passes, and of time, memory.
local function data(t, put, with_tasks)
  local function put_rows(row_of)
    for d = 1, t.devices do put((d > 1 and ",\n[" or "[") .. table.concat(row_of(t, d), ",") .. "]") end
  end
  put(('{"name":"%s","devices":%d,"stages":%d,"microbatches":%d,"makespan":%s,"passes":['):format(t.schedule, t.devices,
    t.stages, t.microbatches, number.text(t.makespan)))
  put_rows(passes_of)
  put '],"memory":['
  put_rows(memory_of)
  local right, peaks = t:peaks()
  put(('],"right":%d,"unit":"%s","peaks":["%s"],"held":"%s","end":%s,"tasks":'):format(right,
    t.units.time and " " .. t.units.time or "", table.concat(peaks, '","'), t.kept and "memory" or "activations",
    number.text(with_tasks and t.iteration_time or t.makespan)))
  if with_tasks then put_tasks(t, put) else put "null" end
  put ',"own":['
  if t.own then put_rows(own_of) end
  put "]}"
end

local function comparison(timelines, put)
  local best = math.huge
  for _, t in ipairs(timelines) do best = math.min(best, t.makespan) end
  put '<div class="scroll" tabindex="0" role="region" aria-label="Comparison"><table><caption>Comparison</caption>'
  put '<thead><tr><th scope="col">schedule</th>'
  for _, title in ipairs { "devices", "stages", "micro-batches", "makespan", "of the fastest", "bubble",
    "longest stage", "peak activations", "peak memory" } do
    put('<th scope="col" class="n">' .. title .. "</th>")
  end
  put "</tr></thead><tbody>\n"
  for _, t in ipairs(timelines) do
    put(('<tr%s><th scope="row">%s</th>'):format(t.makespan == best and ' class="best"' or "", view.escape(t:title())))
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
  put "</tbody></table></div>\n"
end

local function put_legend_of_tasks(t, tasks, put)
  local _, kinds = nil, {}
  if tasks and t.step then _, kinds = task_lists.used(t) end
  for _, kind in ipairs(kinds) do
    put(('<span><svg width="18" height="12"><path class="k%d" d="M0 0H18V12H0Z"/></svg> %s</span>'):format(
      palette.task[kind], kind))
  end
end

--- Everything between the title and the script.
---@param timelines tperf.timeline[]
---@param what string  prefix of messages
---@param options? table  most: limit on the passes of all timelines together; tasks: whether to draw tasks (true)
---@return string
function view.body(timelines, what, options)
  local o = options or {}
  local passes, limit, tasks = 0, o.most or MOST_PASSES, o.tasks ~= false
  for _, each in ipairs(timelines) do passes = passes + each.ops end
  if passes > limit then
    check.fail("%s: a page of %d passes is too large to open (at most %d): compare fewer schedules or micro-batches",
      what, passes, limit)
  end
  local out = {}
  local function put(piece) out[#out + 1] = piece end
  local function put_text(piece) put((piece:gsub("<", "\\u003c"))) end -- a name may be "</script>"
  comparison(timelines, put)
  put(page.controls)
  put('<svg width="0" height="0" aria-hidden="true">' .. palette.hatches() .. "</svg>\n")
  for i, each in ipairs(timelines) do
    put(('<section><h2>%s</h2><p class="legend">'):format(view.escape(each.schedule)))
    for _, entry in ipairs(palette.legend(each)) do
      put(('<span><svg width="18" height="12"><path class="%s%d" d="M0 0H18V12H0Z"/></svg> %s</span>'):format(
        palette.letter[entry.pass], entry.shade, entry.label))
    end
    put_legend_of_tasks(each, tasks, put)
    put(('</p>\n<div class="frame"><svg class="chart" id="chart%d" tabindex="0" role="application" '
      .. 'aria-label="%s: timeline"></svg></div></section>\n'):format(i, view.escape(each.schedule)))
  end
  put '<p id="status" role="status" aria-live="polite"></p>\n<div id="tip" hidden></div>\n'
  put '<script type="application/json" id="data">['
  for i, each in ipairs(timelines) do
    if i > 1 then put ",\n" end
    data(each, put_text, tasks and each.step ~= nil)
  end
  put "]</script>\n"
  return table.concat(out)
end

return view
