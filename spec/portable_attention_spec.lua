-- Attention in kernels that run anywhere (Triton): its curves, and engines that use them.
local core = require "tperf.core"
local tperf = require "tperf"

local PEAK <const>, UNITS <const>, BANDWIDTH <const> = 100e12, 100, 1e12

-- A machine whose kernels start at once.
local function machine(prefill, decode)
  local curve = { head_dim = { 64, 512 }, efficiency = { 0.5, 0.5 }, setup = 0, keys = 0, longest = 0, backward = 1,
    sustained = 1, sustained_after = 1e-3 }
  for name, value in pairs(prefill or {}) do curve[name] = value end
  return core.machine(tperf.system {
    name = "x", network = { fast = { bandwidth = 1e11, domain = 8 }, slow = { bandwidth = 1e10 } },
    accelerator = {
      tensor = { bf16 = PEAK }, units = UNITS, launch = 0, hbm = { bandwidth = BANDWIDTH, capacity = 80e9 },
      compute_efficiency = { other = 0.8, attention = { bf16 = curve }, decode = { bf16 = decode } },
    },
  })
end

describe("attention that masks a window", function()
  -- 64 heads of 128; a query sees 256 keys on average, and 1,024 lie beyond its window.
  local function seconds(masked, beyond)
    return (machine { masked = masked }:kernel("attention", "bf16", 64, 4096, 256, 128, 1, false, nil, false, false,
      beyond))
  end
  local each <const> = 4 * 64 * 128 * 4096 / (0.5 * PEAK) -- for a key of each query

  it("takes as long for a key beyond the window as for one within, or a part of that", function()
    assert.near(256 * each, seconds(0, 1024), 1e-12)
    assert.near((256 + 1024) * each, seconds(1, 1024), 1e-12)
    assert.near((256 + 512) * each, seconds(0.5, 1024), 1e-12)
    assert.near(256 * each, seconds(1, 0), 1e-12)
  end)

  it("is as slow in a model with a window as in one without", function()
    local function ops(window, masked)
      local model = tperf.model { name = "m", layers = 2, hidden = 4096, heads = 32, seq = 8192,
        window = window and { size = window } }
      local curve = { head_dim = { 128 }, efficiency = { 0.5 }, setup = 0, keys = 0, longest = 0, backward = 1,
        sustained = 1, sustained_after = 1e-3, masked = masked }
      local system = tperf.system("h100-sxm"):with {
        accelerator = { launch = 0, compute_efficiency = { attention = { bf16 = curve } } },
      }
      local sum = 0
      for _, one in ipairs(tperf.layer { model = model, system = system }) do
        sum = sum + (one.block == "attention" and one.name == "attention" and one.forward.compute_time or 0)
      end
      return sum
    end
    local whole, skipped, masked = ops(nil, 0), ops(512, 0), ops(512, 1)
    assert.truthy(skipped < 0.2 * whole)
    assert.near(whole, masked, 0.02 * whole) -- whole tiles of keys
  end)
end)

describe("attention in small blocks of queries", function()
  it("has a tile's elements in each, so that a short prompt is spread over more units", function()
    -- One head of 512 and 128 queries: one block, or four of 32 that work side by side.
    local function seconds(tile)
      return (machine { tile = tile }:kernel("attention", "bf16", 1, 128, 4096, 512))
    end
    local block <const> = 4 * 512 * 128 * 4096 / (0.5 * PEAK / UNITS)
    assert.near(block, seconds(0), 1e-12)
    assert.near(block / 4, seconds(16384), 1e-12)
    assert.near(block, seconds(512 * 1024), 1e-12) -- never more than 128
  end)
end)

describe("decoding in kernels that cut a cache into few pieces", function()
  local function seconds(batch, pieces)
    local decode = { efficiency = 1, setup = 0, block = 0, ramp = 0, whole = 2e10, pieces = pieces }
    local compute, memory = machine(nil, decode):kernel("attention", "bf16", batch, 1, 65536, 128)
    return compute + memory
  end
  local bytes <const> = 2 * 2 * 128 * (1 + 65536) -- of a cache with one head

  it("is limited by what the units that have a piece read", function()
    assert.near(bytes / 8 / 2e10, seconds(1, 8), 1e-8) -- 8 of 100 units
    assert.near(bytes / 8 / 2e10, seconds(5, 8), 1e-5) -- 40
    assert.near(bytes / 4 / 2e10, seconds(1, 4), 1e-8)
  end)

  it("is limited by the HBM where there are many caches", function()
    local many = seconds(1000, 8)
    assert.truthy(many >= 1000 * bytes / BANDWIDTH and many < 1.1 * 1000 * bytes / BANDWIDTH)
  end)
end)

describe("measured attention in Triton", function()
  -- The curves were fitted to such rows; fused kernels' curves are off by 40 to 90 %.
  it("is within a fifth of the prediction in half of the rows", function()
    local errors = {}
    tperf.validate { file = "spec/data/measured/portable_attention.csv", each = function(case)
      errors[#errors + 1] = math.abs(case.predicted / case.measured - 1)
    end }
    table.sort(errors)
    assert.truthy(#errors > 200)
    assert.truthy(errors[#errors // 2] < 0.2, errors[#errors // 2])
  end)
end)

describe("an engine", function()
  local function ttft(attention, change)
    local o = { model = "gpt-oss-20b", system = "rtx-pro-6000", attention = attention,
      requests = { { arrival = 0, prompt = 16000, output = 8 } } }
    for name, value in pairs(change or {}) do o[name] = value end
    return tperf.serve(o).ttft.mean
  end

  it("takes longer over a prompt if attention runs in Triton", function()
    local fused = ttft "fused"
    assert.equal(fused, ttft(nil))
    assert.truthy(ttft "portable" > 1.1 * fused)
  end)

  it("runs it in Triton if its launch says so", function()
    local arguments = require "tperf.import.launch.arguments"
    local function attention(command)
      local launch = tperf.import.launch { files = { { name = "run.sh", text = command .. "\n" } } }
      return (arguments.engine(launch)).attention
    end
    local sglang, vllm = "python3 -m sglang.launch_server --model-path a/b", "vllm serve a/b"
    assert.equal("portable", attention(sglang .. " --attention-backend triton"))
    assert.equal("portable", attention(vllm .. " --attention-backend TRITON_ATTN"))
    assert.is_nil(attention(sglang .. " --attention-backend fa3"))
    assert.is_nil(attention(vllm .. " --attention-backend TRITON_MLA"))
    assert.is_nil(attention(vllm))
  end)

  it("refuses heads and systems that no curve is of", function()
    assert.error_matches(function() ttft("portable", { system = "a100-sxm-80gb" }) end,
      "has no curves of attention in Triton; leave it out, or fit 'portable_attention'")
    assert.error_matches(function() ttft("portable", { system = "h100-sxm" }) end,
      "are of heads of 256 to 512, and model 'gpt%-oss%-20b' has heads of 64")
    assert.error_matches(function() ttft("portable", { model = "deepseek-v3", tp = 8 }) end, "has latent attention")
  end)
end)
