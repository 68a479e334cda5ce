-- Launches of models that Megatron's plain arguments cannot describe.
local tperf = require "tperf"

describe("a launch for Megatron-LM", function()
  it("lists the model's fields it leaves out instead of describing another model", function()
    for name, words in pairs {
      ["qwen3-next-80b-a3b"] = "gated delta nets, gated attention", ["jamba-v0.1"] = "Mamba layers",
      ["mamba2-2.7b"] = "Mamba layers", ["deepseek-v3.2"] = "sparse attention",
      ["minimax-m2"] = "norms of all queries at once", ["bert-large"] = "an encoder", ["dit-xl-2"] = "images",
      ["nemotron-3-super-120b-a12b"] = "Mamba layers, experts in a latent",
    } do
      local c = tperf.train { model = name, system = "gb300-nvl72", gpus = 64, global_batch = 64, zero = 3 }
      local text = tperf.report.launch(c, "megatron", { model = name })
      assert.matches("the model's own arguments are not here: it has " .. words .. ", which have to be written by hand",
        text, 1, true)
      assert.is_nil(text:find("--num-layers", 1, true), name)
    end
  end)
end)
