-- What rows of training runs tell of models and machines beyond sizes.
local models = require "tperf.measured.models"
local step = require "tperf.measured.step"
local tperf = require "tperf"

local function row(fields) return setmetatable(fields, { __index = function() return "" end }) end

describe("a row of a training run", function()
  it("gives the ranks of latent attention, or is left out without them", function()
    local fields = { model = "proxy", layers = "4", hidden = "512", ffn = "2048", heads = "8", seq = "1024", mla = "1",
      mlp = "gelu", q_lora_rank = "192", kv_lora_rank = "64", qk_nope_dim = "16", qk_rope_dim = "8", v_head_dim = "16" }
    local model = tperf.model(models.of(row(fields)))
    assert.same({ q_rank = 192, kv_rank = 64, nope_dim = 16, rope_dim = 8, v_dim = 16 }, model.mla)
    fields.kv_lora_rank = nil
    local none, reason = models.of(row(fields))
    assert.is_nil(none)
    assert.equal("latent attention, whose ranks the row does not give", reason)
  end)

  it("names a hybrid, whose layers are not attention's, and its modules", function()
    local nemotron = models.of(row { model = "nemotron-3-super-120b-a12b", layers = "88", hidden = "4096", seq = "4096",
      experts = "512", topk = "22", moe_ffn = "2688", mtp_layers = "2" })
    assert.same({ 40, 2, 1024 }, { select(2, nemotron.layer_pattern:gsub("M", "")), nemotron.mtp,
      nemotron.experts.latent })
    local h56 = models.of(row { model = "Nemotron-H-56B", layers = "118", hidden = "8192", ffn = "32768",
      heads = "64" })
    assert.equal(54, select(2, h56.layer_pattern:gsub("M", "")))
  end)

  it("in 8 bits is predicted on a machine of one constant, by the peak of 8 bits", function()
    local case = { gpu = "MI355X", precision = "fp8", gpus_per_node = 8, inter = "", intra = "" }
    local mi355x = tperf.system "mi355x"
    local narrow = step.system(case, mi355x, false).accelerator.compute_efficiency
    assert.near(0.511 * 5033.2 / 2516.6, narrow.gemm.bf16.efficiency, 1e-9)
    assert.equal(0.511, narrow.other)
    local none, reason = step.system({ gpu = "A100", precision = "fp8", gpus_per_node = 8, inter = "", intra = "" },
      tperf.system "a100-sxm-80gb", false)
    assert.is_nil(none)
    assert.equal("the system has no curve for fp8 products", reason)
  end)

  -- gpt3_mcore_te_tp1_pp1, 12 layers of 512: fused attention keeps 5 a s^2 b = 168 MB a layer less (arXiv 2205.05198,
  -- section 4.1), which its golden values show: 4.352 GiB against 2.526.
  it("keeps scores where attention is of several kernels", function()
    local function predicted(fields)
      for name, value in pairs { source = "Megatron-LM golden values (CI small models)", gpu = "A100", gpus = "8",
        workload = "pretrain", model = "gpt3", layers = "12", hidden = "512", ffn = "2048", heads = "8",
        kv_heads = "8", seq = "1024", mlp = "gelu", dtype = "bf16", tp = "1", pp = "1", micro_batch = "4",
        global_batch = "32", recompute = "none", zero_fsdp = "distributed optimizer", iter_s = "1" } do
        fields[name] = value
      end
      local case, reason = step.case(row(fields), {})
      assert(case, reason)
      step.predict(case, nil, tperf.system "a100-sxm-80gb", nil, {})
      return case.predicted_memory / 2 ^ 30
    end
    local fused = predicted { table = "gpt3_mcore_te_tp1_pp1_resume", attention_backend = "auto" }
    local unfused = predicted { table = "gpt3_mcore_te_tp1_pp1", attention_backend = "unfused" }
    assert.near(2.526, fused, 0.04 * 2.526)
    assert.near(4.352, unfused, 0.04 * 4.352)
    assert.equal(unfused, predicted { table = "gpt3_mcore_tp1_pp1", attention_backend = "auto" })
  end)
end)
