--- Megatron's lists of numbers by layer, which its scripts write as expressions of Python: "([1]*3+[0]*1)*6" repeats
--- three ones and a zero six times. Numbers, lists, +, * and parentheses have Python's meaning; nothing else is read.
local layer_list = {}

local MOST <const> = 1 << 16 -- elements of a list: more than a model has layers
local MOST_MADE <const> = 1 << 20 -- elements of all lists on the way to it

local MOST_DIGITS <const>, LARGEST <const>, DEEPEST <const> = 9, 1 << 31, 32

local function fail(format, ...) error({ layer_list = format:format(...) }, 0) end

local function added(a, b)
  if type(a) ~= type(b) then fail "a number and a list are added" end
  if type(a) == "number" then return a + b end
  if #a + #b > MOST then fail("more than %d elements", MOST) end
  return table.move(b, 1, #b, #a + 1, a) -- no list has two names
end

local function multiplied(a, b, made)
  if type(a) == "number" and type(b) == "number" then
    if math.abs(a * b) > LARGEST then fail "a number is too large" end
    return a * b
  end
  if type(a) == "table" and type(b) == "table" then fail "two lists are multiplied" end
  local list, times = type(a) == "table" and a or b, type(a) == "table" and b or a
  local count = #list * math.max(times, 0)
  if count > MOST or made + count > MOST_MADE then fail("more than %d elements", MOST) end
  local whole = {}
  for i = 1, count do whole[i] = list[(i - 1) % #list + 1] end
  return whole, made + count
end

-- A parser of recursive descent over a text without blanks: { text, at, depth, made }.
local parser = {}
parser.__index = parser

function parser:take(char)
  if self.text:sub(self.at, self.at) ~= char then return false end
  self.at = self.at + 1
  return true
end

function parser:rest() return self.text:sub(self.at, self.at + 10) end

function parser:expect(char)
  if not self:take(char) then fail("'%s' is missing at '%s'", char, self:rest()) end
end

function parser:list()
  local values = {}
  while not self:take "]" do
    local one = self:sum()
    if type(one) ~= "number" then fail "a list within a list" end
    values[#values + 1] = one
    if not self:take "," then
      self:expect "]"
      break
    end
  end
  return values
end

function parser:factor()
  local digits = self.text:match("^%-?%d+", self.at)
  if digits then
    if #digits > MOST_DIGITS then fail("%s is too large", digits) end
    self.at = self.at + #digits
    return math.tointeger(tonumber(digits))
  end
  self.depth = self.depth + 1
  if self.depth > DEEPEST then fail "brackets are nested too deep" end
  local value
  if self:take "[" then
    value = self:list()
  else
    if not self:take "(" then fail("a number or a list is missing at '%s'", self:rest()) end
    value = self:sum()
    self:expect ")"
  end
  self.depth = self.depth - 1
  return value
end

function parser:product()
  local value = self:factor()
  while self:take "*" do
    local made
    value, made = multiplied(value, self:factor(), self.made)
    self.made = made or self.made
  end
  return value
end

function parser:sum()
  local value = self:product()
  while self:take "+" do value = added(value, self:product()) end
  return value
end

local function value_of(text)
  local one = setmetatable({ text = text, at = 1, depth = 0, made = 0 }, parser)
  local value = one:sum()
  if one.at <= #text then fail("'%s' is not understood", one:rest()) end
  return value
end

--- The value of an expression: an integer or a list of integers; nil and a message if it is neither.
---@param text any
---@return integer|integer[]? value
---@return string? message
function layer_list.of(text)
  text = tostring(text):gsub("^%s*(['\"])(.*)%1%s*$", "%2"):gsub("%s+", "")
  local ok, value = pcall(value_of, text)
  if ok then return value end
  if type(value) ~= "table" then error(value, 0) end
  return nil, value.layer_list
end

return layer_list
