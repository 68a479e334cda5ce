-- Descriptions of models: defaults that depend on other fields, and refusals.
local steps = require "steps"
local program = require "program"
local tperf = require "tperf"

local function small(changes)
  local m = { name = "small", layers = 3, hidden = 8, heads = 2, ffn = 16, vocab = 10, seq = 4 }
  for key, value in pairs(changes) do m[key] = value ~= "drop" and value or nil end
  return m
end

local function refusal(changes)
  local ok, message = pcall(tperf.model, small(changes))
  assert.is_false(ok)
  return message
end

describe("description", function()
  it("derives absent fields from the others", function()
    local m = tperf.model(small { ffn = "drop" })
    assert.same({ 2, 4, 32, "gelu", true }, { m.kv_heads, m.head_dim, m.ffn, m.activation, m.causal })
    local wide = m:with { hidden = 16, heads = 4 }
    assert.same({ 4, 4, 64 }, { wide.kv_heads, wide.head_dim, wide.ffn })
    assert.equal("silu", m:with { gated = true, ffn = 24 }.activation)
    assert.is_true(m.biases.qkv)
    assert.same({ 8, 9 }, { m:with { seq = 8 }.context, m:with { context = 9, positions = "learned" }.position_rows })
    assert.is_nil(m:with { unbounded = true }.context)
    assert.is_false(m:with { norm = "rmsnorm" }.biases.qkv)
    assert.is_true(m:with { biases = true, norm = "rmsnorm" }.biases.mlp)
  end)

  it("derives an image's tokens", function()
    local vit = { name = "v", layers = 1, hidden = 8, heads = 2, vision = { image = 32, patch = 16 } }
    local m = tperf.model(vit)
    assert.same({ 5, false }, { m.seq, m.causal })
    assert.equal(4, m:with { vision = { class_token = false } }.seq)
  end)

  it("covers every layer once, in order", function()
    local m = tperf.model(small { layers = 7, layer_pattern = "MM*-M-E", experts = { count = 4, top_k = 1, ffn = 4 },
      mamba = { state = 4, heads = 2, head_dim = 8 } })
    local kinds, covered = {}, 0
    for i, group in ipairs(m:groups()) do
      assert.equal(covered + 1, group.first)
      covered, kinds[i] = covered + group.count, group.kind
    end
    assert.equal(7, covered)
    assert.same({ "mamba", "attention", "mlp", "mamba", "mlp", "experts" }, kinds)
  end)

  it("takes few steps for the most layers allowed", function()
    local dense = {}
    for i = 1, 65535 do dense[i] = i end
    local function groups(description) return tperf.model(small(description)):groups() end
    steps.count(function() -- far fewer than the layers squared
      local many = { layers = 1 << 16, mamba = { state = 4, heads = 2, head_dim = 8 } }
      assert.equal(1 << 16, groups(many)[1].count)
      local two = groups { layers = 1 << 16, experts = { count = 4, top_k = 1, ffn = 4, dense_layers = dense } }
      assert.same({ 65535, 1 }, { two[1].count, two[2].count })
    end, 100000000)
  end)

  local mamba = { state = 4, heads = 2, head_dim = 8 }
  local function with(base, changes)
    local copy = {}
    for key, value in pairs(base) do copy[key] = value end
    for key, value in pairs(changes) do copy[key] = value end
    return copy
  end
  local experts = { count = 4, top_k = 2, ffn = 3 }

  for message, changes in pairs {
    ["'heads' (9) does not divide 'hidden' (8): try 8, or give 'head_dim'"] = { heads = 9 },
    ["'kv_heads' (3) must divide 'heads' (2)"] = { kv_heads = 3 },
    ["'heads' is missing"] = { heads = "drop" },
    ["'seq' is missing"] = { seq = "drop" },
    ["'ffn' is missing"] = { ffn = "drop", gated = true },
    ["'hidden' must be an integer from 1 to 2147483648, got nan"] = { hidden = 0 / 0 },
    ["'layers' must be an integer from 1 to 65536, got 65537"] = { layers = 65537 },
    ["'experts.top_k' (5) is more than 'experts.count' (4)"] = { experts = with(experts, { top_k = 5 }) },
    ["no layer has experts"] = { experts = with(experts, { dense_layers = 3 }) },
    ["'experts.dense_layers[2]' is 4, but there are 3 layers"] = {
      experts = with(experts, { dense_layers = { 1, 4 } }) },
    ["unknown field 'experts.topk' (did you mean 'top_k'?)"] = { experts = with(experts, { topk = 5 }) },
    ["'mla.nope_dim' is missing"] = { mla = { kv_rank = 3, rope_dim = 2, v_dim = 2 } },
    ["'window' does not go with 'mla'"] = { mla = { kv_rank = 3, nope_dim = 2, rope_dim = 2, v_dim = 2 },
      window = { size = 4 } },
    ["'window.pattern' must be made of w (windowed layer) and f"] = { window = { size = 4, pattern = "wx" } },
    ["'layer_pattern' has Mamba layers, but 'mamba' is missing"] = { layer_pattern = "M*-" },
    ["'layer_pattern' has layers of experts, but 'experts' is missing"] = { layer_pattern = "*-E" },
    ["'layer_pattern' has 2 letters for 3 layers"] = { layer_pattern = "*-" },
    ["'layer_pattern' has the letter \"x\"; known: M mamba"] = { layer_pattern = "*-x" },
    ["'mamba.groups' (2) must divide 'mamba.heads' (3)"] = { mamba = with(mamba, { groups = 2, heads = 3 }) },
    ["'mamba.heads' x 'mamba.head_dim' (16) is not 'mamba.expand' x 'hidden' (24)"] = {
      mamba = with(mamba, { expand = 3 }) },
    ["'vocab' does not go with 'vision'"] = { vision = { image = 32, patch = 16 } },
    ["'vision.patch' (15) must divide 'vision.image' (32)"] = { vocab = "drop", vision = { image = 32, patch = 15 } },
    ["'seq' is 4, but the image makes 5 tokens"] = { vocab = "drop", vision = { image = 32, patch = 16 } },
    ["is more than 32768"] = { vocab = "drop", seq = "drop", vision = { image = 1 << 31, patch = 1 } },
    ["'context' (3) is less than 'seq' (4)"] = { context = 3 },
    ["'context' does not go with 'unbounded'"] = { context = 8, unbounded = true },
    ["'mtp' must be an integer from 0 to 64, got -1"] = { mtp = -1 },
    ["unknown field 'biases.qvk' (did you mean 'qkv'?)"] = { biases = { qvk = true } },
  } do
    it("refuses: " .. message, function() assert.matches(message, refusal(changes), 1, true) end)
  end

  it("shows where in a file fields disagree", function()
    local path = program.temporary ".yaml"
    local file <close> = assert(io.open(path, "w"))
    file:write "name: bad\nlayers: 2\nhidden: 8\nheads: 2\nkv_heads: 3\nseq: 4\n"
    file:flush()
    local ok, message = pcall(tperf.model, path)
    os.remove(path)
    assert.is_false(ok)
    assert.matches(path .. ":5:11: 'kv_heads' (3) must divide", message, 1, true)
  end)
end)
