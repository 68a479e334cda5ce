--- Tables of options: recipes/STACK-VERSION.yaml, or a user's file (YAML in the same form, or CSV with the columns
-- stack, version, option, aliases, type, default, concept, source).
local check = require "tperf.base.check"
local csv = require "tperf.input.csv"
local catalogue = require "tperf.base.catalogue"
local roots = require "tperf.base.roots"

local tables = {}

local optional = { optional = true }
local option = {
  option = check.string(), aliases = check.list(check.string(), optional), type = check.string { default = "any" },
  default = check.any(optional), concept = check.string(optional), source = check.string(optional),
  harmless = check.string(optional), -- why it changes neither time nor memory
  assumed = check.string(optional), -- what predictions take in its place, whatever its value
  with = check.string(optional), -- another option, without which it has no effect
}
local schema = {
  stack = check.string(), names = check.list(check.string(), optional), version = check.string(),
  kind = check.choice { { "training", "serving" }, optional = true }, form = check.string(optional),
  module = check.string(optional), extends = check.string(optional), config = check.string(optional),
  defers = check.string(optional), programs = check.list(check.string(), optional),
  software = check.string(optional), -- the profile of the stack's release, or of the nearest one
  config_by_name = check.boolean { default = false }, -- a configuration that is not at hand is known by its name
  benchmarks = check.any(optional), sizes = check.any(optional),
  options = check.list(check.any()),
  bases = check.list(check.any(), { optional = true }), -- functions that recipes start from, and what they set
}
local base = { name = check.string(), set = check.any(optional), assumed = check.string(optional) }

--- Normalizes an option's name for comparison: no leading dashes, "_" as "-", lower case.
function tables.plain(name) return (name:gsub("^%-+", ""):gsub("_", "-"):lower()) end

-- Why the options of a user's table whose concept is one of these are harmless.
local HARMLESS <const> = { run = "of the run, not of a step", data = "of the data, not of a step",
  ["cluster.launcher"] = "of how the processes start" }

local function index(t)
  t.bases_by_name = {}
  for _, one in ipairs(t.bases or {}) do t.bases_by_name[one.name] = one end
  t.by_name, t.by_concept = {}, {}
  for _, row in ipairs(t.options) do
    row.concept = row.concept or ""
    row.harmless = row.harmless or HARMLESS[row.concept] or HARMLESS[row.concept:match "^[^.]*"]
    for _, name in ipairs { row.option, table.unpack(row.aliases or {}) } do
      t.by_name[tables.plain(name)] = t.by_name[tables.plain(name)] or row
    end
    local list = t.by_concept[row.concept] or {}
    t.by_concept[row.concept] = list
    list[#list + 1] = row
  end
  return t
end

local function extended(t, load)
  if not t.extends then return t end
  local own = {} -- options that mean something else in this stack
  for _, row in ipairs(t.options) do own[tables.plain(row.option)] = true end
  for _, row in ipairs(load(t.extends).options) do
    if not own[tables.plain(row.option)] then t.options[#t.options + 1] = row end
  end
  return t
end

local function from_yaml(path, load)
  local content, message = catalogue.read(path)
  if content == nil then check.fail("%s", message) end
  if type(content) ~= "table" then check.fail("%s: a table of options is needed", path) end
  local t = check.record(path, content, schema)
  for i, row in ipairs(t.options) do
    if type(row) ~= "table" then check.fail("%s: options[%d] must be a map", path, i) end
    t.options[i] = check.record(("%s: options[%d]"):format(path, i), row, option)
  end
  for i, row in ipairs(t.bases or {}) do
    t.bases[i] = check.record(("%s: bases[%d]"):format(path, i), row, base)
  end
  return index(extended(t, load))
end

local TYPES <const> = { { "flag.*no", "switch" }, { "flag", "flag" }, { "bool", "boolean" }, { "list", "list" },
  { "dict", "map" }, { "json", "map" }, { "^int", "integer" }, { "float", "number" }, { "^str", "string" } }

local function type_of(text)
  for _, one in ipairs(TYPES) do
    if text:lower():find(one[1]) then return one[2] end
  end
  return "any"
end

local function default_of(text)
  if text == "" or text:find "^None" or text:find "required" then return nil end
  local number = tonumber(text)
  if number then return math.tointeger(number) or number end
  if text:lower() == "true" or text:lower() == "false" then return text:lower() == "true" end
  return text:match "^'(.*)'$" or text
end

local function from_csv(path)
  local t
  for _, row in ipairs(csv.read(path, true)) do
    t = t or { stack = row.stack or "?", version = row.version or "", options = {}, names = {} }
    if row.option and row.concept then
      local aliases = {}
      for alias in (row.aliases or ""):gmatch "%S+" do aliases[#aliases + 1] = alias end
      t.options[#t.options + 1] = { option = row.option, aliases = aliases, type = type_of(row.type or ""),
        default = default_of(row.default or ""), concept = row.concept, source = row.source }
    end
  end
  if not t then check.fail("%s: no options in it", path) end
  local dashed = t.options[1] and t.options[1].option:find "^%-" ~= nil
  t.form = dashed and "argv" or "keys"
  local serving = false
  for _, row in ipairs(t.options) do serving = serving or row.concept:find "^scheduler%." ~= nil end
  t.kind = serving and "serving" or "training"
  return index(t)
end

local cache = {}

--- Loads the table with a name (of recipes/) or a path.
---@param name string
---@return table
function tables.load(name)
  if cache[name] then return cache[name] end
  local t
  if name:find "%.csv$" then
    roots.use(name)
    t = from_csv(name)
  else
    local path, message = catalogue.find("recipes", name)
    if not path then check.fail("%s", message) end
    roots.use(path)
    t = from_yaml(path, tables.load)
  end
  t.name = roots.last(name):gsub("%.%w+$", "")
  if not name:find "[/.]" then cache[name] = t end
  return t
end

--- All tables of recipes/, by name.
---@return table[]
function tables.all()
  local list = {}
  for _, name in ipairs(catalogue.list "recipes") do
    if name ~= "harnesses" then list[#list + 1] = tables.load(name) end
  end
  return list
end

--- The functions that recipes of all stacks start from, by name.
---@return table<string, table>
function tables.bases()
  local list = {}
  for _, t in ipairs(tables.all()) do
    for name, one in pairs(t.bases_by_name) do list[name] = one end
  end
  return list
end

local function is_called(t, stack)
  local wanted = stack:lower()
  if t.stack:lower() == wanted then return true end
  for _, name in ipairs(t.names or {}) do
    if name:lower() == wanted then return true end
  end
  return false
end

--- The tables of a stack, newest first, except that the version asked for comes before them.
---@param stack string
---@param version string?
---@return table[]
function tables.of(stack, version)
  local list, known = {}, {}
  for _, t in ipairs(tables.all()) do
    if is_called(t, stack) then table.insert(list, 1, t) end
    if known[#known] ~= t.stack then known[#known + 1] = t.stack end
  end
  if not list[1] then
    check.fail("no table of options of the stack %s%s; known: %s; 'options' names a file with one", check.show(stack),
      check.suggest(stack, known), table.concat(known, ", "))
  end
  for i, t in ipairs(list) do
    if version and t.version == version then table.insert(list, 1, table.remove(list, i)) end
  end
  return list
end

return tables
