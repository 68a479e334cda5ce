--- Applies a software profile to a question: defaults of its arguments, terms for the core, and the answer's interval
-- and warnings, which come from the runs that the profile was fitted to.
local check = require "tperf.base.check"
local core = require "tperf.core"
local intervals = require "tperf.describe.intervals"
local refusal = require "tperf.base.refusal"
local software = require "tperf.base.catalogue".shared(require "tperf.describe.software")
local unfit = require "tperf.describe.unfit"

local runtime = {}

--- The profile of stacks without one of their own; the name that asks for none; and, of `validate`, the one that asks
--- for what a question without a stack gets (tperf.question.problem).
runtime.USUAL, runtime.NONE, runtime.IMPLIED = "typical", "none", "default"

local SHARED <const> = { [runtime.USUAL] = true, tuned = true } -- profiles that describe stacks without their own

-- What a stack that a shared profile describes, or one that compiles its model, does without a compiler: PyTorch's own
-- modules, each of whose steps is a kernel, and F.cross_entropy of logits in fp32.
local PLAIN <const> = { norm = "pytorch", loss = "pytorch", accumulation = "separate", pytorch_modules = true,
  module_calls = 3 }
local plain_of = check.once(function(profile) return profile:with(PLAIN) end)

--- The profile that a question asks for; nil: only the formulas.
---@param value string|table?
---@param compile boolean?  false: a profile that is shared, or of a stack that compiles, describes plain modules
function runtime.of(value, compile)
  if value == nil or value == runtime.NONE then return nil end
  local profile = software(value)
  if profile.engine then
    refusal.raise("software '%s' is an engine for serving and does not train; give it to tperf.serve",
      profile.name)
  end
  if compile == false and (SHARED[profile.name] or profile.compile) then return plain_of(profile) end
  return profile
end

--- How attention runs, as a question's argument.
function runtime.attention(profile) return profile.kernel == "unfused" and "unfused" or "flash" end

local HABITS <const> = { "moe_dispatcher", "overlap_tp", "overlap_moe_a2a", "delay_wgrad",
  "overlap_shared_experts", "overlap_grad_reduce", "overlap_param_gather", "overlap_param_gather_with_optimizer_step",
  "compile" }

-- What profiles alone decide, as it is without one.
local UNASKED <const> = {
  norm = "fused", padded_vocabulary = true, gradient_buckets = false, grouped_kernels = false,
  scatter_messages = false, megatron_softmax = false, broadcast_weights = false, fused_pointwise = false,
  expert_calls = 0,
}

-- What it keeps and how it shards where the question does not say.
local STATES <const> = { "sharding", "gradient_reduce", "gradients", "weights", "loss" }

-- Those of the names that a profile has.
local function had(profile, names)
  local list = {}
  for _, name in ipairs(names) do
    if profile[name] ~= nil then list[#list + 1] = name end
  end
  return list
end

-- What a profile decides: the names of its habits and states, and of what it alone decides otherwise than without one.
local decisions_of = check.once(function(profile)
  local decided = {}
  for _, name in ipairs(check.names(UNASKED)) do
    if profile[name] ~= UNASKED[name] then decided[#decided + 1] = name end
  end
  return { habits = had(profile, HABITS), states = had(profile, STATES), decided = decided }
end)

--- Sets the arguments that a profile decides unless the caller gives them.
---@param o table        checked arguments, changed in place
---@param given table    as the caller gave them
---@param profile table?
function runtime.fill(o, given, profile)
  if not profile then return end
  local decisions = decisions_of(profile)
  local states = decisions.states
  for i = 1, #states do
    local name = states[i]
    if o[name] == nil then o[name] = profile[name] end
  end
  if o.gradient_shard == nil then o.gradient_shard = profile.gradient_shard or nil end
  if profile.fused_activation == false then o.fused_activation = false end -- true is as without a profile
  local decided = decisions.decided
  for i = 1, #decided do
    local name = decided[i]
    o[name] = profile[name]
  end
  if given.attention == nil then o.attention = runtime.attention(profile) end
  local habits = decisions.habits
  for i = 1, #habits do
    local name = habits[i]
    -- ZeRO 3 gathers weights layer by layer, ahead of use; what a profile knows is of the gather after the step.
    local is_known = name ~= "overlap_param_gather" or o.zero ~= 3
    if given[name] == nil and is_known then o[name] = profile[name] end
  end
end

local FLASH <const> = { flash1 = 1, flash2 = 2 }

-- The names of the facts that the core knows: those that profiles state, and those that fits do not change.
local TERMS <const>, UNFITTED <const> = {}, {}
for _, fact in ipairs(core.record "software") do
  if fact.from ~= "derived" then TERMS[#TERMS + 1] = fact.name end
  if fact.from ~= "fitted" then UNFITTED[#UNFITTED + 1] = fact.name end
end

--- The core's tperf_software; nil without a profile.
---@param training table?  that of the question, whose gradients are added up
function runtime.terms(profile, training)
  if not profile then return nil end
  local terms = {}
  for _, name in ipairs(TERMS) do terms[name] = profile[name] end
  terms.flash = FLASH[profile.kernel]
  terms.accumulates, terms.fused_accumulation = profile.accumulation ~= nil, profile.accumulation == "fused"
  terms.gradient_bytes = training and training.gradient_bytes or nil
  return terms
end

--- What no fit changes of a profile: its kernel, and terms for the core.
function runtime.facts(profile)
  local facts = { kernel = profile.kernel }
  runtime.keep_facts(facts, runtime.terms(profile))
  return facts
end

--- Sets the terms that no fit changes.
function runtime.keep_facts(terms, facts)
  for _, name in ipairs(UNFITTED) do terms[name] = facts[name] end
end

--- The interval of runs unlike those that a profile was fitted to. Of a shared profile, `spread` is what another stack
--- does, and `reach` what another machine, scale or model does: independent errors, whose squared logarithms add up.
--- The reach of a stack's own profile contains its spread.
---@param spread number[]
---@param reach number[]
---@param shared boolean
---@return number[]
function runtime.widened(spread, reach, shared)
  if not shared then return { math.min(spread[1], reach[1]), math.max(spread[2], reach[2]) } end
  local function both(i) return (math.log(spread[i]) ^ 2 + math.log(reach[i]) ^ 2) ^ 0.5 end
  return { math.exp(-both(1)), math.exp(both(2)) }
end

--- The intervals of measured / predicted values that hold nine tenths of runs: of a stack's own profile, those of its
--- own runs, held out, if they resemble the question; else of the nearest classes of runs that no fit saw.
---@param profile table
---@param question table  { model, gpus, precision = the recipe's name, compile, adapters }
---@param unlike boolean  no run that the profile was fitted to resembles the question
---@return number[]? time    { low, high }; nil if the profile was never compared with runs
---@return number[]? memory
function runtime.intervals(profile, question, unlike)
  local shared = SHARED[profile.name] and profile.name or profile.like
  local compared = shared ~= nil or profile.spread ~= nil
  local time, memory = intervals.of_training {
    software = shared or compared and "own" or runtime.USUAL, unlike = unlike, model = question.model,
    gpus = question.gpus, precision = question.precision, compile = question.compile, adapters = question.adapters,
  }
  if not compared then return nil, memory end
  return (shared or unlike) and time or profile.spread, memory
end

--- Notes in a question what its profile says of all its configurations.
---@param profile table?  nil: only the formulas
---@param question table  { model, system, gpus }
function runtime.prepare(profile, question)
  local said = question.said or {}
  question.said = said
  if said.gpus == question.gpus then return end
  said.gpus, said.software = question.gpus, profile and profile.name or "none"
  if not profile then return end
  said.warnings = unfit.warnings(profile, question, question.gpus)
  said.time, said.memory = runtime.intervals(profile, question, #said.warnings > 0)
end

--- Writes into a configuration its software, the intervals that hold nine tenths of its runs, and warnings about
--- properties that no run had.
---@param c table         a configuration, changed in place
---@param question table  after runtime.prepare
function runtime.describe(c, question)
  local said = question.said
  local warnings = said.warnings
  c.software = said.software
  if warnings then c.warnings = warnings[1] and table.move(warnings, 1, #warnings, 1, {}) or {} end
  local time, memory = said.time, said.memory
  if time then time = { low = c.time * time[1], high = c.time * time[2] } end
  if memory then memory = { low = c.memory.total * memory[1], high = c.memory.total * memory[2] } end
  if time or memory then c.interval, c.intervals = time, { time = time, memory = memory } end
end

return runtime
