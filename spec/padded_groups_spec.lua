-- Groups whose sequence is padded for the GPUs that share it, against groups that have the padded length.
local tperf = require "tperf"

local HIDDEN <const>, TOKENS <const> = 1024, 577 -- a ViT-L/14 at 336 pixels

local layer = tperf.block("layer", function(m, p)
  return {
    p:norm { name = "norm", width = m.hidden }, p:column { name = "qkv", n_in = m.hidden, n_out = 3 * m.hidden },
    p:attention { heads = 16, head_dim = 64, causal = false },
    p:row { name = "out", n_in = m.hidden, n_out = m.hidden },
    tperf.op.residual { elements = p:outer(m.hidden) },
  }
end)

local function model_of(tower)
  tower.count, tower.key, tower.blocks = 4, "tower", { layer }
  return tperf.model { name = "m", layers = 8, hidden = HIDDEN, seq = 1024, vocab = 32000,
    architecture = tperf.architecture { name = "a",
      groups = { tower, { count = 4, key = "text", blocks = { layer } } } } }
end

local padded = model_of { seq = TOKENS, padded = true }

local function train(model, more)
  local q = { model = model, system = "h100-sxm", global_batch = 16, software = "none" }
  for name, value in pairs(more) do q[name] = value end
  return tperf.train(q)
end

describe("padded groups", function()
  for i, more in ipairs { { tp = 8, to = 584 }, { tp = 4, pp = 2, to = 580 }, { strategy = "context", cp = 2, tp = 2,
    to = 580 }, { tp = 8, recompute = "full", to = 584 }, { dp = 8, to = TOKENS } } do
    it("cost what groups of the padded length cost " .. i, function()
      local to = more.to
      more.to = nil
      local a, b = train(padded, more), train(model_of { seq = to }, more)
      assert.equal(b.time, a.time)
      assert.equal(b.memory.total, a.memory.total)
      local useful = (padded:flops_per_token { backward = true }).total
      assert.near(a.mfu / b.mfu, useful / model_of { seq = to }:flops_per_token { backward = true }.total, 1e-12)
    end)
  end

  it("are searched in layouts that divide no sequence of theirs", function()
    local found = tperf.search { model = padded, system = "h100-sxm", gpus = 8, global_batch = 16, tp = 8 }
    assert.equal(8, found[1].tp)
    assert.equal(found[1].time, tperf.train { configuration = found[1], model = padded, system = "h100-sxm" }.time)
    assert.equal(0, #tperf.search { model = model_of { seq = TOKENS }, system = "h100-sxm", gpus = 8, global_batch = 16,
      tp = 8 })
  end)

  it("are read with their padding when a prompt is", function()
    local function ttft(tower)
      return tperf.infer { model = model_of(tower), system = "h100-sxm", prompt = 512, generate = 8, tp = 8 }.ttft
    end
    assert.equal(ttft { seq = 584 }, ttft { seq = TOKENS, padded = true })
  end)

  it("are served with their padding", function()
    local function ttft(tower)
      return tperf.serve { model = model_of(tower), system = "h100-sxm", load = { rate = 1 }, count = 10, prompt = 100,
        output = 10, tp = 8 }.ttft.mean
    end
    assert.equal(ttft { seq = 584 }, ttft { seq = TOKENS, padded = true })
  end)

  it("have a sequence of their own", function()
    local ok, message = pcall(train, model_of { padded = true }, {})
    assert.is_false(ok)
    assert.matches("group 1: 'padded' is of a sequence of the group's own: give its 'seq'", message, 1, true)
    ok, message = pcall(train, model_of { seq = 577, padded = 8 }, {})
    assert.is_false(ok)
    assert.matches("'padded' must be true or false", message, 1, true)
  end)
end)
