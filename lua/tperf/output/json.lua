--- JSON (RFC 8259), written piece by piece: keys sorted, numbers in the shortest form that reads back unchanged.
local check = require "tperf.base.check"
local core = require "tperf.core"
local columns = require "tperf.output.columns"
local lazy = require "tperf.base.lazy"
local number = require "tperf.output.number"
local wording = require "tperf.base.wording"

local json = {}

--- An object without fields: a table without any is written as an empty list.
json.EMPTY = setmetatable({}, { __newindex = function() error("json.EMPTY has no fields", 2) end })

json.DEPTH = 100 -- levels; anything deeper is a mistake, and other programs could not read it

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\",
  ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

-- As JSON escapes it: in two halves beyond U+FFFF.
local function escape(character, code)
  if not code then return "\u{FFFD}" end
  if escapes[character] or code < 0x10000 then return escapes[character] or ("\\u%04x"):format(code) end
  return ("\\u%04x\\u%04x"):format(0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF))
end

--- A JSON string. Bytes that are not UTF-8 become U+FFFD, "replacement character": JSON cannot carry them.
---@param text string
---@return string
function json.quote(text)
  return '"' .. wording.visible((text:gsub('["\\]', escapes)), escape) .. '"'
end

local function step(path, key)
  if math.type(key) == "integer" then return string.format("%s[%d]", path, key) end
  return path == "" and tostring(key) or path .. "." .. tostring(key)
end

-- The keys of a table that is not a list, as text: numbers first, by value, then names.
local function sorted_keys(value, path, what)
  local keys, seen = {}, {}
  for key in next, value do
    if type(key) ~= "string" and type(key) ~= "number" then
      check.fail("%s: %s has the key %s; JSON keys are names", what,
        path == "" and "the value" or "'" .. path .. "'", check.show(key))
    end
    local name = type(key) == "number" and number.text(key) or key
    if seen[name] then
      check.fail("%s: '%s' has both the number %s and the text \"%s\" as keys", what, path, name, name)
    end
    seen[name] = true
    keys[#keys + 1] = { key = key, name = name, rank = type(key) == "number" and key or math.huge }
  end
  table.sort(keys, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    return a.name < b.name
  end)
  return keys
end

--- The length of a table whose keys are 1..n, which is a list (an empty table is an empty list); nil of others.
function json.list_length(value)
  local count = 0
  for _ in next, value do count = count + 1 end
  for i = 1, count do
    if rawget(value, i) == nil then return nil end
  end
  return count
end

local function is_flat(value)
  for _, item in next, value do
    if type(item) == "table" then return false end
  end
  return true
end

local writer = {}
local metatable = { __index = writer }

function writer:number(value, path)
  if value ~= value or value == math.huge or value == -math.huge then
    if self.nonfinite == "null" then return self.put "null" end
    check.fail("%s: '%s' is %s, which JSON cannot carry; leave it out, or pass nonfinite = \"null\"",
      self.what, path, number.text(value))
  end
  self.put(number.text(value))
end

-- Items separated by commas: all on one line if they are scalars, otherwise one per line.
function writer:items(open, close, count, flat, depth, each)
  local pad = self.indent > 0 and not flat and "\n" .. (" "):rep(self.indent * depth) or nil
  self.put(open)
  for i = 1, count do
    if i > 1 then self.put(self.indent > 0 and not pad and ", " or ",") end
    if pad then self.put(pad .. (" "):rep(self.indent)) end
    each(i)
  end
  if pad and count > 0 then self.put(pad) end
  self.put(close)
end

function writer:table(value, path, depth)
  value = lazy.settle(value)
  if self.open[value] then
    check.fail("%s: '%s' leads back to %s, which JSON cannot carry", self.what, path,
      self.open[value] == "" and "the value itself" or "'" .. self.open[value] .. "'")
  end
  if depth >= json.DEPTH then check.fail("%s: '%s…' is nested over %d levels deep", self.what, path:sub(1, 60),
      json.DEPTH) end
  self.open[value] = path
  local count, flat = json.list_length(value), is_flat(value)
  if count then
    self:items("[", "]", count, flat, depth, function(i)
      self:value(rawget(value, i), step(path, i), depth + 1)
    end)
  else
    local keys = sorted_keys(value, path, self.what)
    self:items("{", "}", #keys, flat, depth, function(i)
      self.put(json.quote(keys[i].name) .. (self.indent > 0 and ": " or ":"))
      self:value(rawget(value, keys[i].key), step(path, keys[i].key), depth + 1)
    end)
  end
  self.open[value] = nil
end

function writer:value(value, path, depth)
  local kind = type(value)
  if kind == "number" then return self:number(value, path) end
  if kind == "string" then return self.put(json.quote(value)) end
  if kind == "boolean" or kind == "nil" then return self.put(tostring(value == nil and "null" or value)) end
  if value == json.EMPTY then return self.put "{}" end
  if kind == "table" then return self:table(value, path, depth) end
  -- The null of a list that was read.
  if kind == "userdata" and value == core.yaml("[~]", "null")[1] then return self.put "null" end
  check.fail("%s: '%s' is a %s, which JSON cannot carry", self.what, path, kind)
end

local options_schema = {
  indent = check.integer { min = 0, max = 8, default = 2 },
  nonfinite = check.choice { { "error", "null" }, default = "error" },
}

--- Writes any value made of tables, strings, numbers and booleans, piece by piece.
---@param value any
---@param put fun(piece: string)
---@param options? { indent: integer, nonfinite: "error"|"null" }
---@param what? string  prefix of messages
function json.write(value, put, options, what)
  local self = setmetatable(check.record(what or "report.json", options or {}, options_schema), metatable)
  self.put, self.open, self.what = put, {}, what or "report.json"
  self:value(value, "", 0)
end

--- Any value as JSON.
---@return string
function json.encode(value, options, what)
  local pieces = {}
  json.write(value, function(piece) pieces[#pieces + 1] = piece end, options, what)
  return table.concat(pieces)
end

-- One object per row, with fields named and ordered as the columns; nil becomes null.
local function selected(rows, list, o)
  local pieces = {}
  local put = function(piece) pieces[#pieces + 1] = piece end
  local self = setmetatable(check.record("report.json", o, options_schema), metatable)
  self.put, self.open, self.what = put, {}, "report.json"
  self:items("[", "]", #rows, false, 0, function(r)
    self:items("{", "}", #list, true, 1, function(i)
      put(json.quote(list[i].name) .. (self.indent > 0 and ": " or ":"))
      self:value(list[i].get(rows[r]), string.format("row %d.%s", r, list[i].name), 2)
    end)
  end)
  return table.concat(pieces)
end

--- Rows as JSON: whole, or only the columns named (one object per row, keyed by the column's key).
---@param rows any
---@param wanted? (string|tperf.Column)[]
---@param options? table
---  indent     blanks a level
---  nonfinite  "error" (default), or "null" for NaN and infinity
---@return string
function json.rows(rows, wanted, options)
  if not wanted then return json.encode(rows, options) .. "\n" end
  return selected(rows, columns.resolve("report.json", rows, wanted), options or {}) .. "\n"
end

return json
