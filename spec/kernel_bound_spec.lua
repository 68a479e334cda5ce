-- No kernel is faster than the chip: matrix products, attention and decoding on every system against FLOPs at the peak
-- and bytes through HBM at full bandwidth, for sizes far beyond the measured ones.
local core = require "tperf.core"
local catalogue = require "tperf.base.catalogue"
local tperf = require "tperf"

local BYTES <const> = { fp64 = 8, fp32 = 4, tf32 = 4, bf16 = 2, fp16 = 2, fp8 = 1, int8 = 1, fp4 = 0.5 }

local function each_product(machine, dtype, peak, bandwidth, visit)
  local e = BYTES[dtype]
  for m = 6, 17 do
    for n = 6, 17, 2 do
      for k = 6, 17 do
        local M, N, K = 2.0 ^ m, 2.0 ^ n, 2.0 ^ k
        local bound = math.max(2 * M * N * K / peak, (e * (M * K + K * N) + 2 * M * N) / bandwidth)
        visit("product", bound, machine:kernel("gemm", dtype, 1, M, N, K))
      end
    end
  end
end

local function each_attention(machine, dtype, peak, bandwidth, visit)
  for size = 6, 8 do
    for heads = 2, 12, 2 do
      for tokens = 9, 20 do
        local d, H, s = 2.0 ^ size, 2.0 ^ heads, 2.0 ^ tokens
        visit("attention", 4 * H * s * s * d / peak, machine:kernel("attention", dtype, H, s, s, d))
        visit("causal attention", 2 * H * s * (s + 1) * d / peak, machine:kernel("causal_attention", dtype, H, s, s, d))
        for _, shared in ipairs { 1, 8 } do
          local bound = math.max(4 * H * s * d / peak, 2 * BYTES[dtype] * H * s * d / shared / bandwidth)
          visit("decoding", bound, machine:kernel("attention", dtype, H, 1, s, d, shared, false, BYTES[dtype]))
        end
      end
    end
  end
end

-- The kernels that beat their bound, and how many were tried.
local function faster_than_the_chip(system)
  local machine, accelerator = core.machine(system), system.accelerator
  local faster, tried = {}, 0
  for dtype in pairs(BYTES) do
    local function visit(what, bound, compute, memory)
      if not compute then return end -- there is no curve
      tried = tried + 1
      local ratio = (compute + memory) / bound
      if ratio < 1 then faster[#faster + 1] = ("%s in %s: %.3f of the bound"):format(what, dtype, ratio) end
    end
    for _, each in ipairs { each_product, each_attention } do
      each(machine, dtype, accelerator.tensor[dtype] or 1, accelerator.hbm.bandwidth, visit)
    end
  end
  return table.concat(faster, "\n", 1, math.min(#faster, 5)), tried
end

describe("No kernel beats its bound", function()
  for _, name in ipairs(catalogue.list "systems") do
    it("on " .. name, function()
      local system = tperf.system(name)
      local faster, tried = faster_than_the_chip(system)
      assert.equal("", faster)
      assert.is_true(tried > 1000 or type(system.accelerator.compute_efficiency) == "number")
    end)
  end

  it("because no curve may exceed the HBM's bandwidth", function()
    local function change(accelerator) return tperf.system "h100-sxm":with { accelerator = accelerator } end
    assert.error_matches(function() change { compute_efficiency = { decode = { bf16 = { efficiency = 1.01 } } } } end,
      "decode.bf16.efficiency' must be a number from 1e%-06 to 1, got 1.01")
    assert.error_matches(function() change { hbm = { stream = { efficiency = 1.01 } } } end,
      "hbm.stream.efficiency' must be a number from 1e%-06 to 1, got 1.01")
  end)
end)
