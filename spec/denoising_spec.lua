-- Several passes over a whole sequence, as samplers of diffusion models make them: blocks that run n times (op.times)
-- when a prompt is read, and nothing that is generated. Against one pass, in time and memory.
local tperf = require "tperf"
local op = tperf.op

local HIDDEN <const>, HEADS <const>, TOKENS <const>, LAYERS <const> = 1152, 16, 256, 28 -- DiT-XL/2 at 256 pixels

-- A transformer of images that denoises in so many steps, each with and without the condition.
local function sampler(steps)
  local function block(name, build)
    return tperf.block(name, function(m, p)
      return p.mode == "train" and build(m, p) or p.mode == "prefill" and op.times(2 * steps, build(m, p)) or {}
    end)
  end
  local layer = block("layer", function(m, p)
    return {
      p:norm { name = "norm1", width = m.hidden }, p:column { name = "qkv", n_in = m.hidden, n_out = 3 * m.hidden },
      p:attention { heads = HEADS, head_dim = m.hidden // HEADS, causal = false },
      p:row { name = "proj", n_in = m.hidden, n_out = m.hidden }, op.residual { elements = p:outer(m.hidden) },
      p:norm { name = "norm2", width = m.hidden }, p:column { name = "up", n_in = m.hidden, n_out = 4 * m.hidden },
      op.gelu { elements = p:inner(4 * m.hidden) }, p:row { name = "down", n_in = 4 * m.hidden, n_out = m.hidden },
      op.residual { elements = p:outer(m.hidden) },
    }
  end)
  local patches = block("patches", function(m, p) return { p:replicated { n_in = 16, n_out = m.hidden } } end)
  return tperf.model { name = "sampler", layers = LAYERS, hidden = HIDDEN, seq = TOKENS + 1, vocab = 1,
    architecture = tperf.architecture { name = "sampler", first = { patches }, last = {},
      groups = { { count = LAYERS, blocks = { layer }, keeps = {} } } } }
end

local function sample(steps, more)
  local q = { model = sampler(steps), system = "h100-sxm", prompt = TOKENS, generate = 1, batch = 8, prefill_batch = 8 }
  for name, value in pairs(more or {}) do q[name] = value end
  return tperf.infer(q)
end

describe("denoising", function()
  for i, more in ipairs { {}, { tp = 4 }, { batch = 64, prefill_batch = 64 }, { batch = 1, prefill_batch = 1 } } do
    it("takes as long as so many passes " .. i, function()
      local one, fifty = sample(1, more), sample(50, more)
      assert.near(50, fifty.ttft / one.ttft, 1e-9)
      assert.equal(0, fifty.memory.cache)
      assert.equal(one.memory.weights, fifty.memory.weights)
      assert.is_nil(fifty.tpot)
    end)
  end

  it("does the FLOPs of all passes", function()
    for _, row in ipairs(sample(50, { ops = true }).ops) do
      if row.name == "qkv" then assert.equal(100 * 8 * TOKENS * 3 * HIDDEN * (2 * HIDDEN - 1), row.flops) end
    end
  end)

  it("trains as one pass", function()
    local c = tperf.train { model = sampler(50), system = "h100-sxm", global_batch = 8, software = "none" }
    local d = tperf.train { model = sampler(1), system = "h100-sxm", global_batch = 8, software = "none" }
    assert.equal(d.time, c.time)
  end)
end)
