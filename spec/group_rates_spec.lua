-- Serving of groups with a sequence of their own: those with a rate against the same layers written out by hand, those
-- that encode something once against models that have nothing else.
local cases = require "cases"
local tperf = require "tperf"
local op = tperf.op

local HIDDEN <const>, HEADS <const>, HEAD <const>, MLP <const> = 1024, 8, 128, 4096

local function mlp_of(p, name, rows)
  return {
    p:column { name = name .. "-up", n_in = HIDDEN, n_out = MLP, rows = rows },
    op.activation { name = name .. "-gelu", kind = "gelu", elements = 1.0 * (rows or p:inner_tokens()) * MLP / p.tp },
    p:row { name = name .. "-down", n_in = MLP, n_out = HIDDEN, rows = rows },
  }
end

local plain = tperf.block("plain", function(_, p)
  return { p:column { name = "qkv", n_in = HIDDEN, n_out = 3 * HIDDEN }, p:attention { heads = HEADS, head_dim = HEAD },
    p:row { name = "out", n_in = HIDDEN, n_out = HIDDEN }, mlp_of(p, "mlp") }
end)

local function model_of(groups, more)
  local layers = 0
  for _, group in ipairs(groups) do layers = layers + group.count end
  local m = { name = "m", layers = layers, hidden = HIDDEN, seq = 4096, vocab = 32000, norm = "rmsnorm",
    architecture = tperf.architecture { name = "a", groups = groups } }
  for name, value in pairs(more or {}) do m[name] = value end
  return tperf.model(m)
end

local function infer(model, o)
  local q = { model = model, system = "h100-sxm", prompt = 1024, generate = 33, batch = 1 }
  for name, value in pairs(o or {}) do q[name] = value end
  return tperf.infer(q)
end

local PLAIN <const> = { name = "plain", compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 0,
  engine = { release = "0", scheduler = "vllm" } } -- an engine that adds nothing to its kernels

local function serve(model, o)
  local list = {}
  for i = 1, o.batch or 1 do list[i] = { arrival = 0, prompt = o.prompt or 64, output = o.output or 65 } end
  return tperf.serve { model = model, system = "h100-sxm", requests = list, host = {}, software = PLAIN,
    sampling = "none", tp = o.tp, engine = o.engine }
end

-- The same layer with a quarter as many tokens, by hand.
local RATE <const> = 1 / 4
local rows_by_hand -- that have a token of theirs in a step; nil: a quarter of the batch
local by_hand = tperf.block("by hand", function(_, p)
  local decodes = p.mode == "decode"
  local sequences = decodes and (rows_by_hand or math.max(p.micro_batch // 4, 1)) or p.micro_batch
  local seq = decodes and 1 or p.seq // 4
  local rows, heads = sequences * seq, HEADS // p.tp
  local ops = {
    p:column { name = "qkv", n_in = HIDDEN, n_out = 3 * HIDDEN, rows = rows },
    op.attention { batch = sequences, heads = heads, head_dim = HEAD, queries = seq, keys = p.context // 4 + seq,
      causal = true },
    p:row { name = "out", n_in = HIDDEN, n_out = HIDDEN, rows = rows }, mlp_of(p, "mlp", rows),
  }
  return decodes and not rows_by_hand and op.times(p.micro_batch / 4 / sequences, ops) or ops
end)

describe("a group's rate", function()
  for _, o in ipairs { { batch = 1 }, { batch = 2 }, { batch = 8 }, { batch = 8, tp = 2 } } do
    it(("serves as the layers written out, %d requests, tp %d"):format(o.batch, o.tp or 1), function()
      local a = infer(model_of { { count = 2, key = "a", blocks = { plain } },
        { count = 4, key = "b", rate = RATE, blocks = { plain } } }, o)
      local b = infer(model_of { { count = 2, key = "a", blocks = { plain } },
        { count = 4, key = "b", blocks = { by_hand } } }, o)
      assert.near(1, a.ttft / b.ttft, 1e-9)
      assert.near(1, a.tpot / b.tpot, 1e-9)
      assert.near(1, a.memory.cache / b.memory.cache, 1e-3)
    end)
  end

  -- 7 requests have 1.75 tokens a step: in a quarter of the steps one, else two.
  it("takes the mean of steps whose sequences differ in number", function()
    local function groups(block, rate)
      return { { count = 2, key = "a", blocks = { plain } }, { count = 4, key = "b", rate = rate, blocks = { block } } }
    end
    local tpot = {}
    for rows = 1, 2 do
      rows_by_hand = rows
      tpot[rows] = infer(model_of(groups(by_hand)), { batch = 7 }).tpot
    end
    rows_by_hand = nil
    assert.near(0.25 * tpot[1] + 0.75 * tpot[2], infer(model_of(groups(plain, RATE)), { batch = 7 }).tpot, 1e-12)
  end)

  it("keeps weights and gradients once", function()
    local function weights(batch)
      return infer(model_of { { count = 4, key = "b", rate = RATE, blocks = { plain } } }, { batch = batch })
        .memory.weights
    end
    assert.equal(weights(4), weights(7))
  end)

  -- Static batches: all prompts in the first step, then all decode together, as tperf.infer has it.
  for i = 1, cases(1, 2) do
    local rate = ({ 1 / 4.5, 2 })[i]
    it(("is served by the simulator, %g"):format(rate), function()
      local model = model_of { { count = 2, key = "a", blocks = { plain } },
        { count = 4, key = "b", rate = rate, blocks = { plain } } }
      local own = infer(model, { prompt = 64, generate = 65, batch = 7, prefill_batch = 7 })
      local all = serve(model, { batch = 7 })
      assert.near(1, all.tpot.mean / own.tpot, 6e-3) -- tables are of 4 and 8 sequences
      assert.near(1, all.ttft.mean / own.ttft, 0.03)
      local each = 4096 * (2 + 4 * rate) -- keys and values of 8 heads of 128 features, in 16 bits
      assert.near(1, all.cache_tokens * each / all.memory.cache, 1e-3)
    end)
  end

  it("keeps so much of a cache", function()
    local function cache(rate)
      return infer(model_of { { count = 4, key = "b", rate = rate, blocks = { plain } } },
        { prompt = 992, generate = 32 }).memory.cache
    end
    for _, rate in ipairs { 1 / 2, 1 / 4, 1 / 16 } do assert.near(rate, cache(rate) / cache(1), 1e-3) end
  end)

  it("takes several steps, one after the other, where it is above 1", function()
    local function tpot(rate)
      return infer(model_of { { count = 4, key = "b", rate = rate, blocks = { plain } },
        { count = 1, key = "a", blocks = { plain } } }, { prompt = 64, generate = 9 }).tpot
    end
    -- weights are read once for each step; caches of 64 and 256 tokens are small beside them
    local one, three = tpot(1), tpot(3)
    local layers = (three - one) / 2
    assert.near(one + 3 * layers, tpot(4), 0.03 * one)
    assert.is_true(layers > 0.6 * one)
  end)

  it("is the sequence's length in training", function()
    local function time(group)
      group.count, group.key, group.blocks = 4, "b", { plain }
      return tperf.train { model = model_of { group }, system = "h100-sxm", global_batch = 8, dp = 8,
        software = "none" }.time
    end
    assert.equal(time { seq = 1024 }, time { rate = RATE })
    assert.is_true(time {} > 1.2 * time { rate = RATE })
  end)

  it("is refused beside a length, and where it is no number", function()
    local function group(fields)
      fields.count, fields.blocks = 1, { plain }
      return function() return model_of({ fields }):parameters() end
    end
    assert.error_matches(group { rate = 2, seq = 7 }, "group 1: 'rate' says how long its sequence is: leave out 'seq'")
    assert.error_matches(group { rate = 0 }, "group 1: 'rate' must be a number above 0")
  end)
end)

describe("a group with a sequence of its own", function()
  local FRAMES <const> = 1500
  local cross = tperf.block("cross", function(_, p)
    return { p:column { name = "q", n_in = HIDDEN, n_out = HIDDEN },
      p:attention { heads = HEADS, head_dim = HEAD, keys = FRAMES, causal = false },
      p:row { name = "out", n_in = HIDDEN, n_out = HIDDEN } }
  end)
  local made = {} -- models, whose tables of steps are remembered
  local function whisper(encoders)
    if made[encoders] then return made[encoders] end
    local groups = { { count = 4, key = "decoder", blocks = { plain, cross } } }
    if encoders > 0 then
      table.insert(groups, 1, { count = encoders, key = "encoder", seq = FRAMES, blocks = { plain } })
    end
    made[encoders] = model_of(groups)
    return made[encoders]
  end

  it("encodes once, with the prompt, and keeps nothing for decoding", function()
    local none, two, four = infer(whisper(0)), infer(whisper(2)), infer(whisper(4))
    assert.equal(none.tpot, four.tpot)
    assert.near(none.memory.cache, four.memory.cache, 1)
    local alone = {}
    for i, layers in ipairs { 2, 4 } do -- layers alone, with a prompt as long
      alone[i] = infer(model_of { { count = layers, key = "a", blocks = { plain } } }, { prompt = FRAMES }).ttft
    end
    assert.near(alone[2] - alone[1], four.ttft - two.ttft, 1e-9)
    assert.near(alone[2] - alone[1], two.ttft - none.ttft, 1e-9)
    assert.near(2 * 4 * (HIDDEN * 4 * HIDDEN + 2 * HIDDEN * MLP), four.memory.weights - none.memory.weights, 1)
  end)

  it("keeps the keys that the decoder attends to, whatever its own tokens", function()
    local short, long = infer(whisper(4), { prompt = 10, generate = 2 }),
    infer(whisper(4), { prompt = 1000, generate = 2 })
    local each = 4 * 2 * 2 * HIDDEN
    assert.near(each * (FRAMES + 16), short.memory.cache, each * 16)
    assert.near(each * (1000 - 10), long.memory.cache - short.memory.cache, each * 16)
  end)

  it("encodes in the simulator's step that begins a prompt, and adds nothing to others", function()
    for _, n in ipairs { 1, 8 } do
      local none, four = serve(whisper(0), { batch = n }), serve(whisper(4), { batch = n })
      local function ttft(encoders)
        return infer(whisper(encoders), { prompt = 64, generate = 65, batch = n, prefill_batch = n }).ttft
      end
      assert.near(1, (four.ttft.mean - none.ttft.mean) / (ttft(4) - ttft(0)), 1e-3)
      assert.equal(none.tpot.mean, four.tpot.mean)
    end
  end)

  it("encodes once for a prompt that is read in chunks", function()
    local engine = { max_num_batched_tokens = 256 }
    local function ttft(encoders)
      return serve(whisper(encoders), { prompt = 800, output = 2, engine = engine }).ttft.mean
    end
    local alone = serve(whisper(4), {}).ttft.mean - serve(whisper(0), {}).ttft.mean
    assert.near(1, (ttft(4) - ttft(0)) / alone, 1e-3)
  end)

  it("is refused beside a prefix cache, whose tokens say nothing of what is encoded", function()
    assert.error_matches(function() serve(whisper(4), { engine = { prefix_caching = true } }) end,
      "'engine.prefix_caching' finds equal tokens")
  end)
end)

describe("speculation", function()
  local EAGLE <const> = { method = "eagle", tokens = 2, acceptance = 0.5 }
  local decoder <const> = { count = 8, key = "decoder", blocks = { plain } }

  local function drafted(groups, engine)
    return serve(model_of(groups), { batch = 4, engine = { speculation = engine, num_blocks = 4096 } })
  end

  -- Without prompts to encode, an encoder of nothing: it adds neither layers that draft nor weights of these.
  it("drafts with the layers that decode, whatever encodes", function()
    local nothing = tperf.block("nothing", function(_, p)
      if p.mode ~= "train" then return {} end
      return { p:column { name = "x", n_in = 8, n_out = 8 } }
    end)
    local plain_one = drafted({ decoder }, EAGLE)
    local encoded = drafted({ { count = 8, key = "encoder", seq = 16, blocks = { nothing } }, decoder }, EAGLE)
    assert.near(1, encoded.tpot.mean / plain_one.tpot.mean, 1e-9)
    assert.near(1, encoded.memory.weights / plain_one.memory.weights, 1e-5)
    assert.equal(table.concat(plain_one.warnings, "\n"), table.concat(encoded.warnings, "\n"))
  end)

  it("copies no encoder", function()
    local function weights(engine)
      return drafted({ { count = 8, key = "encoder", seq = 64, blocks = { plain } }, decoder }, engine).memory.weights
    end
    -- 2 bytes of each of a layer's weights, and of an eighth of the tables
    local layer, tables = 4 * HIDDEN * HIDDEN + 2 * HIDDEN * MLP, 2 * 32000 * HIDDEN
    local norm = HIDDEN
    assert.near(2 * (8 * layer + tables + norm) / 8, weights(EAGLE) - weights(nil), 1)
  end)

  it("with one of layers that have other numbers of tokens is refused, unless its part is given", function()
    local groups = { { count = 2, key = "bytes", blocks = { plain } },
      { count = 6, key = "patches", rate = 1 / 4, blocks = { plain } } }
    assert.error_matches(function() drafted(groups, EAGLE) end, "group 'patches' have 0.25 tokens for each")
    assert.truthy(drafted(groups, { method = "eagle", tokens = 2, acceptance = 0.5, part = 0.1 }).tpot)
    assert.truthy(drafted(groups, { method = "ngram", tokens = 2, acceptance = 0.5 }).tpot)
  end)
end)
