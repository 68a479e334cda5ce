--- Plots of tperf.serve's results: timelines of requests, occupancy over time, latency against load.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local lines = require "tperf.plot.lines"
local panels = require "tperf.plot.panels"
local spans = require "tperf.plot.spans"

local serving = {}

local SPANS <const> = 500 -- time bins; the maximum of each is drawn

-- Options that all three kinds take.
local function schema(own)
  for _, name in ipairs { "title", "width", "height", "font", "font_size" } do own[name] = figure.common[name] end
  return own
end

-- The fields that must be numbers or nil.
local NUMBERS <const> = { requests = { "arrival", "first_scheduled", "first_token", "last_token" },
  steps = { "start", "replica", "running", "waiting", "free_blocks" } }
local NEEDED <const> = { arrival = true, start = true, replica = true, running = true, waiting = true }

local function is_one(item, name)
  if type(item) ~= "table" then return false end
  for _, field in ipairs(NUMBERS[name]) do
    local value = item[field]
    local is_number = math.type(value) and value - value == 0
    if not (is_number or value == nil and not NEEDED[field]) then return false end
  end
  return true
end

local function kept(what, o, name)
  local list = type(o.result) == "table" and o.result[name]
  local whole = type(list) == "table" and argument.list(what, "result." .. name, list) > 0
  for _, item in ipairs(whole and list or {}) do whole = whole and is_one(item, name) end
  if not whole then
    check.fail("%s: 'result' must be tperf.serve's answer with %s: ask for keep = \"%s\"", what, name, name)
  end
  return list
end

-- --- requests ---

local requests_schema = schema {
  result = check.any(), first = check.integer { min = 1, max = 1 << 40, default = 1 },
  count = check.integer { min = 1, max = 5000, default = 100 },
}

local PHASES <const> = { { "waiting", "arrival", "first_scheduled" }, { "prefill", "first_scheduled", "first_token" },
  { "decoding", "first_token", "last_token" } }

--- A Gantt chart of requests, numbered by arrival from the top: waiting, prefill and decode of each.
---@param options table
---  result  from tperf.serve with keep = "requests" or "steps"
---  first   the first request to draw (1)
---  count   how many (100)
---@return tperf.Plot
function serving.requests(options)
  local o = check.record("plot.requests", options, requests_schema)
  local order = {}
  for i, q in ipairs(kept("plot.requests", o, "requests")) do order[i] = { q = q, number = i } end
  table.sort(order, function(a, b)
    if a.q.arrival ~= b.q.arrival then return a.q.arrival < b.q.arrival end
    return a.number < b.number
  end)
  local list, last = {}, math.min(o.first + o.count - 1, #order)
  for _, phase in ipairs(PHASES) do
    for i = o.first, last do
      local q = order[i].q
      if q.status == "finished" then
        list[#list + 1] = { phase = phase[1], start = q[phase[2]], stop = q[phase[3]], lane = i }
      end
    end
  end
  if #list == 0 then check.fail("plot.requests: no request from the %d. on is finished", o.first) end
  return spans {
    rows = list, start = "start", stop = "stop", lane = "lane", series = "phase", xunit = "s",
    xlabel = "Time", ylabel = "Request, by arrival", width = o.width, height = o.height,
    font = o.font, font_size = o.font_size,
    title = o.title or last - o.first + 1 < #order and ("Requests %d to %d of %d"):format(o.first, last, #order)
      or "Requests",
  }
end

-- --- occupancy ---

local occupancy_schema = schema { result = check.any() }

-- Totals over all engines after each change: { time, requests running, requests waiting, blocks used }.
local function changes(steps, blocks)
  local now, sum, list = {}, { running = 0, waiting = 0, used = 0 }, {}
  for _, step in ipairs(steps) do
    local mine = { running = step.running, waiting = step.waiting,
      used = blocks and blocks - 1 - (step.free_blocks or 0) or 0 }
    local before = now[step.replica] or { running = 0, waiting = 0, used = 0 }
    for name, value in pairs(mine) do sum[name] = sum[name] + value - before[name] end
    now[step.replica] = mine
    -- Engines that step at one time change the totals once.
    local at = list[#list] and list[#list].time == step.start and #list or #list + 1
    list[at] = { time = step.start, running = sum.running, waiting = sum.waiting, used = sum.used }
  end
  return list
end

local function by_start(steps)
  local sorted = table.move(steps, 1, #steps, 1, {})
  table.sort(sorted, function(a, b)
    if a.start ~= b.start then return a.start < b.start end
    return a.replica < b.replica
  end)
  return sorted
end

-- The maximum in each of SPANS time bins; a bin without a step carries the last value on.
local function most_in_spans(list)
  local first, last = list[1].time, list[#list].time
  local width = (last - first) / SPANS
  if #list <= SPANS or width == 0 then return list end
  local out, at = {}, 1
  for i = 1, SPANS do
    local span, stop = { time = first + (i - 1) * width, running = 0, waiting = 0, used = 0 }, first + i * width
    if list[at] and list[at].time >= stop and out[i - 1] then
      span.running, span.waiting, span.used = list[at - 1].running, list[at - 1].waiting, list[at - 1].used
    end
    while list[at] and (list[at].time < stop or i == SPANS) do
      for _, name in ipairs { "running", "waiting", "used" } do span[name] = math.max(span[name], list[at][name]) end
      at = at + 1
    end
    out[i] = span
  end
  return out
end

--- The occupancy of all engines over time.
---@param result table  from tperf.serve with keep = "steps"
---@return table[] rows  { time, running, waiting (requests), used (blocks), part (of the cache; nil without one) }
function serving.held(result)
  local steps, blocks, engines = by_start(kept("plot.occupancy", { result = result }, "steps")), result.num_blocks, 0
  for _, step in ipairs(steps) do engines = math.max(engines, step.replica) end
  local list = most_in_spans(changes(steps, blocks))
  for _, row in ipairs(list) do row.part = blocks and row.used / ((blocks - 1) * engines) end
  return list
end

--- Occupancy over time: the fraction of the KV cache's blocks in use, and the requests running and waiting, over all
--- engines. Of long runs, the maximum in each of 500 time bins is drawn.
---@param options table
---  result  from tperf.serve with keep = "steps"
---@return tperf.Plot
function serving.occupancy(options)
  local o = check.record("plot.occupancy", options, occupancy_schema)
  local list = serving.held(o.result)
  local parts = { title = o.title or "What the engines hold" }
  if list[1].part then
    parts[1] = lines { rows = list, x = "time", y = { key = "part", title = "KV cache in use", unit = "%" },
      xunit = "s", markers = false, xlabel = "Time", ylabel = "KV cache in use", ymin = 0, ymax = 1, width = o.width,
      height = o.height // 2 + 40,
      font = o.font, font_size = o.font_size }
  end
  parts[#parts + 1] = lines { rows = list, x = "time", y = { { key = "running", title = "running" },
    { key = "waiting", title = "waiting" } }, xunit = "s", markers = false, xlabel = "Time",
    ylabel = "Requests", width = o.width, height = o.height // 2 + 40,
      font = o.font, font_size = o.font_size }
  return panels(parts)
end

-- --- latency against load ---

local load_schema = schema {
  rows = check.list(check.record_of { rate = check.number(), served = check.any() }, { min = 1 }),
  slo = check.record_of({ ttft = check.number { unit = "s", optional = true },
    tpot = check.number { unit = "s", optional = true }, e2e = check.number { unit = "s", optional = true },
    quantile = check.number { optional = true } }, { optional = true }),
}

local NAMES <const> = { ttft = "Time to first token", tpot = "Time per output token" }

-- The panel of one latency over the rates; nil if no run has it.
local function latency_panel(o, name, last)
  local list, any = {}, false
  for k, row in ipairs(o.rows) do
    local t = type(row.served) == "table" and row.served[name] or {}
    list[k] = { rate = row.rate, mean = t.mean, p90 = t.p90, p99 = t.p99 }
    any = any or t.mean ~= nil
  end
  local limit = o.slo and o.slo[name]
  return any and lines {
    rows = list, x = "rate", y = { { key = "mean", title = "mean" }, { key = "p90", title = "p90" },
      { key = "p99", title = "p99" } }, yunit = "s", logy = name == "ttft" or nil,
    xlabel = last and "Requests a second" or "", ylabel = NAMES[name], width = o.width, height = o.height // 2 + 60,
    font = o.font, font_size = o.font_size,
    guides = limit and { { y = limit, label = "limit" } } or nil,
  } or nil
end

--- Latency against load: mean, 90th and 99th percentile of TTFT and TPOT at each rate, with the SLOs.
---@param options table
---  rows  from tperf.load_curve
---  slo   limits to draw: { ttft =, tpot = }
---@return tperf.Plot
function serving.load(options)
  local o = check.record("plot.load", options, load_schema)
  local parts = { title = o.title or "Latency against load" }
  parts[1] = latency_panel(o, "ttft", false)
  parts[#parts + 1] = latency_panel(o, "tpot", true)
  if #parts == 0 then check.fail "plot.load: 'rows' must be tperf.load_curve's, with answers" end
  return panels(parts)
end

return serving
