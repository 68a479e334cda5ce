local tperf = require "tperf"
local codec = require "tperf.sweep.codec"
local program = require "program"

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

-- Runs nothing: gives back what it is asked.
local function echo(args) return { asked = args } end

describe("sweeps", function()
  it("go through a grid in the order in which it was written", function()
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
    -- A plain list is outermost; it has no moment at which it was made.
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

  it("name columns by the fewest last parts that tell paths apart, or as told", function()
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

  it("give what searching each point gives", function()
    local rows = tperf.sweep {
      model = GPT, global_batch = 512, strategy = { "tensor", "context" }, top = 2,
      system = tperf.vary { A100, B200 }, ["system.network.fast.domain"] = tperf.vary { 4, 64 },
      ["system.accelerator.hbm.capacity"] = tperf.vary { 40e9, 80e9 }, gpus = tperf.vary { 2, 64, 512 },
    }
    assert.equal(24, #rows)
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

  it("keep apart what differs in anything but gpus and system", function()
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

  it("ask other questions", function()
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

  it("say what is wrong, at the script's line", function()
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

describe("the codec", function()
  it("gives back every value exactly", function()
    local value = { 1, 1.0, -0.0, 1 / 0, 0x1p-1074, "a\0b", true, false, { x = { [2.5] = "y" } },
      [-1] = math.mininteger }
    local back = codec.decode(codec.encode(value))
    assert.same(value, back)
    assert.equal("integer", math.type(back[1]))
    assert.equal("float", math.type(back[2]))
    assert.equal(-1 / 0, 1 / back[3])
  end)

  it("refuses what it cannot keep, and bytes that are not its own", function()
    assert.equal("'a.b' is a function", message_of(codec.encode, { a = { b = print } }))
    local loop = {}
    loop.loop = loop
    assert.truthy(message_of(codec.encode, loop):find "lies too deep")
    local bytes = codec.encode { a = 1, b = "xyz" }
    for i = 0, #bytes - 1 do assert.is_false((pcall(codec.decode, bytes:sub(1, i)))) end
  end)
end)

local SCRIPT = [[
local tperf = require "tperf"
local rows = tperf.sweep {
  model = "subramanian2024/gpt3", system = "subramanian2024/B200", global_batch = 256, strategy = "tensor",
  cache = "points", gpus = tperf.vary { 64, 128, 512 }, %s
  ["system.accelerator.hbm.capacity"] = tperf.linspace(20e9, 200e9, %d),
}
tperf.report.save("rows.csv", rows, { "capacity", "gpus", "strategy", "time", "memory.total", "candidates", "reason" })
]]

describe("a sweep's cache", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  local function run(count, extra)
    program.write(folder .. "/s.lua", SCRIPT:format(extra or "", count))
    local result = program.shell("tperf run s.lua", folder)
    assert.same({ "", 0 }, { result.out, result.code }, result.err)
    return program.slurp(folder .. "/rows.csv"), program.slurp(folder .. "/points"), result.err
  end

  it("takes up from finished points, and asks nothing twice", function()
    local all = 'strategy = "all",'
    local rows, points = run(8, all)
    local again, same_points = run(8, all)
    assert.is_true(rows == again and points == same_points)
    local _, more = run(15, all) -- linspace(20, 200, 8) lies within
    assert.is_true(points == more:sub(1, #points))
    assert.is_true(#more > #points and #more < 2.2 * #points)
    os.remove(folder .. "/points")
    assert.is_true((run(8, all)) == rows)
  end)

  it("tells questions apart by all that decides them", function()
    local rows, points = run(3)
    local others = { 'rules = "subramanian2024",', "seq = 1024,", 'attention = "flash",' }
    for _, extra in ipairs(others) do
      local changed, longer = run(3, extra)
      assert.is_true(#longer > #points, extra)
      points = longer
      if extra ~= others[3] then assert.not_equal(rows, changed) end
    end
    assert.is_true(points == select(2, run(3, "threads = 1,"))) -- which decides nothing
  end)

  it("looks into files, not at their names", function()
    local yaml = program.slurp "systems/subramanian2024/B200.yaml"
    program.write(folder .. "/machine.yaml", yaml)
    local script = SCRIPT:gsub('"subramanian2024/B200"', '"machine.yaml"'):format("", 3)
    program.write(folder .. "/s.lua", script)
    assert.equal(0, program.shell("tperf run s.lua", folder).code)
    local before, points = program.slurp(folder .. "/rows.csv"), program.slurp(folder .. "/points")
    program.write(folder .. "/machine.yaml", (yaml:gsub("2500 TFLOP/s", "1250 TFLOP/s")))
    assert.equal(0, program.shell("tperf run s.lua", folder).code)
    assert.is_true(before ~= program.slurp(folder .. "/rows.csv"))
    assert.is_true(#program.slurp(folder .. "/points") > 1.9 * #points)
  end)

  it("looks into profiles of software, too, whose fields a sweep may vary", function()
    local yaml = program.slurp "software/torchtitan-2024.yaml"
    program.write(folder .. "/mine.yaml", yaml)
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      for _, row in ipairs(tperf.sweep {
        model = "gpt2", system = "h100-sxm", gpus = 8, global_batch = 64, software = "mine.yaml", cache = "points",
        ["software.compute"] = tperf.vary { 1, 1.5 },
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

  it("notices damage anywhere, says so, and computes again", function()
    local rows, points = run(4)
    for i = 1, 12 do
      local at = 1 + (i * 2654435761) % #points
      local byte = string.char(points:byte(at) ~ (1 << i % 8))
      program.write(folder .. "/points", points:sub(1, at - 1) .. byte .. points:sub(at + 1))
      local again, repaired, talk = run(4)
      assert.is_true(rows == again and points == repaired)
      assert.truthy(talk:find("the cache 'points' is damaged after", 1, true))
      program.write(folder .. "/points", points:sub(1, at - 1))
      again, repaired = run(4)
      assert.is_true(rows == again and points == repaired)
    end
  end)

  it("does not take another file for a cache", function()
    program.write(folder .. "/points", "my notes, one year of work")
    program.write(folder .. "/s.lua", SCRIPT:format("", 2))
    local result = program.shell("tperf run s.lua", folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("'points' is there and is no cache of sweeps", 1, true))
    assert.equal("my notes, one year of work", program.slurp(folder .. "/points"))
  end)

  it("belongs to one run at a time", function()
    program.write(folder .. "/s.lua", SCRIPT:format("", 2))
    local result = program.shell("exec 9> points; flock 9; tperf run s.lua", folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("s.lua:2: tperf.sweep: the cache 'points' is in use by another sweep", 1, true))
  end)

  it("stays within the output folder", function()
    program.write(folder .. "/s.lua", (SCRIPT:format("", 2):gsub('"points"', '"../points"')))
    local result = program.shell("tperf run s.lua", folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("is outside the output folder", 1, true), result.err)
  end)

  it("ends with the same bytes after ten kills", function()
    local rows, points = run(40)
    os.remove(folder .. "/points")
    os.remove(folder .. "/rows.csv")
    local seed, killed = 12345, 0
    for _ = 1, 10 do
      seed = seed * 48271 % 2147483647
      local result = program.shell(("timeout -s KILL %.3f %s run s.lua"):format(0.02 + seed % 100 / 1000,
        program.quote(program.absolute())), folder)
      if result.code ~= 0 then killed = killed + 1 end
    end
    assert.is_true(killed > 0)
    local again, points_again = run(40)
    assert.is_true(rows == again and points == points_again)
  end)

  it("keeps what Ctrl-C left", function()
    program.write(folder .. "/s.lua", SCRIPT:format("", 400))
    local result = program.shell(([[
      %s run s.lua & job=$!
      until test -s points; do sleep 0.02; done
      kill -INT $job; wait $job]]):format(program.quote(program.absolute())), folder)
    assert.truthy(result.err:find("s.lua:2: tperf.sweep: interrupted after %d+ of 1200 points; 'points' keeps them"),
      result.err)
    assert.is_nil(io.open(folder .. "/rows.csv"))
  end)

  it("needs a key for what it cannot see into", function()
    local function message(fields)
      program.write(folder .. "/s.lua", [[
        local tperf = require "tperf"
        local rows = tperf.sweep { cache = "c", ]] .. fields .. [[ }
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
      tperf.sweep { cache = "c", schedule = tperf.vary { "1f1b", "mine" }, ]] .. question .. "}")
    assert.truthy(program.shell("tperf run s.lua", folder).err:find("the schedule 'mine' does", 1, true))
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      tperf.strategy.define { name = "mine", extends = "tensor" }
      tperf.sweep { cache = "c", strategy = tperf.vary { "tensor", "mine" }, ]] .. question .. "}")
    assert.truthy(program.shell("tperf run s.lua", folder).err:find("the strategy 'mine' does", 1, true))
  end)
end)
