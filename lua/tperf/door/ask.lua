--- One question in, one answer out, both plain data: what `tperf ask` and `tperf mcp` answer. A question is
---   { ask = "train", with = { its arguments }, fields = { names of figures, "memory.total" … } or nil, id = any }
--- and an answer has the figures of Lua's answer at its top level, those of lists in `rows`, or those of them that
--- `fields` names, and beside them
---   understood   { read = names of the arguments given, assumed = { name = value } of those with a default, ignored =
---                { { name, why } … } of what has no effect }; what a model's file says and leaves open as model.FIELD
---   warnings     sentences
---   version, schema, and the names of the model, the system and the software with their checksums (`sha256`)
--- or error = { code, field, value, remedy, message }.
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local compact = require "tperf.output.compact"
local core = require "tperf.core"
local json = require "tperf.output.json"
local frozen = require "tperf.base.object.frozen"
local progress = require "tperf.base.progress"
local questions = require "tperf.question.ranks.questions"
local refusal = require "tperf.base.refusal"
local rows_of = require "tperf.question.rows"

local ask = {}

--- The version of the form of questions and answers; a change that old programs cannot read makes it another.
ask.SCHEMA = 1

-- name -> the module and the name of its function.
local ASKS <const> = {
  collective = { "tperf.question.collective", "time" },
  fewest = { "tperf.question.fewest", "run" },
  infer = { "tperf.question.infer", "run" },
  load_curve = { "tperf.question.serve.curve", "run" },
  plot = { "tperf.door.plot", "run" },
  rl = { "tperf.question.rl", "run" },
  saturation = { "tperf.question.serve.saturation", "run" },
  schema = { "tperf.door.schema", "run" },
  search = { "tperf.question.search", "run" },
  search_inference = { "tperf.question.search.inference", "run" },
  search_rl = { "tperf.question.search.rl", "run" },
  search_serving = { "tperf.question.search.serving", "run" },
  serve = { "tperf.question.serve", "run" },
  train = { "tperf.question.train", "run" },
}

local FIELDS <const> = { ask = true, with = true, fields = true, id = true }
local OBJECTS <const> = { "model", "system", "software" }

--- The questions' names, sorted.
---@return string[]
function ask.names() return check.names(ASKS) end

-- --- errors ---

local CODES <const> = {
  { "unknown field", "unknown_field" }, { "' is missing", "missing" }, { "unknown ", "unknown_name" },
  { "not enough memory", "out_of_memory" },
}

local function code_of(message, refused)
  if refused then return "infeasible" end
  for _, row in ipairs(CODES) do
    if message:find(row[1], 1, true) then return row[2] end
  end
  return "invalid"
end

-- The value at a path such as "load.rate" or "gpus[2]".
local function value_at(value, path)
  for key in path:gmatch "[^.%[%]]+" do
    if type(value) ~= "table" then return nil end
    value = value[math.tointeger(tonumber(key)) or key]
  end
  return value
end

-- What a message says to do: after its last semicolon, the name that was meant, or what must be given.
local function remedy_of(message, field)
  local meant = message:match "did you mean '([^']+)'"
  if meant then return ("use '%s'"):format(meant) end
  local told = message:match "^.*; (.+)$"
  if told then return told end
  local must = message:match "' must be (.-), got "
  if must then return ("give %s"):format(must) end
  return field and message:find "' is missing" and ("give '%s'"):format(field) or nil
end

-- The path of the first given argument whose name a text has as a word.
local function named_in(text, given, path)
  for _, name in ipairs(check.names(given)) do
    local word = type(name) == "string" and "%f[%w_]" .. name:gsub("%p", "%%%0") .. "%f[^%w_]"
    if word and text:find(word) then return path .. name end
    local inner = type(given[name]) == "table" and named_in(text, given[name], path .. tostring(name) .. ".")
    if inner then return inner end
  end
end

-- The argument that has a text as its value, or as the key of a column.
local function holder_of(with, text)
  for _, name in ipairs(check.names(with)) do
    local value = with[name]
    if value == text or type(value) == "table" and value.key == text then return name end
  end
end

local SCHEMA_LISTS <const> = "`tperf schema %s` lists the arguments, with their units and bounds"

-- The argument that a message is about: the first that it quotes, or the first that was given and that it names.
local function field_of(message, code, with)
  if code == "unknown_name" then return message:match "unknown (%w+)" end
  local said = message:gsub(" %(did you mean.*", "")
  if code == "unknown_field" then return said:match "unknown field '(.-)'[;:]" or said:match "unknown field '(.*)'" end
  local quoted = said:match "'([%w_.%[%]]+)'"
  local holder = quoted and value_at(with, quoted) == nil and holder_of(with, quoted)
  if quoted then return holder or quoted end
  return named_in(said, with, "")
end

local function error_of(message, refused, with, asked)
  message = message:gsub("^tperf%.[%w_.:]-: ", "")
  local code = code_of(message, refused)
  local field = field_of(message, code, with)
  return { code = code, field = field, value = field and value_at(with, field), message = message,
    remedy = remedy_of(message, field) or rows_of[asked] and SCHEMA_LISTS:format(asked) or nil }
end

-- --- answers ---

-- A list stands in `rows`, so that an answer is an object in every language.
local function object_of(answer)
  answer = frozen.plain(answer)
  local object, rows = {}, {}
  for key, value in pairs(answer) do
    if math.type(key) ~= "integer" then object[key] = value end
  end
  for i = 1, #answer do rows[i] = answer[i][1] and object_of(answer[i]) or answer[i] end
  if rows[1] or answer.candidates then object.rows = rows end
  return object
end

local sums = setmetatable({}, { __mode = "k" }) -- object -> its checksum

-- A model, system or profile by its name, its file or its fields.
local function object_named(kind, value) return catalogue.shared(require("tperf.describe." .. kind))(value) end

-- Its name and the checksum of what it holds.
local function described(kind, value)
  local object = object_named(kind, value)
  sums[object] = sums[object] or core.file.sha256(questions.freeze(object))
  return object.name or kind, sums[object]
end

local NO_EFFECT <const> = { threads = "the answer does not depend on it" }

-- Adds what became of the fields of a model's file, and what its name made assume.
local function add_fields(understood, given)
  local account = package.loaded["tperf.describe.model.hf.account"] -- nil: no such file was read
  if not account or type(given) ~= "string" and type(given) ~= "table" then return end
  local model = object_named("model", given)
  local path = type(given) == "string" and catalogue.find("models", given) or model.source
  local record = path and account.of(path) or { read = {}, assumed = {}, ignored = {} }
  local function named(name) return name == "MODEL" and "model" or "model." .. name end
  for _, name in ipairs(record.read) do table.insert(understood.read, named(name)) end
  for _, list in ipairs { record.assumed, account.assumed(model.name) } do
    for _, one in ipairs(list) do understood.assumed[named(one.name)] = one.value == nil and one.why or one.value end
  end
  for _, one in ipairs(record.ignored) do
    table.insert(understood.ignored, { name = named(one.name), why = one.why })
  end
end

-- What a question was answered with: its own defaults are assumptions, too. answered: what its answer says of it.
local function understood_of(name, with, answered)
  local understood = { read = {}, assumed = answered and answered.assumed or {}, ignored = {} }
  for _, given in ipairs(check.names(with)) do
    local why = NO_EFFECT[given]
    table.insert(why and understood.ignored or understood.read, why and { name = given, why = why } or given)
  end
  local assumed, question = understood.assumed, not answered and rows_of[name]
  for _, row in ipairs(question and question.rows() or {}) do
    local default = row.default
    if default == nil then default = (check.describe(row.check) or {}).default end
    local told = with[row.within or row.name] ~= nil or question.tries and row.many
    if not told and type(default) ~= "function" then assumed[row.name] = default end
  end
  add_fields(understood, with.model)
  if not next(assumed) then understood.assumed = json.EMPTY end
  return understood
end

local function add_sources(answer, with)
  local known = {}
  for _, kind in ipairs(OBJECTS) do
    local value = with[kind]
    if value == nil and kind == "software" then value = answer.software end
    local list = type(value) == "table" and value[1] ~= nil
    if type(value) == "string" and value ~= "none" or type(value) == "table" and not list then
      answer[kind], known[kind] = described(kind, value)
    end
  end
  answer.sha256 = next(known) and known or json.EMPTY
end

-- The figures that a question names, of an answer and of its rows; those that are computed when they are read and that
-- it does not name are never computed.
local function chosen(answer, fields)
  local part, rows = {}, answer[1] ~= nil and {} or nil
  for i = 1, rows and #answer or 0 do
    local row = chosen(answer[i], fields)
    rows[i] = next(row) and row or json.EMPTY
  end
  for _, name in ipairs(fields) do part[name] = value_at(answer, name) end
  part.rows = rows
  return part
end

-- "no figure 'tiem' (did you mean 'time'?)" for names that neither an answer nor its first row has; nil: none.
local function strangers(answer, fields)
  local list = {}
  for _, name in ipairs(fields) do
    local row = answer[1]
    if value_at(answer, name) == nil and not (row and value_at(row[1] or row, name) ~= nil) then
      local names, of = {}, row and (row[1] or row) or answer
      for key in pairs(of) do names[#names + 1] = type(key) == "string" and key or nil end
      list[#list + 1] = ("no figure '%s'%s"):format(name, check.suggest(name, names))
    end
  end
  return list[1] and list
end

local check_fields = check.list(check.string {}, { min = 1, optional = true })

local function checked(question)
  if type(question) ~= "table" then check.fail("a question is an object, got %s", check.show(question)) end
  for key in pairs(question) do
    if not FIELDS[key] then
      check.fail("unknown field '%s'%s; a question has ask, with, fields and id", tostring(key),
        check.suggest(tostring(key), check.names(FIELDS)))
    end
  end
  if not ASKS[question.ask] then
    if question.ask == nil then check.fail("'ask' is missing; it is one of %s", table.concat(ask.names(), ", ")) end
    check.fail("'ask' must be one of %s, got %s%s", table.concat(ask.names(), ", "), check.show(question.ask),
      check.suggest(tostring(question.ask), ask.names()))
  end
  local with = question.with == nil and {} or question.with
  if type(with) ~= "table" then check.fail("'with' must be an object of arguments, got %s", check.show(with)) end
  local _, message = check_fields(question.fields, "fields")
  if message then check.fail("%s", message) end
  return with
end

local prepared = {} -- name -> its function, which keeps what asking again needs

local function function_of(name)
  local place = ASKS[name]
  prepared[name] = prepared[name] or questions.prepared(require(place[1])[place[2]])
  return prepared[name]
end

-- A search tells how far it is if it is asked to.
local function watched(name, with)
  if name ~= "search" or not progress.report or with.progress ~= nil then return with end
  local copy = { progress = progress.report }
  for key, value in pairs(with) do copy[key] = value end
  return copy
end

local function run(question)
  local with = checked(question)
  local answer, reason = refusal.attempt(function_of(question.ask), watched(question.ask, with))
  if answer == nil then return { error = error_of(reason, true, with, question.ask) } end
  if type(answer) ~= "table" then answer = { time = answer } end -- of tperf.collective, in seconds
  if question.fields then
    local part = chosen(answer, question.fields)
    part.warnings = strangers(answer, question.fields)
    return part
  end
  local object = object_of(answer)
  object.seconds = nil -- for which this search ran: the same question has the same answer, each byte of it
  add_sources(object, with)
  object.understood = understood_of(question.ask, with, object.understood)
  object.warnings = object.warnings or {}
  return object
end

--- An answer as one line of JSON.
---@param answer table
---@return string
function ask.line(answer) return compact(answer) end

--- The question in a text of JSON; nil and an answer that says what is wrong with it.
---@param text string
---@return table? question, table? answer
function ask.read(text)
  local ok, question, message = pcall(core.yaml, text, "question")
  if ok and type(question) == "table" then return question end
  if not ok then message = tostring(question) end
  return nil, { version = core.version, schema = ask.SCHEMA, error = { code = "unreadable",
    message = type(message) == "string" and message or "a question is an object",
    remedy = 'write a question as {"ask": "train", "with": {"model": "gpt2", "system": "h100-sxm"}}' } }
end

local function failed(problem) return type(problem) == "string" and problem or tostring(problem) end

--- Answers a question as plain data, as `tperf ask` does (docs/ask.md): what has no answer is one with `error`.
---@param question { ask: string, with: table?, fields: string[]?, id: any }
---@return table answer  the figures, `understood`, `warnings`, `version`, `schema` …
function ask.answer(question)
  local ok, answer = xpcall(run, failed, question)
  if not ok then
    local here = check.where() -- the line of a script that asks is no part of the answer
    if answer:sub(1, #here) == here then answer = answer:sub(#here + 1) end
    local given = type(question) == "table" and question or {}
    answer = { error = error_of(answer, false, type(given.with) == "table" and given.with or {}, given.ask) }
  end
  answer.version, answer.schema = core.version, ask.SCHEMA
  answer.ask, answer.id = type(question) == "table" and question.ask or nil,
    type(question) == "table" and question.id or nil
  return answer
end

return ask
