-- Experts that tensor-parallel GPUs share out whole instead of cutting each.
local tperf = require "tperf"

local function configuration(whole, tp)
  return tperf.train {
    model = tperf.model "qwen3-30b-a3b":with { experts = { whole = whole } }, system = "h100-sxm", gpus = 32, tp = tp,
    ep = 4, global_batch = 64, zero = 1, attention = "flash",
  }
end

local function op_of(c, name)
  for _, op in ipairs(c.kinds[1].ops) do
    if op.name == name then return op end
  end
end

local function work(c, name) return op_of(c, name).forward.tensor_flops end

describe("experts that are whole", function()
  local cut, whole = configuration(false, 2), configuration(true, 2)

  it("take the memory and the FLOPs of experts that are cut", function()
    assert.near(cut.memory.weights, whole.memory.weights, 1e-9 * cut.memory.weights)
    assert.near(cut.memory.gradients, whole.memory.gradients, 1e-9 * cut.memory.gradients)
    assert.near(work(cut, "fc1"), work(whole, "fc1"), 1e-9 * work(cut, "fc1"))
    -- A sum of k products has k - 1 additions, once for every cut.
    assert.near(work(cut, "fc2") * (2 - 1 / 768) / (2 - 1 / 384), work(whole, "fc2"), 1e-9 * work(cut, "fc2"))
  end)

  it("exchange tokens over tp, and neither gather nor sum there", function()
    local a, b = op_of(cut, "dispatch"), op_of(whole, "dispatch")
    assert.is_true(b.forward.comm_time > a.forward.comm_time)
    assert.is_true(op_of(cut, "fc1").forward.comm_time > 0)
    for _, name in ipairs { "fc1", "fc2" } do
      assert.equal(0, op_of(whole, name).forward.comm_time + op_of(whole, name).backward.comm_time)
    end
  end)

  it("are those that are cut where nothing cuts", function()
    assert.equal(configuration(false, 1).time, configuration(true, 1).time)
  end)

  it("must be divided by all GPUs that share them", function()
    local ok, message = pcall(tperf.train, {
      model = tperf.model "qwen3-30b-a3b":with { experts = { whole = true, count = 4, top_k = 2 } },
      system = "h100-sxm", gpus = 32, tp = 2, ep = 4, global_batch = 64,
    })
    assert.is_false(ok)
    assert.truthy(message:find("4 experts are not divided by ep x tp = 8", 1, true))
  end)
end)
