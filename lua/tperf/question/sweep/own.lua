--- What a sweep does for scripts' own functions and columns: copies of arguments, and fields that no answer has.
local check = require "tperf.base.check"

local own = {}

local function copy(value, seen)
  if type(value) ~= "table" or debug.getmetatable(value) ~= nil then return value end
  local made = seen[value]
  if made then return made end
  made = {}
  seen[value] = made
  for key, item in next, value do made[key] = copy(item, seen) end
  return made
end

--- A copy of arguments and of the plain tables in them; systems, models and other objects are shared.
---@param args table
---@return table
function own.copy(args) return copy(args, {}) end

local unseen = {}
unseen.__index = unseen

local PATIENCE <const> = 100 -- answers
-- Fields that many answers lack: what is only there if something was asked for, or went wrong.
local RARE <const> = { reason = true, error = true, result = true, warnings = true, interval = true, unproven = true,
  straggling = true, simulated = true, host_memory = true, trained_parameters = true, breakdown = true }

--- Watches for fields that a sweep's rows shall keep and that none has.
---@param fields string[]?
---@param question string?  one of the library's; nil: the script's own function
function own.unseen(fields, question)
  local left = {}
  for _, name in ipairs(fields or {}) do
    if not (question and RARE[name:match "^[^.]*"]) and name ~= "error" and name ~= "reason" then
      left[#left + 1] = name
    end
  end
  return setmetatable({ left = left, looked = 0 }, unseen)
end

function unseen:refuse()
  local name, known, answer = self.left[1], {}, self.row.result
  for key in next, type(answer) == "table" and answer or self.row do
    if type(key) == "string" then known[#known + 1] = key end
  end
  check.fail("tperf.sweep: 'fields': none of %d answers has '%s'%s", self.looked, name, check.suggest(name, known))
end

--- Notes the fields of a row.
---@param row table
---@param full table?  the same with all its fields
function unseen:look(row, full)
  if #self.left == 0 then return end
  local left = {}
  for _, name in ipairs(self.left) do
    if row[name] == nil then left[#left + 1] = name end
  end
  self.left, self.looked, self.row = left, self.looked + 1, full or row
  if #left > 0 and self.looked == PATIENCE then self:refuse() end
end

--- Raises if a field was in no row.
function unseen:finish()
  if #self.left > 0 and self.looked > 0 then self:refuse() end
end

-- --- fields without effect ---

local DESCRIBED <const> = { model = true, system = true, software = true }
local PAIRS <const> = 16 -- points that are compared with one that differs in a list's values alone

-- What an answer says: its figures, but not its arguments.
local function figures(row, names)
  local found, count = {}, 0
  for name, value in next, row do
    if type(value) == "number" and not names[name] and name ~= "candidates" and name ~= "fitting" then
      found[name], count = value, count + 1
    end
  end
  return found, count
end

-- Whether two rows have the same figures, and any.
local function same_figures(a, b, names)
  local one, count = figures(a, names)
  local other, others = figures(b, names)
  if count ~= others then return false, true end
  for name, value in next, one do
    if other[name] ~= value then return false, true end
  end
  return true, count > 0
end

-- Whether the values of the k-th list change none of the answers that are compared.
local function is_idle(rows, all, k, names)
  local step, n = 1, all[k].n or #all[k]
  for i = #all, k + 1, -1 do step = step * (all[i].n or #all[i]) end
  if n < 2 then return false end
  local every, compared = math.max(1, #rows // PAIRS), 0
  for i = 1, #rows, every do
    local at = (i - 1) // step % n
    local other = rows[i + (at + 1 < n and step or -step)]
    local same, any = same_figures(rows[i], other, names)
    if not same or rows[i].feasible ~= other.feasible then return false end
    compared = compared + (any and 1 or 0)
  end
  return compared > 0
end

--- Which varied fields of systems, models and software changed no figure of any answer that is compared.
---@param rows table[]
---@param all table[]    the lists that the sweep combines
---@param names table<string, string>  by path
---@return string[] paths
function own.idle(rows, all, names)
  local columns, idle = {}, {}
  for _, name in pairs(names) do columns[name] = true end
  for k, list in ipairs(all) do
    local paths = list.columns and check.names(list.columns) or {}
    local root = #paths == 1 and paths[1]:match "^(%a+)%."
    if DESCRIBED[root] and is_idle(rows, all, k, columns) then idle[#idle + 1] = paths[1] end
  end
  return idle
end

return own
