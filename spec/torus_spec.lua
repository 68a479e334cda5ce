-- Collectives in a torus against the closed forms of How to Scale Your Model (jax-ml, 2025), chapter on sharding, with
-- W bytes/s of a link in one direction and hops of A seconds.
local core = require "tperf.core"
local tperf = require "tperf"

local W <const>, A <const> = 50e9, 1e-6
local GOOD <const> = { tensor = { bf16 = "1 PFLOP/s" }, hbm = { bandwidth = "1 TB/s", capacity = "16 GB" } }

local function torus(axes, domain)
  return tperf.system { name = "torus", accelerator = GOOD, network = {
    fast = { bandwidth = 2 * #axes * W, efficiency = 1, latency = A, domain = domain, axes = axes },
    slow = { bandwidth = "25 GB/s" } } }
end

local function seconds(system, kind, bytes, gpus)
  return tperf.collective { kind = kind, bytes = bytes, gpus = gpus, system = system }
end

local function near(expected, actual) assert.near(expected, actual, 1e-12 * expected) end

describe("a collective in a torus", function()
  it("gathers over whole axes through both links of each, in half as many hops as an axis has", function()
    local plane = torus({ 16, 16 }, 256)
    near(1e9 * 255 / 256 / (4 * W) + 16 * A, seconds(plane, "all_gather", 1e9, 256))
    near(2 * (1e9 * 255 / 256 / (4 * W) + 16 * A), seconds(plane, "all_reduce", 1e9, 256))
    local cubes = torus({ 4, 4, 4 }, 8960)
    near(1e9 * 63 / 64 / (6 * W) + 6 * A, seconds(cubes, "reduce_scatter", 1e9, 64))
    near(1e9 * 511 / 512 / (6 * W) + 12 * A, seconds(cubes, "all_gather", 1e9, 512)) -- 8 x 8 x 8
  end)

  it("passes one link of each axis that is too short to wrap", function()
    local plane = torus({ 16, 16 }, 256)
    near(1e9 / 2 / W + A, seconds(plane, "all_gather", 1e9, 2))
    near(1e9 * 3 / 4 / (2 * W) + 2 * A, seconds(plane, "all_gather", 1e9, 4)) -- 2 x 2, a ring of four
    near(1e9 * 15 / 16 / (2 * W) + 6 * A, seconds(plane, "all_gather", 1e9, 16)) -- 4 x 4
    near(1e9 / W + A, seconds(plane, "send", 1e9, 2))
  end)

  it("starts once where the system says so, but for sends and what one chip of a domain takes part in", function()
    local plain = torus({ 4, 4, 4 }, 64)
    local late = plain:with { network = { fast = { start = "11 us" } } }
    for _, kind in ipairs { "all_gather", "all_reduce", "reduce_scatter", "all_to_all", "scatter", "broadcast" } do
      near(11e-6 + seconds(plain, kind, 1e6, 16), seconds(late, kind, 1e6, 16))
      near(11e-6 + seconds(plain, kind, 1e6, 128), seconds(late, kind, 1e6, 128))
    end
    near(seconds(plain, "send", 1e6, 2), seconds(late, "send", 1e6, 2))
    local function lone(system)
      return tperf.collective { kind = "all_reduce", bytes = 1e6, gpus = 4, fast = 1, system = system }
    end
    near(lone(plain), lone(late))
    -- 13 us of a small gather over an axis of four TPU v7: two hops, and the start.
    assert.near(13e-6, seconds(tperf.system "tpu-v7", "all_gather", 4, 4), 1e-9)
  end)

  it("exchanges through the middle of the longest axis", function()
    -- A ring of n: a quarter of a gather of all that is exchanged; in n x n chips every row does so at once.
    near(16 * 1e9 / (8 * W) + 8 * A, seconds(torus({ 16 }, 16), "all_to_all", 1e9, 16))
    near(16 * 1e9 / (8 * W) + 16 * A, seconds(torus({ 16, 16 }, 256), "all_to_all", 1e9, 256))
    near(4 * 1e9 / (4 * W) + 6 * A, seconds(torus({ 16, 16 }, 256), "all_to_all", 1e9, 16)) -- lines of 4
  end)

  it("is never slower among more of the axes' links, and never faster among more GPUs that add none", function()
    local cubes, before = torus({ 4, 4, 4 }, 8960), nil
    for _, gpus in ipairs { 64, 128, 256, 512, 1024, 2048, 4096 } do
      local time = seconds(cubes, "all_gather", 1e9, gpus)
      assert.is_true(not before or time > before)
      before = time
    end
  end)

  it("is listed with its algorithm", function()
    local seen = {}
    for _, name in ipairs(core.algorithms) do seen[name] = true end
    assert.is_true(seen.torus and seen.direct)
  end)

  it("needs axes that are lengths", function()
    for axes, message in pairs { [{ 1 }] = "'network.fast.axes", [{ 4, 4, 4, 4 }] = "'network.fast.axes",
      [{ 2.5 }] = "'network.fast.axes" } do
      local ok, why = pcall(torus, axes, 16)
      assert.is_false(ok)
      assert.truthy(tostring(why):find(message, 1, true), why)
    end
  end)
end)
