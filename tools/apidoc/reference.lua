--- The library's public functions with their parameters and results, from comments and schemas.
local check = require "tperf.base.check"
local comments = require "apidoc.comments"
local core = require "tperf.core"
local formats = require "apidoc.formats"
local neutral = require "tperf.base.entry.neutral"
local schemas = require "apidoc.schemas"
local served = require "tperf.question.serving_arguments"
local tperf = require "tperf"
local trained = require "tperf.question.arguments"

local reference = {}

-- The function that a callable table calls.
local CALLED = { architecture = "define", args = "read", block = "define", rules = "of", schedule = "simulate" }

-- Arguments that make functions show their schemas, where an empty table is not enough.
local strategies = { { { strategy = "tensor" } }, { { strategy = "summa" } }, { { strategy = "context" } } }
local ARGUMENTS = {
  ["tperf.op.custom"] = { { { 0 } } }, -- what the core takes is not checked against the schema
  ["tperf.train"] = strategies, ["tperf.layer"] = strategies, ["tperf.search"] = { { { strategy = "all" } } },
  ["tperf.infer"] = { {}, { { strategy = "context" } } }, ["tperf.search_inference"] = { {},
    { { strategy = "context" } } },
  ["tperf.report.csv"] = { { { { a = 1 } }, what = "report.csv" } },
  ["tperf.schedule.define"] = { { "x", {} } }, ["tperf.cost"] = { { {}, {} } },
}

-- Functions whose arguments have rows in a registry.
local function serves(question) return function() return served.rows(question) end end
local REGISTERED <const> = { ["tperf.train"] = trained.rows, ["tperf.search"] = trained.rows,
  ["tperf.rl"] = require "tperf.question.rl.arguments".rows,
  ["tperf.layer"] = trained.rows, ["tperf.infer"] = serves "infer", ["tperf.search_inference"] = serves "infer",
  ["tperf.serve"] = serves "serve" }

local function rows_of(name) return REGISTERED[name] and REGISTERED[name]() or {} end

-- What the reference says of an argument.
local function words_of(row)
  if not row.more then return row.doc end
  return (("%s. %s"):format(row.doc:gsub("^%l", string.upper), row.more):gsub("%.%.%.%.", "..."))
end

local SHARED = {
  ["tperf.plot."] = { { "lua/tperf/plot/figure.lua", "figure.common" }, { "lua/tperf/plot/xy.lua", "xy.schema" },
    { "lua/tperf/plot/map.lua", "map.schema" } },
  ["tperf.op."] = { { "lua/tperf/describe/op/init.lua", 1 } },
  ["tperf.strategy.define"] = { { "lua/tperf/describe/strategy/init.lua", 1 } },
  ["tperf.report.print"] = { { "lua/tperf/output/text.lua", "text.table", "options?" } },
}

-- Functions that check their arguments without a schema.
local NO_SCHEMA = { ["tperf.check"] = true, ["tperf.sweep"] = true, ["tperf.args.set"] = true }

local function is_callable(value)
  local meta = getmetatable(value)
  return type(value) == "table" and meta and meta.__call ~= nil
end

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

local function text_of(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

-- The file of a member of tperf, from the table of lua/tperf/init.lua.
local function file_of(name)
  local module = text_of "lua/tperf/init.lua":match("\n  " .. name .. ' = "([%w_.]+)')
  for _, pattern in ipairs { "lua/%s.lua", "lua/%s/init.lua" } do
    local path = module and pattern:format(module:gsub("%.", "/"))
    if path and exists(path) then return path end
  end
end

-- The comment of a function: above its definition, above the assignment of that name, or at the head of its file.
local function comment_of(f, owner, key)
  local info = debug.getinfo(neutral.inner(f), "S")
  local path = info.source:match "^@(.*)$"
  local found = path and exists(path) and comments.find(path, function(b) return b.line == info.linedefined end)
  if found then return found end
  path = owner and file_of(owner) or file_of(key)
  if not path then return nil end
  if owner then
    local assigned = "%f[%w]" .. owner .. "%." .. key .. "%f[^%w_]"
    return comments.find(path, function(b) return b.code and b.code:find(assigned) ~= nil end)
  end
  local call = CALLED[key]
  return comments.find(path, function(b)
    return call ~= nil and (b.name == call or b.name == key .. "." .. call)
  end) or comments.find(path, function(b) return b.code ~= nil and b.code:find "^return catalogue" ~= nil end)
end

-- Arguments that functions take in addition to their schemas.
local FURTHER = { ["tperf.train"] = { configuration = check.any { optional = true } } }

local function merged_schema(name, f)
  local all = FURTHER[name]
  for _, arguments in ipairs(ARGUMENTS[name] or { { {} } }) do
    for field, checker in pairs(schemas.demanded(f, arguments, arguments.what) or {}) do
      all = all or {}
      all[field] = all[field] or checker
    end
  end
  return all
end

local core_op = core.op
local op_fields = core_op.fields()

local function schema_of(name, f)
  local op = name:match "^tperf%.op%.(.*)$"
  if op and (core_op[op] == f or op == "attention") then
    local schema = schemas.of_op(op_fields[op])
    if op == "attention" then schema.seq = check.integer { optional = true } end -- added in Lua
    return schema
  end
  if NO_SCHEMA[name] then return nil end
  return merged_schema(name, f)
end

-- The parameter that is a table of arguments, and its fields according to the comment.
local function described_fields(comment)
  for _, tag in ipairs(comment.tags) do
    if tag.tag == "param" and (tag.type:find "table" or tag.type:find "^{") then
      local fields = comments.fields(tag.lines)
      if #fields > 0 then return fields, tag end
    end
  end
  return comments.fields(comment.text)
end

local function inherited_fields(name)
  local list = {}
  for prefix, places in pairs(SHARED) do
    for _, where in ipairs(name:sub(1, #prefix) == prefix and places or {}) do
      local block = comments.find(where[1], function(b) return b.name == where[2] or b.first == where[2] end)
      local lines = block.text
      for _, tag in ipairs(block.tags) do lines = tag.name == where[3] and tag.lines or lines end
      for _, field in ipairs(comments.fields(lines)) do list[field.name] = field end
    end
  end
  for _, rule in ipairs(name == "tperf.rules" and tperf.rules.describe() or {}) do
    list[rule.name] = { name = rule.name, text = rule.meaning }
  end
  for _, fact in ipairs(name == "tperf.software" and core.record "software" or {}) do
    list[fact.name] = { name = fact.name, text = fact.doc }
  end
  for _, row in ipairs(rows_of(name)) do
    if not row.within then list[row.name] = { name = row.name, text = words_of(row) } end
  end
  return list
end

-- Merges the schema with the comment.
local function join_fields(e)
  local inherited, names = inherited_fields(e.name), {}
  e.fields = {}
  for _, field in ipairs(e.described) do names[#names + 1] = field.name end
  local registered = {}
  for _, row in ipairs(rows_of(e.name)) do
    local own = not row.within and not registered[row.name]
    if own and e.schema[row.name] and not e.described[row.name] then names[#names + 1] = row.name end
    if own then registered[row.name] = true end
  end
  for _, name in ipairs(e.schema and check.names(e.schema) or {}) do
    if not e.described[name] and not registered[name] then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do
    local checker = e.schema and e.schema[name]
    local text = (e.described[name] or inherited[name] or {}).text
    if checker or not e.schema then
      local optional, default
      if checker then optional, default = schemas.default_of(checker) end
      e.fields[#e.fields + 1] = {
        name = name, type = checker and schemas.type_of(checker, name) or "any", optional = optional ~= false,
        default = default, text = text,
      }
    end
  end
  e.nested = {} -- of its tables
  for _, row in ipairs(rows_of(e.name)) do
    if row.within then
      local optional, default = schemas.default_of(row.check)
      e.nested[#e.nested + 1] = { name = row.within .. "." .. row.name, type = schemas.type_of(row.check, row.name),
        optional = optional ~= false, default = default, text = words_of(row) }
    end
  end
end

--- The names of a function's parameters, from its text: embedded modules do not have them.
---@param f function
---@return string[]
function reference.parameters_of(f)
  local info, names = debug.getinfo(neutral.inner(f), "Su"), {}
  if info.nparams == 0 then return names end
  local number, from = 0, nil
  for line in text_of(info.source:match "^@(.*)$"):gmatch "([^\n]*)\n" do
    number = number + 1
    from = number == info.linedefined and line or from and from .. " " .. line
    if from and from:find ")" then break end
  end
  local called, list = from:match "function%s*([%w_.:]*)%s*%((.-)%)"
  if called:find ":" then names[1] = "self" end
  for name in list:gmatch "[%a_][%w_]*" do names[#names + 1] = name end
  assert(#names == info.nparams, from)
  return names
end

local function add(entries, name, f, owner, key)
  local callable = type(f) == "table"
  local comment = comment_of(callable and getmetatable(f).__call or f, owner, key)
  local e = { name = name, comment = comment, schema = schema_of(name, f), callable = callable, described = {} }
  e.parameters = callable and {} or reference.parameters_of(f)
  if comment then e.described, e.request = described_fields(comment) end
  entries[#entries + 1], entries[name] = e, e
end

--- All public functions, in the order of the reference.
function reference.entries()
  local entries = {}
  for _, key in ipairs(check.names(tperf)) do
    local value, name = tperf[key], "tperf." .. key
    if type(value) == "function" then
      add(entries, name, value, nil, key)
    elseif type(value) == "table" then
      if is_callable(value) then add(entries, name, value, nil, key) end
      for _, member in ipairs(check.names(value)) do
        local f = value[member]
        if type(f) == "function" and member:sub(1, 2) ~= "__" and CALLED[key] ~= member then
          add(entries, name .. "." .. member, f, key, member)
        end
      end
    end
  end
  for _, e in ipairs(entries) do
    if e.name == "tperf.model" or e.name == "tperf.system" then
      e.fields, e.schema, e.is_format = formats.fields(e.name:sub(7), e.schema), nil, true
    else
      join_fields(e)
    end
  end
  return entries
end

--- What comments lack or have in excess; each message says what to do.
---@return string[]
function reference.problems()
  local list = {}
  local function say(...) list[#list + 1] = string.format(...) end
  for _, e in ipairs(reference.entries()) do
    if not e.comment then
      say("%s has no comment: write one above its definition, then run `make docs`", e.name)
    else
      for _, field in ipairs(e.fields) do
        if not field.text then
          say("%s takes '%s', which %s does not describe: add a line '---  %s   what it means' to the comment at line "
            .. "%d, then run `make docs`", e.name, field.name, e.comment.path, field.name, e.comment.first)
        end
      end
      for _, field in ipairs(e.schema and e.described or {}) do
        if not e.schema[field.name] then
          say("%s:%d describes '%s', which %s does not take%s: mend the comment, then run `make docs`", e.comment.path,
            e.comment.first, field.name, e.name, check.suggest(field.name, check.names(e.schema)))
        end
      end
    end
  end
  return list
end

--- The generated files: path -> content.
---@return table<string, string>
function reference.pages()
  local entries, pages = reference.entries(), require "apidoc.guide".pages()
  pages["docs/api.md"], pages["meta/tperf.lua"] = require "apidoc.markdown"(entries), require "apidoc.meta"(entries)
  return pages
end

return reference
