--- The variables of the small shell (shell/init.lua): strings, arrays and maps { items, keys, map }.
local expand = require "tperf.import.launch.shell.expand"
local marker = require "tperf.import.launch.shell.marker"
local words = require "tperf.import.launch.shell.words"

local variables = {}

--- The value of a variable, or of the variable that a name reference (local -n) points to.
function variables:get(name)
  name = self.refs[name] or name
  if name == "@" or name == "*" then return { items = self.positional, keys = self.positional_keys } end
  if name == "#" then -- how many words the script will be started with is unknown
    return #self.positional == 0 and self.calls == 0 and marker.of "$#" or tostring(#self.positional)
  end
  if name:find "^%d+$" then return name == "0" and self.where or self.positional[tonumber(name)] end
  if name == "?" then return "0" end
  if name == "$" or name == "!" or name == "-" then return "1" end
  return self.vars[name]
end

--- The key of an array element: an integer, or a string for a map.
function variables:index(value, text)
  if type(value) == "table" and value.map then return expand.text(self, text) end
  return math.tointeger(tonumber(expand.arithmetic(self, text))) or 0
end

--- Sets a variable, unless the import's caller gave its value.
function variables:assign(name, value)
  name = self.refs[name] or name
  if self.given[name] ~= nil then return end
  if type(value) == "string" and value:find "^\1%d+\2$" then value = marker.of(name) end -- FOO=$1: FOO is asked for
  self.vars[name] = value
end

local function put(array, key, value)
  if array.items[key] == nil then array.keys[#array.keys + 1] = key end
  array.items[key] = value
end

local function array_of(self, one, old)
  local array = one.append and type(old) == "table" and old or { items = {}, keys = {}, map = one.map }
  local last = #array.keys
  for _, word in ipairs(words.split(one.array)) do
    local key, text = word:match "^(%b[])=(.*)$"
    if key and (array.map or key:find "^%[%d+%]$") then
      put(array, self:index(array, key:sub(2, -2)), expand.text(self, text))
    else
      for _, field in ipairs(expand.fields(self, word)) do
        put(array, last, field)
        last = last + 1
      end
    end
  end
  return array
end

--- Runs an assignment of the parser.
function variables:set(one)
  local old = self:get(one.name)
  if one.array then return self:assign(one.name, array_of(self, one, old)) end
  local text = expand.text(self, one.word)
  if old == nil and text ~= marker.of(one.name) then -- FLAGS="$FLAGS --more": empty at first, the script builds it up
    text = text:gsub("\1" .. one.name .. "\2", "")
  end
  if one.index then
    local array = type(old) == "table" and old or { items = {}, keys = {} }
    local key = self:index(array, one.index)
    put(array, key, one.append and (array.items[key] or "") .. text or text)
    return self:assign(one.name, array)
  end
  if one.append and type(old) == "table" then
    put(old, #old.keys, text)
  else
    self:assign(one.name, one.append and (old or "") .. text or text)
  end
end

return variables
