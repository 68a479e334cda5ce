-- The machines of systems/: their figures against those derived from the chips' units and clocks, and the stated extent
-- of their measurements.
local gpus = require "tperf.measured.gpus"
local program = require "program"
local catalogue = require "tperf.base.catalogue"
local tperf = require "tperf"

-- Dense 16-bit peaks: units x FLOP of one unit in a clock x clock (AMD: CDNA 3 and CDNA 4 white papers, 2048 and 4096
-- FLOP; CDNA 2: 1024; NVIDIA: GA102 and Ada white papers, 1024 FLOP, of which GeForce cards and the L40 keep half when
-- they sum in 32 bits, as Blackwell's GeForce cards do; GA100: 2048; Turing: 1024; boost clocks of the datasheets).
local PEAKS = {
  mi325x = 304 * 2048 * 2.1e9, mi350x = 256 * 4096 * 2.2e9, mi355x = 256 * 4096 * 2.4e9,
  a10 = 72 * 1024 * 1.695e9, l4 = 58 * 1024 * 2.04e9, a40 = 84 * 1024 * 1.74e9, ["rtx-a6000"] = 84 * 1024 * 1.8e9,
  ["rtx-3090"] = 82 * 512 * 1.695e9, l40 = 142 * 512 * 2.49e9, ["rtx-5090"] = 170 * 512 * 2.407e9,
  ["rtx-5080"] = 84 * 512 * 2.617e9, a30 = 56 * 2048 * 1.44e9, t4 = 40 * 1024 * 1.59e9, mi210 = 104 * 1024 * 1.7e9,
  mi250x = 110 * 1024 * 1.7e9,
}

-- GB/s of all of a GPU's links, both directions together.
local LINKS = {
  ["h800-sxm"] = 400, ["a800-sxm-80gb"] = 400, h20 = 900, ["h100-nvl"] = 600, mi325x = 7 * 128, mi350x = 7 * 153.6,
  mi355x = 7 * 153.6, a10 = 64, l4 = 64, a40 = 64, ["rtx-a6000"] = 64, ["rtx-3090"] = 64, l40 = 64, l20 = 64, t4 = 32,
  ["rtx-5090"] = 128, ["rtx-5080"] = 128, a30 = 200, ["h20-141gb"] = 900, mi210 = 3 * 100, mi250x = 200,
}

local MEMORY = { -- GB and TB/s
  ["h800-sxm"] = { 80, 3.35 }, ["a800-sxm-80gb"] = { 80, 2.039 }, h20 = { 96, 4 }, ["h100-nvl"] = { 94, 3.9 },
  mi325x = { 256, 6 }, mi350x = { 288, 8 }, mi355x = { 288, 8 }, a10 = { 24, 0.6 }, l4 = { 24, 0.3 },
  a40 = { 48, 0.696 }, ["rtx-a6000"] = { 48, 0.768 }, ["rtx-3090"] = { 24, 0.936 }, l40 = { 48, 0.864 },
  l20 = { 48, 0.864 }, t4 = { 16, 0.32 }, ["rtx-5090"] = { 32, 1.792 }, ["rtx-5080"] = { 16, 0.96 },
  a30 = { 24, 0.933 }, ["h20-141gb"] = { 141, 4.8 }, mi210 = { 64, 1.6384 }, mi250x = { 64, 1.6384 },
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

  it("run a model in bf16 as in fp16 where that is all they have, and name what has fp8", function()
    local function serve(system, how)
      return program.shell("tperf infer llama-3.2-1b -b 1 -p 512 -n 64 --json -s " .. system .. (how or ""))
    end
    for _, system in ipairs { "t4", "v100-sxm" } do
      assert.is_nil(rawget(tperf.system(system).accelerator.tensor, "bf16"), system)
      local as_given = serve(system)
      assert.equal(0, as_given.code, as_given.err)
      assert.equal(as_given.out, serve(system, " --compute-dtype fp16").out:gsub('"fp16"', '"bf16"'))
    end
    for _, system in ipairs { "t4", "a30", "rtx-3090", "mi250x" } do
      local refused = serve(system, " --precision fp8-block")
      assert.equal(1, refused.code, system)
      assert.truthy(refused.err:find("matrix units for fp8, which system '" .. system, 1, true), refused.err)
      assert.truthy(refused.err:find("rtx%-5090"), refused.err)
    end
  end)

  it("state the basis of their efficiencies", function()
    local function rests_on(name) return table.pack(tperf.system(name):calibration()) end
    assert.same({ "measured", n = 1 }, rests_on "h100-sxm")
    assert.same({ "borrowed", "h100-sxm", n = 2 }, rests_on "h800-sxm")
    assert.same({ "datasheet", n = 1 }, rests_on "mi355x")
    assert.same({ "datasheet", n = 1 }, rests_on "mi325x") -- published rates, in the form of curves
    for _, name in ipairs(catalogue.list "systems") do
      local kind, base = tperf.system(name):calibration()
      if kind == "borrowed" then assert.equal("measured", (tperf.system(base):calibration()), name) end
    end
  end)

  it("state it in `tperf list`, and below tables", function()
    local listed = program.ask("tperf list systems --wide").out
    assert.matches("\nh800%-sxm +NVIDIA +NVIDIA H800 SXM 80 GB +80%.00 GB +989%.4 TFLOP/s +8 +84%.93 GB +700%.0 W "
      .. "+of h100%-sxm\n", listed)
    assert.matches("\nmi355x [^\n]* 309%.2 GB +1%.400 kW +2%.1 +datasheet\n", listed)
    assert.matches("\nh100%-sxm [^\n]* measured\n", listed)
    local function told(system, more)
      return program.ask("tperf collective all_reduce -g 8 -n 1MiB -s " .. system .. (more or "")).err
    end
    assert.equal("", told "h100-sxm")
    assert.matches("^tperf: mi355x: a datasheet: ", told "mi355x")
    assert.matches("^tperf: h800%-sxm: no kernel of this GPU was timed; its curves are those of h100%-sxm\n",
      told "h800-sxm")
    assert.matches("^tperf: rtx%-3090: no kernel of this GPU was timed; its curves are those of l40s\n",
      told("rtx-3090", " --set system.network.fast.bandwidth=56.25GB/s,system.network.fast.domain=2"))
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
      ["NVIDIA H200"] = "h200-sxm", ["RTX 6000 Ada"] = "rtx-6000-ada", ["NVIDIA H20-3e"] = "h20-141gb",
      ["H20-141GB"] = "h20-141gb", ["A40 48GB"] = "a40", ["NVIDIA A30"] = "a30", ["Tesla T4"] = "t4", L40 = "l40",
      ["NVIDIA L20"] = "l20", ["RTX A6000 48GB"] = "rtx-a6000", ["GeForce RTX 3090"] = "rtx-3090",
      RTX5090 = "rtx-5090", ["RTX 5080"] = "rtx-5080", ["MI250X (1 GCD)"] = "mi250x", ["Instinct MI210"] = "mi210" } do
      assert.equal(system, gpus.system(name), name)
    end
  end)

  it("is refused if it is unknown", function()
    for _, name in ipairs { "GH200 144GB", "H800 PCIe", "A10G", "MI300A", "MI250", "RTX A4000", "RTX 3090 Ti",
      "RTX 4090 D", "RTX 5090 Laptop GPU", "RTX PRO 6000 Blackwell Max-Q", "A6000 Ada", "T40", "A2" } do
      local system, reason = gpus.system(name)
      assert.is_nil(system, name)
      assert.equal("no system describes the GPU " .. name, reason)
    end
  end)
end)
