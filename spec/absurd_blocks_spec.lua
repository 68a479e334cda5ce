-- Blocks whose counts depend on their share in ways that no layer's do: a search, which remembers and interpolates,
-- returns what tperf.train says of each configuration, to the last bit.
local cases = require "cases"
local tperf = require "tperf"
local op = tperf.op

local function bits(n)
  local count = 0
  while n > 0 do count, n = count + (n & 1), n >> 1 end
  return count
end

-- FLOPs of a pass as a function of the model and the share.
local FUNCTIONS <const> = {
  { "s log s", function(_, p) return 1e3 * p.micro_batch * p.seq * math.log(p.seq, 2) end },
  { "set bits of the tokens", function(_, p) return 1e9 * bits(p.tokens // p.tp) end },
  { "the micro-batch, cubed", function(_, p) return 1e6 * p.micro_batch ^ 3 end },
  { "odd micro-batches", function(_, p) return p.micro_batch % 2 == 1 and 1e11 or 1e8 end },
  { "tokens modulo 700", function(_, p) return 1e7 * (p.tokens % 700) end },
  { "a prime of tp", function(_, p) return 1e9 * ({ 2, 3, 5, 7 })[bits(p.tp - 1) + 1] end },
  { "whether all is recomputed", function(_, p) return p.recompute == "full" and 1e10 or 7e9 end },
  { "more of it the more GPUs", function(_, p) return 1e8 * p.tp * p.micro_batch end },
  { "the rest of a root", function(m, p) return 1e9 * ((p.tokens * m.hidden) ^ 0.5 % 1) end },
  { "the layout's spelling", function(_, p) return 1e7 * (#("%d/%d"):format(p.tp, p.tokens * 37)) ^ 3 end },
}

local function model_of(f)
  local block = tperf.block("absurd", function(m, p)
    local flops = f(m, p)
    return {
      p:column { name = "up", n_in = m.hidden, n_out = 2 * m.hidden },
      op.custom { name = "f", saved_bytes = flops / 1e4, forward = { vector_flops = flops, bytes = flops / 10 },
        backward = { vector_flops = 3 * flops } },
      p:row { name = "down", n_in = 2 * m.hidden, n_out = m.hidden },
    }
  end)
  return tperf.model { name = "m", layers = 12, hidden = 1024, seq = 2048, vocab = 32000,
    architecture = tperf.architecture { name = "absurd", layer = { block } } }
end

local ASKED <const> = { "tp", "pp", "dp", "micro_batch", "schedule", "virtual_stages", "recompute", "zero", "strategy" }

describe("a search of blocks that count", function()
  for _, case in ipairs(FUNCTIONS) do
    it(case[1] .. " has tperf.train's times and memory, to the bit", function()
      local model, seen = model_of(case[2]), 0
      local list = tperf.search { model = model, system = "h100-sxm", gpus = 16, global_batch = 96, keep = "all",
        strategy = "tensor", schedule = "1f1b", recompute = { "none", "full" }, micro_batch = { 1, 2, 3, 4, 6 } }
      assert.is_true(#list > 30, #list)
      local step = math.max(1, #list // cases(10, 200))
      for i = 1, #list, step do
        local q = { model = model_of(case[2]), system = "h100-sxm", global_batch = 96 }
        for _, name in ipairs(ASKED) do q[name] = list[i][name] end
        local c = tperf.train(q)
        assert.equal(c.time, list[i].time)
        assert.equal(c.memory.total, list[i].memory.total)
        seen = seen + 1
      end
      assert.is_true(seen >= 10)
    end)
  end
end)
