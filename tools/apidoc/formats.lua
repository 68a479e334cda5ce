--- The fields of models and systems, nested ones by path. Their meanings are comments in the schema's source:
--- "field = checker, -- meaning", or on a line of their own before the field.
local check = require "tperf.base.check"
local schemas = require "apidoc.schemas"

local formats = {}

local SOURCES = {
  model = { "lua/tperf/describe/model/records.lua", "lua/tperf/describe/model/description.lua" },
  system = { "lua/tperf/describe/system.lua" },
}

-- Adds path -> meaning to `found`, using the source's indentation: a record's fields are indented deeper than its name.
local function add_meanings(found, path)
  local stack, before = {}, nil
  for line in io.lines(path) do
    local indent, name, rest = line:match "^(%s*)([%w_]+) = (.*)$"
    local top = line:match "^local ([%w_]+) = {$" or line:match "^records%.([%w_]+) = {$"
      or line:match "^[%w_.]*schema = {$" and ""
    if top or line:match "^local schema = {$" then
      stack = { { indent = 0, prefix = (top == "" or top == "schema" or not top) and "" or top .. "." } }
    elseif name and #stack > 0 then
      while #stack > 1 and stack[#stack].indent >= #indent do stack[#stack] = nil end
      local full = stack[#stack].prefix .. name
      found[full] = rest:match "%-%-%s*(.*)$" or before
      if rest:find "record_of%s*%(?{" then stack[#stack + 1] = { indent = #indent, prefix = full .. "." } end
    end
    before = line:match "^%s+%-%- (.*)$"
  end
end

-- The record whose fields several fields of another record have.
local SHARED <const> = { ["^stored%.[%w_]+%.$"] = "integers." }

local function shared_text(texts, prefix, name)
  for pattern, record in pairs(SHARED) do
    if prefix:find(pattern) then return texts[record .. name] end
  end
end

local function flatten(schema, prefix, texts, list)
  for _, name in ipairs(check.names(schema)) do
    local d = check.describe(schema[name])
    local nested = d and d.kind == "record" and d.schema
    for _, choice in ipairs(d and d.choices or {}) do
      nested = nested or check.describe(choice) and check.describe(choice).schema
    end
    local optional, default = schemas.default_of(schema[name])
    local dtype = prefix:find "%.[a-z]+%.$" and name:find "^[a-z]+%d%d?$" and "at this dtype" or nil
    list[#list + 1] = {
      name = prefix .. name, type = schemas.type_of(schema[name], name), optional = optional, default = default,
      text = texts[prefix .. name] or shared_text(texts, prefix, name)
        or name == "source" and "where the numbers come from" or dtype,
    }
    if nested then flatten(nested, prefix .. name .. ".", texts, list) end
  end
  return list
end

--- The fields of "model" or "system".
function formats.fields(kind, schema)
  local texts = {}
  for _, path in ipairs(SOURCES[kind]) do add_meanings(texts, path) end
  return flatten(schema, "", texts, {})
end

return formats
