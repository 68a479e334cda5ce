--- Reads a Python recipe without running it: the assignments of a function (`cfg.model.tensor_model_parallel_size = 8`)
--- and keyword arguments (`TrainConfig(global_batch_size=512)`), with the file's constants substituted.
-- Texts are foreign: no pattern here has two repeats side by side that match the same characters, or it would try all
-- ways to divide a long word between them; and what may call itself has bounds.
local check = require "tperf.base.check"
local layer_list = require "tperf.import.launch.layer_list"
local trim = require "tperf.input.text".trim

local python = {}

-- Of calls within calls, of calls of the file's functions in all, and of functions that call one another.
local MOST_LEVELS <const>, MOST_CALLS <const>, DEEPEST <const> = 60, 200, 8

-- Splits a text into logical lines { text, line, indent }, with comments blanked and strings kept.
local function logical_lines(s)
  local list, part, start, line, depth, i = {}, {}, 1, 1, 0, 1
  while i <= #s do
    local c = s:sub(i, i)
    local long = s:match('^"""', i) or s:match("^'''", i)
    if long then
      local stop = s:find(long, i + 3, true) or #s
      local inside = s:sub(i, stop + 2)
      part[#part + 1] = '""'
      line = line + select(2, inside:gsub("\n", ""))
      i = stop + 3
    elseif c == '"' or c == "'" then
      local stop = i + 1
      while stop <= #s and s:sub(stop, stop) ~= c and s:sub(stop, stop) ~= "\n" do
        stop = stop + (s:sub(stop, stop) == "\\" and 2 or 1)
      end
      part[#part + 1] = s:sub(i, stop)
      i = stop + 1
    elseif c == "#" then
      i = s:find("\n", i, true) or #s + 1
    elseif c == "\n" or c == "\\" and s:sub(i + 1, i + 1) == "\n" then
      if c == "\\" then i = i + 1 end
      line = line + 1
      if depth > 0 or c == "\\" then
        part[#part + 1] = " "
      else
        local text = table.concat(part)
        if text:find "%S" then list[#list + 1] = { text = text, line = start, indent = #text:match "^%s*" } end
        part, start = {}, line
      end
      i = i + 1
    else
      if c:find "[%(%[{]" then depth = depth + 1 elseif c:find "[%)%]}]" then depth = math.max(0, depth - 1) end
      part[#part + 1] = c
      i = i + 1
    end
  end
  local text = table.concat(part)
  if text:find "%S" then list[#list + 1] = { text = text, line = start, indent = #text:match "^%s*" } end
  return list
end

-- Splits at commas outside brackets and strings.
local function arguments_of(text)
  local list, depth, from, quote = {}, 0, 1, nil
  for i = 1, #text do
    local c = text:sub(i, i)
    if quote then
      if c == quote then quote = nil end
    elseif c == '"' or c == "'" then
      quote = c
    elseif c:find "[%(%[{]" then
      depth = depth + 1
    elseif c:find "[%)%]}]" then
      depth = depth - 1
    elseif c == "," and depth == 0 then
      list[#list + 1] = text:sub(from, i - 1)
      from = i + 1
    end
  end
  if text:sub(from):find "%S" then list[#list + 1] = text:sub(from) end
  return list
end

-- Names and numbers that Python writes otherwise.
local WORDS <const> = { True = true, False = false, None = "None" }
local DTYPES <const> = { bfloat16 = "bf16", float32 = "fp32", float16 = "fp16", half = "fp16" }

local function product_of(text, constants)
  local value, count = 1, 0
  for factor in (text .. "*"):gmatch "([^*]*)%*" do
    factor = trim(factor)
    local one = tonumber(factor) or tonumber(constants[factor])
    if not one then return nil end
    value, count = value * one, count + 1
  end
  return count > 1 and (math.tointeger(value) or value) or nil
end

-- The value of an expression other than a list's display: a number, a string, a boolean, a constant of the file, or the
-- dotted name of a constant of some module; nil if it is none of them.
local function plain_literal(text, constants)
  if WORDS[text] ~= nil then return WORDS[text] end
  local quoted = text:match '^[rf]?"([^"]*)"$' or text:match "^[rf]?'([^']*)'$"
  if quoted then return quoted end
  local number = text:gsub("(%d)_(%d)", "%1%2"):gsub("(%d)_(%d)", "%1%2")
  if tonumber(number) then return math.tointeger(tonumber(number)) or tonumber(number) end
  if constants[text] ~= nil then return constants[text] end
  local dtype = text:match "^torch%.(%w+)$"
  if dtype then return DTYPES[dtype] or dtype end
  if text:find "^[%a_][%w_]*%.[%w_.]+$" then return text end -- such as F.silu
  return product_of(number, constants)
end

-- Likewise, or a list of such values; an element that is something else stands for itself.
local function literal(text, constants)
  text = trim(text)
  if text:find "^%b[]$" or text:find "^%b()$" and text:find "," then
    local list = {}
    for i, one in ipairs(arguments_of(text:sub(2, -2))) do
      one = trim(one)
      local value = plain_literal(one, constants)
      list[i] = (value == nil or type(value) == "table") and one or tostring(value)
    end
    return list
  end
  local value = plain_literal(text, constants)
  if value == nil and text:find("[", 1, true) then return (layer_list.of(text)) end
  return value
end

-- A value that is no literal: a call, by its name and its first argument, or any other expression. And the call's
-- arguments.
local function other(text, constants)
  local name, inside = text:match "^([%a_][%w_.]*)%s*(%b())$"
  if not name then return { expression = text }, {} end
  local arguments = arguments_of(inside:sub(2, -2))
  local first = arguments[1]
  if first and not first:find "^%s*[%a_][%w_]*%s*=[^=]" then first = literal(first, constants) else first = nil end
  return { expression = text, call = name, first = first }, arguments
end

-- Reads a value: a literal, or a call and its keyword arguments, each a value below the call's own path.
local function read_value(text, path, scope, put, level)
  text, level = trim(text), (level or 0) + 1
  local file = scope.file
  file.letters = file.letters - #text - 1 -- variables that stand for calls may make values that double with each
  if level > MOST_LEVELS or file.letters < 0 then
    check.fail("%s:%d: a value of too many calls within calls", file.path, file.line)
  end
  local known = literal(text, scope.constants)
  local variable, field = text:match "^([%a_][%w_]*)%.([%w_.]+)$"
  if variable and scope.holders[variable] then known = scope.seen[field] end -- another setting of the recipe
  if known == nil and path:find "activation_func$" and text:find "^[%a_][%w_]*$" then known = text end
  if known == nil and scope.calls[text] then text = scope.calls[text] end
  if known ~= nil then
    if path ~= "" then put(path, known) end
    return
  end
  local one, arguments = other(text, scope.constants)
  if path ~= "" then put(path, one) end
  for _, argument in ipairs(arguments) do
    local name, value = trim(argument):match "^([%a_][%w_]*)%s*=([^=].*)$"
    if name then read_value(value, path ~= "" and path .. "." .. name or name, scope, put, level) end
  end
end

-- The lines of a function (all lines if name is nil), and the names of all functions.
local function body_of(lines, name)
  local list, inside, found = {}, nil, {}
  for _, one in ipairs(lines) do
    local defined = one.text:match "^%s*def%s+([%w_]+)"
    if inside and one.indent <= inside then inside = nil end
    if defined then
      found[#found + 1] = defined
      if defined == name then inside = one.indent end
    elseif inside or not name then
      list[#list + 1] = one
    end
  end
  return list, found
end

--- The names of the functions that a Python text defines, in order.
function python.functions(s)
  return select(2, body_of(logical_lines(s), nil))
end

local BLOCKS <const> = { ["if"] = true, ["elif"] = true, ["else"] = true, ["for"] = true, ["while"] = true,
  ["try"] = true, ["except"] = true, ["finally"] = true }

-- Marks the lines that run under a condition or several times.
local function mark_conditions(lines)
  local blocks = {}
  for _, one in ipairs(lines) do
    while blocks[1] and one.indent <= blocks[#blocks] do table.remove(blocks) end
    local word = one.text:match "^%s*(%a+)"
    one.doubt = #blocks > 0
    if word and BLOCKS[word] then
      if one.text:find ":%s*$" then blocks[#blocks + 1] = one.indent else one.doubt = true end
    end
  end
end

-- The variables of a body that hold the configuration: those that it returns or whose fields it sets.
local function holders(lines)
  local set = {}
  for _, one in ipairs(lines) do
    local name = one.text:match "^%s*return%s+([%a_][%w_]*)%s*$" or one.text:match "^%s*([%a_][%w_]*)%.[%w_.]+%s*=[^=]"
    if name then set[name] = true end
  end
  return set
end

-- What a line does: the path that it sets (nil: a variable of its own, `variable`) and the value's text; or a call.
local function statement_of(text)
  text = trim(text):gsub("^if .-:%s*(%S)", "%1"):gsub("^else:%s*(%S)", "%1")
  local target, rest = text:match "^([%a_][%w_.]*)%s*(.*)$"
  if not target then return nil end
  local variable, field = target:match "^([%a_][%w_]*)%.(.+)$"
  local note, value = rest:match "^([^=]*)=([^=].*)$"
  if note and (note:find "^[%w_%[%].,%s]*$" or note:find "^:[%w_%[%].,|%s]*$") then
    return { variable = variable or target, field = field, value = trim(value) }
  end
  value = rest:match "^[-+*/|%%&^@<>]+=(.*)$"
  if value then return { variable = variable or target, field = field, value = trim(value), changes = true } end
  value = text:match "^return%s+(.+)$"
  if value then return { returns = true, value = value } end
  return rest:find "^%b()$" and { called = target, value = text } or nil
end

-- Reads an assignment of a field of the configuration, or of a variable.
local function assign(one, statement, scope, record)
  local path = statement.field
  if not scope.holders[statement.variable] and path then return end
  if one.doubt or statement.changes then
    if path then record(path, { expression = ("%s, under a condition or in a loop"):format(statement.value) }) end
    return
  end
  if path or scope.holders[statement.variable] then return read_value(statement.value, path or "", scope, record) end
  local known = literal(statement.value, scope.constants)
  if known ~= nil then
    scope.constants[statement.variable] = known
    record(statement.variable, known)
  elseif scope.all then
    read_value(statement.value, "", scope, record)
  else
    scope.calls[statement.variable] = statement.value
  end
end

-- Whether a call hands the configuration on, or makes one.
local function concerns(statement, scope)
  for word in statement.value:gmatch "[%a_][%w_]*" do
    if scope.holders[word] then return true end
  end
  return statement.variable ~= nil and statement.field == nil and scope.holders[statement.variable] ~= nil
    and statement.value:find "%)%s*$" ~= nil and not statement.value:find "=" -- a base configuration
end

-- The name and the value of a constant's definition: NAME = VALUE or NAME: TYPE = VALUE.
local function constant_of(text)
  local name, at = text:match "^([%a_][%w_]*)()"
  local note, value = text:match("^([^=]*)=([^=].*)$", at)
  if not note or not trim(note):find "^:?%s*[%w_%[%]]*$" then return nil end
  return name, value
end

-- A file: { path, lines, constants, functions }, and how far it has been read: { line, calls, letters }.
local function file_of(s, path)
  local file = { path = path, line = 1, lines = logical_lines(s), constants = {}, functions = {}, calls = 0,
    letters = MOST_LEVELS * (#s + 1000) }
  for _, one in ipairs(file.lines) do
    local constant, value = constant_of(one.text)
    if constant then file.constants[constant] = literal(value, file.constants) end
    local defined = one.text:match "^%s*def%s+([%w_]+)"
    if defined then file.functions[defined] = true end
  end
  return file
end

-- Reads what a statement is, unless it calls a function of the file.
local function read_statement(one, statement, called, scope, record, missing)
  if statement.called then
    local variable, path = called:match "^([%a_][%w_]*)%.(.+)%.[%w_]+$"
    if variable and scope.holders[variable] then
      record(path, { expression = statement.value })
    elseif concerns(statement, scope) and not called:find "^hasattr" then
      missing(called, one.line)
    end
  elseif statement.returns then
    read_value(statement.value, "", scope, record)
  else
    local base = called and not scope.file.functions[called] and not statement.field and concerns(statement, scope)
    if base then missing(called, one.line) end
    assign(one, statement, scope, record)
  end
end

local function read_body(file, name, put, missing, depth)
  file.calls = file.calls + 1
  if file.calls > MOST_CALLS then
    check.fail("%s:%d: more than %d calls of the file's functions", file.path, file.line, MOST_CALLS)
  end
  local body = body_of(file.lines, name)
  mark_conditions(body)
  local scope = { constants = setmetatable({}, { __index = file.constants }), calls = {}, seen = {},
    holders = holders(body), all = not name, file = file }
  for _, one in ipairs(body) do
    file.line = one.line
    local function record(path, value)
      scope.seen[path] = type(value) ~= "table" and value or nil
      put(path, value, one.line)
    end
    local statement = statement_of(one.text)
    local called = statement and (statement.called or statement.value:match "^([%a_][%w_]*)%s*%b()$")
    local own = statement and not statement.field and called and name and file.functions[called] and called ~= name
    if own and depth < DEEPEST and one.doubt then
      missing(("%s, under a condition"):format(called), one.line)
    elseif own and depth < DEEPEST then
      read_body(file, called, put, missing, depth + 1)
    elseif statement then
      read_statement(one, statement, called, scope, record, missing)
    end
  end
end

--- Reads the assignments of a function. A call of another function of the file is replaced by that function's lines.
---@param s string
---@param path string  of the file, for messages
---@param name string?  the function; nil for all lines
---@param put fun(path: string, value: any, line: integer)  no literal: { expression =, call =, first = }
---@param missing fun(call: string, line: integer)  a function that is not in the file and that may set something
function python.read(s, path, name, put, missing) read_body(file_of(s, path), name, put, missing, 0) end

return python
