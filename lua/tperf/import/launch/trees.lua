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
      if t.by_name[tables.plain(path)] then count = count + 1 end
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
  local all = { understood = {}, unused = {}, ignored = {}, unknown = {}, refused = {}, assumed = {} }
  local r = disaggregated.read(content, key, function(tree, path)
    local context = reading.context(o, file.path)
    context.null = function(name) return null(path .. "." .. name) end
    local one = reading.of(settings_of(t, tree, at, path), context, file.path)
    for name, list in pairs(all) do
      table.move(one[name], 1, #one[name], #list + 1, list)
      one[name] = nil
    end
    return one
  end)
  for name, list in pairs(all) do r[name] = list end
  r.stack, r.version, r.kind = t.stack, t.version, t.kind
  r.model_name = type(content.model) == "table" and content.model.path or nil
  return r
end

local function read_tree(o, file, table_for)
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
    s.unknown, s.ignored, s.list, s.asked = context.config.unknown, context.config.ignored, context.config.list,
      context.config.asked
    return reading.of(s, context, file.path)
  end
  return reading.of(settings_of(t, content, at), context, file.path)
end

-- The option for a field of a Python recipe: by its whole path, else the only option that ends with the field's name.
local function full_name(t, path)
  if t.by_name[tables.plain(path)] then return path end
  local last = "." .. tables.plain(path:match "^.*%.(.*)$" or path)
  local found
  for name in pairs(t.by_name) do
    if name:sub(-#last) == last then
      if found then return path:find(".", 1, true) and path or nil end
      found = name
    end
  end
  return found or path:find(".", 1, true) and path or nil
end

local function read_python(o, file, table_for)
  local wanted, functions = o.given["function"], python.functions(file.text)
  local known = false
  for _, name in ipairs(functions) do known = known or name == wanted end
  if wanted and not known then
    check.fail("%s: no function '%s'%s", file.path, wanted, check.suggest(wanted, functions))
  end
  if not wanted and #functions > 1 then
    check.fail("%s defines %d functions; say which with 'function' (--set function=%s)", file.path, #functions,
      functions[1])
  end
  local found = {}
  python.read(file.text, wanted, function(path, value, line) found[#found + 1] = { path, value, line } end)
  local function fits(t)
    local count = 0
    for _, one in ipairs(found) do count = count + (t.by_name[tables.plain(one[1])] and 1 or 0) end
    return count
  end
  local t = table_for(o, fits)
  if not t then check.fail("%s: of no stack that is known; 'stack' names it", file.path) end
  local s = settings.new(t)
  for _, one in ipairs(found) do
    local name = full_name(t, one[1])
    if name then s:name(name, one[2], ("%s:%d"):format(file.path, one[3])) end
  end
  local context = reading.context(o, file.path)
  context["function"] = wanted
  return reading.of(s, context, file.path)
end

--- Reads the configuration among the files.
function trees.read(o, all, table_for)
  local file = all[1]
  if file.kind == "python" then return read_python(o, file, table_for) end
  return read_tree(o, file, table_for)
end

return trees
