--- A command's options from a YAML or JSON file: { devices: 8, times: { f: 1, b: 2 }, text: true }. Names are those of
-- the command line, with "_" or "-"; a list means a comma-separated value.
local check = require "tperf.base.check"
local options = require "tperf.input.options"
local catalogue = require "tperf.base.catalogue"

local config_file = {}

-- A value spelled as on the command line; nil if it cannot be.
local function text_of(value)
  if type(value) == "string" then return value end
  if type(value) == "number" then return require "tperf.output.number".text(value) end
  if type(value) ~= "table" then return nil end
  local parts = {}
  for i = 1, #value do
    if type(value[i]) == "table" then return nil end
    parts[i] = text_of(value[i])
  end
  if #parts > 0 then return table.concat(parts, ",") end
  for _, name in ipairs(check.names(value)) do
    local text = text_of(value[name])
    if not text then return nil end
    parts[#parts + 1] = ("%s=%s"):format(name, text)
  end
  return table.concat(parts, ",")
end

--- Reads options from a file. Values of the options in `own` are returned as they are in the file.
---@param path string
---@param declared table[]  the command's options
---@param own table<string, boolean>
---@return table? values  by long name, "_" for "-"; nil if something is wrong
---@return string? message
function config_file.read(path, declared, own)
  local content, message = catalogue.read(path)
  if content == nil then return nil, message end
  if type(content) ~= "table" then return nil, path .. ": a table of options is needed" end
  local values, by_name, names = {}, {}, check.names(own)
  for _, option in ipairs(declared) do
    local name = option.long:gsub("-", "_")
    by_name[name], names[#names + 1] = option, name
  end
  for _, key in ipairs(check.names(content)) do
    local name, value = tostring(key):gsub("-", "_"), content[key]
    local option, done = by_name[name], true
    if own[name] then
      values[name] = value
    elseif not option then
      return nil, ("%s: unknown option '%s'%s"):format(path, key, check.suggest(name, names))
    elseif not option.value then
      if type(value) ~= "boolean" then
        return nil, ("%s: '%s' must be true or false, got %s"):format(path, key, check.show(value))
      end
      values[name] = value or nil
    else
      local text = text_of(value)
      if not text then return nil, ("%s: '%s' cannot be %s"):format(path, key, check.show(value)) end
      done, message = options.store(values, option, text)
    end
    if not done then return nil, ("%s: %s"):format(path, message) end
  end
  return values
end

return config_file
