--- Rows of a sweep: the values that a point varied, its result, or the reason why there is none.
local check = require "tperf.base.check"
local lazy = require "tperf.base.lazy"

local row = {}

-- Fields of a search's result that describe the run rather than the answer, or that the row has anyway.
local left_out = { seconds = true, evaluated = true, complete = true, system = true, model = true }

--- A search's result as rows, caches and other processes keep it.
function row.answer(result)
  if type(result) ~= "table" then return result end
  local copy = {}
  for key, value in pairs(result) do
    if not left_out[key] then copy[key] = value end
  end
  return copy
end

-- A value as shown in a row: a system or a model by its name.
local function shown(value)
  if type(value) == "table" and type(value.name) == "string" then return value.name end
  return value
end

row.shown = shown

local refused, failed = {}, {} -- metatables of { reason } and { error }

--- The result of a refused point.
---@param reason string
function row.refusal(reason) return setmetatable({ reason = reason }, refused) end

--- The result of a point whose question raised an error.
---@param message string
function row.failure(message) return setmetatable({ error = message }, failed) end

--- Whether a result is a refusal.
function row.is_refusal(result) return getmetatable(result) == refused end

--- Whether a result says that there is no answer, for whatever reason.
function row.is_empty(result)
  local kind = getmetatable(result)
  return kind ~= nil and (kind == refused or kind == failed)
end

-- The value at a path such as "memory.total".
local function at(value, path)
  if value[path] ~= nil then return value[path] end
  for name in path:gmatch "[^.]+" do
    if type(value) ~= "table" then return nil end
    value = value[name]
  end
  return value
end

-- The fields that `fields` asks for, the varied ones, and those that say whether there is a result.
local function cut(job, values, full)
  local one = { feasible = full.feasible, reason = full.reason, error = full.error }
  for path in pairs(values) do one[job.names[path]] = full[job.names[path]] end
  for _, name in ipairs(job.fields) do one[name] = at(full, name) end
  return one
end

-- An answer's field and a varied argument would be one column.
local function collide(path, name, field, value)
  check.fail("tperf.sweep: the answer has a field '%s', %s, and so is called what varies, %s = %s; name its column: "
    .. "%s = tperf.vary { as = \"…\", … }", name, check.show(field), path, check.show(value),
    path:find(".", 1, true) and ("[\"%s\"]"):format(path) or path)
end

--- The row of a point.
---@param job table      { names, fields }
---@param values table   the point's values, by path
---@param result any     the result, or a refusal
---@param searched boolean
---@param own boolean?  the answer is of a script's function
---@return table row
---@return table full    the row with all fields, also those that `fields` leaves out
function row.of(job, values, result, searched, own)
  local full = {}
  if row.is_empty(result) then
    full.feasible, full.reason, full.error = false, result.reason, result.error
    if searched then full.candidates, full.fitting = 0, 0 end
    result, searched = nil, false
  end
  local fields = searched and result[1] or result
  if type(fields) == "number" then fields = { time = fields } end
  if type(fields) == "table" then lazy.copy(full, fields) end
  if searched then
    full.candidates, full.fitting, full.reason = result.candidates, result.feasible, result.reason
    full.feasible = result.feasible > 0
  end
  local names = job.names
  for path, value in pairs(values) do
    local name = names[path]
    value = shown(value)
    if (own or path ~= name) and full[name] ~= nil and full[name] ~= value then
      collide(path, name, full[name], value)
    end
    full[name] = value
  end
  full.result = result
  return job.fields and cut(job, values, full) or full, full
end

return row
