--- Questions that tperf.train was asked before: scripts that vary something else, and fits, ask them again and again.
local core = require "tperf.core"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local profile = require "tperf.describe.profile"
local rules = require "tperf.describe.rules.shared"
local strategy = require "tperf.describe.strategy"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system", true)

local MOST <const> = 64 -- questions remembered of a model
local OBJECTS <const> = { model = true, system = true, software = true } -- tables that count by what they are

local told = core.resource.told

local asked = {}

-- Model, as questions name it -> text of the question -> { t =, of = what it was answered from }.
local known = setmetatable({}, { __mode = "k" })

-- Whether a question with the same text has the same answer: no file and no object has changed since.
local function is_same(one, given)
  if one.strategies ~= strategy.count() or model(given.model) ~= one.o.model then return false end
  local set, o = rules(given.rules), one.o
  return set == o.rules and profile.of(given.software, set) == o.profile and system(given.system) == o.system
end

--- What a question asked before was prepared to.
---@param given any  the arguments, unchecked
---@return table? t     as kept
---@return string? key  for asked.keep; nil: the question cannot be remembered
function asked.find(given)
  if type(given) ~= "table" or type(given.rules) == "table" or given.model == nil then return nil end
  local key = told(given, OBJECTS)
  local of_model = key and known[given.model]
  local one = of_model and of_model.list[key]
  return one and is_same(one, given) and one.t or nil, key
end

-- Whether only the library's own code decides the answer: a script's may do something else next time.
local function is_ours(t) return t.problem.built_in and t.strategy.built_in and not t.o.model.architecture end

--- Remembers what a question was prepared to.
---@param key string   of asked.find
---@param given table  the arguments
---@param t table      { o, strategy, problem … } of tperf.question.train; nothing changes it from now on
function asked.keep(key, given, t)
  if not is_ours(t) then return end
  local of_model = known[given.model]
  if not of_model or of_model.count == MOST then
    of_model = { list = {}, count = 0 }
    known[given.model] = of_model
  end
  of_model.list[key], of_model.count = { t = t, o = t.o, strategies = strategy.count() }, of_model.count + 1
end

return asked
