-- Rows of experts that are padded for narrow products, and shared experts beside the exchanges.
local cases = require "cases"
local experts_only = require "experts_only"
local picker = require "picker"
local tperf = require "tperf"

local SEED <const>, CASES <const> = 167, cases(30, 100)
local STACK <const> = experts_only.STACK

-- Layers with a shared expert, too.
local function experts_model(change)
  local experts = { shared = 1 }
  for name, value in pairs(change or {}) do experts[name] = value end
  return experts_only.model(4, experts)
end

local function trained(change)
  local q = { model = experts_model(), system = "h100-sxm", gpus = 8, ep = 8, global_batch = 32, software = "none",
    explain = true }
  for key, value in pairs(change) do q[key] = value end
  return tperf.train(q)
end

local function ops_of(c)
  local found = {}
  for _, op in ipairs(c.kinds[1].ops) do found[op.name] = op end
  return found
end

-- Rows that the experts' last product works on, from its FLOPs: 2048 features to 4096.
local function rows(c)
  return math.floor(ops_of(c).fc2.forward.tensor_flops / (4096 * (2 * 2048 - 1)) + 0.5)
end

-- Bytes that a GPU sends, as whole tokens' copies of 4096 numbers of 2 bytes.
local function sent(c) return math.floor(ops_of(c).dispatch.forward.comms[1].bytes / (2 * 4096) + 0.5) end

describe("rows of experts", function()
  it("are padded to multiples of 16 in 8 bits, and of 32 with blocks of scales", function()
    -- 4096 x 4 rows for a GPU's 8 experts; each lacks 7.5 of a multiple of 16 on average, 15.5 of one of 32
    assert.equal(16384, rows(trained {}))
    assert.equal(16384 + 60, rows(trained { precision = "fp8-current" }))
    assert.equal(16384 + 60, rows(trained { precision = "fp8-block" }))
    assert.equal(16384 + 124, rows(trained { precision = "mxfp8", system = "b200-sxm" }))
    assert.equal(16384 + 124, rows(trained { precision = "nvfp4", system = "b200-sxm" }))
    assert.equal(16384, rows(trained { precision = { recipe = "fp8-current", products = "dense" } }))
  end)

  it("are padded by every sender where the router pads, and travel", function()
    local c = trained { precision = { recipe = "fp8-current", padding = "router" } }
    assert.equal(16384 + 8 * 60, rows(c)) -- 8 GPUs send to each of the 8 experts
    assert.equal(16384 + 8 * 60, sent(c))
    assert.equal(16384, sent(trained { precision = "fp8-current" }))
    local deepep = trained { precision = { recipe = "fp8-current", padding = "router" }, moe_dispatcher = "deepep" }
    assert.equal(16384 + 60, rows(deepep)) -- which pads what has arrived
  end)

  it("fill up the slots of a capacity", function()
    local model = experts_model { capacity_factor = 1.25 }
    -- 4120 x 4 x 1.25 / 8 experts = 2575 slots, 161 x 16 = 2576
    assert.equal(8 * 2576, rows(trained { model = model:with { seq = 4120 }, precision = "fp8-current" }))
    assert.equal(8 * 2575, rows(trained { model = model:with { seq = 4120 } }))
  end)

  it("are copied there and back by kernels of their own, except where another kernel pads", function()
    local pad = ops_of(trained { precision = "fp8-current" })
    assert.near(2 * 4096 * (16384 + 16444), pad.pad.forward.bytes, 1)
    assert.near(2 * 4096 * (16384 + 16444), pad.unpad.backward.bytes, 1)
    for _, change in ipairs {
      {}, { precision = "fp8-current", moe_dispatcher = "hybridep" }, { precision = "fp8-tensorwise" },
      { precision = { recipe = "fp8-current", padding = "router" } },
      { precision = { recipe = "fp8-current", padding = "sort" } },
    } do
      assert.is_nil(ops_of(trained(change)).pad)
    end
    assert.equal(16444, rows(trained { precision = "fp8-tensorwise" }))
  end)
end)

local function work(pass) return pass.compute_time + pass.exposed_memory_time end

describe("fused experts", function()
  local NUMBER <const>, ROWS <const>, FFN <const> = 1 + 1 / 32, 16384 + 124, 2048
  local function ops(fused)
    return ops_of(trained { precision = { recipe = "mxfp8", fused_experts = fused }, system = "b200-sxm",
      model = experts_model { shared = 0 } })
  end
  local plain, fused = ops(false), ops(true)

  it("neither write nor read in 16 bits what lies between their products", function()
    -- both copies of the second product's input, and of the gradient of the first one's output
    assert.near(2 * NUMBER * ROWS * FFN, fused["fc2-cast"].forward.bytes, 1)
    assert.near(2 * NUMBER * ROWS * 2 * FFN, fused["fc1-cast"].backward.bytes, 1)
    assert.near((2 + 2 * NUMBER) * ROWS * FFN, plain["fc2-cast"].forward.bytes, 1)
    assert.near((2 + 2 * NUMBER) * ROWS * 2 * FFN, plain["fc1-cast"].backward.bytes, 1)
    -- the activation has no kernel; its gradient reads both of its kept inputs
    assert.equal(0, fused.silu.forward.bytes)
    assert.near(2 * 2 * ROWS * FFN, fused.silu.backward.bytes, 1)
  end)

  it("read the rows that arrive, and the gradients of their results, as before", function()
    assert.equal(plain["fc1-cast"].forward.bytes, fused["fc1-cast"].forward.bytes)
    assert.equal(plain["fc2-cast"].backward.bytes, fused["fc2-cast"].backward.bytes)
    for _, name in ipairs { "fc1", "fc2" } do
      assert.equal(plain[name].forward.tensor_flops, fused[name].forward.tensor_flops)
    end
  end)

  it("leave a dense model as it is", function()
    local q = { model = "llama-2-7b", system = "b200-sxm", gpus = 8, global_batch = 32, precision = "mxfp8" }
    local time = tperf.train(q).time
    q.precision = { recipe = "mxfp8", fused_experts = true }
    assert.equal(time, tperf.train(q).time)
  end)

  it("are of one recipe alone", function()
    assert.error_matches(function() trained { precision = { recipe = "fp8-block", fused_experts = true } } end,
      "'precision.fused_experts' is for recipe 'mxfp8', got 'fp8%-block'")
  end)
end)

describe("overlap_shared_experts", function()
  local FAR <const> = { gpus = 32, ep = 32, global_batch = 64 } -- over the NICs

  local function far(change)
    local q = {}
    for name, value in pairs(FAR) do q[name] = value end
    for name, value in pairs(change) do q[name] = value end
    return trained(q)
  end

  local function refusal(change)
    local ok, message = pcall(far, change)
    assert.is_false(ok)
    return tostring(message)
  end

  it("hides a dispatch behind the first shared product and a combine behind the last", function()
    for _, where in ipairs { FAR, { gpus = 8, ep = 8, global_batch = 16, system = "gb200-nvl72" } } do
      local plain, c = trained(where), {}
      for name, value in pairs(where) do c[name] = value end
      c.overlap_shared_experts = true
      c = trained(c)
      local ops, hidden = ops_of(plain), 0
      for _, pass in ipairs { "forward", "backward" } do
        for product, exchange in pairs { ["shared-fc1"] = "dispatch", ["shared-fc2"] = "combine" } do
          local time = ops[exchange][pass].comm_time
          assert.is_true(time > 0)
          local covered = math.min(time, work(ops[product][pass]))
          assert.near(time - covered, ops_of(c)[product][pass].comm_time, 1e-12)
          assert.equal(0, ops_of(c)[exchange][pass].comm_time)
          hidden = hidden + covered
        end
      end
      assert.is_true(hidden > 0)
      assert.near(plain.time - plain.microbatches * 4 * hidden, c.time, 1e-9 * c.time)
      assert.is_true(c.overlap_shared_experts)
      assert.is_nil(plain.overlap_shared_experts)
    end
  end)

  it("slows the product by the multiprocessors that the exchange takes", function()
    local with = { compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 1, comm_sms = 33, name = "s" }
    local near = { gpus = 8, ep = 8, global_batch = 8, system = "h100-sxm", software = with }
    local time = ops_of(trained(near)).combine.forward.comm_time
    near.overlap_shared_experts = true
    local product = ops_of(trained(near))["shared-fc2"].forward
    assert.near(math.max(time - work(product), time / 4), product.comm_time, 1e-12) -- 33 of 132
  end)

  it("is simulated as long as its closed form says, and explained by terms that add up", function()
    local pick = picker(SEED)
    for _ = 1, CASES do
      local micro_batch = pick { 1, 2 }
      local tp = pick { 1, 1, 2 }
      local c = trained {
        gpus = 64, tp = tp, etp = 1, ep = pick { 8, 32 }, pp = pick { 1, 2 }, micro_batch = micro_batch,
        global_batch = 64 * micro_batch * pick { 1, 2 }, recompute = pick { "none", "full" }, simulate = true,
        sequence_parallel = pick { true, false }, software = pick { "none", STACK }, overlap_shared_experts = true,
        precision = pick { "bf16", "fp8-current" }, zero = pick { 1, 2 },
      }
      assert.is_true(math.abs(c.simulated.time / c.time - 1) < 1e-9)
      local sum = 0
      for i = 1, #c.sum - 1 do sum = sum + c.sum[i].seconds end
      assert.near(c.time, sum, 1e-9 * c.time)
    end
  end)

  it("is a habit that a software profile may have", function()
    local habit = { overlap_shared_experts = true }
    for name, value in pairs(STACK) do habit[name] = value end
    assert.equal(far({ software = STACK, overlap_shared_experts = true }).time, far({ software = habit }).time)
  end)

  it("is refused where Megatron-LM refuses it", function()
    assert.is_truthy(refusal({ overlap_shared_experts = true, overlap_moe_a2a = true }):find "ask for one of them")
    assert.is_truthy(refusal({ overlap_shared_experts = true, moe_dispatcher = "deepep" }):find "not with 'deepep'")
    assert.is_truthy(refusal({ overlap_shared_experts = true, recompute = "selective",
      recompute_modules = { "shared_experts" } }):find "runs again")
    assert.is_truthy(refusal({ overlap_shared_experts = true, model = experts_model { shared = 0 } }):find "has none")
    assert.is_truthy(refusal({ overlap_shared_experts = true, model = experts_model { latent = 1024 } })
      :find "work in a latent")
  end)
end)
