--- The library's schemas as data: a function's checked arguments, and the types of checkers.
local check = require "tperf.base.check"

local schemas = {}

--- The schema with which a function checks its table of arguments: that of its first call of check.fields, or, with
--- `what`, of check.record for that name.
function schemas.demanded(f, arguments, what)
  local fields, record, schema = check.fields, check.record, nil
  local function take(wanted)
    schema = wanted
    error("enough", 0)
  end
  function check.fields(value, path, wanted)
    if what then return fields(value, path, wanted) end
    take(wanted)
  end
  function check.record(name, value, wanted)
    if name == what then take(wanted) end
    return record(name, value, wanted)
  end
  pcall(f, table.unpack(arguments))
  check.fields, check.record = fields, record
  return schema
end

local MAKE = { integer = check.integer, number = check.number, flag = check.boolean, text = check.string,
  any = check.any }

--- The same for an op's constructor written in C, from the core's description.
function schemas.of_op(fields)
  local schema = {}
  for _, field in ipairs(fields) do schema[field.name] = MAKE[field.kind] { optional = not field.required } end
  return schema
end

-- The types of fields with the checker "any", by name; many: they take lists, too.
local BY_NAME = {
  model = "string|table", models = "(string|table)[]", system = "string|table", rules = "string|table",
  strategy = "string|table", architecture = "table", rows = "table[]", schedule = "string|string[]",
  software = "string|table",
}

local function quote(text) return (("%q"):format(text):gsub("\\\n", "\\n"):gsub("\\13", "\\r")) end

local function quoted(names)
  local list = {}
  for i, name in ipairs(names) do list[i] = quote(name) end
  return table.concat(list, "|")
end

local simple = {
  boolean = function() return "boolean" end,
  integer = function() return "integer" end,
  string = function() return "string" end,
  ["function"] = function() return "function" end,
  number = function(d) return d.unit and "number|string" or "number" end,
  choice = function(d) return quoted(d.names) end,
  record = function() return "table" end,
}

local function list_of(of) return (of:find "|" and "(%s)[]" or "%s[]"):format(of) end

--- The LuaCATS type of a field's checker.
function schemas.type_of(one, name)
  local d = check.describe(one)
  if not d or d.kind == "any" then
    local of = BY_NAME[name] or "any"
    return d and d.many and of:gsub("|", "|string[]|", 1) or of
  end
  if simple[d.kind] then return simple[d.kind](d) end
  if d.kind == "list" then return list_of(schemas.type_of(d.element, name)) end
  local seen, list = {}, {}
  for _, choice in ipairs(d.choices) do
    local of = schemas.type_of(choice, name)
    if not seen[of] then list[#list + 1] = of end
    seen[of] = true
  end
  return table.concat(list, "|")
end

--- Whether a field is optional, and its default as text (nil if that is not a plain value).
---@return boolean optional, string? default
function schemas.default_of(one)
  local value, message = one(nil, "")
  if message then return false end
  local d = check.describe(one)
  if value == nil then return not (d and d.kind == "any" and not d.optional) end
  local given = d and d.default
  if type(given) == "string" then return true, quote(given) end
  if type(value) == "table" then return true end
  return true, type(value) == "string" and quote(value) or tostring(value)
end

return schemas
