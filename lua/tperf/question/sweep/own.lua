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
  local name, known = self.left[1], {}
  for key in next, self.row.result or self.row do
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

return own
