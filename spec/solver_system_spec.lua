-- The published solver's files (systems/config-NAME.json) as systems. Expected values are those of the sheet of its
-- four machines, which systems/subramanian2024/*.yaml have, too.
local json = require "tperf.output.json"
local program = require "program"
local tperf = require "tperf"

-- In the order used below.
local SHEET <const> = {
  A100 = { 312, 78, 19.5, 1555, 80, 300, 0.7, 2.5e-06, 25, 0.7, 5e-06, 4 },
  H200 = { 989.4, 133.8, 66.9, 4800, 141, 450, 0.7, 2.5e-06, 50, 0.7, 5e-06, 64 },
  B200 = { 2500, 339, 169, 8000, 192, 900, 0.7, 2.5e-06, 100, 0.7, 5e-06, 4 },
  ["B200-next"] = { 3750, 508.5, 253.5, 16000, 384, 3600, 0.8, 5e-06, 200, 0.8, 1e-05, 64 },
}
local ORDER <const> = {
  "matrix_flops_fp16", "vector_flops_fp16", "vector_flops_fp32", "hbm_bandwidth", "hbm_capacity", "nvlink_bandwidth",
  "nvlink_eff", "nvlink_latency", "ib_bandwidth", "ib_eff", "ib_latency", "nvlink_size",
}

local function fields_of(name, changes)
  local fields = {
    nic_factor = 1, empirical = false, summa_nb = 4, element_size = 2e-9, mask_element_size = 1e-9, flops_units = 1e-12,
  }
  for i, field in ipairs(ORDER) do fields[field] = SHEET[name][i] end
  for field, value in pairs(changes or {}) do
    if value == "none" then fields[field] = nil else fields[field] = value end
  end
  return fields
end

describe("a systems file of the published solver", function()
  it("matches the shipped machine of its name", function()
    local folder = program.folder()
    for name in pairs(SHEET) do
      local path = folder .. "/config-" .. name .. ".json"
      program.write(path, json.encode(fields_of(name)))
      local theirs, ours = tperf.system(path), tperf.system("subramanian2024/" .. name)
      assert.equal(name, theirs.name)
      assert.matches("published solver", theirs.source)
      for _, part in ipairs { "accelerator", "network" } do assert.same(ours[part], theirs[part]) end
      assert.same(ours.network, tperf.system(fields_of(name)).network)
    end
    local function search(system)
      return program.shell("tperf search subramanian2024/gpt3 -g 64 -b 64 --rules subramanian2024 --csv -s " .. system)
    end
    local theirs = search(folder .. "/config-B200.json")
    local named = theirs.out:gsub(folder:gsub("%p", "%%%0") .. "/config%-B200%.json", "subramanian2024/B200")
    assert.same({ 0, search("subramanian2024/B200").out }, { theirs.code, named })
    program.remove(folder)
  end)

  it("may share NICs", function()
    assert.equal(0.5, tperf.system(fields_of("B200", { nic_factor = 0.5 })).network.slow.nics_per_gpu)
  end)

  it("is refused by field and position if no system can have its values", function()
    local folder = program.folder()
    local path = folder .. "/config-mine.json"
    local function refusal(changes, message)
      program.write(path, json.encode(fields_of("B200", changes)))
      local ok, got = pcall(tperf.system, path)
      assert.is_false(ok)
      assert.truthy(got:find(message, 1, true), got)
      assert.matches("^spec/solver_system_spec.lua:%d+: " .. path:gsub("%p", "%%%0"), got)
      return got
    end
    for _, field in ipairs(ORDER) do
      refusal({ [field] = "none" }, ('missing "%s"'):format(field))
      for _, value in ipairs { -1, "x", true } do refusal({ [field] = value }, ('"%s" must be a'):format(field)) end
    end
    local got = refusal({ hbm_bandwidth = 0 }, '"hbm_bandwidth" must be a number above 0, got 0')
    assert.matches("config%-mine.json:%d+:%d+: ", got)
    refusal({ nvlink_eff = 70 }, '"nvlink_eff" must be a number above 0 and at most 1, got 70')
    refusal({ nvlink_size = 4.5 }, '"nvlink_size" must be an integer above 0, got 4.5')
    refusal({ empirical = true }, '"empirical" must be false, got true')
    refusal({ element_size = 4e-9 }, '"element_size" must be 2e-09, got 4e-09 (numbers have 16 bits')
    refusal({ mask_element_size = 2 }, '"mask_element_size" must be 1e-09, got 2')
    refusal({ flops_units = 1 }, '"flops_units" must be 1e-12, got 1')
    refusal({ summa_nb = 8 }, '"summa_nb" must be 4, got 8 (panels are not of a system here')
    refusal({ nvlink_sise = 4, nvlink_size = "none" },
      "\"nvlink_sise\" is not a field of the solver's systems (did you mean 'nvlink_size'?)")
    program.write(path, json.encode(fields_of("B200", { hbm_capacity = 1e300 })))
    assert.error_matches(function() tperf.system(path) end, "config%-mine.json:1:1: 'accelerator.hbm.capacity'")
    program.remove(folder)
    assert.error_matches(function() tperf.system { element_size = 2e-9, zeta = 1, [{}] = 1, alpha = 1 } end,
      'tperf.system: "a table" is not a field of the solver')
    assert.error_matches(function() tperf.system(fields_of("B200", { zeta = 1, alpha = 1 })) end,
      'tperf.system: "alpha" is not a field of the solver')
  end)
end)
