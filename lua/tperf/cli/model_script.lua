--- Models that Lua files return, for commands that take a MODEL: `tperf train my_model.lua`. The file runs in the
-- sandbox, as `tperf run` runs scripts, and so do its blocks.
local check = require "tperf.base.check"
local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local limits = lazy.module "tperf.cli.sandbox.limits"
local options = require "tperf.input.options"
local script = lazy.module "tperf.cli.sandbox.script"

local model_script = {}

-- The files and folders that the command line names for the command to write.
local function outputs_of(command, values)
  local list = {}
  for _, option in ipairs(options.of(command)) do
    local path = option.writes and values[(option.long:gsub("-", "_"))]
    list[#list + 1] = path or nil
  end
  return list
end

-- The sandbox's writers for all paths but those that the command line names, and files in or beginning with these.
local function writing(sandboxed, own, named)
  return function(path, ...)
    for _, name in ipairs(named) do
      if type(path) == "string" and path:sub(1, #name) == name and not path:find("/../", 1, true) then
        return own(path, ...)
      end
    end
    return sandboxed(path, ...)
  end
end

local function load_model(path, host, command, values)
  local write, keep, make_folder = core.file.write, core.file.keep, core.resource.make_folder
  local folder, message = limits.apply({}, host)
  if not folder then error(message, 0) end
  local ok, value = check.attempt(script.run, { path }, false, host)
  if not ok then -- `return tperf.model { … }` leaves no line to name
    local placed = type(value) == "string" and value:sub(1, #path + 1) == path .. ":"
    error(type(value) == "string" and not placed and path .. ": " .. value or value, 0)
  end
  local named = outputs_of(command, values)
  core.file.write = writing(core.file.write, write, named)
  core.file.keep = writing(core.file.keep, keep, named)
  core.resource.make_folder = writing(core.resource.make_folder, make_folder, named)
  if type(value) ~= "table" then
    error(("%s returns %s, where a model must be: end it with `return tperf.model { … }`"):format(path,
      value == nil and "nothing" or check.show(value)), 0)
  end
  return require "tperf.describe.model"(value)
end

--- Replaces the names of Lua files among a command's arguments, if it takes a MODEL, by the models that they return.
---@param arguments any[]
---@return any[] arguments
function model_script.load(arguments, host, command, values)
  if not (command.arguments or ""):find("MODEL", 1, true) then return arguments end
  for i, path in ipairs(arguments) do
    if type(path) == "string" and path:find "%.lua$" then arguments[i] = load_model(path, host, command, values) end
  end
  return arguments
end

return model_script
