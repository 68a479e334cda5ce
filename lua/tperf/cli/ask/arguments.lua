--- The options of commands about training, from the rows of tperf.question.arguments. An option has the argument's name
-- unless its row says otherwise, and a form that follows from the argument's checker: a switch, yes or no, a number, a
-- name or a list of names. A switch that is on by default is called --no-NAME.
local check = require "tperf.base.check"
local arguments = require "tperf.question.arguments"
local tuning = require "tperf.cli.ask.tuning"

local ask = {}

local TRUTH <const> = { yes = true, no = false }

-- What a checker takes: { kind =, names =, default =, list = whether a list, too }.
local function form_of(one)
  local d = check.describe(one)
  if d.kind == "list" then return { kind = "string", list = true } end
  if d.kind ~= "one_of" then return { kind = d.kind, names = d.names, default = d.default, min = d.min } end
  local first = check.describe(d.choices[1])
  local last = check.describe(d.choices[#d.choices])
  return { kind = first.kind, names = first.names, list = last.kind == "list" }
end

local SIMPLE <const> = {
  integer = { value = "N", kind = "integer" }, number = { value = "X", kind = "number" },
  choice = { value = "NAME" }, string = { value = "NAME" }, any = { value = "NAME" },
}

-- The form of the option for one value, or, with `lists`, for the values that a search tries.
local function shape_of(row, lists)
  local form = form_of(row.check)
  if form.kind == "boolean" then
    local switch = form.default ~= nil
    if switch then return { negates = form.default } end
    local value = row.many and "NAME" or "Y/N"
    return { value = value, kind = lists and "list" or nil, from = { "yes", "no" }, truth = true }
  end
  local simple = SIMPLE[form.kind] or {}
  local shape = { value = simple.value, kind = simple.kind, from = form.names,
    min = form.kind == "integer" and row.many and form.min or nil }
  if form.list and not lists then shape.value, shape.kind = "LIST", "list" end
  shape.list = check.describe(row.check).kind == "list"
  if lists then shape.kind = form.kind == "integer" and "integers" or "list" end
  return shape
end

-- Words about the value that is taken if the option is not given.
local function usual_of(row, many)
  local usual = row.usual or row.default
  if many then usual = row.tried end
  if usual == true then usual = "yes" end
  return usual ~= nil and row.many and (" (default %s)"):format(usual) or ""
end

local function option_of(row, many)
  local own = row.option or {}
  local shape = shape_of(row, many and row.many)
  local name = row.name:gsub("_", "-")
  local option = {
    long = own.long or (shape.negates and "no-" or "") .. name, short = own.short, column = own.column,
    group = row.group, value = own.value or shape.value, kind = own.kind or shape.kind, from = own.from or shape.from,
    min = own.min or shape.min, argument = row.name, truth = shape.truth, negates = shape.negates,
    list = shape.list,
  }
  if many and row.many and option.value then option.value = option.value .. ",..." end
  local of = row.strategies and row.strategies[1] ~= "tensor" and (" (%s)"):format(table.concat(row.strategies, ", "))
  option.help = (own.help or row.doc) .. (of or "") .. usual_of(row, many)
  return option
end

-- The headings of the help, in order.
local GROUPS <const> = {
  "model and machine", "layout", "pipeline", "placement", "numerics", "memory", "overlap", "fine-tuning",
}

local function in_groups(list)
  local sorted = {}
  for _, group in ipairs(GROUPS) do
    for _, option in ipairs(list) do sorted[#sorted + 1] = option.group == group and option or nil end
  end
  return sorted
end

--- The options of all arguments.
---@param many boolean  true: of a search, where an option takes the values to try
---@return table[]
function ask.options(many)
  local list = {}
  for _, row in ipairs(arguments.rows()) do
    local parts = tuning.options[row.name]
    if row.option ~= false and not parts then list[#list + 1] = option_of(row, many) end
    for _, option in ipairs(parts or {}) do
      local copy = { group = row.group, part = true }
      for name, value in pairs(option) do copy[name] = value end
      list[#list + 1] = copy
    end
  end
  return in_groups(list)
end

-- "yes", or a list of such, as booleans.
local function as_truth(option, value)
  if type(value) == "boolean" then return value end
  if type(value) ~= "table" then
    if TRUTH[value] == nil then return nil, ("--%s: yes or no is needed, got '%s'"):format(option.long, value) end
    return TRUTH[value]
  end
  local list = {}
  for i, item in ipairs(value) do
    local truth, message = as_truth(option, item)
    if message then return nil, message end
    list[i] = truth
  end
  return list
end

-- Converts "7,8,8,7" to a list; other texts stay as they are.
local function as_layout(value)
  if type(value) ~= "string" or not value:find "^[%d,%s]+$" then return value end
  local list = {}
  for number in value:gmatch "%d+" do list[#list + 1] = math.tointeger(tonumber(number)) end
  return list
end

-- The argument's value, from its option's.
local function value_of(option, value)
  if value == nil then return nil end
  if option.negates then return not value end
  if option.truth then return as_truth(option, value) end
  if option.argument == "pipeline_layout" then return as_layout(value) end
  if type(value) == "table" and #value == 1 and not option.list then return value[1] end
  return value
end

--- The arguments that the options set; nil and a message if one is wrong.
---@param values table  by the options' names
---@return table? asked, string? message
function ask.asked(values)
  local asked = {}
  for _, option in ipairs(ask.options(false)) do
    if not option.part then
      local value, message = value_of(option, values[option.long:gsub("-", "_")])
      if message then return nil, message end
      asked[option.argument] = value
    end
  end
  local wrong = tuning.fill(values, asked)
  if wrong then return nil, wrong end
  return asked
end

--- The option that sets an argument, as in values, and its value for the argument's; arguments without a row here are
--- their own options.
---@return string name, any value
function ask.in_values(argument, value)
  for _, option in ipairs(ask.options(false)) do
    if option.argument == argument then
      if option.negates then value = not value end
      return (option.long:gsub("-", "_")), value
    end
  end
  return argument, value
end

--- The options' names for arguments that are called otherwise: argument -> option, "_" for "-".
---@return table<string, string>
function ask.renamed()
  local list = {}
  for _, option in ipairs(ask.options(false)) do
    local name = option.long:gsub("-", "_")
    if option.argument and name ~= option.argument then list[option.argument] = name end
  end
  return list
end

return ask
