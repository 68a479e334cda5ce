local check = require "tperf.base.check"
local config_file = require "tperf.cli.ask.config_file"
local options = require "tperf.input.options"
local outputs = require "tperf.cli.outputs"
local refusal = require "tperf.base.refusal"
local required = require "tperf.cli.sandbox.required"
local schedule = require "tperf.question.schedule"
local output = require "tperf.output.file"
local render = require "tperf.output.render"
local terminal = require "tperf.output.terminal"

local PASS = { f = "forward", b = "backward", d = "backward_input", w = "backward_weight", o = "overlapped" }

local IS_PASS = {}
for _, pass in pairs(PASS) do IS_PASS[pass] = true end

-- Parses "0.8:1.2" to { 0.8, 1.2 }, a single number to itself.
local function numbers_of(text)
  local list = {}
  for item in (text .. ":"):gmatch "([^:]*):" do
    local number = tonumber(item)
    if not number or number - number ~= 0 then return nil end
    list[#list + 1] = number
  end
  return #list > 1 and list or list[1]
end

-- Converts the keys of a map by stage, strings in files, to numbers.
local function by_stage(map)
  local list = {}
  for key, value in pairs(map) do
    local stage = math.tointeger(tonumber(key))
    if not stage or stage < 1 or type(value) ~= "number" then return nil end
    list[stage] = value
  end
  return list
end

-- Parses "f=1,b=2", or such a map from a file, to { forward = 1, backward = 2 }.
local function read_times(given, option, one)
  local map, times = given, {}
  if type(given) == "string" then
    map = {}
    for item in (given .. ","):gmatch "([^,]*)," do
      local name, text = item:match "^([%w_]+)=(.+)$"
      if not name then return nil, ("--%s: NAME=NUMBER is needed, got '%s'"):format(option, item) end
      if map[name] ~= nil then return nil, ("--%s: '%s' is given twice"):format(option, name) end
      map[name] = numbers_of(text) or text
    end
  elseif given ~= nil and type(given) ~= "table" then
    return nil, ("--%s: times by pass are needed, got %s"):format(option, check.show(given))
  end
  for name, value in pairs(map or {}) do
    local pass = PASS[name] or name
    if not IS_PASS[pass] then return nil, ("--%s: '%s' is none of f, b, d, w, o"):format(option, tostring(name)) end
    if times[pass] then return nil, ("--%s: %s is given twice"):format(option, pass) end
    if type(value) == "table" and not one then value = by_stage(value) end
    if type(value) ~= "number" and (one or type(value) ~= "table") then
      return nil, ("--%s: %s takes a number%s, got %s"):format(option, pass,
        one and " (--times-per-stage takes one for each stage)" or ", or one for each stage as in 0.8:1.2",
        check.show(value))
    end
    times[pass] = value
  end
  return times
end

local function scaled(values, factor)
  local out = {}
  for name, value in pairs(values) do out[name] = value * factor end
  return out
end

-- --times and --memory are per device; a schedule with several stages per device divides them, so that all schedules
-- compared do the same work. --times-per-stage are used as given.
local function simulate(name, values, times)
  local definition = schedule.get(name)
  local stages = not definition.stages_per_device and values.stages or
    schedule.default_stages(definition, values.devices)
  local share = values.devices / stages
  local of_device = times.of_device
  if not of_device and not times.of_stage then of_device = { forward = 1.0, backward = 2.0 } end
  return schedule {
    schedule = name, devices = values.devices, stages = stages, microbatches = values.microbatches,
    group_size = definition.grouped and values.group_size or nil,
    times = times.of_stage or scaled(of_device, share), p2p = values.p2p, memory = { forward = share },
    memory_limit = values.memory_limit, rules = values.rules,
  }
end

-- "out.svg" -> "out-1f1b.svg" if several schedules are written.
local function file_of(path, name, count)
  if count == 1 then return path end
  local stem, extension = path:match "^(.*[^/])(%.[^./]*)$"
  return (stem or path) .. "-" .. name .. (extension or "")
end

local function write_files(timelines, values)
  for _, t in ipairs(timelines) do
    if values.svg then render.write(file_of(values.svg, t.schedule, #timelines), t:svg()) end
    if values.trace then output.write(file_of(values.trace, t.schedule, #timelines), t:trace()) end
  end
  if values.html then output.write(values.html, timelines[1]:html { with = { table.unpack(timelines, 2) } }) end
end

-- The distinct names in arguments, separated by commas or blanks.
local function names_of(arguments)
  local names, seen = {}, {}
  for name in table.concat(arguments, ","):gmatch "[^,]+" do
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  return names
end

-- An option that none of the schedules uses, or nil.
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

-- Merges the file of --config; the command line takes precedence. Returns nil and a message if it is invalid.
local function with_file(values, arguments, declared)
  local OWN <const> = { schedules = true, times = true, times_per_stage = true }
  local merged, message = config_file.read(values.config, declared, OWN)
  if not merged then return nil, message end
  if merged.config then return nil, values.config .. ": a file of options names no further one" end
  if values.times or values.times_per_stage then merged.times, merged.times_per_stage = nil, nil end
  for name, value in pairs(values) do merged[name] = value end
  local names = arguments[1] and arguments or merged.schedules or {}
  if type(names) == "string" then names = { names } end
  if type(names) ~= "table" then return nil, values.config .. ": 'schedules' must be a list of names" end
  return merged, names
end

-- The times, given in one of two ways; nil and a message.
local function times_of(values)
  if values.times and values.times_per_stage then return nil, "--times and --times-per-stage exclude each other" end
  local of_device, message = read_times(values.times, "times", true)
  if not of_device then return nil, message end
  local of_stage, problem = read_times(values.times_per_stage, "times-per-stage", false)
  if not of_stage then return nil, problem end
  return { of_device = next(of_device) and of_device, of_stage = next(of_stage) and of_stage }
end

-- What a bubble is, by the rules.
local BUBBLE <const> = {
  default = "(bubble = makespan / a device's share of the work - 1)",
  ["pp-visualization"] = "(bubble = the part of longest_stage in which the busiest device waits)",
}

local COLUMNS = {
  { key = "schedule" }, { key = "devices" }, { key = "stages", wide = 0.5 }, { key = "microbatches", wide = 0.7 },
  { key = "makespan" },
  { key = "slower", unit = "%" }, { key = "bubble", unit = "%" }, { key = "longest_stage", wide = 1 },
  { key = "peak_memory" }, { key = "reason" },
}

-- The timelines of the schedules that allow these sizes, and rows with reasons for the others. Raises if none does.
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

-- Returns { timelines, refused, rows, columns }; nil and a message if an option is wrong.
local function compare(values, arguments, meant)
  local missing = options.missing(values, { "devices", "microbatches" })
  if missing then return nil, missing end
  local times, message = times_of(values)
  if not times then return nil, message end
  local names = names_of(arguments)
  local idle = idle_option(names, meant or values)
  if idle then return nil, ("--%s means nothing to %s"):format(idle, table.concat(names, ", ")) end
  local timelines, refused = simulate_all(names, values, times)
  return { timelines = timelines, refused = refused, rows = rows_of(timelines), columns = COLUMNS }
end

local command
command = {
  compare = compare,
  summary = "compare pipeline schedules",
  arguments = "NAME ...",
  from = { "schedules" },
  example = "tperf schedule 1f1b,zb_h1 -d 4 -m 8 --text",
  details = [[
For NAMEs see `tperf list schedules`. Times are in any unit: --times are those of a micro-batch
on one device, which schedules with several stages per device divide among the stages,
so that all compared do the same work; --times-per-stage are those of each stage,
whatever the schedule. Peak memory is in micro-batches of a device's activations. Files of
several schedules are named after them. A FILE of --config has options by their names, times
also by stage (from 1), and `schedules`; the command line takes precedence:
  { schedules: [1f1b, zb_h1], devices: 4, microbatches: 16,
    times_per_stage: { f: [1, 2, 1, 1], b: 2 } }]],
  options = options.join({
    required.option,
    { long = "devices", short = "d", value = "N", kind = "integer", min = 1, help = "devices in the pipeline" },
    { long = "microbatches", short = "m", value = "N", kind = "integer", min = 1,
      help = "micro-batches per iteration" },
    { long = "stages", value = "N", kind = "integer", help = "stages, if the schedule leaves them open" },
    { long = "group-size", value = "N", kind = "integer", help = "micro-batches per group of interleaved schedules" },
    { long = "times", value = "f=1,b=2",
      help = "per device: forward f, backward b, its halves d (input), w (weight), pair o" },
    { long = "times-per-stage", value = "f=1,b=2", help = "per stage; f=0.8:1.2:1:1 for each of four" },
    { long = "config", short = "c", value = "FILE", help = "a YAML or JSON file with these options" },
    { long = "p2p", value = "TIME", kind = "number", help = "from one stage to the next (default 0)" },
    { long = "memory-limit", value = "N", kind = "number", help = "refuse a higher peak; zb_auto keeps to it" },
    { long = "rules", value = "NAME", from = { "default", "pp-visualization", "zero-bubble" },
      help = "default, pp-visualization or zero-bubble" },
    { long = "text", help = "draw the timelines in the terminal" },
    { long = "svg", value = "FILE", writes = "file", help = "write pictures (.svg, .png, .pdf)" },
    { long = "html", value = "FILE", writes = "file", help = "write one page that compares all" },
    { long = "trace", value = "FILE", writes = "file",
      help = "write Chrome traces, for Perfetto (times in seconds)" },
  }, options.formats),
  run = function(values, arguments)
    local meant = values -- only these must apply to a schedule; a file may hold options for others
    if values.config then
      local merged, names = with_file(values, arguments, command.options)
      if not merged then return false, names end
      meant = arguments[1] and values or merged
      values, arguments = merged, names
      outputs.check(command, values)
      if values.json and values.csv then return false, "--json and --csv exclude each other" end
    end
    if not arguments[1] then return false, "NAME is missing: " .. table.concat(schedule.names(), ", ") end
    local answer, message = compare(values, arguments, meant)
    if not answer then return false, message end
    local timelines, refused, rows = answer.timelines, answer.refused, answer.rows
    write_files(timelines, values)
    local for_people = not values.json and not values.csv
    if not for_people then table.move(refused, 1, #refused, #rows + 1, rows) end
    require "tperf.cli.answer.table"(values, rows, COLUMNS)
    if for_people and BUBBLE[values.rules or "default"] then print(BUBBLE[values.rules or "default"]) end
    for _, row in ipairs(for_people and refused or {}) do
      local named = row.reason:find(row.schedule, 1, true)
      terminal.say(("\n%s%s"):format(named and "" or row.schedule .. ": ", row.reason))
    end
    local columns = terminal.columns()
    for _, t in ipairs(values.text and for_people and timelines or {}) do
      io.stdout:write("\n", t:text { columns = columns })
    end
  end,
}

return command
