local options = require "tperf.cli.options"
local refusal = require "tperf.refusal"
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

-- The names, each once; commas part them as well as blanks do.
local function names_of(arguments)
  local names, seen = {}, {}
  for name in table.concat(arguments, ","):gmatch "[^,]+" do
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  return names
end

-- An option that was given and that none of the schedules takes, or nil.
local function idle_option(names, values)
  local staged, grouped = false, false
  for _, name in ipairs(names) do
    local definition = schedule.get(name)
    staged, grouped = staged or not definition.stages_per_device, grouped or definition.grouped
  end
  return values.stages and not staged and "stages" or values.group_size and not grouped and "group-size" or nil
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

local COLUMNS = {
  { key = "schedule" }, { key = "devices" }, { key = "stages" }, { key = "microbatches" }, { key = "makespan" },
  { key = "slower", unit = "%" }, { key = "bubble", unit = "%" }, { key = "longest_stage" },
  { key = "peak_memory" }, { key = "reason" },
}

-- The timelines of the schedules that take these sizes, and rows with reasons for the others; raises where none does.
local function simulate_all(names, values, times)
  local timelines, refused = {}, {}
  for _, name in ipairs(names) do
    local t, reason = refusal.attempt(simulate, name, values, times)
    timelines[#timelines + 1] = t
    if not t then
      refused[#refused + 1] = {
        schedule = name, devices = values.devices, microbatches = values.microbatches, reason = reason,
      }
    end
  end
  if #timelines == 0 then refusal.raise("%s", refused[1].reason) end
  return timelines, refused
end

return {
  summary = "compare pipeline schedules",
  arguments = "NAME ...",
  from = { "schedules" },
  details = [[
NAMEs are of `tperf list schedules`. Times are what one micro-batch takes on one device, in
any unit; schedules with several stages per device divide them among the stages. Peak memory
is in micro-batches of a device's activations. Files of several schedules are named after them.]],
  options = options.join({
    { long = "devices", short = "d", value = "N", kind = "integer", min = 1, help = "devices in the pipeline" },
    { long = "microbatches", short = "m", value = "N", kind = "integer", min = 1,
      help = "micro-batches per iteration" },
    { long = "stages", value = "N", kind = "integer", help = "stages, where the schedule leaves them open" },
    { long = "group-size", value = "N", kind = "integer", help = "micro-batches per group of interleaved schedules" },
    { long = "times", value = "f=1,b=2", kind = "pairs",
      help = "forward f, backward b, its halves d (input) and w (weight), overlapped o" },
    { long = "p2p", value = "TIME", kind = "number", help = "from a stage to the next (default 0)" },
    { long = "memory-limit", value = "N", kind = "number", help = "refuse a higher peak; zb_auto keeps to it" },
    { long = "rules", value = "NAME", from = { "default", "pp-visualization", "zero-bubble" },
      help = "default, pp-visualization or zero-bubble" },
    { long = "text", help = "draw the timelines on the terminal" },
    { long = "svg", value = "FILE", help = "write pictures" },
    { long = "html", value = "FILE", help = "write one page that compares all" },
    { long = "trace", value = "FILE", help = "write Chrome traces, for Perfetto (times in seconds)" },
  }, options.formats),
  run = function(values, arguments)
    if not arguments[1] then return false, "NAME is missing: " .. table.concat(schedule.names(), ", ") end
    local missing = options.missing(values, { "devices", "microbatches" })
    if missing then return false, missing end
    local times, message = read_times(values.times)
    if not times then return false, message end
    local names = names_of(arguments)
    local idle = idle_option(names, values)
    if idle then return false, ("--%s means nothing to %s"):format(idle, table.concat(names, ", ")) end
    local timelines, refused = simulate_all(names, values, times)
    write_files(timelines, values)
    local for_people = not values.json and not values.csv
    local rows = rows_of(timelines)
    if not for_people then table.move(refused, 1, #refused, #rows + 1, rows) end
    require "tperf.cli.table"(values, rows, COLUMNS)
    for _, row in ipairs(for_people and refused or {}) do io.stdout:write("\n", row.reason, "\n") end
    for _, t in ipairs(values.text and for_people and timelines or {}) do io.stdout:write("\n", t:text()) end
  end,
}
