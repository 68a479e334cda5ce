--- The data files of an answer that tperf does not ship: where they come from, and that the answer says so.
local check = require "tperf.base.check"
local core = require "tperf.core"
local roots = require "tperf.base.roots"
local wording = require "tperf.base.wording"

local data_files = {}

local FOLDERS <const> = { "models", "systems", "software", "kernels", "recipes" }

local function check_folder(folder)
  for _, name in ipairs(FOLDERS) do
    if core.resource.entries(folder .. "/" .. name) then return end
  end
  check.fail("--data: %s has none of the folders %s", check.show(folder), table.concat(FOLDERS, ", "))
end

--- Takes data from this folder first, if any, and names on standard error each data file that is used and that tperf
--- does not ship.
---@param folder string?  of --data
function data_files.watch(folder)
  if folder then
    check_folder(folder)
    roots.prefer(folder)
  end
  roots.tell(function(path)
    local note = ("tperf: uses \"%s\", which tperf does not ship\n"):format(wording.visible(path)) -- all of it
    if core.ranks.self == 0 then io.stderr:write(note) end
  end)
end

--- Writes their names into an object that is to be printed as JSON, as `data_files`.
---@param object table
---@return table object
function data_files.into(object)
  local used = roots.used()
  if used[1] then rawset(object, "data_files", used) end
  return object
end

--- The same for each row; columns: those to be printed.
---@param rows table[]
---@param columns any[]?
---@return table[] rows, any[]? columns
function data_files.name(rows, columns)
  for _, row in ipairs(rows) do data_files.into(row) end
  if columns and roots.used()[1] then columns[#columns + 1] = "data_files" end
  return rows, columns
end

return data_files
