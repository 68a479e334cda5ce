-- Models of several stacks, each with its own sequence, and architectures that declare their features.
local tperf = require "tperf"
local op = tperf.op

local ENCODER <const>, DECODER <const> = 512, 128

local function attention(name, causal, source)
  return tperf.block(name, function(m, p)
    local cut = p:heads(m.heads, m.kv_heads)
    local width, ops = cut.heads * m.head_dim, { p:norm { name = "norm", width = m.hidden } }
    if source then
      ops[2] = p:column { name = "q", n_in = m.hidden, local_out = width }
      ops[3] = p:column { name = "kv", n_in = m.hidden, local_out = 2 * width, rows = p.micro_batch * source // p.tp }
    else
      ops[2] = p:column { name = "qkv", n_in = m.hidden, local_out = 3 * width }
    end
    ops[#ops + 1] = op.attention {
      name = "attention", batch = p.micro_batch, heads = cut.heads, queries = p.seq, keys = source or p.seq,
      head_dim = m.head_dim, causal = causal,
    }
    ops[#ops + 1] = p:row { name = "proj", n_in = m.heads * m.head_dim, n_out = m.hidden }
    return ops
  end)
end

local mlp = tperf.block("mlp", function(m, p)
  return {
    p:norm { name = "norm", width = m.hidden }, p:column { name = "fc1", n_in = m.hidden, n_out = m.ffn },
    op.gelu { name = "gelu", elements = p:inner(m.ffn) }, p:row { name = "fc2", n_in = m.ffn, n_out = m.hidden },
  }
end)

local function model(changes)
  local fields = {
    name = "t5", groups = {
      { count = 24, key = "encoder", seq = ENCODER, blocks = { attention("self", false), mlp } },
      { count = 24, key = "decoder", blocks = { attention("self", true), attention("cross", false, ENCODER), mlp } },
    },
  }
  for name, value in pairs(changes or {}) do fields[name] = value end
  return tperf.model {
    name = "t5-large", layers = 48, hidden = 1024, heads = 16, ffn = 4096, seq = DECODER, vocab = 32128,
    architecture = tperf.architecture(fields),
  }
end

local function train(given)
  given.system, given.global_batch, given.software = "a100-sxm-80gb", 64, "none"
  return tperf.train(given)
end

local function op_of(kind, block, name)
  for _, one in ipairs(kind.ops) do
    if one.block == block and one.name == name then return one end
  end
end

describe("a model of two stacks", function()
  local c = train { model = model(), tp = 2, pp = 2, dp = 4 }

  it("computes each stack over its own tokens", function()
    local encoder, decoder = c.kinds[1], c.kinds[2]
    assert.same({ "encoder", 24, "decoder", 24 }, { encoder.key, encoder.count, decoder.key, decoder.count })
    -- Y = X W of n tokens, from 1024 to the half of 4096 features.
    local function product(n) return n * 2048 * (2 * 1024 - 1) end
    assert.equal(product(ENCODER), op_of(encoder, "mlp", "fc1").forward.tensor_flops)
    assert.equal(product(DECODER), op_of(decoder, "mlp", "fc1").forward.tensor_flops)
    -- Keys and values of the encoder's tokens, for half of the heads.
    assert.equal(ENCODER * 1024 * (2 * 1024 - 1), op_of(decoder, "cross", "kv").forward.tensor_flops)
    assert.equal(8 * (DECODER * ENCODER * 127 + 64 * (2 * DECODER * ENCODER - DECODER)),
      op_of(decoder, "cross", "attention").forward.tensor_flops)
  end)

  it("lies on the stages of a pipeline in order, and sends the wider stream", function()
    assert.same({ 24, 24 }, { c.stages[1].layers, c.stages[2].layers })
    local bytes = 2 * ENCODER * 1024 // 2 -- 16-bit numbers of the tokens that a GPU of tp has
    local send = tperf.collective { system = "a100-sxm-80gb", kind = "send", bytes = bytes, gpus = 2 }
    local nearby = train { model = model(), tp = 2, pp = 2, dp = 1, fast = { tp = 2, pp = 2, dp = 1 } }
    assert.near(2 * 64 * send, nearby.breakdown.pipeline_comm, 1e-9 * send * 64)
  end)

  it("is cut only by sizes that divide both sequences", function()
    local ok, message = pcall(train, { model = model { groups = {
      { count = 24, key = "encoder", seq = 511, blocks = { mlp } }, { count = 24, key = "decoder", blocks = { mlp } },
    } }, tp = 2 })
    assert.is_false(ok)
    assert.truthy(message:find("does not divide the tokens of a micro-batch, of 511", 1, true), message)
  end)

  it("is searched", function()
    local found = tperf.search { model = model(), system = "a100-sxm-80gb", gpus = 16, global_batch = 64,
      software = "none" }
    assert.is_true(found.feasible > 100)
    local best = found[1]
    local again = train { model = model(), configuration = best }
    assert.equal(best.time, again.time)
  end)

  it("is inferred and served, its encoder once (group_rates_spec)", function()
    local question = { model = model(), system = "a100-sxm-80gb", prompt = 8, generate = 8 }
    assert.is_true(tperf.infer(question).ttft > 0)
    local served = tperf.serve { model = model(), system = "a100-sxm-80gb",
      requests = { { arrival = 0, prompt = 8, output = 8 } } }
    assert.is_true(served.finished == 1 and served.ttft.mean > 0)
  end)
end)

describe("an architecture", function()
  it("states its parameters and FLOPs per token, which MFU follows", function()
    local stated = model { parameters = 737668096, flops_per_token = 5e9 }
    assert.equal(737668096, stated:parameters().total)
    assert.equal(5e9, stated:flops_per_token().total)
    assert.near(5e9 / 3, stated:flops_per_token({ backward = false }).total, 1)
    local c = train { model = stated, dp = 8 }
    assert.near(5e9 * c.tokens_per_second / (8 * 312e12), c.mfu, 1e-9)
    local routed = model { parameters = function() return 1000, 10 end }
    assert.same({ 1000, 10 }, { routed:parameters().total, routed:parameters().active })
  end)

  it("tells its kinds of layers apart by any field", function()
    local block = tperf.block("block", function(m, p)
      return { p:column { name = "fc1", n_in = m.hidden, n_out = m.ffn * p.group.wide },
        p:row { name = "fc2", n_in = m.ffn * p.group.wide, n_out = m.hidden } }
    end)
    local own = model {
      layer = { block }, groups = function(m)
        return { { count = 8, key = "wide", wide = 2 }, { count = m.layers - 16, key = "plain", wide = 1 },
          { count = 8, key = "wide", wide = 2 } }
      end,
    }
    local c = train { model = own, dp = 8 }
    assert.same({ 2, 16, 32 }, { #c.kinds, c.kinds[1].count, c.kinds[2].count })
    assert.equal(2 * c.kinds[2].ops[1].weight_bytes, c.kinds[1].ops[1].weight_bytes)
    local unnamed = model { layer = { block }, groups = function(m)
      return { { count = 8, wide = 2 }, { count = m.layers - 16, wide = 1 }, { count = 8, wide = 2 } }
    end }
    local same = train { model = unnamed, dp = 8 }
    assert.same({ c.time, 2, "wide 2", "wide 1" }, { same.time, #same.kinds, same.kinds[1].key, same.kinds[2].key })
  end)

  it("refuses invalid groups and statements", function()
    for changes, message in pairs {
      [{ groups = {} }] = "'groups' must be a list of 1 to 4096 groups",
      [{ groups = { { count = 24, key = "a", blocks = { mlp }, wide = 1 },
        { count = 24, key = "a", blocks = { mlp }, wide = 2 } } }]
        = "groups 1 and 2 have the key 'a' and differ in 'wide': give them two keys, or none",
      [{ groups = { { count = 1, key = "a", blocks = { mlp } } } }] = "the groups have 1 layers, the model 48",
      [{ groups = { { count = 48, key = "a" } } }] = "group 1: 'blocks' must be a list of blocks",
      [{ groups = { { count = 0, key = "a",
        blocks = { mlp } } } }] = "group 1: 'count' must be an integer of at least 1",
      [{ groups = { { count = 48, key = 7, blocks = { mlp } } } }] = "group 1: 'key' must be a name",
      [{ groups = { { count = 48, key = "a", seq = 0.5, blocks = { mlp } } } }] = "group 1: 'seq' must be an integer",
      [{ groups = 7 }] = "'groups' must be a list or a function",
      [{ parameters = -1 }] = "'parameters' must be a number above 0",
    } do
      local ok, text = pcall(function() return train { model = model(changes), dp = 8 } end)
      assert.is_false(ok)
      assert.truthy(text:find(message, 1, true), text)
    end
    local ok, text = pcall(function() return model({ parameters = function() return "many" end }):parameters() end)
    assert.is_false(ok)
    assert.truthy(text:find("'parameters' returned", 1, true), text)
  end)
end)
