local cases = require "cases"
local tperf = require "tperf"
local core = require "tperf.core"
local codec = core.codec
local program = require "program"
local shim = require "shim"

local A100, B200, GPT = "subramanian2024/A100", "subramanian2024/B200", "subramanian2024/gpt3"

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

local function refuses(pattern, given)
  local message = message_of(tperf.sweep, given)
  assert.truthy(message:find(pattern, 1, true), message)
  assert.truthy(message:find("^spec/sweep_spec.lua:%d+: "), message)
end

local function values_of(rows, ...)
  local list = {}
  for i, row in ipairs(rows) do
    list[i] = {}
    for k, name in ipairs { ... } do list[i][k] = row[name] end
  end
  return list
end

-- Runs nothing: returns its arguments.
local function echo(args) return { asked = args } end

describe("sweeps", function()
  it("go through a grid in the order in which it is written", function()
    local rows = tperf.sweep { run = echo, b = tperf.vary { 1, 2 }, a = tperf.vary { "x", "y", "z" }, fixed = 7 }
    assert.same({ { 1, "x" }, { 1, "y" }, { 1, "z" }, { 2, "x" }, { 2, "y" }, { 2, "z" } }, values_of(rows, "b", "a"))
    assert.same({ a = "z", b = 2, fixed = 7 }, rows[6].asked)
  end)

  it("zip, list and combine points", function()
    local rows = tperf.sweep {
      run = echo, tperf.zip { a = { 1, 2, 3 }, ["t.x"] = tperf.linspace(0, 1, 3) }, { { c = 5 }, { c = 6, d = 1 } },
      tperf.grid { e = { true, false }, f = { 1 } },
    }
    assert.equal(12, #rows)
    -- A plain list is outermost: unlike a variation of tperf.vary, it has no order of creation.
    assert.same({ a = 3, t = { x = 1 }, c = 6, d = 1, e = false, f = 1 }, rows[12].asked)
    assert.same({ 5, 1, 0, true }, values_of(rows, "c", "a", "x", "e")[1])
    assert.same({ 5, 1, 0, false }, values_of(rows, "c", "a", "x", "e")[2])
    assert.same({ 5, 2, 0.5, true }, values_of(rows, "c", "a", "x", "e")[3])
  end)

  it("space values evenly, or by a factor", function()
    assert.same({ 80e9, 80e9 + 920e9 / 4, 80e9 + 920e9 / 2, 80e9 + 920e9 * 0.75, 1000e9 },
      tperf.linspace(80e9, 1000e9, 5).values)
    local values = tperf.logspace(1, 1024, 11).values
    for i = 1, 11 do assert.near(2 ^ (i - 1), values[i], 1e-12 * values[i]) end
    assert.equal(1024, values[11])
  end)

  it("name columns by the fewest last parts that tell paths apart, or by the given name", function()
    local rows = tperf.sweep {
      run = echo, ["s.fast.bandwidth"] = tperf.vary { 1 }, ["s.slow.bandwidth"] = tperf.vary { 2 },
      ["s.fast.domain"] = tperf.vary { 3 }, ["s.fast.latency"] = tperf.vary { 4, as = "delay" },
    }
    local row = rows[1]
    assert.same({ 1, 2, 3, 4 }, { row["fast.bandwidth"], row["slow.bandwidth"], row.domain, row.delay })
  end)

  it("find variations inside tables of arguments", function()
    local rows = tperf.sweep { run = echo, fast = { tp = tperf.vary { 1, 2 }, dp = 4 } }
    assert.same({ fast = { tp = 2, dp = 4 } }, rows[2].asked)
    assert.equal(2, rows[2].tp)
  end)

  it("match a search of each point", function()
    local rows = tperf.sweep {
      model = GPT, global_batch = 512, strategy = { "tensor", "context" }, top = 2,
      system = tperf.vary { A100, B200 }, ["system.network.fast.domain"] = tperf.vary { 4, 64 },
      ["system.accelerator.hbm.capacity"] = tperf.vary { 40e9, 80e9 },
      gpus = tperf.vary(cases({ 2, 64 }, { 2, 64, 512 })),
    }
    assert.equal(cases(16, 24), #rows)
    for _, row in ipairs(rows) do
      local found = tperf.search {
        model = GPT, global_batch = 512, strategy = { "tensor", "context" }, top = 2, gpus = row.gpus,
        system = tperf.system(row.system):with {
          network = { fast = { domain = row.domain } }, accelerator = { hbm = { capacity = row.capacity } },
        },
      }
      assert.equal(#found, #row.result)
      assert.same({ found.candidates, found.feasible }, { row.candidates, row.fitting })
      -- A single question gets advice too.
      if found.reason then assert.equal(row.reason, found.reason:sub(1, #row.reason)) end
      assert.equal(found.reason == nil, row.reason == nil)
      for i, c in ipairs(found) do assert.same(c, row.result[i]) end
      assert.equal(found[1] and found[1].time, row.time)
      assert.equal(found[1] ~= nil, row.feasible)
    end
  end)

  it("keep apart points that differ in anything except gpus and system", function()
    local rows = tperf.sweep {
      model = GPT, system = B200, gpus = tperf.vary { 64, 128 }, global_batch = tperf.vary { 128, 256 },
      rules = tperf.vary { "default", "subramanian2024" },
    }
    for _, row in ipairs(rows) do
      local found = tperf.search {
        model = GPT, system = B200, gpus = row.gpus, global_batch = row.global_batch, rules = row.rules,
      }
      assert.same(found[1], row.result[1])
    end
  end)

  it("run other questions", function()
    local rows = tperf.sweep {
      run = tperf.collective, system = A100, kind = tperf.vary { "all_gather", "all_reduce" }, bytes = 1e9,
      gpus = tperf.vary { 4, 64 },
    }
    for _, row in ipairs(rows) do
      assert.equal(tperf.collective { system = A100, kind = row.kind, bytes = 1e9, gpus = row.gpus }, row.time)
    end
    local trained = tperf.sweep {
      run = tperf.train, model = GPT, system = B200, global_batch = 64, tp = tperf.vary { 4, 8 }, pp = 4, dp = 2,
      ["rules.norm_2d_splits_hidden"] = tperf.vary { true, false },
    }
    assert.equal(4, #trained)
    assert.equal(tperf.train { model = GPT, system = B200, global_batch = 64, tp = 8, pp = 4, dp = 2 }.time,
      trained[3].time)
  end)

  it("report errors at the script's line", function()
    refuses("needs a table of arguments", 7)
    refuses("unknown field 'gpu' (did you mean 'gpus'?)",
      { model = GPT, system = A100, global_batch = 8, gpu = tperf.vary { 8 } })
    refuses("unknown field 'network.fast.domian' (did you mean 'domain'?)",
      { model = GPT, gpus = 8, global_batch = 8, system = A100, ["system.network.fast.domian"] = tperf.vary { 4 } })
    refuses("'s..x' is no path", { run = echo, ["s..x"] = tperf.vary { 1 } })
    refuses("'a' is varied twice", { run = echo, a = tperf.vary { 1 }, tperf.grid { a = { 2 } } })
    refuses("'a' is 5 and has no fields", { run = echo, a = 5, ["a.b"] = tperf.vary { 1 } })
    refuses("varies an item of a list", { run = echo, a = { tperf.vary { 1 } } })
    refuses("gpus and system are one each", { model = GPT, system = A100, global_batch = 8, gpus = { 4, 8 } })
    refuses("are both called 'x'", { run = echo, a = tperf.vary { 1, as = "x" }, b = tperf.vary { 1, as = "x" } })
    refuses("'run' must be a function", { run = "search" })
    refuses("there is a gap before [3]", { run = echo, { { a = 1 } }, [3] = { { a = 1 } } })
    assert.truthy(message_of(tperf.zip, { a = { 1, 2 }, b = { 1 } }):find "'a' has 2 values, 'b' 1")
    assert.truthy(message_of(tperf.vary, {}):find "of a length from 1 to")
    assert.truthy(message_of(tperf.vary, 5):find "needs a list of values, got 5")
    assert.truthy(message_of(tperf.linspace, 1, 0 / 0, 4):find "must be a finite number, got nan")
    assert.truthy(message_of(tperf.linspace, 1, 2, 1):find "must be an integer from 2 to 16777216, got 1")
    assert.truthy(message_of(tperf.logspace, 0, 2, 3):find "must be above 0")
    local many = tperf.linspace(0, 1, 1 << 13)
    refuses("more than", { run = echo, a = many, b = tperf.linspace(0, 1, 1 << 13) })
  end)
end)

describe("a sweep that hands out its rows", function()
  local sweep, vary = tperf.sweep, tperf.vary

  it("gives them in the order of the points, and returns none", function()
    local seen = {}
    local rows = sweep { run = function(a) return { time = 10 * a.gpus } end, gpus = vary { 3, 1, 2 },
      each = function(row) seen[#seen + 1] = ("%d %d"):format(row.gpus, row.time) end }
    assert.equal("3 30,1 10,2 20", table.concat(seen, ","))
    assert.equal(0, #rows)
  end)

  it("hands out searches and refused points as a sweep without `each` returns them", function()
    local question = { model = "gpt2", system = "h100-sxm", global_batch = 16, gpus = vary { 4, 7, 8, 2 },
      tp = vary { 1, 2 } }
    local kept, handed = sweep(question), {}
    question.each = function(row) handed[#handed + 1] = row end
    sweep(question)
    assert.equal(8, #handed)
    for i, row in ipairs(kept) do
      assert.same({ row.gpus, row.tp, row.time, row.feasible, row.reason },
        { handed[i].gpus, handed[i].tp, handed[i].time, handed[i].feasible, handed[i].reason })
    end
  end)

  it("keeps no row", function()
    collectgarbage()
    local most, count, before = 0, 0, collectgarbage "count"
    sweep { run = function() return { text = ("x"):rep(1 << 17) .. math.random() } end, x = tperf.linspace(1, 2, 250),
      progress = false, each = function()
        count = count + 1
        if count % 50 == 0 then collectgarbage() end
        most = count % 50 == 0 and math.max(most, collectgarbage "count") or most
      end }
    assert.is_true(most > 0 and most - before < 4 * 1024, most - before) -- KiB; all rows would be 32 MiB
  end)

  it("raises the function's error, and refuses anything else", function()
    local function raises() error("full", 0) end
    assert.equal("full", message_of(sweep, { run = function() return 1 end, x = vary { 1 }, each = raises }))
    assert.truthy(message_of(sweep, { run = function() return 1 end, x = vary { 1 }, each = 3 })
      :find("'each' must be a function, got 3", 1, true))
    assert.truthy(message_of(sweep, { run = tperf.train, model = "gpt2", system = "h100-sxm", global_batch = 16,
      tp = vary { 7, 5 }, each = function() end }):find "none of 2 points is possible; the first: tp = 7 does not")
  end)
end)

describe("the codec", function()
  it("restores every value exactly", function()
    local value = { 1, 1.0, -0.0, 1 / 0, 0x1p-1074, "a\0b", true, false, { x = { [2.5] = "y" } },
      [-1] = math.mininteger }
    local back = codec.decode(codec.encode(value))
    assert.same(value, back)
    assert.equal("integer", math.type(back[1]))
    assert.equal("float", math.type(back[2]))
    assert.equal(-1 / 0, 1 / back[3])
  end)

  it("refuses values it cannot encode, and foreign bytes", function()
    assert.equal("'a.b' is a function", message_of(codec.encode, { a = { b = print } }))
    local loop = {}
    loop.loop = loop
    assert.truthy(message_of(codec.encode, loop):find "lies too deep")
    local bytes = codec.encode { a = 1, b = "xyz" }
    for i = 0, #bytes - 1 do assert.is_false((pcall(codec.decode, bytes:sub(1, i)))) end
    -- a list of 2^28 items in five bytes; an object without names
    assert.equal("not an encoded value", message_of(codec.decode, "l\255\255\255\127N"))
    assert.equal("not an encoded value", message_of(codec.decode, "os\1xt\0"))
  end)

  it("gives equal values equal bytes, and writes a text once", function()
    local one, other = { b = 1, a = { 1, 2 }, [3] = true }, { [3] = true }
    other.a, other.b = { 1, 2 }, 1
    assert.equal(codec.encode(one), codec.encode(other))
    local text = ("x"):rep(1000)
    assert.is_true(#codec.encode { text, text, text } < 1020)
  end)

  it("names objects by their metatables, and values by their own names", function()
    local class, shared = {}, { 1, 2 }
    local bytes = codec.encode({ o = setmetatable({ x = 1 }, class), f = print, s = shared },
      { [class] = "class", [print] = "print", [shared] = "shared" })
    local back = codec.decode(bytes, { class = class, print = print, shared = shared })
    assert.equal(class, getmetatable(back.o))
    assert.equal(1, back.o.x)
    assert.equal(print, back.f)
    assert.equal(shared, back.s)
    assert.equal("'o' is a table", message_of(codec.encode, { o = setmetatable({}, {}) }, {}))
  end)

  it("packs rows by columns, and gives back every value exactly", function()
    local rows = {
      { time = 1.5, n = 1, zero = 0.0, whole = 1, name = "a", same = "s", feasible = true, memory = { total = 2.0 } },
      { time = 0 / 0, n = 2, zero = -0.0, whole = 1.0, name = "b", same = "s", reason = "none" },
      { time = -1 / 0, n = math.mininteger, zero = 0.0, whole = 1, name = "a", same = "s", feasible = false },
    }
    local bytes, waits = codec.pack(rows), {}
    local back = codec.rows(bytes, waits)
    assert.same({ 3, nil, waits }, { #back, next(back[2]), getmetatable(back[2]) })
    codec.fill(back, bytes)
    for i, row in ipairs(rows) do assert.equal(codec.encode(row), codec.encode(back[i])) end
    assert.is_nil(getmetatable(back[2]))
    for _, few in ipairs { {}, { {}, {} } } do
      back = codec.rows(codec.pack(few), waits)
      codec.fill(back, codec.pack(few))
      assert.same(few, back)
    end
  end)

  it("refuses rows that it cannot pack, and foreign bytes", function()
    assert.truthy(message_of(codec.pack, { 1 }):find "not a list of rows")
    assert.truthy(message_of(codec.pack, { { 1 } }):find "a field without a name")
    assert.equal("'' is a function", message_of(codec.pack, { { f = print } }))
    local bytes = codec.pack { { a = 1.5, b = "x", c = 1 }, { a = 2.5, b = "x", c = 2 } }
    local function read(text) codec.fill(codec.rows(text, {}), text) end
    for i = 0, #bytes - 1 do assert.equal("not an encoded value", message_of(read, bytes:sub(1, i)), i) end
    -- left-over bytes, too many rows, too many columns, a key that is no text, an unknown letter
    for _, text in ipairs { bytes .. "N", "\255\255\127\0", "\1\9", "\1\1i\2=T", "\1\1s\1az" } do
      assert.equal("not an encoded value", message_of(read, text), text)
    end
    assert.truthy(message_of(codec.fill, { {} }, bytes):find "not as many rows")
    assert.truthy(message_of(codec.fill, { {}, 1 }, bytes):find "not a list of rows")
  end)
end)

-- A shell command that succeeds once 'points.db' holds one.
local SOME_POINTS <const> =
  [[test -s points.db-wal && tperf sweep --db points.db --csv 'SELECT count(*) > 0 AS some FROM points' 2> /dev/null |
    grep -q 1]]
local SCRIPT = [[
local tperf = require "tperf"
local rows = tperf.sweep {
  model = "subramanian2024/gpt3", system = "subramanian2024/B200", global_batch = 256, strategy = "tensor",
  cache = "points.db", gpus = tperf.vary { 64, 128, 512 }, %s
  ["system.accelerator.hbm.capacity"] = tperf.linspace(20e9, 200e9, %d),
}
tperf.report.save("rows.csv", rows, { "capacity", "gpus", "strategy", "time", "memory.total", "candidates", "reason" })
]]

-- 1,200 points, of which six are one search: many times as long as it takes to look for the first of them.
local LONG
do
  local batches = {}
  for i = 1, 200 do batches[i] = 512 * i end
  LONG = SCRIPT:format(('strategy = "all", prune = false, threads = 1, global_batch = tperf.vary { %s },'):format(
    table.concat(batches, ", ")), 2)
end

-- The points of a cache, by their keys: question, answer and columns.
local function contents_of(path)
  local database <close> = assert(core.store.open(path, "read"))
  local points = {}
  for _, row in ipairs(assert(database:run "SELECT * FROM records JOIN points USING (id)")) do
    points[row.key], row.id = row, nil
  end
  return points
end

local function count_of(points)
  local count = 0
  for _ in pairs(points) do count = count + 1 end
  return count
end

describe("a sweep's cache", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  local function run(count, extra)
    program.write(folder .. "/s.lua", SCRIPT:format(extra or "", count))
    local result = program.shell("tperf run s.lua", folder)
    assert.same({ "", 0 }, { result.out, result.code }, result.err)
    return program.slurp(folder .. "/rows.csv"), contents_of(folder .. "/points.db"), result.err
  end

  it("resumes from finished points, and computes nothing twice", function()
    local all = cases('schedule = "1f1b",', 'strategy = "all",')
    local rows, points = run(4, all)
    assert.equal(12, count_of(points))
    local file = program.slurp(folder .. "/points.db")
    assert.is_true((run(4, all)) == rows)
    assert.is_true(program.slurp(folder .. "/points.db") == file)
    local _, more = run(7, all) -- linspace(20, 200, 4) lies within
    assert.equal(21, count_of(more))
    for key, point in pairs(points) do assert.same(point, more[key]) end
    os.remove(folder .. "/points.db")
    assert.is_true((run(4, all)) == rows)
  end)

  it("is a single SQLite file that other tools can query", function()
    local rows = run(3)
    for _, ending in ipairs { "-wal", "-shm", "-journal" } do assert.is_nil(io.open(folder .. "/points.db"
      .. ending)) end
    local result = program.shell([[tperf sweep --csv --db points.db 'SELECT capacity, gpus, CASE WHEN feasible
      THEN strategy END AS strategy, time, "memory.total", candidates, reason FROM points
      ORDER BY gpus, capacity']], folder)
    assert.equal(rows, result.out, result.err)
    assert.truthy(program.shell("tperf sweep --db points.db --check", folder).out:find("points.db: 9 points", 1, true))
  end)

  it("has a column for every figure of a row, whatever its name", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      tperf.sweep { key = "k", cache = "points.db", x = tperf.vary { 1, 2 }, run = function(o)
        return { id = o.x, Time = 1.5, ["a\"b"] = "t", flag = o.x == 1, list = { 1 }, n = { m = { o = 7 } },
          nan = 0 / 0, record = "r", [5] = 3 }
      end }]])
    assert.equal(0, program.shell("tperf run s.lua", folder).code)
    local rows = tperf.report.query(folder .. "/points.db", "SELECT * FROM points WHERE x = ?", 2)
    assert.same({ { id = 2, id_ = 2, x = 2, Time = 1.5, ['a"b'] = "t", flag = 0, ["n.m.o"] = 7, record = "r" } }, rows)
    assert.equal("float", math.type(rows[1].Time))
  end)

  it("distinguishes questions by everything that decides them", function()
    local rows, points = run(3)
    local others = { 'rules = "subramanian2024",', "seq = 1024,", 'attention = "flash",' }
    local count = count_of(points)
    for _, extra in ipairs(others) do
      local changed, more = run(3, extra)
      assert.is_true(count_of(more) > count, extra)
      count = count_of(more)
      if extra ~= others[3] then assert.not_equal(rows, changed) end
    end
    assert.equal(count, count_of(select(2, run(3, "threads = 1,")))) -- which decides nothing
  end)

  it("depends on the contents of files, not on their names", function()
    local yaml = program.slurp "systems/subramanian2024/B200.yaml"
    program.write(folder .. "/machine.yaml", yaml)
    local script = SCRIPT:gsub('"subramanian2024/B200"', '"machine.yaml"'):format("", 3)
    program.write(folder .. "/s.lua", script)
    assert.equal(0, program.shell("tperf run s.lua", folder).code)
    local before = program.slurp(folder .. "/rows.csv")
    program.write(folder .. "/machine.yaml", (yaml:gsub("2500 TFLOP/s", "1250 TFLOP/s")))
    assert.equal(0, program.shell("tperf run s.lua", folder).code)
    assert.is_true(before ~= program.slurp(folder .. "/rows.csv"))
    assert.equal(18, count_of(contents_of(folder .. "/points.db")))
  end)

  it("depends on the contents of software profiles, too, whose fields a sweep may vary", function()
    local yaml = program.slurp "software/torchtitan-2024.yaml"
    program.write(folder .. "/mine.yaml", yaml)
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      for _, row in ipairs(tperf.sweep {
        model = "llama-2-7b", system = "h100-sxm", gpus = 8, global_batch = 64, software = "mine.yaml",
        cache = "points.db", ["software.compute"] = tperf.vary { 1, 1.5 },
      }) do print(row.compute, row.time) end
    ]])
    local function times()
      local out = program.shell("tperf run s.lua", folder).out
      local low, high = out:match "^1\t(%S+)\n1.5\t(%S+)\n$"
      return tonumber(low), tonumber(high)
    end
    local low, high = times()
    assert.is_true(low < high)
    program.write(folder .. "/mine.yaml", (yaml:gsub("\nattention: [%d.]+", "\nattention: 6")))
    assert.is_true(times() > low)
  end)

  it("distinguishes the formulas alone from a stack's times", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      for _, row in ipairs(tperf.sweep {
        run = tperf.train, model = "gpt2", system = "h100-sxm", dp = 8, global_batch = 64, cache = "points.db",
        software = tperf.vary { "none", "typical" },
      }) do print(row.time) end
    ]])
    local first = program.shell("tperf run s.lua", folder)
    local low, high = first.out:match "^(%S+)\n(%S+)\n$"
    assert.is_true(tonumber(low) < tonumber(high), first.err)
    assert.equal(first.out, program.shell("tperf run s.lua", folder).out)
  end)

  it("keeps no ops and stages, but finds them again", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      local function show(value, name, lines)
        if type(value) ~= "table" then lines[#lines + 1] = name .. " " .. tostring(value) return lines end
        local names = {}
        for key in pairs(value) do names[#names + 1] = tostring(key) end
        table.sort(names)
        for _, key in ipairs(names) do
          local part = value[key]
          if part == nil then part = value[math.tointeger(key)] end
          show(part, name .. "." .. key, lines)
        end
        return lines
      end
      for _, row in ipairs(tperf.sweep {
        run = tperf.train, model = "gpt2", system = "h100-sxm", global_batch = 64, dp = 4, cache = arg[1],
        tp = tperf.vary { 1, 2, 5 },
      }) do print(table.concat(show(row, "row", {}), "\n")) end
    ]])
    local function out(arguments) return program.shell("tperf run s.lua " .. arguments, folder).out end
    local plain = out ""
    assert.truthy(plain:find("row.result.kinds.1.ops.1.name ", 1, true))
    assert.truthy(plain:find("row.reason ", 1, true))
    assert.is_true(plain == out "points.db")
    local points = contents_of(folder .. "/points.db")
    assert.equal(2, count_of(points))
    assert.is_true(plain == out "points.db")
    for _, point in pairs(points) do assert.is_true(#point.record < 2000 and #plain > 20 * #point.record) end
  end)

  it("keeps answers of serving by the contents of the requests' file, and of the engine's profile", function()
    local function served(requests, step)
      program.write(folder .. "/requests.csv", "arrival,prompt,output\n" .. requests)
      local yaml = program.slurp "software/vllm-0.11.yaml"
      program.write(folder .. "/mine.yaml", (yaml:gsub("\n  step: [^\n]*", "\n  step: " .. step)))
      program.write(folder .. "/s.lua", [[
        local tperf = require "tperf"
        for _, row in ipairs(tperf.sweep {
          run = tperf.serve, model = "llama-2-7b", system = "h100-sxm", requests = "requests.csv", cache = "points.db",
          software = "mine.yaml", replicas = tperf.vary { 1, 2 },
        }) do print(row.replicas, row.e2e.mean) end
      ]])
      local result = program.shell("tperf run s.lua", folder)
      return result.out, count_of(contents_of(folder .. "/points.db"))
    end
    local first, count = served("0,100,10\n0,100,10\n", "1 ms")
    assert.equal(2, count)
    assert.equal(first, (served("0,100,10\n0,100,10\n", "1 ms")))
    local slower, more = served("0,100,10\n0,900,10\n", "1 ms")
    assert.not_equal(first, slower)
    assert.equal(4, more)
    local other, most = served("0,100,10\n0,100,10\n", "5 ms")
    assert.not_equal(first, other)
    assert.equal(6, most)
  end)

  it("sets a damaged file aside, says so, and computes again", function()
    local rows, points = run(4)
    local file = program.slurp(folder .. "/points.db")
    local _, record = next(points)
    local places = { 1, 20, 101, file:find(record.record:sub(1, 100), 1, true) + 50,
      (file:find(record.checksum, 1, true)) }
    places = cases({ places[1], places[4], places[5] }, places) -- the header, an answer, a checksum
    for _, at in ipairs(places) do
      local byte = string.char(file:byte(at) ~ 4)
      program.write(folder .. "/points.db", file:sub(1, at - 1) .. byte .. file:sub(at + 1))
      local again, _, talk = run(4)
      assert.is_true(rows == again)
      assert.same(points, select(2, run(4)))
      assert.truthy(talk:find("the cache 'points.db' is damaged; it is now 'points.db.damaged", 1, true), at .. talk)
    end
    assert.equal(file:byte(1) ~ 4, program.slurp(folder .. "/points.db.damaged"):byte(1))
    assert.is_nil(io.open(folder .. ("/points.db.damaged-%d"):format(#places + 1)))
  end)

  it("gives the same rows whatever byte has changed, or wherever the file was cut", function()
    local rows = run(4)
    local file = program.slurp(folder .. "/points.db")
    for i = 1, cases(2, 12) do
      local at = 1 + (i * 2654435761) % #file
      local byte = string.char(file:byte(at) ~ (1 << i % 8))
      program.write(folder .. "/points.db", file:sub(1, at - 1) .. byte .. file:sub(at + 1))
      assert.is_true(rows == (run(4)))
      program.write(folder .. "/points.db", file:sub(1, at - 1))
      local again, _, talk = run(4)
      assert.is_true(rows == again)
      assert.truthy(talk:find("is damaged", 1, true))
    end
  end)

  it("does not take another file for a cache", function()
    program.write(folder .. "/points.db", "my notes, one year of work")
    program.write(folder .. "/s.lua", SCRIPT:format("", 2))
    local result = program.shell("tperf run s.lua", folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("'points.db' is there and is no cache of sweeps", 1, true))
    assert.equal("my notes, one year of work", program.slurp(folder .. "/points.db"))
  end)

  it("refuses files that SQLite would write beside its own", function()
    program.write(folder .. "/points.db-wal", "my notes")
    program.write(folder .. "/s.lua", SCRIPT:format("", 2))
    local result = program.shell("tperf run s.lua", folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("the cache 'points.db' is missing, but 'points.db-wal'", 1, true), result.err)
    assert.equal("my notes", program.slurp(folder .. "/points.db-wal"))
  end)

  it("waits for another writer, and names it if that takes too long", function()
    shim.build()
    run(2)
    local database <close> = assert(core.store.open(folder .. "/points.db", "write"))
    database:run "PRAGMA journal_mode = WAL"
    assert(database:run "BEGIN IMMEDIATE")
    program.write(folder .. "/s.lua", SCRIPT:format("", 3))
    local line = ("%s run s.lua"):format(program.quote(program.absolute()))
    local result = program.shell(("%s %s"):format(shim.environment "NO_SLEEP=1", line), folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("s.lua:2: tperf.sweep: the cache 'points.db': process %d+ is writing to it"),
      result.err)
    program.shell(([[%s > again 2>&1 & echo $! > job
      until ls -l /proc/$!/fd | grep -q points.db-wal; do running $! || break; sleep 0.02; done]]):format(line), folder)
    assert.equal(0, program.shell("running $(cat job)", folder).code) -- it waits
    assert(database:run "COMMIT")
    program.shell("while running $(cat job); do sleep 0.05; done", folder)
    assert.equal("", program.slurp(folder .. "/again"))
    assert.equal(9, count_of(contents_of(folder .. "/points.db")))
  end)

  it("can be read while it is written", function()
    program.write(folder .. "/s.lua", LONG)
    local result = program.shell(([[
      %s run s.lua & job=$!
      until %s; do running $job || break; sleep 0.02; done
      tperf sweep --csv --db points.db 'SELECT count(*) AS points FROM points'
      kill -KILL $job]]):format(program.quote(program.absolute()), SOME_POINTS), folder)
    local count = tonumber(result.out:match "^points\n(%d+)\n$")
    assert.is_true(count and count > 0 and count < 1200, result.out .. result.err)
  end)

  it("stays within the output folder", function()
    program.write(folder .. "/s.lua", (SCRIPT:format("", 2):gsub('"points.db"', '"../points.db"')))
    local result = program.shell("tperf run s.lua", folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("is outside the output folder", 1, true), result.err)
  end)

  it("keeps rows small if only some fields are wanted", function()
    local rows = tperf.sweep {
      model = GPT, system = B200, gpus = tperf.vary { 64, 512 }, global_batch = 256,
      fields = { "time", "memory.total" },
    }
    assert.same({ gpus = 64, feasible = rows[1].feasible, reason = rows[1].reason, time = rows[1].time,
      ["memory.total"] = rows[1]["memory.total"] }, rows[1])
    assert.is_true(rows[2].time > 0 and rows[2]["memory.total"] > 1e9)
    refuses("'fields' must be a list", { run = echo, x = tperf.vary { 1 }, fields = "time" })
  end)

  it("ends with the same bytes after kills in the middle of writing", function()
    local rows, points = run(cases(8, 40))
    os.remove(folder .. "/rows.csv")
    local function code_of(call) -- of a run that is killed at this call
      return program.shell(("%s %s run s.lua"):format(
        shim.environment(("FAIL_WRITE=%d FAIL_KILL=1"):format(call)), program.quote(program.absolute())), folder).code
    end
    for _, call in ipairs(cases({ 2, 40, 150 }, { 1, 2, 3, 5, 9, 25, 70, 150, 300, 600 })) do
      program.shell("rm -f points.db points.db-*", folder)
      assert.equal(128 + 9, code_of(call))
    end
    -- Each goes on where the one before was killed, and may have fewer calls left to make.
    for _, call in ipairs(cases({ 100 }, { 7, 30, 100, 150 })) do code_of(call) end
    local again, points_again = run(cases(8, 40))
    assert.is_true(rows == again)
    assert.same(points, points_again)
  end)

  it("keeps finished points after Ctrl-C", function()
    program.write(folder .. "/s.lua", LONG)
    local result = program.interrupted("run s.lua", SOME_POINTS, folder)
    assert.truthy(result.err:find("s.lua:2: tperf.sweep: interrupted after %d+ of 1200 points; 'points.db' keeps them"),
      result.err)
    assert.is_nil(io.open(folder .. "/rows.csv"))
  end)

  it("needs a key for opaque functions", function()
    local function message(fields)
      program.write(folder .. "/s.lua", [[
        local tperf = require "tperf"
        local rows = tperf.sweep { cache = "c.db", ]] .. fields .. [[ }
        print(rows[1].time)]])
      local result = program.shell("tperf run s.lua", folder)
      return result.code == 0 and result.out or result.err
    end
    assert.truthy(message "run = function(o) return o.x end, x = tperf.vary { 1 }":find 'needs key = "…"')
    assert.equal("1\n", message 'key = "x", run = function(o) return o.x end, x = tperf.vary { 1 }')
    assert.equal("1\n", message 'key = "x", run = function() return 5 end, x = tperf.vary { 1 }')
    assert.equal("5\n", message 'key = "y", run = function() return 5 end, x = tperf.vary { 1 }')
    local question = 'model = "subramanian2024/gpt3", system = "subramanian2024/B200", gpus = 64, global_batch = 64, '
    assert.truthy(message(question .. "where = function() return true end")
      :find("cannot tell what 'where' is: '' is a function", 1, true))
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      tperf.schedule.define("mine", function() end)
      tperf.sweep { cache = "c.db", schedule = tperf.vary { "1f1b", "mine" }, ]] .. question .. "}")
    assert.truthy(program.shell("tperf run s.lua", folder).err:find("the schedule 'mine' does", 1, true))
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      tperf.strategy.define { name = "mine", extends = "tensor" }
      tperf.sweep { cache = "c.db", strategy = tperf.vary { "tensor", "mine" }, ]] .. question .. "}")
    assert.truthy(program.shell("tperf run s.lua", folder).err:find("the strategy 'mine' does", 1, true))
  end)
end)

describe("a cache that is checked as a whole", function()
  it("counts towards the script's instructions", function()
    local folder = program.folder()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      tperf.sweep { key = "k", cache = "c.db", x = tperf.vary { 1 }, run = function(o) return { y = o.x } end }]])
    local limited = "tperf run --max-instructions 10000000 s.lua"
    assert.equal(0, program.shell(limited .. " && truncate -s 1G c.db && tperf run s.lua", folder).code)
    local result = program.shell(limited, folder)
    assert.truthy(result.err:find("more than 10000000 instructions", 1, true), result.err)
    program.remove(folder)
  end)
end)

describe("report.query", function()
  local folder
  setup(function()
    folder = program.folder()
    program.write(folder .. "/db", core.store.empty [[
      CREATE TABLE points (x, y); INSERT INTO points VALUES (1, 2.5), (3, 'a'), (NULL, x'00ff')]])
  end)
  teardown(function() program.remove(folder) end)

  local function refuses_query(pattern, ...)
    local message = message_of(tperf.report.query, ...)
    assert.truthy(message:find(pattern, 1, true), message)
    assert.truthy(message:find("^spec/sweep_spec.lua:%d+: report.query"), message)
  end

  it("gives rows and the columns' names", function()
    local rows, names = tperf.report.query(folder .. "/db", "SELECT x, y FROM points")
    assert.same({ { x = 1, y = 2.5 }, { x = 3, y = "a" }, { y = "\0\255" } }, rows)
    assert.same({ "x", "y" }, names)
    assert.equal("integer", math.type(rows[1].x))
    rows = tperf.report.query(folder .. "/db", "SELECT count(*) AS n FROM points WHERE y = ?", "a")
    assert.same({ { n = 1 } }, rows)
  end)

  it("allows only reading", function()
    local before = program.slurp(folder .. "/db")
    for _, sql in ipairs { "DELETE FROM points", "INSERT INTO points VALUES (1, 2)", "DROP TABLE points",
      "PRAGMA user_version",
      "ATTACH '" .. folder .. "/other' AS o", "VACUUM", "BEGIN", "CREATE TEMP TABLE t (x)", "ANALYZE" } do
      refuses_query("author", folder .. "/db", sql)
    end
    for _, sql in ipairs { "SELECT load_extension('x')", "SELECT instr(x, y) FROM points", "SELECT replace(x, 1, 2)",
      "SELECT zeroblob(1e9)", "SELECT randomblob(10)", "SELECT printf('%9999999d', 1)" } do
      refuses_query("not authorized to use function", folder .. "/db", sql)
    end
    assert.truthy(message_of(tperf.report.query, folder .. "/db", "SELECT 1; SELECT 2"):find "one statement of SQL")
    assert.is_true(program.slurp(folder .. "/db") == before)
    assert.same({ "db" }, core.resource.entries and (function()
      local names = {}
      for _, name in ipairs(core.resource.entries(folder)) do
        if name:sub(1, 1) ~= "." then names[#names + 1] = name end
      end
      return names
    end)())
  end)

  it("reports errors", function()
    refuses_query("needs rows or a file's name, got 5", 5, "SELECT 1")
    refuses_query("no such column: z", folder .. "/db", "SELECT z FROM points")
    refuses_query("No such file", folder .. "/none", "SELECT 1 FROM points")
    refuses_query("it is no database of SQLite", "README.md", "SELECT 1 FROM points")
    refuses_query("two columns are called 'x'", folder .. "/db", "SELECT x, x FROM points")
    refuses_query("value 1 must be a number", folder .. "/db", "SELECT ?", {})
  end)

  local ENDLESS = [[WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT %s FROM c]]

  it("counts towards the script's instructions and memory", function()
    program.write(folder .. "/s.lua", ([[
      local tperf = require "tperf"
      print(pcall(tperf.report.query, "db", "%s"))]]):format(ENDLESS:format "count(*)"))
    local result = program.shell("tperf run --max-instructions 1000000 s.lua", folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("more than 1000000 instructions", 1, true), result.err)
    program.write(folder .. "/s.lua", ([[
      local tperf = require "tperf"
      print(select(2, pcall(tperf.report.query, "db", "%s")))
      print(select(2, pcall(tperf.report.query, "db", "%s")))]]):format(ENDLESS:format "x",
      ENDLESS:format "x" .. " ORDER BY x DESC"))
    result = program.shell("tperf run --max-memory 12MB s.lua", folder)
    assert.equal("not enough memory\nnot enough memory\n", (result.out:gsub("s%.lua:%d+: ", "")))
  end)

  -- A statement whose parts name the part before them twice: spelled out it has 2^n of them.
  local function doubled(n, part)
    local parts = { "WITH a0 AS (SELECT 1 AS x)" }
    for i = 1, n do parts[#parts + 1] = ("a%d AS (%s)"):format(i, (part:gsub("BEFORE", "a" .. i - 1))) end
    return table.concat(parts, ", ") .. " SELECT x FROM a" .. n
  end

  it("counts the work before the first row", function()
    for _, part in ipairs { "SELECT p.x FROM BEFORE p, BEFORE q", "SELECT x FROM BEFORE UNION ALL SELECT x FROM BEFORE",
      "SELECT (SELECT x FROM BEFORE) + (SELECT x FROM BEFORE) AS x", "SELECT x + x AS x FROM BEFORE",
      "SELECT CASE WHEN x THEN x ELSE x END AS x FROM BEFORE" } do
      program.write(folder .. "/s.lua", ([[
        local tperf = require "tperf"
        print(#tperf.report.query("db", "%s"))
        print(pcall(tperf.report.query, "db", "%s"))]]):format(doubled(3, part), doubled(40, part)))
      local result = program.shell("ulimit -t 5; tperf run --max-instructions 1000000 s.lua", folder)
      assert.truthy(result.out:find "^%d+\n$", result.out)
      assert.truthy(result.err:find("more than 1000000 instructions", 1, true), result.err)
    end
  end)

  it("has no function that takes the product of two texts", function()
    for _, name in ipairs { "trim", "ltrim", "rtrim" } do
      local rows = tperf.report.query(folder .. "/db", ("SELECT length(%s(' a ')) AS n"):format(name))
      assert.equal(name == "trim" and 1 or 2, rows[1].n)
      refuses_query("wrong number of arguments", folder .. "/db", ("SELECT %s('aab', 'a')"):format(name))
    end
  end)

  it("ends at Ctrl-C", function()
    program.write(folder .. "/s.lua", ([[
      local tperf = require "tperf"
      print "ready"
      tperf.report.query("db", "%s")]]):format(ENDLESS:format "count(*)"))
    local result = program.interrupted("run s.lua > out", "test -s out", folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find "interrupted", result.err)
  end)

  it("reads only what scripts may read, and a manifest lists it", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      print(pcall(tperf.report.query, "/proc/self/maps", "SELECT 1"))
      tperf.report.query("db", "SELECT 1 AS x")]])
    local result = program.shell("tperf run --out made s.lua; cat made/manifest.json", folder)
    assert.truthy(result.out:find("scripts read regular files", 1, true), result.out .. result.err)
    assert.truthy(result.out:find('"file": "db"', 1, true) or result.out:find("/db", 1, true), result.out)
    assert.truthy(result.out:find(core.file.sha256(program.slurp(folder .. "/db")), 1, true), result.out)
  end)
end)
