-- Schedules with times from the cost model: tperf.train{ simulate = } and tperf.schedule{ model = }.
local tperf = require "tperf"

local function configuration(changes)
  local a = { model = "gpt3-175b", system = "a100-sxm-80gb", global_batch = 512, tp = 8, pp = 8, gpus = 1024,
    micro_batch = 1, rules = "subramanian2024" }
  for name, value in pairs(changes) do a[name] = value end
  return a
end

local function refuses(text, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(message:find(text, 1, true), message)
  assert.truthy(message:find("simulate_spec.lua:", 1, true), message)
end

describe("tperf.train with simulate", function()
  it("gives the closed form's time, with a hop added to each pass for its message", function()
    for _, pp in ipairs { 1, 2, 8 } do
      for _, name in ipairs { "1f1b", "gpipe" } do
        local c, t = tperf.train(configuration { pp = pp, simulate = name })
        assert.near(c.time, c.simulated.time, 1e-9 * c.time)
        assert.equal(name, c.simulated.schedule)
        local hop = pp > 1 and c.breakdown.pipeline_comm / (2 * c.microbatches) or 0
        local layers, op = 96 / pp, t:op { stage = 1, microbatch = 2, type = "forward" }
        local forward = 0
        for _, one in ipairs(c.layers) do forward = forward + one.forward.time end
        assert.near(layers * forward + hop, op.stop - op.start, 1e-9)
      end
    end
  end)

  it("holds the closed form's activations", function()
    local c = tperf.train(configuration { simulate = true })
    assert.near(c.memory.activations, c.simulated.activations, 1e-9 * c.memory.activations)
  end)

  it("splits a backward pass into the time of the weight gradients and the rest", function()
    local c, t = tperf.train(configuration { simulate = "zb_h1" })
    local backward, products = 0, 0
    for _, op in ipairs(c.layers) do
      backward = backward + op.backward.time
      if op.name:find "^fc%d$" or op.name == "qkv" or op.name == "vproj" then
        products = products + op.backward.time - op.backward.comm_time
      end
    end
    local function time(pass)
      local op = t:op { stage = 2, microbatch = 1, type = pass }
      return op.stop - op.start
    end
    local hop = c.breakdown.pipeline_comm / (2 * c.microbatches)
    -- each of the two products is priced by its own shape; spec/split_passes_spec.lua has their times
    assert.near(12 * products / 2, time "backward_weight", 0.03 * 12 * products / 2)
    assert.near(12 * backward + hop, time "backward_weight" + time "backward_input", 1e-12)
  end)

  it("hides communication in overlapped passes, never more than there is", function()
    local c, t = tperf.train(configuration { simulate = "1f1b_overlap" })
    local work, comm = 0, 0
    for _, op in ipairs(c.layers) do
      work = work + op.forward.time + op.backward.time
      comm = comm + op.forward.comm_time + op.backward.comm_time
    end
    local op = t:op { stage = 2, microbatch = 3, type = "backward" }
    local hop = c.breakdown.pipeline_comm / (2 * c.microbatches)
    assert.near(12 * (work - comm) + 2 * hop, op.stop - op.start, 1e-12)
  end)

  it("simulates a schedule with other stages than the configuration's", function()
    local c, t = tperf.train(configuration { simulate = { schedule = "interleaved_1f1b", stages = 40 } })
    assert.equal(40, t.stages)
    local function time(stage)
      local op = t:op { stage = stage, microbatch = 1, type = "forward" }
      return op.stop - op.start
    end
    local layer = 0
    for _, one in ipairs(c.layers) do layer = layer + one.forward.time end
    -- 96 layers: three on the 16 stages in the middle, two on the others
    assert.near(layer, time(13) - time(12), 1e-9 * layer)
    assert.near(layer, time(28) - time(29), 1e-9 * layer)
    local plain = tperf.train(configuration { simulate = true })
    assert.is_true(c.simulated.time < plain.simulated.time)
    for _, strategy in ipairs { { strategy = "summa", tp1 = 4, tp2 = 2 }, { strategy = "context", cp = 2, tp = 4 } } do
      strategy.rules, strategy.simulate = "default", "zbv"
      if strategy.strategy == "summa" then strategy.tp = false end
      local a = configuration(strategy)
      if not a.tp then a.tp = nil end
      assert.is_true(tperf.train(a).simulated.time > 0)
    end
  end)

  -- One micro-batch passes all layers, and comes back.
  it("happens unasked where the closed form does not hold", function()
    local function alone(schedule)
      return tperf.train(configuration {
        pp = 4, dp = 1, gpus = 32, global_batch = 1, schedule = schedule, zero = 0,
        fast = { tp = 8, dp = 1, pp = 1 },
      })
    end
    local plain, interleaved, split = alone "1f1b", alone "interleaved_1f1b", alone "zb1p"
    assert.equal(2, interleaved.virtual_stages)
    local hop = interleaved.breakdown.pipeline_comm / 4 -- of two chunks, forward and backward
    assert.near(plain.time, interleaved.time, 12 * hop)
    assert.truthy(split.time < plain.time and split.time > 0.7 * plain.time) -- weight gradients wait for no stage
  end)

  it("advises on such batches what it would answer", function()
    for _, schedule in ipairs { "zb1p", "interleaved_1f1b" } do
      local asked = { model = "llama-3.1-8b", system = "a40", tp = 2, pp = 4, dp = 1, global_batch = 1, zero = 1,
        schedule = schedule, seq = 28672, recompute = "none" }
      local reason = tperf.train(asked).reason
      asked.recompute = "full"
      local fits = tperf.train(asked)
      assert.is_true(fits.feasible)
      local wanted = ('it would fit with recompute = "full" (%.4g GB)'):format(fits.memory.total / 1e9)
      assert.truthy(reason:find(wanted, 1, true), reason)
    end
  end)

  it("refuses unsupported simulations", function()
    refuses("'schedule' must be one of", tperf.train, configuration { simulate = "2f1b" })
    refuses("(did you mean '1f1b'?)", tperf.train, configuration { simulate = "1f11b" })
    refuses("'simulate' must be a table, got 3", tperf.train, configuration { simulate = 3 })
    refuses("unknown field 'simulate.stage' (did you mean 'stages'?)", tperf.train,
      configuration { simulate = { stage = 2 } })
    refuses("104 in all, more than the model's 96 layers", tperf.train,
      configuration { simulate = { schedule = "interleaved_1f1b", stages = 104 } })
    refuses("over its 'memory_limit'", tperf.train,
      configuration { simulate = { schedule = "1f1b", memory_limit = "1 GiB" } })
  end)
end)

describe("tperf.schedule with a model", function()
  it("is the timeline of tperf.train", function()
    local c, expected = tperf.train(configuration { schedule = "zbv", simulate = true })
    local a = configuration { schedule = "zbv" }
    local t = tperf.schedule(a)
    assert.equal(expected.makespan, t.makespan)
    assert.equal(c.simulated.time, t.iteration_time)
    assert.equal(c.time, t.configuration.time)
    assert.equal("zbv", a.schedule) -- the caller's table is left alone
    assert.is_nil(a.simulate)
  end)

  it("is priced as its own schedule, however it is asked for", function()
    local function asked(changes)
      local a = { model = "llama-3.1-8b", system = "h100-sxm", tp = 2, pp = 4, dp = 2, global_batch = 16 }
      for name, value in pairs(changes) do a[name] = value end
      return a
    end
    for _, name in ipairs { "dualpipe", "dualpipe_v", "zbv", "v_half", "v_min", "interleaved_1f1b", "gpipe" } do
      local c, own = tperf.train(asked { schedule = name, simulate = true })
      local t = tperf.schedule(asked { schedule = name })
      local _, beside = tperf.train(asked { simulate = name })
      for _, other in ipairs { t, beside } do
        assert.equal(own.peak.total, other.peak.total, name)
        assert.equal(own.iteration_time, other.iteration_time, name)
      end
      assert.equal(c.memory.total, t.configuration.memory.total, name)
    end
    -- each GPU of DualPipe holds its stage and the mirrored one: 8.03e9 parameters over tp 2 x pp 4, twice, of which
    -- the ends' 2 x 0.525e9 are on two of the four pairs alone: (8.03 - 1.05) / 4 + 1.05 / 2 in bf16 over tp 2
    local t = tperf.schedule(asked { schedule = "dualpipe" })
    assert.near(2 * ((8.03e9 - 1.05e9) / 4 / 2 * 2 + 1.05e9 / 2), t.peak.alive.weights, 0.01 * t.peak.alive.weights)
  end)

  it("takes chunks as stages", function()
    local t = tperf.schedule(configuration { schedule = "interleaved_1f1b", stages = 32, rules = "default" })
    assert.equal(32, t.stages)
    assert.equal(4, t.configuration.virtual_stages)
  end)

  it("takes either kind of rules", function()
    local t = tperf.schedule(configuration { schedule = "zbv", rules = "zero-bubble" })
    local default = tperf.schedule(configuration { schedule = "zbv", rules = "default" })
    assert.equal(default.makespan, t.makespan) -- the default rules charge latency alike …
    assert.is_true(t.bubble_rate ~= default.bubble_rate) -- … but measure the bubble differently
    refuses("rules", tperf.schedule, configuration { schedule = "zbv", rules = "zero" })
    refuses("unknown field 'tpp'", tperf.schedule, configuration { schedule = "zbv", tpp = 2 })
  end)
end)
