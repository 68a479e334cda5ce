--- Problems of tperf.train, kept for calls whose arguments differ only in sizes and placements: a sweep over these
--- asks about one model, system and way of training again and again.
local check = require "tperf.base.check"
local core = require "tperf.core"
local memo = require "tperf.base.memo"
local placement = require "tperf.question.placement"
local problem = require "tperf.question.problem"
local sized = require "tperf.core".resource.sized
local schedules = require "tperf.describe.schedule"

local MOST <const> = 256 -- problems kept of a model

-- Arguments that affect only a problem's question and its fixed sizes, or nothing of it.
local SIZES <const> = { global_batch = true, gpus = true, dp = true, fast = true, micro_batch = true, panels = true,
  simulate = true, explain = true, straggling = true, configuration = true }
-- Arguments that are compared by identity.
local OBJECTS <const> = { strategy = true, model = true, system = true, rules = true, software = true, profile = true }

local built_in = {} -- schedules that no script can redefine
for _, name in ipairs(schedules.names()) do built_in[name] = true end

-- The other fields of this schema of tperf.train, sorted.
local names_of = check.once(function(schema, s)
  local names = {}
  for _, name in ipairs(check.names(schema)) do
    if not (SIZES[name] or OBJECTS[name] or s.index[name]) then names[#names + 1] = name end
  end
  return names
end)

-- Model -> what is kept of it: problems, and the objects whose addresses are in their keys, kept alive. Problems go
-- with their model: a script may make a new one from the same table for each question.
local known = setmetatable({}, { __mode = "k" })

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

--- Returns problem.of(o), from the cache if it holds it.
---@param o table       checked arguments of tperf.train: sizes complete; model, system and rules read already, and
---  never changed
---@param s table       its strategy
---@param schema table  the schema that checked them
---@return table problem
return function(o, s, schema)
  -- schedules.get refuses one that a script has changed
  local words = built_in[o.schedule] and schedules.get(o.schedule) and core.resource.words(o, names_of(schema, s))
  if not words then return (problem.of(o, { s })) end
  local key = ("%p %p %p %p "):format(s, o.system, o.rules, o.profile) .. words
  known[o.model] = known[o.model] or memo.by_text(MOST)
  local one = known[o.model](key, function()
    local base = problem.of(o, { s })
    base.questions[1].said = {} -- by runtime.prepare, for all sizes
    return { base = base, objects = { s, o.system, o.rules, o.profile } }
  end)
  return with_sizes(one.base, o, s)
end
