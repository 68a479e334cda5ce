-- Encoder–decoders: an encoder with its own sequence, and a decoder that attends to its output.
local tperf = require "tperf"

local here = "spec/data/hf/"

local function file(name) return tperf.model(here .. name .. ".json") end

-- T5's parameters by hand: one table of words, or two; in every encoder layer four products of attention, the MLP's and
-- two norms; in every decoder layer four products more, and a norm; a norm and a table of positions for each stack.
local function by_hand(o)
  local attention, mlp = 4 * o.hidden * o.heads * o.head_dim, (o.gated and 3 or 2) * o.hidden * o.ffn
  local encoder, decoder = attention + mlp + 2 * o.hidden, 2 * attention + mlp + 3 * o.hidden
  return (o.tied and 1 or 2) * o.vocab * o.hidden + o.layers * (encoder + decoder) + 2 * o.hidden
    + 2 * 32 * o.heads
end

local function train(given)
  local o = { system = "a100-sxm-80gb", global_batch = 32, software = "none" }
  for name, value in pairs(given) do o[name] = value end
  return tperf.train(o)
end

local function op_of(kind, block, name)
  for _, one in ipairs(kind.ops) do
    if one.block == block and one.name == name then return one end
  end
end

describe("T5", function()
  it("has the parameters that its layers add up to", function()
    for name, o in pairs {
      ["t5-small"] = { layers = 6, hidden = 512, heads = 8, head_dim = 64, ffn = 2048, vocab = 32128, tied = true },
      ["t5-3b"] = { layers = 24, hidden = 1024, heads = 32, head_dim = 128, ffn = 16384, vocab = 32128, tied = true },
      ["mt5-small"] = { layers = 8, hidden = 512, heads = 6, head_dim = 64, ffn = 1024, vocab = 250112, gated = true },
    } do
      local count = file(name):parameters()
      assert.equal(by_hand(o), count.total)
      assert.equal(2, #count.groups)
      assert.same({ "encoder", "decoder" }, { count.groups[1].kind, count.groups[2].kind })
    end
  end)

  it("computes each stack over its own tokens, and a decoder's keys over the encoder's", function()
    local c = train { model = file("t5-large"):with { seq = 128, encoder_stack = { layers = 24, seq = 512 } }, dp = 2 }
    local encoder, decoder = c.kinds[1], c.kinds[2]
    assert.same({ 24, 24 }, { encoder.count, decoder.count })
    local function product(n, n_in, n_out) return n * n_out * (2 * n_in - 1) end
    assert.equal(product(512, 1024, 4096), op_of(encoder, "mlp", "fc1").forward.tensor_flops)
    assert.equal(product(128, 1024, 4096), op_of(decoder, "mlp", "fc1").forward.tensor_flops)
    assert.equal(product(128, 1024, 1024), op_of(decoder, "cross", "q").forward.tensor_flops)
    assert.equal(product(512, 1024, 2048), op_of(decoder, "cross", "kv").forward.tensor_flops)
    -- All pairs of 128 queries and 512 keys; the encoder's 512 attend to each other; the decoder's to earlier ones.
    local function pairs_of(kind, block) return op_of(kind, block, "attention").forward.tensor_flops end
    assert.near(4, pairs_of(encoder, "attention") / pairs_of(decoder, "cross"), 0.02)
    assert.near(2 * 16, pairs_of(encoder, "attention") / pairs_of(decoder, "attention"), 1)
    assert.equal(0, op_of(decoder, "cross", "kv").saved_bytes)
    assert.is_nil(op_of(encoder, "cross", "kv"))
  end)

  it("has the FLOPs per token that its products add up to", function()
    local m = file("t5-large"):with { seq = 128, encoder_stack = { layers = 24, seq = 512 } }
    local c = train { model = m, dp = 2 }
    local sum = 0
    local function add(ops, times)
      for _, one in ipairs(ops) do sum = sum + times * one.forward.tensor_flops end
    end
    for _, kind in ipairs(c.kinds) do add(kind.ops, kind.count) end
    add(c.last, 1)
    local per_token = m:flops_per_token { backward = false, convention = "matmul" }.total
    assert.near(sum / 128, per_token, 0.005 * per_token)
    assert.near(c.mfu, 3 * per_token * c.tokens_per_second / (2 * 312e12), 0.01 * c.mfu)
  end)

  it("holds each weight and the encoder's output once", function()
    local m = file "t5-large"
    local c = train { model = m, dp = 2, zero = 0 }
    assert.equal(2 * m:parameters().total, c.memory.weights)
    local one = c.last[1]
    assert.same({ "source", 2 * 512 * 1024 }, { one.name, one.saved_bytes })
  end)

  it("runs in pipelines, is cut by tp, and is searched", function()
    local c = train { model = "t5-11b", tp = 4, pp = 2, dp = 2 }
    assert.same({ 24, 24 }, { c.stages[1].layers, c.stages[2].layers })
    local found = tperf.search { model = "t5-11b", system = "a100-sxm-80gb", gpus = 16, global_batch = 64,
      strategy = { "tensor", "context" }, top = 1 }
    assert.is_true(found.feasible > 100)
    local ok, text = pcall(train, { model = tperf.model("t5-large"):with { encoder_stack = { layers = 24, seq = 511 } },
      tp = 2, dp = 1 })
    assert.is_false(ok)
    assert.truthy(text:find("does not divide the tokens of a micro-batch, of 511", 1, true), text)
  end)

  it("takes the decoder's sequence from --seq, and the encoder's from its own field", function()
    local m = tperf.model "t5-large"
    local both = train { model = m, seq = 256, dp = 1 }
    local own = train { model = m:with { encoder_stack = { layers = 24, seq = 512 } }, seq = 256, dp = 1 }
    assert.is_true(own.time > both.time)
    assert.near(512 / 256, op_of(own.kinds[1], "mlp", "fc1").forward.tensor_flops
      / op_of(both.kinds[1], "mlp", "fc1").forward.tensor_flops, 1e-9)
  end)

  it("is not written as a launch of GPT", function()
    local found = tperf.search { model = "t5-large", system = "a100-sxm-80gb", gpus = 8, global_batch = 64, top = 1 }
    local ok, message = pcall(tperf.report.launch, found[1], "megatron", { model = "t5-large" })
    assert.is_false(ok)
    assert.truthy(message:find("model = t5-large: megatron cannot be told of an encoder", 1, true), message)
  end)

  it("is not served", function()
    local ok, text = pcall(tperf.infer, { model = "t5-11b", system = "h100-sxm", prompt = 8, generate = 8 })
    assert.is_false(ok)
    assert.truthy(text:find("stacks of layers with sequences of their own, which are not served", 1, true), text)
  end)

  it("refuses inconsistent descriptions", function()
    for message, changes in pairs {
      ["'encoder_stack.layers' (48) must be less than 'layers' (48), the decoder's counted"] = {
        encoder_stack = { layers = 48 } },
      ["'position_buckets' goes with positions = \"relative\""] = { positions = "none" },
      ["'encoder_stack' does not go with 'experts'"] = { experts = { count = 8, top_k = 2, ffn = 64 } },
      ["'encoder_stack' does not go with 'mtp'"] = { mtp = 1 },
      ["'encoder_stack' does not go with 'parallel_block'"] = { parallel_block = true },
      ["'encoder_stack' needs an even 'norms_per_layer'"] = { norms_per_layer = 3 },
    } do
      local ok, text = pcall(function() return tperf.model("t5-large"):with(changes) end)
      assert.is_false(ok, message)
      assert.truthy(text:find(message, 1, true), text)
    end
    local ok, text = pcall(tperf.model, { name = "x", layers = 2, hidden = 64, heads = 4, seq = 8,
      positions = "relative" })
    assert.is_false(ok)
    assert.truthy(text:find("'position_buckets' is missing", 1, true), text)
  end)

  it("refuses files of other classes", function()
    local hf = require "tperf.describe.model.hf"
    local function refused(changes)
      local fields = { model_type = "t5", d_model = 64 }
      for name, value in pairs(changes) do fields[name] = value end
      local ok, text = pcall(hf.describe, fields, "config.json")
      assert.is_false(ok)
      return text
    end
    assert.truthy(refused({ architectures = { "T5EncoderModel" } }):find("T5EncoderModel\" is not modelled", 1, true))
    assert.truthy(refused({ is_encoder_decoder = false }):find("\"is_encoder_decoder\" = false is not", 1, true))
    assert.truthy(refused({ feed_forward_proj = "gated-tanh" }):find("known: relu, gated-gelu", 1, true))
    assert.truthy(refused({ num_layers = 1e9 }):find("must be an integer from 1 to 32768", 1, true))
  end)
end)
