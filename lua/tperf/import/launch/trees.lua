--- Launches whose file is a configuration: YAML, JSON, TOML, or a Python recipe.
local check = require "tperf.base.check"
local disaggregated = require "tperf.import.launch.disaggregated"
local files = require "tperf.import.launch.files"
local python = require "tperf.import.launch.python"
local reading = require "tperf.import.launch.reading"
local settings = require "tperf.import.launch.settings"
local tables = require "tperf.import.launch.tables"

local trees = {}

-- The number of leaves of a tree that a table knows.
local function known_leaves(content, t, prefix, depth)
  local count = 0
  if depth > 20 then return 0 end
  for key, value in pairs(content) do
    if type(key) == "string" then
      local path = prefix and prefix .. "." .. key or key
      local row = t.by_name[tables.plain(path)]
      -- Options of a command count in files of stacks alone whose files have the same names.
      if row and (t.form == "argv" or not row.option:find "^%-") then count = count + 1 end
      if type(value) == "table" then count = count + known_leaves(value, t, path, depth + 1) end
    end
  end
  return count
end

local function settings_of(t, content, at, prefix)
  local s = settings.new(t)
  s:read_tree(content, function(path) return at(prefix and prefix .. "." .. path or path) end)
  return s
end

local function read_roles(o, file, content, at, stack, key, null)
  local t = tables.of(o.stack or stack, o.version)[1]
  local lists, refused, assumed = { read = {}, assumed = {}, ignored = {} }, {}, {}
  local r = disaggregated.read(content, key, function(tree, path)
    local context = reading.context(o, file.path)
    context.null = function(name) return null(path .. "." .. name) end
    local one = reading.of(settings_of(t, tree, at, path), context, file.path)
    for name, list in pairs(lists) do
      local own = one.understood[name]
      table.move(own, 1, #own, #list + 1, list)
    end
    table.move(one.refused, 1, #one.refused, #refused + 1, refused)
    table.move(one.assumed, 1, #one.assumed, #assumed + 1, assumed)
    one.understood, one.refused, one.assumed = nil, nil, nil
    return one
  end)
  r.understood, r.refused, r.assumed = lists, refused, assumed
  r.stack, r.version, r.kind = t.stack, t.version, t.kind
  r.model_name = type(content.model) == "table" and content.model.path or nil
  return r
end

local function read_tree(o, file, all, table_for)
  local content, at, null
  if file.kind == "toml" then
    content, at = files.toml(file.text, file.path)
  else
    content, at, null = files.tree(file.text, file.path)
  end
  local stack, key = disaggregated.recognise(content)
  if stack then return read_roles(o, file, content, at, stack, key, null or function() return false end) end
  local function fits(t) return t.form ~= "env" and known_leaves(content, t, nil, 0) or 0 end
  local t = table_for(o, fits)
  if not t then check.fail("%s: of no stack that is known; 'stack' names it", file.path) end
  local context = reading.context(o, file.path)
  context.null = null or context.null
  local config = t.config and tables.load(t.config)
  if config and fits(config) > fits(t) then
    context.config = settings_of(config, content, at)
    local s = settings.new(t)
    for _, name in ipairs { "by_option", "unknown", "unread", "open", "list", "asked" } do
      s[name] = context.config[name]
    end
    return reading.of(s, context, file.path)
  end
  local s = settings_of(t, content, at)
  if t.config_by_name then s = reading.with_named(s, file, all, context) end
  return reading.of(s, context, file.path)
end

-- How the names of a table end and begin: { last = { part = the only name that ends with it, else false }, sections =
-- { path = true } }.
local function parts_of(t)
  local parts = { last = {}, sections = {} }
  for name in pairs(t.by_name) do
    local last = name:match "^.*%.(.*)$"
    if last then parts.last[last] = parts.last[last] == nil and name end
    for stop in name:gmatch "()%." do parts.sections[name:sub(1, stop - 1)] = true end
  end
  return parts
end

-- The option for a field of a Python recipe: by its whole path; for a name without a section, such as a keyword of
-- WorkloadBaseConfig(…), the only option that ends with it. nil: a variable of the recipe's own.
local function full_name(t, path, parts)
  local plain = tables.plain(path)
  if path:find(".", 1, true) or t.by_name[plain] then return path end
  return parts.last[plain] or nil
end

-- A finder of the modules that a Python file imports: among the files of the launch, or in the package that the file
-- lies in.
local function finder(all)
  return function(module, path)
    local dots, rest = module:match "^(%.*)(.*)$"
    local name = rest:gsub("%.", "/")
    local folder, inside = path:match "^(.*)/" or ".", name
    if dots ~= "" then
      for _ = 2, #dots do folder = folder:match "^(.*)/" or "." end
    else
      local first = name:match "^[^/]+"
      folder = ("/" .. folder .. "/"):match("^(.*)/" .. first:gsub("%p", "%%%0") .. "/")
      folder = folder and (folder:sub(2) == "" and "." or folder:sub(2))
    end
    for _, ending in ipairs { ".py", "/__init__.py" } do
      for _, one in ipairs(all) do
        local own = one.path
        if own ~= path and (own == name .. ending or own:sub(-#name - #ending - 1) == "/" .. name .. ending) then
          return one.text, own
        end
      end
      local text = folder and files.beside(folder, inside .. ending)
      if text then return text, folder .. "/" .. inside .. ending end
    end
  end
end

-- The settings that a Python text makes: lists { path, value, line, refused, path of the file }, or { base = function,
-- arguments } for what a function that is not at hand sets.
local function python_settings(file, all, wanted)
  local functions, aliases = python.functions(file.text)
  local known = aliases[wanted] ~= nil
  for _, name in ipairs(functions) do known = known or name == wanted end
  if wanted and not known then
    check.fail("%s: no function '%s'%s", file.path, wanted, check.suggest(wanted, functions))
  end
  if not wanted and #functions > 1 then
    check.fail("%s defines %d functions; say which with 'function' (--set function=%s)", file.path, #functions,
      functions[1])
  end
  local found = {}
  local bases = tables.bases()
  python.read(file.text, file.path, wanted,
    function(path, value, line, where) found[#found + 1] = { path, value, line, false, where } end,
    function(call, line, arguments) found[#found + 1] = { base = call, line = line, arguments = arguments or {} } end,
    function(path, text, line, where) found[#found + 1] = { path, { expression = text }, line, true, where } end,
    { find = finder(all), known = function(name) return bases[name] ~= nil end })
  return found
end

-- Puts a setting of a Python text. A section's call has been read argument by argument; any other value of a section is
-- refused, as is what the text says in a way that is not read.
local function put_setting(s, t, one, name, parts, place)
  local path = type(one[2]) == "table" and one[2].expression and one[2].expression:match "^[%a_][%w_]*%.([%w_.]+)$"
  local other = path and s.by_option[path] -- another setting, which a function of other recipes has made
  if other then one[2], one[4] = other.value, false end
  local value, row = one[2], name and t.by_name[tables.plain(name)]
  local section = parts.sections[tables.plain(one[1])] and not row
  local expression = type(value) == "table" and value.expression
  if section and value == "None" then return end
  if row and row.harmless then return s:put(row, expression or value, place) end
  if one[4] or section and not (expression and value.call and not value.positional) then
    return s:refuse(row and row.option or one[1], { expression = expression or tostring(value) }, place)
  end
  if section or not name or expression and value.elsewhere and not row then return end
  s:name(name, value, place)
end

-- Puts what a function of the stack's own recipes sets, below `prefix`.
local function put_base(s, base, call, arguments, prefix, place, context)
  local set, fields = {}, {}
  for name, value in pairs(base.set or {}) do
    local number = type(value) == "string" and tonumber(value:match "^%$(%d)$") -- an argument of the call
    if number then value = arguments[number] end
    if value == nil then
      context.assume("%s() sets %s to its default, which is not in the file", call, name)
    else
      fields[#fields + 1], set[name] = name, value
    end
  end
  table.sort(fields)
  for _, name in ipairs(fields) do
    if name ~= "call" then s:name(prefix and prefix .. "." .. name or name, set[name], place) end
  end
  context.assume("%s() sets %s", call, base.assumed and "a layout: " .. base.assumed
    or "what it does in " .. s.table.version)
end

local function read_python(o, file, all, table_for)
  local wanted = o.given["function"]
  local found = python_settings(file, all, wanted)
  local function fits(t)
    local count = t.form == "keys" and 0 or -#found
    for _, one in ipairs(found) do count = count + (one[1] and t.by_name[tables.plain(one[1])] and 1 or 0) end
    return count
  end
  local t = table_for(o, fits)
  if not t then check.fail("%s: of no stack that is known; 'stack' names it", file.path) end
  local s, parts = settings.new(t), parts_of(t)
  local context = reading.context(o, file.path)
  context["function"] = wanted
  for _, one in ipairs(found) do
    local base = t.bases_by_name[one.base or type(one[2]) == "table" and one[2].call]
    local place = ("%s:%d"):format(one[5] or file.path, one.line or one[3])
    if one.base and base then
      put_base(s, base, one.base, one.arguments, nil, place, context)
    elseif one.base then
      context.assume("what %s() sets (line %d) is not in the file", one.base, one.line)
      context.base = context.base or context.assumed[#context.assumed]
    elseif base then -- a value that such a function makes
      if base.set and base.set.call then
        s:name(one[1], { expression = one[2].expression, call = base.set.call }, place)
      end
      put_base(s, base, one[2].call, {}, one[1], place, context)
    else
      put_setting(s, t, one, full_name(t, one[1], parts), parts, place)
    end
  end
  return reading.of(s, context, file.path)
end

--- Reads the configuration among the files.
function trees.read(o, all, table_for)
  local file = all[1]
  if file.kind == "python" then return read_python(o, file, all, table_for) end
  return read_tree(o, file, all, table_for)
end

return trees
