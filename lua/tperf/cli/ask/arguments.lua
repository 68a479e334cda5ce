--- The options of commands, from rows of arguments (tperf.question.arguments, tperf.question.serving_arguments). An
-- option has the argument's name unless its row says otherwise, and a form that follows from the argument's checker: a
-- switch, yes or no, a number, a name or a list of names. A switch that is on by default is called --no-NAME. A row's
-- `option` has, where they differ from that:
--   long, short, value, kind, from, min, help, column   as tperf.input.options has them
--   switches   list of { long, value, help }: options without a value, each of which sets the argument to one; in place
--              of an option with a value, or, as `also`, beside it
--   parts      list of options that set it together, or in other words, which the command reads itself
local check = require "tperf.base.check"

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
    list = shape.list, within = row.within,
  }
  if many and row.many and option.value then option.value = option.value .. ",..." end
  local of = row.strategies and row.strategies[1] ~= "tensor" and (" (%s)"):format(table.concat(row.strategies, ", "))
  option.help = (own.help or row.doc) .. (of or "") .. usual_of(row, many)
  return option
end

-- Options of a group stand together, in the order in which groups first appear.
local function in_groups(list)
  local sorted, groups, members = {}, {}, {}
  for _, option in ipairs(list) do
    local group = members[option.group]
    if not group then
      group = {}
      groups[#groups + 1], members[option.group] = group, group
    end
    group[#group + 1] = option
  end
  for _, group in ipairs(groups) do table.move(group, 1, #group, #sorted + 1, sorted) end
  return sorted
end

local function add_switches(list, row, switches)
  for _, switch in ipairs(switches or {}) do
    list[#list + 1] = { long = switch[1], sets = switch[2], help = switch[3], group = row.group, argument = row.name,
      within = row.within }
  end
end

local function add_parts(list, row)
  for _, option in ipairs(row.option.parts) do
    local copy = { group = row.group, part = true, argument = row.name }
    for name, value in pairs(option) do copy[name] = value end
    list[#list + 1] = copy
  end
end

local function options_of(rows, many)
  local list = {}
  for _, row in ipairs(rows) do
    local own = row.option or {}
    if own.parts then
      add_parts(list, row)
    elseif row.option ~= false then
      if not own.switches then list[#list + 1] = option_of(row, many) end
      add_switches(list, row, own.switches or own.also)
    end
  end
  return in_groups(list)
end

local made = { [true] = setmetatable({}, { __mode = "k" }), [false] = setmetatable({}, { __mode = "k" }) }

--- The options of arguments; do not change the list.
---@param rows table[]
---@param many boolean  true: of a search, where an option takes the values to try
---@return table[]
function ask.options(rows, many)
  local of = made[many]
  of[rows] = of[rows] or options_of(rows, many)
  return of[rows]
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
  if option.sets ~= nil then return option.sets end
  if option.negates then return not value end
  if option.truth then return as_truth(option, value) end
  if option.argument == "pipeline_layout" then return as_layout(value) end
  if type(value) == "table" and #value == 1 and not option.list then return value[1] end
  return value
end

-- The table that an argument stands in, which is made if there is none.
local function table_of(asked, within)
  if not within then return asked end
  asked[within] = asked[within] or {}
  return asked[within]
end

--- The arguments that the options set; nil and a message if one is wrong. A list of one value becomes the value.
---@param rows table[]
---@param values table   by the options' names
---@param parse table<string, fun(option: string, text: string): any, string?>?  of arguments whose texts are read
---@return table? asked, string? message
function ask.asked(rows, values, parse)
  local asked = {}
  for _, option in ipairs(ask.options(rows, false)) do
    local given = values[option.long:gsub("-", "_")]
    if not option.part and given ~= nil then
      local read = parse and parse[option.argument]
      local value, message
      if read then value, message = read(option.long, given) else value, message = value_of(option, given) end
      if message then return nil, message end
      table_of(asked, option.within)[option.argument] = value
    end
  end
  return asked
end

--- The option that sets an argument to a value, as in values, and its value there; nil: no option does.
---@param options table[]  of ask.options
---@return string? name, any value
function ask.in_values(options, argument, value)
  local known = false
  for _, option in ipairs(options) do
    if option.argument == argument then
      local name = option.long:gsub("-", "_")
      if option.part or option.sets == nil then
        if option.negates then value = not value end
        return name, value
      end
      known = true
      if option.sets == value then return name, true end
    end
  end
  if not known then return argument, value end
end

--- The options of arguments that are called otherwise, or stand in a table: argument -> option.
---@return table<string, string>
function ask.renamed(rows)
  local list = {}
  for _, option in ipairs(ask.options(rows, false)) do
    if option.argument and not option.part then
      local path = (option.within and option.within .. "." or "") .. option.argument
      if option.long:gsub("-", "_") ~= path then list[path] = list[path] or option.long end
    end
  end
  return list
end

return ask
