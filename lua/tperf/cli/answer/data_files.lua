--- The data files of an answer that tperf does not ship: where they come from, and that the answer says so; and what
--- became of the fields of config.json files among them.
local check = require "tperf.base.check"
local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local account = lazy.module "tperf.describe.model.hf.account"
local roots = require "tperf.base.roots"
local wording = require "tperf.base.wording"

local data_files = {}

-- Whether a file of a model, or a name, made somebody load what notes the fates of fields.
local function is_loaded() return package.loaded["tperf.describe.model.hf.account"] ~= nil end

local FOLDERS <const> = { "models", "systems", "software", "kernels", "recipes" }

local function check_folder(folder)
  for _, name in ipairs(FOLDERS) do
    if core.resource.entries(folder .. "/" .. name) then return end
  end
  check.fail("--data: %s has none of the folders %s", check.show(folder), table.concat(FOLDERS, ", "))
end

--- Takes data from this folder first, if any, and names on standard error each data file that is used and that tperf
--- does not ship.
---@param folder string?    of --data
---@param ignored string[]?  names of --ignore
---@param from boolean  a launch file is read, whose options have plain names: fields of models' files are model.NAME
function data_files.watch(folder, ignored, from)
  local fields = {}
  for _, name in ipairs(ignored or {}) do
    if not from or name:find "^model%." then fields[#fields + 1] = name end
  end
  if fields[1] or is_loaded() then account.ignore(fields) end
  if folder then
    check_folder(folder)
    roots.prefer(folder)
  end
  roots.tell(function(path)
    local note = ("tperf: uses \"%s\", which tperf does not ship\n"):format(wording.visible(path)) -- all of it
    if core.ranks.self == 0 then io.stderr:write(note) end
  end)
end

-- Adds what became of the fields of files to a record, or makes one.
local function joined(record)
  if not is_loaded() then return record end
  local named = account.named()
  local sum = named[1] and { read = {}, assumed = table.move(named, 1, #named, 1, {}), ignored = {} }
  for _, path in ipairs(roots.used()) do
    local own = account.of(path)
    if own then
      sum = sum or { read = {}, assumed = {}, ignored = {} }
      for name, list in pairs(sum) do table.move(own[name], 1, #own[name], #list + 1, list) end
    end
  end
  if not (sum and record) then return sum or record or nil end
  local both = {}
  for name, list in pairs(sum) do
    both[name] = table.move(record[name], 1, #record[name], 1, {})
    table.move(list, 1, #list, #both[name] + 1, both[name])
  end
  return both
end

--- Sets `understood` of rows that are to be printed as JSON: what became of a launch file's options and of the fields
--- of models' files.
---@param rows table[]
---@param launch table?  that of the launch file
---@return boolean whether there is anything to say
function data_files.understood(rows, launch)
  local record = joined(launch)
  for _, row in ipairs(rows) do
    if record then rawset(row, "understood", record) end
  end
  return record ~= nil
end

--- Says on standard error what was assumed of models' files, and what is left out; raises if --ignore names a field
--- that no file has.
function data_files.tell()
  if not is_loaded() then return end
  account.check(roots.used())
  local record = joined()
  for _, one in ipairs(record and record.assumed or {}) do
    local value = one.value ~= nil and (" = %s"):format(tostring(one.value)) or ""
    io.stderr:write(("tperf: assumed %s%s (%s)\n"):format(one.name, value, one.why))
  end
  for _, one in ipairs(record and record.ignored or {}) do
    if one.tower == "counted" then
      io.stderr:write(("tperf: %s: %s\n"):format(one.name, one.why))
    elseif one.tower or one.forced then
      io.stderr:write(("tperf: without %s (%s)\n"):format(one.name, one.why))
    end
  end
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
