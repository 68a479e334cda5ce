--- Questions asked before: scripts that vary something else, and fits, ask them again and again. What is remembered of
--- a question holds as long as what it names is the same, which its caller checks.
local core = require "tperf.core"
local order = require "tperf.describe.strategy.order"

local MOST <const> = 64 -- questions remembered of a model
-- Tables that count by what they are.
local OBJECTS <const> = { model = true, system = true, software = true, rules = true }

local told = core.resource.told

-- What is remembered of a question with the same arguments, which may be out of date, and the key to remember it by;
-- without a key the question cannot be remembered.
local function find(known, given)
  if type(given) ~= "table" or given.model == nil then return nil end
  local key = told(given, OBJECTS)
  local of_model = key and known[given.model]
  local one = of_model and of_model.list[key]
  return one and one.strategies == #order and one.kept or nil, key
end

local function keep(known, key, given, kept)
  local of_model = known[given.model]
  if not of_model or of_model.count == MOST then
    of_model = { list = {}, count = 0 }
    known[given.model] = of_model
  end
  of_model.list[key], of_model.count = { kept = kept, strategies = #order }, of_model.count + 1
end

--- A function that prepares a question, from one that does so without remembering.
---@param prepare fun(given: table): table, table?, table?  what is prepared, which nothing changes from then on; the
---   question's strategy and model (no strategy: do not remember it)
---@param is_same fun(kept: table, given: table): boolean  whether what decided it is still what the arguments name
---@return fun(given: any): table  of the arguments, unchecked
return function(prepare, is_same)
  local known = setmetatable({}, { __mode = "k" }) -- by model, as questions name it
  return function(given)
    local kept, key = find(known, given)
    if kept and is_same(kept, given) then return kept end
    local made, s, m = prepare(given)
    -- a script's own code may do something else next time
    if key and s and s.built_in and not m.architecture then keep(known, key, given, made) end
    return made
  end
end
