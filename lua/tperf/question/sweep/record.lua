--- An answer as bytes, as caches and other processes keep it: without the fields that nobody has read yet, if the
--- question can be asked again. The ops and stages of a configuration take more time to store than to find.
local check = require "tperf.base.check"
local codec = require "tperf.core".codec
local lazy = require "tperf.base.lazy"
local train = require "tperf.question.train"

local record = {}

local sets = {} -- names of fields, as text -> the names as a set, the same for all records

local function set_of(list)
  local key = table.concat(list, " ")
  if not sets[key] then
    local set = {}
    for _, name in ipairs(list) do set[name] = true end
    sets[key] = set
  end
  return sets[key]
end

-- Fills in all lazy fields of the configurations in a result.
local function settle(value, seen)
  if type(value) ~= "table" or seen[value] then return end
  seen[value] = true
  lazy.settle(train.brief(value))
  for _, part in next, value do settle(part, seen) end
end

--- Raises if the answer cannot be encoded.
---@param answer any
---@param again boolean  whether the question can be asked again
---@return string bytes
function record.encode(answer, again)
  local names, waiting = {}, nil
  if again then
    lazy.waiting(train.brief(answer), names)
    waiting = next(names) and check.names(names)
  else
    settle(answer, {})
  end
  return codec.encode { answer = answer, waiting = waiting }
end

--- The answer in a record; nil if it lacks fields and nobody can ask again.
---@param bytes string
---@param again (fun(): table)?  asks the question again
---@return any answer
function record.decode(bytes, again)
  local found = codec.decode(bytes)
  if not found.waiting then return found.answer end
  if not again then return nil end
  lazy.add(found.answer, set_of(found.waiting), again)
  return found.answer
end

return record
