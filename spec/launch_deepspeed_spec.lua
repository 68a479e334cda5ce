-- DeepSpeed's model states: what the functions of its runtime/zero/stage_1_and_2.py and stage3.py estimate.
local tperf = require "tperf"

local PARAMETERS <const> = 8030261248 -- of llama-3.1-8b

local function states(stage, gpus)
  local text = ('{ "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": { "enabled": true }, '
    .. '"zero_optimization": { "stage": %d } }'):format(stage)
  local launch = tperf.import.launch { files = { { name = "ds.json", text = text } }, given = { gpus = gpus } }
  local a = tperf.import.arguments(launch, { model = "llama-3.1-8b" })
  a.system = "h100-sxm"
  local m = tperf.train(a).memory
  return m.weights + m.gradients + m.optimizer
end

describe("a DeepSpeed JSON", function()
  it("has DeepSpeed's gradients: 16 bits, and an fp32 shard of them with the optimizer", function()
    for _, gpus in ipairs { 1, 8, 64 } do
      assert.equal(PARAMETERS * (4 + 16 // gpus) + PARAMETERS * (16 % gpus) / gpus, states(1, gpus))
      assert.equal(PARAMETERS * (2 + 18 / gpus), states(2, gpus))
      assert.equal(PARAMETERS * 18 / gpus, states(3, gpus))
    end
  end)
end)
