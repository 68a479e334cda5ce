--- tperf.schema: the arguments of a question as a JSON Schema (draft 2020-12), for forms, editors and other languages.
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"
local rows_of = require "tperf.question.rows"

local of

local SIMPLE <const> = { boolean = "boolean", string = "string", integer = "integer", number = "number" }

local function record_of(fields)
  local properties, required = {}, {}
  for _, name in ipairs(check.names(fields)) do
    properties[name] = of(fields[name])
    local value, message = fields[name](nil, name)
    if value == nil and message then required[#required + 1] = name end
  end
  return { type = "object", properties = properties, required = required[1] and required or nil,
    additionalProperties = false }
end

-- The schema of what a checker takes.
function of(one)
  local d = check.describe(one)
  if not d or d.kind == "any" then return {} end
  if d.kind == "choice" then return { enum = table.move(d.names, 1, #d.names, 1, {}), default = d.default } end
  if d.kind == "list" then return { type = "array", items = of(d.element), minItems = d.min, maxItems = d.max } end
  if d.kind == "record" then return record_of(d.schema) end
  if d.kind == "one_of" then
    local list = {}
    for i, choice in ipairs(d.choices) do list[i] = of(choice) end
    return { anyOf = list, default = d.default }
  end
  local plain = { type = SIMPLE[d.kind], minimum = d.min, maximum = d.max, exclusiveMinimum = d.above,
    default = d.default }
  if d.unit then return { anyOf = { plain, { type = "string", description = "with its unit: " .. d.unit } } } end
  return plain
end

local function described(row, many)
  local schema = of(row.check)
  local list = many and row.many and next(schema) and { anyOf = { schema, { type = "array", items = schema } } }
  schema = list or schema
  schema.description = row.more and ("%s. %s"):format(row.doc, row.more) or row.doc
  if row.default ~= nil and not many then schema.default = row.default end
  return schema
end

local function needs(row, many)
  local value, message = row.check(nil, row.name)
  return value == nil and message ~= nil and row.default == nil and not (many and row.many)
end

--- The arguments of a question as a JSON Schema. Models, systems and other objects are names or files there.
---@param name "train"|"search"|"infer"|"serve"
---@return table schema  `properties` by argument, each with its `description`; `required`
return function(name)
  local question = rows_of[name]
  if not question then
    refusal.raise("tperf.schema: %s is no question: %s", check.show(name), table.concat(check.names(rows_of), ", "))
  end
  local all = { ["$schema"] = "https://json-schema.org/draft/2020-12/schema", title = "tperf." .. name,
    type = "object", properties = {}, required = {} }
  for _, row in ipairs(question.rows()) do
    local within = all
    if row.within then
      all.properties[row.within] = all.properties[row.within] or { type = "object", properties = {} }
      within = all.properties[row.within]
    end
    within.properties[row.name] = described(row, question.tries)
    if within == all and needs(row, question.tries) then table.insert(all.required, row.name) end
  end
  return all
end
