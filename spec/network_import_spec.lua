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

-- A host of 8 GPUs below two sockets, with two PCIe switches of 16 lanes each and 2 GPUs below each of these.
local function rooted()
  local text, at = { '<system version="1">\n' }, 0
  for socket = 0, 1 do
    text[#text + 1] = ('<cpu numaid="%d" arch="x86_64" vendor="GenuineIntel">\n'):format(socket)
    for switch = 0, 1 do
      text[#text + 1] = ('<pci busid="0000:%d%d:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">\n')
        :format(socket, switch)
      for _ = 1, 2 do
        text[#text + 1] = ('<pci busid="0000:a%d:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">\n'
          .. '<gpu dev="%d" sm="89" rank="%d" gdr="1"/>\n</pci>\n'):format(at, at, at)
        at = at + 1
      end
      text[#text + 1] = "</pci>\n"
    end
    text[#text + 1] = "</cpu>\n"
  end
  text[#text + 1] = "</system>\n"
  return table.concat(text)
end

-- Hosts of 4 GPUs and NICs, two below each leaf with 8 ports of 100 Gb/s; each leaf has one port of 200 Gb/s to each of
-- two spines. NVLinks: two switches, 150 GB/s to each.
local INFRAGRAPH <const> = [[
name: closfabric
devices:
  - name: server
    components:
      - { name: cpu, count: 2, choice: cpu }
      - { name: xpu, count: 4, choice: xpu }
      - { name: nvlsw, count: 2, choice: switch }
      - { name: pciesw, count: 2, choice: switch }
      - { name: nic, count: 4, choice: nic }
      - { name: mgmt, count: 1, choice: custom, custom: { type: mgmt-nic } }
    links:
      - { name: fabric }
      - name: nvlink
        physical:
          bandwidth: { choice: gigabytes_per_second, gigabytes_per_second: 150 }
          latency: { choice: us, us: 1.5 }
      - { name: pcie, physical: { bandwidth: { choice: gigatransfers_per_second, gigatransfers_per_second: 32 } } }
    edges:
      - { scheme: one2one, link: pcie, ep1: { component: mgmt }, ep2: { component: "cpu[0]" } }
      - { scheme: many2many, link: fabric, ep1: { component: cpu }, ep2: { component: cpu } }
      - { scheme: many2many, link: nvlink, ep1: { component: xpu }, ep2: { component: nvlsw } }
      - { scheme: one2one, link: pcie, ep1: { component: cpu }, ep2: { component: pciesw } }
      - { scheme: many2many, link: pcie, ep1: { component: "xpu[0:2]" }, ep2: { component: "pciesw[0]" } }
      - { scheme: many2many, link: pcie, ep1: { component: "xpu[2:4]" }, ep2: { component: "pciesw[1]" } }
      - { scheme: many2many, link: pcie, ep1: { component: "nic[0:2]" }, ep2: { component: "pciesw[0]" } }
      - { scheme: many2many, link: pcie, ep1: { component: "nic[2:4]" }, ep2: { component: "pciesw[1]" } }
  - name: switch
    components: [{ name: asic, count: 1, choice: cpu }, { name: port, count: 16, choice: port }]
    links: [{ name: ic }]
    edges: [{ scheme: many2many, link: ic, ep1: { component: asic }, ep2: { component: port } }]
instances:
  - { name: host, device: server, count: 8 }
  - { name: leafsw, device: switch, count: 4 }
  - { name: spinesw, device: switch, count: 2 }
links:
  - { name: leaf, physical: { bandwidth: { choice: gigabits_per_second, gigabits_per_second: 100 } } }
  - { name: spine, physical: { bandwidth: { choice: gigabits_per_second, gigabits_per_second: 200 } } }
edges:
  - { scheme: one2one, link: leaf, ep1: { instance: "host[0:2]", component: nic },
      ep2: { instance: "leafsw[0]", component: "port[0:8]" } }
  - { scheme: one2one, link: leaf, ep1: { instance: "host[2:4]", component: nic },
      ep2: { instance: "leafsw[1]", component: "port[0:8]" } }
  - { scheme: one2one, link: leaf, ep1: { instance: "host[4:6]", component: nic },
      ep2: { instance: "leafsw[2]", component: "port[0:8]" } }
  - { scheme: one2one, link: leaf, ep1: { instance: "host[6:8]", component: nic },
      ep2: { instance: "leafsw[3]", component: "port[0:8]" } }
  - { scheme: one2one, link: spine, ep1: { instance: leafsw, component: "port[8]" },
      ep2: { instance: "spinesw[0]", component: "port[0:4]" } }
  - { scheme: one2one, link: spine, ep1: { instance: leafsw, component: "port[9]" },
      ep2: { instance: "spinesw[1]", component: "port[0:4]" } }
]]

-- GPUs alone, of a host with links of 50 GB/s in a scheme, and NICs to one switch.
local function bare(scheme, gpus)
  return ([[
infrastructure:
  devices:
    - name: box
      components: [{ name: gpu, count: %d, choice: xpu }, { name: nic, count: 2, choice: nic }]
      links: [{ name: xgmi, physical: { bandwidth: { gigabytes_per_second: 50 } } }, { name: pcie }]
      edges:
        - { scheme: %s, link: xgmi, ep1: { component: gpu }, ep2: { component: gpu } }
        - { scheme: one2one, link: pcie, ep1: { component: gpu }, ep2: { component: nic } }
    - { name: sw, components: [{ name: port, count: 8, choice: port }], links: [], edges: [] }
  instances: [{ name: box, device: box, count: 4 }, { name: sw, device: sw, count: 1 }]
  links: [{ name: eth, physical: { bandwidth: { gigabits_per_second: 400 }, latency: { ns: 2500 } } }]
  edges:
    - { scheme: one2one, link: eth, ep1: { instance: box, component: nic }, ep2: { instance: sw, component: port } }
]]):format(gpus, scheme)
end

local LOG <const> = [[
# nThread 1 nGpus 2 minBytes 1024 maxBytes 1048576 step: 2(factor)
#  Rank  0 Group  0 Pid  1 on       box device  0 [0x01] NVIDIA RTX A6000
#  Rank  1 Group  0 Pid  1 on       box device  1 [0x02] NVIDIA RTX A6000
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1    18.50    0.06    0.06      0    18.20    0.06    0.06      0
     1048576        262144     float     sum      -1    140.0    7.49    7.49      0    139.0    7.54    7.54      0
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
    -- Across 4 of them, and of these, 4: 16 domains, 12 hops, and 2 to the far side of the ring.
    assert.near(127 / 128 * 1e9 / (8 * 50e9) + 2 * 5e-6 + 12 * 2e-6 + 112 * 936.25e-9,
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

  it("shares the links of PCIe switches and sockets, by NCCL's topology", function()
    local found = tperf.import.network(file("rooted.xml", rooted()))
    local x16 = 16e9 * 16 / 8 * 128 / 130
    local expected = { { "pcie", 2, x16 }, { "roots", 4, x16 / 2 }, { "sockets", 8 } } -- two GPUs below a switch
    assert.equal(3, #found.tiers)
    for i, one in ipairs(expected) do
      local tier = found.tiers[i]
      assert.same({ one[1], one[2] }, { tier.name, tier.size })
      assert.near(one[3] or 0, tier.bandwidth or 0, 1)
    end
    assert.truthy(table.concat(found.notes, "\n"):find("sockets: bandwidth is not in it", 1, true))
  end)

  it("is read from InfraGraph by the capacity of its cuts", function()
    local found = tperf.import.network(file("clos.yaml", INFRAGRAPH))
    assert.equal("InfraGraph", found.format)
    local expected = { { "nvlink", 4, 300e9 }, { "nics", 8, 12.5e9, 1 }, { "fabric2", 32, 2 * 25e9 / 8 } }
    assert.equal(3, #found.tiers)
    for i, one in ipairs(expected) do
      local tier = found.tiers[i]
      assert.same({ one[1], one[2], one[4] }, { tier.name, tier.size, tier.nics_per_gpu })
      assert.near(one[3], tier.bandwidth, 1e-3)
    end
    assert.equal(1.5e-6, found.tiers[1].latency)
    -- An all-to-all of 32: what leaves the 8 GPUs of a leaf, through 6.25 GB/s each.
    local system = tperf.system("h100-sxm"):with { network = { tiers = found.tiers } }
    local _, passed = tperf.collective { system = system, kind = "all_to_all", bytes = 1e9, gpus = 32, tiers = true }
    assert.near(24 / 32 * 1e9 / 6.25e9 / 0.7, passed[3].time, 1e-9)
    -- One host below each leaf: the NICs end there, and what joins hosts is narrower.
    local text = INFRAGRAPH:gsub("second: 200", "second: 20"):gsub("server, count: 8", "server, count: 4")
      :gsub("host%[(%d):%d%]", function(first) return ("host[%d]"):format(first // 2) end)
    local lone = tperf.import.network(file("lone.yaml", text)).tiers
    assert.same({ "nics", 4, 12.5e9 }, { lone[2].name, lone[2].size, lone[2].bandwidth })
    assert.near(2 * 2.5e9 / 4, lone[3].bandwidth, 1e-3)
  end)

  it("is read from InfraGraph as a mesh or a ring, where GPUs have no switch", function()
    local mesh = tperf.import.network(file("mesh8.yaml", bare("many2many", 8))).tiers
    local first, second = mesh[1], mesh[2]
    assert.same({ "xgmi", 8, "all_to_all", 7 * 50e9 }, { first.name, first.size, first.topology, first.bandwidth })
    assert.same({ 32, 50e9, 0.25, 2500 * 1e-9 },
      { second.size, second.bandwidth, second.nics_per_gpu, second.latency })
    local ring = tperf.import.network(file("ring.yaml", bare("ring", 8))).tiers[1]
    assert.same({ "torus", 8, 2 * 50e9 }, { ring.topology, ring.axes[1], ring.bandwidth })
    local system = tperf.system("mi300x"):with { network = { tiers = mesh } }
    assert.is_true(system.network.fast.mesh)
    for text, cause in pairs { ["one2one, link: eth, ep1: { instance: bix"] = "\"bix\" is not defined",
      ["one2one, link: et2, ep1: { instance: box"] = "\"et2\" is not defined",
      ["line, link: eth, ep1: { instance: box"] = "unknown \"line\"",
      ['one2one, link: eth, ep1: { instance: "box[4]"'] = "is none of 4" } do
      local given = bare("ring", 8):gsub("one2one, link: eth, ep1: { instance: box", text)
      local ok, why = pcall(tperf.import.network, file("wrong.yaml", given))
      assert.is_false(ok)
      assert.truthy(tostring(why):find(cause, 1, true), tostring(why))
    end
  end)

  it("is read from nvidia-smi's matrix with its switches and sockets, underlined or pasted", function()
    local pcie = TOPO:gsub("NV18", "SYS"):gsub("(GPU0\t X \t)SYS", "%1PIX"):gsub("(GPU1\t)SYS", "%1PIX")
      :gsub("(GPU2\tSYS\tSYS\t X \t)SYS", "%1PIX"):gsub("(GPU3\tSYS\tSYS\t)SYS", "%1PIX")
    for _, start in ipairs { "\27[4m", "[4m" } do
      local tiers = tperf.import.network(file("under.txt", (pcie:gsub("^\t", "\t" .. start)))).tiers
      assert.same({ "pcie", 2, "sockets", 4 }, { tiers[1].name, tiers[1].size, tiers[2].name, tiers[2].size })
    end
  end)

  it("is printed by tperf show whatever its file is called, and so are points of nccl-tests", function()
    assert.truthy(program.shell("tperf show " .. file("topology", TOPO)).out:find "nics_per_gpu: 0.5")
    local shown = program.shell("tperf show " .. file("points.log", LOG))
    assert.truthy(shown.out:find("all_reduce     2      1  1.049 MB  140.0 us", 1, true), shown.out)
  end)

  it("sets a system's tiers in tperf calibrate, which keeps its curves", function()
    local base = tperf.system "a100-sxm-80gb"
    local made = tperf.calibrate { system = base, files = { file("switched.xml", host { SWITCHED, SWITCHED }) } }
    local own = made.system.network
    assert.same({ 2, 300e9, 25e9, 0.5 },
      { own.fast.domain, own.fast.bandwidth, own.slow.bandwidth, own.slow.nics_per_gpu })
    assert.equal(base.network.fast.efficiency.all_reduce.large, own.fast.efficiency.all_reduce.large)
    local out = folder .. "/own.yaml"
    assert.equal(0, program.shell(("tperf calibrate rtx-a6000 %s --name own --out %s"):format(
      file("clos.yaml", INFRAGRAPH), out)).code)
    local tiers = tperf.system(out).network.tiers
    assert.same({ "fabric2", 32 }, { tiers[3].name, tiers[3].size })
    assert.truthy(program.shell(("tperf calibrate rtx-a6000 %s"):format(file("topo.txt", TOPO))).err
      :find("nvlink: the bandwidth is rtx-a6000's, 32.00 GB/s", 1, true))
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
