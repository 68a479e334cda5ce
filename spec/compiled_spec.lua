-- Stacks that compile a whole model, or have kernels that fuse as much: bytes and calls by hand.
local tperf = require "tperf"

local HIDDEN <const>, HEADS <const>, KV <const>, SEQ <const> = 1024, 8, 2, 512
local STACKS <const> = { "nanogpt-2023", "modded-nanogpt-2024", "nanochat-2025", "llm.c-2024" }

local function trained(changes)
  local o = {
    model = tperf.model { name = "spec", layers = 2, hidden = HIDDEN, heads = HEADS, kv_heads = KV, ffn = 4 * HIDDEN,
      seq = SEQ, vocab = 1024, norm = "rmsnorm", positions = "rotary", qk_norm = true },
    system = "h100-sxm", gpus = 1, global_batch = 1, explain = true,
  }
  for name, value in pairs(changes) do o[name] = value end
  return tperf.train(o)
end

local function bytes_of(c, name)
  for _, one in ipairs(c.layers) do
    if one.name == name then return { one.forward.bytes, one.backward.bytes } end
  end
end

local function term_of(c, name)
  for _, row in ipairs(c.sum) do
    if row.term == name then return row end
  end
end

describe("a compiled model", function()
  local typical = tperf.software "typical"
  local fused = typical:with { fused_pointwise = true }

  it("adds branches in the next norm's kernel", function()
    local stream = 2 * SEQ * HIDDEN -- bytes
    -- A kernel of its own reads both and writes the sum, and backward adds two gradients. The norm's kernel, which
    -- reads the stream and writes its result anyway, reads the branch and writes the sum; backward it reads one
    -- gradient more.
    assert.same({ 3 * stream, 3 * stream }, bytes_of(trained { software = typical }, "residual"))
    assert.same({ 2 * stream, stream }, bytes_of(trained { software = fused }, "residual"))
  end)

  it("rotates heads in the kernels that normalise them, if any do", function()
    local turned = 2 * SEQ * (HEADS + KV) * HIDDEN // HEADS
    assert.same({ 2 * turned, 2 * turned }, bytes_of(trained { software = typical }, "rotary"))
    assert.same({ 0, 0 }, bytes_of(trained { software = fused }, "rotary"))
    local bare = trained({ software = fused }).layers and tperf.model { name = "bare", layers = 2, hidden = HIDDEN,
      heads = HEADS, kv_heads = KV, ffn = 4 * HIDDEN, seq = SEQ, vocab = 1024, norm = "rmsnorm", positions = "rotary" }
    assert.same({ 2 * turned, 2 * turned }, bytes_of(trained { software = fused, model = bare }, "rotary"))
  end)

  it("does neither without a compiler", function()
    assert.same(bytes_of(trained { software = typical, compile = false }, "residual"),
      bytes_of(trained { software = fused, compile = false }, "residual"))
  end)

  it("runs all iterations of Muon on a matrix by one call", function()
    -- Two layers of qkv, proj, fc1 and fc2. 10 calls of a matrix are not of its iterations; 3 are of each of five.
    local function calls(software)
      local said = term_of(trained { software = software, optimizer = "muon" }, "Newton-Schulz iterations").formula
      return tonumber(said:match "the host's (%S+) calls")
    end
    local matrices = tonumber(term_of(trained { software = typical, optimizer = "muon" }, "Newton-Schulz iterations")
      .formula:match "of (%S+) matrices")
    assert.equal((10 + 3 * 5) * matrices, calls(typical))
    assert.equal((10 + 1) * matrices, calls(typical:with { muon_calls = 0 }))
    assert.equal((10 + 2 * 5) * matrices, calls(typical:with { muon_calls = 2 }))
  end)
end)

describe("the profile of a stack that compiles", function()
  for _, name in ipairs(STACKS) do
    it(("%s says what it is, and starts its iterations sooner than Megatron-LM"):format(name), function()
      local stack, c = tperf.software(name), trained { software = name }
      assert.truthy(#stack.facts > 100)
      assert.equal("typical", stack.like)
      local slowness = tperf.system "h100-sxm".host.slowness or 1
      local between = term_of(c, "launches between iterations").seconds
      assert.near(stack.step_calls * stack.pytorch_call * slowness, between, 1e-9)
      assert.is_true(between < 0.1 * term_of(trained { software = "typical" }, "launches between iterations").seconds)
      assert.is_true(c.time < trained({ software = name, compile = false }).time or name == "llm.c-2024")
    end)
  end
end)
