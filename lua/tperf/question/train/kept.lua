--- Problems of tperf.train that a prepared question keeps for when it is asked again with other sizes and placements:
--- a sweep over these asks about one model, system and way of training again and again.
local captured = require "tperf.describe.captured"
local check = require "tperf.base.check"
local placement = require "tperf.question.placement"
local problem = require "tperf.question.problem"
local resource = require "tperf.core".resource
local schedules = require "tperf.describe.schedule"

local sized, words = resource.sized, resource.words

local MOST <const> = 256 -- problems that a question keeps

-- Arguments that affect only a problem's question and its fixed sizes, or nothing of it.
local SIZES <const> = { global_batch = true, gpus = true, dp = true, fast = true, micro_batch = true, panels = true,
  simulate = true, explain = true, straggling = true, configuration = true }
-- Arguments that are objects, which never change.
local OBJECTS <const> = { strategy = true, model = true, system = true, rules = true, software = true, profile = true }

-- The other fields of this schema of tperf.train, sorted.
local names_of = check.once(function(schema, s)
  local names = {}
  for _, name in ipairs(check.names(schema)) do
    if not (SIZES[name] or OBJECTS[name] or s.index[name]) then names[#names + 1] = name end
  end
  return names
end)

-- A copy of the problem with the sizes of this call.
local function with_sizes(base, o, s)
  local p, question = sized(32), sized(16)
  for name, value in next, base do p[name] = value end
  for name, value in next, base.questions[1] do question[name] = value end
  question.gpus, question.global_batch = o.gpus, o.global_batch
  question.placed = placement.of_training(o, { s })
  p.questions, p.fixed = { question }, { dp = { o.dp } }
  return p
end

--- problem.of(o), which what a prepared question keeps may already have.
---@param held table?   what it keeps, at first empty; nil: the question is asked once
---@param o table       checked arguments of tperf.train: sizes complete; model, system and rules read already
---@param s table       its strategy
---@param schema table  the schema that checked them
---@return table problem
return function(held, o, s, schema)
  local content = held and schedules.is_built_in(o.schedule) and words(o, names_of(schema, s))
  if not content then return (problem.of(o, { s })) end
  local key = ("%p %p %p %p %p "):format(s, o.model, o.system, o.rules, o.profile) .. content .. captured.of_strategy(s)
  if not held[key] then
    local base = problem.of(o, { s })
    base.questions[1].said = {} -- by runtime.prepare, for all sizes
    held.count = (held.count or 0) + 1
    if held.count > MOST then
      for other in next, held do held[other] = nil end
      held.count = 1
    end
    held[key] = { base = base, objects = { s, o.model, o.system, o.rules, o.profile } } -- whose addresses the key has
  end
  return with_sizes(held[key].base, o, s)
end
