-- Custom schedules: what their functions say is compared with the simulation of their order, and they hold the weights
-- of all stages that their devices run.
local tperf = require "tperf"

local function refuses(text, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok, "not refused: " .. text)
  assert.truthy(message:find(text, 1, true), message)
  assert.truthy(message:find("custom_schedule_spec.lua:", 1, true), message)
end

local defined = 0

local function define(definition)
  defined = defined + 1
  local name = ("custom_spec_%d"):format(defined)
  local function try() tperf.schedule.define(name, definition) end
  try()
  return name
end

-- 1F1B, whose makespan is (M + P - 1) (F + B) without messages, and which holds min(P - d + 1, M) micro-batches.
local function order(s)
  for d = 1, s.devices do
    local ahead = math.min(s.devices - d, s.microbatches)
    for m = 1, ahead do s:forward(d, d, m) end
    for m = 1, s.microbatches - ahead do
      s:forward(d, d, ahead + m)
      s:backward(d, d, m)
    end
    for m = s.microbatches - ahead + 1, s.microbatches do s:backward(d, d, m) end
  end
end

local function form(p)
  local passes = p.microbatches + p.devices - 1
  return { F = passes, B = passes }
end

local function held(p, device) return math.min(p.devices - device + 1, p.microbatches) end

local function with(changes)
  local definition = { order = order, stages_per_device = 1, closed_form = form, in_flight = held }
  for name, value in pairs(changes) do definition[name] = value end
  return definition
end

local function asked(changes)
  local a = { model = "llama-3.1-8b", system = "h100-sxm", tp = 2, pp = 4, dp = 2, global_batch = 16 }
  for name, value in pairs(changes) do a[name] = value end
  return a
end

-- Two pipelines in opposite directions, each with half of the micro-batches (Chimera, arXiv 2107.06925), all forwards
-- before all backwards.
local function both_ways(s)
  local half = s.microbatches // 2
  for d = 1, s.devices do
    local up = s.devices + 1 - d
    s:hold(d, d)
    s:hold(d, up)
    for m = 1, half do
      s:forward(d, d, m)
      s:forward(d, up, half + m)
    end
    for m = 1, half do
      s:backward(d, d, m)
      s:backward(d, up, half + m)
    end
  end
end

local function even(p) return p.microbatches % 2 > 0 and "needs an even number of micro-batches" or nil end

describe("a custom schedule's closed form", function()
  it("that its simulation confirms is that of the same schedule built in", function()
    local name = define(with {})
    local own, built_in = tperf.train(asked { schedule = name }), tperf.train(asked { schedule = "1f1b" })
    assert.near(built_in.time, own.time, 1e-9 * own.time)
    assert.equal(built_in.memory.total, own.memory.total)
  end)

  it("is refused if it differs from the simulation, with the shape and both values", function()
    refuses("less than the 3 of a device's own passes", define,
      with { closed_form = function() return { F = -9.43 } end })
    -- P = 2, M = 1: F + B = 1 + 1.25 on either device, one after the other
    refuses("closed_form gives a makespan of 3.25 for 2 devices, 2 stages and 1 micro-batches, its simulation takes "
      .. "4.5", define, with { closed_form = function(p) return { F = form(p).F, B = p.microbatches } end })
    refuses("in_flight returned 0, where an integer of at least 1", define,
      with { in_flight = function() return 0 end })
    refuses("in_flight gives 1 for device 1 of 2 devices, 2 stages and 2 micro-batches, its simulation holds 2", define,
      with { in_flight = function() return 1 end })
    refuses("of which none of 2 to 6 devices runs", define, with { refuse = function() return "never works" end })
  end)

  it("below a device's own work is refused at larger shapes, too", function()
    local name = define(with { closed_form = function(p)
      return p.devices <= 6 and form(p) or { F = 1, B = 1 }
    end })
    refuses("less than the", tperf.train, asked { schedule = name, pp = 8, dp = 1 })
  end)

  it("that is no line in the micro-batches gives way to the simulation", function()
    local name = define(with { closed_form = function(p)
      local all = form(p)
      if p.microbatches > 40 then all.F = all.F + p.microbatches - 40 end
      return all
    end })
    local own, built_in = tperf.train(asked { schedule = name }), tperf.train(asked { schedule = "1f1b" })
    assert.near(built_in.time, own.time, 1e-6 * own.time)
  end)
end)

describe("a custom schedule", function()
  it("has a name of its own", function()
    tperf.schedule.define("custom_spec_once", order)
    refuses("'custom_spec_once' is defined already", tperf.schedule.define, "custom_spec_once", order)
  end)

  it("in both directions holds the weights of both stages of a device, stated or not", function()
    local unstated = define { order = both_ways, refuse = even }
    local stated = define { order = both_ways, refuse = even, placement = "mirrored", stages_per_device = 1 }
    local a, b = tperf.train(asked { schedule = unstated }), tperf.train(asked { schedule = stated })
    assert.equal(b.memory.total, a.memory.total)
    assert.equal(b.time, a.time)
    -- as DualPipe's devices hold: spec/simulate_spec.lua
    assert.equal(tperf.train(asked { schedule = "dualpipe" }).memory.weights, a.memory.weights)
    local t = tperf.schedule(asked { schedule = unstated })
    assert.equal(a.memory.total, t.peak.total)
    local found = tperf.search { model = "llama-3.1-8b", system = "h100-sxm", gpus = 16, global_batch = 16, tp = 2,
      pp = 4, schedule = unstated, top = 1, micro_batch = 1, recompute = "none", zero = 1 }
    assert.equal(a.memory.weights, found[1].memory.weights)
  end)

  it("whose devices run other stages than their own needs a placement for its memory", function()
    local name = define(function(s)
      for d = 1, s.devices do
        for m = 1, s.microbatches do s:forward(d, s.devices + 1 - d, m) end
        for m = 1, s.microbatches do s:backward(d, s.devices + 1 - d, m) end
      end
    end)
    refuses("runs stages 4 on device 1 of 4", tperf.train, asked { schedule = name })
    assert.is_true(tperf.schedule { schedule = name, devices = 4, microbatches = 4 }.makespan > 0)
  end)
end)
