--- The database of a sweep's finished points: one SQLite file that other programs can read while it is written.
-- Table records: key, question, version and build of tperf, the record (tperf.question.sweep.record) and its checksum.
-- Table points: the record's id and the figures of the row and the arguments (tperf.question.sweep.columns). Nothing
-- is read back from points.
local io = io
local cache_file = require "tperf.question.sweep.cache_file"
local check = require "tperf.base.check"
local columns = require "tperf.question.sweep.columns"
local core = require "tperf.core"
local in_folder = require "tperf.output.file".in_folder

local WHAT <const> = "tperf.sweep"
local BUILD <const> = ("%s (build %s)"):format(core.version, core.sources)
local MOST_COLUMNS <const> = 1000 -- SQLite's own limit is 2000

local store = {}
store.__index = store

-- --- the file ---

local function fail(self, message, reason)
  local text = message
  if reason == "busy" then
    self:close()
    local process = self.place:writer()
    text = ("%s is writing to it and does not end; let it end, or name another file"):format(
      process and "process " .. process or "another program")
  end
  check.fail("%s: the cache '%s': %s", WHAT, self.path, text)
end

-- Keeps other sweeps from opening, closing and replacing this cache while the variable lives; false if they do not end.
local function held(self)
  local place = self.place
  local got = place:lock()
  return setmetatable({ got = got }, { __close = function() if got then place:unlock() end end })
end

local function refuse_foreign(self)
  local file = core.file.open(self.path)
  local old = file and file:read(18) == "tperf sweep cache " and ", but of an earlier version; remove it" or ""
  if file then file:close() end
  check.fail("%s: '%s' is there and is no cache of sweeps%s%s", WHAT, self.path, old, old == ""
    and "; name another file" or ", or name another file")
end

-- Makes the file if it is missing.
local function make(self)
  local place, message = in_folder(self.path, function() return core.file.keep(self.path, cache_file.empty()) end)
  if not place and message:find "File exists$" then
    check.fail("%s: the cache '%s' is missing, but '%s-wal', '-shm' or '-journal' is there, which SQLite would take "
      .. "for a part of it: move it away, or name another cache", WHAT, self.path, self.path)
  end
  if not place then check.fail("%s: the cache '%s': %s", WHAT, self.path, message) end
  return place
end

-- Sets a damaged file aside under another name, and starts a new one.
local function set_aside(self)
  local to, message = self.place:set_aside()
  if not to then fail(self, "it is damaged and cannot be set aside: " .. message) end
  io.stderr:write(("tperf: the cache '%s' is damaged; it is now '%s', and what it held is computed again\n"):format(
    self.path, (self.path:match "^.*/" or "") .. to))
  make(self)
end

-- Opens the database for writing, which takes back what a stopped writer left.
local function open_database(self)
  local database, message, reason = core.store.open(self.place, "write", cache_file.empty())
  if reason == "foreign" then refuse_foreign(self) end
  if not database then fail(self, message, reason) end
  return database
end

-- What the file is now, after what a stopped writer left has been taken back, if that makes it a cache: its journal is
-- part of it, and both stay as they are if they are another program's.
local function judge(self)
  local verdict, message = cache_file.judge(self.place)
  if verdict == "unfinished" then
    verdict, message = cache_file.judge(self.place, true)
    if verdict ~= "good" then return verdict, message end
    local database <close> = open_database(self)
    database:run "SELECT count(*) FROM sqlite_schema"
    verdict = "unfinished"
  end
  if verdict == "unfinished" or verdict == "busy" then verdict, message = cache_file.judge(self.place) end
  return verdict, message
end

-- Opens the file, which nobody opens, closes or replaces meanwhile.
local function open_file(self, lock)
  local verdict, message = judge(self)
  if verdict == "damaged" then
    if not lock.got then fail(self, nil, "busy") end
    set_aside(self)
    verdict, message = judge(self)
  end
  if verdict == "foreign" then refuse_foreign(self) end
  if verdict == "later" then
    check.fail("%s: the cache '%s' is of a later version of tperf; name another file", WHAT, self.path)
  end
  if verdict ~= "good" then fail(self, message or "it cannot be read", verdict) end
  self.database = open_database(self)
  self.columns, self.insertion, self.writes = nil, nil, false
end

-- Runs a statement; nil if the database is damaged.
local function run(self, sql, ...)
  local rows, message, reason = self.database:run(sql, ...)
  if rows or reason == "damaged" then return rows end
  fail(self, message, reason)
end

-- Sets a database aside that turned out to be damaged, unless another sweep has done so, and goes on with a new one.
local function replace(self)
  local lock <close> = held(self)
  local replaced = self.database:moved()
  self:close()
  if not replaced then
    if not lock.got then fail(self, nil, "busy") end
    set_aside(self)
  end
  open_file(self, lock)
end

-- From here on other programs can read while this one writes. On file systems without shared memory the journal stays.
local function begin_writing(self)
  local lock <close> = held(self) -- luacheck: ignore 211
  self.writes = run(self, "PRAGMA journal_mode = WAL") and run(self, "PRAGMA synchronous = NORMAL") and true
  return self.writes
end

--- Opens the database of a sweep, and creates it if it is missing.
---@param path string  below the output folder
function store.open(path)
  local self = setmetatable({ path = path }, store)
  self.place = make(self)
  local lock <close> = held(self)
  open_file(self, lock)
  return self
end

function store:close()
  if self.database then self.database:close() end
  self.database = nil
end

--- The record of a key; nil if there is none.
---@param key string
---@return string? record
function store:find(key)
  local rows = run(self, "SELECT record, checksum FROM records WHERE key = ?", key)
  local found = rows and rows[1]
  if rows and not found then return nil end
  if found and cache_file.checksum(key, found.record) == found.checksum then return found.record end
  replace(self)
  return nil
end

--- Another question of which the cache has records, of those that begin so; nil if there is none.
---@param prefix string
---@param question string
---@return string? other
function store:other(prefix, question)
  local rows = run(self, "SELECT question FROM records WHERE substr(question, 1, ?) = ? AND question <> ? LIMIT 1",
    #prefix, prefix, question)
  return rows and rows[1] and rows[1].question
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
      point.key, point.question, BUILD, point.record,
      point.checksum or cache_file.checksum(point.key, point.record))
    and insert_point(self, point) and run(self, "COMMIT")
end

local function try_to_add(self, point)
  local ok, done = pcall(add, self, point)
  if ok then return done end
  self.columns, self.insertion = nil, nil -- columns added in this transaction are rolled back
  if self.database then self.database:run "ROLLBACK" end
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

return store
