--- Reads a Python recipe without running it: the assignments of a function (`cfg.model.tensor_model_parallel_size = 8`)
--- and keyword arguments (`TrainConfig(global_batch_size=512)`), with the file's constants substituted. A statement
--- that concerns the configuration and is not understood is refused, never left out.
local check = require "tperf.base.check"
local statements = require "tperf.import.launch.python.statements"
local trim = require "tperf.input.text".trim
local values = require "tperf.import.launch.python.values"

local python = {}

-- Of calls of the file's functions in all, and of functions that call one another.
local MOST_CALLS <const>, DEEPEST <const> = 200, 8

local UNKNOWN <const> = values.UNKNOWN

-- The name that a statement defines as a function; nil: it is no header of one.
local function definition(one)
  if one.opens ~= "def" and one.opens ~= "async" then return nil end
  return one.text:match "^%s*def%s+([%w_]+)" or one.text:match "^%s*async%s+def%s+([%w_]+)"
end

-- The statements of a function (all if name is nil), its header, and the names of all functions.
local function body_of(lines, name)
  local list, inside, found, header = {}, nil, {}, nil
  for _, one in ipairs(lines) do
    local defined = definition(one)
    if inside and one.indent <= inside then inside = nil end
    if defined then
      found[#found + 1] = defined
      if defined == name then inside, header = one.indent, one.text end
    elseif inside or not name then
      list[#list + 1] = one
    end
  end
  return list, header, found
end

--- The names of the functions that a Python text defines, in order, and of other names for them.
---@param s string
---@return string[] functions
---@return table<string, string> aliases  name = function
function python.functions(s)
  local lines = statements.of(s)
  local functions, aliases = select(3, body_of(lines, nil)), {}
  for _, one in ipairs(lines) do
    local name, other = one.text:match "^([%a_][%w_]*)%s*=%s*([%a_][%w_]*)%s*$"
    if name then aliases[name] = other end
  end
  return functions, aliases
end

-- The variables of a body that hold the configuration: those that it returns, else those whose fields it sets.
local function holders(lines)
  local returned, set = {}, {}
  for _, one in ipairs(lines) do
    local name = one.text:match "^%s*return%s+([%a_][%w_]*)%s*$"
    if name then returned[name] = true end
    for _, target in ipairs(statements.parse(one.text).targets or {}) do
      if target.variable and target.field then set[target.variable] = true end
    end
  end
  return next(returned) and returned or set
end

local scopes = {}
scopes.__index = scopes

-- The path of a field below a variable that holds the configuration or a part of it; nil: it holds neither.
function scopes:path(variable, field)
  local prefix = self.prefixes[variable]
  if not prefix then return nil end
  if prefix == "" or not field then return field or prefix end
  return prefix .. "." .. field
end

-- The path that a text mentions first; nil if it does not concern the configuration.
function scopes:mentioned(text)
  text = statements.bare(text)
  local before = ""
  for word, at in text:gmatch "([%a_][%w_]*)()" do
    if before ~= "." and self.prefixes[word] then
      return self:path(word, text:match("^%.([%w_.]*[%w_])", at)) or ""
    end
    before = text:sub(at, at)
  end
end

-- Forgets what a variable was: it is set to something that is not known.
function scopes:forget(name)
  self.constants[name], self.calls[name], self.prefixes[name] = UNKNOWN, nil, nil
end

function scopes:refuse_text(text)
  local path = self:mentioned(text)
  if path then self.refuse(path ~= "" and path or text:match "[%a_][%w_]*" or "?", text) end
end

-- A variable that is no part of the configuration.
local function assign_variable(scope, name, value, one, changes)
  local known = not (one.doubt or changes) and values.literal(value, scope.constants)
  local target = statements.target(value)
  local path = target.variable and not target.part and scope:path(target.variable, target.field)
  if one.doubt or changes then
    scope:forget(name)
  elseif path then
    scope.prefixes[name] = path
  elseif known ~= nil then
    scope.constants[name] = known
    scope.put(name, known)
  elseif scope.all then
    values.read(value, "", scope)
  else
    scope.constants[name], scope.calls[name] = UNKNOWN, value
  end
end

local assign

-- An assignment to several targets at once: value by value if there are as many.
local function assign_several(scope, target, value, one, changes)
  local inside = value:match "^%((.*)%)$" or value:match "^%[(.*)%]$" or value
  local parts = statements.split(inside, ",")
  local apart = #parts == #target.several and not target.other:find "%*" and not value:find "^%s*%*"
  if not apart then scope:refuse_text(target.other) end
  for i, each in ipairs(target.several) do
    if apart then
      assign(scope, each, parts[i], one, changes)
    elseif each.variable and not each.field then
      scope:forget(each.variable)
    end
  end
end

-- Reads an assignment of a field of the configuration, or of a variable.
function assign(scope, target, value, one, changes)
  if target.several then return assign_several(scope, target, value, one, changes) end
  local path = target.variable and scope:path(target.variable, target.field)
  if target.part and path then return scope.refuse(path, one.text) end
  if not target.variable or target.part then return scope:refuse_text(target.other) end
  if target.field and not path then -- of another object, which may be a part of the configuration
    return scope.put(target.field, { expression = one.text, elsewhere = true })
  end
  if not path or path == "" and (one.doubt or changes) then
    if path == "" then return scope.refuse(target.variable, one.text) end
    return assign_variable(scope, target.variable, value, one, changes)
  end
  if not target.field and path ~= "" then return assign_variable(scope, target.variable, value, one, changes) end
  if one.doubt or changes then
    return scope.refuse(path, ("%s, under a condition or in a loop"):format(value))
  end
  values.read(value, path, scope)
end

-- Reads object.update(name=value, …) or update({ "name": value, … }).
local function update(scope, path, inside, one)
  local first = inside:match "^%s*(%b{})%s*,?%s*$"
  for _, argument in ipairs(statements.split(first and first:sub(2, -2) or inside, ",")) do
    local name, value = argument:match "^%s*([%a_][%w_]*)%s*=([^=].*)$"
    if first then name, value = argument:match [=[^%s*["']([%a_][%w_]*)["']%s*:(.*)$]=] end
    local whole = name and (path ~= "" and path .. "." .. name or name)
    if not name or one.doubt then return scope.refuse(whole or path ~= "" and path or "update", one.text) end
    values.read(value, whole, scope)
  end
end

-- The arguments of a call by position, from the second on: literals, or the text of what is none.
local function later_arguments(scope, text)
  local list = {}
  for i, argument in ipairs(statements.split(text:match "^[^(]*%((.*)%)%s*$" or "", ",")) do
    if i > 1 then
      argument = argument:match "^%s*[%a_][%w_]*%s*=%s*([^=].*)$" or argument -- by keyword, in their order
      local value = values.literal(argument, scope.constants)
      if value == nil then value = trim(argument) end
      list[i - 1] = value
    end
  end
  return list
end

local SETTERS <const> = { setattr = true, ["object.__setattr__"] = true }
local HARMLESS <const> = { print = true, hasattr = true, isinstance = true, super = true }

-- Reads a call that is a statement of its own; its name is `called`.
local function read_call(scope, called, one, missing)
  local text = one.text
  local inside = text:match "^[^(]*%((.*)%)%s*$"
  local arguments = statements.split(inside, ",")
  if SETTERS[called] then
    local target = statements.target(arguments[1] or "")
    local name = (arguments[2] or ""):match [=[^%s*["']([%w_]+)["']%s*$]=]
    if not (target.variable and name and arguments[3]) then return scope:refuse_text(text) end
    target.field = target.field and target.field .. "." .. name or name
    return assign(scope, target, arguments[3], one)
  end
  local variable, rest = called:match "^([%a_][%w_]*)%.(.+)$"
  local method = rest and rest:match "[%w_]+$"
  local path = variable and scope:path(variable, rest:match "^(.+)%.[%w_]+$")
  if path and method == "update" then return update(scope, path, inside, one) end
  if path and path ~= "" then return scope.refuse(path, text) end
  if scope:mentioned(text) and not HARMLESS[called] and not called:find "^logg" then
    missing(called, one.line, later_arguments(scope, text))
  end
end

local file_of

-- Opens the file that a name is imported from; nil: it is not at hand.
local function imported(file, import)
  local found = file.opened[import.module]
  if found == nil then
    file.opened[import.module] = false -- where modules import one another
    local text, path = file.find(import.module, file.path)
    found = text and file_of(text, path, file.find, file.opened, file.budget) or false
    file.opened[import.module] = found
  end
  return found or nil
end

local DEEPEST_IMPORTS <const> = 12

-- The file and the name of a function: of the file's own, one that another name stands for, or an imported one; nil:
-- it is not at hand.
local function resolve(file, name)
  for _ = 1, DEEPEST_IMPORTS do
    if not (file and name) or file.functions[name] then return name and file, name end
    local import = file.imports[name]
    if file.aliases[name] then
      name = file.aliases[name]
    elseif import and not file.known(name) then
      file, name = imported(file, import), import.name
    else
      return nil
    end
  end
end

-- What a call makes of the configuration that it is given, or that a variable becomes, is not in the file.
local function read_base(scope, value, called, target, missing, line)
  if not called or called:find "replace$" or resolve(scope.file, called) then return end
  local positional = false
  for _, argument in ipairs(statements.split(value:match "^[^(]*%((.*)%)%s*$" or "", ",")) do
    local named = argument:find "^%s*[%a_][%w_]*%s*=[^=]"
    local own = argument:match "^%s*([%a_][%w_]*)%s*%b()%s*$"
    positional = positional or not named and (scope:mentioned(argument) ~= nil or resolve(scope.file, own) ~= nil)
  end
  local base = target and target.variable and scope:path(target.variable, target.field) == "" and not value:find "="
  if positional or base or scope:mentioned(called) then missing(called, line, later_arguments(scope, value)) end
end

-- Statements that set nothing, by their first word.
local IDLE <const> = { assert = true, raise = true, pass = true, import = true, from = true, global = true,
  nonlocal = true, ["break"] = true, continue = true, yield = true, ["return"] = true }

-- Names that a header binds: of a loop, or of what a block is entered with.
local function bind_header(scope, one)
  local bound = one.opens == "for"
  for word in statements.bare(one.text):gmatch "[%a_][%w_]*" do
    if word == "as" then bound = true elseif word == "in" then bound = false end
    if bound then scope:forget(word) end
  end
end

-- Reads what a statement is, unless it calls a function of the file.
local function read_statement(one, statement, scope, missing)
  local called = statement.value and statement.value:match "^([%a_][%w_.]*)%s*%b()$"
  if one.opens then
    bind_header(scope, one)
  elseif statement.called then
    read_call(scope, statement.called, one, missing)
  elseif statement.returns then
    read_base(scope, statement.value, called, nil, missing, one.line)
    values.read(statement.value, "", scope)
  elseif statement.deletes then
    for _, target in ipairs(statement.deletes) do
      local path = target.variable and scope:path(target.variable, target.field)
      if path then scope.refuse(path ~= "" and path or target.variable, one.text) end
    end
  elseif statement.targets then
    for _, target in ipairs(statement.targets) do
      read_base(scope, statement.value, called, target, missing, one.line)
      assign(scope, target, statement.value, one, statement.changes)
    end
  elseif not IDLE[one.text:match "^%s*(%a*)"] and not one.text:find "^%s*[@\"']" then
    scope:refuse_text(one.text)
  end
end

-- Notes what "from MODULE import NAME as OTHER, …" imports.
local function note_imports(file, text)
  local module, names = text:match "^%s*from%s+([%w_.]+)%s+import%s+(.*)$"
  if not module then return end
  for _, one in ipairs(statements.split(names:match "^%((.*)%)%s*$" or names, ",")) do
    local name, other = one:match "^%s*([%a_][%w_]*)%s+as%s+([%a_][%w_]*)%s*$"
    name = name or one:match "^%s*([%a_][%w_]*)%s*$"
    if name then file.imports[other or name] = { module = module, name = name } end
  end
end

-- A file: { path, lines, constants, functions, imports, aliases }, and how far it has been read: { line, budget }.
function file_of(s, path, find, opened, budget)
  local file = { path = path, line = 1, lines = statements.of(s), functions = {}, imports = {}, aliases = {},
    find = find, opened = opened, budget = budget, letters = values.letters_of(s), known = budget.known }
  file.constants = setmetatable({}, { __index = function(_, name)
    local import = file.imports[name]
    local other = import and imported(file, import)
    return other and rawget(other.constants, import.name) or nil
  end })
  local inside -- the indentation of a function or a class
  for _, one in ipairs(file.lines) do
    if inside and one.indent <= inside then inside = nil end
    local defined = definition(one)
    if defined then file.functions[defined] = true end
    if not inside then note_imports(file, one.text) end
    local statement = not inside and not one.opens and statements.parse(one.text) or {}
    for _, target in ipairs(statement.targets or {}) do
      if target.variable and not target.field and not target.part then
        local doubt = statement.changes or one.indent > 0
        file.constants[target.variable] = doubt and UNKNOWN or values.literal(statement.value, file.constants)
        file.aliases[target.variable] = not doubt and statement.value:match "^([%a_][%w_]*)$" or nil
      end
    end
    if not inside and (one.opens == "def" or one.opens == "class" or one.opens == "async") then inside = one.indent end
  end
  return file
end

-- The scope of a function's body: which variables hold the configuration, and what others are.
local function scope_of(file, body, header, name)
  local scope = setmetatable({ constants = setmetatable({}, { __index = file.constants }), calls = {}, seen = {},
    prefixes = {}, all = not name, file = file }, scopes)
  local arguments = header and header:match "%((.*)%)" or ""
  for _, argument in ipairs(statements.split(arguments, ",")) do
    local one = argument:match "^%s*%**([%a_][%w_]*)"
    if one then scope.constants[one] = UNKNOWN end
  end
  for one in pairs(holders(body)) do scope.prefixes[one] = "" end
  return scope
end

-- The function whose result is the first argument of a call; nil: none.
local function first_call(text)
  local inside = text and text:match "^[%a_][%w_]*%s*%((.*)%)%s*$"
  local argument = inside and statements.split(inside, ",")[1]
  return argument and argument:match "^%s*([%a_][%w_]*)%s*%b()%s*$"
end

local function read_body(file, name, put, missing, refuse, depth)
  file.budget.calls = file.budget.calls + 1
  if file.budget.calls > MOST_CALLS then
    check.fail("%s:%d: more than %d calls of the file's functions", file.path, file.line, MOST_CALLS)
  end
  local body, header = body_of(file.lines, name)
  statements.mark(body)
  local scope = scope_of(file, body, header, name)
  function scope.put(path, value)
    scope.seen[path] = type(value) ~= "table" and value or nil
    put(path, value, file.line, file.path)
  end
  function scope.refuse(path, text)
    scope.seen[path] = nil
    refuse(path, trim(text), file.line, file.path)
  end
  for _, one in ipairs(body) do
    file.line = one.line
    local statement = one.opens and {} or statements.parse(one.text)
    local first = statement.targets and #statement.targets == 1 and statement.targets[1]
    local called = statement.called or statement.value and statement.value:match "^([%a_][%w_]*)%s*%b()$"
    local apart = first and (first.field or first.several)
    local other, known = resolve(file, name and called ~= name and depth < DEEPEST and not apart and called or nil)
    if other and one.doubt then
      missing(("%s, under a condition"):format(called), one.line)
    elseif other then
      read_body(other, known, put, missing, refuse, depth + 1)
    else
      local given = not apart and name and first_call(statement.value)
      other, known = resolve(file, given ~= name and depth < DEEPEST and given or nil)
      if other and not one.doubt then read_body(other, known, put, missing, refuse, depth + 1) end
      read_statement(one, statement, scope, missing)
    end
  end
end

--- Reads the assignments of a function. A call of another function of the file is replaced by that function's lines.
---@param s string
---@param path string  of the file, for messages
---@param name string?  the function; nil for all lines
---@param put fun(path: string, value: any, line: integer)  no literal: { expression =, call =, first =, positional =,
---  elsewhere = it is set of an object that is not known to be a part of the configuration }
---@param missing fun(call: string, line: integer, arguments: any[]?)  a function that is not at hand and that may set
---  something, and its arguments from the second on
---@param refuse fun(path: string, text: string, line: integer)  a statement about the configuration that is not read
---@param other { find: (fun(module: string, path: string): string?, string?), known: fun(name: string): boolean }  the
---  text and the path of a module that a file imports, and whether what an imported function sets is known without it
function python.read(s, path, name, put, missing, refuse, other)
  local budget = { calls = 0, known = other.known }
  local file = file_of(s, path, other.find, {}, budget)
  if name and not file.functions[name] then file, name = resolve(file, name) end
  read_body(file, name, put, missing, refuse, 0)
end

return python
