-- tperf.why and `search --why`: the parts add up to the differences, and numbers of the profile at which the order is
-- said to turn do turn it, as tperf.train says. `search --anchor`: orders by a run as it was measured.
local json = require "tperf.input.json"
local program = require "program"
local tperf = require "tperf"

local QUESTION <const> = { model = "llama-3.1-70b", system = "h100-sxm", gpus = 256, global_batch = 512, top = 4 }
local COMMAND <const> = "tperf search llama-3.1-70b -s h100-sxm -g 256 -b 512 -k 4 "

local found = tperf.search(QUESTION)

local function sum(rows, name)
  local total = 0
  for _, row in ipairs(rows) do total = total + row[name] end
  return total
end

describe("tperf.why", function()
  it("has the parts of both, which add up, the largest difference first", function()
    for i = 2, #found do
      local a, b = found[1], found[i]
      local why = tperf.why(a, b)
      assert.equal(1, why.faster)
      assert.near(b.time - a.time, why.difference, 1e-12)
      assert.near(1 - a.time / b.time, why.part, 1e-12)
      assert.near(why.difference, sum(why.time, "difference"), 1e-9)
      assert.near(a.time, sum(why.time, "first"), 1e-9)
      assert.near(b.memory.total - a.memory.total, sum(why.memory, "difference"), 1)
      assert.near(b.memory.total, sum(why.memory, "second"), 1)
      for k = 2, #why.time do
        assert.is_true(math.abs(why.time[k - 1].difference) >= math.abs(why.time[k].difference))
      end
      assert.equal(tperf.differ(a, b), why.apart)
    end
    assert.equal(2, tperf.why(found[2], found[1]).faster)
  end)

  it("knows which numbers of the profile turn the order, and where", function()
    local profile, turned = tperf.software(found[1].software), 0
    local function ahead(a, b, name, value)
      local software = profile:with { [name] = value }
      return tperf.train({ configuration = b, software = software }).time
        - tperf.train({ configuration = a, software = software }).time
    end
    for i = 2, #found do
      local a, b, said, last = found[1], found[i], {}, 0
      for _, turn in ipairs(tperf.why(a, b).turns) do
        turned, said[turn.name] = turned + 1, true
        assert.equal(profile[turn.name], turn.now)
        local beyond, before = turn.now + (turn.at - turn.now) * 1.01, turn.now + (turn.at - turn.now) * 0.99
        assert.is_true(ahead(a, b, turn.name, before) > 0, turn.name)
        assert.is_true(ahead(a, b, turn.name, beyond) < 0, turn.name)
        assert.is_true(math.abs(turn.at / turn.now - 1) >= last - 1e-3)
        last = math.abs(turn.at / turn.now - 1)
      end
      for _, name in ipairs { "compute", "attention", "memory", "comm", "host" } do
        for _, factor in ipairs(said[name] and {} or { 0.5, 2 }) do
          assert.is_true(ahead(a, b, name, profile[name] * factor) >= 0, name)
        end
      end
    end
    assert.is_true(turned > 2)
  end)

  it("says so where nothing is known of an order", function()
    local bare = tperf.search { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 64, top = 2,
      software = "none" }
    local why = tperf.why(bare[1], bare[2])
    assert.is_nil(why.turns)
    assert.is_nil(why.apart)
    assert.truthy(why.reason:find("no intervals", 1, true))
    assert.error_matches(function() tperf.why({}, bare[2]) end, "the first configuration is none of tperf.train")
    assert.error_matches(function() tperf.why(bare[1], 3) end, "the second configuration")
  end)
end)

describe("search --why", function()
  it("prints the parts, what turns the order, and the roomiest of those that are equal within the error", function()
    local out = program.ask(COMMAND .. "--why 1,2").out
    local why = tperf.why(found[1], found[2])
    assert.truthy(out:find(("row 1 is %.2f %% faster"):format(100 * why.part), 1, true), out)
    assert.truthy(out:find("communication inside a layer", 1, true))
    assert.truthy(out:find("the order turns with: collectives", 1, true))
    local best = 1
    for i = 2, found.alike do
      if found[i].memory.total < found[best].memory.total then best = i end
    end
    local advice = "rows 1 to %d are equal within the error: row %d needs"
    assert.truthy(out:find(advice:format(found.alike, best), 1, true))
    local read = json.decode(program.ask(COMMAND .. "--why 1,3 --json").out)
    assert.same({ 1, 3, found.alike, best }, { read.first, read.second, read.alike, read.roomiest })
    assert.near(found[3].time - found[1].time, read.difference, 1e-9)
    assert.equal(#tperf.why(found[1], found[3]).turns, #read.turns)
  end)

  it("refuses rows that are not there", function()
    for rows, reason in pairs { ["1"] = "--why needs two rows", ["2,2"] = "--why needs two rows",
      ["1,9"] = "the search has 4 rows, and no row 9" } do
      local ran = program.ask(COMMAND .. "--why " .. rows)
      assert.is_true(ran.code ~= 0)
      assert.truthy(ran.err:find(reason, 1, true), ran.err)
    end
  end)
end)

describe("a search whose first may not fit", function()
  it("says which is the fastest of those that fit with nine tenths' confidence", function()
    local all, surely = tperf.search { model = QUESTION.model, system = QUESTION.system, gpus = 256, global_batch = 512,
      top = 5000 }, nil
    for i = #all, 1, -1 do surely = all[i].fit == "fits" and all[i] or surely end
    assert.equal("may not fit", all[1].fit)
    local seconds, longer = program.ask(COMMAND).out:gsub("%s+", " "):match
      "the fastest that fits with that confidence: [^(]*%(([%d.]+) s, ([%d.]+) %% longer%)"
    assert.near(surely.time, tonumber(seconds), 1e-3 * surely.time)
    assert.near(100 * (surely.time / all[1].time - 1), tonumber(longer), 0.06)
    assert.is_nil(program.ask(COMMAND .. "--software none").out:find("that confidence", 1, true))
  end)
end)

describe("search --anchor", function()
  it("ranks as a measured run took, of a layout that --anchor-at says", function()
    local at = { model = QUESTION.model, system = QUESTION.system, gpus = 256, global_batch = 512, tp = 8, pp = 4 }
    local profile = tperf.software "megatron-core-2026"
    local slow = profile:with { compute = profile.compute * 1.2, attention = profile.attention * 1.2,
      memory = profile.memory * 1.2, comm = profile.comm * 1.2, host = profile.host * 1.2 }
    at.software = slow
    local ran = program.ask(COMMAND .. ("--anchor '%.12g s' --anchor-at tp=8,pp=4 --json"):format(tperf.train(at).time))
    assert.truthy(ran.err:find("take 1.2 times as long", 1, true), ran.err)
    local rows = json.decode(ran.out)
    local expected = tperf.search { model = QUESTION.model, system = QUESTION.system, gpus = 256, global_batch = 512,
      top = 4, software = slow }
    for i, c in ipairs(expected) do assert.near(c.time, rows[i].time, 1e-5 * c.time) end
    for _, only in ipairs { "--anchor '9 s'", "--anchor-at tp=8" } do
      assert.truthy(program.ask(COMMAND .. only).err:find("needs the layout of the measured run", 1, true))
    end
  end)
end)
