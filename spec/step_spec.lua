-- One definition of a step: the closed form against the simulation, which use the same prices (src/plan/iteration.c).
local cases = require "cases"
local picker = require "picker"
local tperf = require "tperf"

local SEED <const>, CASES <const> = 20260, cases(100, 2400)
local STACK = {
  compute = 1.2, attention = 1.4, memory = 1.5, comm = 1.3, host = 2e-5, overlap = 0.7, kernel = "flash", name = "spec",
}

-- The same, but each replica broadcasts the matrices that it owns.
local OWNERS = { broadcast_weights = true }
for name, value in pairs(STACK) do OWNERS[name] = value end

-- Equal stages: layers without embedding and head, as many on each device.
local EQUAL = { base = "default", layers_from_description = false }

local AXES = {
  tensor = { { tp = 1 }, { tp = 2 }, { tp = 8 } }, context = { { tp = 2, cp = 4 }, { tp = 4, cp = 2 } },
  summa = { { tp1 = 4, tp2 = 2 }, { tp1 = 2, tp2 = 2 } },
}
-- Schedules whose closed forms are exact for any times of the passes.
local EXACT = { "1f1b", "gpipe", "interleaved_1f1b", "1f1b_overlap", "interleaved_1f1b_overlap" }

local function question(pick, schedules)
  local strategy, pp, dp, micro_batch = pick { "tensor", "context", "summa" }, pick { 1, 2, 4, 8 }, pick { 1, 2, 8 },
    pick { 1, 2 }
  local schedule = pick(schedules)
  local q = {
    model = { name = "spec", layers = 32, hidden = 4096, heads = 32, ffn = 16384, seq = 2048 },
    system = pick { "h100-sxm", "a100-sxm-80gb", "subramanian2024/B200" }, strategy = strategy, pp = pp, dp = dp,
    micro_batch = micro_batch, zero = pick { 0, 1, 2, 3 }, recompute = pick { "none", "full" }, schedule = schedule,
    virtual_stages = schedule:find "interleaved" and pp > 1 and pick { 2, 4 } or nil,
    software = pick { "none", STACK, OWNERS }, rules = EQUAL, global_batch = dp * micro_batch * pp * pick { 2, 4, 8 },
    simulate = true, data_overlap = pick { true, false },
  }
  for axis, size in pairs(pick(AXES[strategy])) do q[axis] = size end
  return q
end

local function shown(q) return ("%s %s pp %d zero %d %s"):format(q.strategy, q.schedule, q.pp, q.zero, q.recompute) end

describe("an iteration", function()
  it("takes as long in closed form as in simulation if stages are equal", function()
    local pick, simulated = picker(SEED), 0
    for _ = 1, CASES do
      local q = question(pick, EXACT)
      q.overlap_p2p = pick { false, true }
      local c = tperf.train(q)
      -- A message that only pairs hide can be longer than a pair.
      local more = q.overlap_p2p and q.schedule == "interleaved_1f1b_overlap" and 0.003 or 1e-9
      local ratio = c.simulated.time / c.time
      assert.is_true(ratio > 1 - 1e-9 and ratio < 1 + more, shown(q))
      if q.pp > 1 then simulated = simulated + 1 end
    end
    assert.is_true(simulated > CASES / 2)
  end)

  -- The shorter kind of pass hides a message up to its own time. The closed form is exact up to the mean of both kinds.
  it("takes as long in closed form as in simulation if messages beside passes are slow", function()
    local late = 0
    for _, bandwidth in ipairs { 50e9, 3e9, 2.1e9, 2e9, 1.9e9 } do
      local c = tperf.train {
        model = { name = "spec", layers = 32, hidden = 4096, heads = 32, ffn = 16384, seq = 2048 },
        system = tperf.system "h100-sxm":with { network = { slow = { bandwidth = bandwidth } } }, tp = 8, pp = 4,
        micro_batch = 1, global_batch = 32, schedule = "interleaved_1f1b", virtual_stages = 4, overlap_p2p = true,
        software = "none", rules = EQUAL, simulate = true, explain = true,
      }
      assert.near(c.time, c.simulated.time, 1e-9 * c.time)
      for _, line in ipairs(c.sum) do
        if line.formula and line.formula:find "late for steady passes" then late = late + 1 end
      end
    end
    assert.is_true(late >= 2)
  end)

  it("takes no less time in simulation if a closed form assumes more about the passes", function()
    local pick, longer = picker(SEED + 1), 0
    for _ = 1, cases(60, 300) do
      local q = question(pick, { "dualpipe", "zb1p" })
      if q.pp > 1 then
        local c = tperf.train(q)
        assert.is_true(c.simulated.time >= c.time * (1 - 1e-9), shown(q))
        if c.simulated.time > c.time * (1 + 1e-9) then longer = longer + 1 end
      end
    end
    assert.is_true(longer > 0)
  end)

  -- The stage that waits longest for its replicas may not be the busiest one.
  it("takes as long in closed form as simulated if the ends of the model are heavy, and shards exchanged each pass",
    function()
      local pick = picker(SEED + 5)
      for _ = 1, cases(40, 200) do
        local q = question(pick, { "1f1b", "interleaved_1f1b" })
        q.pp, q.dp, q.zero, q.rules, q.model.vocab = pick { 2, 4, 8 }, pick { 2, 8 }, pick { 2, 3 }, "default", 256000
        q.virtual_stages = q.schedule == "interleaved_1f1b" and 2 or nil
        q.global_batch, q.micro_batch = 64 * q.dp, 1
        local c = tperf.train(q)
        assert.near(1, c.simulated.time / c.time, 0.06, shown(q))
      end
    end)

  -- DualPipe's first and last devices have both ends of the model, for half of the micro-batches each.
  it("takes as long and as much memory as simulated if a device runs two different stages", function()
    local pick = picker(SEED + 4)
    for _ = 1, cases(40, 200) do
      local q = question(pick, { "dualpipe", "dualpipe_v" })
      q.pp, q.rules, q.model.vocab, q.global_batch = pick { 2, 4, 8 }, "default", pick { 32000, 256000 }, 128 * q.dp
      q.micro_batch = 1
      local c = tperf.train(q)
      assert.near(1, c.simulated.time / c.time, 0.08, shown(q))
      assert.near(1, c.memory.peak.total / c.memory.total, 0.08, shown(q))
    end
  end)

  it("is the sum of its parts, with and without software", function()
    local pick = picker(SEED + 2)
    for _ = 1, cases(40, 200) do
      local q = question(pick, EXACT)
      q.simulate = nil
      local c, sum = tperf.train(q), 0
      for _, seconds in pairs(c.breakdown) do sum = sum + seconds end
      assert.near(c.time, sum, 1e-9 * c.time)
      if q.software == "none" then assert.equal(0, c.breakdown.host + c.breakdown.optimizer) end
    end
  end)

  -- What an overlapped pair hides of the waits for the host is no collective's time.
  it("has no time of collectives where there are none, however much overlapped passes hide", function()
    local q = { model = "falcon-7b", system = "h20", pp = 2, global_batch = 32, schedule = "dualpipe",
      software = { name = "spec", compute = 1, attention = 1, memory = 1, comm = 1, host = 2e-5, overlap = 1,
        optimizer = 0 } }
    local parts = tperf.train(q).breakdown
    assert.equal(0, parts.tensor_comm)
    assert.is_true(parts.host > 0)
  end)

  it("is explained by terms that add up to it", function()
    local pick = picker(SEED + 3)
    for _ = 1, 100 do
      local q = question(pick, { "1f1b", "interleaved_1f1b", "dualpipe", "interleaved_1f1b_overlap" })
      q.simulate, q.explain = nil, true
      if q.pp > 1 or q.schedule ~= "dualpipe" then
        q.rules, q.model.vocab = "default", 32000
        local c, sum = tperf.train(q), 0
        for i = 1, #c.sum - 1 do sum = sum + c.sum[i].seconds end
        assert.near(c.time, sum, 1e-9 * c.time)
        assert.near(c.time, c.sum[#c.sum].seconds, 1e-9 * c.time)
      end
    end
  end)

  it("simulates the configuration's own schedule, with its software", function()
    local q = {
      model = "llama-3.1-8b", system = "h100-sxm", tp = 2, pp = 4, dp = 8, global_batch = 256,
      schedule = "interleaved_1f1b", virtual_stages = 2, software = STACK, simulate = true,
    }
    local c, t = tperf.train(q)
    assert.equal("interleaved_1f1b", c.simulated.schedule)
    assert.equal(8, t.stages)
    q.software = "none"
    assert.is_true(c.simulated.time > 1.1 * tperf.train(q).simulated.time)
  end)

  it("is no faster than the host launches its kernels", function()
    local q = { model = "llama-3.1-8b", system = "h100-sxm", dp = 8, global_batch = 8, seq = 128 }
    local slow, fast = {}, {}
    for name, value in pairs(STACK) do slow[name], fast[name] = value, value end
    slow.host, fast.host = 1e-3, 0
    q.software = fast
    local without = tperf.train(q)
    q.software = slow
    local with = tperf.train(q)
    local ops = #with.first + #with.last
    for _, kind in ipairs(with.kinds) do ops = ops + kind.count * #kind.ops end
    -- One launch an op forward, two backward.
    assert.near(3 * ops * 1e-3, with.time - with.breakdown.data_comm - with.breakdown.optimizer, 1e-9)
    assert.equal(0, without.breakdown.host)
    assert.is_true(with.breakdown.host > 0)
  end)
end)
