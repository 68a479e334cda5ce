-- Networks of other tools as tiers. Expected values: the fields of each format by hand, and the vendor's figures.
local program = require "program"
local tperf = require "tperf"

local folder = program.folder()

local function file(name, text)
  local path = folder .. "/" .. name
  local handle = assert(io.open(path, "w"))
  handle:write(text)
  handle:close()
  return path
end

local ASTRA <const> = [[
topology: [ Switch, Switch, Ring ]
npus_count: [ 8, 4, 4 ]
bandwidth: [ 400.0, 50.0, 25.0 ]
latency: [ 936.25, 2000.0, 5000.0 ]
]]

local CALCULON <const> = [[{"matrix": {}, "networks": [
  {"bandwidth": 300, "efficiency": 0.65, "size": 8, "latency": 0.00001, "ops": {}, "must_be_filled": true},
  {"bandwidth": 25, "efficiency": 0.9, "size": 65536, "latency": 0.00002, "processor_usage": 0.02}]}]]

-- A host of 2 GPUs on a PCIe switch with one NIC of 200 Gb/s.
local function host(gpus)
  local text = { '<system version="1">\n <cpu numaid="0" arch="x86_64">\n',
    '  <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">\n' }
  for i, inside in ipairs(gpus) do
    text[#text + 1] = ('   <pci busid="0000:1%d:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">\n'
      .. '    <gpu dev="%d" sm="80" rank="%d" gdr="1"%s\n   </pci>\n'):format(i, i - 1, i - 1,
        inside == "" and "/>" or ">" .. inside .. "</gpu>")
  end
  text[#text + 1] = '   <pci busid="0000:1f:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">\n'
    .. '    <nic><net name="mlx5_0" dev="0" speed="200000" port="1" gdr="1"/></nic>\n   </pci>\n'
    .. '  </pci>\n </cpu>\n</system>\n'
  return table.concat(text)
end

local SWITCHED <const> = '<nvlink target="0000:c1:00.0" count="12" tclass="0x068000"/>'

local TOPO <const> = [[
	GPU0	GPU1	GPU2	GPU3	NIC0	NIC1	CPU Affinity	NUMA Affinity
GPU0	 X 	NV18	NV18	NV18	PIX	SYS	0-47	0
GPU1	NV18	 X 	NV18	NV18	PIX	SYS	0-47	0
GPU2	NV18	NV18	 X 	NV18	SYS	PIX	48-95	1
GPU3	NV18	NV18	NV18	 X 	SYS	PIX	48-95	1
NIC0	PIX	PIX	SYS	SYS	 X 	SYS
NIC1	SYS	SYS	PIX	PIX	SYS	 X

Legend:
  X    = Self
]]

describe("a network of another tool", function()
  it("is read from ASTRA-sim: links of each dimension", function()
    local found = tperf.import.network(file("network.yml", ASTRA))
    assert.equal("ASTRA-sim", found.format)
    local expected = { { 8, 400e9, 936.25e-9 }, { 32, 50e9, 2e-6 }, { 128, 2 * 25e9, 5e-6 } } -- a ring has two links
    for i, one in ipairs(expected) do
      local tier = found.tiers[i]
      assert.equal(one[1], tier.size)
      assert.near(one[2], tier.bandwidth, 1e-3)
      assert.near(one[3], tier.latency, 1e-15)
    end
    -- All-gather of V in one switch of 8 with 400 GB/s: V (n - 1) / n / B and n - 1 hops.
    local system = tperf.system("h100-sxm"):with { network = { tiers = found.tiers } }
    assert.near(7 / 8 * 1e9 / 400e9 + 7 * 936.25e-9,
      tperf.collective { system = system, kind = "all_gather", bytes = 1e9, gpus = 8 }, 1e-12)
    -- Across 4 of them, and of these, 4: 16 domains, 15 hops, of which 3 cross the ring.
    assert.near(127 / 128 * 1e9 / (8 * 50e9) + 3 * 5e-6 + 12 * 2e-6 + 112 * 936.25e-9,
      tperf.collective { system = system, kind = "all_gather", bytes = 1e9, gpus = 128 }, 1e-12)
  end)

  it("is read from Calculon", function()
    local tiers = tperf.import.network(file("calculon.json", CALCULON)).tiers
    assert.same({ 8, 300e9, 0.65, 1e-5 }, { tiers[1].size, tiers[1].bandwidth, tiers[1].efficiency, tiers[1].latency })
    assert.same({ 65536, 25e9, 0.9, 1 }, { tiers[2].size, tiers[2].bandwidth, tiers[2].efficiency,
      tiers[2].nics_per_gpu })
  end)

  it("is read from NCCL's topology: NVLinks by generation, PCIe lanes, NICs", function()
    local tiers = tperf.import.network(file("switched.xml", host { SWITCHED, SWITCHED })).tiers
    assert.same({ "nvlink", 2, 12 * 25e9 }, { tiers[1].name, tiers[1].size, tiers[1].bandwidth }) -- an A100
    assert.same({ "nics", 25e9, 0.5 }, { tiers[2].name, tiers[2].bandwidth, tiers[2].nics_per_gpu })
    tiers = tperf.import.network(file("plain.xml", host { "", "" })).tiers
    assert.equal("pcie", tiers[1].name)
    assert.near(16e9 * 16 / 8 * 128 / 130, tiers[1].bandwidth, 1)
    local function to(i) return ('<nvlink target="0000:1%d:00.0" count="4" tclass="0x030200"/>'):format(i) end
    tiers = tperf.import.network(file("bridged.xml", host { to(2), to(1), to(4), to(3) })).tiers
    assert.same({ "nvlink", 2, 100e9, "pcie", 4 }, { tiers[1].name, tiers[1].size, tiers[1].bandwidth, tiers[2].name,
      tiers[2].size })
  end)

  it("is read from nvidia-smi's matrix, which has no bandwidths", function()
    local found = tperf.import.network(file("topo.txt", TOPO))
    assert.same({ "nvlink", 4, "switch" }, { found.tiers[1].name, found.tiers[1].size, found.tiers[1].topology })
    assert.equal(0.5, found.tiers[2].nics_per_gpu)
    local mesh = tperf.import.network(file("mesh.txt", (TOPO:gsub("NV18", "NV4")))).tiers[1] -- 4 A100s: 12 links
    assert.equal("all_to_all", mesh.topology)
  end)

  it("is printed by tperf show as a system file has it", function()
    local result = program.shell("tperf show " .. file("again.yml", ASTRA))
    assert.equal(0, result.code, result.err)
    local head = "name: made\naccelerator:\n  tensor: { bf16: 989 TFLOP/s }\n"
      .. "  hbm: { bandwidth: 3.35 TB/s, capacity: 80 GB }\n"
    local system = tperf.system(file("made.yaml", head .. result.out))
    assert.equal(32, system.network.tiers[2].size)
    assert.truthy(program.shell("tperf show " .. file("topo2.txt", TOPO)).out:find "18 links")
  end)

  it("is refused by name where it is no list of tiers", function()
    local function message(name, text)
      local ok, why = pcall(tperf.import.network, file(name, text))
      assert.is_false(ok)
      return tostring(why)
    end
    local short = message("short.yml", (ASTRA:gsub("8, 4, 4", "8, 4")))
    assert.truthy(short:find("'npus_count' must be a list of 3", 1, true), short)
    assert.truthy(message("odd.yml", (ASTRA:gsub("Ring", "Rnig"))):find("unknown topology \"Rnig\"", 1, true))
    assert.truthy(message("other.txt", "hello"):find("is no network of", 1, true))
    assert.truthy(message("cube.txt", (TOPO:gsub("NV18", "SYS", 1))):find("different NVLinks", 1, true))
    assert.truthy(message("empty.xml", '<system version="1"></system>'):find("no GPU", 1, true))
  end)

  lazy_teardown(function() program.remove(folder) end)
end)
