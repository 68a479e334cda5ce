--- Validation: every argument table, model and system that a user passes goes through a schema here.
-- A checker is a function(value, path) that returns the checked value (copied, converted, defaulted),
-- or nil, message, failing_path. Nil without a message means an optional field that is absent.
local debug, math, string, table = debug, math, string, table
local core = require "tperf.core"
local frozen = require "tperf.base.object.frozen"
local lists = require "tperf.base.lists"
local schemas = require "tperf.base.schemas"
local wording = require "tperf.base.wording"

local check = {}

-- Stack frames whose source starts with this prefix belong to the library, not to the user.
local library = debug.getinfo(1, "S").source:match "^(.*)base/check%.lua$"

--- Whether this source of a function (as debug.getinfo tells it) is the library's.
---@return boolean
function check.is_library(source) return source:sub(1, #library) == library end

--- "script.lua:12: ": the innermost stack frame outside the library, or "".
---@return string
function check.where()
  local level = 2
  while true do
    local frame = debug.getinfo(level, "Sl")
    if not frame then return "" end
    if frame.currentline > 0 and not check.is_library(frame.source) then
      return string.format("%s:%d: ", frame.short_src, frame.currentline)
    end
    level = level + 1
  end
end

--- Raises an error that points at the user's line.
---@param format string
function check.fail(format, ...)
  error(check.where() .. check.worded(format, ...), 0)
end

local function unless_out_of_memory(ok, message, ...)
  if not ok and type(message) == "string" and message:find("not enough memory", 1, true) then error(message, 0) end
  return ok, message, ...
end

--- pcall, except that running out of memory is raised again: it says nothing about the arguments.
---@param f function
---@return boolean done, any ...
function check.attempt(f, ...) return unless_out_of_memory(pcall(f, ...)) end

check.show, check.worded = wording.show, wording.worded -- see there

--- See tperf.base.suggest, which only mistakes need.
---@return string
function check.suggest(...) return require "tperf.base.suggest"(...) end

local function join(path, key)
  if type(key) == "number" then return string.format("%s[%s]", path, key) end
  key = type(key) == "string" and key or check.show(key)
  return path == "" and key or path .. "." .. key
end

local described = setmetatable({}, { __mode = "k" }) -- checker -> its description, or what one is made of

--- What a checker accepts, for documentation: { kind =, default, optional, unit …, element, schema, names, choices },
--- or nil if unknown. With a description, registers it for a hand-written checker.
---@param one function
---@param description table?
function check.describe(one, description)
  local known = description or described[one]
  if known and known.options then
    local parts = known
    known = { kind = parts.kind }
    for name, value in next, parts.options do known[name] = value end
    for name, value in next, parts.inner or {} do known[name] = value end
  end
  described[one] = known
  return known
end

--- What a checker makes of a missing value: a table whose `optional` and `default` say so, or nil if unknown.
function check.missing(one) return described[one] and described[one].options or described[one] end

-- Makes a checker with default= and optional= from test(value, path). kind, inner: see check.describe.
local function checker(options, test, kind, inner)
  local default, optional = options.default, options.optional
  local function checked(value, path)
    if value ~= nil then return test(value, path) end
    if default ~= nil then return test(default, path) end
    if optional then return nil end
    return nil, string.format("'%s' is missing", path), path
  end
  described[checked] = { kind = kind, options = options, inner = inner }
  return checked
end

local function wrong(path, expected, value)
  if path == "" then return nil, string.format("%s is needed, got %s", expected, check.show(value)), path end
  return nil, string.format("'%s' must be %s, got %s", path, expected, check.show(value)), path
end

-- "a number", "an integer from 1 to 8", "a number above 0 …" for messages.
local function range(noun, o)
  local low = o.above and " above " .. check.show(o.above) or o.min and " from " .. check.show(o.min) or ""
  local high = o.max and string.format(" %s %s", low == "" and "up to" or o.above and "and up to" or "to",
    check.show(o.max)) or ""
  if o.min and not o.max then low = " of at least " .. check.show(o.min) end
  return noun .. low .. high .. (o.unit and " in " .. o.unit or "") .. (o.example and ", such as " .. o.example or "")
end

--- An integer, or a float with an integral value: min, max, default, optional.
function check.integer(options)
  local o = options or {}
  local low, high, math_type = o.min or math.mininteger, o.max or math.maxinteger, math.type
  return checker(o, function(value, path)
    local integer = math_type(value) == "integer" and value or type(value) == "number" and math.tointeger(value)
    if integer and integer >= low and integer <= high then return integer end
    return wrong(path, range("an integer", o), value)
  end, "integer")
end

local COUNTED = { bytes = true, FLOP = true } -- a bare "1048576" is unambiguous

--- A quantity typed by a person, in its base unit; or nil and a message. A unit is mandatory except for counts and for
--- zero, because a bare 20 could be seconds or milliseconds.
---@param text string
---@param unit string  as in tperf.units
function check.quantity(text, unit)
  if tonumber(text) and tonumber(text) ~= 0 and not COUNTED[unit] then
    local remedy = unit == "s" and string.format("'%sms' or '%ss'", text, text) or string.format("'%s %s'", text, unit)
    return nil, string.format("a unit is needed, got '%s'; write %s", text, remedy)
  end
  return core.units.parse(text, unit)
end

--- A finite number: min, max, above (exclusive), default, optional. With unit, also a string such as "900 GB/s".
--- Messages show the example.
function check.number(options)
  local o = options or {}
  local low, high, above, huge = o.min or -math.huge, o.max or math.huge, o.above or -math.huge, math.huge
  return checker(o, function(value, path)
    local number = value
    if o.unit and type(value) == "string" then
      local message
      number, message = check.quantity(value, o.unit)
      if not number then return nil, string.format("'%s': %s", path, message), path end
    end
    if type(number) == "number" and number >= low and number <= high and number > above and number < huge then
      return number
    end
    return wrong(path, range(o.unit and "a quantity" or "a number", o), value)
  end, "number")
end

local function of_type(kind, expected)
  return function(options)
    return checker(options or {}, function(value, path)
      if type(value) ~= kind then return wrong(path, expected, value) end
      return value
    end, kind)
  end
end

check.boolean = of_type("boolean", "true or false")
check.func = of_type("function", "a function")

--- A string; empty only if `empty` is set; without control characters if `name` is: names reach the terminal.
function check.string(options)
  local o = options or {}
  return checker(o, function(value, path)
    if type(value) ~= "string" or value == "" and not o.empty then return wrong(path, "a string", value) end
    local acts = o.name and (value:find "%c" or value:find "\xC2[\x80-\x9F]")
    if acts then return wrong(path, "a text without control characters", value) end
    return value
  end, "string")
end

--- Any value at all; many: its documentation says that lists are meant, too.
function check.any(options)
  return checker(options or {}, function(value) return value end, "any")
end

--- One of the strings of options[1].
function check.choice(options)
  local names = options[1]
  return checker(options, function(value, path)
    if type(value) == "string" and lists.has(names, value) then return value end
    local _, message = wrong(path, "one of " .. table.concat(names, ", "), value)
    return nil, message .. check.suggest(value, names), path
  end, "choice", { names = names })
end

--- A list whose elements all pass `element`: min, max (of its length), default, optional.
function check.list(element, options)
  local o = options or {}
  local expected = range("a list, of a length", o)
  return checker(o, function(value, path)
    value = frozen.plain(value)
    if type(value) ~= "table" then return wrong(path, "a list", value) end
    local copy, length, hole, stranger = {}, lists.measure(value)
    if stranger ~= nil then
      return nil, string.format("'%s' must be a list, but has the field %s", path, check.show(stranger)),
        join(path, stranger)
    end
    if hole then return nil, lists.HOLE:format(join(path, hole)), join(path, hole) end
    if length < (o.min or 0) or length > (o.max or math.huge) then
      return nil, string.format("'%s' must be %s, got %d", path, expected, length), path
    end
    for i = 1, length do
      local item, message, where = element(rawget(value, i), "")
      if message then item, message, where = element(rawget(value, i), join(path, i)) end
      if message then return nil, message, where end
      copy[i] = item
    end
    return copy
  end, "list", { element = element })
end

local function takes_table(one)
  local kind = (described[one] or {}).kind
  return kind == "list" or kind == "record"
end

--- Tries several checkers and takes the first that accepts the value. If none does, the error lists the messages of
--- those that take its kind of value, a table or not.
function check.one_of(...)
  local choices = { ... }
  local function one(value, path)
    local messages, near = {}, {}
    for _, choice in ipairs(choices) do
      local result, message = choice(value, path)
      if not message then return result end
      messages[#messages + 1] = message
      if (type(value) == "table") == takes_table(choice) then near[#near + 1] = message end
    end
    return nil, table.concat(#near > 0 and near or messages, "; or "), path
  end
  described[one] = { kind = "one_of", choices = choices }
  return one
end

--- As check.one_of(...), but optional.
function check.one_of_or_nil(...)
  local either = check.one_of(...)
  local function optional(value, path)
    if value ~= nil then return either(value, path) end
  end
  described[optional] = { kind = "one_of", optional = true, choices = { ... } }
  return optional
end

--- What `element` accepts, a list of such values, or nothing.
function check.one_or_list(element) return check.one_of_or_nil(element, check.list(element, { min = 1 })) end

--- The same checker with another default; nil: without one, so that the value may be absent.
function check.with_default(one, default)
  local description = {}
  for name, value in next, check.describe(one) do description[name] = value end
  description.default, description.optional = default, default == nil or nil
  local function checked(value, path)
    if value == nil then value = default end
    if value ~= nil then return one(value, path) end
  end
  check.describe(checked, description)
  return checked
end

check.names, check.once = schemas.names, schemas.once -- see there

-- Which nested records have a field that was given beside them, as a hint; else names like it.
local function hint_of(key, schema, names, path)
  local found = {}
  for _, name in ipairs(names) do
    local nested = (check.describe(schema[name]) or {}).schema
    if type(nested) == "table" and nested[key] then
      found[#found + 1] = string.format("'%s'", join(path, name .. "." .. key))
    end
  end
  if #found == 0 then return wording.hint(key, names) end
  return string.format(" (there is %s)", table.concat(found, ", "))
end

--- check.record without raising: the checked copy, or nil, message, failing path and whether that path is an unknown
--- field.
---@param value any
---@param path string  of the value, "" at the top
---@param schema table
function check.fields(value, path, schema)
  value = frozen.plain(value)
  if type(value) ~= "table" then return wrong(path, "a table", value) end
  local done = schemas.sound(value, schema, check.missing)
  if done then return done end
  local names, unknown = schemas.names_of(schema), nil
  for key in next, value do
    if not schema[key] then
      local shown = type(key) == "string" and key or "[" .. check.show(key) .. "]"
      if not unknown or shown < unknown then unknown = shown end
    end
  end
  if unknown then
    local where = join(path, unknown)
    return nil, string.format("unknown field '%s'%s", #where > 100 and where:sub(1, 97) .. "..." or where,
      hint_of(unknown, schema, names, path)), where, true
  end
  local copy, absent_too = {}, schemas.asked_of(schema, check.missing)
  for i = 1, #names do
    local name = names[i]
    local given = rawget(value, name)
    if given ~= nil or absent_too[name] then
      local field, message, where, is_unknown = schema[name](given, name)
      if message and path ~= "" then -- only messages need the whole path
        field, message, where, is_unknown = schema[name](given, join(path, name))
      end
      if message then return nil, message, where, is_unknown end
      copy[name] = field
    end
  end
  return copy
end

--- A nested record: a table that passes `schema`; default, optional.
function check.record_of(schema, options)
  return checker(options or {}, function(value, path) return check.fields(value, path, schema) end, "record",
    { schema = schema })
end

--- Copies a table of arguments and fills in defaults. Raises at the user's line if a field is unknown, missing or
-- wrong.
---@param what string     prefix of the message: "tperf.search"
---@param value any       what the user passed
---@param schema table    field name -> checker
---@return table
function check.record(what, value, schema)
  if type(value) ~= "table" then check.fail("%s needs a table of arguments, got %s", what, check.show(value)) end
  local copy, message = check.fields(value, "", schema)
  if message then check.fail("%s: %s", what, message) end
  return copy
end

return check
