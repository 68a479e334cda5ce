--- The settings of a launch file in a stack's own options: read from words or a tree, looked up in the stack's table.
local check = require "tperf.base.check"
local marker = require "tperf.import.launch.shell.marker"
local numbers = require "tperf.input.numbers"
local tables = require "tperf.import.launch.tables"

local settings = {}
settings.__index = settings

---@param t table  of tables.load
function settings.new(t)
  return setmetatable({ table = t, list = {}, by_option = {}, unknown = {}, unread = {}, open = {},
    asked = {}, words = {}, abbreviations = {} },
    settings)
end

local YES <const> = { ["true"] = true, ["1"] = true, yes = true, on = true }
local NO <const> = { ["false"] = true, ["0"] = true, no = true, off = true, none = true, null = true, [""] = true }

local function integer_of(text)
  local plain = tostring(text):gsub("(%d)_(%d)", "%1%2"):gsub("(%d)_(%d)", "%1%2")
  return math.tointeger(tonumber(plain))
end

-- Converts a value to its option's type; on failure nil and a message.
local function converted(row, value)
  local kind = row.type
  if kind == "call" then return value end
  if kind == "flag" or kind == "unset_flag" or kind == "switch" or kind == "boolean" then
    if type(value) == "boolean" then return value end
    local text = tostring(value):lower()
    if text == "auto" then return nil, false end
    if YES[text] then return true elseif NO[text] then return false end
    return nil, "true or false"
  end
  if type(value) == "boolean" and kind ~= "string" and kind ~= "any" and kind ~= "map" then
    return nil, value and "a value" or false
  end
  if kind == "integer" then
    if type(value) == "table" then return nil, "an integer" end
    if value == "auto" or value == "None" or value == "null" then return nil, false end
    local number = integer_of(value)
    if not number then return nil, "an integer" end
    return number
  elseif kind == "suffixed_integer" then
    if value == "auto" or value == "None" then return nil, false end
    local number = numbers.of_vllm(tostring(value))
    if not number then return nil, "an integer such as 32768, 32K (the same) or 32k (32000)" end
    return number
  elseif kind == "number" then
    if value == "auto" or value == "None" then return nil, false end
    local number = tonumber(value)
    if not number then return nil, "a number" end
    return number
  elseif kind == "list" then
    if value == "None" then return nil, false end
    return type(value) == "table" and value or { value }
  end
  if value == "None" then return nil, false end
  return value
end

local function text_of(value)
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i, one in ipairs(value) do parts[i] = tostring(one) end
  return table.concat(parts, " ")
end

--- Records that the form of an option's value is not understood.
function settings:refuse(option, value, place)
  self:unset(option) -- an earlier value no longer holds
  self.unread[#self.unread + 1] = { option = option, value = value.expression or text_of(value), place = place }
end

--- Forgets what an option was set to.
function settings:unset(option)
  self.by_option[option] = nil
  for i = #self.list, 1, -1 do
    if self.list[i].option == option then table.remove(self.list, i) end
  end
end

--- Sets an option by its row. A variable without a value is asked for, unless the option changes nothing.
function settings:put(row, value, place)
  self.seen = true
  if type(value) == "table" and #value == 1 then value = value[1] end
  if type(value) == "table" and value.expression and row.type ~= "call" then -- of Python
    if row.harmless or row.assumed then value = value.expression else return self:refuse(row.option, value, place) end
  end
  local text = text_of(value)
  if marker.is_in(text) and row.concept ~= "stack.config" then
    if row.harmless or row.concept == "model.name" then
      self.open[#self.open + 1] = { row = row, value = marker.shown(text), place = place }
      return
    end
    for _, name in ipairs(marker.names(text)) do self.asked[#self.asked + 1] = { name = name, option = row.option } end
    return
  end
  local got, expected = converted(row, value)
  if got == nil and expected and row.harmless then got = text end -- whatever it is
  if got == nil then
    if expected then
      check.fail("%s: %s must be %s, got %s", place, row.option, expected, check.show(value))
    end
    if value == "None" then self:unset(row.option) end -- of Python: an earlier value no longer holds
    return
  end
  if self.by_option[row.option] then self:unset(row.option) end -- a later value takes its place
  local entry = { option = row.option, value = got, concept = row.concept, place = place, row = row }
  self.by_option[row.option] = entry
  self.list[#self.list + 1] = entry
end

-- The only option that a name begins, as Python's argparse takes it; nil: none, or several.
local function abbreviated(t, plain)
  local found
  for name, row in pairs(t.by_name) do
    if name:sub(1, #plain) == plain and row ~= found then
      if found then return nil end
      found = row
    end
  end
  return found
end

--- Sets a part of a map. A tree's maps are known as a whole; of words, --NAME.PART VALUE adds to the map of --NAME.
function settings:part(row, name, value, place)
  if self.table.form ~= "argv" then return end
  local entry = self.by_option[row.option]
  local map = type(entry and entry.value) == "table" and entry.value or {}
  if entry and entry.value ~= map then -- a text, whose parts modules find in it
    return self:refuse(row.option, { expression = ("%s and .%s"):format(text_of(entry.value), name) }, place)
  end
  map[name] = value
  if not entry then self:put(row, map, place) end
end

--- Sets an option by its name, in any spelling that the table has; records options that the table does not have.
function settings:name(name, value, place)
  local plain = tables.plain(name)
  local row = self.table.by_name[plain]
  if row then return self:put(row, value, place) end
  local positive = plain:match "^no%-(.*)$"
  row = positive and self.table.by_name[positive]
  if row and (value == true or value == "true") then return self:put(row, false, place) end
  row = self.table.form == "argv" and name:find "^%-%-" and abbreviated(self.table, plain)
  if row then
    self.abbreviations[name] = row.option
    return self:put(row, value, place)
  end
  local base = plain:match "^([^.]+)%."
  row = base and self.table.by_name[base]
  if row and row.type == "map" then return self:part(row, name:match "%.(.+)$", value, place) end
  local text = type(value) == "table" and value.expression or text_of(value)
  self.unknown[#self.unknown + 1] = { option = name, value = marker.shown(text), place = place }
end

local function is_option(word) return word:find "^%-%-?%a" ~= nil end

-- An override of an option in the table, as `name=value` without dashes (Hydra, MaxText).
local function override(self, word)
  local name, value = word:match "^%+*([%a][%w_.]*)=(.*)$"
  if name and self.table.by_name[tables.plain(name)] then return name, value end
end

--- Reads the words of a command from `first` on. Words that belong to no option are kept in self.words.
function settings:read_words(words, first, place)
  local i = first
  while words[i] do
    local word = words[i]
    i = i + 1
    if is_option(word) then
      local name, value = word:match "^(%-%-?[^=%s]+)=(.*)$"
      if not name then name, value = word:match "^(%-%-?%S+)%s+(.*)$" end -- flag and value in one quoted word
      name = name or word
      local row = self.table.by_name[tables.plain(name)]
      local bare = row and (row.type == "flag" or row.type == "unset_flag" or row.type == "switch")
      if value == nil and not bare then
        local values = {}
        local several = row and row.type == "list" or not row and name:find "^%-%-"
        while words[i] and not is_option(words[i]) and not override(self, words[i]) and (several or #values == 0) do
          values[#values + 1] = words[i]
          i = i + 1
        end
        if #values > 0 then value = values end
      end
      local said = bare and value == nil and words[i] and words[i]:lower()
      if said == "true" or said == "false" then -- a switch with a value
        value = said
        i = i + 1
      end
      if type(value) == "string" then value = value:gsub("^(['\"])(.*)%1$", "%2") end
      if value == nil then value = true end
      self:name(name, value, place)
    else
      local name, value = override(self, word)
      if name then
        self:name(name, value, place)
      else
        self.words[#self.words + 1] = word
      end
    end
  end
end

--- Reads a tree of maps: "zero_optimization.stage" is the option of a nested key.
---@param content table
---@param at fun(path: string): string  the place of a path
---@param prefix string?
function settings:read_tree(content, at, prefix)
  for _, key in ipairs(check.names(content)) do
    local value = content[key]
    local path = prefix and prefix .. "." .. key or key
    local row = self.table.by_name[tables.plain(path)]
    local inner = type(value) == "table" and #value == 0 and next(value) ~= nil
    if inner and not (row and row.type == "map") then
      self:read_tree(value, at, path)
    elseif type(value) ~= "userdata" then
      self:name(path, value, at(path))
      if inner then -- parts of a map may be options of their own; if all are, the map says nothing else
        local whole = true
        for _, part in ipairs(check.names(value)) do
          local own = self.table.by_name[tables.plain(path .. "." .. part)]
          if own then self:put(own, value[part], at(path .. "." .. part)) else whole = false end
        end
        if whole then self:set(row.option) end
      end
    end
  end
end

--- The value of an option if it is set, or nil.
function settings:set(option)
  local entry = self.by_option[option]
  if entry then entry.read = true end
  return entry and entry.value
end

--- The value of an option, or its default.
function settings:get(option)
  if self.by_option[option] then return self:set(option) end
  local row = self.table.by_name[tables.plain(option)]
  return row and row.default
end

local SWITCHES <const> = { flag = true, unset_flag = true, switch = true, boolean = true }

--- The value last set among the options of a concept, else the first default; and the option. A switch that shares a
-- concept with sizes (--decrease-batch-size-if-needed) is not a size.
function settings:concept(concept)
  local rows = self.table.by_concept[concept] or {}
  local switch = rows[1] and SWITCHES[rows[1].type]
  for i = #self.list, 1, -1 do
    local entry = self.list[i]
    if entry.concept == concept and (switch or not SWITCHES[entry.row.type]) then
      entry.read = true
      return entry.value, entry.option
    end
  end
  for _, row in ipairs(rows) do
    if row.default ~= nil and (switch or not SWITCHES[row.type]) then return row.default, row.option end
  end
end

--- Whether an option of a concept is set.
function settings:has(concept)
  for _, entry in ipairs(self.list) do
    if entry.concept == concept then
      entry.read = true
      return true
    end
  end
  return false
end

return settings
