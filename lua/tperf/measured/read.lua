--- Parsing shared by the readers of measurements.
local read = {}

local LEAST <const>, MOST <const> = 1e-15, 1e15 -- limits of any size, count, rate or time

--- A positive number, or nil.
function read.positive(text)
  local number = tonumber(text)
  if number and number > LEAST and number < MOST then return number end
end

--- A positive integer, or nil.
function read.count(text)
  local number = read.positive(text)
  return number and math.tointeger(number)
end

--- A text, or `otherwise` if the table's column is missing or empty.
---@param text string?
---@param otherwise string?
function read.text(text, otherwise)
  return text and text ~= "" and text or otherwise or ""
end

local CACHES <const> = { [""] = 2, none = 2, bf16 = 2, fp16 = 2, fp8 = 1 } -- none: of an encoder

--- Bytes of a number of a cache of this dtype (16 bits); nil if it is not known.
---@return integer?
function read.cache_bytes(dtype) return CACHES[read.text(dtype)] end

--- Why a row is left out whose column has a word that is not known.
function read.unknown(text, column) return ("'%s' in column %s is not known"):format(text, column) end

--- A row with some columns replaced.
---@param row table
---@param columns table<string, string>
---@return table
function read.with(row, columns)
  local whole = setmetatable({}, getmetatable(row))
  for name, text in pairs(row) do whole[name] = text end
  for name, text in pairs(columns) do whole[name] = text end
  return whole
end

return read
