--- A timeline as Chrome trace events (the JSON that Perfetto and chrome://tracing open): a thread per device, a counter
-- of what it holds.
-- Format: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
local check = require "tperf.check"
local json = require "tperf.report.json"
local number = require "tperf.report.number"
local palette = require "tperf.timeline.palette"

local OPTIONS = { unit = check.choice { { "s", "ms", "us" }, default = "s" } }
local MICROSECONDS = { s = 1e6, ms = 1e3, us = 1.0 }

---@param t table         the timeline
---@param options? table  unit: what one unit of its times is, "s" (default), "ms" or "us"
---@return string
return function(t, options)
  local scale = MICROSECONDS[check.record("timeline:trace", options or {}, OPTIONS).unit]
  local events = {}
  local function add(format, ...) events[#events + 1] = format:format(...) end
  local function time(x) return number.text(x * scale) end

  add('{"ph":"M","pid":1,"name":"process_name","args":{"name":%s}}', json.quote(t.schedule))
  for d = 1, t.devices do
    add('{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":"device %d"}}', d, d)
    add('{"ph":"M","pid":1,"tid":%d,"name":"thread_sort_index","args":{"sort_index":%d}}', d, d)
  end
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
    for _, step in ipairs(t:memory(d)) do
      add('{"ph":"C","pid":1,"ts":%s,"name":"device %d holds","args":{"activations":%s}}', time(step.time), d,
        number.text(step.memory))
    end
  end
  return '{"displayTimeUnit":"ms","traceEvents":[\n' .. table.concat(events, ",\n") .. "\n]}\n"
end
