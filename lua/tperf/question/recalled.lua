--- What tperf.train works out of arguments that are the same call after call: all but sizes and placements. A sweep
--- over these asks about one model, system and way of training again and again.
local check = require "tperf.base.check"
local core = require "tperf.core"
local problem = require "tperf.question.problem"
local sized = require "tperf.core".resource.sized
local schedules = require "tperf.describe.schedule"

local MOST <const> = 64 -- kept

-- What a problem keeps of these goes into its question, or into nothing.
local SIZES <const> = { global_batch = true, gpus = true, dp = true, fast = true, micro_batch = true, panels = true,
  simulate = true, explain = true, straggling = true, configuration = true }
-- What is told apart by which object it is.
local OBJECTS <const> = { strategy = true, model = true, system = true, rules = true, software = true, profile = true }

local built_in = {} -- schedules, which no script defines anew
for _, name in ipairs(schedules.names()) do built_in[name] = true end

-- The other fields of tperf.train with this schema, sorted.
local names_of = check.once(function(schema, s)
  local names = {}
  for _, name in ipairs(check.names(schema)) do
    if not (SIZES[name] or OBJECTS[name] or s.index[name]) then names[#names + 1] = name end
  end
  return names
end)

local known, count = {}, 0 -- text -> the problem, and what keeps its objects where they are

-- The problem with sizes of its own.
local function with_sizes(base, o)
  local p, question = sized(32), sized(16)
  for name, value in next, base do p[name] = value end
  for name, value in next, base.questions[1] do question[name] = value end
  question.gpus, question.global_batch, question.warnings = o.gpus, o.global_batch, nil
  p.questions, p.fixed = { question }, { dp = { o.dp } }
  return p
end

--- What problem.of makes of the arguments.
---@param o table       checked arguments of tperf.train: sizes complete; model, system and rules as they were read, and
---  nobody's to change
---@param s table       its strategy
---@param schema table  that they passed
---@return table problem
return function(o, s, schema)
  local words = built_in[o.schedule] and core.resource.words(o, names_of(schema, s))
  if not words then return (problem.of(o, { s })) end
  local key = ("%p %p %p %p %p "):format(s, o.model, o.system, o.rules, o.profile) .. words
  local one = known[key]
  if not one then
    one = { base = problem.of(o, { s }), objects = { s, o.model, o.system, o.rules, o.profile } }
    if count >= MOST then known, count = {}, 0 end
    known[key], count = one, count + 1
  end
  return with_sizes(one.base, o)
end
