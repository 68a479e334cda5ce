-- Files of llama.cpp: bytes of its mixes, their names, and what its engine does with them.
local tperf = require "tperf"

-- Bits per weight of Llama 3.1 8B, tables included (github.com/ggml-org/llama.cpp, tools/quantize/README.md).
local PUBLISHED <const> = { q2_k = 3.1593, q3_k_s = 3.6429, q3_k_m = 3.9960, q3_k_l = 4.2979, q4_k_s = 4.6672,
  q4_k_m = 4.8944, q5_k_s = 5.5704, q5_k_m = 5.7036, q6_k = 6.5633, q8_0 = 8.5008, iq4_xs = 4.4597, iq4_nl = 4.6818 }
local PARAMETERS <const> = 8030261248

local function memory(model, more)
  local question = { model = model, system = "h100-sxm", batch = 1, prompt = 16, generate = 2 }
  for name, value in pairs(more or {}) do question[name] = value end
  return tperf.infer(question).memory.weights
end

local function near(want, got, part) assert.near(want, got, part * want) end

describe("files of llama.cpp", function()
  it("take the bits per weight that llama.cpp prints of its mixes", function()
    for mix, bits in pairs(PUBLISHED) do
      near(bits, 8 * memory("llama-3.1-8b", { weight_dtype = mix }) / PARAMETERS, 2e-4)
    end
  end)

  it("are named as on the Hub, and take what the mix takes", function()
    local want = memory("llama-3.1-8b", { weight_dtype = "q4_k_m" })
    for _, name in ipairs { "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M", "Llama-3.1-8B-Q4_K_M",
      "Meta-Llama-3.1-8B-Instruct.Q4_K_M.gguf" } do
      assert.equal(want, memory(name))
    end
  end)

  it("are asked for where a name is of a mix that says nothing of its types", function()
    assert.error_matches(function() memory "unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL" end, "not in which format")
  end)

  it("share the table of tied models once, in the output's type", function()
    local m = tperf.model "llama-3.2-1b" -- 128,256 x 2,048 tied: q6_k's 6.5625 bits, not q4_k's 4.5
    local rest = m:parameters().total - 128256 * 2048
    local want = 128256 * 2048 * 6.5625 / 8
    local got = memory(m, { weight_dtype = "q4_k_s" }) - want
    assert.is_true(got > rest * 4.5 / 8 and got < rest * 4.8 / 8)
  end)

  it("decode as fast as the memory lets them", function()
    local function tpot(mix)
      return tperf.serve { model = "llama-3-70b", system = "rtx-a6000", software = "llama-cpp", weight_dtype = mix,
        prompt = 8, output = 64, load = { concurrency = 1 }, count = 1, sampling = "none" }.tpot.mean
    end
    -- 42.5 GB less the input's table, at 768 GB/s: no card reads faster than its memory
    local least = (42.5e9 - 0.6e9) / 768e9
    assert.is_true(tpot "q4_k_m" > least and tpot "q4_k_m" < 1.6 * least)
  end)
end)

describe("weights of fewer bits than activations", function()
  -- MARLIN (arXiv 2408.11743, figure 1): on an A10, 4-bit weights in groups of 128 speed products of 1 to 16 rows up by
  -- 3.87 times, the most that their bytes allow. Padding to 64 rows would end that.
  it("make products of few rows faster by their bytes", function()
    local wide = tperf.infer { model = "llama-3.1-8b", system = "rtx-3090", batch = 1, prompt = 16, generate = 64 }
    local narrow = tperf.infer { model = "llama-3.1-8b", system = "rtx-3090", batch = 1, prompt = 16, generate = 64,
      weight_dtype = "int4" }
    assert.is_true(wide.tpot / narrow.tpot > 2.5)
  end)
end)
