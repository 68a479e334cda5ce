--- What a question takes from a software profile: defaults of its arguments, terms for the core, and what the answer
-- says of runs that the profile was fitted to.
local refusal = require "tperf.refusal"
local software = require "tperf.software"

local runtime = {}

--- The profile that a question asks for; nil: the formulas alone.
function runtime.of(value)
  if value == nil or value == "none" then return nil end
  local profile = software(value)
  if profile.engine then
    refusal.raise("software '%s' is an engine for serving, which trains nothing; it goes with tperf.serve",
      profile.name)
  end
  return profile
end

--- Arguments that a profile decides where the caller does not.
---@param o table        checked arguments, changed in place
---@param given table    as the caller gave them
---@param profile table?
function runtime.fill(o, given, profile)
  if not profile then return end
  o.gradient_shard = o.gradient_shard or profile.gradient_shard
  o.gradients = o.gradients or profile.gradients
  if given.attention == nil then o.attention = profile.kernel end
end

local TERMS <const> = { "compute", "attention", "memory", "comm", "host", "overlap", "optimizer",
  "comm_setup" }

--- The core's tp_software; nil without a profile.
function runtime.terms(profile)
  if not profile then return nil end
  local terms = {}
  for _, name in ipairs(TERMS) do terms[name] = profile[name] end
  return terms
end

local function outside(value, range)
  return range and value and (value < range[1] or value > range[2])
end

-- What of a configuration no run of the stack resembled.
local function warnings_of(profile, c, question)
  local list = {}
  local function warn(...) list[#list + 1] = string.format(...) end
  if not profile.error90 then warn("no run of %s was ever compared with a prediction", profile.name) end
  local known = #profile.systems == 0
  for _, name in ipairs(profile.systems) do known = known or name == question.system.name end
  if not known then warn("no run of %s on %s was compared", profile.name, question.system.name) end
  local function range(what, value, known_span)
    if not outside(value, known_span) then return end
    local low, high = known_span[1], known_span[2]
    local compared = low == high and ("not the %d"):format(low) or ("outside the %d to %d"):format(low, high)
    warn("%s %d is %s of the runs compared", what, value, compared)
  end
  range("gpus", c.gpus, profile.gpus)
  range("hidden", question.model.hidden, profile.hidden)
  range("seq", question.model.seq, profile.seq)
  return list
end

--- Says in a configuration which software runs it, within which times nine tenths of its runs lay, and what no run
--- resembled.
---@param c table        a configuration, changed in place
---@param profile table
---@param question table  { model, system }
function runtime.describe(c, profile, question)
  c.software, c.warnings = profile.name, warnings_of(profile, c, question)
  if profile.error90 then
    local error = math.min(profile.error90, 0.9)
    c.interval = { low = c.time / (1 + error), high = c.time / (1 - error) }
  end
end

return runtime
