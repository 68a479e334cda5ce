-- The ops of a decode step may depend on the length of the cache.
local tperf = require "tperf"

-- Serves a model whose layer gains or loses an op from a given number of keys on.
local function infer(short, long)
  local own = tperf.block("own", function(_, share)
    local decodes = share.mode == "decode" and share.context >= 100
    return (decodes and long or short)(share)
  end)
  return tperf.infer {
    model = { name = "m", layers = 2, hidden = 256, heads = 4, ffn = 512, seq = 256, vocab = 1000,
      architecture = tperf.architecture { name = "own", layer = { own } } },
    system = "h100-sxm", tp = 2, prompt = 64, generate = 128,
  }
end

local function linear(share, more)
  local o = { name = "x", tokens = share.tokens, n_in = 128, n_out = 256 }
  for name, value in pairs(more or {}) do o[name] = value end
  return tperf.op.linear(o)
end

local function norm(share) return tperf.op.norm { name = "x", tokens = share.tokens, width = 256 } end

local function gather(kind)
  return function()
    return { tperf.op.collective { name = "x", kind = kind, axis = "tp", bytes = 4096 } }
  end
end

describe("a decode step", function()
  it("is priced if its ops are the same at every length", function()
    local function same(share) return { linear(share), norm(share) } end
    assert.is_true(infer(same, same).tpot > 0)
  end)

  -- If the ops differ in size only, a step at the longer end costs more.
  it("may have ops whose sizes depend on the length", function()
    local function growing(share)
      return { linear(share, { n_out = 256 + share.context }), norm(share) }
    end
    local r = infer(growing, growing)
    assert.is_true(r.last_step > r.first_step)
  end)

  it("may send more, the longer the cache is", function()
    local function sending(share)
      return { linear(share), tperf.op.collective { name = "c", kind = "all_gather", axis = "tp",
        bytes = 1e6 * share.context } }
    end
    local r = infer(sending, sending)
    assert.is_true(r.last_step > 1.5 * r.first_step)
  end)

  for what, case in pairs {
    ["more ops"] = { function(p) return { norm(p) } end, function(p) return { norm(p), norm(p) } end },
    ["a product in place of a norm"] = { function(p) return { norm(p) } end, function(p) return { linear(p) } end },
    ["attention in place of a product"] = { function(p) return { linear(p) } end, function()
      return { tperf.op.attention { name = "x", batch = 1, heads = 1, queries = 1, keys = 64, head_dim = 64 } }
    end },
    ["another collective"] = { gather "all_gather", gather "all_reduce" },
    ["a collective more"] = { function(p) return { linear(p) } end,
      function(p) return { linear(p, { all_reduce = "tp" }) } end },
  } do
    -- Steps with 65 to 100 keys are of the first form, those with 101 to 191 of the second.
    it("may have " .. what .. " from some length on", function()
      local short, long, both = infer(case[1], case[1]), infer(case[2], case[2]), infer(case[1], case[2])
      assert.equal(short.first_step, both.first_step)
      assert.equal(long.last_step, both.last_step)
      local sum = 36 * short.first_step + 91 * long.last_step
      assert.is_true(math.abs(sum - both.decode.time) < 1e-9 * sum, both.decode.time)
    end)
  end
end)
