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

-- The settings that a Python text makes: lists { path, value, line, refused }, and notes on what other files may set.
local function python_settings(file, wanted)
  local functions, known = python.functions(file.text), false
  for _, name in ipairs(functions) do known = known or name == wanted end
  if wanted and not known then
    check.fail("%s: no function '%s'%s", file.path, wanted, check.suggest(wanted, functions))
  end
  if not wanted and #functions > 1 then
    check.fail("%s defines %d functions; say which with 'function' (--set function=%s)", file.path, #functions,
      functions[1])
  end
  local found, notes = {}, {}
  python.read(file.text, file.path, wanted, function(path, value, line) found[#found + 1] = { path, value, line } end,
    function(call, line) notes[#notes + 1] = ("what %s() sets (line %d) is not in the file"):format(call, line) end,
    function(path, text, line) found[#found + 1] = { path, { expression = text }, line, true } end)
  return found, notes
end

-- Puts a setting of a Python text. A section's call has been read argument by argument; any other value of a section is
-- refused, as is what the text says in a way that is not read.
local function put_setting(s, t, one, name, parts, place)
  local value, row = one[2], name and t.by_name[tables.plain(name)]
  local section = parts.sections[tables.plain(one[1])] and not row
  local expression = type(value) == "table" and value.expression
  if row and row.harmless then return s:put(row, expression or value, place) end
  if one[4] or section and not (expression and value.call and not value.positional) then
    return s:refuse(row and row.option or one[1], { expression = expression or tostring(value) }, place)
  end
  if section or not name or expression and value.elsewhere and not row then return end
  s:name(name, value, place)
end

local function read_python(o, file, table_for)
  local wanted = o.given["function"]
  local found, notes = python_settings(file, wanted)
  local function fits(t)
    local count = t.form == "keys" and 0 or -#found
    for _, one in ipairs(found) do count = count + (t.by_name[tables.plain(one[1])] and 1 or 0) end
    return count
  end
  local t = table_for(o, fits)
  if not t then check.fail("%s: of no stack that is known; 'stack' names it", file.path) end
  local s, parts = settings.new(t), parts_of(t)
  for _, one in ipairs(found) do
    local name = full_name(t, one[1], parts)
    put_setting(s, t, one, name, parts, ("%s:%d"):format(file.path, one[3]))
  end
  local context = reading.context(o, file.path)
  context["function"] = wanted
  for _, note in ipairs(notes) do context.assume("%s", note) end
  context.base = notes[1]
  return reading.of(s, context, file.path)
end

--- Reads the configuration among the files.
function trees.read(o, all, table_for)
  local file = all[1]
  if file.kind == "python" then return read_python(o, file, table_for) end
  return read_tree(o, file, all, table_for)
end

return trees
