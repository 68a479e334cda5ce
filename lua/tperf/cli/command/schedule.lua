local options = require "tperf.cli.options"
local schedule = require "tperf.schedule"
local output = require "tperf.report.output"

local PASS = { f = "forward", b = "backward", d = "backward_input", w = "backward_weight", o = "overlapped" }

local IS_PASS = {}
for _, pass in pairs(PASS) do IS_PASS[pass] = true end

-- { f = 1, b = 2 } -> { forward = 1, backward = 2 }.
local function read_times(given)
  local times = {}
  for name, number in pairs(given or {}) do
    local pass = PASS[name] or name
    if not IS_PASS[pass] then return nil, ("--times: '%s' is none of f, b, d, w, o"):format(name) end
    if times[pass] then return nil, ("--times: %s is given twice"):format(pass) end
    times[pass] = number
  end
  return times
end

local function scaled(values, factor)
  local out = {}
  for name, value in pairs(values) do out[name] = value * factor end
  return out
end

-- Times and memory are a device's share of the model; a schedule with several stages per device divides them, so that
-- all compared do the same work.
local function simulate(name, values, times)
  local definition = schedule.get(name)
  local stages = not definition.stages_per_device and values.stages or
    schedule.default_stages(definition, values.devices)
  local share = values.devices / stages
  if next(times) == nil then times = { forward = 1.0, backward = 2.0 } end
  return schedule {
    schedule = name, devices = values.devices, stages = stages, microbatches = values.microbatches,
    group_size = definition.grouped and values.group_size or nil, times = scaled(times, share), p2p = values.p2p,
    memory = { forward = share }, memory_limit = values.memory_limit, rules = values.rules,
  }
end

-- "out.svg" -> "out-1f1b.svg" where several schedules are written.
local function file_of(path, name, count)
  if count == 1 then return path end
  local stem, extension = path:match "^(.*[^/])(%.[^./]*)$"
  return (stem or path) .. "-" .. name .. (extension or "")
end

local function write_files(timelines, values)
  for _, t in ipairs(timelines) do
    if values.svg then output.write(file_of(values.svg, t.schedule, #timelines), t:svg()) end
    if values.trace then output.write(file_of(values.trace, t.schedule, #timelines), t:trace()) end
  end
  if values.html then output.write(values.html, timelines[1]:html { with = { table.unpack(timelines, 2) } }) end
end

local function rows_of(timelines)
  local rows, best = {}, math.huge
  for _, t in ipairs(timelines) do best = math.min(best, t.makespan) end
  for i, t in ipairs(timelines) do
    rows[i] = {
      schedule = t.schedule, devices = t.devices, stages = t.stages, microbatches = t.microbatches,
      makespan = t.makespan, slower = t.makespan / best - 1, bubble = t.bubble_rate,
      longest_stage = t.longest_stage_time, peak_memory = t:most "peak_memory",
    }
  end
  return rows
end

return {
  summary = "compare pipeline schedules",
  arguments = "NAME ...",
  details = [[
NAMEs are of `tperf list schedules`. Times are what one micro-batch takes on one device, in
any unit; schedules with several stages per device divide them among the stages. Peak memory
is in micro-batches of a device's activations. Files of several schedules are named after them.]],
  options = options.join({
    { long = "devices", short = "d", value = "N", kind = "integer", help = "devices in the pipeline" },
    { long = "microbatches", short = "m", value = "N", kind = "integer", help = "micro-batches per iteration" },
    { long = "stages", value = "N", kind = "integer", help = "stages, where the schedule leaves them open" },
    { long = "group-size", value = "N", kind = "integer", help = "micro-batches per group of interleaved schedules" },
    { long = "times", value = "f=1,b=2", kind = "pairs",
      help = "forward f, backward b, its halves d (input) and w (weight), overlapped o" },
    { long = "p2p", value = "TIME", kind = "number", help = "from a stage to the next (default 0)" },
    { long = "memory-limit", value = "N", kind = "number", help = "refuse a higher peak; zb_auto keeps to it" },
    { long = "rules", value = "NAME", help = "default, pp-visualization or zero-bubble" },
    { long = "text", help = "draw the timelines on the terminal" },
    { long = "svg", value = "FILE", writes = "file", help = "write pictures" },
    { long = "html", value = "FILE", writes = "file", help = "write one page that compares all" },
    { long = "trace", value = "FILE", writes = "file",
      help = "write Chrome traces, for Perfetto (times in seconds)" },
  }, options.formats),
  run = function(values, arguments)
    if not arguments[1] then return false, "NAME is missing: " .. table.concat(schedule.names(), ", ") end
    for _, name in ipairs { "devices", "microbatches" } do
      if not values[name] then return false, ("--%s is missing"):format(name) end
      if values[name] < 1 then return false, ("--%s must be at least 1, got %d"):format(name, values[name]) end
    end
    local times, message = read_times(values.times)
    if not times then return false, message end
    local timelines = {}
    for i, name in ipairs(arguments) do timelines[i] = simulate(name, values, times) end
    write_files(timelines, values)
    require "tperf.cli.table"(values, rows_of(timelines), {
      { key = "schedule" }, { key = "devices" }, { key = "stages" }, { key = "microbatches" }, { key = "makespan" },
      { key = "slower", unit = "%" }, { key = "bubble", unit = "%" }, { key = "longest_stage" },
      { key = "peak_memory" },
    })
    if values.text and not values.json and not values.csv then
      for _, t in ipairs(timelines) do io.stdout:write("\n", t:text()) end
    end
  end,
}
