-- The machines of systems/: their figures against those derived from the chips' units and clocks, and the stated extent
-- of their measurements.
local gpus = require "tperf.measured.gpus"
local program = require "program"
local catalogue = require "tperf.base.catalogue"
local tperf = require "tperf"

-- Dense 16-bit peaks: units x FLOP of one unit in a clock x clock (AMD: CDNA 3 and CDNA 4 white papers, 2048 and 4096
-- FLOP; NVIDIA: GA102 and Ada white papers, 1024 FLOP; boost clocks of the datasheets).
local PEAKS = {
  mi325x = 304 * 2048 * 2.1e9, mi350x = 256 * 4096 * 2.2e9, mi355x = 256 * 4096 * 2.4e9,
  a10 = 72 * 1024 * 1.695e9, l4 = 58 * 1024 * 2.04e9,
}

-- GB/s of all of a GPU's links, both directions together.
local LINKS = {
  ["h800-sxm"] = 400, ["a800-sxm-80gb"] = 400, h20 = 900, ["h100-nvl"] = 600, mi325x = 7 * 128, mi350x = 7 * 153.6,
  mi355x = 7 * 153.6, a10 = 64, l4 = 64,
}

local MEMORY = { -- GB and TB/s
  ["h800-sxm"] = { 80, 3.35 }, ["a800-sxm-80gb"] = { 80, 2.039 }, h20 = { 96, 4 }, ["h100-nvl"] = { 94, 3.9 },
  mi325x = { 256, 6 }, mi350x = { 288, 8 }, mi355x = { 288, 8 }, a10 = { 24, 0.6 }, l4 = { 24, 0.3 },
}

describe("systems", function()
  it("have the peaks that follow from units and clocks", function()
    for name, peak in pairs(PEAKS) do
      assert.near(1, tperf.system(name).accelerator.tensor.bf16 / peak, 0.003, name)
    end
    for export, original in pairs { ["h800-sxm"] = "h100-sxm", ["a800-sxm-80gb"] = "a100-sxm-80gb" } do
      assert.equal(tperf.system(original).accelerator.tensor.bf16, tperf.system(export).accelerator.tensor.bf16)
    end
  end)

  it("have the links and the memory of their datasheets", function()
    for name, both_ways in pairs(LINKS) do
      assert.near(both_ways * 1e9, 2 * tperf.system(name).network.fast.bandwidth, 1e6, name)
    end
    for name, memory in pairs(MEMORY) do
      local hbm = tperf.system(name).accelerator.hbm
      assert.equal(memory[1] * 1e9, hbm.capacity, name)
      assert.near(memory[2] * 1e12, hbm.bandwidth, 1, name)
    end
  end)

  it("state the basis of their efficiencies", function()
    local function rests_on(name) return table.pack(tperf.system(name):calibration()) end
    assert.same({ "measured", n = 1 }, rests_on "h100-sxm")
    assert.same({ "borrowed", "h100-sxm", n = 2 }, rests_on "h800-sxm")
    assert.same({ "datasheet", n = 1 }, rests_on "mi355x")
    for _, name in ipairs(catalogue.list "systems") do
      local kind, base = tperf.system(name):calibration()
      if kind == "borrowed" then assert.equal("measured", (tperf.system(base):calibration()), name) end
    end
  end)

  it("state it in `tperf list`, and below tables", function()
    local listed = program.ask("tperf list systems --wide").out
    assert.matches("\nh800%-sxm +NVIDIA H800 SXM 80 GB +80%.00 GB +989%.4 TFLOP/s +8 +of h100%-sxm\n", listed)
    assert.matches("\nmi355x [^\n]* datasheet\n", listed)
    assert.matches("\nh100%-sxm [^\n]* measured\n", listed)
    local function told(system, more)
      return program.ask("tperf collective all_reduce -g 8 -n 1MiB -s " .. system .. (more or "")).err
    end
    assert.equal("", told "h100-sxm")
    assert.matches("^tperf: mi355x: a datasheet: ", told "mi355x")
    assert.matches("^tperf: h800%-sxm: no kernel of this GPU was timed; its curves are those of h100%-sxm\n",
      told "h800-sxm")
    assert.equal("", told("mi355x", " --csv"))
    assert.equal("", told "subramanian2024/A100")
  end)
end)

describe("the GPU of a table of measurements", function()
  it("is its own system, not a relative's", function()
    for name, system in pairs {
      ["NVIDIA H20-96GB"] = "h20", ["H800"] = "h800-sxm", ["A800-80GB"] = "a800-sxm-80gb", ["H100 NVL"] = "h100-nvl",
      ["AMD Instinct MI325X 256GB HBM3E DLC"] = "mi325x", ["AMD Instinct MI350X"] = "mi350x", MI355X = "mi355x",
      A10 = "a10", ["NVIDIA L4"] = "l4", L40S = "l40s", ["H200-141GB"] = "h200-sxm", A100 = "a100-sxm-80gb",
      ["GB200"] = "gb200-nvl72",
    } do
      assert.equal(system, gpus.system(name), name)
    end
  end)

  it("may be of another form than the usual one", function()
    for name, system in pairs { ["GH200"] = "gh200", ["NVIDIA H200-NVL-141GB"] = "h200-nvl",
      ["A100-PCIe"] = "a100-pcie-80gb", ["A100-PCIE-40GB"] = "a100-pcie-40gb", ["A100 40GB"] = "a100-sxm-40gb",
      ["NVIDIA H200"] = "h200-sxm", ["RTX 6000 Ada"] = "rtx-6000-ada" } do
      assert.equal(system, gpus.system(name), name)
    end
  end)

  it("is refused if it is unknown", function()
    for _, name in ipairs { "H20-3e", "GH200 144GB", "H800 PCIe", "A10G", "L40", "MI300A" } do
      local system, reason = gpus.system(name)
      assert.is_nil(system, name)
      assert.equal("no system describes the GPU " .. name, reason)
    end
  end)
end)
