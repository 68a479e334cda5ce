-- What must be equal, or add up, in any cost model, whatever its numbers.
local tperf = require "tperf"

local function train(model, given)
  given.model, given.system, given.software = model, given.system or "h100-sxm", given.software or "none"
  given.global_batch = given.global_batch or 8
  return tperf.train(given)
end

local function op_of(c, name)
  for _, kind in ipairs(c.kinds) do
    for _, op in ipairs(kind.ops) do
      if op.name == name then return op end
    end
  end
end

describe("sequence parallelism over one GPU", function()
  for _, model in ipairs { "llama-3.1-8b", "deepseek-v2-lite", "qwen3-30b-a3b", "gpt2" } do
    it("changes nothing of " .. model, function()
      local with = train(model, { sequence_parallel = true, dp = 8 })
      local without = train(model, { sequence_parallel = false, dp = 8 })
      for _, field in ipairs { "time", "flops_per_gpu", "mfu" } do assert.equal(with[field], without[field], field) end
      assert.equal(with.memory.total, without.memory.total)
      assert.same(with.breakdown, without.breakdown)
    end)
  end
end)

describe("an op that only communicates", function()
  it("takes the time of its collective", function()
    local c = train("deepseek-v2-lite", { tp = 4, ep = 4, etp = 1 })
    local rope = op_of(c, "k-rope")
    for _, pass in ipairs { rope.forward, rope.backward } do
      assert.equal(0, pass.compute_time)
      assert.equal(pass.comms[1].time, pass.time)
    end
  end)

  it("takes none over one GPU", function()
    local rope = op_of(train("deepseek-v2-lite", {}), "k-rope")
    assert.equal(0, rope.forward.time)
    assert.equal(0, rope.backward.time)
  end)
end)

-- Every row of every token is computed once, by whichever GPU: docs/model.md section 2.3, "cut".