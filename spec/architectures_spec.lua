-- scripts/architectures: twelve architectures with the parameters that were published, and nothing that tperf.check
-- finds odd. The source of each number stands beside it.
local program = require "program"
local tperf = require "tperf"

local function model(name) return assert(loadfile(("scripts/architectures/%s.lua"):format(name)))() end

-- Whole numbers are those of the weights' files; others are as the papers round them.
local EXACT <const> = {
  rwkv7 = 1527404544, -- arXiv 2503.14456, table 2: RWKV7-World3-1.5B
  xlstm = 6865424896, -- NX-AI/xLSTM-7b
  mmdit = 2028328000, -- stable-diffusion-3-medium, the MM-DiT alone
  unet = 859520964, -- stable-diffusion-v1-5/unet
  early_exit = 6738415616, -- Llama-2-7b
  convnext = 28589128, -- torchvision's convnext_tiny
  clip = 151277313, -- openai/clip-vit-base-patch32
  mixture_of_depths = 1100048384 + 11 * 2048, -- TinyLlama-1.1B, and a vector for each router
}
local ROUNDED <const> = {
  looped = { 1.4e9, 0.05e9 }, -- arXiv 2510.25741: Ouro-1.4B
  flamingo = { 3.2e9, 0.05e9 }, -- arXiv 2204.14198, table 1
  sparse_attention = { 27e9, 0.5e9 }, -- arXiv 2502.11089, section 4.1
}

local NAMES <const> = {}
for file in io.popen("ls scripts/architectures"):lines() do NAMES[#NAMES + 1] = file:match "^(.*)%.lua$" end

describe("scripts/architectures", function()
  it("has twelve", function() assert.equal(12, #NAMES) end)

  for _, name in ipairs(NAMES) do
    it("has nothing odd in " .. name, function()
      assert.same({}, tperf.check(model(name)).warnings)
    end)

    it("trains " .. name, function()
      local c = tperf.train { model = model(name), system = "h100-sxm", global_batch = 32, dp = 4, pp = 2 }
      assert.is_true(c.time > 0 and c.mfu > 0 and c.mfu < 1)
    end)
  end

  it("are MODELs of the command line", function()
    local result = program.shell("tperf train scripts/architectures/xlstm.lua -s h100-sxm -b 32 --dp 8 --json", ".")
    assert.equal(0, result.code, result.err)
  end)

  for name, published in pairs(EXACT) do
    it(("has the %d parameters of %s"):format(published, name), function()
      assert.equal(published, model(name):parameters().total)
    end)
  end

  for name, published in pairs(ROUNDED) do
    it(("has the %.1f billion parameters of %s"):format(published[1] / 1e9, name), function()
      assert.near(published[1], model(name):parameters().total, published[2])
    end)
  end
end)

describe("scripts/architectures, part by part", function()
  local function part(name, key)
    local sum = 0
    for _, group in ipairs(model(name):parameters().groups) do
      if group.key == key then sum = sum + group.total end
    end
    return sum
  end

  -- arXiv 2412.09871, table 10: BLT 8B. Its tables of hashes: 6 of 500,000 rows (section 3.2.1).
  it("bytes and patches: 20 M read bytes, 6.4 B work on patches, 120 M write bytes, 3.84 B of hashes", function()
    local m = model "bytes_and_patches"
    assert.near(20e6, part("bytes_and_patches", "encoder"), 0.5e6)
    assert.near(6.4e9, 32 * part("bytes_and_patches", "patches") / 31, 0.05e9)
    assert.near(120e6, 6 * m:parameters().components.bytes / 7, 3e6)
    assert.equal((6 * 500000 + 260) * 1280, m:parameters().components.tables)
  end)

  -- open_clip's model_profile.csv: ViT-B-32 of OpenAI takes 14.78 billion FLOPs for an image and a text.
  it("clip: 14.78 GFLOP a pair", function()
    local m = model "clip"
    assert.near(1, m.seq * m:flops_per_token { backward = false }.total / 14.78e9, 0.01)
  end)

  -- arXiv 2204.14198, table 1 and appendix A.1.1: cross-attention 1.2 B, language model 1.4 B, resampler 194 M (with
  -- the latents and the embeddings of times, which are left out), vision 435 M.
  it("flamingo: what is trained and what is not", function()
    local m = model "flamingo"
    local c = m:parameters().components
    assert.near(1.2e9, c.cross, 0.05e9)
    assert.near(1.4e9, c.language + 32000 * 2048, 0.05e9)
    assert.near(194e6, c.resampler, 6e6)
    local trained = c.cross + c.resampler
    local whole = tperf.train { model = m, system = "h100-sxm", global_batch = 32, dp = 8 }
    local ratio = whole.memory.gradients / trained -- bytes of a gradient
    assert.near(math.floor(ratio + 0.5), ratio, 1e-3)
  end)

  it("loops: one copy of the weights in a stage, a cache for every loop", function()
    local m = model "looped"
    local tables = 2 * 49152 * 2048 + 2 * 2048 -- and the head's norm (p:norm of the usual head: its own)
    local layers = 24 * (4 * 2048 ^ 2 + 3 * 2048 * 5632 + 4 * 2048)
    assert.near(layers + tables, m:parameters().total, 2 * 2048)
    local one = tperf.train { model = m, system = "h100-sxm", global_batch = 32, dp = 4, pp = 2, zero = 0 }
    -- A stage of two loops has all layers; the first has the table, the last the head.
    assert.near(layers + tables / 2, one.memory.weights / 2, 1e4)
    local r = tperf.infer { model = m, system = "h100-sxm", prompt = 1000, generate = 24, batch = 1 }
    assert.near(4 * 24 * 2 * 2 * 2048 * 1024, r.memory.cache, 0.01 * r.memory.cache)
  end)

  it("the U-Net's skips decide its messages", function()
    local m = model "unet"
    local groups = m.architecture.groups
    assert.equal(21, #groups)
    local skips = { 320 * 64 * 64, 320 * 64 * 64, 320 * 64 * 64, 320 * 32 * 32, 640 * 32 * 32, 640 * 32 * 32,
      640 * 16 * 16, 1280 * 16 * 16, 1280 * 16 * 16, 1280 * 8 * 8, 1280 * 8 * 8, 1280 * 8 * 8 }
    local sum = 0
    for _, elements in ipairs(skips) do sum = sum + elements end
    assert.equal(sum, groups[9].carries) -- all of them beside the middle layer
  end)

  it("mixture of depths: an eighth of the work and of the cache in every second layer", function()
    local found = tperf.check(model "mixture_of_depths")
    local flops = {}
    for _, row in ipairs(found.blocks) do
      if row.block == "mlp" then flops[row.kind] = row.flops_per_token end
    end
    assert.near(8, flops["all tokens"] / flops["an eighth"], 1e-9)
    local r = tperf.infer { model = model "mixture_of_depths", system = "h100-sxm", prompt = 1992, generate = 56,
      batch = 1 }
    assert.near(11 * (1 + 1 / 8) * 2 * 2 * 4 * 64 * 2048, r.memory.cache, 0.01 * r.memory.cache)
  end)

  it("early exits: the expected number of layers", function()
    local function tpot(batch)
      return tperf.infer { model = model "early_exit", system = "h100-sxm", prompt = 512, generate = 8,
        batch = batch }.tpot
    end
    local plain = tperf.infer { model = "llama-2-7b", system = "h100-sxm", prompt = 512, generate = 8, batch = 1 }.tpot
    local expected = (16 + 4 * (1 / 2 + 1 / 4 + 1 / 8 + 1 / 16)) / 32 -- of the layers, of one token
    -- of one token's step; the table's row is small
    local bytes, head = 2 * 6738415616 - 2 * 32000 * 4096, 2 * 32000 * 4096
    local expected_part = ((bytes - head) * expected + head) / bytes
    assert.near(expected_part, tpot(1) / plain, 0.02)
    assert.is_true(tpot(16) > tpot(1))
  end)
end)
