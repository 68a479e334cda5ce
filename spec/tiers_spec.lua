-- Networks of more than two tiers against closed forms (N tiers, the bandwidth of tier i, fat trees, sites:
-- include/tperf/collective.h states them), two-tier networks, and what no network may do.
local cases = require "cases"
local core = require "tperf.core"
local tperf = require "tperf"

local GOOD <const> = { tensor = { bf16 = "1 PFLOP/s" }, hbm = { bandwidth = "1 TB/s", capacity = "80 GB" } }
local KINDS <const> = { "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "scatter", "gather",
  "all_to_all" }
local F <const>, S <const> = 450e9, 50e9 -- bytes/s of a port, of a NIC
local NEAR <const>, FAR <const> = 1e-6, 5e-6 -- seconds of a hop

local function tier(name, size, more)
  local one = { name = name, size = size }
  for key, value in pairs(more or {}) do one[key] = value end
  return one
end

local function nvlink(size, more)
  local one = tier("nvlink", size, { bandwidth = F, latency = NEAR, efficiency = 1 })
  for key, value in pairs(more or {}) do one[key] = value end
  return one
end

local function nics(size, more)
  local one = tier("nics", size, { bandwidth = S, latency = FAR, efficiency = 1, nics_per_gpu = 1 })
  for key, value in pairs(more or {}) do one[key] = value end
  return one
end

local function tiered(...)
  return tperf.system { name = "tiered", accelerator = GOOD, network = { tiers = { ... } } }
end

local function two(domain)
  return tperf.system { name = "two", accelerator = GOOD, network = {
    fast = { bandwidth = F, latency = NEAR, efficiency = 1, domain = domain },
    slow = { bandwidth = S, latency = FAR, efficiency = 1, nics_per_gpu = 1 } } }
end

local function seconds(system, kind, bytes, gpus, fast)
  return tperf.collective { system = system, kind = kind, bytes = bytes, gpus = gpus, fast = fast }
end

local function near(expected, actual, part) assert.near(expected, actual, (part or 1e-12) * expected) end

local function refused(text, ...)
  local ok, message = pcall(tiered, ...)
  assert.is_false(ok)
  assert.truthy(tostring(message):find(text, 1, true), tostring(message))
end

describe("a network of tiers", function()
  it("is fast and slow if it has two, to the last digit", function()
    for _, kind in ipairs(KINDS) do
      for _, gpus in ipairs { 2, 8, 64, 1024 } do
        assert.equal(seconds(two(8), kind, 1e8, gpus), seconds(tiered(nvlink(8), nics()), kind, 1e8, gpus))
      end
    end
    local system = tiered(nvlink(8), nics())
    assert.equal(8, system.network.fast.domain)
    assert.equal(S, system.network.slow.bandwidth)
  end)

  it("answers as one of two where inner tiers are equal", function()
    local equal = { tiered(nvlink(4), tier("rack", 8), nics()),
      tiered(nvlink(2), tier("tray", 4), tier("rack", 8), nics()),
      tiered(nvlink(8), nics(32), tier("spine")), tiered(nvlink(8), nics(16), tier("a", 64), tier("b", 512), tier "c"),
      tiered(nvlink(2), tier("tray", 4), tier("rack", 8), nics(16), tier("a", 64), tier("b", 512), tier "c") }
    for _, kind in ipairs(KINDS) do
      for _, gpus in ipairs { 2, 6, 8, 24, 64, 1024 } do
        for _, fast in ipairs { 1, 2, 8 } do
          if gpus % fast == 0 then
            for _, system in ipairs(equal) do
              near(seconds(two(8), kind, 1e8, gpus, fast), seconds(system, kind, 1e8, gpus, fast))
            end
          end
        end
      end
    end
  end)

  it("does so with curves, in training and in serving", function()
    local h100 = tperf.system "h100-sxm"
    local function curved(...)
      return tperf.system { name = "curved", curves_of = "h100-sxm", accelerator = h100.accelerator, host = h100.host,
        network = { tiers = { ... } } }
    end
    local port = { bandwidth = F, latency = "2.5 us", curves_of = "h100-sxm", reduces = true }
    local nic = { bandwidth = S, latency = "5 us", curves_of = "h100-sxm", nics_per_gpu = 1 }
    local three = curved(tier("nvlink", 8, port), tier("leaf", 32, nic), tier "spine")
    local four = curved(tier("nvlink", 4, port), tier("rack", 8), tier("leaf", 32, nic), tier "spine")
    for _, system in ipairs { three, four } do
      for _, kind in ipairs(KINDS) do
        for _, gpus in ipairs { 4, 8, 64 } do
          near(seconds(h100, kind, 1e8, gpus), seconds(system, kind, 1e8, gpus))
          near(seconds(h100, kind, 1e3, gpus), seconds(system, kind, 1e3, gpus))
        end
      end
      local asked = { model = "mixtral-8x7b", global_batch = 256, tp = 2, pp = 2, ep = 4, gpus = 128,
        recompute = "full" }
      asked.system = h100
      local expected = tperf.train(asked).time
      asked.system = system
      near(expected, tperf.train(asked).time)
      local served = { model = "llama-3.1-70b", tp = 8, pp = 2, prompt = 512, generate = 64, batch = 8, system = h100 }
      local latency = tperf.infer(served).latency
      served.system = system
      near(latency, tperf.infer(served).latency)
    end
  end)

  it("is searched as it is trained on", function()
    local narrow = tiered(nvlink(4), tier("rack", 8, { bandwidth = F / 3 }), nics(32),
      tier("spine", nil, { oversubscription = 8, latency = "20 us" }))
    for _, model in ipairs { "llama-2-13b", "mixtral-8x7b" } do
      local found = tperf.search { model = model, system = narrow, gpus = { 64, 128 }, global_batch = 256, top = 20,
        software = "none", placement = "best" }
      local count = 0
      for _, result in ipairs(found) do
        for _, c in ipairs(result[1] and result or { result }) do
          assert.equal(c.time, tperf.train { configuration = c, software = "none" }.time)
          count = count + 1
        end
      end
      assert.is_true(count >= 20)
      -- and no placement is faster than the one that is found
      local best = found[1][1] or found[1]
      for _, tp in ipairs { 1, 2, 4, 8 } do
        if best.tp % tp == 0 then
          local other = tperf.train { configuration = best, software = "none", fast = { tp = tp } }
          assert.is_true(not other or other.time >= best.time)
        end
      end
    end
  end)

  it("adds up the gradients of a pipeline's ends across what lies between them", function()
    local function tied(over, gpus)
      local c = tperf.train { model = "llama-3.2-3b", software = "none", global_batch = 64, pp = 4, dp = gpus // 4,
        system = tiered(nvlink(8), nics(64), tier("spine", nil, { oversubscription = over })) }
      return c.exchanges[#c.exchanges].tied - 2 * FAR -- of an all-reduce of two
    end
    near(8 * tied(1, 128), tied(8, 128), 1e-9) -- ends 96 GPUs apart, in leaves of 64
    near(tied(1, 64), tied(8, 64), 1e-9) -- all in one leaf
  end)

  it("loses no faster layout to a search's bounds", function()
    for i, over in ipairs { 1, 6, 30 } do
      local fabric = tiered(nvlink(4), tier("rack", 8, { bandwidth = F / i }), nics(16),
        tier("spine", 64, { oversubscription = over, latency = "50 us" }), tier("site", nil, { latency = "1 ms" }))
      local asked = { model = "mixtral-8x7b", system = fabric, gpus = 128, global_batch = 256, software = "none",
        recompute = "full", top = 1, placement = i < 3 and "best" or nil }
      local found = tperf.search(asked)[1]
      asked.top = 20000 -- all, so that nothing is ruled out
      local all = tperf.search(asked)
      assert.is_true(#all > 100)
      for _, c in ipairs(all) do assert.is_true(c.time >= found.time) end
    end
  end)

  it("shares the roots of PCIe trees among the cards below them", function()
    local P <const>, U <const> = 25e9, 20e9 -- bytes/s of a card's link, of the link between two sockets, one way
    local nic = nics(nil, { bandwidth = 12.5e9, nics_per_gpu = 1 / 8 })
    local pcie = { name = "pcie", bandwidth = P, latency = NEAR, efficiency = 1 }
    local one = tiered(tier("pcie", 8, pcie), nic)
    local roots = tiered(tier("pcie", 4, pcie), tier("sockets", 8, { bandwidth = U / 4 }), nic)
    -- A ring passes each card's link and, once one way, that between the sockets.
    near(7 * NEAR + 7 / 8 * 1e9 / P, seconds(one, "all_gather", 1e9, 8))
    near(7 * NEAR + 7 / 8 * 1e9 / U, seconds(roots, "all_gather", 1e9, 8))
    -- In an all-to-all half of what each of 4 cards sends crosses.
    near(7 * NEAR + 4 * 4 / 8 * 1e9 / U, seconds(roots, "all_to_all", 1e9, 8))
    -- Bridges between pairs: the ring's bytes leave a pair by the links of both cards.
    local bridge = { name = "bridge", size = 2, bandwidth = 56e9, latency = NEAR, efficiency = 1 }
    local bridged = tiered(bridge, tier("pcie", 8, { bandwidth = P }), nic)
    near(7 * NEAR + 7 / 8 * 1e9 / (2 * P), seconds(bridged, "all_gather", 1e9, 8))
    near(NEAR + 1 / 2 * 1e9 / 56e9, seconds(bridged, "all_gather", 1e9, 2))
    near(7 * NEAR + 6 / 8 * 1e9 / P, seconds(bridged, "all_to_all", 1e9, 8))
  end)

  it("passes a ring's bytes once through each unit's uplinks", function()
    -- 512 GPUs in 2 leaves of 256, uplinks of a quarter: the ring crosses each leaf's 256 uplinks once.
    local quarter = tiered(nvlink(8), nics(256), tier("spine", nil, { oversubscription = 4 }))
    local hops = 63 * FAR + 448 * NEAR
    near(hops + 511 / 512 * 1e9 / (8 * S), seconds(quarter, "all_gather", 1e9, 512))
    -- Oversubscription o does not show until o > 256 / 8: then V (n - 1) / n / (256 B / o).
    local narrow = tiered(nvlink(8), nics(256), tier("spine", nil, { oversubscription = 64 }))
    near(hops + 511 / 512 * 1e9 / (256 * S / 64), seconds(narrow, "all_gather", 1e9, 512))
    near(2 * (hops + 511 / 512 * 1e9 / (256 * S / 64)), seconds(narrow, "all_reduce", 1e9, 512))
    near(hops + 256 / 512 * 1e9 / (256 * S / 64), seconds(narrow, "scatter", 1e9, 512))
  end)

  it("links domains in rings, tori and meshes by the closed forms of these", function()
    local ring = tiered(nvlink(8), nics(32, { topology = "ring" })) -- 4 domains, a NIC's half each way
    -- Whole rings: V (n - 1) / n through all links of a domain; half as many hops as domains.
    near(2 * FAR + 28 * NEAR + 31 / 32 * 1e9 / (8 * S), seconds(ring, "all_gather", 1e9, 32))
    near(2 * (2 * FAR + 28 * NEAR + 31 / 32 * 1e9 / (8 * S)), seconds(ring, "all_reduce", 1e9, 32))
    -- Two domains are a line: one link.
    near(FAR + 14 * NEAR + 15 / 16 * 1e9 / (8 * S / 2), seconds(ring, "all_gather", 1e9, 16))
    -- All-to-all: all bytes x n_max / (8 W n), W a link of half a domain's NICs.
    near(24 * FAR + 7 * NEAR + 32 * 1e9 * 4 / (8 * (8 * S / 2) * 4), seconds(ring, "all_to_all", 1e9, 32))
    near(FAR + 1e9 / (S / 2), seconds(ring, "send", 1e9, 2, 1))
    local mesh = tiered(nvlink(8), nics(32, { topology = "all_to_all" }))
    near(FAR + 28 * NEAR + 31 / 32 * 1e9 / (8 * S), seconds(mesh, "all_gather", 1e9, 32))
    near(FAR + 14 * NEAR + 15 / 16 * 1e9 / (8 * S / 3), seconds(mesh, "all_gather", 1e9, 16)) -- one of three links
    near(24 * FAR + 7 * NEAR + 8 * 1e9 * 8 / 32 / (8 * S / 3), seconds(mesh, "all_to_all", 1e9, 32))
  end)

  it("joins units of any tier in a torus, and tori by what lies beyond", function()
    local B <const> = 20e9 -- bytes/s of a GPU's part in its unit's links
    local pods = tiered(nvlink(8), nics(16),
      tier("torus", 256, { topology = "torus", axes = { 4, 4 }, bandwidth = B, latency = "9 us" }),
      tier("dcn", nil, { oversubscription = 10, latency = "50 us" }))
    -- 256 GPUs, 16 units: 4 links of W = 16 B / 4, 4 hops of 9 us; in each unit 1 of the NICs' tier.
    near(4 * 9e-6 + 16 * FAR + 224 * NEAR + 255 / 256 * 1e9 / math.min(8 * S, 16 * B),
      seconds(pods, "all_gather", 1e9, 256))
    near(240 * 9e-6 + 8 * FAR + 7 * NEAR + 256 * 1e9 * 4 / (8 * (16 * B / 4) * 16),
      seconds(pods, "all_to_all", 1e9, 256))
    -- Two pods: the line between them passes what the other pod gets, the torus what its own GPUs exchange.
    near(256 * 50e-6 + 240 * 9e-6 + 8 * FAR + 7 * NEAR + 1e9 / 2 / (B / 10), seconds(pods, "all_to_all", 1e9, 512))
    local _, passed = tperf.collective { system = pods, kind = "all_to_all", bytes = 1e9, gpus = 512, tiers = true }
    near(256 * 1e9 / 2 * 4 / (8 * (16 * B / 4) * 16), passed[3].time)
    assert.equal("torus", passed[3].name)
    -- Within a domain: pairs of dies as a ring of four packages.
    local dies = tiered(nvlink(2), tier("ring", 8, { topology = "ring", bandwidth = B }), nics())
    near(2 * NEAR + 4 * NEAR + 7 / 8 * 1e9 / (2 * B), seconds(dies, "all_gather", 1e9, 8))
    near(7 / 8 * 1e9 / (2 * B) * 2, seconds(dies, "all_reduce", 1e9, 8) - 2 * 6 * NEAR)
  end)

  it("names PCIe's roots and rings as they are called", function()
    local x16 = { bandwidth = 25e9, latency = NEAR, efficiency = 1 }
    local root = tiered(tier("cards", 4, x16), tier("roots", 8, { topology = "pcie", bandwidth = 5e9 }), nics())
    local tree = tiered(tier("cards", 4, x16), tier("roots", 8, { topology = "tree", bandwidth = 5e9 }), nics())
    assert.equal(seconds(tree, "all_to_all", 1e9, 8), seconds(root, "all_to_all", 1e9, 8))
    local ring = tiered(nvlink(8, { topology = "ring" }), nics())
    local torus = tiered(nvlink(8, { topology = "torus", axes = { 8 } }), nics())
    assert.equal(seconds(torus, "all_gather", 1e9, 8), seconds(ring, "all_gather", 1e9, 8))
    local wider = ring:with { network = { tiers = { nvlink = { size = 16 } } } }
    assert.equal(16, wider.network.tiers[1].axes[1])
  end)

  it("feels oversubscription in full in an all-to-all: V (n - u) / n / (B / o)", function()
    for _, o in ipairs { 2, 7, 15 } do -- Meta's 24K cluster has 7 above a pod, HPN 15 above one
      local fabric = tiered(nvlink(8), nics(3072), tier("aggregation", nil, { oversubscription = o }))
      local n, u = 24576, 3072
      local latency = (n - 8) * FAR + 7 * NEAR
      local expected = math.max((n - 8) / n * 1e9 / S, (n - u) / n * 1e9 / (S / o))
      near(latency + expected, seconds(fabric, "all_to_all", 1e9, n))
      -- The part that stays in a pod feels none.
      near(seconds(two(8), "all_to_all", 1e9, u), seconds(fabric, "all_to_all", 1e9, u))
    end
  end)

  it("has the product of oversubscriptions at its outermost tier, and each hop its latency", function()
    local fabric = tiered(nvlink(8), nics(64), tier("spine", 512, { oversubscription = 2, latency = "7 us" }),
      tier("site", nil, { oversubscription = 10, latency = "500 us" })) -- 100 km at 5 us each
    local n = 1024
    near((n - 512) * 500e-6 + (512 - 64) * 7e-6 + (64 - 8) * FAR + 7 * NEAR + (n - 512) / n * 1e9 / (S / 20),
      seconds(fabric, "all_to_all", 1e9, n))
    -- A ring of 128 domains: 127 hops, of which 15 cross spines, and one of these sites.
    near(500e-6 + 14 * 7e-6 + (127 - 15) * FAR + (n - 128) * NEAR + (n - 1) / n * 1e9 / (8 * S),
      seconds(fabric, "all_gather", 1e9, n))
    near(FAR + 1e9 / S, seconds(fabric, "send", 1e9, 2, 1)) -- neighbours under one leaf
  end)

  it("shares uplinks among the GPUs of a unit unless one group has them alone", function()
    local own = { oversubscription = 64, shared = false }
    local alone = tiered(nvlink(8), nics(256), tier("spine", nil, own))
    local shared = tiered(nvlink(8), nics(256), tier("spine", nil, { oversubscription = 64 }))
    local hops = 63 * FAR + 448 * NEAR
    for _, system in ipairs { alone, shared } do -- a group that fills its leaves has all of them
      near(hops + 511 / 512 * 1e9 / (256 * S / 64), seconds(system, "all_gather", 1e9, 512))
    end
    -- Pipelines of 2 stages of 256 GPUs: a message crosses with 255 others, or by itself.
    local asked = { model = "llama-2-7b", system = shared, global_batch = 64, tp = 4, pp = 2, dp = 64,
      software = "none" }
    local together = tperf.train(asked).messages[1]
    asked.system = alone
    local apart = tperf.train(asked).messages[1]
    near(256, together.tiers[2].time / apart.tiers[2].time)
  end)

  it("loses what is degraded, of the tier that is named", function()
    local fabric = tiered(nvlink(8), nics(256), tier("spine", nil, { oversubscription = 2 }))
    local half = fabric:with { network = { tiers = { spine = { degraded = 0.5 } } } }
    near(seconds(tiered(nvlink(8), nics(256), tier("spine", nil, { oversubscription = 4 })), "all_to_all", 1e9, 512),
      seconds(half, "all_to_all", 1e9, 512))
    near(seconds(half, "all_to_all", 1e9, 512), seconds(half:with { name = "again" }, "all_to_all", 1e9, 512))
    local rails = fabric:with { network = { tiers = { nics = { degraded = 7 / 8 } } } } -- a failed rail of 8
    near(63 * FAR + 448 * NEAR + 511 / 512 * 1e9 / (8 * S * 7 / 8), seconds(rails, "all_gather", 1e9, 512))
    local plain = two(8):with { network = { tiers = { slow = { degraded = 0.25 } } } }
    near(seconds(two(8):with { network = { slow = { bandwidth = S / 4 } } }, "all_gather", 1e9, 512),
      seconds(plain, "all_gather", 1e9, 512))
    local ok, message = pcall(fabric.with, fabric, { network = { tiers = { spin = { degraded = 0.5 } } } })
    assert.is_false(ok)
    assert.truthy(tostring(message):find("'nvlink', 'nics', 'spine'", 1, true), tostring(message))
  end)

  it("changes its ports' tiers as fast and slow", function()
    local fabric = tiered(nvlink(8), nics(256), tier "spine")
    local wider = fabric:with { network = { fast = { domain = 64 }, slow = { bandwidth = 2 * S } } }
    assert.equal(64, wider.network.tiers[1].size)
    assert.equal(2 * S, wider.network.tiers[2].bandwidth)
    near(seconds(two(64):with { network = { slow = { bandwidth = 2 * S } } }, "all_gather", 1e9, 512),
      seconds(wider, "all_gather", 1e9, 512))
  end)

  it("lists what passes each tier", function()
    local fabric = tiered(nvlink(8), nics(256), tier("spine", nil, { oversubscription = 2 }))
    local _, passed, algorithm = tperf.collective { system = fabric, kind = "all_to_all", bytes = 1e9, gpus = 512,
      tiers = true }
    assert.equal("pairwise", algorithm)
    local expected = { { "nvlink", 7 / 512 * 1e9, F }, { "nics", 504 / 512 * 1e9, S },
      { "spine", 256 / 512 * 1e9, S / 2 } }
    assert.equal(3, #passed)
    for i, one in ipairs(expected) do
      assert.equal(one[1], passed[i].name)
      near(one[2], passed[i].bytes)
      near(one[2] / one[3], passed[i].time)
    end
  end)

  it("shows the bytes of each tier in audits, timelines and traces", function()
    local fabric = tiered(nvlink(8), nics(32), tier("spine", nil, { oversubscription = 2 }))
    -- tp 4 in a domain, two replicas beside them; 32 domains in 8 leaves; stages outside all: 2 stages of 64 GPUs
    local c, timeline = tperf.train { model = "llama-2-7b", system = fabric, global_batch = 32, tp = 4, pp = 2, dp = 16,
      fast = { tp = 4, dp = 2 }, software = "none", zero = 0, simulate = true, explain = true }
    local message = c.messages[1] -- the only link crosses the spine
    assert.same({ "nics", "spine" }, { message.tiers[1].name, message.tiers[2].name })
    assert.equal(message.bytes, message.tiers[2].bytes)
    near(2 * message.tiers[1].time, message.tiers[2].time)
    local reduced = c.exchanges[1].comms[1]
    assert.equal("all_reduce", reduced.kind)
    -- rings among 16 GPUs, 2 to a domain, 8 to a leaf of 4 domains with tp 4: each NIC passes 1/2 of 2 x 15/16, each
    -- uplink 1/8
    local passed = 2 * 15 / 16 * reduced.bytes
    assert.equal(3, #reduced.tiers)
    near(passed, reduced.tiers[1].bytes)
    near(passed / 2, reduced.tiers[2].bytes)
    near(passed / 8, reduced.tiers[3].bytes)
    local sent = 0
    for task in timeline:tasks(1) do
      for _, one in ipairs(task.tiers or {}) do
        if one.name == "spine" and task.kind == "message" then sent = one.bytes end
      end
    end
    assert.equal(message.bytes, sent)
    assert.truthy(timeline:trace():find '"tiers":{"nics":%d+.-"spine":')
    local text = {}
    for i, term in ipairs(c.sum) do text[i] = term.formula end
    assert.truthy(table.concat(text):find("spine", 1, true))
  end)

  it("refuses what is no order of tiers, by field and remedy", function()
    refused("one tier must have 'nics_per_gpu'", nvlink(8), tier "spine")
    refused("two tiers are called 'nvlink'", nvlink(4), nvlink(8), nics())
    refused("'network.tiers[1].size' is missing", nvlink(nil), nics())
    refused("is no multiple of the 8 GPUs of 'nvlink'", nvlink(8), nics(12), tier "spine")
    refused("gives its bandwidth and its oversubscription", nvlink(8), nics(16),
      tier("spine", nil, { bandwidth = S, oversubscription = 2 }))
    refused("'network.tiers[3].axes' is missing", nvlink(8), nics(16), tier("spine", 64, { topology = "torus" }))
    refused("'network.tiers[3].size' is missing", nvlink(8), nics(16), tier("spine", nil, { topology = "ring" }))
    refused("'network.tiers[2].axes' is for topology: torus", nvlink(8), nics(16, { axes = { 4 } }), tier "spine")
    refused("must then be a switch", nvlink(4, { topology = "all_to_all" }), tier("rack", 8), nics())
    refused("for a tier of uplinks", nvlink(8, { oversubscription = 2 }), nics())
    local ok, message = pcall(tperf.system, { name = "both", accelerator = GOOD, network = { fast = {}, tiers = {} } })
    assert.is_false(ok)
    assert.truthy(tostring(message):find("give one of the two", 1, true))
  end)
end)

-- Random networks: ports, then uplinks of any width. NICs have at most half of a fast port, and inner hops are shorter,
-- or a GPU that has both would gain by leaving its domain.
local LINKS <const> = { "switch", "tree", "ring", "all_to_all" }
local SWITCHED <const> = { switch = true, tree = true }

local function switched(one) return not one or not one.topology or SWITCHED[one.topology] end

local function random_network(draw)
  local domain, fast = 1 << draw(1, 4), draw(50, 900) * 1e9
  local latency = draw(1, 30) * 1e-7
  local list = { nvlink(domain, { bandwidth = fast, latency = latency }) }
  if draw(0, 1) == 1 then
    domain = domain << draw(1, 2)
    list[2] = tier("rack", domain, { bandwidth = fast / draw(1, 4), latency = latency * draw(1, 3) })
  end
  local nic = nics(domain << draw(1, 3), { bandwidth = fast / draw(32, 64), latency = latency * draw(3, 9) })
  list[#list + 1] = nic
  for i = 1, draw(0, 3) do
    list[#list + 1] = tier("outer" .. i, list[#list].size << draw(1, 2), { oversubscription = draw(1, 8),
      latency = nic.latency * draw(1, 4) ^ i, topology = LINKS[draw(1, #LINKS)] })
  end
  return list, domain
end

describe("random networks", function()
  it("slow nothing down where a link gets faster, and speed nothing up where a group spans one tier more", function()
    local state = 7
    local function draw(low, high)
      state = (state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff
      return low + (state >> 33) % (high - low + 1)
    end
    local rules = require("tperf.describe.rules.sets").of "default"
    local machine = require("tperf.base.catalogue").shared(require "tperf.describe.system")
    local spanned = 0
    for _ = 1, cases(300, 10000) do
      local list, domain = random_network(draw)
      local kind, bytes = KINDS[draw(1, #KINDS)], 10 ^ draw(2, 9)
      local function time(gpus, fast, of)
        local system = machine { name = "random", accelerator = GOOD, network = { tiers = of or list } }
        return (core.collective(system, rules, kind, bytes, gpus, fast))
      end
      local gpus = domain << draw(0, 4)
      local fast = math.min(gpus, 1 << draw(0, 3), domain)
      local now, at = time(gpus, fast), draw(1, #list)
      local quicker = {}
      for i, one in ipairs(list) do quicker[i] = i == at and {} or one end
      for key, value in pairs(list[at]) do quicker[at][key] = value end
      if list[at].bandwidth then quicker[at].bandwidth = 2 * list[at].bandwidth
      else quicker[at].oversubscription = list[at].oversubscription / 2 end
      assert.is_true(time(gpus, fast, quicker) <= now * (1 + 1e-12))
      -- the same group, half as many of it to a unit of one tier
      local bounds_domain = at < #list and list[at + 1].nics_per_gpu
      -- (how many are linked tells links in a ring or a mesh)
      local halves = at < #list and not bounds_domain and switched(list[at]) and switched(list[at + 1])
      if halves and list[at].size >= (at > 1 and list[at - 1].size or 1) * 2 then
        local smaller = {}
        for i, one in ipairs(list) do smaller[i] = one end
        smaller[at] = {}
        for key, value in pairs(list[at]) do smaller[at][key] = value end
        smaller[at].size = list[at].size // 2
        assert.is_true(time(gpus, fast, smaller) >= now * (1 - 1e-12))
        spanned = spanned + 1
      end
      -- Among more units of a mesh a group has more links.
      local mesh = false
      for _, one in ipairs(list) do mesh = mesh or one.topology == "all_to_all" end
      if fast > 1 and not mesh then assert.is_true(time(gpus, fast // 2) >= now * (1 - 1e-12)) end
    end
    assert.is_true(spanned > 50)
  end)
end)

describe("a topology", function()
  it("of slices over a data centre's network reduces a chip's part of V through its NIC", function()
    local chips <const>, nic <const>, V <const> = 16, 3.125e9, 1e12
    local slices = tiered({ name = "ici", size = chips, bandwidth = 4 * 90e9, latency = NEAR, efficiency = 1,
      topology = "torus", axes = { 4, 4 } }, nics(nil, { bandwidth = nic }))
    local passed = 2 * (4 * chips - 1) / (4 * chips) * V / chips / nic
    assert.near(passed, seconds(slices, "all_reduce", V, 4 * chips), 1e-4 * passed)
  end)

  it("of eight cards behind PCIe is as fast as theirs was measured, with peers and without", function()
    for name, bus in pairs { ["rtx-4090"] = 14.5e9, ["rtx-a6000"] = 20.6e9 } do -- 128 MiB, a public log
      local time = tperf.collective { system = name, kind = "all_reduce", bytes = 128 << 20, gpus = 8 }
      assert.near(1, 2 * 7 / 8 * (128 << 20) / time / bus, 0.02)
    end
  end)
end)
