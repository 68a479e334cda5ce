-- Kernels that serving engines launch around products, beyond those of training: of gated delta nets, of routers in
-- 32 bits, of shared experts' gates, of norms over heads on several GPUs. Counted from the engines' code, in bytes by
-- hand.
local tperf = require "tperf"

local rules = tperf.rules()

-- The ops of a GPU in the first group that has `name`, by name, and their number.
local function ops_of(model, name, o)
  for _, group in ipairs(tperf.architecture.of(model).groups) do
    local share = tperf.strategy.share(tperf.strategy.of "tensor", model, o.micro_batch or 1, { o.tp or 1, 1 }, rules,
      { group = group, seq = o.mode == "decode" and 1 or 64, mode = o.mode or "train", context = 0, delta = o.delta,
        eager_ops = o.eager_ops })
    local found, n = {}, 0
    for _, b in ipairs(group.blocks) do
      for _, op in ipairs(b:ops(model, share)) do found[op:counts().name], n = op:counts(), n + 1 end
    end
    if found[name] then return found, n end
  end
end

describe("a gated delta net that is served", function()
  local model = tperf.model "qwen3.5-397b-a17b" -- 16 heads of keys, 64 of values, 128 features
  local KEYS <const>, VALUES <const>, HEADS <const>, BATCH <const> = 16 * 128, 64 * 128, 64, 4

  it("has two projections and a kernel that sorts their results", function()
    local ops, trained = ops_of(model, "rule", { mode = "decode", micro_batch = BATCH }), ops_of(model, "rule", {})
    assert.truthy(trained["in"] and not trained["in-qkvz"] and not ops["in"])
    local wide = 2 * KEYS + 2 * VALUES
    -- a number is the sum of 4096 products
    assert.equal((2 * 4096 - 1) * BATCH * wide, ops["in-qkvz"].forward.tensor_flops)
    assert.equal((2 * 4096 - 1) * BATCH * 2 * HEADS, ops["in-ba"].forward.tensor_flops)
    assert.equal(2 * 2 * BATCH * (wide + 2 * HEADS), ops.sort.forward.bytes)
  end)

  it("had four and seven copies in SGLang's first releases of it", function()
    local merged, n = ops_of(model, "rule", { mode = "decode", micro_batch = BATCH })
    local ops, more = ops_of(model, "rule", { mode = "decode", micro_batch = BATCH, delta = "separate" })
    assert.equal(n + 2 + 6, more)
    local flops = 0
    for _, name in ipairs { "in-qkv", "in-z", "in-b", "in-a" } do flops = flops + ops[name].forward.tensor_flops end
    assert.equal(merged["in-qkvz"].forward.tensor_flops + merged["in-ba"].forward.tensor_flops, flops)
    local bytes = 0
    for _, name in ipairs { "join-qkv", "copy-z", "copy-b", "copy-a", "copy-q", "copy-k", "copy-v" } do
      bytes = bytes + ops[name].forward.bytes
    end
    assert.equal(2 * 2 * BATCH * (2 * (2 * KEYS + VALUES) + VALUES + 2 * HEADS), bytes)
  end)

  it("is merged from SGLang 0.5.10 on", function()
    assert.equal("separate", tperf.software("sglang-0.5").engine.delta)
    assert.equal("merged", tperf.software("sglang-0.5.10").engine.delta)
    local function tpot(software)
      return tperf.serve { model = model, system = "b200-sxm", tp = 8, software = software,
        requests = { { arrival = 0, prompt = 64, output = 32 } } }.tpot.mean
    end
    -- 45 layers of 8 kernels fewer, of at least 1.8 us on a B200
    local merged = tperf.software "sglang-0.5.10" -- earlier releases have other kernels of experts, too
    local saved = tpot(merged:with { engine = { delta = "separate" } }) - tpot(merged)
    assert.truthy(saved > 45 * 8 * 1.8e-6 and saved < 45 * 8 * 5e-6, saved)
  end)
end)

describe("the gate of shared experts", function()
  it("scales and adds in one kernel, or in three where nothing compiles the model", function()
    local model = tperf.model "qwen3.5-397b-a17b"
    local one = ops_of(model, "rule", { mode = "decode", micro_batch = 4 })
    assert.equal(3 * 2 * 4 * 4096, one["gated-sum"].forward.bytes) -- both outputs are read, the sum is written
    local three = ops_of(model, "rule", { mode = "decode", micro_batch = 4, eager_ops = true })
    assert.is_nil(three["gated-sum"])
    assert.equal(2 * 2 * 4, three["gate-sigmoid"].forward.bytes)
    assert.equal(2 * 2 * 4 * 4096, three.gate.forward.bytes)
    assert.equal(3 * 2 * 4 * 4096, three.sum.forward.bytes)
    assert.is_nil(ops_of(model, "rule", {})["gated-sum"])
  end)
end)

describe("a router in 32 bits", function()
  local model = tperf.model "minimax-m2" -- 3072 features, 256 experts

  it("multiplies on the vector units, after a copy of its input", function()
    local ops = ops_of(model, "router", { mode = "prefill" })
    assert.equal(0, ops.router.forward.tensor_flops)
    assert.truthy(ops.router.forward.vector_flops >= 2 * 64 * 3072 * 256)
    assert.equal((2 + 4) * 64 * 3072, ops["router-input"].forward.bytes)
    assert.is_nil(ops["router-sums"])
    assert.truthy(ops_of(model, "router", { mode = "decode" })["router-sums"])
  end)

  it("takes as long as the GPU's units for 32 bits", function()
    local function router(system)
      local r = tperf.infer { model = model, system = system, tp = 4, weight_dtype = "fp8", compute_dtype = "fp8",
        prompt = 8192, generate = 2, batch = 1, ops = true }
      for _, op in ipairs(r.ops) do
        if op.name == "router" and op.phase == "prefill" then return op.time end
      end
    end
    local flops = 2.0 * 8192 * 3072 * 256
    assert.near(1, router "b200-sxm" / (flops / (0.8 * 80e12)), 0.1) -- 80 TFLOP/s, of which 0.8 are reached
  end)

  it("is in 16 bits in training, and where a model does not say", function()
    assert.is_nil(ops_of(model, "router", {})["router-input"])
    assert.truthy(ops_of(model, "router", {}).router.forward.tensor_flops > 0)
    assert.is_nil(ops_of(tperf.model "deepseek-v3", "router", { mode = "decode" })["router-input"])
  end)
end)

describe("a norm over the heads of several GPUs", function()
  it("sums squares in a kernel of its own before the GPUs exchange them", function()
    local model = tperf.model "minimax-m2" -- 48 heads of queries, 8 of keys, 128 features
    local ops = ops_of(model, "router", { mode = "decode", tp = 4, micro_batch = 4 })
    assert.equal(2 * 4 * 48 * 128 // 4, ops["q-sums"].forward.bytes)
    assert.equal(2 * 4 * 8 * 128 // 4, ops["k-sums"].forward.bytes)
    assert.is_nil(ops_of(model, "router", { mode = "decode" })["q-sums"])
    assert.is_nil(ops_of(model, "router", { tp = 4 })["q-sums"])
  end)
end)
