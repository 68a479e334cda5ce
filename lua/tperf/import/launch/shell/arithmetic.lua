--- Integer arithmetic of a shell's $((…)).
local arithmetic = {}
arithmetic.__index = arithmetic

local MAX_DEPTH <const> = 50
local expression

local LEVELS <const> = { { "||" }, { "&&" }, { "|" }, { "^" }, { "&" }, { "==", "!=" }, { "<=", ">=", "<", ">" },
  { "<<", ">>" }, { "+", "-" }, { "*", "/", "%" }, { "**" } }

local function divided(self, a, b)
  if b == 0 then self.fail("%s: division by zero", self.s) end
  local q = a // b
  return (a % b ~= 0 and (a < 0) ~= (b < 0)) and q + 1 or q
end

local function flag(truth) return truth and 1 or 0 end

local APPLY <const> = {
  ["||"] = function(_, a, b) return flag(a ~= 0 or b ~= 0) end,
  ["&&"] = function(_, a, b) return flag(a ~= 0 and b ~= 0) end,
  ["|"] = function(_, a, b) return a | b end, ["^"] = function(_, a, b) return a ~ b end,
  ["&"] = function(_, a, b) return a & b end, ["=="] = function(_, a, b) return flag(a == b) end,
  ["!="] = function(_, a, b) return flag(a ~= b) end, ["<="] = function(_, a, b) return flag(a <= b) end,
  [">="] = function(_, a, b) return flag(a >= b) end, ["<"] = function(_, a, b) return flag(a < b) end,
  [">"] = function(_, a, b) return flag(a > b) end, ["<<"] = function(_, a, b) return a << b end,
  [">>"] = function(_, a, b) return a >> b end, ["+"] = function(_, a, b) return a + b end,
  ["-"] = function(_, a, b) return a - b end, ["*"] = function(_, a, b) return a * b end, ["/"] = divided,
  ["%"] = function(self, a, b) return a - divided(self, a, b) * b end,
  ["**"] = function(self, a, b)
    if b < 0 or b > 63 then self.fail("%s: exponent out of range", self.s) end
    local power = 1
    for _ = 1, b do power = power * a end
    return power
  end,
}

local function blank(self) self.i = self.s:find("%S", self.i) or #self.s + 1 end

-- Whether this operator is next, and not a longer one with the same start.
local function at_operator(self, operator)
  blank(self)
  if self.s:sub(self.i, self.i + #operator - 1) ~= operator then return false end
  local after = self.s:sub(self.i + #operator, self.i + #operator)
  if (operator == "|" or operator == "&" or operator == "*" or operator == "<" or operator == ">")
    and after == operator then return false end
  return after ~= "=" or operator:find "=$" ~= nil
end

local function variable(self, name)
  local _, stop, operator = self.s:find("^%s*([%+%-%*/%%]?)=", self.i)
  if stop and self.s:sub(stop + 1, stop + 1) ~= "=" then
    self.i = stop + 1
    local value = expression(self, 1)
    if operator ~= "" then value = APPLY[operator](self, self.lookup(name), value) end
    self.assign(name, value)
    return value
  end
  local value = self.lookup(name)
  local step = self.s:match("^%+%+", self.i) or self.s:match("^%-%-", self.i)
  if step then
    self.i = self.i + 2
    self.assign(name, value + (step == "++" and 1 or -1))
  end
  return value
end

local function primary(self)
  blank(self)
  local sign = self.s:match("^[-+!~]", self.i)
  if sign then
    self.i = self.i + 1
    local value = primary(self)
    if sign == "-" then return -value end
    if sign == "~" then return ~value end
    return sign == "!" and flag(value == 0) or value
  end
  if self.s:sub(self.i, self.i) == "(" then
    self.i = self.i + 1
    local value = expression(self, 0)
    blank(self)
    if self.s:sub(self.i, self.i) ~= ")" then self.fail("%s: ')' is missing", self.s) end
    self.i = self.i + 1
    return value
  end
  local number = self.s:match("^%d[%w_]*", self.i)
  if number then
    self.i = self.i + #number
    local value = math.tointeger(tonumber((number:gsub("_", ""))))
    if not value then self.fail("%s: '%s' is not an integer", self.s, number) end
    return value
  end
  local name = self.s:match("^[%a_][%w_]*", self.i)
  if not name then self.fail("%s: a number is missing", self.s) end
  self.i = self.i + #name
  return variable(self, name)
end

function expression(self, level)
  self.depth = self.depth + 1
  if self.depth > MAX_DEPTH * 12 then self.fail "arithmetic nested too deep" end
  local value
  if level == 0 then
    value = expression(self, 1)
    blank(self)
    if self.s:sub(self.i, self.i) == "?" then
      self.i = self.i + 1
      local yes = expression(self, 0)
      blank(self)
      self.i = self.i + 1
      local no = expression(self, 0)
      value = value ~= 0 and yes or no
    end
  elseif level > #LEVELS then
    value = primary(self)
  else
    value = expression(self, level + 1)
    local again = true
    while again do
      again = false
      for _, operator in ipairs(LEVELS[level]) do
        if at_operator(self, operator) then
          self.i = self.i + #operator
          value, again = APPLY[operator](self, value, expression(self, level + 1)), true
          break
        end
      end
    end
  end
  self.depth = self.depth - 1
  return value
end

--- Evaluates an expression in which $… is expanded already.
---@param s string
---@param lookup fun(name: string): integer
---@param assign fun(name: string, value: integer)
---@param fail fun(format: string, ...)
---@return integer
return function(s, lookup, assign, fail)
  local self = setmetatable({ s = s, i = 1, lookup = lookup, assign = assign, fail = fail, depth = 0 }, arithmetic)
  if not s:find "%S" then return 0 end
  local value = expression(self, 0)
  blank(self)
  if self.i <= #s then fail("%s: '%s' is not arithmetic", s, s:sub(self.i)) end
  return value
end
