-- tperf.collective: published values, the formulas of include/tperf/collective.h worked out by hand, and properties of
-- any such model.
local program = require "program"
local tperf = require "tperf"
local csv = require "csv"
local published = require "published"
local steps = require "steps"
local near = published.near

local KINDS = {
  "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "scatter", "gather", "all_to_all", "send",
}

local function seconds(system, kind, bytes, gpus, fast, rules)
  return tperf.collective { system = system, kind = kind, bytes = bytes, gpus = gpus, fast = fast, rules = rules }
end

describe("tperf.collective under the published rules", function()
  it("gives the published formula sheet's golden values", function()
    local rows = csv.rows "spec/data/training/golden_collectives.csv"
    assert.equal(11, #rows)
    for _, row in ipairs(rows) do
      near(row.seconds, seconds(published.system("H200", 8, row.nics), published.kind[row.kind], tonumber(row.bytes),
        tonumber(row.gpus), tonumber(row.fast), "subramanian2024"), row.kind, 1e-13)
    end
  end)

  it("agrees with the published program on every machine", function()
    local rows = csv.rows "spec/data/training/collectives.csv"
    assert.is_true(#rows > 150)
    for _, row in ipairs(rows) do
      local got = seconds(published.system(row.system, row.nvlink_size), published.kind[row.type], row.vol_GB * 1e9,
        tonumber(row.n_gpus), tonumber(row.topology), "subramanian2024")
      near(row.t_seconds, got, table.concat({ row.system, row.type, row.n_gpus, row.topology, row.vol_GB }, " "), 1e-12)
    end
  end)
end)

-- A machine with round numbers: 100 GB/s and 1 us within domains of 8, 10 GB/s a NIC and 5 us between.
local function machine(change)
  return tperf.system "subramanian2024/H200":with {
    network = {
      fast = { bandwidth = 100e9, efficiency = 1, latency = 1e-6, domain = 8 },
      slow = { bandwidth = 10e9, efficiency = 1, latency = 5e-6, nics_per_gpu = 1 },
    },
  }:with { network = change or {} }
end

describe("tperf.collective", function()
  local plain = machine()

  it("matches the ring formulas worked out by hand", function()
    local half = machine { slow = { nics_per_gpu = 0.5 } }
    local cases = { -- system, kind, gpus, fast, seconds for 8 GB
      { plain, "all_gather", 8, 8, 7e-6 + 7e9 / 100e9 },
      { plain, "all_gather", 8, 1, 7 * 5e-6 + 7e9 / 10e9 },
      { plain, "all_gather", 16, 8, 5e-6 + 14 * 1e-6 + 7.5e9 / 80e9 },        -- eight rings on eight NICs
      { machine { slow = { nics_per_gpu = 2 } }, "all_gather", 16, 8, 5e-6 + 14 * 1e-6 + 7.5e9 / 100e9 }, -- fast-bound
      { half, "all_gather", 8, 1, 7 * 5e-6 + 7e9 / 5e9 },                      -- two GPUs share a NIC
      { plain, "broadcast", 16, 4, 3 * 5e-6 + 12 * 1e-6 + 8e9 / 40e9 },
      { plain, "all_reduce", 16, 8, 2 * (5e-6 + 14 * 1e-6 + 7.5e9 / 80e9) },
      { plain, "send", 2, 1, 5e-6 + 8e9 / 10e9 },
      { plain, "send", 2, 2, 1e-6 + 8e9 / 100e9 },
      { half, "send", 2, 1, 5e-6 + 8e9 / 5e9 },
      { plain, "scatter", 8, 8, 7e-6 + 7e9 / 100e9 },
      { plain, "gather", 16, 2, 7 * 5e-6 + 8 * 1e-6 + 7e9 / 20e9 },            -- 7/8 leave through two NICs
      { half, "scatter", 4, 1, 3 * 5e-6 + 6e9 / 5e9 },
      { plain, "all_to_all", 8, 8, 7e-6 + 7e9 / 100e9 },
      { plain, "all_to_all", 16, 4, 12 * 5e-6 + 3e-6 + 6e9 / 10e9 },           -- 12/16 to other domains, own NIC
      { half, "all_to_all", 16, 4, 12 * 5e-6 + 3e-6 + 6e9 / 5e9 },
    }
    for i, c in ipairs(cases) do near(c[5], seconds(c[1], c[2], 8e9, c[3], c[4]), c[2] .. " #" .. i, 1e-13) end
  end)

  it("uses one link between two GPUs of a mesh, all links in a whole domain", function()
    local mesh = machine { fast = { mesh = true } } -- 100/7 GB/s a link
    near(1e-6 + 7e9 / 100e9, seconds(mesh, "all_gather", 8e9, 8, 8), "all of it", 1e-13)
    near(1e-6 + 4e9 / (100e9 / 7), seconds(mesh, "all_gather", 8e9, 2, 2), "one link", 1e-13)
    near(1e-6 + 8e9 / (100e9 / 7), seconds(mesh, "send", 8e9, 2, 2), "one link", 1e-13)
    near(1e-6 + 2e9 / (100e9 / 7), seconds(mesh, "all_to_all", 8e9, 4, 4), "a quarter over each link", 1e-13)
    near(2e-6 + 14e9 / 100e9, seconds(mesh, "all_reduce", 8e9, 8, 8), "to all, and back", 1e-13)
    near(7e-6 + 8e9 / 100e9, seconds(mesh, "broadcast", 8e9, 8, 8), "along a chain", 1e-13)
    near(seconds(plain, "all_gather", 8e9, 2, 1), seconds(mesh, "all_gather", 8e9, 2, 1), "between domains", 1e-13)
    -- all_reduce_bench.py of stas00/ml-engineering, 4 GiB on MI300X: bus bandwidth (algorithm bandwidth x 2 (n-1)/n)
    for gpus, measured in pairs { [2] = 47.671e9, [8] = 312.912e9 } do
      local bus = 2 * (gpus - 1) / gpus * 2 ^ 32 / seconds("mi300x", "all_reduce", 2 ^ 32, gpus)
      near(measured, bus, gpus .. " GPUs", 0.07)
    end
  end)

  it("takes no time for no bytes or one GPU", function()
    for _, kind in ipairs(KINDS) do
      assert.equal(0, seconds(plain, kind, 0, 2, 1))
      assert.equal(0, seconds(plain, kind, 1e9, 1, 1))
    end
  end)

  -- Groups of every form: one domain, one GPU per domain, and between.
  local groups = { { 2, 1 }, { 2, 2 }, { 8, 8 }, { 8, 1 }, { 8, 2 }, { 64, 8 }, { 96, 6 }, { 1 << 31, 8 } }
  local function each(visit)
    for _, kind in ipairs(KINDS) do
      for _, group in ipairs(groups) do
        if kind ~= "send" or group[1] == 2 then visit(kind, group[1], group[2]) end
      end
    end
  end

  it("takes no less time for more bytes, and more in the end", function()
    each(function(kind, gpus, fast)
      local last = 0
      for power = 0, 15, 3 do
        local now = seconds(plain, kind, 10.0 ^ power, gpus, fast)
        assert.is_true(now >= last, kind)
        last = now
      end
      assert.is_true(seconds(plain, kind, 1e15, gpus, fast) > seconds(plain, kind, 1, gpus, fast), kind)
    end)
  end)

  it("takes no more time with more bandwidth or NICs or less latency", function()
    local better = {
      machine { fast = { bandwidth = 300e9 } }, machine { slow = { bandwidth = 30e9 } },
      machine { slow = { nics_per_gpu = 4 } }, machine { fast = { latency = 0 } }, machine { slow = { latency = 0 } },
    }
    each(function(kind, gpus, fast)
      local all = seconds(plain, kind, 1e9, gpus, fast)
      local improved = 0
      for _, system in ipairs(better) do
        local now = seconds(system, kind, 1e9, gpus, fast)
        assert.is_true(now <= all, kind)
        improved = improved + (now < all and 1 or 0)
      end
      assert.is_true(improved > 0, kind)
    end)
  end)

  it("times an all-reduce as a reduce-scatter and an all-gather", function()
    for _, group in ipairs(groups) do
      for _, bytes in ipairs { 1, 1e6, 1e12 } do
        local once = seconds(plain, "reduce_scatter", bytes, group[1], group[2])
        assert.equal(once, seconds(plain, "all_gather", bytes, group[1], group[2]))
        assert.equal(2 * once, seconds(plain, "all_reduce", bytes, group[1], group[2]))
      end
    end
  end)

  it("bounds scatter, gather and all-to-all by the traffic of the busiest link", function()
    for _, group in ipairs(groups) do
      local n, q = group[1], group[2]
      local V, fast, nic = 1e12, 100e9, 10e9
      local rooted = math.max((n - q) / n * V / (q * nic), (q - 1) / n * V / fast)
      local pairwise = math.max((n - q) / n * V / nic, (q - 1) / n * V / fast)
      assert.is_true(seconds(plain, "scatter", V, n, q) >= rooted)
      assert.equal(seconds(plain, "scatter", V, n, q), seconds(plain, "gather", V, n, q))
      assert.is_true(seconds(plain, "all_to_all", V, n, q) >= pairwise)
      -- a scatter moves no more than a broadcast
      assert.is_true(seconds(plain, "scatter", V, n, q) <= seconds(plain, "broadcast", V, n, q))
    end
  end)

  it("approaches those bounds for large messages, whose latency is negligible", function()
    near((96 - 6) / 96 * 1e18 / (6 * 10e9), seconds(plain, "scatter", 1e18, 96, 6), "scatter", 1e-6)
    near((96 - 6) / 96 * 1e18 / 10e9, seconds(plain, "all_to_all", 1e18, 96, 6), "all_to_all", 1e-6)
    near(7 / 8 * 1e18 / 100e9, seconds(plain, "all_to_all", 1e18, 8, 8), "all_to_all in a domain", 1e-6)
  end)

  -- Microseconds by NCCL's own model of a Hopper with 16 channels (src/graph/tuning.cc at 5067397c), on these GPUs.
  -- It is a heuristic for choosing protocols, so that the growth with GPUs counts, not the time itself.
  local SIZES <const> = { 16, 32, 64, 128, 512, 2048 }
  local NCCL <const> = {
    { "all_gather", 1024, { 23.34, 42.75, 81.55, 159.2, 624.8, 2487 } },
    { "all_gather", 65536, { 26.03, 46.04, 84.9, 162.5, 628.1, 2491 } },
    { "all_gather", 1048576, { 47.57, 82.27, 135.8, 213.9, 679.8, 2542 } },
    { "all_gather", 16777216, { 92.09, 128.3, 198.3, 337.1, 1168, 3370 } },
    { "all_gather", 268435456, { 769.1, 864.4, 946.2, 1091, 1926, 5249 } },
    { "all_gather", 4294967296, { 1.125e+04, 1.17e+04, 1.204e+04, 1.244e+04, 1.406e+04, 1.74e+04 } },
    { "all_reduce", 1024, { 25.3, 35.32, 45.32, 55.32, 75.32, 95.32 } },
    { "all_reduce", 65536, { 34.91, 46.7, 56.7, 66.7, 86.7, 106.7 } },
    { "all_reduce", 1048576, { 59.76, 76.76, 93.76, 110.8, 144.8, 178.8 } },
    { "all_reduce", 16777216, { 121.6, 185.6, 202.6, 219.6, 253.6, 287.6 } },
    { "all_reduce", 268435456, { 944, 1553, 1618, 1672, 1764, 1850 } },
    { "all_reduce", 4294967296, { 1.41e+04, 2.322e+04, 2.364e+04, 2.387e+04, 2.409e+04, 2.421e+04 } },
  }

  it("grows with the GPUs as NCCL's model does: all-reduces along trees, all-gathers around rings", function()
    for _, row in ipairs(NCCL) do
      local kind, bytes, times = table.unpack(row)
      local least, most = math.huge, 0
      for i, gpus in ipairs(SIZES) do
        local time = tperf.collective { kind = kind, bytes = bytes, gpus = gpus, system = "h100-sxm" }
        local ratio = time * 1e6 / times[i]
        least, most = math.min(least, ratio), math.max(most, ratio)
      end
      assert.is_true(most <= 2 * least, ("%s of %d B: %.2f to %.2f of NCCL's"):format(kind, bytes, least, most))
    end
  end)

  it("starts an all-reduce between nodes as measured", function()
    -- ABCI's nodes of 8 A100s over InfiniBand (nccl-tests, NCCL 2.8.4): 8 bytes on 2, 4 and 8 of them.
    for nodes, measured in pairs { [2] = 32.6e-6, [4] = 42e-6, [8] = 51.4e-6 } do
      local time = tperf.collective { kind = "all_reduce", bytes = 8, gpus = 8 * nodes, system = "a100-sxm-40gb" }
      assert.near(measured, time, 0.1 * measured)
    end
  end)

  it("reaches what eight cards on PCIe do, with and without peer-to-peer", function()
    -- Public nccl-tests logs: 128 MiB on eight RTX 4090, 16.25 ms with the stock driver, 20.6 GB/s of bus bandwidth
    -- with one that has peer-to-peer; two RTX 4070 Ti SUPER without it, which have the same links.
    local function seconds_of(system, bytes, gpus)
      return tperf.collective { kind = "all_reduce", bytes = bytes, gpus = gpus, system = system }
    end
    assert.near(16.25e-3, seconds_of("rtx-4090", 1 << 27, 8), 1e-4)
    assert.near(20.6e9, 1.75 * (1 << 27) / seconds_of("rtx-a6000", 1 << 27, 8), 0.2e9)
    for bytes, measured in pairs { [8] = 6.21e-6, [1024] = 7.01e-6, [8192] = 8.69e-6, [32768] = 14.23e-6 } do
      assert.near(measured, seconds_of("rtx-3090", bytes, 2), 0.1 * measured)
    end
  end)

  it("takes two hops of a full mesh, however many GPUs it has", function()
    -- rccl-tests of eight MI300X: 1 KiB in 7.5 us in a graph, 13.1 us launched one by one.
    local time = tperf.collective { kind = "all_reduce", bytes = 1024, gpus = 8, system = "mi300x" }
    assert.is_true(time > 7.5e-6 and time < 13.1e-6, time)
  end)

  it("places as many GPUs in a domain as fit by default", function()
    for _, case in ipairs { { 8, 8 }, { 64, 8 }, { 12, 6 }, { 7, 7 }, { 11, 1 }, { 1 << 31, 8 }, { 2147483629, 1 } } do
      assert.equal(seconds(plain, "all_gather", 1e9, case[1], case[2]), seconds(plain, "all_gather", 1e9, case[1]))
    end
  end)

  it("finds that placement in few steps, however many GPUs", function()
    local whole = machine { fast = { domain = 2147483629 } } -- a prime
    local _, found = steps.count(function()
      return seconds(whole, "all_gather", 1e9, 2147483646) -- 2 x 3^2 x 7 x 11 x 31 x 151 x 331
    end, 1000000)
    assert.equal(seconds(whole, "all_gather", 1e9, 2147483646, 1073741823), found)
  end)

  it("reads bytes with units", function()
    assert.equal(seconds(plain, "all_gather", 64 * 2 ^ 20, 8, 8), seconds(plain, "all_gather", "64 MiB", 8, 8))
  end)

  describe("refuses", function()
    local function refusal(change, message)
      local request = { system = plain, kind = "all_gather", bytes = 1e6, gpus = 8, fast = 8 }
      for field, value in pairs(change) do
        if value == "none" then request[field] = nil else request[field] = value end
      end
      it(message, function()
        local ok, got = pcall(tperf.collective, request)
        assert.is_false(ok)
        assert.truthy(got:find(message, 1, true), got)
        assert.truthy(got:find "^spec/collective_spec.lua:%d+: ", got) -- the user's line
      end)
    end
    refusal({ kind = "allgather" }, "'kind' must be one of")
    refusal({ kind = "none" }, "'kind' is missing")
    refusal({ bytes = -1 }, "'bytes' must be a quantity from 0 to 1e+24 in bytes, got -1")
    refusal({ bytes = 0 / 0 }, "got nan")
    refusal({ bytes = math.huge }, "got inf")
    refusal({ bytes = 1e25 }, "'bytes' must be a quantity from 0 to 1e+24 in bytes, got 1e+25")
    refusal({ bytes = "64 MiB/s" }, "bytes")
    refusal({ bytes = "none" }, "'bytes' is missing")
    refusal({ gpus = 0 }, "'gpus' must be an integer from 1 to 2147483648, got 0")
    refusal({ gpus = 2.5 }, "'gpus' must be an integer from 1 to 2147483648, got 2.5")
    refusal({ gpus = (1 << 31) + 1 }, "'gpus' must be an integer from 1 to 2147483648")
    refusal({ fast = 0 }, "'fast' must be an integer from 1 to 2147483648, got 0")
    refusal({ fast = 3 }, "fast = 3 does not divide the group of 8 GPUs")
    refusal({ gpus = 4 }, "fast = 8: of a group of 4 GPUs, 1 to 4 can share a domain")
    refusal({ gpus = 32, fast = 16 }, "fast = 16 is more than the 8 GPUs of a fast domain")
    refusal({ kind = "send" }, "a send takes place between 2 GPUs: gpus = 2, not 8")
    refusal({ system = "none" }, "system")
    refusal({ size = 3 }, "unknown field 'size'")
    refusal({ gpu = 3 }, "unknown field 'gpu' (did you mean 'gpus'?)")
    refusal({ rules = "subramanian" }, "subramanian2024")
  end)
end)

describe("a scatter or gather in a layer", function()
  -- From one GPU to 16, or back: 15/16 of the bytes leave its port, half of them through the NICs of its domain's 8.
  it("sends through ports and NICs what other GPUs get", function()
    for q, nics in pairs { [8] = 0.5e9, [1] = 7.5e9 } do
      for kind, back in pairs { scatter = "gather", gather = "scatter" } do
        local own = tperf.block("own", function()
          return { tperf.op.linear { name = "l", tokens = 64, n_in = 64, n_out = 64 },
            tperf.op.collective { name = "c", kind = kind, axis = "tp", bytes = 8e9 } }
        end)
        local c = tperf.train { system = "spec/data/small/system.yaml", tp = 16, global_batch = 1, fast = { tp = q },
          software = "none", model = { name = "m", layers = 4, hidden = 4096, heads = 16, ffn = 16384, vocab = 1024,
            seq = 128, architecture = tperf.architecture { name = "own", layer = { own } } } }
        local ops = c.kinds[1].ops
        for way, expected in pairs { forward = kind, backward = back } do
          local comm = ops[#ops][way].comms[1]
          assert.same({ expected, "ring", q > 1 and 7.5e9 or 0.0, nics },
            { comm.kind, comm.algorithm, comm.fast_bytes, comm.nic_bytes })
        end
      end
    end
  end)
end)

describe("a collective by an algorithm's name", function()
  local V <const> = 1 << 30
  local h100 = tperf.system "h100-sxm"
  local link, slow = h100.network.fast.efficiency, h100.network.slow.efficiency
  local PORT <const>, NIC <const> = h100.network.fast.bandwidth, h100.network.slow.bandwidth

  local function by(name, gpus, more)
    local asked = { system = h100, kind = "all_reduce", bytes = V, gpus = gpus, algorithm = name, tiers = true }
    for key, value in pairs(more or {}) do asked[key] = value end
    return tperf.collective(asked)
  end

  -- Seconds of so many bytes through a port around a ring of 8, two passes.
  local function stream(through)
    local curve = link.all_reduce
    return through / (math.min(curve.large * 4 ^ curve.growth, 1) * PORT)
  end

  it("is that which runs, if that is named", function()
    for gpus, name in pairs { [8] = "switch", [64] = "tree", [2] = "ring" } do
      local time, _, ran = by(nil, gpus)
      assert.equal(name, ran)
      assert.equal(time, (by(name, gpus)))
    end
  end)

  it("leaves the switch out, as without NVLS", function()
    local curve = link.all_reduce
    local expected = curve.latency + 14 * curve.hop + curve.extra + stream(2 * 7 / 8 * V)
    assert.near(expected, (by("ring", 8)), 1e-9 * expected)
    assert.is_true(by("ring", 8) > by("switch", 8))
  end)

  it("passes rings of domains where a library takes trees", function()
    local start = 2 * (slow.latency + 7 * slow.hop + 56 * link.all_reduce.hop)
    local passing = math.max(2 * 63 / 64 * V / (8 * NIC * slow.efficiency), stream(2 * 63 / 64 * V))
    local expected = start + passing + math.sqrt(slow.ramp * passing)
    local time, tiers, name = by("rings", 64)
    assert.near(expected, time, 1e-9 * expected)
    assert.equal("rings", name)
    assert.near(2 * 63 / 64 * V / 8, tiers[2].bytes, 1)
    local lone = 2 * (slow.latency + 7 * slow.hop)
    local alone = 2 * 7 / 8 * V / (NIC * slow.efficiency)
    assert.near(lone + alone + math.sqrt(slow.ramp * alone), (by("ring", 8, { fast = 1 })), 1e-9)
  end)

  it("is refused by name where it cannot run", function()
    local taken = "no algorithm 'tree' of all_reduce among 8 GPUs, 8 of a domain: switch is the one by itself"
    for name, cause in pairs { tree = taken,
      rnig = "(did you mean 'ring'?)" } do
      local ok, why = pcall(by, name, 8)
      assert.is_false(ok)
      assert.truthy(tostring(why):find(cause, 1, true), tostring(why))
    end
    local result = program.shell "tperf collective all_reduce -s h100-sxm -g 8 -n 1G --algorithm ring --tiers"
    assert.truthy(result.out:find("ring", 1, true), result.err)
  end)
end)
