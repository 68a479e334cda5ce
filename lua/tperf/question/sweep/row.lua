--- Rows of a sweep: what a point varied, what was found, and why nothing was.
local lazy = require "tperf.base.lazy"

local row = {}

-- Of a search: facts about the run rather than its answer, and what the row has anyway.
local left_out = { seconds = true, evaluated = true, complete = true, system = true, model = true }

--- What a search found, as rows, caches and other processes have it.
function row.answer(result)
  if type(result) ~= "table" then return result end
  local copy = {}
  for key, value in pairs(result) do
    if not left_out[key] then copy[key] = value end
  end
  return copy
end

-- A value as a row shows it: a system or a model by its name.
local function shown(value)
  if type(value) == "table" and type(value.name) == "string" then return value.name end
  return value
end

local refused = {} -- metatable of { reason }

--- What stands for the answer where a point is refused.
---@param reason string
function row.refusal(reason) return setmetatable({ reason = reason }, refused) end

--- Whether a result is that.
function row.is_refusal(result) return getmetatable(result) == refused end

-- The value at a path such as "memory.total".
local function at(value, path)
  if value[path] ~= nil then return value[path] end
  for name in path:gmatch "[^.]+" do
    if type(value) ~= "table" then return nil end
    value = value[name]
  end
  return value
end

-- What `fields` asks for, and what says whether there is an answer.
local function cut(job, values, full)
  local one = { feasible = full.feasible, reason = full.reason }
  for path in pairs(values) do one[job.names[path]] = full[job.names[path]] end
  for _, name in ipairs(job.fields) do one[name] = at(full, name) end
  return one
end

--- The row of a point.
---@param job table      { names, fields }
---@param values table   what the point varies, by path
---@param result any     the answer, or a refusal
---@param searched boolean
---@return table row
---@return table full    with all fields, where `fields` leaves some out
function row.of(job, values, result, searched)
  local full = {}
  if row.is_refusal(result) then
    full.feasible, full.reason = false, result.reason
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
  for path, value in pairs(values) do full[job.names[path]] = shown(value) end
  full.result = result
  return job.fields and cut(job, values, full) or full, full
end

return row
