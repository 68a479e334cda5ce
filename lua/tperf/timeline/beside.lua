--- Compares a measured step with the predicted one: the time of each kind of kernel and collective in both, the
-- differences, and both on one time axis. Measurements are traces of PyTorch's profiler, of one GPU, and logs with
-- Megatron-LM's timers.
local check = require "tperf.base.check"
local kineto = require "tperf.import.kineto"
local ops = require "tperf.timeline.beside_ops"
local ranks = require "tperf.timeline.ranks"
local tasks = require "tperf.timeline.tasks"
local text_file = require "tperf.input.text"
local timers = require "tperf.import.megatron_timers"
local work = require "tperf.timeline.work"

local beside = {}

-- The seconds covered by the union of intervals, which are sorted by start.
local function covered(list)
  local sum, stop = 0.0, -math.huge
  for _, one in ipairs(list) do
    if one.stop > stop then
      sum, stop = sum + one.stop - math.max(one.start, stop), one.stop
    end
  end
  return sum
end

-- The part of a device's step that a trace covers: { from, to, wants(task) }. A chunk's is its middle pass.
local function part_of(t, device, part)
  if part == "step" then return { from = 0.0, to = t.iteration_time, wants = function() return true end } end
  local found = {}
  for _, op in t:queue(device) do
    local first = part == "pair" and op.overlapped == "forward" or op.type == part and not op.overlapped
    if first then
      found[#found + 1] = { op }
    elseif part == "pair" and op.overlapped == "backward" then
      table.insert(found[#found], op)
    end
  end
  local some = found[(#found + 1) // 2]
  if not some then
    check.fail("timeline:beside: 'part' is \"%s\", but device %d has none under the schedule %s", part, device,
      t.schedule)
  end
  return {
    from = some[1].start, to = some[1].stop, wants = function(task)
      for _, op in ipairs(some) do
        if task.pass == op.type and task.stage == op.stage and task.microbatch == op.microbatch then return true end
      end
      return false
    end,
  }
end

-- The predicted tasks of a device: as events like those of a trace, and as ops.expected describes them.
local function predicted(t, device, part)
  local counts, events, expected = work.counts(t.configuration), {}, {}
  for task in tasks.each(t, device) do
    local kind = part.wants(task) and work.kind(task, counts, t.configuration)
    if kind then
      events[#events + 1] = {
        name = task.text, kind = kind, start = task.start - part.from, stop = task.stop - part.from,
        seconds = task.seconds,
      }
      table.move(ops.expected(task, counts, kind), 1, 2, #expected + 1, expected)
    end
  end
  return events, expected
end

local function sums(events)
  local sum = {}
  for _, e in ipairs(events) do sum[e.kind] = (sum[e.kind] or 0) + (e.seconds or e.stop - e.start) end
  return sum
end

local ROUNDING <const> = 1e-9 -- relative to a step: sums of thousands of tasks

local function idle(step, busy) return step - busy > ROUNDING * step and step - busy or 0.0 end

-- One row per kind, the largest difference first, the whole step last.
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

-- The device that the trace belongs to: the one asked for, else that of the trace's rank, else the first.
local function device_of(t, measured, asked)
  if asked or not measured.rank then return asked or 1 end
  local grid = ranks.of(t.configuration)
  return measured.rank < grid.total and grid:at(measured.rank, "pp") + 1 or 1
end

local function of_trace(t, path, o)
  local measured = kineto.read(path)
  local device = device_of(t, measured, o.device)
  local part = part_of(t, device, o.part)
  local ours, expected = predicted(t, device, part)
  local time = part.to - part.from
  local list, missing, unmatched, whole = ops.of(expected, measured.events, measured.steps)
  return {
    kind = "trace", device = device, rank = measured.rank, steps = measured.steps, predicted = ours,
    measured = measured.events, predicted_time = time, measured_time = measured.step_time, part = o.part,
    rows = rows_of(ours, measured.events, measured.steps, time, measured.step_time),
    ops = list, missing = missing, unmatched = unmatched, whole = whole,
  }
end

-- The smallest and the largest value over all devices.
local function span(t, value)
  local least, most = math.huge, 0.0
  for d = 1, t.devices do
    local x = value(d)
    least, most = math.min(least, x), math.max(most, x)
  end
  return { least, most }
end

-- The predicted values of Megatron-LM's timers.
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

--- The parts of a step that a trace may cover: all of it, one pass of a chunk, or an overlapped pair (DualPipe).
beside.parts = { "step", "pair", "forward", "backward" }

local OPTIONS <const> = {
  device = check.integer { min = 1, optional = true }, part = check.choice { beside.parts, default = "step" },
}

--- Compares a measured step with a model's timeline.
---@param t tperf.timeline  from tperf.train { simulate = true }
---@param path string  a trace of PyTorch's profiler (.json), or a log with Megatron-LM's timers
---@param options? table  device: the one traced (default: by the trace's rank, else the first); part: the part of a
---  step that the trace covers: "step", one chunk's "forward" or "backward", or a "pair" of chunks that overlap
---@return table  { kind = "trace" or "timers", rows = { { kind, predicted, measured, difference, ratio } … } }, in
---  seconds per step, the largest difference first, the whole step last; for a trace also device, rank, steps,
---  predicted and measured (the events of both), and op by op: ops = { { op, pass, kind, tasks, kernels, predicted,
---  measured, difference, ratio } … }, missing (ops without a kernel), unmatched = { { kernel, kind, kernels,
---  measured } … }, whole (false if parts of the trace were too long to match)
function beside.of(t, path, options)
  local o = check.record("timeline:beside", options or {}, OPTIONS)
  if not t.configuration then check.fail "timeline:beside: a timeline of tperf.train { simulate = true } is needed" end
  if o.device and o.device > t.devices then
    check.fail("timeline:beside: 'device' is %d, but there are %d", o.device, t.devices)
  end
  if path:find "%.json$" then return of_trace(t, path, o) end
  if o.part ~= "step" then check.fail("timeline:beside: 'part' is of a trace; a log of timers has whole steps") end
  local head = text_file.read(path)
  if timers.recognise(head) then return of_timers(t, path) end
  check.fail("%s: is neither a trace of PyTorch's profiler (.json) nor a log with Megatron-LM's timers "
    .. "(--timing-log-level 1)", path)
end

return beside
