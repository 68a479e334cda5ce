--- Conditions of a shell: test, [ … ] and [[ … ]]. Variables that a condition needs but that are unset are recorded.
local check = require "tperf.base.check"
local expand = require "tperf.import.launch.shell.expand"
local marker = require "tperf.import.launch.shell.marker"
local pattern = require "tperf.import.launch.shell.pattern"

local test = {}

-- Values of switches, which are off unless they are set; other values are choices that the user has to make.
local SWITCHES <const> = { ["true"] = true, ["false"] = true, yes = true, no = true, on = true, off = true,
  ["1"] = true, ["0"] = true, [""] = true }

local function need(self, ...)
  for _, text in ipairs { ... } do
    for _, name in ipairs(marker.names(text)) do self.lacking[#self.lacking + 1] = name end
  end
  return false
end

-- The text as a shell sees it: empty for an unset variable.
local function as_set(text) return marker.is_unset(text) and "" or text end

local function equal(self, a, b, glob)
  local open = marker.is_in(a) or marker.is_in(b)
  if open then
    local other = marker.is_in(a) and b or a
    local switch = not marker.is_in(other) and SWITCHES[other:lower()]
    if not switch and (marker.is_unset(a) or marker.is_unset(b) or other ~= "") then return need(self, a, b) end
    a, b = as_set(a), as_set(b)
  end
  return a == b or glob and not marker.is_in(a) and pattern.matches(a, b)
end

local COMPARE <const> = {
  ["-eq"] = function(a, b) return a == b end, ["-ne"] = function(a, b) return a ~= b end,
  ["-lt"] = function(a, b) return a < b end, ["-le"] = function(a, b) return a <= b end,
  ["-gt"] = function(a, b) return a > b end, ["-ge"] = function(a, b) return a >= b end,
}

local function compare(self, a, op, b)
  if marker.is_in(a) or marker.is_in(b) then return need(self, a, b) end
  if self.double then a, b = expand.arithmetic(self.sh, a), expand.arithmetic(self.sh, b) end
  local x, y = tonumber(a), tonumber(b)
  if not x or not y then
    if a == "" or b == "" then return false end
    self.sh.fail("'%s' %s '%s' compares numbers", a, op, b)
  end
  return COMPARE[op](x, y)
end

local function unary(self, op, text)
  if op == "-z" then return as_set(text) == "" end
  if op == "-n" then return as_set(text) ~= "" end
  if op == "-v" then
    local name, index = text:match "^([^%[]+)%[(.*)%]$"
    local value = self.sh:get(name or text)
    if not index then return value ~= nil end
    return type(value) == "table" and value.items[self.sh:index(value, index)] ~= nil
  end
  if op == "-f" or op == "-e" or op == "-d" or op == "-s" or op == "-r" or op == "-x" or op == "-L" then
    return true -- scripts test for files and tools that exist where they run
  end
  return nil
end

local expression

local function value_at(self, i)
  local word = self.words[i] or ""
  return self.double and expand.text(self.sh, word) or word
end

local function primary(self)
  local word = self.words[self.i]
  if word == "!" then
    self.i = self.i + 1
    return not primary(self)
  end
  if word == "(" then
    self.i = self.i + 1
    local ok = expression(self)
    self.i = self.i + 1
    return ok
  end
  local op = self.words[self.i + 1]
  if op == "=" or op == "==" or op == "!=" or op == "=~" or op == "<" or op == ">" or COMPARE[op or ""] then
    local a, b = value_at(self, self.i), value_at(self, self.i + 2)
    local glob = self.double and not (self.words[self.i + 2] or ""):find "^[\"']"
    self.i = self.i + 3
    if COMPARE[op] then return compare(self, a, op, b) end
    if op == "=~" then
      if marker.is_in(a) then return need(self, a) end
      if b:find "[|(){}]" then return need(self, marker.of("$[[ … =~ " .. b .. " ]]")) end -- not supported
      local plain = b:gsub("\\", "%%")
      local ok, found = check.attempt(string.find, a, plain)
      return ok and found ~= nil
    end
    if op == "<" then return a < b end
    if op == ">" then return a > b end
    local before = #self.lacking
    local same = equal(self, a, b, glob)
    if op == "!=" and #self.lacking == before then return not same end
    return same
  end
  if word and word:find "^%-%a$" and op then
    local ok = unary(self, word, value_at(self, self.i + 1))
    if ok ~= nil then
      self.i = self.i + 2
      return ok
    end
  end
  local text = value_at(self, self.i)
  self.i = self.i + 1
  return as_set(text) ~= ""
end

local function conjunction(self)
  local ok = primary(self)
  while self.words[self.i] == "&&" or self.words[self.i] == "-a" do
    self.i = self.i + 1
    local before = #self.lacking
    local right = primary(self)
    if not ok then self.lacking = table.move(self.lacking, 1, before, 1, {}) end -- not evaluated
    ok = ok and right
  end
  return ok
end

function expression(self)
  local ok = conjunction(self)
  while self.words[self.i] == "||" or self.words[self.i] == "-o" do
    self.i = self.i + 1
    local right = conjunction(self)
    ok = ok or right
  end
  return ok
end

local function run(sh, words, double)
  local self = { sh = sh, words = words, i = 1, lacking = {}, double = double }
  if #words == 0 then return false, {} end
  local ok = expression(self)
  return ok and true or false, self.lacking
end

--- Evaluates [ … ] with expanded words.
---@return boolean, string[] lacking  unset variables that the result depends on
function test.single(sh, words) return run(sh, words, false) end

--- Evaluates [[ … ]] with unexpanded words.
function test.double(sh, words) return run(sh, words, true) end

return test
