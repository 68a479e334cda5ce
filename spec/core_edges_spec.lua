-- Corner cases of the core's bindings that the library never reaches.
local core = require "tperf.core"
local program = require "program"

local codec = core.codec

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return tostring(message)
end

describe("a grid", function()
  local function row(more)
    local r = { name = "a", cuts = 2, folds = 0, apart = 0 }
    for name, value in pairs(more) do r[name] = value end
    return r
  end
  local BATCH <const>, EXPERTS <const>, STATE <const>, REPLICAS <const> = 4, 2, 16, 1

  for what, case in pairs {
    ["an axis without a name"] = { { row { name = "" } }, "must have 1 to" },
    ["a long name"] = { { row { name = ("a"):rep(99) } }, "must have 1 to" },
    ["an unknown cut"] = { { row { cuts = 32 } }, "out of bounds" },
    ["a negative cut"] = { { row { cuts = -1 } }, "out of bounds" },
    ["a fold over axes out of bounds"] = { { row { folds = 1 << 40 } }, "out of bounds" },
    ["a negative fold"] = { { row { folds = -1 } }, "out of bounds" },
    ["a fraction of bytes above 1"] = { { row { apart = 1.5 } }, "out of bounds" },
    ["a negative fraction of bytes"] = { { row { apart = -1 } }, "out of bounds" },
    ["two axes with one name"] = { { row {}, row {} }, "two axes are called 'a'" },
    ["a fold over stages"] = { { row { folds = 2 } }, "but for pp" },
    ["a fold over a folded axis"] = { { row { folds = REPLICAS }, row { name = "b", folds = 4 } }, "but for pp" },
    ["state cut twice"] = { { row { cuts = STATE, folds = REPLICAS },
      row { name = "b", cuts = STATE, folds = REPLICAS } },
      "both shard the state" },
    ["state without a fold"] = { { row { cuts = STATE } }, "so it folds over replicas" },
    ["experts cut over different axes"] = { { row { name = "t", cuts = BATCH }, row { folds = REPLICAS },
      row { name = "b", folds = REPLICAS | 4 } }, "must fold over the same axes" },
    ["a batch cut by folding"] = { { row { cuts = BATCH, folds = REPLICAS } }, "experts or state alone" },
  } do
    it("refuses " .. what, function()
      local message = message_of(core.grid, case[1])
      assert.truthy(message:find(case[2], 1, true), message)
    end)
  end

  it("counts GPUs to 2^31 and no further", function()
    local grid = core.grid { row { cuts = BATCH }, row { name = "b", cuts = EXPERTS, folds = REPLICAS } }
    assert.equal(8, grid:gpus { 8, 4 })
    assert.equal(8, grid:batch { 8, 4 })
    local two = core.grid { row { cuts = BATCH }, row { name = "b", cuts = BATCH } }
    assert.equal(1 << 31, two:gpus { 1 << 16, 1 << 15 })
    assert.is_nil(two:gpus { 1 << 16, 1 << 16 })
    assert.equal(1 << 31, two:batch { 1 << 16, 1 << 16 }) -- the most allowed
    assert.is_true(grid:folds({ 8, 4 }, 4))
    assert.is_false(grid:folds({ 8, 3 }, 4))
    assert.is_false(grid:folds({ 1 << 16, 1 }, 1 << 16))
    local both = core.grid { row { folds = REPLICAS }, row { name = "b", cuts = STATE, folds = REPLICAS } }
    assert.is_true(both:folds({ 4, 2 }, 8))
    assert.is_false(both:folds({ 1 << 16, 1 << 16 }, 1 << 16))
  end)

  it("refuses invalid sizes and placements", function()
    local grid = core.grid { row { cuts = BATCH } }
    assert.truthy(message_of(grid.gpus, grid, { 2, 2 }):find "1 sizes are needed, got 2")
    for _, size in ipairs { 0, -1, 0.5, (1 << 31) + 1, "x" } do
      assert.truthy(message_of(grid.gpus, grid, { size }):find "a size must be an integer from 1")
    end
    for _, replicas in ipairs { 0, (1 << 31) + 1 } do
      assert.truthy(message_of(grid.folds, grid, { 2 }, replicas):find "replicas must be from 1")
    end
    assert.same({ 2, 1, 3 }, grid:fold({ 4 }, { 2, 1, 3 }))
    assert.truthy(message_of(grid.fold, grid, { 4 }, { 2, 1 }):find "a placement of 3 axes, not 2")
    assert.truthy(message_of(grid.fold, grid, { 4 }, { 1 << 16, 1, 1 << 16 }):find "more than 2^31 GPUs")
  end)
end)

describe("the codec", function()
  it("keeps keys of every type, in a fixed order", function()
    local value = { [true] = 1, [false] = 2, [1.5] = 3, [-1] = 4, [1] = 5, x = 6, y = {} }
    local bytes = codec.encode(value)
    assert.same(value, codec.decode(bytes))
    local other = { y = {}, x = 6, [1] = 5, [-1] = 4, [1.5] = 3, [false] = 2, [true] = 1 }
    assert.equal(bytes, codec.encode(other))
    local holes = { 1, 2, nil, 4, n = 4 }
    assert.same(holes, codec.decode(codec.encode(holes)))
    assert.same({ a = {} }, codec.decode(codec.encode { a = {} }))
    local texts = {}
    for i = 1, 2000 do texts[i] = "a text of some length, the " .. i end
    assert.same(texts, codec.decode(codec.encode(texts)))
  end)

  it("tells tables apart by their contents, including keys that are objects", function()
    local a, b = {}, {}
    assert.equal(codec.identity { [a] = 1, [print] = 2 }, codec.identity { [print] = 2, [a] = 1 })
    assert.not_equal(codec.identity { [a] = 1 }, codec.identity { [b] = 1, c = 2 })
  end)

  it("refuses tables that lie too deep, or within themselves", function()
    local function nested(depth)
      local t = {}
      for _ = 2, depth do t = { t } end
      return t
    end
    assert.same(nested(32), codec.decode(codec.encode(nested(32))))
    local ring = {}
    ring.inner = { ring }
    for _, value in ipairs { nested(33), ring } do
      assert.truthy(message_of(codec.encode, value):find("a table that lies too deep, or within itself", 1, true))
    end
    assert.is_string(codec.identity(ring))
  end)

  it("reads nil", function() assert.is_nil(codec.decode "N") end)

  local names = { [print] = "print" }
  local values = { print = print, point = { __name = "point" }, number = 7 }
  it("restores named values, and no others", function()
    assert.equal(print, codec.decode(codec.encode(print, names), values))
    local point = codec.decode("os\5pointt\1s\1xi\4", values)
    assert.equal(values.point, getmetatable(point))
    assert.equal(2, point.x)
  end)

  for what, bytes in pairs {
    ["an unknown letter"] = "z", ["an early end"] = "", ["trailing bytes"] = "NN", ["an endless number"] =
      "i" .. ("\255"):rep(12), ["an unknown name"] = "ks\4oops", ["a name that is a number"] = "ki\2",
    ["a metatable that is a number"] = "os\6numbert\0", ["an object that is a number"] = "os\5pointi\2",
    ["a key that is nil"] = "t\1NN", ["a key that is not a number"] = "t\1d\0\0\0\0\0\0\248\127N",
    ["a missing text"] = "r\5", ["a list nested too deeply"] = ("l\1"):rep(40) .. "N",
  } do
    it("refuses " .. what, function()
      assert.equal("not an encoded value", message_of(codec.decode, bytes, values))
    end)
  end
end)

describe("fields as text", function()
  local words, names = core.resource.words, { "a", "b", "c" }

  it("differs for different values, of whatever kind and length", function()
    local seen, count = {}, 0
    local function try(text, flag, number)
      local is = words({ a = text, b = flag, c = number }, names)
      assert.equal(is, words({ a = text, b = flag, c = number }, names))
      assert.is_nil(seen[is])
      seen[is], count = true, count + 1
    end
    for length = 1005, 1025 do -- around the end of a buffer
      for _, flag in ipairs { true, false } do
        for _, number in ipairs { 1, 1.0, 1.5 } do try(("x"):rep(length), flag, number) end
      end
    end
    try("1", nil, 1)
    try(1, nil, "1")
    assert.equal(128, count)
  end)

  it("are numbers, strings, booleans and tables of these, of 200 names at most", function()
    assert.is_nil(words({ a = setmetatable({}, {}) }, names))
    assert.is_nil(words({ a = { print } }, names))
    assert.equal(words({ a = { b = { 1 } } }, names), words({ a = { b = { 1 } } }, names))
    local values, seen, count = { {}, { 1 }, { "1" }, { b = 1 }, { { 1 } }, { 1, 1 }, "", "{" }, {}, 0
    for _, value in ipairs(values) do seen[words({ a = value }, names)] = true end
    seen[words({ b = {} }, names)] = true
    for _ in pairs(seen) do count = count + 1 end
    assert.equal(#values + 1, count)
    assert.is_nil(words({ c = print }, names))
    local many = {}
    for i = 1, 200 do many[i] = "a" end
    assert.is_string(words({ a = 1 }, many))
    many[201] = "a"
    assert.truthy(message_of(words, { a = 1 }, many):find("too many names", 1, true))
  end)
end)

describe("layers assigned to stages", function()
  local RUNS <const> = { { 1, 4 } }
  local function pipelines(layers, more)
    local one = { pp = 2, virtual_stages = 1, schedule = 1, bubble_forward = 1, bubble_backward = 1,
      bubble_weight_grad = 0, split = 0, split_each = 0, pairs = 0, pairs_each = 0, ways = 0,
      min_microbatches = 1, microbatch_multiple = 1,
      weight_copies = 1, last_in_flight = 1, bounds = false, open = false, placed = true, folded = false,
      in_flight = { 2, 1 }, layers = layers }
    for name, value in pairs(more or {}) do one[name] = value end
    return core.pipelines(RUNS, true, { one })
  end

  it("are one number per stage, and add up to the model's", function()
    assert.is_userdata(pipelines { 3, 1 })
    assert.is_userdata(pipelines { 0, 4 })
    for message, layers in pairs {
      ["'layers' needs 2 numbers"] = { 4 }, ["no stage has %-1 layers"] = { 5, -1 },
      ["the pipeline's stages have 5 layers, the model 4"] = { 3, 2 }, ["no stage has %d+ layers"] = { 1 << 40, 1 },
    } do
      local text = message_of(pipelines, layers)
      assert.truthy(text:find(message), text)
    end
    local text = message_of(pipelines, { 2, 0, 2 }, { pp = 3, in_flight = { 3, 2, 1 } })
    assert.truthy(text:find "pipeline stage 2 of 3 has no layer", text)
  end)
end)

describe("a single process", function()
  it("receives nothing, and sleeps as long as asked", function()
    if core.ranks.built then return end
    assert.is_nil(core.ranks.receive())
    assert.is_true(core.ranks.share() >= 1)
    core.ranks.rest(1e-6)
    for _, seconds in ipairs { 1, 0, -1 } do
      assert.truthy(message_of(core.ranks.rest, seconds):find "below a second")
    end
    assert.truthy(message_of(core.ranks.send, -1, "x"):find "no such rank")
    assert.truthy(message_of(core.ranks.send, 1, "x"):find "no such rank")
    assert.truthy(message_of(core.ranks.send, 0, ""):find "an empty message")
  end)
end)

describe("a database", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  local function made(sql)
    local path = folder .. "/db"
    program.write(path, assert(core.store.empty(sql or "CREATE TABLE t (x, y)")))
    return path
  end

  it("stores and returns nil, and accepts blanks and comments", function()
    local db <close> = assert(core.store.open(made(), "write"))
    assert(db:run("INSERT INTO t VALUES (?, ?)", nil, ""))
    assert(db:run("INSERT INTO t VALUES (?, ?)", true, nil))
    assert.same({ { y = "" }, { x = 1 } }, (db:run "SELECT x, y FROM t"))
    assert.same({}, (assert(db:run "-- nothing")))
    assert.truthy(message_of(db.run, db, "SELECT 1\0"):find "no statement of SQL")
    local _, message = db:run "SELECT"
    assert.equal("incomplete input", message)
  end)

  it("caches statements up to the limit", function()
    local db <close> = assert(core.store.open(made(), "read"))
    for round = 1, 2 do
      for i = 1, 20 do assert.same({ { n = i } }, (db:run(("SELECT %d AS n"):format(i))), round) end
    end
  end)

  it("refuses use once closed", function()
    local db = assert(core.store.open(made(), "read"))
    db:close()
    db:close()
    assert.truthy(message_of(db.run, db, "SELECT 1"):find "it is closed")
  end)

  it("cannot be written if opened for reading, nor opened if missing", function()
    local db <close> = assert(core.store.open(made(), "read"))
    local rows, message = db:run "INSERT INTO t VALUES (1, 2)"
    assert.is_nil(rows)
    assert.equal("attempt to write a readonly database", message)
    local none, problem = core.store.open(folder .. "/none", "read")
    assert.is_nil(none)
    assert.truthy(problem:find "unable to open")
    local text = folder .. "/text"
    program.write(text, ("no database"):rep(100))
    local bad, why, reason = core.store.open(text, "query")
    local rows_of_text, second, third
    if bad then rows_of_text, second, third = bad:run "SELECT * FROM t" end
    assert.is_nil(rows_of_text)
    assert.equal("damaged", bad and third or reason, bad and second or why)
  end)

  it("may have any name", function()
    local path = folder .. "/100%?#a b.db"
    program.write(path, assert(core.store.empty "CREATE TABLE t (x)"))
    local db <close> = assert(core.store.open(path, "query"))
    assert.same({}, (db:run "SELECT * FROM t"))
    local long, message = core.store.open("/" .. ("%"):rep(9000), "query")
    assert.is_nil(long)
    assert.truthy(message:find "File name too long", message)
  end)

  it("refuses invalid SQL, and databases that are too large", function()
    local bytes, message = core.store.empty "CREATE TABLE"
    assert.is_nil(bytes)
    assert.equal("SQL logic error", message)
    bytes, message = core.store.empty "CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))"
    assert.is_nil(bytes)
    assert.equal("string or blob too big", message)
  end)

  it("is set aside under a free name, with its journal files", function()
    local path = made()
    local place <close> = assert(core.file.keep(path, ""))
    program.write(path .. ".damaged", "")
    program.write(path .. "-wal", "w")
    assert.equal("db.damaged-2", place:set_aside())
    assert.equal("w", program.slurp(path .. ".damaged-2-wal"))
    local name, message = place:set_aside()
    assert.is_nil(name)
    assert.truthy(message:find "No such file")
  end)

  it("has at most one writer", function()
    local place <close> = assert(core.file.keep(made(), ""))
    assert.is_nil(place:writer())
  end)
end)

describe("core.file", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  local function message(...) return (select(2, ...)) end

  it("writes files, and reports why it cannot", function()
    assert.is_true(core.file.write(folder .. "/x", "1"))
    assert.equal("1", program.slurp(folder .. "/x"))
    for path, why in pairs {
      ["/"] = "Is a directory", [folder] = "Is a directory", [folder .. "/nosuch/x"] = "make the folder first",
      [folder .. "/x/y"] = "Not a directory", ["/" .. ("x"):rep(5000)] = "File name too long",
    } do
      assert.truthy(message(core.file.write(path, "2")):find(why, 1, true), path)
      assert.truthy(message(core.file.writable(path)):find(why, 1, true), path)
    end
    assert.is_true(core.file.writable(folder .. "/x"))
    local memory <close> = io.open "/dev/shm" -- a folder like others
    if memory then assert.is_true(core.file.writable "/dev/shm/x.svg") end
    assert.is_true(core.file.writable "/dev/null")
    assert.is_true(core.file.writable "/dev/fd/1")
    assert.is_nil((core.file.writable "/dev/fd/900"))
    assert.equal("1", program.slurp(folder .. "/x"))
  end)

  it("writes to descriptors by their names", function()
    program.write(folder .. "/s.lua", [[
      local file = require "tperf.core".file
      assert(file.write("/dev/stderr", "to stderr\n"))
      assert(file.write("/dev/fd/2", "to 2\n"))
      assert(file.write("/dev/stdout", "to stdout\n"))
    ]])
    local result = program.shell("tperf run --trust s.lua", folder)
    assert.same({ "to stdout\n", "to stderr\nto 2\n", 0 }, { result.out, result.err, result.code })
  end)

  it("distinguishes regular files from others", function()
    program.write(folder .. "/x", "")
    assert.is_true(core.file.is_regular(folder .. "/x"))
    assert.is_false(core.file.is_regular(folder .. "/x\0"))
    assert.is_false(core.file.is_regular(folder))
    assert.is_false(core.file.is_regular(folder .. "/none"))
    assert.equal(folder .. "/x", (core.file.real(folder .. "/./x")))
    assert.truthy(message(core.file.real(folder)):find "Is a directory")
    assert.truthy(message(core.file.real(folder .. "/none")):find "No such file")
  end)

  it("creates databases in existing folders", function()
    local bytes = core.store.empty "CREATE TABLE t (x)"
    for _ = 1, 2 do -- made, then kept as it is
      local place <close> = assert(core.file.keep(folder .. "/db", bytes))
      assert.is_nil(place:writer())
      assert.equal(bytes, program.slurp(folder .. "/db"))
    end
    assert.truthy(message(core.file.keep(folder .. "/nosuch/db", bytes)):find "make the folder first")
    assert.truthy(message(core.file.keep("/", bytes)):find "Is a directory")
  end)
end)
