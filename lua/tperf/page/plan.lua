--- Plan: the best configurations for training a model on a cluster, and the details of one.
local command = require "tperf.page.command"
local configuration = require "tperf.cli.ask.configuration"
local costs = require "tperf.cli.answer.costs"
local format = require "tperf.output.format"
local grid = require "tperf.page.grid"
local parts = require "tperf.cli.answer.parts"
local refusal = require "tperf.base.refusal"
local visible_memory = require "tperf.describe.machine.visible_memory"
local stages = require "tperf.cli.answer.stages"
local view = require "tperf.timeline.picture.view"

local plan = {}

-- Passes of a chart that is drawn unasked, and while the user waits.
local FEW_PASSES <const>, MOST_PASSES <const> = 12000, 60000

-- The arguments of tperf.search, and of tperf.cost.
local function asked_of(given)
  local values, arguments = command.values("search", given)
  local asked = command.need(configuration.question(values, arguments, { "system", "gpus", "batch" }, true))
  local cost, wrong = costs.question(values, asked)
  if wrong then error(wrong, 0) end
  asked.software = values.software or asked.software
  asked.top = values.top
  return asked, cost
end

local last = {} -- the last search answered; plan.detail refers to its rows

-- The configurations found. If none fits: the closest ones, and the reason.
local function find(given)
  local line = command.line("search", given)
  if last.line == line then return last end
  local asked, cost = asked_of(given)
  local tperf = require "tperf"
  local found = command.call("search", tperf.search, asked)
  if found.candidates == nil then error("--gpus: one number is needed; Compare takes several", 0) end
  local rows, reason = found, found.reason
  if #found == 0 and found.candidates > 0 and found.feasible == 0 then
    asked.infeasible = true
    rows = command.call("search", tperf.search, asked)
    asked.infeasible = nil
  end
  costs.add(rows, cost)
  last = { line = line, asked = asked, found = found, rows = rows, reason = reason }
  return last
end

local function script_of(asked)
  return ([[
local tperf = require "tperf"

local found = tperf.search %s
tperf.report.print(found, {
  { key = tperf.report.layout, title = "layout" }, "micro_batch",
  { key = "time", unit = "s" }, { key = "mfu", unit = "%%", digits = 3 },
  { key = "memory.total", title = "memory", unit = "bytes" },
})
]]):format(command.lua(asked, ""))
end

-- What people look for first, then the layout.
local FIRST <const> = { time = 1, ["memory.total"] = 2, ["cost.days"] = 3, ["cost.dollars"] = 4, feasible = 5, mfu = 6 }

local function ordered(columns)
  local first, rest = {}, {}
  for _, column in ipairs(columns) do
    local place = FIRST[column.key]
    if place then first[place] = column else rest[#rest + 1] = column end
  end
  return table.move(rest, 1, #rest, #first + 1, first)
end

local function range_of(low, high, show) return ("%s to %s"):format(show(low), show(high)) end

local function days(value) return ("%.3g days"):format(value) end

-- Does it fit, how long, how much: { what, figure, note } each, of the best configuration.
local function facts_of(c, machine)
  local memory, cost = c.intervals and c.intervals.memory, c.cost
  local function bytes(value) return format.number(value, "bytes", 3) end
  local held = ("%s of %s"):format(bytes(c.memory.total), bytes(visible_memory(machine)))
  if memory then held = held .. "; comparable runs " .. range_of(memory.low, memory.high, bytes) end
  local facts = { { "Does it fit?", c.fit, held } }
  if cost then
    facts[2] = { "The run takes", days(cost.days), cost.low and range_of(cost.low.days, cost.high.days, days) or nil }
    facts[3] = { "It costs", cost.dollars and costs.money(cost.dollars) or "no price is known",
      cost.dollars and cost.low and range_of(cost.low.dollars, cost.high.dollars, costs.money) or nil }
  end
  facts[#facts + 1] = { "A step", format.number(c.time, "s"), ("%s MFU"):format(format.number(c.mfu, "%", 3)) }
  return facts
end

--- The table of the best configurations, and what people ask first of the best one. values: options of
--- `tperf search`; changed: true if a file that they name has changed since the last answer.
function plan.plan(question)
  if question.changed then last = {} end
  local p = find(question.values)
  return {
    table = grid(p.rows, ordered(costs.with(configuration.columns))),
    facts = p.rows[1] and facts_of(p.rows[1], require "tperf".system(p.asked.system)),
    candidates = p.found.candidates, feasible = p.found.feasible, reason = p.reason, command = p.line,
    script = script_of(p.asked),
    warnings = p.rows[1] and p.rows[1].warnings or {},
  }
end

-- The arguments of tperf.train for one of the rows.
local function chosen(question)
  local p = find(question.values)
  local row = p.rows[question.row] or error("there is no such configuration", 0)
  return { model = p.asked.model, system = p.asked.system, configuration = row }, row
end

local function interval_of(c)
  if not c.interval then return nil end
  return ("Nine in ten comparable runs (%s) take %s to %s."):format(c.software,
    format.number(c.interval.low, "s"), format.number(c.interval.high, "s"))
end

local MOST_BARS <const> = 8

-- The time breakdowns of the best configurations, side by side, as SVG.
local function times_of(rows, width)
  local list, fields = {}, {}
  for i = 1, math.min(#rows, MOST_BARS) do
    list[i] = { place = tostring(i) }
    for name, seconds in pairs(rows[i].breakdown) do list[i][name] = seconds end
  end
  for _, part in ipairs(parts.time) do
    local some = false
    for _, row in ipairs(list) do some = some or (row[part[1]] or 0) > 0 end
    fields[#fields + 1] = some and { key = part[1], title = part[2] } or nil
  end
  return require "tperf".plot.bars({
    rows = list, x = { key = "place", title = "configuration, as first listed" }, y = fields, yunit = "s",
    ylabel = "time of an iteration", title = "Where the time goes", width = width,
  }):svg()
end

--- One row in detail: { name, placement, reason, interval, time, memory, stages (tables), chart, times (SVG), stacks
--- (with recipes), used (fraction of the memory), total, capacity }.
function plan.detail(question)
  local given, row = chosen(question)
  local tperf = require "tperf"
  local c = command.call("search", tperf.train, given)
  local machine = tperf.system(given.system)
  local capacity = visible_memory(machine)
  local function shares(what, ...)
    local rows, columns = parts.of("part", ...)
    columns[2].title, columns[3].title = what, "share"
    return grid(rows, columns)
  end
  return {
    name = tperf.report.layout(row), placement = tperf.report.placement(row), reason = c.reason,
    interval = interval_of(c),
    time = shares("time", c.breakdown, parts.time, c.time, "s"),
    memory = shares("memory", c.memory, parts.memory, c.memory.total, "bytes"),
    stages = grid(stages.rows(c), stages.columns), capacity = format.number(capacity, "bytes"),
    total = format.number(c.memory.total, "bytes"), used = c.memory.total / capacity, warnings = c.warnings,
    chart = stages.chart(c, tostring(tperf.model(given.model)), capacity, { width = question.width }):svg(),
    times = times_of(last.rows, question.width), stacks = require "tperf.export.launch".stacks(),
  }
end

--- The row's simulated timeline: { html }, or { reason } if it cannot be drawn, or, with `waits`, takes a moment. all:
--- true: it is drawn nevertheless.
function plan.timeline(question)
  local given, row = chosen(question)
  given.simulate = true
  local passes = 2 * row.microbatches * row.virtual_stages * row.pp
  if passes > FEW_PASSES and passes <= MOST_PASSES and not question.all then
    return { reason = ("%d passes take a moment to draw"):format(passes), waits = true }
  end
  if passes > MOST_PASSES then
    return { reason = ("%d passes are too many to draw here; `tperf schedule` writes a page of them"):format(passes) }
  end
  local simulated, reason = refusal.attempt(function()
    local _, timeline = require "tperf".train(given)
    return timeline
  end)
  if not simulated then return { reason = reason } end
  return { html = view.body({ simulated }, "the timeline") }
end

--- The row as launch settings for a stack: { text }, or { reason }. stack: its name.
function plan.launch(question)
  local given, row = chosen(question)
  local ok, text = pcall(require "tperf".report.launch, row, question.stack, { model = given.model, seq = row.seq,
    question = find(question.values).asked })
  if ok then return { text = text } end
  return { reason = tostring(text):gsub("^tperf%.report%.launch: ", "") }
end

return plan
