-- The kernels between the experts' matrix products in training, in bytes counted by hand from Megatron-Core's kernels.
local tperf = require "tperf"

local TOKENS <const> = 4096 -- per GPU: one sequence

local function ops_of(model, ep, precision)
  local c = tperf.train {
    model = model, system = "gb200-nvl72", gpus = math.max(ep, 2), ep = ep, global_batch = math.max(ep, 2),
    seq = TOKENS, software = "none", precision = precision,
  }
  local ops = {}
  for _, kind in ipairs(c.kinds) do
    for _, op in ipairs(kind.ops) do ops[op.name] = op end
  end
  return ops
end

describe("between the products of experts", function()
  local HIDDEN <const>, TOP_K <const>, EXPERTS <const> = 2048, 8, 128 -- of Qwen3 30B
  local ROWS <const> = TOKENS * TOP_K

  it("rows are copied into place, and once more to sort received rows by expert", function()
    for ep, copies in pairs { [1] = 1, [8] = 2, [128] = 1 } do -- 128: one expert a GPU, nothing to sort
      local ops = ops_of("qwen3-30b-a3b", ep)
      -- Tokens are read once for all their rows; a second copy reads and writes every row. 16-bit numbers.
      local bytes = 2 * HIDDEN * (TOKENS + ROWS + (copies - 1) * 2 * ROWS)
      for _, name in ipairs { "dispatch", "combine" } do
        assert.equal(bytes, ops[name].forward.bytes, name .. " over " .. ep)
        assert.equal(bytes, ops[name].backward.bytes, name .. " over " .. ep)
      end
    end
  end)

  it("halves of an activation with limits are limited one by one and joined, unless experts are fused", function()
    local limited = tperf.model "gpt-oss-120b"
    local free, elements = limited:with { limited_activation = false }, TOKENS * 4 * 2880
    local function more(precision, name)
      local one, other = ops_of(limited, 64, precision).silu, ops_of(free, 64, precision).silu
      return { one[name].bytes - other[name].bytes, one.saved_bytes - other.saved_bytes }
    end
    -- 16-bit numbers: two halves read and written, then both; kept once more
    assert.same({ 16 * elements, 4 * elements }, more("bf16", "forward"))
    -- two gradients and two inputs read, two gradients written, then both read and written
    assert.same({ 20 * elements, 4 * elements }, more("bf16", "backward"))
    assert.same({ 0, 0 }, more({ recipe = "mxfp8", fused_experts = true }, "forward"))
  end)

  it("every score is normalised, chosen and counted in fp32", function()
    local ops = ops_of("qwen3-30b-a3b", 8)
    local scores = TOKENS * EXPERTS
    -- softmax reads (the router op counts its write), top-k reads, table and map are written and read to sum the loads
    assert.equal(scores * (4 + 4 + (4 + 1) + (4 + 1)), ops.choice.forward.bytes)
    -- gradients of table and load, scores read (the router op counts the logits' gradient)
    assert.equal(scores * (4 + 4 + 4), ops.choice.backward.bytes)
    assert.is_nil(ops.bias)
  end)

  it("biases of the last product are weighted and added in fp32", function()
    local ops = ops_of("gpt-oss-120b", 64)
    local numbers = TOKENS * 4 * 2880 -- top-4 experts, 2880 features
    assert.equal(28 * numbers, ops.bias.forward.bytes)
    assert.equal(40 * numbers, ops.bias.backward.bytes)
  end)

  it("the host launches a product for each of a GPU's experts, or one of all", function()
    -- A host that takes a second for a call: the step is its calls.
    local function calls(software, more)
      local q = {
        model = tperf.model { name = "spec", layers = 1, hidden = 1024, heads = 8, ffn = 4096, gated = true, seq = 1024,
          experts = { count = 8, top_k = 2, ffn = 512, dense_layers = 0 } },
        system = "b200-sxm", gpus = 2, ep = 2, global_batch = 2,
      }
      for name, value in pairs(more or {}) do q[name] = value end
      q.software = { name = "spec", compute = 1, attention = 1, memory = 1, comm = 1, host = 1, overlap = 1,
        optimizer = 0 }
      for name, value in pairs(software) do q.software[name] = value end
      return tperf.train(q).time
    end
    local one = calls { grouped_kernels = true }
    -- 4 experts on each of 2 GPUs: each of 2 modules calls PyTorch 3 times more, forward and, for both gradients,
    -- backward; a call takes an HGX H100's host 23 us
    local more = 3 * 2 * 23e-6 * tperf.system "b200-sxm".host.slowness
    assert.near(one + (1 + 2) * more, calls {}, 1e-9)
    assert.near(calls({ grouped_kernels = true }, { recompute = "full" }) + (1 + 2 + 1) * more,
      calls({}, { recompute = "full" }), 1e-9)
    local fused = { precision = { recipe = "mxfp8", fused_experts = true } }
    assert.near(calls({ grouped_kernels = true }, fused), calls({}, fused), 1e-9)
  end)

  it("rows in their experts' order pass at 0.7 of the rate of a stream, unless one kernel has all experts", function()
    local launch = tperf.system "gb200-nvl72".accelerator.launch
    local function slower(ops, name, pass) -- than the stream's residual sums, to which `launch` is known
      local function rate(op) return op.bytes / (op.time - op.comm_time - launch) end
      return rate(ops.residual[pass]) / rate(ops[name][pass])
    end
    for _, pass in ipairs { "forward", "backward" } do
      local ops = ops_of("gpt-oss-120b", 64)
      for _, name in ipairs { "dispatch", "combine", "silu", "bias" } do
        assert.near(1 / 0.7, slower(ops, name, pass), 1e-3, name)
      end
      assert.near(1, slower(ops, "norm", pass), 1e-3)
      ops = ops_of("qwen3-30b-a3b", 8, "mxfp8")
      assert.near(1 / 0.7, slower(ops, "fc1-cast", pass), 1e-3)
      assert.near(1, slower(ops, "proj-cast", pass), 1e-3)
      ops = ops_of("qwen3-30b-a3b", 8, { recipe = "mxfp8", fused_experts = true })
      for _, name in ipairs { "dispatch", "combine", "fc1-cast" } do
        assert.near(1, slower(ops, name, pass), 1e-3, name)
      end
    end
  end)

  it("products are priced by the rows of one expert", function()
    local few, many = ops_of("qwen3-30b-a3b", 8), ops_of("qwen3-30b-a3b", 128)
    -- 16 experts of 2048 rows or one of 32768: the same FLOPs except for the additions that each weight saves
    assert.near(few.fc1.forward.tensor_flops, many.fc1.forward.tensor_flops, 1e-9 * many.fc1.forward.tensor_flops)
    assert.is_true(few.fc1.forward.time > many.fc1.forward.time)
  end)
end)
