-- Tensors that a compiled layer keeps by name (recompute_keep): bytes and the ops that run again, worked out by hand
-- from what each gradient reads; words, refusals; int8.
local near = require "near"
local program = require "program"
local tperf = require "tperf"

local S <const>, B <const>, H <const>, F <const>, A <const>, L <const> = 2048, 1, 2048, 8192, 16, 4
local plain = {
  name = "plain", layers = L, hidden = H, heads = A, ffn = F, seq = S, vocab = 32000, norm = "rmsnorm", gated = true,
  positions = "rotary",
}

local function train(o)
  local given = { model = plain, system = "h100-sxm", global_batch = 2 * B, micro_batch = B, schedule = "1f1b",
    software = "none" }
  for name, value in pairs(o) do given[name] = value end
  return tperf.train(given)
end

-- The ops of the layer, in order: norm, qkv, rotary, attention, proj, residual; norm, fc1, silu, fc2, residual.
local function again(...)
  local set = {}
  for _, i in ipairs { ... } do set[i] = true end
  return set
end

-- What is kept besides the layer's input, in parts of s b h of 16 bits; bytes of log-sum-exps; the ops that run again.
-- A gradient reads an op's input: the norm runs again for the first product's, although attention's input is kept.
-- Nothing reads the second MLP product's result, nor the stream behind the layer.
local CASES <const> = {
  { "input", 0, 0, again(1, 2, 3, 4, 5, 6, 7, 8, 9) },
  { "core_attn", 3, 0, again(1, 4, 5, 6, 7, 8, 9) },
  { { "core_attn", "attn_proj" }, 4, 4 * A * S * B, again(1, 5, 6, 7, 8, 9) },
  { { "attn_proj" }, 1, 4 * A * S * B, again(1, 2, 3, 5, 6, 7, 8, 9) },
  { { "core_attn", "mlp_norm", "mlp_act" }, 4 + 2 * F / H, 0, again(1, 4, 7, 9) },
  { { "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "mlp_act" }, 6 + 2 * F / H, 4 * A * S * B, again(7, 9) },
}

describe("a layer that keeps tensors by name", function()
  local none = train { recompute = "none" }

  it("keeps these and its input, and runs what makes the others again", function()
    for _, case in ipairs(CASES) do
      local c, bytes = train { recompute_keep = case[1] }, 0
      assert.equal("selective", c.recompute)
      for i, op in ipairs(c.layers) do
        bytes = bytes + op.saved_bytes
        local base, what = none.layers[i], ("%s: %s"):format(c.recompute_keep[#c.recompute_keep], op.name)
        near(base.backward.time + (case[4][i] and base.forward.time or 0), op.backward.time, what)
      end
      near(2 * S * B * H * (1 + case[2]) + case[3], bytes, "bytes")
    end
  end)

  it("holds some of them in the host's memory", function()
    local c = train { recompute_keep = "core_attn", offload_modules = { "attn_norm", "core_attn" } }
    near(L * 2 * S * B * H * 4, c.host_memory, "input, queries, keys and values")
  end)

  it("is said in words, and asked again by a configuration", function()
    local c = train { recompute_keep = { "mlp_norm", "core_attn" } }
    assert.same({ "input", "core_attn", "mlp_norm" }, c.recompute_keep)
    assert.is_nil(c.recompute_modules)
    assert.equal("selective, all but input+core_attn+mlp_norm", require "tperf.describe.arch.recompute".words(c))
    assert.equal(c.time, tperf.train { configuration = c, model = plain, system = "h100-sxm", software = "none" }.time)
    local ran = program.ask("tperf train llama-3.1-8b -s h100-sxm -g 8 -b 8 --zero 3 "
      .. "--recompute-keep core_attn,attn_proj --json")
    assert.truthy(ran.out:find('"recompute_keep": %["input", "core_attn", "attn_proj"%]'), ran.err)
  end)

  it("refuses what contradicts it, or what the model lacks", function()
    local function refusal(o) return select(2, pcall(train, o)) end
    assert.truthy(refusal { recompute_keep = "core_attn", recompute = "full" }
      :find "'recompute_keep' needs recompute = \"selective\", got \"full\"")
    assert.truthy(refusal { recompute_keep = "core_attn", recompute_modules = "mlp" }:find "give one of them")
    assert.truthy(refusal { recompute_keep = "moe_act" }:find "model 'plain' has no experts")
    assert.truthy(refusal { recompute_keep = "mlp_wi" }:find "must be one of")
    local c = train { recompute_keep = "core_attn" }
    for _, stack in ipairs { "megatron", "megatron-bridge", "torchtitan" } do
      assert.error_matches(function() tperf.report.launch(c, stack, { model = plain }) end,
        "recompute_keep = input core_attn: ")
    end
  end)
end)

describe("training in int8", function()
  it("multiplies at the integer units' rate, and quantises each product's factors anew", function()
    local function product(precision)
      local c = train { system = "tpu-v6e", precision = precision, global_batch = 1, recompute = "none" }
      for _, op in ipairs(c.layers) do
        if op.name == "fc2" then return op end
      end
    end
    local flops = (2.0 * F - 1) * S * H -- F products and F - 1 sums
    near(flops / (0.7 * 918e12), product "bf16".forward.time, "16 bits")
    local int8 = product "int8"
    near(flops / (0.7 * 1836e12), int8.forward.time, "8 bits")
    near(2 * S * B * F, int8.saved_bytes, "the input stays in 16 bits")
  end)

  it("is refused where no matrix unit does it", function()
    local ok, message = pcall(train, { system = "tpu-v7", precision = "int8" })
    assert.is_false(ok)
    assert.truthy(message:find "precision 'int8' needs matrix units for int8, which system 'tpu%-v7' does not have")
  end)
end)
