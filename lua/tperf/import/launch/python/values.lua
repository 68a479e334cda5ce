--- Values of a Python recipe: literals, the file's constants, and calls with their keyword arguments.
-- What may call itself has bounds, since texts are foreign.
local check = require "tperf.base.check"
local layer_list = require "tperf.import.launch.layer_list"
local statements = require "tperf.import.launch.python.statements"
local trim = require "tperf.input.text".trim

local values = {}

local MOST_LEVELS <const> = 60 -- of calls within calls

--- The value of a name that is not known: an argument of the function, or what is set under a condition.
values.UNKNOWN = {}

--- The letters of values that are read of a text: variables that stand for calls may make values that double with each.
function values.letters_of(text) return MOST_LEVELS * (#text + 1000) end

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
  local quoted = text:match '^r?"([^"]*)"$' or text:match "^r?'([^']*)'$" or text:match '^f"([^"{]*)"$'
    or text:match "^f'([^'{]*)'$"
  if quoted then return quoted end
  local number = text:gsub("(%d)_(%d)", "%1%2"):gsub("(%d)_(%d)", "%1%2")
  if tonumber(number) then return math.tointeger(tonumber(number)) or tonumber(number) end
  if constants[text] == values.UNKNOWN then return nil end
  if constants[text] ~= nil then return constants[text] end
  local dtype = text:match "^torch%.(%w+)$"
  if dtype then return DTYPES[dtype] or dtype end
  local first = text:match "^([%a_][%w_]*)%.[%w_.]+$"
  if first and constants[first] == nil then return text end -- such as F.silu
  return product_of(number, constants)
end

--- A literal, or a list of literals; nil if it is something else.
function values.literal(text, constants)
  text = trim(text)
  if text:find "^%b[]$" or text:find "^%b()$" and text:find "," then
    local list = {}
    for i, one in ipairs(statements.split(text:sub(2, -2), ",")) do
      local value = plain_literal(trim(one), constants)
      if value == nil or type(value) == "table" then return nil end
      list[i] = tostring(value)
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
  local arguments = statements.split(inside:sub(2, -2), ",")
  local first = arguments[1]
  local named = first and first:find "^%s*[%a_][%w_]*%s*=[^=]"
  first = first and not named and values.literal(first, constants) or nil
  return { expression = text, call = name, first = first }, arguments
end

-- Whether an argument without a name is what a copy with changes starts from: replace(cfg.train, …).
local function is_original(call, argument, path, scope)
  local target = statements.target(argument)
  local prefix = target.variable and scope:path(target.variable, target.field)
  return call:find "replace$" ~= nil and prefix == path
end

--- Reads a value: a literal, or a call and its keyword arguments, each a value below the call's own path.
---@param text string
---@param path string  of the setting; "": the configuration itself
---@param scope table  { constants, calls, seen, file, path = function, put = function, refuse = function }
---@param level integer?
function values.read(text, path, scope, level)
  text, level = trim(text), (level or 0) + 1
  local file = scope.file
  file.letters = file.letters - #text - 1
  if level > MOST_LEVELS or file.letters < 0 then
    check.fail("%s:%d: a value of too many calls within calls", file.path, file.line)
  end
  if text:find "^%b()$" and not text:find(",", 1, true) then return values.read(text:sub(2, -2), path, scope, level) end
  local known = values.literal(text, scope.constants)
  local target = statements.target(text)
  local from = target.variable and target.field and scope:path(target.variable, target.field)
  if from then known = scope.seen[from] end -- another setting of the recipe
  if known == nil and path:find "activation_func$" and text:find "^[%a_][%w_]*$" then known = text end
  if known == nil and scope.calls[text] then text = scope.calls[text] end
  if known ~= nil then
    if path ~= "" then scope.put(path, known) end
    return
  end
  local one, arguments = other(text, scope.constants)
  if path ~= "" then scope.put(path, one) end
  for _, argument in ipairs(arguments) do
    argument = trim(argument)
    local name, value = argument:match "^([%a_][%w_]*)%s*=([^=].*)$"
    if name then
      values.read(value, path ~= "" and path .. "." .. name or name, scope, level)
    elseif argument:find "^%*" then
      scope.refuse(path ~= "" and path or one.call, argument)
    elseif path ~= "" and not is_original(one.call, argument, path, scope) then
      one.positional = argument
    end
  end
end

return values
