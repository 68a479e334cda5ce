-- Encoders in serving: embedding and reranking read batches of sequences, each in one pass. Counts by hand.
local program = require "program"
local tperf = require "tperf"

local PATH <const> = "spec/data/hf/roberta-large.json" -- 24 layers of 1024 features, 16 heads, an MLP of 4096
local LAYERS <const>, H <const>, F <const> = 24, 1024, 4096

local function passes(more)
  local o = { model = PATH, system = "h100-sxm", prompt = 512, generate = 1, batch = 8 }
  for name, value in pairs(more or {}) do o[name] = value end
  return tperf.infer(o)
end

describe("an encoder in tperf.infer", function()
  it("multiplies what its layers have, and scores all pairs of tokens", function()
    local sum, attention = 0, 0
    for _, row in ipairs(passes { ops = true }.ops) do
      assert.equal("prefill", row.phase)
      if row.block == "attention" and row.name == "attention" then attention = row.flops end
      if row.name == "qkv" or row.name == "proj" or row.name == "fc1" or row.name == "fc2" then
        sum = sum + row.flops * row.layers
      end
    end
    local tokens = 8 * 512
    assert.near(2 * LAYERS * tokens * (4 * H * H + 2 * H * F), sum, 1e-9 * sum)
    local products = 4 * tokens * 512 * H -- scores and their sums of values, of all pairs
    assert.is_true(attention > products and attention < 1.02 * products)
  end)

  it("gives the rate of sequences, which caches nothing", function()
    local one, many = passes { batch = 1 }, passes { batch = 64 }
    for _, r in ipairs { one, many } do
      assert.equal(r.batch, r.prefill_batch)
      assert.near(r.batch / r.latency, r.sequences_per_second, 1e-9 * r.sequences_per_second)
      assert.near(512 * r.sequences_per_second, r.tokens_per_second, 1e-9 * r.tokens_per_second)
      assert.same({ 0, nil, nil, nil }, { r.memory.cache, r.decode, r.tpot, r.cost and r.cost.generated })
    end
    assert.is_true(many.sequences_per_second > one.sequences_per_second)
    assert.near(2 * many.sequences_per_second, passes { batch = 64, dp = 2 }.sequences_per_second, 1e-6)
    local peak = 989.4e12 * 64 / (2 * LAYERS * 64 * 512 * (4 * H * H + 2 * H * F))
    assert.is_true(many.sequences_per_second < peak)
  end)

  it("finds the largest batch that fits", function()
    local most = passes().max_batch
    assert.is_true(passes { batch = most }.memory.total <= passes().memory.capacity)
    local ok, message = pcall(passes, { batch = most + 1 })
    assert.is_false(ok)
    assert.matches(("the largest batch that fits is %d"):format(most), message, 1, true)
  end)

  it("generates nothing", function()
    local ok, message = pcall(passes, { generate = 2 })
    assert.is_false(ok)
    assert.matches("generates no tokens: 'generate' = 1 asks for passes over sequences of 'prompt' tokens", message, 1,
      true)
    local one = program.ask("tperf infer " .. PATH .. " -s h100-sxm -b 1,8 -p 512 -n 1")
    assert.matches("sequences/s", one.out, 1, true)
    assert.is_nil((program.ask "tperf infer llama-3.1-8b -s h100-sxm -p 512 -n 2".out):find "sequences/s")
  end)
end)
