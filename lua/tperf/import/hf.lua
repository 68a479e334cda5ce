--- A Hugging Face config.json as a model: the text model's description in tperf's own names.
-- The architectures themselves are in hf_types.lua.
local check = require "tperf.check"
local config = require "tperf.import.config"
local types = require "tperf.import.hf_types"

local hf = {}

--- The architectures that are known, sorted.
---@return string[]
function hf.known()
  return check.names(types)
end

--- Does a parsed file look like a Hugging Face configuration?
---@param fields any
---@return boolean
function hf.recognise(fields)
  return type(fields) == "table"
    and (fields.model_type ~= nil or fields.architectures ~= nil or fields.text_config ~= nil)
end

local function unknown(c, model_type)
  local names = hf.known()
  c:fail("model_type", "= %s: unknown architecture%s; known: %s", check.show(model_type),
    check.suggest(model_type, names), table.concat(names, ", "))
end

-- The checkpoint's own name, else the file's folder (…/Mixtral-8x7B/config.json), else the file's.
local function name_of(c, path)
  local own = c:text("_name_or_path", false)
  local last = own and own:match "([^/]+)/*$"
  if last and not own:match "^%.*/" then return last end
  local folder, file = path:match "([^/]*)/([^/]*)$"
  file = (file or path):gsub("%.%w+$", "")
  if file ~= "config" then return file end
  return folder and folder ~= "" and folder or "config"
end

--- The description of a configuration's text model, for tperf.model to check and complete. The files say how long a
-- context may be, not how long training's sequences were: seq is the former.
---@param fields table the parsed config.json
---@param path string where it came from, for messages and the name
---@param positions table? as tperf.core.yaml returns them, for messages
---@return table description
function hf.describe(fields, path, positions)
  if type(fields) ~= "table" then check.fail("%s: a map of configuration keys is needed", path) end
  local c = config.new(fields, path, positions)
  c = c:nested "text_config" or c -- where vision-language files keep their text model
  local model_type = c:text("model_type")
  local describe = types[model_type]
  if not describe then unknown(c, model_type) end
  local m = describe(c)
  if m.heads and not m.head_dim and not m.mla and m.hidden % m.heads ~= 0 then
    c:fail(nil, "%d heads do not divide the hidden size %d, and there is no \"head_dim\"", m.heads, m.hidden)
  end
  m.name = name_of(c.outer or c, path)
  m.family = model_type
  m.source = path
  return m
end

return hf
