-- Columns of training-run tables that describe models and machines beyond sizes.
local models = require "tperf.measured.run.models"
local precisions = require "tperf.measured.run.precisions"
local step = require "tperf.measured.run.step"
local tperf = require "tperf"

local function row(fields) return setmetatable(fields, { __index = function() return "" end }) end

-- A small run with the columns that a row must have, and `fields`.
local function run(fields)
  local usual = { workload = "pretrain", layers = "24", hidden = "2048", ffn = "8192", heads = "16", seq = "2048",
    vocab = "50257", dtype = "fp16", mlp = "gelu", gpus = "8", tp = "1", pp = "1", micro_batch = "1",
    global_batch = "8", iter_s = "1" }
  for name, value in pairs(fields) do usual[name] = value end
  return assert(step.case(row(usual)))
end

describe("a row of a training run", function()
  it("of BigScience's 1.3B has the ZeRO stage of its scripts, and memory as nvidia-smi shows it", function()
    assert.equal(1, run({ source = "BigScience tr3m-1B3 benchmarks" }).zero)
    local memory = { total = 20e9, buffers = 0, runtime = 0 }
    local function shown(note) return require "tperf.measured.run.peak".shown({ { memory = memory } }, note) end
    assert.equal(shown "nvidia-smi", shown "GB as noted")
    assert.equal(20e9, shown "max allocated")
  end)

  it("counts the workspaces of its libraries", function()
    -- Transformer Engine: 32 MiB on Hopper and later, 4 before. PyTorch: 2 x 32, before 2 x (2 x 4096 + 8 x 16 KiB).
    local function mib(...) return require("tperf.measured.run.peak").workspaces(...) / 2 ^ 20 end
    assert.equal(32, mib("megatron-core-2024", "Blackwell", false))
    assert.equal(4 + 2 * (8320 / 1024 - 32), mib("megatron-core-ci-2025", "Ampere", false))
    assert.equal(4, mib("megatron-core-ci-2025", "Ampere", true))
    assert.equal(0, mib("torchtitan-2024", "Hopper", false))
    local fields = { source = "Megatron-LM golden values (CI small models)", table = "gpt3_mcore_te_tp1" }
    fields.notes = "exact; attention-backend flash; tied embeddings"
    local flash = run(fields)
    fields.notes = "exact; attention-backend unfused"
    local unfused = run(fields)
    assert.same({ false, true }, { flash.deterministic, unfused.deterministic })
    assert.same({ n = 2, nil, "unfused" }, table.pack(flash.attention, unfused.attention))
  end)

  it("of a model that is not known has the shared experts and the routing that it states", function()
    local fields = { source = "A page", model = "Something", experts = "16", topk = "1", moe_ffn = "4096", ep = "8",
      mlp = "swiglu", shared_expert_ffn = "2048" }
    local e = run(fields).model.experts
    assert.same({ 1, 2048 }, { e.shared, e.shared_ffn })
    assert.is_true(e.imbalance > 1)
    fields.moe_router_force_balance = "1"
    assert.equal(1, run(fields).model.experts.imbalance)
    fields.moe_router_force_balance, fields.source = "", "SimuMax B200 release"
    assert.equal(1, run(fields).model.experts.imbalance)
    fields.source = "torchao training benchmarks" -- whose commands force nothing
    assert.is_true(run(fields).model.experts.imbalance > 1)
  end)

  it("of an unknown stack is one as shipped, or what a vendor shows, and stays out of fits", function()
    local function stack(source)
      local case = run { source = source, gpu = "H100" }
      return { case.stack, case.unknown, case.apart }
    end
    assert.same({ "typical", true, true }, stack "A laboratory's blog, 2025")
    assert.same({ "tuned", true, true }, stack "AMD ROCm performance page")
    assert.same({ "torchtitan-2024" }, { run({ source = "torchtitan H200 2025-06" }).stack })
    assert.is_nil((step.case(row { source = "Megatron-Core on GB200 (optimisation history)", workload = "pretrain" })))
  end)

  it("of an unknown stack has attention of several kernels before 2023, and on V100s", function()
    local function attention(source, gpu) return run({ source = source, gpu = gpu }).attention end
    assert.equal("unfused", attention("arXiv 2104.04473 table 1", "A100"))
    assert.equal("unfused", attention("A blog of 2022", "A100"))
    assert.equal("unfused", attention("A blog of 2024", "V100"))
    assert.is_nil(attention("arXiv 2407.21783", "H100"))
    assert.is_nil(attention("Some page", "A100"))
  end)

  it("without a batch, but with a micro-batch and no stages, computes one micro-batch", function()
    assert.equal(16, run({ source = "A page", global_batch = "", micro_batch = "2" }).global_batch)
    local _, reason = step.case(row { workload = "pretrain", source = "A page", layers = "24", hidden = "2048",
      ffn = "8192", heads = "16", seq = "2048", vocab = "50257", dtype = "fp16", mlp = "gelu", gpus = "8", tp = "1",
      pp = "2", micro_batch = "1", iter_s = "1" })
    assert.equal("the global batch is not given", reason)
  end)

  it("recomputes some layers whole, if its text says how many", function()
    local case = run { source = "A page", recompute = "full, block (config: 20 of 24 layers)" }
    assert.same({ recompute = "full", recompute_method = "block", recompute_num_layers = 20 }, case.recompute)
  end)

  it("of vTrain's sums over traced layers neither recomputes nor pads its vocabulary", function()
    local fields = { source = "vTrain ground_truth_single", tp = "4", recompute = "full (use_checkpoint=true)" }
    local sums = run(fields)
    fields.source = "vTrain ground_truth_multi"
    local runs = run(fields)
    local function read(case) return { case.stack, case.recompute.recompute, case.model.vocab } end
    assert.same({ "vtrain-2024", "none", 50256 }, read(sums))
    assert.same({ "megatron-deepspeed-2022", "full", 50257 }, read(runs))
  end)

  it("of Llama 3 405B has the chunks, shards and exchanges of its paper", function()
    local case = run { source = "Llama 3 405B (paper, table 4)", tp = "1", pp = "2", cp = "2", layers = "30",
      zero_fsdp = "FSDP (shard)" }
    assert.same({ 8, 2, "all_gather", true }, { case.sizes.vp, case.zero, case.cp_kind, case.dealt.account_for_loss })
  end)

  it("of Megatron-LM's weak scaling has the micro-batches and chunks of its scripts", function()
    local function read(source, model)
      local case = run { source = "Megatron-LM " .. source, model = model, layers = "60", gpus = "4", pp = "4",
        global_batch = "8", micro_batch = "" }
      return { case.stack, case.steps[1].micro_batch, case.sizes.vp, #case.steps }
    end
    assert.same({ "megatron-lm-2021", 2, 3, 1 }, read("SC21 weak scaling (April 2021)", "GPT-76B"))
    assert.same({ "megatron-lm-2021", 2, 1, 1 }, read("README Jan 2021 weak scaling", "GPT-76B"))
    assert.same({ "megatron-lm-2021", 4, 1, 1 }, read("SC21 weak scaling (April 2021)", "GPT-39B"))
    assert.same({ "megatron-lm-2021", 1, 1, 4 }, read("SC21 weak scaling (April 2021)", "GPT-2B"))
  end)

  it("of 2020 on A100s ran on those of 40 GB", function()
    local function gpu(name) return run({ source = "Megatron-LM README 2020 scaling", gpu = name }).gpu end
    assert.equal("a100-sxm-40gb", require "tperf.measured.gpus".system(gpu "A100 (DGX-A100)"))
    assert.equal("V100-32GB (DGX-2)", gpu "V100-32GB (DGX-2)")
  end)

  it("of BigScience's prequel has the sizes of the heading with its number of parameters", function()
    local function read(fields)
      fields.source, fields.layers = "BigScience BLOOM prequel chronicles", "96"
      fields.hidden, fields.ffn = "12288", "49152"
      local case = run(fields)
      local m = case.model
      return { m.layers, m.hidden, m.ffn, m.heads, case.dealt.account_for_embedding and case.dealt.account_for_loss }
    end
    local section = "GBS Variations"
    assert.same({ 72, 14336, 57344, 64, nil }, read { table = section, params_b = "181.0", heads = "" })
    assert.same({ 96, 12288, 49152, 96, nil }, read { table = section, params_b = "177.0", heads = "96" })
    section = "Rebalancing layers"
    assert.same({ 82, 13312, 53248, 128, true }, read { table = section, params_b = "178.0", heads = "128" })
    assert.same({ 70, 14336, 57344, 112, true }, read { table = section, params_b = "176.0", heads = "112" })
    local final = run { source = "BLOOM 176B final run log" }
    assert.is_true(final.dealt.account_for_loss)
  end)

  it("of DeepSpeed's pipelines reduces whole gradients in bf16", function()
    for _, source in ipairs { "BigScience BLOOM prequel chronicles", "BLOOM 176B final run log" } do
      assert.equal("all_reduce", run({ source = source, dtype = "bf16" }).gradient_reduce)
      assert.is_nil(run({ source = source, dtype = "fp16" }).gradient_reduce)
    end
  end)

  it("of SimuMax exchanges heads along long sequences, and pads its experts", function()
    local function read(fields)
      fields.source, fields.gpu, fields.gpus, fields.dtype = "SimuMax B200 release v1.2 (real)", "B200-SXM", "8", "bf16"
      return run(fields)
    end
    assert.equal("all_to_all", read { cp = "8" }.cp_kind)
    local experts = { experts = "8", topk = "2", moe_ffn = "1024", mlp = "swiglu", ep = "8", dp = "8" }
    assert.equal(1, read(experts).model.experts.capacity_factor)
    assert.equal("ring", run({ source = "NVIDIA Megatron-Bridge performance summary", gpus = "8", cp = "8" }).cp_kind)
  end)

  it("of MaxText in DGX Cloud shards over the GPUs that the table names, and runs layers again", function()
    local function read(gpus, shard)
      local case = run { source = "NVIDIA DGX Cloud benchmarking recipes", table = "MaxText Llama2-70B FP8",
        fsdp = "jax-fsdp", gpus = tostring(gpus), dp = tostring(gpus), tp = "1", pp = "1",
        global_batch = tostring(2 * gpus), micro_batch = "2",
        notes = ("JAX/XLA FSDP over %d GPUs, data-parallel above"):format(shard) }
      return { case.stack, case.shard, case.zero, case.recompute.recompute, case.recompute.recompute_modules }
    end
    local modules = { "core_attn", "layernorm", "mlp" }
    assert.same({ "maxtext-2024", 128, 3, "selective", modules }, read(512, 128))
    assert.same({ "maxtext-2024", nil, 3, "selective", modules }, read(256, 256))
  end)

  it("of InternEvo shards states over the ranks that the table names", function()
    local function shard(states)
      return run { source = "InternEvo train_performance", gpus = "64", dp = "32", tp = "2", global_batch = "32",
        zero_fsdp = states }.shard
    end
    assert.equal(4, shard "ZeRO-1 over 4 ranks")
    assert.equal(8, shard "ZeRO-1 sharded over 8 GPUs (hybrid)")
    assert.is_nil(shard "ZeRO-1 over all DP")
    assert.is_nil(shard "ZeRO-1 over 32 ranks")
  end)

  it("of Megatron-MoE-ModelZoo has what its commands say", function()
    local function qwen(fields)
      local usual = { source = "Megatron-MoE-ModelZoo Qwen3", model = "Qwen3-235B", gpu = "GB300", layers = "94",
        hidden = "4096", seq = "4096", experts = "128", topk = "8", moe_ffn = "1536", gpus = "256", pp = "8", vp = "",
        ep = "8", etp = "1", global_batch = "8192", recompute = "see command", dtype = "MXFP8" }
      for name, value in pairs(fields) do usual[name] = value end
      return run(usual)
    end
    local graphs = { "attn", "moe_router" }
    local rack = qwen { gpu = "GB200", dtype = "BF16" }
    assert.same({ "none", graphs, "bf16" }, { rack.recompute.recompute, rack.switches.cuda_graphs, rack.precision })
    assert.same({ true, true }, { rack.dealt.account_for_embedding, rack.dealt.account_for_loss })
    assert.is_nil(rack.switches.overlap_moe_a2a)
    local one = qwen { gpus = "64", pp = "1", ep = "64", micro_batch = "1" }
    assert.same({ true, true }, { one.switches.overlap_moe_a2a, one.switches.delay_wgrad })
    assert.same({ "mxfp8", "narrow", "bf16" }, { one.precision.recipe, one.precision.parameters, one.states.moments })
    local long = qwen { seq = "131072", gpus = "128", tp = "4", pp = "4", vp = "12", cp = "4", ep = "32",
      global_batch = "1024" }
    assert.same({ "moe_act", "layernorm" }, long.recompute.recompute_modules)
    local stashed = qwen { gpu = "GB200", pp = "4", vp = "6", ep = "64", micro_batch = "3", global_batch = "3072" }
    assert.same({ { "expert_fc1", "moe_act" }, true },
      { stashed.offload.offload_modules, stashed.switches.overlap_moe_a2a })
    local hopper = qwen { gpu = "H100", dtype = "BF16", tp = "2", ep = "32", vp = "4", recompute = "norm, act" }
    assert.same({ "moe_act", "layernorm" }, hopper.recompute.recompute_modules)
    hopper = qwen { gpu = "H100", dtype = "bf16", tp = "4", vp = "4", cp = "2", seq = "32768", recompute = "",
      global_batch = "256" }
    assert.same({ { "layernorm", "moe" }, "deepep" },
      { hopper.recompute.recompute_modules, hopper.switches.moe_dispatcher })
  end)

  it("of the paper on Megatron-Core's experts has the stages of its scripts", function()
    local function deepseek(gpu, dtype)
      return run { source = "Megatron-Core MoE paper (Table 11)", model = "DeepSeek-V3", gpu = gpu, layers = "61",
        hidden = "7168", seq = "4096", experts = "256", topk = "8", moe_ffn = "2048", gpus = "1024", pp = "4",
        ep = "64", etp = "1", global_batch = "8192", vp = "", dtype = dtype }
    end
    local rack = deepseek("GB300", "MXFP8")
    assert.same({ "Et*4|(tttt|)*14tmL", 4, { "mlp" } },
      { rack.dealt.pipeline_layout, rack.sizes.vp, rack.recompute.recompute_modules })
    assert.same({ "fp8-block", "Et|(tt|)*30mL" },
      { deepseek("H100", "FP8-blockwise").precision.recipe, deepseek("H100", "FP8-blockwise").dealt.pipeline_layout })
  end)

  it("of Megatron-Bridge has the dispatcher and the graphs of its release", function()
    local function bridge(release, model, gpu, fields)
      local usual = { source = "NVIDIA Megatron-Bridge performance summary", table = release .. " NeMo Container",
        model = model, gpu = gpu, layers = "36", hidden = "2880", seq = "4096", experts = "128", topk = "4",
        moe_ffn = "2880", gpus = "64", ep = "8", etp = "1", global_batch = "1280", micro_batch = "4", dtype = "BF16",
        moe_dispatcher = "hybridep" }
      for name, value in pairs(fields or {}) do usual[name] = value end
      return run(usual)
    end
    local function sent(...) return bridge(...).switches.moe_dispatcher end
    assert.same({ "alltoall", "hybridep", "alltoall", "hybridep" },
      { sent("26.02.01", "GPT OSS 120B", "B200"), sent("26.04", "GPT OSS 120B", "B200"),
        sent("26.04.01", "GPT OSS 120B", "GB200"), sent("26.04.01", "GPT OSS 120B", "B300") })
    local qwen = { layers = "94", hidden = "4096", moe_ffn = "1536", topk = "8", moe_dispatcher = "alltoall" }
    assert.same({ "alltoall", "hybridep" },
      { sent("26.04", "Qwen3_235B_a22B", "B300", qwen), sent("26.04.01", "Qwen3_235B_a22B", "B300", qwen) })
    local paged = { dtype = "FP8-MX", offload = "moe_paged_stash", cuda_graph = "full_iteration", overlap_moe_a2a = "1",
      fp8_recipe = "mxfp8/e4m3 (param_gather in low precision, fp8 attention)" }
    local early, late = bridge("25.11", "GPT OSS 120B", "GB300", paged), bridge("26.06", "GPT OSS 120B", "GB300", paged)
    assert.same({ false, true }, { early.graphs, late.graphs })
    assert.same({ n = 2, nil, true }, table.pack(early.precision.fused_experts, late.precision.fused_experts))
  end)

  it("of DeepSeek-V3 in DGX Cloud drops tokens, runs its script's modules again and has its stages", function()
    local fields = { source = "NVIDIA DGX Cloud benchmarking recipes", table = "Deepseek V3 BF16",
      model = "DeepSeek-V3", layers = "61", hidden = "7168", heads = "128", vocab = "129280", experts = "256",
      topk = "8", moe_ffn = "2048",
      dtype = "bf16", gpus = "128", tp = "2", pp = "4", ep = "32", etp = "1", global_batch = "1024", gpu = "GB200" }
    local case = run(fields)
    assert.same({ 15, 14 }, { case.dealt.first_stage_layers, case.dealt.last_stage_layers })
    assert.same({ "core_attn" }, case.recompute.recompute_modules)
    assert.same({ 1, 1 }, { case.model.experts.imbalance, case.model.experts.capacity_factor })
    -- cuDNN had no kernels for heads of 192 features on Blackwell yet
    assert.equal("unfused", case.attention)
    fields.gpu, fields.gpus, fields.pp = "H100-SXM-80GB", "512", "8"
    case = run(fields)
    assert.same({ 7, 6 }, { case.dealt.first_stage_layers, case.dealt.last_stage_layers })
    assert.same({ "mla_up_proj" }, case.recompute.recompute_modules)
    assert.is_nil(case.attention)
  end)

  local AUTOMODEL <const> = { source = "NVIDIA NeMo AutoModel performance summary", zero_fsdp = "FSDP 64",
    micro_batch = "1" }

  local function automodel(fields)
    for name, value in pairs(AUTOMODEL) do fields[name] = fields[name] or value end
    return run(fields)
  end

  it("of NeMo AutoModel calls its pipeline once for each of a step's local batches", function()
    local fields = { pp = "4", vp = "2", gpus = "32", global_batch = "256", layers = "32",
      notes = "raw: A 7B | 32 | 256 | 1 | 8 | 4 | 4096 | 1 | 4 | 1 | - | 2 | 8 | TE | 1 | 2 | 3" }
    local case = automodel(fields)
    assert.equal(4, case.runs)
    local function seconds() return tperf.train(step.request(case, tperf.system "h100-sxm", "typical")).time end
    local several = seconds()
    case.runs = 1
    local once = seconds()
    -- 32 micro-batches of a replica, and the time of (4 - 1) / 2 each time that the pipeline fills and drains; what
    -- comes once a step dilutes it
    local most = (32 + 4 * 1.5) / (32 + 1.5)
    assert.is_true(several > (1 + most) / 2 * once and several < most * once)
    fields.pp, fields.vp = "1", "1"
    assert.equal(1, automodel(fields).runs)
  end)

  it("of NeMo AutoModel runs blocks again but in GPT-OSS and on one GPU, and LoRA as its scripts say", function()
    assert.equal("full", automodel({}).recompute.recompute)
    assert.equal("none", automodel({ model = "GPT-OSS 20B", hidden = "2880" }).recompute.recompute)
    local lora = { workload = "lora", peft = "lora", gpus = "8", tp = "2", model = "Llama3 70B" }
    assert.same({ "full", true }, { automodel(lora).recompute.recompute, automodel(lora).sequence_parallel })
    lora.model = "Qwen2.5 32B"
    assert.is_false(automodel(lora).sequence_parallel)
    lora.gpus, lora.tp = "1", "1"
    assert.equal("none", automodel(lora).recompute.recompute)
  end)

  it("of NeMo AutoModel routes a token to experts that follow each other", function()
    local function groups(experts, topk)
      local e = automodel({ model = "M", mlp = "swiglu", experts = experts, topk = topk, moe_ffn = "512",
        ep = "8" }).model.experts
      return { e.groups, e.top_groups }
    end
    assert.same({ 32, 1 }, groups("256", "8"))
    assert.same({ 16, 1 }, groups("128", "6")) -- of 8: 6 do not divide 128
  end)

  it("of fms-fsdp runs every second block again, over the network that it names", function()
    local fields = { source = "IBM fms-fsdp README", zero_fsdp = "FSDP", recompute = "selective", gpus = "16",
      gpus_per_node = "8", global_batch = "16", inter = "400 Gbps per node" }
    local case = run(fields)
    assert.same({ "full", "every", 2 }, { case.recompute.recompute, case.recompute.recompute_method,
      case.recompute.recompute_num_layers })
    local slow = step.system(case, tperf.system "a100-sxm-80gb").network.slow
    assert.same({ 400e9 / 8 / 8, 1 }, { slow.bandwidth, slow.nics_per_gpu })
    assert.equal(0.81, slow.efficiency.efficiency) -- Ethernet's curve: its scripts set up EFA
    fields.recompute = "none"
    assert.equal("none", run(fields).recompute.recompute)
  end)

  it("whose network is remote memory over Ethernet has that curve, also at the system's bandwidth", function()
    local function slow(inter)
      local case = run { source = "nanotron", gpus = "16", gpus_per_node = "8", global_batch = "16", inter = inter }
      return step.system(case, tperf.system "h100-sxm").network.slow
    end
    assert.equal(0.81, slow("EFA (AWS p5)").efficiency.efficiency)
    assert.is_nil(slow("EFA (AWS p5)").bandwidth)
    assert.equal(50e9 / 8, slow("4x100 Gb RoCE per node").bandwidth)
    assert.is_nil(slow "Giga Ethernet") -- perhaps the hosts' own
  end)

  it("of MLPerf's LoRA forgets a configuration that is another run's", function()
    local fields = { source = "MLPerf Training v5.0", workload = "lora", gpu = "NVIDIA H200-SXM5-141GB", gpus = "16",
      gpus_per_node = "8", dtype = "fp8", tp = "4", pp = "1", cp = "2", dp = "2", global_batch = "8",
      packed_seq = "8192", notes = "grad_accum 2; run_s 890", recipe_source = "HPE/config_XD670_2x8x4xtp4pp1cp2.sh",
      fp8_recipe = "fp8 delayed, fp8 attention" }
    local function layout(case) return { case.sizes.tp, case.sizes.cp, case.sizes.dp, case.precision.attention } end
    -- two micro-batches of 4 replicas, not of 2; what says nothing of the layout stays
    assert.same({ 4, 1, 4, "fp8" }, layout(run(fields)))
    fields.notes = "grad_accum 4; run_s 890"
    assert.same({ 4, 2, 2, "fp8" }, layout(run(fields)))
    fields.gpus, fields.dp, fields.tp, fields.cp, fields.notes = "8", "8", "1", "1", "grad_accum 1"
    fields.recipe_source, fields.fp8_recipe = "Dell/config_MI300X_1x8x1.sh", "fp8 delayed, fp8 activations stored"
    assert.is_nil(run(fields).precision.activation)
    fields.gpu, fields.recipe_source = "AMD Instinct MI325X", "Lambda/config_DGXB200_1x8x1xtp1pp1cp1.sh"
    fields.fp8_recipe = "fp8 delayed, fp8 attention"
    assert.same({ n = 2, nil, "fp8" }, table.pack(run(fields).precision.attention, run(fields).precision.activation))
    assert.same({ recompute = "none" }, run(fields).recompute)
    fields.gpu = "AMD Instinct MI300X 192GB HBM3" -- ACG=full ACM=block ACL=21
    assert.same({ recompute = "full", recompute_method = "block", recompute_num_layers = 21 }, run(fields).recompute)
  end)

  it("that the table's footnote calls slowed by a defect is left out", function()
    local fields = { source = "NVIDIA Megatron-Bridge performance summary", notes = "raw: 661[^gpt-oss-note]" }
    assert.error_matches(function() run(fields) end, "the table itself says that a kernel's defect slowed it")
  end)

  it("of MLPerf on AMD's GPUs is a run of AMD's implementation", function()
    assert.equal("rocm-mlperf-5.0", run({ source = "MLPerf Training v5.0", gpu = "AMD Instinct MI325X" }).stack)
    local profiles = { ["v3.1"] = "3.1", ["v4.1"] = "3.1", ["v5.0"] = "5.0", ["v5.1"] = "5.1", ["v6.0"] = "5.1" }
    for release, profile in pairs(profiles) do
      local case = run { source = "MLPerf Training " .. release, gpu = "NVIDIA H200" }
      assert.equal("nemo-mlperf-" .. profile, case.stack)
    end
  end)

  it("of MLPerf's LoRA without a layout has the graphs of NVIDIA's configurations", function()
    -- config_DGXH100_16x8x1xtp4pp1cp2.sh (v4.1): LAYER_CUDA_GRAPH; config_GB200_18x4x1xtp1pp1cp8.sh (v5.0):
    -- MCORE_CUDA_GRAPH; config_DGXH200_1x8x2xtp1pp1cp2.sh (v4.1) and config_DGXH100_1x8x4xtp4pp1cp1.sh (v4.0): neither
    local function of(release, gpu, gpus, steps)
      local case = run { source = "MLPerf Training " .. release, workload = "lora", gpu = gpu, gpus = gpus,
        global_batch = "8", notes = "grad_accum " .. steps, tp = "", pp = "", cp = "", micro_batch = "" }
      local layers = case.switches.cuda_graphs
      return { case.sizes.tp, case.sizes.cp, layers and layers[1] or "", case.graphs }
    end
    assert.same({ 4, 2, "layer", false }, of("v4.1", "NVIDIA H100-SXM5-80GB", "32", 2))
    assert.same({ 1, 8, "", true }, of("v5.0", "NVIDIA Blackwell GPU (GB200)", "64", 1))
    assert.same({ 1, 2, "", false }, of("v4.1", "NVIDIA H200-SXM5-141GB", "8", 2))
    assert.same({ 4, 1, "", false }, of("v4.0", "NVIDIA H100-SXM5-80GB", "8", 4))
  end)

  it("of MLPerf is sequence parallel, and has the chunks of its configuration", function()
    local fields = { source = "MLPerf Training v3.1", model = "GPT3-175B", layers = "96", tp = "4", pp = "2" }
    local case = run(fields)
    assert.same({ true, 12 }, { case.sequence_parallel, case.sizes.vp })
    fields.vp, fields.tp = "6", "1"
    case = run(fields)
    assert.same({ false, 6 }, { case.sequence_parallel, case.sizes.vp })
    fields.vp, fields.model = "", "Llama3.1-405B"
    assert.equal(1, run(fields).sizes.vp)
  end)

  it("of nanotron deals layers by weights, the head's among them", function()
    -- nanotron's docs print these blocks of Llama 3 8B for 8 stages
    local fields = { source = "nanotron best configurations", layers = "32", hidden = "4096", ffn = "14336",
      heads = "32", kv_heads = "8", vocab = "128256", mlp = "swiglu", pp = "8" }
    assert.same({ 5, 4, 4, 5, 4, 4, 4, 2 }, run(fields).dealt.pipeline_layout)
    fields.source = "SimuMax B200"
    assert.is_nil(run(fields).dealt.pipeline_layout)
  end)

  it("ties a gated model's tables if the number of parameters says so", function()
    local fields = { source = "nanotron", layers = "16", hidden = "2048", ffn = "8192", heads = "32",
      vocab = "131072", mlp = "swiglu" }
    for billions, tied in pairs { ["1.34"] = true, ["1.61"] = false, [""] = false } do
      fields.params_b = billions
      assert.equal(tied, run(fields).model.tied_embeddings, billions)
    end
  end)

  it("with hybrid sharding shards within its nodes", function()
    local fields = { source = "IBM fms-fsdp", zero_fsdp = "HSDP", gpus = "16", gpus_per_node = "8",
      global_batch = "16" }
    assert.same({ 3, 8 }, { run(fields).zero, run(fields).shard })
    fields.zero_fsdp = "FSDP"
    assert.is_nil(run(fields).shard)
  end)

  it("of a GPU limited to an unknown power is left out", function()
    local gpus = require "tperf.measured.gpus"
    local name, reason = gpus.system "B200-SXM (power limited)"
    assert.same({ nil, "the GPU's power limit is not given" }, { name, reason })
    assert.equal("b200-sxm", gpus.system "B200-SXM (power limited to 750 W)")
    local h100 = tperf.system "h100-sxm"
    assert.equal(500, gpus.variant("H100-SXM 96GB HBM2e (lower TDP)", h100).accelerator.power)
  end)

  it("of torchtitan in float8 gathers in it unless the row denies it", function()
    local function gather(recipe, source)
      return precisions.of(row { source = source or "torchtitan 405B", dtype = "fp8", fp8_recipe = recipe }).gather
    end
    assert.equal("narrow", gather "float8 tensorwise, dynamic")
    assert.is_nil(gather "float8 tensorwise, bf16 all-gather")
    assert.is_nil(gather "float8 rowwise (bf16 all-gather)")
    assert.is_nil(gather("float8 tensorwise, dynamic", "torchao"))
  end)

  it("of an experiment with Moonlight has the optimizer of its recipe", function()
    local source = "Megatron-Bridge performance skills (matched experiments)"
    local states = run({ source = source, model = "moonlight-16b-a3b" }).states
    assert.same({ "bf16", "bf16" }, { states.gradients, states.moments })
    assert.is_nil(run({ source = source, model = "other" }).states.moments)
  end)

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

  it("names a hybrid model, its layer pattern and its prediction modules", function()
    local nemotron = models.of(row { model = "nemotron-3-super-120b-a12b", layers = "88", hidden = "4096", seq = "4096",
      experts = "512", topk = "22", moe_ffn = "2688", mtp_layers = "2" })
    assert.same({ 40, 2, 1024 }, { select(2, nemotron.layer_pattern:gsub("M", "")), nemotron.mtp,
      nemotron.experts.latent })
    local h56 = models.of(row { model = "Nemotron-H-56B", layers = "118", hidden = "8192", ffn = "32768",
      heads = "64" })
    assert.equal(54, select(2, h56.layer_pattern:gsub("M", "")))
  end)

  it("that balances by force loads all GPUs alike, others by the number of each GPU's experts", function()
    local function imbalance(fields)
      local usual = { model = "qwen3-30b-a3b", layers = "48", hidden = "2048", experts = "128", topk = "8", ep = "8",
        source = "a table", notes = "" }
      for name, value in pairs(fields) do usual[name] = value end
      return tperf.model(models.of(row(usual))).experts.imbalance
    end
    assert.equal(1, imbalance { moe_router_force_balance = "1" })
    assert.equal(1, imbalance { notes = "force-balanced" })
    assert.equal(1, imbalance { ep = "1" })
    -- A Gini coefficient of 0.195 is that of normal numbers that deviate by 0.3456 of their mean; a GPU's 16 experts
    -- together deviate by a quarter of that. Of 8 standard normal numbers the largest is 1.424 on average, of 128 2.62.
    assert.near(1 + 0.3456 / 4 * 1.424, imbalance {}, 1e-3)
    assert.near(1 + 0.3456 * 2.62, imbalance { ep = "128" }, 1e-2)
    local mock = { source = "Megatron-Bridge model verification cards", workload = "pretrain" }
    assert.near(1 + 0.5495 / 4 * 1.424, imbalance(mock), 1e-3)
    mock.workload = "sft"
    assert.equal(imbalance {}, imbalance(mock))
    assert.near(imbalance {}, imbalance { moe_router_force_balance = "0",
      notes = "natural routing; pair of the force-balanced row" }, 1e-12)
  end)

  it("names the parts of its layers that graphs launch", function()
    local function captured(text)
      return require "tperf.measured.run.switches"(row { cuda_graph = text }, { ep = 1 }).cuda_graphs
    end
    assert.same({ "attn", "moe_router" }, captured "transformer_engine:attn+moe_router+moe_preprocess")
    assert.same({ "layer" }, captured "transformer_engine")
    assert.same({ "layer" }, captured "transformer_engine:full")
    assert.same({ "layer" }, captured "layer") -- MLPerf's LAYER_CUDA_GRAPH
    assert.is_nil(captured "per layer (MCORE_CUDA_GRAPH)") -- Megatron's own: host 0, see step.lua
    assert.is_nil(captured "none")
    assert.is_nil(captured "local:full_iteration") -- host 0, see step.lua
  end)

  it("names the recipe of its products, or none", function()
    local function of(source, dtype, recipe)
      return precisions.of { source = source, dtype = dtype, fp8_recipe = recipe, experts = "" }
    end
    assert.equal("bf16", of("MLPerf", "bf16", "none"))
    assert.is_nil(of("MLPerf", "fp8 or fp4 (config not matched)", ""))
    assert.same({ recipe = "fp8-delayed", attention = "fp8" },
      of("MLPerf Training v5.1", "fp8", "fp8 delayed, fp8 attention, amax max of 4, amax reduced"))
    assert.same({ recipe = "fp8-delayed", parameters = "narrow" },
      of("MLPerf Training v4.1", "fp8", "fp8 delayed/hybrid, param gather in fp8, amax max of 1024"))
    assert.same({ recipe = "fp8-current", parameters = "narrow" },
      of("NVIDIA Megatron-Bridge performance summary", "FP8", "tensorwise/hybrid (param_gather in low precision)"))
    assert.same({ recipe = "fp8-tensorwise", gather = "narrow" },
      of("torchtitan", "fp8", "float8 tensorwise, dynamic, float8 all-gather of FSDP"))
    assert.same({ recipe = "fp8-rowwise", weight_grad = "bf16" },
      of("torchao", "fp8", "rowwise_with_gw_hp, bf16 all-gather"))
    assert.same({ recipe = "mxfp8" }, of("x", "FP8-CS (FP8-MX)", "mxfp8/e4m3"))
    assert.same({ recipe = "mxfp8", inputs = "bf16" }, of("torchao", "mxfp8", "mxfp8_cublas")) -- MXLinear's
    assert.same({ recipe = "nvfp4", attention = "fp8" },
      of("x", "fp4", "fp4 nvfp4, fp8 attention Float8CurrentScaling"))
    assert.same({ recipe = "fp8-delayed" }, of("MosaicML llm-foundry benchmarking", "amp_fp8", ""))
  end)

  -- gpt3_mcore_te_tp1_pp1, 12 layers of 512: fused attention keeps 5 a s^2 b = 168 MB a layer less (arXiv 2205.05198,
  -- section 4.1), which its golden values show: 4.352 GiB against 2.526.
  it("keeps scores if attention is not fused", function()
    local function predicted(fields)
      for name, value in pairs { source = "Megatron-LM golden values (CI small models)", gpu = "A100", gpus = "8",
        workload = "pretrain", model = "gpt3", layers = "12", hidden = "512", ffn = "2048", heads = "8",
        kv_heads = "8", seq = "1024", mlp = "gelu", dtype = "bf16", tp = "1", pp = "1", micro_batch = "4",
        global_batch = "32", recompute = "none", zero_fsdp = "distributed optimizer", iter_s = "1",
        peak_mem_gib = "1" } do
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

  local LORA <const> = { source = "MLPerf Training v4.1", table = "llama2_70b_lora", workload = "lora",
    model = "Llama2-70B-LoRA", layers = "80", hidden = "8192", seq = "8192", gpu = "NVIDIA H100-SXM5-80GB", gpus = "8",
    gpus_per_node = "8", dtype = "fp8", global_batch = "8", iter_s = "3.7", recompute = "none", packed_seq = "8192",
    peft = "lora", peft_rank = "16", peft_targets = "linear_qkv+linear_proj (attention)", notes = "x; grad_accum 4; y" }

  local function case(change)
    local fields = {}
    for name, value in pairs(LORA) do fields[name] = value end
    for name, value in pairs(change or {}) do fields[name] = value end
    return step.case(row(fields))
  end

  -- NVIDIA's conf/megatron_gpt_peft_tuning_config.yaml: fp8_params, disable_parameter_transpose_cache.
  it("of MLPerf's LoRA stores frozen weights once, in 8 bits", function()
    local one = case()
    assert.same({ "narrow", false }, { one.precision.parameters, one.precision.cached })
    local other = case { source = "NVIDIA DGX Cloud benchmarking recipes", tp = "4", pp = "1", micro_batch = "1" }
    assert.same({}, { other.precision.parameters, other.precision.cached })
  end)

  it("of LoRA gives its adapters, and a replica's GPUs from its gradient accumulation", function()
    local one = case()
    assert.same({ kind = "lora", rank = 16, targets = { "linear_qkv", "linear_proj" }, dropout = 0.1, a2a = true },
      one.peft)
    assert.same({ 4, 1, 2 }, { one.sizes.tp, one.sizes.cp, one.sizes.dp })
    local h200 = case { gpu = "NVIDIA H200-SXM5-141GB", notes = "grad_accum 2" }
    assert.same({ 1, 2, 4 }, { h200.sizes.tp, h200.sizes.cp, h200.sizes.dp })
    local none, reason = case { notes = "" }
    assert.is_nil(none)
    assert.equal("the parallelism is not given", reason)
    none, reason = case { workload = "rl-grpo", peft = "", source = "NeMo-RL" }
    assert.is_nil(none)
    assert.equal("not training alone (rl-grpo)", reason)
    none, reason = case { peft = "", workload = "pretrain", table = "26.08 rc pretrain qwen35_vl_27b_mock_config" }
    assert.is_nil(none)
    assert.equal("the images of a vision-language model are not given", reason)
  end)

  it("of other stacks has the adapters of their recipes, and documents if sequences are packed", function()
    local fields = { source = "NVIDIA DGX Cloud benchmarking recipes", model = "Llama3-8B", layers = "32",
      hidden = "4096", tp = "1", pp = "1", peft_targets = "", peft_rank = "" }
    local nemo = case(fields)
    assert.same({ kind = "lora", rank = 8, targets = { "linear_qkv" } }, nemo.peft)
    assert.same({ mean = 180 }, nemo.packing)
    assert.is_nil(case().packing) -- in MLPerf's runs, attention crosses documents
    assert.is_false(nemo.apart)
    fields.workload, fields.peft = "sft", ""
    assert.is_nil(case(fields).peft)
    fields.source, fields.table = "Megatron-Bridge model verification cards", "26.08 rc sft H100 llama3"
    assert.is_true(case(fields).apart) -- kept out of the fit of its stack's profile
  end)

  it("with two precisions takes that of its configuration or its GPU", function()
    local open = { dtype = "fp8 or fp4 (config not matched)" }
    assert.equal("fp8-delayed", case(open).precision.recipe)
    open.gpu, open.fp8_recipe = "NVIDIA Blackwell GPU (B200-SXM-180GB)", "fp4 nvfp4, fp8 attention"
    assert.equal("nvfp4", case(open).precision.recipe)
    open.dtype = "fp8" -- of the attention alone
    assert.equal("nvfp4", case(open).precision.recipe)
    open.dtype, open.recipe_source = "fp8 or fp4 (MLPerf config; both exist)", "Oracle/config_DGXB200_1x8x2_fp4.sh"
    assert.equal("nvfp4", case(open).precision.recipe)
    open.recipe_source = "Dell/config_DGXB300_1x8x1xtp1pp1cp1_fp4.sh"
    assert.equal("the precision is not settled", select(2, case(open)))
    open.dtype, open.fp8_recipe, open.recipe_source = "fp8 or fp4 (config not matched)", "", nil
    local none, reason = case(open)
    assert.is_nil(none)
    assert.equal("the precision is not settled", reason)
  end)

  it("without heads has as many as its tensor parallelism divides", function()
    local fields = { model = "GPT", layers = "84", hidden = "13824", seq = "2048", mlp = "gelu", tp = "8" }
    assert.equal(96, models.of(row(fields)).heads) -- 144 features each; 108 heads of 128 are no multiple of 8
    fields.tp = "4"
    assert.equal(108, models.of(row(fields)).heads)
  end)

  it("assigns layers as Megatron's layout string does, and derives chunks from its stages", function()
    local fields = { source = "Megatron-LM golden values (CI small models)", workload = "pretrain", model = "gpt3-moe",
      layers = "15", hidden = "1024", heads = "16", seq = "2048", mlp = "gelu", tp = "1", pp = "2", gpus = "8",
      dtype = "bf16", notes = "", peft = "", pp_layout = "Et*3\\|\\(tt\\|\\)*6L" }
    local one = case(fields)
    assert.same({ 4, "Et*3|(tt|)*6L" }, { one.sizes.vp, one.dealt.pipeline_layout })
    assert.equal(4, step.request(one, tperf.system "h100-sxm", tperf.software "typical").virtual_stages)
    fields.vp = "2"
    assert.same({}, case(fields).dealt) -- the layout of another run: 8 stages are not 2 x 2
  end)
end)

describe("pipeline_layout", function()
  local layout = require "tperf.describe.pipeline_layout"

  it("repeats bracketed parts, also nested ones", function()
    assert.equal(16, layout.stages "Et*4|(t*4|)*14tmL")
    assert.equal(9, layout.stages "E|((t|)*2t*3|)*2tt|tL")
    local c = tperf.train { model = "llama-2-7b", system = "h100-sxm", global_batch = 8, pp = 4, software = "none",
      pipeline_layout = "Et*7|(t*2t*6|)*2t*9L" }
    assert.same({ 7, 8, 8, 9 }, { c.stages[1].layers, c.stages[2].layers, c.stages[3].layers, c.stages[4].layers })
  end)

  it("refuses unclosed brackets, and brackets nested too deeply", function()
    assert.error_matches(function() layout.stages "Et|(tt|*3L" end, 'has "%(" at letter 4')
    assert.error_matches(function() layout.stages("E" .. ("("):rep(20) .. "t" .. (")"):rep(20) .. "L") end,
      "more than 8 brackets in each other")
    assert.error_matches(function() layout.stages("E" .. ("("):rep(7) .. "t" .. (")*4096"):rep(7) .. "L") end,
      "is longer than")
  end)
end)
