-- Launches of models that Megatron's settings cannot describe.
local tperf = require "tperf"

describe("a launch for Megatron-LM", function()
  it("is refused, naming what it cannot be told of the model", function()
    for name, words in pairs {
      ["qwen3-next-80b-a3b"] = "gated delta nets", ["jamba-v0.1"] = "Mamba layers", ["mamba2-2.7b"] = "Mamba layers",
      ["deepseek-v3.2"] = "sparse attention", ["minimax-m2"] = "norms of all queries at once",
      ["bert-large"] = "a norm after the embedding", ["dit-xl-2"] = "diffusion",
      ["falcon-40b"] = "attention and MLP side by side",
      ["nemotron-3-super-120b-a12b"] = "Mamba layers", ["gemma-3-27b"] = "norms_per_layer = 4",
      ["opt-13b"] = "the activation relu", ["bloom-7b1"] = "a norm after the embedding",
    } do
      local c = tperf.train { model = name, system = "gb300-nvl72", gpus = 64, global_batch = 64, zero = 3 }
      local ok, message = pcall(tperf.report.launch, c, "megatron", { model = name })
      assert.is_false(ok)
      assert.matches(("model = %s: megatron cannot be told of %s"):format(name, words), message, 1, true)
    end
  end)
end)
