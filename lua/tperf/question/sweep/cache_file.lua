--- Which files are caches of sweeps: databases of this application with these tables (tperf/question/sweep/store).
local check = require "tperf.base.check"
local core = require "tperf.core"

local APPLICATION <const> = 0x74506572 -- "tPer", in the file's header
local VERSION <const> = 1
local RECORDS <const> = "CREATE TABLE records (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, "
  .. "question TEXT NOT NULL, tperf TEXT NOT NULL, record BLOB NOT NULL, checksum TEXT NOT NULL)"
local POINTS <const> = "CREATE TABLE points (id INTEGER PRIMARY KEY REFERENCES records (id)"
local SCHEMA <const> = ("PRAGMA application_id = %d; PRAGMA user_version = %d; %s; %s)"):format(APPLICATION, VERSION,
  RECORDS, POINTS)

local cache_file = {}

local bytes

--- The bytes of a cache without points.
function cache_file.empty()
  bytes = bytes or core.store.empty(SCHEMA)
  return bytes
end

--- The checksum of a record.
function cache_file.checksum(key, record) return core.file.sha256(key .. record) end

--- What a file is: "good", "damaged", "foreign", "later" (of a later version), "unfinished" (a writer was stopped amid
--- a change), "busy", or nil and a message. Reads only: another program's database keeps every byte, and gets no files
--- beside it. trial: what an unfinished one will be once that change is taken back.
---@param place userdata
---@param trial boolean?
function cache_file.judge(place, trial)
  local database <close>, message, reason = core.store.open(place, trial and "trial" or "read", cache_file.empty())
  local function ask(sql)
    local rows
    rows, message, reason = database:run(sql)
    return rows
  end
  local version = database and ask "PRAGMA user_version"
  local schema = version
    and ask "SELECT sql FROM sqlite_schema WHERE name IN ('records', 'points') ORDER BY name DESC"
  if not schema then return reason, message end
  if version[1].user_version > VERSION then return "later" end
  local known = #schema == 2 and schema[1].sql == RECORDS and schema[2].sql:sub(1, #POINTS) == POINTS
  if not known then return "foreign" end
  local checked = ask "PRAGMA quick_check(1)"
  if not checked then return reason, message end
  return checked[1].quick_check == "ok" and "good" or "damaged"
end

--- Checks every record of a database; raises if anything is damaged.
---@param path string
---@return integer points
function cache_file.check(path)
  local file, problem = core.file.real(path)
  if not file then check.fail("%s", problem) end
  local function whole(ok, where, reason)
    if ok then return end
    if reason == "foreign" then check.fail("%s is no cache of sweeps", path) end
    if reason == "unfinished" then
      check.fail("%s: a sweep was stopped while it wrote; the next one that uses this cache takes that back", path)
    end
    check.fail("%s %s: %s", path, reason == "damaged" and "is damaged" or "cannot be read", where)
  end
  local database <close>, message, why = core.store.open(file, "read", cache_file.empty())
  whole(database, message, why)
  local function ask(...)
    local rows, text, reason = database:run(...)
    whole(rows, text, reason)
    return rows
  end
  local checked, count, last = ask "PRAGMA integrity_check(1)", 0, 0
  whole(checked[1].integrity_check == "ok", checked[1].integrity_check, "damaged")
  while last do
    local rows = ask("SELECT id, key, record, checksum FROM records WHERE id > ? ORDER BY id LIMIT 100", last)
    for _, row in ipairs(rows) do
      local same = cache_file.checksum(row.key, row.record) == row.checksum
      whole(same, ("the record of point %d"):format(row.id), "damaged")
    end
    count, last = count + #rows, rows[1] and rows[#rows].id
  end
  return count
end

return cache_file
