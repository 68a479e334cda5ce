--- A timeline as Chrome trace events (JSON for Perfetto and chrome://tracing): a thread per device and a counter of its
-- memory; for a model's timeline also threads for each of the device's resources, with every task.
-- Format: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
local check = require "tperf.base.check"
local json = require "tperf.output.json"
local number = require "tperf.output.number"
local palette = require "tperf.timeline.picture.palette"
local task_lists = require "tperf.timeline.tasks"

local OWN_ROWS <const> = 1 << 21 -- the first thread of passes of a schedule's own kinds
local MOST_TASKS = 500000 -- about 100 MB

local OPTIONS = {
  tasks = check.boolean { optional = true },
  unit = check.choice { { "s", "ms", "us" }, default = "s" },
}
local MICROSECONDS = { s = 1e6, ms = 1e3, us = 1.0 }

-- A task's bytes by tier, of a network of more than two.
local function through(tiers)
  local list = {}
  for i, tier in ipairs(tiers or {}) do
    list[i] = ("%s:%s"):format(json.quote(tier.name), number.text(tier.bytes))
  end
  return list[1] and (',"tiers":{%s}'):format(table.concat(list, ",")) or ""
end

-- Adds an event for each task on each resource that it occupies: one process per device, and as many threads for a
-- resource as tasks share it at a time, since the events of one thread must not overlap.
local function add_tasks(t, add, time)
  local count = task_lists.count(t)
  if count > MOST_TASKS then
    check.fail("timeline:trace: %d tasks are too many for a trace to open (at most %d): trace fewer micro-batches or "
      .. "stages, or passes alone with tasks = false", count, MOST_TASKS)
  end
  local resources = task_lists.used(t)
  for d = 1, t.devices do
    add('{"ph":"M","pid":%d,"name":"process_name","args":{"name":"device %d"}}', 1 + d, d)
    local busy, threads = {}, 0 -- resource -> list of { until, thread }
    for _, resource in ipairs(resources) do busy[resource] = {} end
    local function thread_of(resource, task)
      local rows = busy[resource]
      for _, row in ipairs(rows) do
        if row.stop <= task.start then
          row.stop = task.stop
          return row.thread
        end
      end
      threads = threads + 1
      rows[#rows + 1] = { stop = task.stop, thread = threads }
      add('{"ph":"M","pid":%d,"tid":%d,"name":"thread_name","args":{"name":"%s%s"}}', 1 + d, threads,
        task_lists.titles[resource], #rows > 1 and (" %d"):format(#rows) or "")
      return threads
    end
    for task in task_lists.each(t, d) do
      local where = task.stage and ('"stage":%d,"microbatch":%d,'):format(task.stage, task.microbatch) or ""
      if task.layer then where = ('%s"layer":%d,'):format(where, task.layer) end
      for _, resource in ipairs(task.resources) do
        add('{"ph":"X","pid":%d,"tid":%d,"ts":%s,"dur":%s,"name":%s,"cat":"%s","args":{%s"alone":%s,"fast_bytes":%s,'
          .. '"nic_bytes":%s%s}}', 1 + d, thread_of(resource, task), time(task.start), time(task.stop - task.start),
          json.quote(task.text), task.kind, where, time(task.seconds), number.text(task.fast_bytes),
          number.text(task.nic_bytes), through(task.tiers))
      end
    end
  end
end

---@param t table         the timeline
---@param options? table  unit: the unit of its times, "s" (default), "ms" or "us"; tasks = false: passes only
---@return string
return function(t, options)
  local o = check.record("timeline:trace", options or {}, OPTIONS)
  local scale = MICROSECONDS[o.unit]
  local with_tasks = o.tasks or o.tasks == nil and t.step ~= nil
  local events = {}
  local function add(format, ...) events[#events + 1] = format:format(...) end
  local function time(x) return number.text(x * scale) end

  add('{"ph":"M","pid":1,"name":"process_name","args":{"name":%s}}', json.quote(t.schedule))
  for d = 1, t.devices do
    add('{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":"device %d"}}', d, d)
    add('{"ph":"M","pid":1,"tid":%d,"name":"thread_sort_index","args":{"sort_index":%d}}', d, d)
  end
  if with_tasks then add_tasks(t, add, time) end
  local own_row = OWN_ROWS
  for d = 1, t.devices do
    local forward
    for _, op in t:queue(d) do
      local name = ("%s%d"):format(palette.letter[op.type], op.microbatch)
      if op.overlapped == "forward" then -- one event for the pair
        forward = op
      else
        local args = ('"stage":%d,"microbatch":%d'):format(op.stage, op.microbatch)
        if op.overlapped then
          name = ("F%d+%s"):format(forward.microbatch, name)
          args = ('"forward":{"stage":%d,"microbatch":%d},"backward":{%s}'):format(forward.stage,
            forward.microbatch, args)
        end
        add('{"ph":"X","pid":1,"tid":%d,"ts":%s,"dur":%s,"name":"%s","cat":"%s","args":{%s}}', d, time(op.start),
          time(op.stop - op.start), name, op.overlapped and "overlapped" or op.type, args)
      end
    end
    for _, lane in ipairs(t:own_lanes(d)) do
      own_row = own_row + 1
      local row = own_row
      add('{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":%s}}', row,
        json.quote(("device %d, %s"):format(d, lane.name)))
      add('{"ph":"M","pid":1,"tid":%d,"name":"thread_sort_index","args":{"sort_index":%d}}', row, d)
      for _, pass in ipairs(lane) do
        add('{"ph":"X","pid":1,"tid":%d,"ts":%s,"dur":%s,"name":%s,"cat":"own","args":{}}', row, time(pass.start),
          time(pass.stop - pass.start), json.quote(pass.kind .. (pass.microbatch or "")))
      end
    end
    for _, step in ipairs(t:memory(d)) do
      add('{"ph":"C","pid":1,"ts":%s,"name":"device %d holds","args":{"%s":%s}}', time(step.time), d,
        t.kept and "bytes" or "activations",
        number.text(step.memory))
    end
  end
  return '{"displayTimeUnit":"ms","traceEvents":[\n' .. table.concat(events, ",\n") .. "\n]}\n"
end
