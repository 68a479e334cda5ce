--- Properties of a question that no run of a software profile had, and the profile with the nearest runs.
local check = require "tperf.base.check"
local catalogue = require "tperf.base.catalogue"
local groups = require "tperf.describe.model.groups"
local has = require "tperf.base.lists".has
local roots = require "tperf.base.roots"
local software = require "tperf.base.catalogue".shared(require "tperf.describe.software")

local unfit = {}

-- The factor by which a value is beyond a range, at least 1.
local function beyond(value, range)
  if not (range and value) then return 1 end
  return math.max(range[1] / value, value / range[2], 1)
end

local OTHER_SYSTEM <const>, OTHER_GENERATION <const> = 1, 10 -- in doublings of the scale: a judgement

-- 0 for a profile with runs on this system at this scale; grows with the distance.
local function distance(profile, machine, gpus)
  local other = has(profile.generations, machine.generation) and OTHER_SYSTEM or OTHER_GENERATION
  return (has(profile.systems, machine.name) and 0 or other) + math.log(beyond(gpus, profile.gpus), 2)
end

local known -- all shipped profiles and those in TPERF_PATH, shared profiles first

local function profiles()
  if known then return known end
  known = {}
  for _, name in ipairs(catalogue.list "software") do
    local ok, profile = check.attempt(roots.browse, software, name)
    if ok and profile.spread and #profile.systems > 0 then known[#known + 1] = profile end
  end
  local function rank(p) return p.name == "typical" and -2 or p.name == "tuned" and -1 or p.error or math.huge end
  table.sort(known, function(a, b)
    if rank(a) ~= rank(b) then return rank(a) < rank(b) end
    return a.name < b.name
  end)
  return known
end

--- The profile with the nearest runs, if they are nearer than those of the profile given.
---@param profile table  from tperf.software
---@param machine table  from tperf.system
---@param gpus integer
---@return table? profile
function unfit.nearest(profile, machine, gpus)
  local best, least = nil, distance(profile, machine, gpus)
  for _, other in ipairs(profiles()) do
    local own = other.gpus and distance(other, machine, gpus) or math.huge -- serving engines have none
    if own < least - 1e-9 then best, least = other, own end
  end
  return best
end

local function machine_warning(profile, machine)
  if #profile.systems == 0 or has(profile.systems, machine.name) then return nil end
  local text = ("no run of %s on %s was compared"):format(profile.name, machine.name)
  if not machine.generation then return text end
  local others = has(profile.generations, machine.generation) and "but on others of its generation, %s"
    or "nor on any of its generation, %s"
  return ("%s, %s"):format(text, others:format(machine.generation))
end

-- The model properties that affect a step most: attention or recurrence, and experts.
---@param model table
---@return string  "dense", "experts", "latent", "latent experts", "recurrent" …
function unfit.architecture(model)
  local m = type(model) == "table" and model or require "tperf.describe.model"(model)
  local words = {}
  if groups.recur(m) then words[#words + 1] = "recurrent" end
  if m.mla then words[#words + 1] = "latent" end
  if m.experts then words[#words + 1] = "experts" end
  return #words == 0 and "dense" or table.concat(words, " ")
end

local function architecture_warning(profile, model)
  local own = unfit.architecture(model)
  if #profile.architectures == 0 or has(profile.architectures, own) then return nil end
  return ("no run of %s of a model of this kind (%s) was compared"):format(profile.name, own)
end

local function range_warning(what, value, range)
  if beyond(value, range) == 1 then return nil end
  local low, high = range[1], range[2]
  local compared = low == high and ("not the %d"):format(low) or ("outside the %d to %d"):format(low, high)
  return ("%s %d is %s of the runs compared"):format(what, value, compared)
end

local function kernel_warning(profile, attention)
  if not attention or (attention == "flash") == (profile.kernel ~= "unfused") then return nil end
  return ("no run of %s with %s attention was compared"):format(profile.name,
    attention == "flash" and "fused" or "unfused")
end

--- The profile whose runs say how far a profile errs: its own, or that of the one that it is like.
---@param profile table
---@return table profile
unfit.judged = check.once(function(profile)
  return profile.like and not profile.spread and software(profile.like) or profile
end)

--- Sentences: what of a question no run of the profile resembled.
---@param profile table   of tperf.software
---@param question table  { model, system, attention: "flash" or how else it runs; nil: as the profile has it }
---@param gpus integer
---@return string[]
function unfit.warnings(profile, question, gpus)
  local list = {}
  local function add(text) list[#list + 1] = text end
  if not (profile.spread or profile.runs) then
    add(("no run of %s was ever compared with a prediction"):format(profile.name))
  end
  profile = unfit.judged(profile)
  add(machine_warning(profile, question.system))
  add(architecture_warning(profile, question.model))
  add(kernel_warning(profile, question.attention))
  add(range_warning("gpus", gpus, profile.gpus))
  add(range_warning("hidden", question.model.hidden, profile.hidden))
  add(range_warning("seq", question.model.seq, profile.seq))
  return list
end

--- Names the software profile with the nearest runs, if another profile's are nearer; else nil.
---@param profile table
---@param machine table
---@param gpus integer
function unfit.advice(profile, machine, gpus)
  local other = unfit.nearest(profile, machine, gpus)
  if not other then return nil end
  local low, high = other.gpus[1], other.gpus[2]
  return ("the software profile whose runs are nearest is %s: %d on %s GPUs of %s"):format(other.name, other.runs,
    low == high and low or ("%d to %d"):format(low, high), table.concat(other.systems, ", "))
end

return unfit
