-- What rows of training runs tell of models and machines beyond sizes.
local models = require "tperf.measured.models"
local precisions = require "tperf.measured.precisions"
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

  it("says the recipe of its products, or leaves it open", function()
    local function of(source, dtype, recipe)
      return precisions.of { source = source, dtype = dtype, fp8_recipe = recipe }
    end
    assert.equal("bf16", of("MLPerf", "bf16", "none"))
    assert.is_nil(of("MLPerf", "fp8 or fp4 (config not matched)", ""))
    assert.same({ recipe = "fp8-delayed", parameters = "narrow" },
      of("MLPerf Training v4.1", "fp8", "fp8 delayed/hybrid, param gather in fp8, amax max of 1024"))
    assert.same({ recipe = "fp8-current", parameters = "narrow" },
      of("NVIDIA Megatron-Bridge performance summary", "FP8", "tensorwise/hybrid (param_gather in low precision)"))
    assert.same({ recipe = "fp8-tensorwise", gather = "narrow" },
      of("torchtitan", "fp8", "float8 tensorwise, dynamic, float8 all-gather of FSDP"))
    assert.same({ recipe = "fp8-rowwise", weight_grad = "bf16" },
      of("torchao", "fp8", "rowwise_with_gw_hp, bf16 all-gather"))
    assert.same({ recipe = "mxfp8" }, of("x", "FP8-CS (FP8-MX)", "mxfp8/e4m3"))
    assert.same({ recipe = "nvfp4" }, of("x", "fp4", "fp4 nvfp4, fp8 attention Float8CurrentScaling"))
    assert.same({ recipe = "fp8-delayed" }, of("MosaicML llm-foundry benchmarking", "amp_fp8", ""))
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
