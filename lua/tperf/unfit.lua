--- What of a question no run resembled that a software profile was compared with, and whose runs are nearer.
local check = require "tperf.check"
local resource = require "tperf.resource"
local software = require "tperf.software"
local system = require "tperf.system"

local unfit = {}

local generations = {} -- system's name -> generation, false where it has none

local function generation_of(name)
  if generations[name] == nil then
    local ok, machine = check.attempt(system, name)
    generations[name] = ok and machine.generation or false
  end
  return generations[name]
end

-- The systems of a profile that are of a machine's generation; whether the machine itself is one of them.
local function relatives(profile, machine)
  local list = {}
  for _, name in ipairs(profile.systems) do
    if name == machine.name then return { name }, true end
    if machine.generation and generation_of(name) == machine.generation then list[#list + 1] = name end
  end
  return list, #profile.systems == 0
end

-- How many times a value is beyond a range, at least 1.
local function beyond(value, range)
  if not (range and value) then return 1 end
  return math.max(range[1] / value, value / range[2], 1)
end

local OTHER_SYSTEM <const>, OTHER_GENERATION <const> = 1, 10 -- doublings of the scale that weigh as much: a judgement

-- 0 for a profile with runs on such a machine at such a scale, more the further they are.
local function distance(profile, question, gpus)
  local near, same = relatives(profile, question.system)
  local machine = same and 0 or near[1] and OTHER_SYSTEM or OTHER_GENERATION
  return machine + math.log(beyond(gpus, profile.gpus), 2)
end

local known -- all profiles that ship or lie in TPERF_PATH, those for stacks without one of their own first

local function profiles()
  if known then return known end
  known = {}
  for _, name in ipairs(resource.list "software") do
    local ok, profile = check.attempt(software, name)
    if ok and profile.error90 and #profile.systems > 0 then known[#known + 1] = profile end
  end
  local function rank(p) return p.name == "typical" and -2 or p.name == "tuned" and -1 or p.error or math.huge end
  table.sort(known, function(a, b)
    if rank(a) ~= rank(b) then return rank(a) < rank(b) end
    return a.name < b.name
  end)
  return known
end

-- The profile whose runs are nearest, if that is not the one asked about.
local function nearest(profile, question, gpus)
  local best, least = nil, distance(profile, question, gpus)
  for _, other in ipairs(profiles()) do
    local own = distance(other, question, gpus)
    if own < least - 1e-9 then best, least = other, own end
  end
  return best
end

local function machine_warning(profile, machine)
  local near, same = relatives(profile, machine)
  if same then return nil end
  local text = ("no run of %s on %s was compared"):format(profile.name, machine.name)
  if near[1] then
    return ("%s, but on %s, of its generation"):format(text, table.concat(near, ", "))
  end
  return machine.generation and ("%s, nor on another %s GPU"):format(text, machine.generation) or text
end

local function range_warning(what, value, range)
  if beyond(value, range) == 1 then return nil end
  local low, high = range[1], range[2]
  local compared = low == high and ("not the %d"):format(low) or ("outside the %d to %d"):format(low, high)
  return ("%s %d is %s of the runs compared"):format(what, value, compared)
end

--- Sentences: what of a question no run of the profile resembled, and the profile whose runs are nearest.
---@param profile table   of tperf.software
---@param question table  { model, system }
---@param gpus integer
---@return string[]
function unfit.warnings(profile, question, gpus)
  local list = {}
  local function add(text) list[#list + 1] = text end
  if not profile.error90 then add(("no run of %s was ever compared with a prediction"):format(profile.name)) end
  add(machine_warning(profile, question.system))
  add(range_warning("gpus", gpus, profile.gpus))
  local other = #list > 0 and nearest(profile, question, gpus)
  if other then
    local low, high = other.gpus[1], other.gpus[2]
    add(("the nearest software profile is %s: %d runs on %s GPUs of %s"):format(other.name, other.runs,
      low == high and low or ("%d to %d"):format(low, high), table.concat(other.systems, ", ")))
  end
  add(range_warning("hidden", question.model.hidden, profile.hidden))
  add(range_warning("seq", question.model.seq, profile.seq))
  return list
end

return unfit
