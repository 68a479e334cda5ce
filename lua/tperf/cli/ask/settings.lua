--- `--set PATH=VALUE`: changes fields of a command's model, system and software profile.
local check = require "tperf.base.check"
local core = require "tperf.core"

local settings = {}

--- The option, for commands that read no launch file (cli/ask/from.lua has one that also fills in a file's gaps).
settings.option = { long = "set", value = "PATH=VALUE,...", kind = "list",
  help = "change model.FIELD, system.FIELD or software.FIELD" }

local OBJECTS <const> = { "model", "system", "software" }
local NAMED_BY <const> = { model = "a MODEL", system = "--system", software = "--software" }

local function object_of(path) return path:match "^(%l+)%." end

-- Joins list values that the option's commas have split: a comma that starts no new PATH=VALUE belongs to the value.
local function joined(list)
  local whole = {}
  for _, item in ipairs(list) do
    local last = whole[#whole]
    if last and not item:find("=", 1, true) and NAMED_BY[object_of(last)] then
      whole[#whole] = last .. "," .. item
    else
      whole[#whole + 1] = item
    end
  end
  return whole
end

-- Adds a value to changes at a path such as "network.fast.domain". Returns nil and a message if it is set already.
local function put(changes, path, value)
  local names = {}
  for name in path:gmatch "[^.]+" do names[#names + 1] = name end
  local last = table.remove(names)
  for _, name in ipairs(names) do
    if changes[name] == nil then changes[name] = {} end
    changes = changes[name]
    if type(changes) ~= "table" then return nil, "another --set gives a part of it" end
  end
  if not last or changes[last] ~= nil then return nil, last and "it is set twice" or "a field is missing" end
  changes[last] = value
  return true
end

-- Parses a value as YAML does: 72, true, "450 GB/s", [1, 2].
local function value_of(text)
  local value = text ~= "" and core.yaml(text, "--set")
  if value == nil or value == false and text ~= "false" then return nil end
  return value
end

--- Splits the values of --set into changes to objects and others, which launch files may leave open.
---@param list string[]?
---@return table? changes  { model = { … }, … } as for :with; nil if one is wrong
---@return table|string given  the others by name, or the message
function settings.read(list)
  local changes, given = {}, {}
  for _, text in ipairs(joined(list or {})) do
    local path, value = text:match "^([^=]+)=(.*)$"
    if not path then return nil, ("--set: PATH=VALUE is needed, got '%s'"):format(text) end
    local object = object_of(path)
    if NAMED_BY[object] then
      local known = value_of(value)
      if known == nil then return nil, ("--set %s: a value is needed, got '%s'"):format(path, value) end
      changes[object] = changes[object] or {}
      local done, message = put(changes[object], path:sub(#object + 2), known)
      if not done then return nil, ("--set %s: %s"):format(text, message) end
    else
      given[path] = value
    end
  end
  return changes, given
end

-- A constructor's message with the full path that --set uses.
local function in_paths(object, message)
  message = tostring(message):gsub("^.-tperf%.%l+:with: ", "")
  return ("--set: %s"):format((message:gsub("'([%w_.]+)'", "'" .. object .. ".%1'", 1)))
end

-- The profile without the errors of its fit, which no longer apply once a field changes.
local function unfitted(profile)
  local copy = {}
  for name, value in pairs(profile) do copy[name] = value end
  copy.name, copy.runs, copy.error, copy.spread, copy.error90 = profile.name .. " (changed)", nil, nil, nil, nil
  return require "tperf.describe.software"(copy)
end

local function changed(object, value, changes)
  local make = require("tperf.describe." .. object)
  local original = make(value)
  local ok, result = check.attempt(original.with, original, changes)
  if not ok then error(in_paths(object, result), 0) end
  if object == "software" then return unfitted(result) end
  return result
end

local function nearest(given)
  local path = check.names(given)[1]
  local first = path:match "^[^.]*"
  for _, object in ipairs(OBJECTS) do
    if path == object then return ("--set: '%s' has fields; name one: %s.FIELD=VALUE"):format(path, path) end
  end
  local near = check.suggest(first, OBJECTS)
  return ("--set: PATH starts with model., system. or software., got '%s'%s"):format(path, near)
end

--- Replaces the names given to a command by changed objects.
---@param values table     the command's options: set, system, software
---@param arguments table  the MODEL first
---@param launch boolean?  true: names without an object belong to a launch file and are no mistake
---@return string? message  if --set is wrong
function settings.apply(values, arguments, launch)
  local changes, given = settings.read(values.set)
  if not changes then return given --[[@as string]] end
  if next(given) and not launch then return nearest(given) end
  local named = { model = arguments[1], system = values.system, software = values.software }
  for _, object in ipairs(OBJECTS) do
    if changes[object] and (named[object] == nil or named[object] == "none") then
      local remedy = object == "software" and "; add --software typical, or another (`tperf list software`)" or ""
      return ("--set %s.… changes what %s names, and there is none%s"):format(object, NAMED_BY[object], remedy)
    end
    if changes[object] then named[object] = changed(object, named[object], changes[object]) end
  end
  arguments[1], values.system, values.software = named.model, named.system, named.software
end

return settings
