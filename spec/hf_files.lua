-- The published config.json files of spec/data/hf, as they are or changed.
local hf = require "tperf.describe.model.hf"
local luassert = require "luassert"
local tperf = require "tperf"
local yaml = require "tperf.core".yaml

local hf_files = { REMOVED = {} } -- in place of a value: the field is left out

function hf_files.path(name) return "spec/data/hf/" .. name .. ".json" end
function hf_files.model(name) return tperf.model(hf_files.path(name)) end

--- A file's fields, with some of its text model's changed.
---@param name string
---@param changes table?  field -> value, or REMOVED
---@return table
function hf_files.fields(name, changes)
  local file <close> = assert(io.open(hf_files.path(name)))
  local fields = assert(yaml(file:read "a", name))
  local text = fields.text_config or fields
  for key, value in pairs(changes or {}) do
    if value == hf_files.REMOVED then text[key] = nil else text[key] = value end
  end
  return fields
end

--- The description that tperf reads from a changed file.
function hf_files.changed(name, changes) return hf.describe(hf_files.fields(name, changes), "config.json") end

--- Asserts that a changed file is refused, with a message that matches a pattern or, if `plain`, has a text.
function hf_files.refused(name, changes, expected, plain)
  local ok, message = pcall(hf_files.changed, name, changes)
  luassert.is_false(ok)
  luassert.matches(expected, message, 1, plain)
end

return hf_files
