--- Questions asked before: scripts that vary something else, and fits, ask them again and again. What is remembered of
--- a question holds as long as what it names is the same, which its caller checks.
local core = require "tperf.core"
local order = require "tperf.describe.strategy.order"

local MOST <const> = 64 -- questions remembered of a model
-- Tables that count by what they are.
local OBJECTS <const> = { model = true, system = true, software = true, rules = true }

local told = core.resource.told

local asked = {}
asked.__index = asked

--- The memory of one kind of question.
---@return table memory
function asked.new()
  return setmetatable({ known = setmetatable({}, { __mode = "k" }) }, asked) -- by model, as questions name it
end

--- What is remembered of a question with the same arguments.
---@param given any  the arguments, unchecked
---@return table? kept  as kept; it may be out of date
---@return string? key  for keep; nil: the question cannot be remembered
function asked:find(given)
  if type(given) ~= "table" or given.model == nil then return nil end
  local key = told(given, OBJECTS)
  local of_model = key and self.known[given.model]
  local one = of_model and of_model.list[key]
  return one and one.strategies == #order and one.kept or nil, key
end

--- Remembers something of a question.
---@param key string   of find
---@param given table  the arguments
---@param s table      its strategy
---@param m table      its model
---@param kept table   nothing changes it from now on
function asked:keep(key, given, s, m, kept)
  if not s.built_in or m.architecture then return end -- a script's own code may do something else next time
  local of_model = self.known[given.model]
  if not of_model or of_model.count == MOST then
    of_model = { list = {}, count = 0 }
    self.known[given.model] = of_model
  end
  of_model.list[key], of_model.count = { kept = kept, strategies = #order }, of_model.count + 1
end

return asked
