--- The database of a sweep's finished points: one SQLite file that other programs can read while it is written.
-- Table records: key, question, version of tperf, the record (tperf.question.sweep.record) and its checksum. Table
-- points: the record's id and the figures of the sweep's row and arguments (tperf.question.sweep.columns). Nothing is
-- read back from points.
local io = io
local check = require "tperf.base.check"
local columns = require "tperf.question.sweep.columns"
local core = require "tperf.core"

local WHAT <const> = "tperf.sweep"
local APPLICATION <const> = 0x74506572 -- "tPer", in the file's header
local VERSION <const> = 1
local RECORDS <const> = "CREATE TABLE records (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, "
  .. "question TEXT NOT NULL, tperf TEXT NOT NULL, record BLOB NOT NULL, checksum TEXT NOT NULL)"
local POINTS <const> = "CREATE TABLE points (id INTEGER PRIMARY KEY REFERENCES records (id)"
local SCHEMA <const> = ("PRAGMA application_id = %d; PRAGMA user_version = %d; %s; %s)"):format(APPLICATION, VERSION,
  RECORDS, POINTS)
local MOST_COLUMNS <const> = 1000 -- SQLite's own limit is 2000

local sha256 = core.file.sha256

local store = {}
store.__index = store

local empty

-- --- the file ---

local function fail(self, message, reason)
  local text = message
  if reason == "busy" then
    local process = core.store.writer(self.file)
    text = ("%s is writing to it and does not end; let it end, or name another file"):format(
      process and "process " .. process or "another program")
  end
  check.fail("%s: the cache '%s': %s", WHAT, self.path, text)
end

-- Whether a file that SQLite cannot read was a cache of tperf.
local function was_ours(path)
  local file = io.open(path, "rb")
  local text = file and file:read(8192) or ""
  if file then file:close() end
  return text:sub(69, 72) == string.pack(">I4", APPLICATION) or text:find("CREATE TABLE records (id", 1, true) ~= nil
end

local function refuse_foreign(self)
  self:close()
  local file = io.open(self.file, "rb")
  local old = file and file:read(18) == "tperf sweep cache " and ", but of an earlier version; remove it" or ""
  if file then file:close() end
  check.fail("%s: '%s' is there and is no cache of sweeps%s%s", WHAT, self.path, old, old == ""
    and "; name another file" or ", or name another file")
end

local open_file

-- Sets a damaged file aside under another name, and starts a new one.
local function replace(self)
  self:close()
  local to, message = core.store.set_aside(self.file)
  if not to then fail(self, "it is damaged and cannot be set aside: " .. message) end
  io.stderr:write(("tperf: the cache '%s' is damaged; it is now '%s', and what it held is computed again\n"):format(
    self.path, self.path .. to:sub(#self.file + 1)))
  open_file(self)
end

-- Runs a statement; nil if the database is damaged.
local function run(self, sql, ...)
  local rows, message, reason = self.database:run(sql, ...)
  if rows or reason == "damaged" then return rows end
  fail(self, message, reason)
end

-- Whether the database is intact and a cache of tperf; nil if it is damaged.
local function is_good(self)
  local id = run(self, "PRAGMA application_id")
  if not id then return nil end
  local version = run(self, "PRAGMA user_version")
  local schema = run(self, "SELECT sql FROM sqlite_schema WHERE name IN ('records', 'points') ORDER BY name DESC")
  if not version or not schema then return nil end
  if id[1].application_id ~= APPLICATION then return was_ours(self.file) and nil end
  if version[1].user_version > VERSION then return false end
  local known = #schema == 2 and schema[1].sql == RECORDS and schema[2].sql:sub(1, #POINTS) == POINTS
  local checked = known and run(self, "PRAGMA quick_check(1)")
  return checked and checked[1].quick_check == "ok" or nil
end

function open_file(self)
  empty = empty or core.store.empty(SCHEMA)
  local file, message = core.file.keep(self.path, empty)
  if not file and message:find "File exists$" then
    check.fail("%s: the cache '%s' is missing, but '%s-wal', '-shm' or '-journal' is there, which SQLite would take "
      .. "for a part of it: move it away, or name another cache", WHAT, self.path, self.path)
  end
  if not file then check.fail("%s: the cache '%s': %s", WHAT, self.path, message) end
  local reason
  self.file = file
  self.database, message, reason = core.store.open(file, "write")
  if not self.database and reason ~= "damaged" then fail(self, message, reason) end
  local good = self.database and is_good(self)
  if good == nil and was_ours(file) then return replace(self) end
  if not good then refuse_foreign(self) end
  self.columns, self.insertion, self.writes = nil, nil, false
end

-- From here on other programs can read while this one writes. On file systems without shared memory the journal stays.
local function begin_writing(self)
  self.writes = run(self, "PRAGMA journal_mode = WAL") and run(self, "PRAGMA synchronous = NORMAL") and true
  return self.writes
end

--- Opens the database of a sweep, and creates it if it is missing.
---@param path string  below the output folder
function store.open(path)
  local self = setmetatable({ path = path }, store)
  open_file(self)
  return self
end

function store:close()
  if self.database then self.database:close() end
  self.database = nil
end

local function checksum(key, record) return sha256(key .. record) end

--- The record of a key; nil if there is none.
---@param key string
---@return string? record
function store:find(key)
  local rows = run(self, "SELECT record, checksum FROM records WHERE key = ?", key)
  local found = rows and rows[1]
  if rows and not found then return nil end
  if found and checksum(key, found.record) == found.checksum then return found.record end
  replace(self)
  return nil
end

-- --- adding ---

local function read_columns(self)
  local present, count = {}, 0
  local rows = run(self, "SELECT name FROM pragma_table_info('points')")
  for _, row in ipairs(rows or {}) do present[row.name:lower()], count = true, count + 1 end
  self.columns, self.count = present, count
  return rows
end

-- Adds a column to the table for each of a point's without one, up to the limit; nil if the database is damaged.
local function make_columns(self, point)
  local before = self.count
  for i, column in ipairs(point.columns) do
    if not self.columns[column.lower] and self.count < MOST_COLUMNS then
      if not run(self, "ALTER TABLE points ADD COLUMN " .. columns.declare(column, point.values[i])) then return nil end
      self.columns[column.lower], self.count = true, self.count + 1
    end
  end
  if self.count > before then
    local version = run(self, "PRAGMA schema_version")
    self.schema = version and version[1].schema_version
  end
  return true
end

-- The statement that inserts a point with these columns, and which of its values it takes; nil if the database is
-- damaged.
local function insertion(self, point)
  local known = self.insertion
  if known and known.columns == point.columns and known.schema == self.schema then return known end
  if not make_columns(self, point) then return nil end
  local names, marks, taken = { "id" }, { "id" }, {}
  for i, column in ipairs(point.columns) do
    if self.columns[column.lower] then
      names[#names + 1], marks[#marks + 1], taken[#taken + 1] = column.quoted, "?", i
    end
  end
  self.insertion = { columns = point.columns, schema = self.schema, taken = taken,
    sql = ("INSERT OR IGNORE INTO points (%s) SELECT %s FROM records WHERE key = ?"):format(
      table.concat(names, ", "), table.concat(marks, ", ")) }
  return self.insertion
end

local function insert_point(self, point)
  local into = insertion(self, point)
  if not into then return nil end
  local values = {}
  for k, i in ipairs(into.taken) do values[k] = point.values[i] end
  values[#values + 1] = point.key
  return run(self, into.sql, table.unpack(values))
end

-- Returns nil if the database is damaged.
local function add(self, point)
  if not self.writes and not begin_writing(self) or not run(self, "BEGIN IMMEDIATE") then return nil end
  -- Another writer may have added columns.
  local version = run(self, "PRAGMA schema_version")
  if not version then return nil end
  if self.schema ~= version[1].schema_version or not self.columns then
    if not read_columns(self) then return nil end
    self.schema = version[1].schema_version
  end
  return run(self, "INSERT OR IGNORE INTO records (key, question, tperf, record, checksum) "
      .. "VALUES (?, ?, ?, CAST(? AS BLOB), ?)",
      point.key, point.question, core.version, point.record, point.checksum or checksum(point.key, point.record))
    and insert_point(self, point) and run(self, "COMMIT")
end

local function try_to_add(self, point)
  local ok, done = pcall(add, self, point)
  if ok then return done end
  self.columns, self.insertion = nil, nil -- columns added in this transaction are rolled back
  self.database:run "ROLLBACK"
  error(done, 0)
end

--- Stores a point.
---@param point { key: string, question: string, record: string, checksum: string?, columns: table, values: any[] }
---  the last two of columns.of
function store:add(point)
  if try_to_add(self, point) then return end
  replace(self)
  if not try_to_add(self, point) then fail(self, "it is damaged again at once; the disk may be failing") end
end

--- Checks every record of a database; raises if anything is damaged.
---@param path string
---@return integer points
function store.check(path)
  local file, problem = core.file.real(path)
  if not file then check.fail("%s", problem) end
  local function whole(ok, where) if not ok then check.fail("%s is damaged: %s", path, where) end end
  local database <close>, message = core.store.open(file, "read")
  whole(database, message)
  local function ask(...)
    local rows, text = database:run(...)
    whole(rows, text)
    return rows
  end
  local checked, count, last = ask "PRAGMA integrity_check(1)", 0, 0
  whole(checked[1].integrity_check == "ok", checked[1].integrity_check)
  while last do
    local rows = ask("SELECT id, key, record, checksum FROM records WHERE id > ? ORDER BY id LIMIT 100", last)
    for _, row in ipairs(rows) do
      whole(checksum(row.key, row.record) == row.checksum, ("the record of point %d"):format(row.id))
    end
    count, last = count + #rows, rows[1] and rows[#rows].id
  end
  return count
end

return store
