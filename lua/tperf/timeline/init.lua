--- A simulated schedule.
local check = require "tperf.base.check"
local costs = require "tperf.describe.schedule.costs"
local neutral = require "tperf.base.entry.neutral"
local render = require "tperf.output.render"
local units = require "tperf.base.units"

---@class tperf.timeline a simulated schedule, in the caller's units of time and memory
---@field schedule string
---@field devices integer
---@field stages integer
---@field microbatches integer
---@field ops integer number of passes
---@field makespan number from 0 to the last stop
---@field ideal_time number all the work divided evenly, overlapped passes counted once; the rules may differ
---@field bubble_rate number (makespan - ideal_time) / ideal_time; the rules may differ
---@field longest_stage_time number the longest time from a device's first start to its last stop
---@field busy_time number[] by device
---@field last_stop number[] by device: when its last pass ends
---@field peak_activations integer[] by device
---@field peak_memory number[] by device
---@field fullest number[] by device: the most held while a pass runs, including temporary buffers
---@field fullest_at integer[] by device: that pass's position in its queue
---@field own? table[] passes of the schedule's own kinds: { device, kind, resource, stage, microbatch, start, stop }
---@field passing? table temporary buffers that exist only while a pass runs: bytes by pass and stage
---@field slack? number models only: bytes that the allocator reserves beyond each that it gives out
---@field kept? table[] models only, by device: memory held throughout: weights … and total
---@field peak? table models only: the moment of peak memory on the fullest device, and its contents
---@field step? table|function models only: the lists of tasks that timeline:tasks reads
---@field iteration_time? number models only: with data-parallel communication
---@field units { time?: string, memory?: string } "s" and "bytes" for a model's schedule; else empty
---@field configuration? tperf.configuration from tperf.train, or from tperf.schedule with a model
local timeline = {}
local metatable = { __index = timeline }

timeline.PASSES = { "forward", "backward", "backward_input", "backward_weight" }
local NUMBER = {}
for i, name in ipairs(timeline.PASSES) do NUMBER[name] = i - 1 end

local function bubble_rate(t, rules)
  local kind = rules.bubble
  if kind == "longest_stage" then
    local busiest = costs.most(t.busy_time)
    return (t.longest_stage_time - busiest) / t.longest_stage_time
  end
  local idle = t.makespan - t.ideal_time
  if not rules.ideal_by_whole_backward then idle = math.max(idle, 0.0) end -- negative only by rounding
  return idle / t.ideal_time
end

--- Made by tperf.schedule.
---@param s table          the filled schedule
---@param functions table  the core's
---@param summary table    the core's summary of the simulation
function timeline.new(s, functions, summary)
  local t = setmetatable(summary, metatable)
  t.schedule, t.devices, t.stages, t.microbatches = s.schedule, s.devices, s.stages, s.microbatches
  t.units, t.own = {}, s.own_passes and s.own_passes[1] and s.own_passes or nil
  t.memory_change, t.passing, t.at, t.find = s.memory, s.passing, functions.at, functions.find
  t.memory_scale = s.factors and s.factors.memory
  if t.makespan == 0 then check.fail("tperf.schedule: all times are 0: there is nothing to simulate") end
  t.bubble_rate = bubble_rate(t, s.rules)
  if t.bubble_rate == math.huge then
    check.fail("tperf.schedule: the passes take no time, or next to none beside the messages")
  end
  return t
end

--- What the timeline shows: the schedule; of a model in one stage, how its replicas share the work.
---@return string
function timeline:title()
  local c = self.configuration
  if not c or c.pp > 1 then return self.schedule end
  if c.dp == 1 then return "one stage" end
  local kind = c.zero == 3 and "FSDP (ZeRO 3)" or c.zero > 0 and ("data parallelism (ZeRO %d)"):format(c.zero)
    or "data parallelism"
  return ("%s, %d replicas, one stage"):format(kind, c.dp)
end

local COUNTED <const> = { device = "devices", stage = "stages", ["micro-batch"] = "microbatches" }

--- "4 devices", "1 stage": how many of these it has.
---@param what "device"|"stage"|"micro-batch"
---@return string
function timeline:count(what)
  local n = self[COUNTED[what]]
  return ("%d %s%s"):format(n, what, n == 1 and "" or what == "micro-batch" and "es" or "s")
end

--- Formats a time or an amount of memory, with its unit if known.
---@param value number
---@param what "time"|"memory"
---@return string
function timeline:show(value, what)
  local unit = self.units[what]
  return unit and units.format(value, unit) or ("%.6g"):format(value)
end

local LEAST <const>, LETTER <const> = 76, 7 -- pixels: room right of the rows, and width of a letter 12 px high

--- The width that "peak …" needs right of a picture's rows, and its text for each device.
---@return integer pixels
---@return string[]
function timeline:peaks()
  local texts, longest = {}, 0
  for d in ipairs(self.peak_memory) do
    texts[d] = "peak " .. self:show(self:most_held(d), "memory")
    longest = math.max(longest, #texts[d])
  end
  return math.max(LEAST, 16 + LETTER * longest), texts
end

--- The largest of a list by device: timeline:most "peak_memory".
---@param field string
---@return number
function timeline:most(field) return costs.most(self[field]) end

local OP = {
  type = check.choice { timeline.PASSES },
  stage = check.integer { min = 1 },
  microbatch = check.integer { min = 1 },
  device = check.integer { min = 1, optional = true },
}

--- Finds a pass: timeline:op { stage=, microbatch=, type=, device=? } -> { device, start, stop }, or nil.
---@return table|nil
function timeline:op(arguments)
  local a = check.record("timeline:op", arguments, OP)
  local device, start, stop = self.find(NUMBER[a.type], a.stage, a.microbatch)
  if not device or a.device and a.device ~= device then return nil end
  return { device = device, start = start, stop = stop }
end

--- The pass at a position of a device's queue: { type, stage, microbatch, start, stop, overlapped }, or nil past its
-- end. overlapped is "forward" or "backward" in a pair.
---@param device integer
---@param position integer
---@return table|nil
function timeline:queued(device, position)
  local pass, stage, microbatch, start, stop, pairing = self.at(device, position)
  if not pass then return nil end
  return {
    type = timeline.PASSES[pass + 1], stage = stage, microbatch = microbatch, start = start, stop = stop,
    overlapped = pairing == 1 and "forward" or pairing == 2 and "backward" or nil,
  }
end

--- Iterates over a device's queue: for position, op in timeline:queue(device) do … end. op is as returned by
-- timeline:queued.
function timeline:queue(device)
  local position = 0
  return function()
    position = position + 1
    local op = self:queued(device, position)
    if op then return position, op end
  end
end

--- The passes of the schedule's own kinds on a device: a list by resource, each with its `name`; "own" on the device
-- itself.
---@param device integer
---@return table[][]
function timeline:own_lanes(device)
  local lanes, index = {}, {}
  for _, pass in ipairs(self.own or {}) do
    local name = pass.resource or "own"
    if pass.device == device and not index[name] then
      lanes[#lanes + 1] = { name = name }
      index[name] = lanes[#lanes]
    end
    if pass.device == device then table.insert(index[name], pass) end
  end
  return lanes
end

--- The peak memory of a device: all of a GPU's memory in a model's timeline, else activations only.
function timeline:most_held(device)
  return self.kept and self.kept[device].total + (1 + self.slack) * self.fullest[device] or self.peak_memory[device]
end

--- The temporary memory on a device while a pass runs.
---@param op table  as returned by timeline:queue
function timeline:passing_of(op)
  local scale = self.memory_scale and self.memory_scale[op.microbatch] or 1.0
  return self.passing and scale * self.passing[op.type][op.stage] or 0.0
end

--- A device's memory over time: { { time, memory } … }, each entry the level from that time on. A forward pass
-- allocates when it starts, a backward pass frees when it stops. In a model's timeline this is all of a GPU's memory,
-- from weights to temporary buffers; else activations only.
---@return table[]
function timeline:memory(device)
  local kept, reserved = self.kept and self.kept[device].total or 0.0, 1 + (self.slack or 0.0)
  local level, series = 0.0, { { time = 0.0, memory = kept } }
  local function step(time, bytes)
    local memory, last = kept + reserved * bytes, series[#series]
    if last.memory == memory then return end
    if last.time == time then
      last.memory = memory
    else
      series[#series + 1] = { time = time, memory = memory }
    end
  end
  local at, passing, freed, i = self.at, 0.0, 0.0, 1
  local pass, stage, microbatch, start, stop, half = at(device, 1)
  while pass do -- half of a pair: 1 forward, 2 backward
    local name = timeline.PASSES[pass + 1]
    local scale = self.memory_scale and self.memory_scale[microbatch] or 1.0
    local change = scale * self.memory_change[name][stage]
    local own = self.passing and scale * self.passing[name][stage] or 0.0
    level, freed = level + math.max(change, 0.0), freed + math.min(change, 0.0)
    passing = half == 2 and math.max(passing, own) or own
    if half ~= 1 then
      step(start, level + passing)
      level, freed = level + freed, 0.0
      step(stop, level)
    else
      passing = own
    end
    i = i + 1
    pass, stage, microbatch, start, stop, half = at(device, i)
  end
  return series
end

--- Iterates over the tasks of a device, in the order of its passes: { kind, text, resources, start, stop, seconds,
-- stage, microbatch, fast_bytes, nic_bytes, tiers … }, see tperf/timeline/tasks.lua. Only for a model's timeline.
function timeline:tasks(device) return require "tperf.timeline.tasks".each(self, device) end

--- Pictures and exports; each module documents its options.
for _, form in ipairs { "svg", "html", "trace", "text" } do
  timeline[form] = function(self, options) return require("tperf.timeline.picture." .. form)(self, options) end
end

--- Compares a measured step with this one: see tperf.timeline.beside.
---@param path string  a trace of PyTorch's profiler (.json), or a log with Megatron-LM's timers
---@param options? table  device
---@return table
function timeline:beside(path, options) return require "tperf.timeline.beside".of(self, path, options) end

--- Writes Chakra execution traces of every rank, or of some: see tperf.timeline.chakra.
---@param folder string
---@param options? table  name, ranks
---@return string[] paths
function timeline:chakra(folder, options) return require "tperf.timeline.chakra".write(self, folder, options) end

local FORM <const> = { svg = "svg", png = "svg", pdf = "svg", html = "html", json = "trace", txt = "text" }

-- The form of the file of that name, or nil and what its ending must be.
function timeline.form(path)
  local form = FORM[render.ending(path)]
  if form then return form end
  return nil, "must end in .svg, .png, .pdf, .html, .json or .txt"
end

--- Writes a picture or an export to a file; the name must end in .svg, .png or .pdf (with rsvg-convert), .html, .json
-- (a Chrome trace) or .txt.
---@param path string
---@param options? table  of the form; for .png also dpi (192)
function timeline:save(path, options)
  local form, message = timeline.form(path)
  if not form then check.fail("timeline:save: the path %s, got %s", message, check.show(path)) end
  local of_form, dpi = options, nil
  if type(options) == "table" and options.dpi ~= nil and render.ending(path) == "png" then
    dpi = check.record("timeline:save", { dpi = options.dpi }, { dpi = render.dpi }).dpi
    of_form = {}
    for name, value in pairs(options) do of_form[name] = value end
    of_form.dpi = nil
  end
  render.write(path, self[form](self, of_form), dpi)
end

neutral.methods(timeline)

return timeline
