--- A reader of TOML as training stacks use it: tables, dotted keys, strings, numbers, booleans, arrays and inline
-- tables. Arrays of tables become lists; dates are refused.
local toml = {}
toml.__index = toml

local value

function toml:fail(format, ...)
  local line = select(2, self.s:sub(1, self.i - 1):gsub("\n", "\n")) + 1
  error({ toml = ("%s:%d: %s"):format(self.where, line, format:format(...)) }, 0)
end

local function blank(self, lines)
  while true do
    local stop = select(2, self.s:find(lines and "^[ \t\r\n]+" or "^[ \t\r]+", self.i))
    if stop then
      self.i = stop + 1
    elseif self.s:sub(self.i, self.i) == "#" then
      self.i = self.s:find("\n", self.i, true) or #self.s + 1
    else
      return
    end
  end
end

local ESCAPES <const> = { b = "\b", t = "\t", n = "\n", f = "\f", r = "\r", ['"'] = '"', ["\\"] = "\\", e = "\27" }

local function unescape(self, text)
  text = text:gsub("\\\r?\n%s*", "")
  return (text:gsub("\\(.)(%x?%x?%x?%x?%x?%x?%x?%x?)", function(c, hex)
    local digits = c == "u" and 4 or c == "U" and 8
    if digits then
      if #hex < digits then self:fail "a \\u needs its digits" end
      return utf8.char(tonumber(hex:sub(1, digits), 16)) .. hex:sub(digits + 1)
    end
    return (ESCAPES[c] or self:fail("'\\%s' is no escape", c)) .. hex
  end))
end

local function text(self)
  local quote = self.s:sub(self.i, self.i)
  local long = quote:rep(3)
  if self.s:sub(self.i, self.i + 2) == long then
    local from = self.i + 3
    local stop = self.s:find(long, from, true) or self:fail "a string does not end"
    self.i = stop + 3
    local inside = self.s:sub(from, stop - 1):gsub("^\r?\n", "")
    return quote == '"' and unescape(self, inside) or inside
  end
  local at = self.i + 1
  while true do
    local c = self.s:sub(at, at)
    if c == "" or c == "\n" then self:fail "a string does not end" end
    if c == quote then break end
    at = at + (c == "\\" and quote == '"' and 2 or 1)
  end
  local inside = self.s:sub(self.i + 1, at - 1)
  self.i = at + 1
  return quote == '"' and unescape(self, inside) or inside
end

-- A dotted key: its parts.
local function key(self)
  local parts = {}
  repeat
    blank(self)
    local c = self.s:sub(self.i, self.i)
    if c == '"' or c == "'" then
      parts[#parts + 1] = text(self)
    else
      local bare = self.s:match("^[%w_-]+", self.i) or self:fail "a key is missing"
      parts[#parts + 1] = bare
      self.i = self.i + #bare
    end
    blank(self)
    local dot = self.s:sub(self.i, self.i) == "."
    if dot then self.i = self.i + 1 end
  until not dot
  return parts
end

local function descend(self, map, parts, last)
  for i = 1, last do
    local inner = map[parts[i]]
    if inner == nil then
      inner = {}
      map[parts[i]] = inner
    end
    if type(inner) ~= "table" then self:fail("'%s' is a value already", parts[i]) end
    map = #inner > 0 and type(inner[#inner]) == "table" and inner[#inner] or inner
  end
  return map
end

local function pair(self, map)
  local parts = key(self)
  if self.s:sub(self.i, self.i) ~= "=" then self:fail("'=' is missing after '%s'", parts[#parts]) end
  self.i = self.i + 1
  blank(self)
  local target = descend(self, map, parts, #parts - 1)
  if target[parts[#parts]] ~= nil then self:fail("'%s' is set twice", parts[#parts]) end
  target[parts[#parts]] = value(self)
  self.at[table.concat(self.table, ".") .. (self.table[1] and "." or "") .. table.concat(parts, ".")] = self.i
end

local function array(self)
  local list = {}
  self.i = self.i + 1
  while true do
    blank(self, true)
    if self.s:sub(self.i, self.i) == "]" then break end
    list[#list + 1] = value(self)
    blank(self, true)
    local c = self.s:sub(self.i, self.i)
    if c == "," then
      self.i = self.i + 1
    elseif c ~= "]" then
      self:fail "an array does not end"
    end
  end
  self.i = self.i + 1
  return list
end

local function inline(self)
  local map = {}
  self.i = self.i + 1
  blank(self)
  while self.s:sub(self.i, self.i) ~= "}" do
    pair(self, map)
    blank(self)
    local c = self.s:sub(self.i, self.i)
    if c == "," then
      self.i = self.i + 1
    elseif c ~= "}" then
      self:fail "an inline table does not end"
    end
    blank(self)
  end
  self.i = self.i + 1
  return map
end

local function number(self)
  local word = self.s:match("^[%w%.:_+-]+", self.i) or self:fail "a value is missing"
  local plain = word:gsub("_", ""):gsub("^%+", "")
  if plain:find "^0o[0-7]+$" then plain = tostring(tonumber(plain:sub(3), 8)) end
  if plain:find "^%-?inf$" or plain == "nan" or plain:find "^%d%d%d%d%-" or plain:find "^%-?0%d" then
    self:fail("'%s' is not a number that is read", word)
  end
  local one = tonumber(plain) or self:fail("'%s' is no value", word)
  self.i = self.i + #word
  return math.type(one) == "float" and not plain:find "[.eE]" and math.tointeger(one) or one
end

function value(self)
  self.depth = self.depth + 1
  if self.depth > 50 then self:fail "nested too deep" end
  local c = self.s:sub(self.i, self.i)
  local one
  if c == '"' or c == "'" then
    one = text(self)
  elseif c == "[" then
    one = array(self)
  elseif c == "{" then
    one = inline(self)
  elseif self.s:find("^true%f[^%w_]", self.i) then
    one, self.i = true, self.i + 4
  elseif self.s:find("^false%f[^%w_]", self.i) then
    one, self.i = false, self.i + 5
  else
    one = number(self)
  end
  self.depth = self.depth - 1
  return one
end

local function header(self, root)
  local list = self.s:sub(self.i, self.i + 1) == "[["
  self.i = self.i + (list and 2 or 1)
  local parts = key(self)
  local closing = list and "]]" or "]"
  if self.s:sub(self.i, self.i + #closing - 1) ~= closing then self:fail("'%s' is missing", closing) end
  self.i = self.i + #closing
  self.table = parts
  if not list then return descend(self, root, parts, #parts) end
  local outer = descend(self, root, parts, #parts - 1)
  outer[parts[#parts]] = outer[parts[#parts]] or {}
  local one = {}
  table.insert(outer[parts[#parts]], one)
  return one
end

local function read(self)
  local root = {}
  local map = root
  blank(self, true)
  while self.i <= #self.s do
    if self.s:sub(self.i, self.i) == "[" then map = header(self, root) else pair(self, map) end
    blank(self)
    if self.i <= #self.s and self.s:sub(self.i, self.i) ~= "\n" then self:fail "the line goes on" end
    blank(self, true)
  end
  return root
end

--- Parses TOML: the content and the offset of each path in it, or nil and "name:line: message".
---@param s string
---@param where string
---@return table? content
---@return table|string positions  path -> offset
return function(s, where)
  local self = setmetatable({ s = s, i = 1, where = where, at = {}, table = {}, depth = 0 }, toml)
  local ok, root = pcall(read, self)
  if ok then return root, self.at end
  if type(root) == "table" and root.toml then return nil, root.toml end
  error(root, 0)
end
