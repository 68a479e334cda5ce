--- A measured step beside the predicted one: how long each kind of kernel and collective takes in both, where the
-- difference lies, and both drawn on one axis of time. Measured are traces of PyTorch's profiler, of one GPU, and the
-- timers that Megatron-LM prints.
local check = require "tperf.base.check"
local kineto = require "tperf.import.kineto"
local ranks = require "tperf.timeline.ranks"
local tasks = require "tperf.timeline.tasks"
local text_file = require "tperf.input.text"
local timers = require "tperf.import.megatron_timers"
local work = require "tperf.timeline.work"

local beside = {}

-- Seconds in which at least one of the intervals, sorted by their starts, lasts.
local function covered(list)
  local sum, stop = 0.0, -math.huge
  for _, one in ipairs(list) do
    if one.stop > stop then
      sum, stop = sum + one.stop - math.max(one.start, stop), one.stop
    end
  end
  return sum
end

-- The predicted tasks of a device, as the reader of traces returns events.
local function predicted(t, device)
  local counts, events = work.counts(t.configuration), {}
  for task in tasks.each(t, device) do
    local kind = work.kind(task, counts, t.configuration.zero)
    if kind then
      events[#events + 1] = {
        name = task.text, kind = kind, start = task.start, stop = task.stop, seconds = task.seconds,
      }
    end
  end
  return events
end

local function sums(events)
  local sum = {}
  for _, e in ipairs(events) do sum[e.kind] = (sum[e.kind] or 0) + (e.seconds or e.stop - e.start) end
  return sum
end

local ROUNDING <const> = 1e-9 -- of a step: sums of thousands of tasks

local function idle(step, busy) return step - busy > ROUNDING * step and step - busy or 0.0 end

-- Rows by how much they differ, the whole step last.
local function rows_of(ours, theirs, steps, step_time, measured_time)
  local a, b, rows = sums(ours), sums(theirs), {}
  local function add(kind, x, y)
    if x > 0 or y > 0 then
      rows[#rows + 1] = { kind = kind, predicted = x, measured = y, difference = y - x, ratio = y > 0 and x / y or nil }
    end
  end
  for _, kind in ipairs(kineto.kinds) do add(kind, a[kind] or 0, (b[kind] or 0) / steps) end
  add("nothing runs", idle(step_time, covered(ours)), idle(measured_time, covered(theirs) / steps))
  table.sort(rows, function(x, y) return math.abs(x.difference) > math.abs(y.difference) end)
  add("the step", step_time, measured_time)
  return rows
end

-- The device whose trace it is: as asked, by the trace's rank, or the first.
local function device_of(t, measured, asked)
  if asked or not measured.rank then return asked or 1 end
  local grid = ranks.of(t.configuration)
  return measured.rank < grid.total and grid:at(measured.rank, "pp") + 1 or 1
end

local function of_trace(t, path, o)
  local measured = kineto.read(path)
  local device = device_of(t, measured, o.device)
  local ours = predicted(t, device)
  return {
    kind = "trace", device = device, rank = measured.rank, steps = measured.steps, predicted = ours,
    measured = measured.events, predicted_time = t.iteration_time, measured_time = measured.step_time,
    rows = rows_of(ours, measured.events, measured.steps, t.iteration_time, measured.step_time),
  }
end

-- The least and the most of the devices.
local function span(t, value)
  local least, most = math.huge, 0.0
  for d = 1, t.devices do
    local x = value(d)
    least, most = math.min(least, x), math.max(most, x)
  end
  return { least, most }
end

-- What Megatron-LM's timers are of a predicted step.
local function timers_of(t)
  local lists = tasks.lists(t)
  local function passes(forward)
    return span(t, function(d)
      local sum = 0.0
      for _, op in t:queue(d) do
        if (op.type == "forward") == forward then sum = sum + op.stop - op.start end
      end
      return sum
    end)
  end
  local optimizer = { lists.optimizer.length, lists.optimizer.length }
  return {
    { "iteration", { t.iteration_time, t.iteration_time } }, { "forward-backward", { t.makespan, t.makespan } },
    { "forward-compute", passes(true) }, { "backward-compute", passes(false) },
    { "params-all-gather", span(t, function(d) return lists.before[d].length end) },
    { "all-grads-sync", span(t, function(d) return lists.after[d].length end) }, { "optimizer", optimizer },
  }
end

local function of_timers(t, path)
  local found, rows, known = timers.read(path), {}, {}
  for _, one in ipairs(timers_of(t)) do
    local measured = found[one[1]]
    known[one[1]] = true
    if measured then
      rows[#rows + 1] = {
        kind = one[1], predicted = one[2][2], least = one[2][1], measured = measured[2], measured_least = measured[1],
        difference = measured[2] - one[2][2], ratio = measured[2] > 0 and one[2][2] / measured[2] or nil,
      }
    end
  end
  local others = {}
  for _, name in ipairs(check.names(found)) do
    if not known[name] then others[#others + 1] = name end
  end
  if #rows == 0 then
    check.fail("%s: none of its timers (%s) is one that is predicted", path, table.concat(others, ", "))
  end
  return { kind = "timers", rows = rows, others = others }
end

local OPTIONS <const> = { device = check.integer { min = 1, optional = true } }

--- A measured step beside a model's timeline.
---@param t tperf.timeline  of tperf.train { simulate = true }
---@param path string  a trace of PyTorch's profiler (.json), or a log with Megatron-LM's timers
---@param options? table  device: whose trace it is (else by the rank in the trace, else the first)
---@return table  { kind = "trace" or "timers", rows = { { kind, predicted, measured, difference, ratio } … } }, seconds
---  of a step, what differs most first, the whole step last; of a trace also device, rank, steps, and predicted and
---  measured, the events of both
function beside.of(t, path, options)
  local o = check.record("timeline:beside", options or {}, OPTIONS)
  if not t.configuration then check.fail "timeline:beside: a timeline of tperf.train { simulate = true } is needed" end
  if o.device and o.device > t.devices then
    check.fail("timeline:beside: 'device' is %d, but there are %d", o.device, t.devices)
  end
  if path:find "%.json$" then return of_trace(t, path, o) end
  local head = text_file.read(path)
  if timers.recognise(head) then return of_timers(t, path) end
  check.fail("%s: is neither a trace of PyTorch's profiler (.json) nor a log with Megatron-LM's timers "
    .. "(--timing-log-level 1)", path)
end

return beside
