-- The points of a sweep: their arguments, their names, and what becomes of their errors.
local program = require "program"
local tperf = require "tperf"

local function refuses(text, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok, "not refused: " .. text)
  assert.truthy(message:find(text, 1, true), message)
  assert.truthy(message:find("sweep_points_spec.lua:", 1, true), message)
end

local function column(rows, name)
  local list = {}
  for i, row in ipairs(rows) do list[i] = row[name] end
  return list
end

describe("a sweep over a function", function()
  it("gives each point its own copy of the arguments", function()
    local shared = { inner = { count = 0 } }
    local rows = tperf.sweep { x = tperf.vary { 1, 1, 1 }, o = shared, progress = false, run = function(a)
      a.o.inner.count = a.o.inner.count + 1
      return { y = a.o.inner.count }
    end }
    assert.same({ 1, 1, 1 }, column(rows, "y"))
    assert.equal(0, shared.inner.count)
    rows = tperf.sweep { list = tperf.vary { { 1 }, { 2 } }, progress = false, run = function(a)
      a.list[#a.list + 1] = 9
      return { n = #a.list }
    end }
    assert.same({ 2, 2 }, column(rows, "n"))
    assert.same({ 1 }, rows[1].list)
  end)

  it("refuses fields that no answer has, before a million of them", function()
    local calls = 0
    local function run(o)
      calls = calls + 1
      return { time = o.x }
    end
    refuses("'fields': none of 100 answers has 'tiem' (did you mean 'time'?)", tperf.sweep, { run = run,
      x = tperf.linspace(1, 1000, 1000), fields = { "time", "tiem" }, progress = false })
    assert.equal(100, calls)
    refuses("none of 3 answers has 'tiem'", tperf.sweep, { run = run, x = tperf.vary { 1, 2, 3 },
      fields = { "tiem" }, progress = false })
    refuses("has 'memory.totl'", tperf.sweep, { run = tperf.train, model = "llama-3.1-8b", system = "h100-sxm",
      global_batch = 8, tp = tperf.vary { 1, 2 }, dp = 1, pp = 1, fields = { "memory.totl" }, progress = false })
  end)

  it("refuses answers whose fields are called like what varies, or differ in case only", function()
    refuses("the answer has a field 'time', 7, and so is called what varies, time = 1", tperf.sweep,
      { time = tperf.vary { 1, 2 }, run = function() return { time = 7 } end, progress = false })
    local rows = tperf.sweep { time = tperf.vary { 1, 2, as = "start" }, progress = false,
      run = function() return { time = 7 } end }
    assert.same({ 1, 2, 7 }, { rows[1].start, rows[2].start, rows[1].time })
    rows = tperf.sweep { x = tperf.vary { 1, 2 }, progress = false, run = function(o) return { x = o.x, y = 1 } end }
    assert.same({ 1, 2 }, column(rows, "x")) -- an answer may repeat its arguments
    local folder = program.folder()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      tperf.sweep { key = "k", cache = "points.db", x = tperf.vary { 1, 2 }, run = function()
        return { Time = 1, time = 2 }
      end }]])
    local result = program.shell("tperf run s.lua", folder)
    assert.truthy(result.err:find("'Time' and 'time' would be one column of the cache", 1, true), result.err)
    program.remove(folder)
  end)

  it("names the point and its values in an error", function()
    local function run(o) return o.x == 3 and error "broken" or o.x end
    local ok, message = pcall(tperf.sweep, { run = run, x = tperf.vary { 1, 2, 3 }, name = tperf.vary { "a" },
      progress = false })
    assert.is_false(ok)
    assert.truthy(message:find('spec.lua:%d+: tperf.sweep: point 3 %(x = 3, name = "a"%): broken$'), message)
    refuses("tperf.sweep: point 2 (tp = 0.5): ", tperf.sweep, { run = tperf.train, model = "llama-3.1-8b",
      system = "h100-sxm", global_batch = 8, tp = tperf.vary { 1, 0.5 }, progress = false })
  end)

  it("shows all digits of a value that is no integer", function()
    refuses("point 2 (tp = 7.9999999999999991): ", tperf.sweep, { run = tperf.train, model = "llama-3.1-8b",
      system = "h100-sxm", global_batch = 8, tp = tperf.vary { 1, 7.9999999999999991 }, progress = false })
    refuses("from 1 to 2147483648, got 7.9999999999999991", tperf.train, { model = "llama-3.1-8b", system = "h100-sxm",
      global_batch = 8, tp = 7.9999999999999991 })
  end)

  it("makes rows of errors if asked to", function()
    local rows = tperf.sweep { x = tperf.linspace(1, 10, 10), on_error = "row", progress = false, fields = { "y" },
      run = function(o) return o.x == 4 and error "broken" or { y = 2 * o.x } end }
    assert.same({ 2, 4, 6, nil, 10, 12, 14, 16, 18, 20 }, column(rows, "y"))
    assert.same({ false, "point 4 (x = 4): broken" }, { rows[4].feasible, rows[4].error })
    refuses("'on_error' must be", tperf.sweep, { x = tperf.vary { 1 }, on_error = "ignore", run = print })
  end)

  it("asks any question, tables that are called included", function()
    local rows = tperf.sweep { run = tperf.schedule, schedule = "1f1b", devices = tperf.vary { 2, 4 },
      microbatches = 8, times = { forward = 1, backward = 2 }, fields = { "makespan" }, progress = false }
    assert.same({ 27, 33 }, column(rows, "makespan")) -- (M + P - 1) (F + B)
  end)
end)

describe("a changed field", function()
  local function told(text)
    local folder = program.folder()
    program.write(folder .. "/s.lua", 'local tperf = require "tperf"\n' .. text)
    local result = program.shell("tperf run s.lua", folder)
    program.remove(folder)
    assert.equal(0, result.code, result.err)
    return result.err
  end

  it("that curves leave little to do says so", function()
    local latency = 'tperf.system "%s":with { network = { %s = { latency = "1 ms" } } }'
    for _, side in ipairs { "fast", "slow" } do
      local text = ("network.%s.latency is that of sends alone"):format(side)
      assert.truthy(told(latency:format("h100-sxm", side)):find(text, 1, true))
    end
    assert.equal("", told(latency:format("subramanian2024/A100", "fast"))) -- whose efficiencies are numbers
    assert.truthy(told('tperf.system "mi300x":with { network = { slow = { chain = "1 ms" } } }'):find(
      "network.slow.chain has no effect", 1, true))
    local result = program.shell("tperf train llama-3.1-8b -s h100-sxm -b 8 --tp 2 --set "
      .. "system.network.fast.latency=1ms")
    assert.truthy(result.err:find("network.fast.latency is that of sends alone", 1, true), result.err)
  end)

  it("that changes no figure of a sweep says so", function()
    local sweep = [[tperf.sweep { run = tperf.train, model = "llama-3.1-8b", system = "h100-sxm", global_batch = 16,
      tp = 2, dp = tperf.vary { 1, 2 }, ["system.%s"] = tperf.vary(%s) }]]
    assert.truthy(told(sweep:format("network.slow.chain", '{ "1 us", "1 ms" }')):find(
      "'system.network.slow.chain' changes no figure of these answers", 1, true))
    assert.equal("", told(sweep:format("network.fast.bandwidth", '{ "300 GB/s", "450 GB/s" }')))
  end)
end)

describe("a sweep with errors", function()
  -- TPERF_THOROUGH tries 10^5 points.
  it("ends with the same bytes after three kills and in two processes", function()
    local n = os.getenv "TPERF_THOROUGH" and 1000 or 40
    local folder = program.folder()
    program.write(folder .. "/s.lua", ([[
      local tperf = require "tperf"
      local file = io.open(arg[1] .. ".csv", "w")
      tperf.sweep { key = "k", cache = arg[1] .. ".db", on_error = "row", progress = false,
        x = tperf.linspace(1, %d, %d), y = tperf.linspace(1, 100, 100),
        run = function(o)
          if o.y == 100 then error "broken" end
          if arg[2] and o.x * 100 + o.y >= tonumber(arg[2]) then while true do end end
          return { z = o.x * o.y, w = o.x / o.y }
        end,
        each = function(row) file:write(("%%s,%%s,%%s,%%s,%%s\n"):format(row.x, row.y, row.z, row.w, row.error)) end }
      file:close()]]):format(n, n))
    assert.equal(0, program.shell("tperf run s.lua whole", folder).code)
    for part = 1, 3 do -- stuck after a quarter, a half, three quarters
      program.shell(("timeout -s KILL %d tperf run -P 2 s.lua part %d; true"):format(n > 100 and 60 or 4,
        part * n * 100 // 4), folder)
    end
    assert.equal(0, program.shell("tperf run -P 2 s.lua part", folder).code)
    local whole = program.slurp(folder .. "/whole.csv")
    assert.equal(whole, program.slurp(folder .. "/part.csv"))
    assert.equal(n, select(2, whole:gsub("broken", "")))
    assert.truthy(whole:find("nil,nil,point 100 (x = 1, y = 100): broken\n", 1, true))
    program.remove(folder)
  end)
end)

describe("tperf.logspace", function()
  it("has exact powers", function()
    assert.same({ 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 }, tperf.logspace(1, 1024, 11).values)
    assert.same({ 0.001, 0.01, 0.1, 1, 10, 100, 1000 }, tperf.logspace(0.001, 1000, 7).values)
    local powers = tperf.logspace(1, 3 ^ 30, 31).values
    for i = 0, 30 do assert.equal(3 ^ i, powers[i + 1]) end
    local halves = tperf.logspace(1, 2, 13).values -- 2^(i/12), which no short number is
    for i = 0, 12 do assert.near(2 ^ (i / 12), halves[i + 1], 1e-15) end
  end)
end)

describe("tperf.linspace", function()
  it("has exact integers and the nearest decimals", function()
    local values = tperf.linspace(1, 1000, 1000).values
    for i = 1, 1000 do assert.equal(i, values[i]) end
    assert.same({ 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1 }, tperf.linspace(0, 1, 11).values)
    assert.same({ -1e308, 0, 1e308 }, tperf.linspace(-1e308, 1e308, 3).values)
  end)
end)

describe("the cache of a function's points", function()
  it("says so if the script or its arguments have changed under an old key", function()
    local folder = program.folder()
    local function write(comment)
      program.write(folder .. "/s.lua", ([[
        local tperf = require "tperf" -- %s
        local rows = tperf.sweep { key = "k", cache = "points.db", x = tperf.vary { 1, 2 }, progress = false,
          run = function(o) return { y = o.x } end }
        print(#rows)]]):format(comment))
    end
    local function run(arguments) return program.shell("tperf run s.lua " .. arguments, folder) end
    write "first"
    assert.same({ "2\n", "" }, { run("").out, run("").err })
    assert.truthy(run("more").err:find("the script's arguments are not those of key 'k'", 1, true))
    write "second"
    local changed = run ""
    assert.equal("2\n", changed.out)
    assert.truthy(changed.err:find("the script has changed since points were computed under key 'k'", 1, true))
    local found = tperf.report.query(folder .. "/points.db", "SELECT DISTINCT tperf FROM records")
    local core = require "tperf.core"
    assert.same({ { tperf = ("%s (build %s)"):format(core.version, core.sources) } }, found)
    program.remove(folder)
  end)
end)
