-- Rows of published runs of stacks that compile a whole step: MaxText's and AXLearn's meshes and lists of kept tensors,
-- NeuronX's ranks of half a chip.
local near = require "near"
local step = require "tperf.measured.run.step"
local tperf = require "tperf"

local function row(fields)
  local usual = { workload = "pretrain", layers = "32", hidden = "4096", ffn = "14336", heads = "32", kv_heads = "8",
    head_dim = "128", seq = "8192", vocab = "128256", dtype = "bf16", mlp = "swiglu", tp = "1", pp = "1", iter_s = "1",
    model = "Llama-3.1-8B", gpu = "TPU v6e", zero_fsdp = "FSDP over the rest", micro_batch = "4" }
  for name, value in pairs(fields) do usual[name] = value end
  return setmetatable(usual, { __index = function() return "" end })
end

local function case(fields) return assert(step.case(row(fields))) end

describe("a row of a run in JAX", function()
  it("says what a layer keeps by MaxText's policies", function()
    local function read(policy)
      local c = case { source = "MaxText configurations", gpus = "256", global_batch = "1024", recompute = policy }
      return { c.stack, c.recompute.recompute_keep, c.offload.offload_modules }
    end
    assert.same({ "maxtext-2024", { "input" } }, read "full")
    assert.same({ "maxtext-2024", { "input", "core_attn", "mlp_norm", "mlp_act" } }, read "minimal")
    assert.same({ "maxtext-2024", { "input", "core_attn" }, { "core_attn" } }, read "qkv_proj_offloaded")
    assert.same({ "maxtext-2024", { "input", "core_attn", "mlp_norm" }, { "attn_norm", "core_attn", "mlp_norm" } },
      (function()
        local c = case { source = "tpu-recipes logs", gpus = "256", global_batch = "1024", recompute = "custom" }
        return { c.stack, c.recompute.recompute_keep, c.offload.offload_modules }
      end)())
  end)

  it("has a mesh: slices, axes that share weights, devices that are half a chip", function()
    local function read(fields)
      fields.source, fields.recompute, fields.gpus = "MaxText configurations", "full", fields.gpus or "512"
      fields.global_batch = fields.global_batch or "2048"
      local c = case(fields)
      return { c.sizes.dp, c.shard, c.slice }
    end
    local slices = { zero_fsdp = "FSDP in a slice, data over slices", notes = "2 slice(s) of v6e-256" }
    assert.same({ 512, 256, 256 }, read(slices))
    slices.tp = "4"
    slices.micro_batch = "16"
    assert.same({ 128, 64, 256 }, read(slices))
    assert.same({ 512, 128 }, read { zero_fsdp = "FSDP 128 x data 4" })
    assert.same({ 512, 128 }, read { zero_fsdp = "FSDP: data 4 x fsdp" })
    local intra = "ICI (two JAX devices per chip)"
    assert.same({ 64 }, read { zero_fsdp = "fsdp 16 x fsdp_transpose 8", intra = intra, gpus = "64",
      global_batch = "256" })
    assert.same({ 64, 32 }, read { zero_fsdp = "data 2 x fsdp 64", intra = intra, gpus = "64", global_batch = "256" })
  end)

  it("of context parallelism over devices counts chips", function()
    local c = case { source = "tpu-recipes training", gpu = "TPU v7", model = "Llama-3.1-70B", recompute = "custom",
      intra = "ICI (two JAX devices per chip)", gpus = "256", cp = "8", micro_batch = "0.25", global_batch = "64",
      zero_fsdp = "FSDP: fsdp over all devices" }
    assert.same({ 4, 64, 1 }, { c.sizes.cp, c.sizes.dp, c.steps[1].micro_batch })
    assert.same({ "input", "core_attn", "attn_proj" }, c.recompute.recompute_keep)
  end)

  it("may multiply in int8, and is left out in what nobody knows", function()
    local function read(dtype)
      return step.case(row { source = "MLPerf Training v4.0 logs", gpus = "256", global_batch = "1024",
        recompute = "full", dtype = dtype })
    end
    assert.equal("int8", read "int8 (AQT) matmuls, bf16".precision)
    assert.equal("int8", read "int8 matmuls (AQT); the folder says fp8".precision)
    assert.same({ n = 2, nil, "'xyz' in column dtype is not known" }, table.pack(read "xyz"))
    assert.same({ n = 2, nil, "'int4' in column dtype is not known" }, table.pack(read "int4"))
  end)

  it("keeps the system's own domain, or its slice of it", function()
    local system = tperf.system "tpu-v5p"
    local function domain(fields)
      fields.source, fields.gpu, fields.recompute = "MaxText configurations", "TPU v5p", "full"
      fields.gpus, fields.global_batch, fields.gpus_per_node = "128", "512", "4"
      return (step.system(case(fields), system, false).network.fast or system.network.fast).domain
    end
    assert.equal(8960, domain {})
    assert.equal(64, domain { zero_fsdp = "FSDP in a slice, data over slices", notes = "2 slice(s) of v5p-128" })
  end)

  it("counts attention as it says", function()
    local function seconds(kind)
      return case { source = "MaxText configurations", gpus = "256", global_batch = "1024", recompute = "full",
        iter_s = "", tflops_gpu = "400", tflops_kind = kind }.measured
    end
    -- 6 x 2 x layers x hidden x seq / 2 FLOP of a token are what the mask leaves out.
    near(1024 * 8192 * 6.0 * 32 * 4096 * 8192 / (400e12 * 256),
      seconds "model, attention not halved" - seconds "model, causal attention halved", "half of attention")
  end)
end)

describe("a row of NeuronX", function()
  it("counts ranks of half a chip: two share a chip", function()
    local function read(tp, dp)
      local c = case { source = "AWS Neuron SDK training performance", gpu = "Trainium1", gpus = "64", tp = tp, dp = dp,
        zero_fsdp = "", micro_batch = "1", global_batch = "1024", notes = "ranks are NeuronCores, two per chip" }
      return { c.sizes.tp, c.sizes.dp, c.steps[1].micro_batch }
    end
    assert.same({ 4, 16, 1 }, read("8", "16"))
    assert.same({ 1, 64, 2 }, read("1", "128"))
  end)
end)
