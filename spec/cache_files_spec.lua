-- The files of a sweep's cache and of the databases that are queried: which are recognised, and what happens to others.
local core = require "tperf.core"
local lfs = require "lfs"
local program = require "program"

local SCRIPT <const> = [[
local tperf = require "tperf"
tperf.sweep { key = "k", cache = "c.sqlite", x = tperf.vary { 1, 2, 3 }, run = function(o)
  io.stderr:write("computed ", o.x, "\n")
  return { y = 2 * o.x }
end }
]]
local COMPUTED <const> = "computed 1\ncomputed 2\ncomputed 3\n"
local NOTES <const> = "CREATE TABLE records (id INTEGER PRIMARY KEY, note TEXT); INSERT INTO records VALUES (1, 'a')"
local APPLICATION <const> = "PRAGMA application_id = 1951425906; PRAGMA user_version = 1; " -- "tPer"

local folder
before_each(function()
  folder = program.folder()
  program.write(folder .. "/s.lua", SCRIPT)
end)
after_each(function() program.remove(folder) end)

-- The files of a folder: name -> content.
local function files_of(path)
  local found = {}
  for name in lfs.dir(path) do
    if name ~= "." and name ~= ".." and name ~= "s.lua" then found[name] = program.slurp(path .. "/" .. name) end
  end
  return found
end

local function changed(bytes, at, to) return bytes:sub(1, at) .. to .. bytes:sub(at + #to + 1) end
-- In the mode of write-ahead logging, as another program leaves a database that it has closed.
local function logging(bytes) return changed(bytes, 18, "\2\2") end

-- Makes a database in this folder whose last change is in its -wal, as a copy of one that is being written to.
local function copy_amid_writing(bytes, change, to)
  local path = program.temporary()
  program.write(path, bytes)
  local database <close> = assert(core.store.open(path, "write"))
  assert(database:run "PRAGMA journal_mode = WAL")
  assert(database:run(change))
  program.write(to, program.slurp(path))
  program.write(to .. "-wal", program.slurp(path .. "-wal"))
end

local function run() return program.shell("tperf run s.lua", folder) end

local function make_cache()
  local result = run()
  assert.same({ COMPUTED, 0 }, { result.err, result.code })
  return program.slurp(folder .. "/c.sqlite")
end

describe("a cache", function()
  local function is_refused(bytes)
    if bytes then program.write(folder .. "/c.sqlite", bytes) end
    local before, result = files_of(folder), run()
    assert.equal(1, result.code)
    assert.truthy(result.err:find("'c.sqlite' is there and is no cache of sweeps", 1, true), result.err)
    assert.same(before, files_of(folder))
  end

  local notes = core.store.empty(NOTES)
  local ours = core.store.empty(APPLICATION .. NOTES)
  local others = {
    ["a healthy database with a table of the same name"] = notes,
    ["such a database that logs its changes"] = logging(notes),
    ["a database of another application"] = core.store.empty("PRAGMA application_id = 1951425907; " .. NOTES),
    ["a database with its application's number but other tables"] = ours,
    ["such a database that logs its changes, too"] = logging(ours),
    ["a text that speaks of its tables"] = "my notes: CREATE TABLE records (id INTEGER PRIMARY KEY, …",
    ["a text with its application's number at the same place"] = ("x"):rep(68) .. "tPer" .. ("x"):rep(5000),
    ["a damaged database of another program"] = changed(notes, 100, ("\255"):rep(40)),
    ["a file of nothing"] = "",
  }
  for what, bytes in pairs(others) do
    it("leaves alone " .. what, function() is_refused(bytes) end)
  end

  it("leaves alone a database whose tables are the same, of no application", function()
    is_refused(changed(make_cache(), 68, "\0\0\0\0"))
  end)

  it("leaves alone a database that another program is writing to, with all beside it", function()
    for _, bytes in ipairs { notes, ours } do
      copy_amid_writing(bytes, "INSERT INTO records VALUES (2, 'b')", folder .. "/c.sqlite")
      is_refused()
    end
  end)

  it("is not damaged as a copy with its -wal but without its -shm", function()
    local bytes = make_cache()
    os.remove(folder .. "/c.sqlite")
    copy_amid_writing(bytes, "UPDATE points SET y = 7 WHERE x = 3", folder .. "/c.sqlite")
    local before = files_of(folder)
    local function ask(arguments) return program.shell("tperf sweep --db c.sqlite " .. arguments, folder) end
    assert.equal("c.sqlite: 3 points, all as they were written\n", ask("--check").out)
    assert.equal("y\n7\n", ask("--csv 'SELECT y FROM points WHERE x = 3'").out)
    assert.same(before, files_of(folder))
    assert.same({ err = "", out = "", code = 0 }, run())
    assert.equal("y\n7\n", ask("--csv 'SELECT y FROM points WHERE x = 3'").out)
    assert.is_nil(lfs.attributes(folder .. "/c.sqlite-wal"))
  end)

  it("that is damaged takes no name beside which another file lies", function()
    local bytes = make_cache()
    program.write(folder .. "/c.sqlite", changed(bytes, 100, ("\255"):rep(40)))
    program.write(folder .. "/c.sqlite.damaged-wal", "my notes")
    local result = run()
    assert.equal("tperf: the cache 'c.sqlite' is damaged; it is now 'c.sqlite.damaged-2', and what it held is computed "
      .. "again\n" .. COMPUTED, result.err)
    assert.equal("my notes", program.slurp(folder .. "/c.sqlite.damaged-wal"))
    assert.equal(changed(bytes, 100, ("\255"):rep(40)), program.slurp(folder .. "/c.sqlite.damaged-2"))
  end)

  it("with one lost byte in its header is still recognised", function()
    local bytes = make_cache()
    for _, at in ipairs { 0, 15, 91 } do
      program.write(folder .. "/c.sqlite", changed(bytes, at, "\255"))
      local result = run()
      assert.truthy(result.err == "" or result.err:find("is damaged", 1, true), result.err)
      assert.equal(0, result.code, result.err)
    end
  end)

  it("is no journal of a database, not even for a trusted script", function()
    local result = program.shell("sed s/c.sqlite/c.sqlite-wal/ s.lua > t.lua; tperf run --trust t.lua", folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("the cache 'c.sqlite-wal': ", 1, true), result.err)
    assert.is_nil(lfs.attributes(folder .. "/c.sqlite-wal"))
  end)
end)

-- Makes a database in this folder as a program leaves it that was stopped amid these changes, with its journal.
local function copy_amid_changes(bytes, changes, to)
  local path = program.temporary()
  program.write(path, bytes)
  local database <close> = assert(core.store.open(path, "write"))
  for _, sql in ipairs { "PRAGMA journal_mode = DELETE", "PRAGMA cache_size = 1", "BEGIN IMMEDIATE" } do
    assert(database:run(sql))
  end
  for _, sql in ipairs(changes) do assert(database:run(sql)) end
  program.write(to, program.slurp(path))
  program.write(to .. "-journal", program.slurp(path .. "-journal"))
  assert(program.slurp(to .. "-journal"):byte() ~= 0 and program.slurp(to) ~= bytes, "the journal is not hot")
end

-- Changes that fill more than SQLite keeps in memory.
local function filling(changes, into)
  for i = 1, 60 do changes[#changes + 1] = into:format(i, ("x"):rep(9000)) end
  return changes
end

describe("a journal beside a cache", function()
  local notes = core.store.empty(APPLICATION .. NOTES)
  local FILLED <const> = "INSERT INTO records VALUES (%d + 10, '%s')"
  local RECORD <const> = "INSERT INTO records VALUES (%d + 10, hex(randomblob(9)), 'q', 't', '%s', 'c')"

  local function ask(arguments)
    return program.shell(("timeout 30 %s sweep --db c.sqlite %s"):format(program.quote(program.absolute()), arguments),
      folder)
  end

  -- Nobody changes a byte of the file or of its journal, whoever asks.
  local function stays(message)
    local before = files_of(folder)
    for _, arguments in ipairs { "--check", "'SELECT * FROM records'" } do
      local result = ask(arguments)
      assert.equal(1, result.code, result.out)
      assert.same(before, files_of(folder))
    end
    local result = run()
    assert.equal(1, result.code)
    assert.truthy(result.err:find(message, 1, true), result.err)
    assert.same(before, files_of(folder))
  end

  it("of another program's database stays, as does the database", function()
    copy_amid_changes(notes, filling({}, FILLED), folder .. "/c.sqlite")
    stays "is there and is no cache of sweeps"
  end)

  it("that makes another program's database of what looks like a cache stays, too", function()
    local changes = { "DROP TABLE records" }
    make_cache()
    local database <close> = assert(core.store.open(folder .. "/c.sqlite", "read"))
    for _, row in ipairs(assert(database:run "SELECT sql FROM sqlite_schema WHERE name IN ('records', 'points')")) do
      changes[#changes + 1] = row.sql
    end
    database:close()
    os.remove(folder .. "/c.sqlite")
    filling(changes, RECORD)
    copy_amid_changes(notes, changes, folder .. "/c.sqlite")
    stays "is there and is no cache of sweeps"
  end)

  it("takes back what a stopped sweep wrote", function()
    local bytes = make_cache()
    copy_amid_changes(bytes, filling({ "DELETE FROM points" }, RECORD), folder .. "/c.sqlite")
    local before = files_of(folder)
    assert.equal(1, ask("--check").code)
    assert.same(before, files_of(folder))
    local result = run()
    assert.same({ "", 0 }, { result.err, result.code })
    assert.is_nil(lfs.attributes(folder .. "/c.sqlite-journal"))
    assert.equal("c.sqlite: 3 points, all as they were written\n", ask("--check").out)
  end)

  it("names no file that goes with it", function()
    copy_amid_changes(notes, filling({}, FILLED), folder .. "/c.sqlite")
    program.write(folder .. "/mine", "my notes")
    local name, sum = folder .. "/mine", 0
    for i = 1, #name do sum = sum + name:byte(i) end
    local journal = program.slurp(folder .. "/c.sqlite-journal")
    journal = journal .. ("\0"):rep(-#journal % 512) .. string.pack(">I4", (1 << 30) // 4096 + 1) .. name
      .. string.pack(">I4I4", #name, sum) .. "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    program.write(folder .. "/c.sqlite-journal", journal)
    local before = files_of(folder)
    assert.equal(1, run().code)
    ask "--check"
    ask "'SELECT * FROM records'"
    assert.same(before, files_of(folder))
  end)

  it("of an empty file, or that is a pipe, is neither opened nor removed", function()
    program.write(folder .. "/c.sqlite", "")
    program.write(folder .. "/c.sqlite-journal", "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" .. ("x"):rep(600))
    local before = files_of(folder)
    for _, arguments in ipairs { "--check", "'SELECT * FROM records'", "'SELECT 1'" } do
      ask(arguments)
      assert.same(before, files_of(folder), arguments)
    end
    assert.equal(1, run().code)
    assert.same(before, files_of(folder))
    os.remove(folder .. "/c.sqlite-journal")
    for _, bytes in ipairs { notes, logging(notes) } do
      for _, ending in ipairs { "-journal", "-wal", "-shm" } do
        program.write(folder .. "/c.sqlite", bytes)
        program.shell("mkfifo c.sqlite" .. ending, folder)
        for _, arguments in ipairs { "--check", "'SELECT * FROM records'" } do
          assert.is_true(ask(arguments).code < 124, ending .. arguments)
        end
        local exe = program.quote(program.absolute())
        assert.equal(1, program.shell(("timeout 30 %s run s.lua"):format(exe), folder).code)
        assert.equal("named pipe", lfs.attributes(folder .. "/c.sqlite" .. ending, "mode"))
        assert.equal(bytes, program.slurp(folder .. "/c.sqlite"))
        os.remove(folder .. "/c.sqlite" .. ending)
      end
    end
  end)
end)

describe("a folder that turns into a link", function()
  -- A place for the sweep, and one outside with a cache of the same name and what its writer has left there.
  local function prepare()
    program.shell("mkdir -p work/turns other", folder)
    program.write(folder .. "/work/s.lua", (SCRIPT:gsub("c.sqlite", "turns/c.sqlite")
      :gsub('io.stderr:write%("computed ", o.x, "\\n"%)', 'io.stderr:write "asked\\n" io.read()')))
    copy_amid_writing(make_cache(), "UPDATE points SET y = 7", folder .. "/other/c.sqlite")
    return files_of(folder .. "/other")
  end

  it("while a sweep computes leads it nowhere else", function()
    local outside = prepare()
    local result = program.shell([[cd work
      (i=0; while [ ! -s ../said ] && [ $i -lt 60000 ]; do i=$((i + 1)); sleep 0.01; done
      mv turns ../aside; ln -s ../other turns; echo; echo; echo) |
      tperf run s.lua 2> ../said]], folder)
    assert.equal(0, result.code, program.slurp(folder .. "/said"))
    assert.same(outside, files_of(folder .. "/other"))
    local rows = program.shell("tperf sweep --csv --db aside/c.sqlite 'SELECT y FROM points ORDER BY x'", folder)
    assert.equal("y\n2\n4\n6\n", rows.out, rows.err)
    assert.same({ "c.sqlite" }, (function()
      local names = {}
      for name in pairs(files_of(folder .. "/aside")) do names[#names + 1] = name end
      return names
    end)())
  end)

  it("again and again, while sweeps start and end, leads none of them elsewhere", function()
    local outside = prepare()
    program.shell([[cd work; mkdir turns 2> /dev/null
      (i=0; while [ ! -e ../done ] && [ $i -lt 20000 ]; do i=$((i + 1))
        mv turns aside; ln -s ../other turns; rm turns; mv aside turns; done) & swaps=$!
      for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf '\n\n\n' | tperf run s.lua; done
      touch ../done; wait $swaps]], folder)
    assert.same(outside, files_of(folder .. "/other"))
  end)
end)

describe("sweeps that start together", function()
  it("wait for each other", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      for i = 1, 20 do
        tperf.sweep { key = "k" .. i, cache = "c.sqlite", x = tperf.vary { 1, 2 }, run = function(o) return o.x end }
      end]])
    local result = program.shell("for i in 1 2 3 4; do tperf run s.lua & done; wait", folder)
    assert.same({ err = "", out = "", code = 0 }, result)
    local files = files_of(folder)
    assert.equal("\1\1", files["c.sqlite"]:sub(19, 20)) -- no longer logging
    files["c.sqlite"] = nil
    assert.same({}, files)
    assert.equal("n\n40\n", program.shell("tperf sweep --csv --db c.sqlite 'SELECT count(*) AS n FROM points'",
      folder).out)
  end)
end)

describe("a query", function()
  local function query(...)
    program.write(folder .. "/s.lua", 'local tperf = require "tperf"\n'
      .. "local rows = tperf.report.query('db', " .. table.concat({ ... }, ", ") .. ")\nprint(#rows)")
    return program.shell("tperf run s.lua", folder)
  end
  before_each(function()
    program.write(folder .. "/db", core.store.empty "CREATE TABLE points (x, y); INSERT INTO points VALUES (1, 2.5)")
  end)
  local function is_refused(message, ...)
    local result = query(...)
    assert.same({ "", 1 }, { result.out, result.code })
    assert.truthy(result.err:find(message, 1, true), result.err)
  end

  it("of a database that logs its changes makes no file beside it", function()
    program.write(folder .. "/db", logging(core.store.empty(NOTES)))
    local before = files_of(folder)
    assert.equal("note\na\n", program.shell("tperf sweep --csv --db db 'SELECT note FROM records'", folder).out)
    assert.same(before, files_of(folder))
  end)

  it("takes a misspelt column for no text", function()
    is_refused("no such column: nosuch", [['SELECT x FROM points WHERE "nosuch" = "nosuch"']])
    is_refused("no such column: z", [['SELECT x FROM points ORDER BY "z"']])
    assert.equal("1\n", query([['SELECT "x" FROM points WHERE "y" > 2']]).out)
  end)

  it("has a value for each place, and a place for each value", function()
    is_refused("the statement has 1 places for values ('?'), and 0 are given", "'SELECT ?'")
    is_refused("the statement has 1 places for values ('?'), and 2 are given", "'SELECT ?'", "1", "2")
    is_refused("the statement has 0 places for values ('?'), and 1 is given", "'SELECT 1'", "nil")
    is_refused("the statement has 3 places for values ('?'), and 2 are given", "'SELECT ?3, ?1'", "1", "2")
    is_refused("value 2 is not a number (nan)", "'SELECT ?, ?'", "1", "0 / 0")
    assert.equal("1\n", query("'SELECT ?'", "nil").out)
    assert.equal("1\n", query("'SELECT ?1 AS a, ?1 AS b'", "5").out)
  end)

  it("ends in seconds if its recursion never does", function()
    for _, union in ipairs { "UNION ALL SELECT x", "UNION SELECT x + 1" } do
      is_refused("its recursion does not end (100 million steps are the most; a LIMIT in it ends it)",
        ("'WITH RECURSIVE c (x) AS (SELECT 1 %s FROM c) SELECT count(*) FROM c'"):format(union))
    end
    assert.equal("1\n", query("'WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000) "
      .. "SELECT sum(x) FROM c'").out)
  end)

  it("sorts a million rows in little memory, all of which is charged", function()
    local rows = "WITH t (x) AS (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)), "
      .. "u (v) AS (SELECT a.x + b.x * 7 + c.x * 13 + d.x * 31 + e.x * 57 + f.x * 97 "
      .. "FROM t a, t b, t c, t d, t e, t f) "
      .. "SELECT max(r) AS n FROM (SELECT row_number() OVER (ORDER BY v) AS r FROM u)"
    program.write(folder .. "/s.lua", ("print(require('tperf').report.query('db', '%s')[1].n)"):format(rows))
    local result = program.shell("tperf run --max-memory 24MB s.lua", folder)
    assert.same({ "1000000\n", "" }, { result.out, result.err })
    assert.truthy(program.shell("tperf run --max-memory 6MB s.lua", folder).err:find("not enough memory", 1, true))
  end)

  it("is charged for its steps, as it takes time", function()
    local pairs_of = "'WITH t (x) AS (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) "
      .. "SELECT count(*) FROM t, t b, t c, t d, t e, t f'" -- a million combinations, each some steps
    program.write(folder .. "/s.lua", "require('tperf').report.query('db', " .. pairs_of .. ")")
    local result = program.shell("tperf run --max-instructions 2e7 s.lua", folder)
    assert.truthy(result.err:find("more than 20000000 instructions", 1, true), result.err)
    assert.equal(0, program.shell("tperf run --max-instructions 2e8 s.lua", folder).code)
  end)
end)
