-- op.times, op.conv, op.frozen and op.forward_only against written-out ops, closed forms and the question's own
-- `frozen`.
local tperf = require "tperf"
local op = tperf.op

local HIDDEN <const>, WIDE <const>, LAYERS <const>, SEQ <const> = 1024, 4096, 8, 512

local function model_of(...)
  local layer = {}
  for i, build in ipairs { ... } do layer[i] = tperf.block("block" .. i, build) end
  return tperf.model { name = "m", layers = LAYERS, hidden = HIDDEN, seq = SEQ, vocab = 32000, norm = "rmsnorm",
    architecture = tperf.architecture { name = "a", layer = layer } }
end

-- A product, its message, a pass over elements and attention, without weights that would count twice.
local function work(p)
  return {
    p:column { name = "up", n_in = HIDDEN, n_out = WIDE, weights_elsewhere = true },
    op.activation { kind = "gelu", elements = p:inner(WIDE) },
    p:attention { heads = 16, head_dim = 64, causal = true },
    p:row { name = "down", n_in = WIDE, n_out = HIDDEN, weights_elsewhere = true },
    op.collective { kind = "all_reduce", axis = "tp", bytes = 1e6 },
  }
end

local function held(p)
  return { p:column { name = "up", n_in = HIDDEN, n_out = WIDE }, p:row { name = "down", n_in = WIDE, n_out = HIDDEN } }
end

local function written_out(n)
  return model_of(function(_, p)
    local list = { held(p) }
    for i = 1, n do list[i + 1] = work(p) end
    return list
  end)
end

local function with_times(n)
  return model_of(function(_, p) return { held(p), op.times(n, work(p)) } end)
end

local QUESTIONS <const> = {
  { tp = 1, dp = 8 }, { tp = 4, dp = 2 }, { tp = 2, pp = 2, dp = 2 }, { tp = 2, dp = 4, recompute = "full" },
  { tp = 2, dp = 4, software = "none" }, { tp = 2, dp = 4, overlap_tp = "ring" },
  { tp = 2, dp = 4, sequence_parallel = false },
}

local function asked(model, more)
  local q = { model = model, system = "h100-sxm", global_batch = 64 }
  for name, value in pairs(more) do q[name] = value end
  return q
end

describe("op.times", function()
  for i, more in ipairs(QUESTIONS) do
    it("costs what as many ops cost, in training " .. i, function()
      local a, b = tperf.train(asked(written_out(3), more)), tperf.train(asked(with_times(3), more))
      assert.near(1, b.time / a.time, 1e-12)
      assert.near(1, b.mfu / a.mfu, 1e-12)
      for _, part in ipairs { "weights", "gradients", "optimizer", "activations" } do
        assert.near(a.memory[part], b.memory[part], 1e-9 * a.memory[part])
      end
      for part, seconds in pairs(a.breakdown) do assert.near(seconds, b.breakdown[part], 1e-12) end
    end)
  end

  it("costs what as many ops cost, in serving", function()
    local function ask(model) return tperf.infer { model = model, system = "h100-sxm", prompt = 256, generate = 64,
      tp = 2 } end
    local a, b = ask(written_out(3)), ask(with_times(3))
    assert.near(1, b.ttft / a.ttft, 1e-12)
    assert.near(1, b.tpot / a.tpot, 1e-12)
  end)

  it("is proportional to the number, which need not be whole", function()
    local function passes(n)
      local layer = tperf.layer { model = model_of(function(_, p) return op.times(n, work(p)) end),
        system = "h100-sxm", tp = 2 }
      local sum = 0
      for _, one in ipairs(layer) do sum = sum + one.forward.time + one.backward.time end
      return sum
    end
    local once = passes(1)
    for _, n in ipairs { 0.001, 0.125, 0.5, 7, 1000.5 } do assert.near(1, passes(n) / (n * once), 1e-9) end
  end)

  it("takes as long in a simulation of its tasks as in the sum", function()
    for _, more in ipairs { { tp = 2, dp = 4 }, { tp = 2, pp = 2, dp = 2 }, { tp = 4, dp = 2, overlap_tp = "ring" } } do
      local q = asked(with_times(2.5), more)
      local sum = tperf.train(q).time
      q.simulate = true
      assert.near(1, tperf.train(q).time / sum, 1e-9)
    end
  end)

  it("is a search's time to the bit", function()
    local model = with_times(2.5)
    local found = tperf.search { model = model, system = "h100-sxm", gpus = 8, global_batch = 64, top = 3 }
    for _, c in ipairs(found) do
      local again = tperf.train { model = model, system = "h100-sxm", global_batch = 64, tp = c.tp, pp = c.pp,
        dp = c.dp,
        micro_batch = c.micro_batch, zero = c.zero, recompute = c.recompute, schedule = c.schedule,
        sequence_parallel = c.sequence_parallel, strategy = c.strategy, cp = c.cp, ulysses = c.ulysses,
        order = c.order }
      assert.near(c.time, again.time, 1e-12 * c.time)
    end
  end)

  it("may be any function of the context in decoding", function()
    local function tpot(times)
      local model = model_of(function(_, p)
        local up = p:column { name = "up", n_in = HIDDEN, n_out = WIDE }
        return { p.mode == "decode" and op.times(times(p.context), up) or up,
          p:row { name = "down", n_in = WIDE, n_out = HIDDEN } }
      end)
      return tperf.infer { model = model, system = "h100-sxm", prompt = 100, generate = 129, batch = 1 }.tpot
    end
    local once = tpot(function() return 1 end)
    local more = tpot(function() return 2 end) - once
    for _, times in ipairs { function(c) return c % 64 == 0 and 2 or 1 end, function(c) return 1 + c / 1000 end } do
      local sum = 0
      for context = 100, 227 do sum = sum + once + more * (times(context) - 1) end
      assert.near(1, tpot(times) / (sum / 128), 1e-7)
    end
  end)

  it("multiplies when it is nested, and leaves the given ops alone", function()
    local one = op.linear { tokens = 16, n_in = 16, n_out = 16 }
    local twice = op.times(3, op.times(2, one))
    assert.equal(6 * one:counts().forward.tensor_flops, twice:counts().forward.tensor_flops)
    assert.equal(6 * one:counts().saved_bytes, twice:counts().saved_bytes)
    assert.equal(one:counts().weight_bytes, twice:counts().weight_bytes)
    assert.equal(16 * 16 * 2, one:counts().saved_bytes)
  end)

  it("refuses other numbers and other things", function()
    assert.error_matches(function() op.times(0, {}) end, "op.times: the first argument must be a number above 0, got 0")
    assert.error_matches(function() op.times(2, 7) end, "op.times needs an op or a list of ops, got 7")
  end)
end)

describe("op.conv", function()
  it("has the counts of an implicit product: rows for each position, its input once", function()
    local b, h, w, i, o, k, s = 3, 64, 48, 320, 640, 3, 2
    local c = op.conv({ batch = b, size = { h, w }, kernel = k, stride = s, n_in = i, n_out = o, bias = true }):counts()
    local before, after = b * h * w * i, b * (h // s) * (w // s) * o
    assert.equal(after * (2 * k * k * i - 1), c.forward.tensor_flops)
    assert.equal(2 * (k * k * i * o + o), c.weight_bytes)
    assert.equal(2 * before, c.saved_bytes)
    assert.equal(2 * (before + after + k * k * i * o + o), c.forward.bytes)
    assert.equal(2 * (2 * before + 2 * after + 2 * k * k * i * o + o), c.backward.bytes)
  end)

  -- RegNet's and ResNeXt's: 32 groups of 32 channels.
  it("in groups is as many products, whose weights are no experts'", function()
    local b, h, w, i, o, k, g = 3, 16, 16, 1024, 2048, 3, 32
    local one = op.conv { batch = b, size = { h, w }, kernel = k, n_in = i, n_out = o, groups = g, bias = true }
    local c = one:counts()
    local before, after, weights = b * h * w * i, b * h * w * o, k * k * i * o // g
    assert.equal(after * (2 * k * k * i // g - 1), c.forward.tensor_flops)
    assert.equal(2 * (weights + o), c.weight_bytes)
    assert.equal(weights + o, one:parameters())
    assert.equal(2 * before, c.saved_bytes)
    assert.equal(2 * (before + after + weights + o), c.forward.bytes)
    assert.falsy(c.expert)
    assert.same(op.conv({ batch = b, size = { h, w }, kernel = k, n_in = i, n_out = o }):counts(),
      op.conv({ batch = b, size = { h, w }, kernel = k, n_in = i, n_out = o, groups = 1 }):counts())
  end)

  it("in groups of few channels is a pass over its input and output", function()
    local b, h, w, i, k, s = 2, 56, 56, 96, 7, 2 -- depthwise
    local one = op.conv { batch = b, size = { h, w }, kernel = k, stride = s, n_in = i, n_out = i, groups = i }
    local c = one:counts()
    local before, after = b * h * w * i, b * (h // s) * (w // s) * i
    assert.equal(0, c.forward.tensor_flops)
    assert.near(after * (2 * k * k - 1), c.forward.vector_flops, 1)
    assert.equal(k * k * i, one:parameters())
    assert.near(2 * before, c.saved_bytes, 1)
    assert.near(2 * (before + after) + 2 * k * k * i, c.forward.bytes, 2 * k * k * i + 1)
    assert.error_matches(function()
      op.conv { batch = 1, size = 8, kernel = 3, n_in = 8, n_out = 12, groups = 8 }
    end, "'groups' = 8 must divide n_in = 8 and n_out = 12")
    assert.error_matches(function()
      op.conv { batch = 1, size = 8, kernel = 3, n_in = 8, n_out = 8, groups = 8, shared_as = "x" }
    end, "'shared_as' is of products")
  end)

  it("is a product if its kernel has one position", function()
    local c = op.conv({ batch = 2, size = { 8, 8 }, kernel = 1, n_in = 64, n_out = 32 }):counts()
    assert.same(op.linear({ name = "conv", tokens = 128, n_in = 64, n_out = 32 }):counts(), c)
  end)

  it("has one direction, or several with numbers of their own", function()
    -- Whisper's first
    local c = op.conv({ batch = 1, size = 3000, kernel = 3, stride = 2, n_in = 80, n_out = 512 }):counts()
    assert.equal(2 * 3 * 80 * 512, c.weight_bytes)
    local d = op.conv({ batch = 1, size = { 9, 33, 33 }, kernel = { 1, 3, 3 }, stride = { 1, 2, 2 }, n_in = 4,
      n_out = 8 }):counts()
    assert.equal(9 * 17 * 17 * 8 * (2 * 9 * 4 - 1), d.forward.tensor_flops)
  end)

  it("refuses what it cannot have", function()
    assert.error_matches(function() op.conv { batch = 1, size = { 8, 8 }, kernel = { 3, 3, 3 }, n_in = 4,
      n_out = 4 } end,
      "'kernel' has 3 numbers for 2 directions")
    assert.error_matches(function() op.conv { batch = 1, size = { 8, 8 }, kernal = 3, n_in = 4, n_out = 4 } end,
      "unknown field 'kernal' %(did you mean 'kernel'%?%)")
    assert.error_matches(function() op.conv { batch = 1, size = 8, n_in = 4, n_out = 4 } end, "'kernel' is missing")
  end)
end)

describe("op.frozen", function()
  local function mlp(name, change)
    return tperf.block(name, function(_, p)
      return change {
        p:norm { name = "norm", width = HIDDEN }, p:column { name = "up", n_in = HIDDEN, n_out = WIDE },
        op.activation { kind = "gelu", elements = p:inner(WIDE) }, p:row { name = "down", n_in = WIDE, n_out = HIDDEN },
        op.residual { elements = p:outer(HIDDEN) },
      }
    end)
  end
  local function same(ops) return ops end
  local function model(change)
    return tperf.model { name = "m", layers = LAYERS, hidden = HIDDEN, seq = SEQ, vocab = 32000, norm = "rmsnorm",
      architecture = tperf.architecture { name = "a", layer = { mlp("trained", same), mlp("kept", change) } } }
  end

  it("is the question's `frozen` of the same blocks", function()
    for _, more in ipairs { { dp = 8 }, { tp = 2, dp = 4, zero = 1 }, { pp = 2, tp = 2, dp = 2 } } do
      local whole = asked(model(same), more)
      whole.frozen = { "kept" }
      local a, b = tperf.train(whole), tperf.train(asked(model(op.frozen), more))
      assert.near(1, b.time / a.time, 1e-12)
      for _, part in ipairs { "weights", "gradients", "optimizer", "activations" } do
        assert.near(a.memory[part], b.memory[part], 1e-9 * a.memory[part])
      end
    end
  end)

  it("counts its parameters, and gradients of the others alone", function()
    local each = 2 * HIDDEN + 2 * HIDDEN * WIDE -- a norm's scale and shift, two products
    assert.equal(2 * LAYERS * each + 2 * 32000 * HIDDEN + HIDDEN, model(op.frozen):parameters().total)
    local all, part = tperf.train(asked(model(same), { dp = 8 })), tperf.train(asked(model(op.frozen), { dp = 8 }))
    assert.equal(all.memory.weights, part.memory.weights)
    local bytes = all.memory.gradients / (2 * LAYERS * each + 2 * 32000 * HIDDEN + HIDDEN)
    assert.near(LAYERS * each * bytes, all.memory.gradients - part.memory.gradients, 1)
  end)

  it("keeps nothing and has no backward pass, if only forward", function()
    local c = op.forward_only(op.linear { tokens = 64, n_in = 32, n_out = 16 }):counts()
    assert.equal(0, c.saved_bytes + c.trained + c.backward.tensor_flops + c.backward.bytes)
    assert.equal(2 * 32 * 16, c.weight_bytes)
    assert.equal(64 * 16 * 63, c.forward.tensor_flops)
  end)
end)

describe("rows of ops that run several times", function()
  it("have the time, FLOPs and bytes of all runs, in prompts and in decoding", function()
    local function rows(times)
      local block = tperf.block("b", function(m, p)
        return op.times(times, { p:column { name = "up", n_in = m.hidden, n_out = m.hidden } })
      end)
      local m = tperf.model { name = "m", layers = 1, hidden = 2048, seq = 512, vocab = 1000,
        architecture = tperf.architecture { name = "a", layer = { block } } }
      local found = {}
      for _, row in ipairs(tperf.infer({ model = m, system = "h100-sxm", prompt = 100, generate = 20,
        ops = true }).ops) do
        if row.name == "up" then found[row.phase] = row end
      end
      return found
    end
    local once, often = rows(1), rows(3.5)
    for _, phase in ipairs { "prefill", "decode" } do
      for _, name in ipairs { "time", "flops", "bytes" } do
        assert.near(3.5, often[phase][name] / once[phase][name], 1e-12)
      end
      assert.equal(once[phase].bound, often[phase].bound)
      assert.equal(once[phase].intensity, often[phase].intensity)
      assert.equal(once[phase].weight_bytes, often[phase].weight_bytes)
    end
  end)
end)
