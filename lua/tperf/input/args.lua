--- tperf.args: a script declares its options once; parsing, error messages and --help follow from the declaration.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local options = require "tperf.input.options"

local args = {}

-- Standard options, in the order in which --help lists them. A script names the ones it takes, with their defaults;
-- `gpus` is a list unless its default is a number.
local standard = {
  { long = "model", value = "NAME", help = "the model" },
  { long = "models", value = "NAME,...", kind = "list", help = "the models" },
  { long = "system", value = "NAME", help = "the system" },
  { long = "systems", value = "NAME,...", kind = "list", help = "the systems" },
  { long = "domains", value = "N,...", kind = "integers", help = "sizes of the fast domain" },
  { long = "gpus", value = "N,...", kind = "integers", help = "numbers of GPUs; 4..64 is 4,8,16,32,64" },
  { long = "batch", value = "N", kind = "integer", min = 1, help = "global batch, in sequences" },
  { long = "strategy", value = "NAME,...", kind = "list", help = "strategies to try" },
  { long = "schedule", value = "NAME,...", kind = "list", help = "pipeline schedules to try, or any" },
  { long = "recompute", value = "NAME,...", kind = "list", help = "recomputation to try: none, selective, full" },
  { long = "tokens", value = "N", kind = "number", help = "tokens of a training run (default: the model's own)" },
  { long = "top", value = "K", kind = "integer", min = 1, help = "how many configurations of each" },
  { long = "rules", value = "NAME", help = "modelling rules" },
  { long = "software", value = "NAME", help = "training stack (`tperf list software`; none: the formulas alone)" },
  { long = "cache", value = "FILE", help = "keep finished points here, and take up from there" },
}

local own_schema = {
  long = check.string(), short = check.string { optional = true }, value = check.string { optional = true },
  kind = check.string { optional = true }, min = check.number { optional = true }, help = check.string(),
  default = check.any { optional = true },
}

local function shown(value)
  if math.type(value) == "float" then return ("%g"):format(value) end
  if type(value) ~= "table" then return tostring(value) end
  local texts = {}
  for i, item in ipairs(value) do texts[i] = tostring(item) end
  return table.concat(texts, ",")
end

local function with_default(option, default)
  local copy = {}
  for name, value in pairs(option) do copy[name] = value end
  copy.default = default or nil
  if copy.long == "gpus" and type(default) == "number" then
    copy.kind, copy.value, copy.min, copy.help = "integer", "N", 1, "number of GPUs"
  end
  if copy.default ~= nil then
    copy.help = ("%s (default %s)"):format(copy.help:gsub(" %(default: [^)]*%)", ""), shown(default))
  end
  return copy
end

local function declared(given)
  local list, names, known = {}, {}, {}
  for _, option in ipairs(standard) do
    known[#known + 1] = option.long
    if given[option.long] ~= nil then list[#list + 1] = with_default(option, given[option.long]) end
    names[option.long] = true
  end
  for key in pairs(given) do
    if key ~= "summary" and math.type(key) ~= "integer" and not names[key] then
      check.fail("tperf.args: no standard option '%s'%s", tostring(key), check.suggest(key, known))
    end
  end
  for i, own in ipairs(given) do
    if type(own) ~= "table" then check.fail("tperf.args: option %d must be a table", i) end
    local option = check.record(("tperf.args: option %d"):format(i), own, own_schema)
    list[#list + 1] = with_default(option, option.default)
  end
  return list
end

local function default_of(option)
  if type(option.default) ~= "string" then return option.default end
  local values = {}
  local ok, message = options.store(values, option, option.default)
  if not ok then check.fail("tperf.args: the default of %s", message) end
  return values[option.long:gsub("-", "_")]
end

-- The argument of a question that each standard option sets.
local arguments = { model = "model", batch = "global_batch", strategy = "strategy", schedule = "schedule",
  recompute = "recompute", top = "top", rules = "rules", software = "software", cache = "cache" }

local methods = {}

--- The arguments of tperf.search or tperf.sweep that the options set; `own` adds to them and overrides them.
function methods.question(values, own)
  local question = {}
  for option, field in pairs(arguments) do question[field] = rawget(values, option) end
  for key, value in pairs(own) do question[key] = value end
  return question
end

local own -- the arguments after the script's name

--- Sets the arguments after the script's name. For the program, not for scripts.
function args.set(list)
  argument.list("tperf.args.set", "list", list)
  own = list
end

--- The arguments after the script's name, as one text.
---@return string
function args.text() return own and table.concat(own, "\0") or "" end

--- Parses a script's arguments. Prints help or an error message and exits where there is reason to.
---@param given table  summary; standard options by name with their defaults (false: none): model, models, system,
---  systems, domains, gpus, batch, strategy, schedule, recompute, tokens, top, rules, software, cache; and, as a list,
---  options of the script's own:
---  { long = "pp", value = "N", kind = "integer", default = 8, help = "…" }. kind: string, integer, number, integers
---  ("4,8", "4..64" by doubling), list, a unit such as "bytes"; min: the smallest valid number; without a value it is
---  a switch.
---@return table values  by long name, "_" for "-"; values:question{…} returns the arguments of a search that model,
---  batch, strategy, schedule, recompute, top, rules, software and cache set; the table given overrides them
function args.read(given)
  if type(given) ~= "table" or type(given.summary) ~= "string" then
    check.fail "tperf.args needs a table with a summary"
  end
  local list = own or rawget(_G, "arg") or {}
  local command = {
    summary = given.summary, options = declared(given),
    common = { { long = "help", short = "h", help = "print this" } },
  }
  local name = "run " .. tostring(list[0] or "SCRIPT")
  local values, rest = options.parse(command, list, 1)
  local problem = not values and rest or rest[1] and ("unexpected argument '%s'"):format(rest[1])
  if problem then
    io.stderr:write("tperf: ", problem, "\n", options.usage(name, command), "--help shows the options\n")
    os.exit(2)
  end
  if values.help then
    io.stdout:write(require "tperf.input.help".text(name, command, true))
    os.exit(0)
  end
  for _, option in ipairs(command.options) do
    local key = option.long:gsub("-", "_")
    if values[key] == nil then values[key] = default_of(option) end
  end
  return setmetatable(values, { __index = methods })
end

return setmetatable(args, { __call = function(_, given) return args.read(given) end })
