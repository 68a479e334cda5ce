--- A typed reader of other programs' configuration files. Keys may have older spellings; messages name file and key.
-- A null counts as an absent key.
local check = require "tperf.base.check"

local config = {}
config.__index = config

---@param fields table the file's contents
---@param where string its name, for messages
---@param positions table? of tperf.core.yaml: path -> { line, column }
---@param path string? where in the file these fields are: "text_config"
---@return table reader
function config.new(fields, where, positions, path)
  return setmetatable({
    fields = fields, where = where, positions = positions or {}, path = path, understood = {}, ignored = {},
    assumed = {},
  }, config)
end

--- The reader of the map at `key`, or nil.
function config:nested(key)
  local fields = self:table(key)
  if not fields then return nil end
  local nested = config.new(fields, self.where, self.positions, self.path and self.path .. "." .. key or key)
  nested.outer = self
  return nested
end

--- Raises at the user's line. The message starts with the key, if there is one, and its place in the file.
function config:fail(key, format, ...)
  local path = key and self.path and self.path .. "." .. key or key or self.path or ""
  local at = self.positions[path]
  local place = at and ("%s:%d:%d"):format(self.where, at[1], at[2]) or self.where
  if self.path and not at then place = place .. ": " .. self.path end
  check.fail("%s: %s%s", place, key and '"' .. key .. '" ' or "", format:format(...))
end

--- Values that hold for keys that the file lacks, by their first spelling: those of the program's own class.
---@param values table<string, any>?
function config:assume(values) self.defaults = values end

--- Notes something that is assumed of the whole, for the file's account.
function config:note(name, why) self.notes = { name = name, why = why } end

-- The value and spelling of the first key present: the plain key, then the class's alias, then the old name; else the
-- class's default, which is noted.
local function find(self, keys)
  local found, spelling
  for key in (keys .. "|"):gmatch "(.-)|" do
    local value = rawget(self.fields, key)
    self.understood[key] = true
    if value ~= nil then self.ignored[key] = nil end
    if found == nil and value ~= nil and type(value) ~= "userdata" then found, spelling = value, key end
  end
  if found == nil and self.defaults then
    for key in (keys .. "|"):gmatch "(.-)|" do
      local value = self.defaults[key]
      if value ~= nil then
        self.assumed[key] = value
        return value, key
      end
    end
  end
  return found, spelling or keys:match "^[^|]+"
end

--- Ignores keys, whatever their values.
---@param keys string  "head_dim|num_key_value_heads"
---@param why string?  they change neither counts nor cost
function config:ignore(keys, why)
  for key in (keys .. "|"):gmatch "(.-)|" do
    if not self.understood[key] then self.ignored[key] = why or "it changes neither counts nor cost" end
    self.understood[key] = true
  end
end

-- Whether a value turns the feature off that its key names.
local function is_absent(value)
  local kind = type(value)
  return kind == "userdata" or value == false or value == 0 or value == "" or kind == "table" and next(value) == nil
end

--- What became of the file's keys so far, each with its path in the file.
---@return table  read: names; assumed: { name, value } of class defaults; ignored: { name, why }; all sorted
function config:account()
  local record, prefix = { read = {}, assumed = {}, ignored = {} }, self.path and self.path .. "." or ""
  for _, key in ipairs(check.names(self.understood)) do
    local here = self.fields[key] ~= nil
    if here and self.ignored[key] then
      table.insert(record.ignored, { name = prefix .. key, why = self.ignored[key] })
    elseif here then
      table.insert(record.read, prefix .. key)
    end
  end
  if self.notes then record.assumed[1] = self.notes end
  for _, key in ipairs(check.names(self.assumed)) do
    table.insert(record.assumed, { name = prefix .. key, value = self.assumed[key], why = "the class's default" })
  end
  return record
end

--- The keys that have a value and were never read, sorted; and the keys that were read.
---@return string[] unread, string[] understood
function config:unread()
  local list = {}
  for key, value in next, self.fields do
    if type(key) == "string" and not self.understood[key] and not is_absent(value) then list[#list + 1] = key end
  end
  table.sort(list)
  return list, check.names(self.understood)
end

local function missing(self, keys)
  local first, rest = keys:match "^([^|]+)|?(.*)$"
  self:fail(nil, "missing \"%s\"%s", first, rest ~= "" and " (or \"" .. rest:gsub("|", "\", \"") .. "\")" or "")
end

--- The spelling that is present, or nil.
function config:has(keys)
  local value, key = find(self, keys)
  return value ~= nil and key or nil
end

--- The value of a required key, of any type.
function config:value(key)
  local value = find(self, key)
  if value == nil then missing(self, key) end
  return value
end

--- A count: an integer of at least `min` (1). Without a default the key is required.
---@param keys string spellings, first choice first: "hidden_size|n_embd"
---@param default integer|false|nil false: absent is nil
---@param min integer?
---@param max integer? 2^30
function config:count(keys, default, min, max)
  local value, key = find(self, keys)
  if value == nil then
    if default == nil then missing(self, keys) end
    return default or nil
  end
  min, max = min or 1, max or 1 << 30
  local count = type(value) == "number" and math.tointeger(value)
  if not count or count < min or count > max then
    self:fail(key, "must be an integer from %d to %d, got %s", min, max, check.show(value))
  end
  return count
end

function config:flag(keys, default)
  local value, key = find(self, keys)
  if value == nil then return default end
  if type(value) ~= "boolean" then self:fail(key, "must be true or false, got %s", check.show(value)) end
  return value
end

function config:text(keys, default)
  local value, key = find(self, keys)
  if value == nil then
    if default == nil then missing(self, keys) end
    return default or nil
  end
  if type(value) ~= "string" then self:fail(key, "must be a string, got %s", check.show(value)) end
  return value
end

--- A list or map, or nil.
function config:table(keys)
  local value, key = find(self, keys)
  if value ~= nil and type(value) ~= "table" then
    self:fail(key, "must be a list or map, got %s", check.show(value))
  end
  return value
end

return config
