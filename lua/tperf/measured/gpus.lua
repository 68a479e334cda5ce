--- System files for the GPU names in tables of measurements.
local memo = require "tperf.base.memo"

local gpus = {}

-- Lower-case patterns; the first match decides.
local patterns = {
  { "gb300", "gb300-nvl72" }, { "gb200", "gb200-nvl72" }, { "b300", "b300-sxm" }, { "b200", "b200-sxm" },
  { "gh200", "gh200" }, { "h200.*nvl", "h200-nvl" }, { "h200", "h200-sxm" },
  { "h100.*pcie", "h100-pcie" }, { "h100.*nvl", "h100-nvl" }, { "h100", "h100-sxm" },
  { "h800", "h800-sxm" }, { "h20%f[^%w].*141", "h20-141gb" }, { "h20%-3e", "h20-141gb" }, { "h20%f[^%w]", "h20" },
  { "a100.*pcie.*40 ?gb", "a100-pcie-40gb" }, { "a100.*40 ?gb.*pcie", "a100-pcie-40gb" },
  { "a100.*pcie", "a100-pcie-80gb" }, { "a100.*40gb", "a100-sxm-40gb" },
  { "a100", "a100-sxm-80gb" }, { "a800", "a800-sxm-80gb" },
  { "a10%f[^%w]", "a10" }, { "%f[%w]a30%f[^%w]", "a30" }, { "%f[%w]a40%f[^%w]", "a40" },
  { "%f[%w]a6000%f[^%w]", "rtx-a6000" }, { "%f[%w]t4%f[^%w]", "t4" },
  { "l40s", "l40s" }, { "%f[%w]l40%f[^%w]", "l40" }, { "%f[%w]l20%f[^%w]", "l20" }, { "%f[%w]l4%f[^%w]", "l4" },
  { "rtx[_ ]pro[_ ]6000", "rtx-pro-6000" }, { "v100", "v100-sxm" }, { "b60", "arc-pro-b60" },
  { "mi210", "mi210" }, { "mi250x", "mi250x" }, { "mi300x", "mi300x" }, { "mi325x", "mi325x" }, { "mi350x", "mi350x" },
  { "mi355x", "mi355x" },
  { "%f[%d]3090%f[%D]", "rtx-3090" }, { "%f[%d]4090%f[%D]", "rtx-4090" }, { "%f[%d]5080%f[%D]", "rtx-5080" },
  { "%f[%d]5090%f[%D]", "rtx-5090" }, { "rtx[_ -]?6000[_ -]?ada", "rtx-6000-ada" },
  { "3080[_ -]?ti%f[%A]", "rtx-3080-ti" }, { "%f[%d]3080%f[%D]", "rtx-3080" }, { "%f[%d]3070%f[%D]", "rtx-3070" },
  { "%f[%d]3060%f[%D]", "rtx-3060" }, { "%f[%d]4080%f[%D]", "rtx-4080" },
  { "4070[_ -]?ti[_ -]?super", "rtx-4070-ti-super" }, { "4070[_ -]?ti%f[%A]", "rtx-4070-ti" },
  { "4060[_ -]?ti%f[%A]", "rtx-4060-ti" },
  { "rtx[_ -]?4000[_ -]?ada", "rtx-4000-ada" }, { "rtx[_ -]?5000[_ -]?ada", "rtx-5000-ada" },
  { "7900[_ -]?xtx", "rx-7900-xtx" }, { "7900[_ -]?xt%f[%A]", "rx-7900-xt" }, { "9070[_ -]?xt%f[%A]", "rx-9070-xt" },
  { "%f[%w]r9700%f[%D]", "radeon-r9700" },
  { "rtx[_ -]?5070[_ -]?ti", "rtx-5070-ti" }, { "rtx[_ -]?5070", "rtx-5070" },
  { "rtx[_ -]?5060[_ -]?ti", "rtx-5060-ti" },
  { "tpu[_ -]?v7", "tpu-v7" }, { "ironwood", "tpu-v7" }, { "v6e", "tpu-v6e" }, { "trillium", "tpu-v6e" },
  { "v5p", "tpu-v5p" }, { "v5e", "tpu-v5e" }, { "v5 ?lite", "tpu-v5e" }, { "tpu[_ -]?v4%f[^%w]", "tpu-v4" },
  { "trainium[_ -]?1", "trainium1" }, { "trn1", "trainium1" }, { "inferentia[_ -]?2", "inferentia2" },
  { "trainium[_ -]?2", "trainium2" },
  { "trn2", "trainium2" }, { "trainium[_ -]?3", "trainium3" }, { "trn3", "trainium3" },
  { "gaudi[_ -]?2", "gaudi2" }, { "gaudi[_ -]?3", "gaudi3" },
  { "910c", "ascend-910c" }, { "ascend[_ -]?a3", "ascend-910c" }, { "910b", "ascend-910b" },
  { "gb10", "gb10" }, { "dgx spark", "gb10" }, { "strix[_ -]?halo", "strix-halo" }, { "ai max%+? 395", "strix-halo" },
  { "m1 max", "m1-max" }, { "m1 ultra", "m1-ultra" }, { "m2 ultra", "m2-ultra" }, { "m3 max", "m3-max" },
  { "m3 ultra", "m3-ultra" }, { "m4 max", "m4-max" }, { "%f[%w]m5%f[^%w]", "m5" },
}

-- Chips that the patterns would mistake for a faster relative.
local others = { "gh200.*144", "h800.*pcie", "a800.*40gb", "a800.*pcie", "laptop", "max%-q", "3090[_ -]?ti",
  "[45]090[_ -]?d%f[^%w]", "a6000.*ada", "3070[_ -]?ti", "3060[_ -]?ti", "4080[_ -]?super", "7900[_ -]?gre" }

-- Meta's H100s with HBM2e run at 500 W (torchtitan, benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md).
local META <const> = 500

-- The power limit that a name states; nil: none.
local function watts_of(name)
  return tonumber(name:match "(%d+) ?W%f[%A]") or name:find "HBM2e %(lower TDP%)" and META
end

local function find(name)
  local text = name:lower()
  if text == "" then return nil, "the GPU is not named" end
  if text:find "power limited" and not watts_of(name) then return nil, "the GPU's power limit is not given" end
  for _, other in ipairs(others) do
    if text:find(other) then return nil, "no system describes the GPU " .. name end
  end
  for _, pattern in ipairs(patterns) do
    if text:find(pattern[1]) then return pattern[2] end
  end
  return nil, "no system describes the GPU " .. name
end

local MOST_FOUND <const> = 4096
local found = memo.by_text(MOST_FOUND)

--- The name of the GPU's system, or nil and a reason.
---@param name string
---@return string? system
---@return string? reason
function gpus.system(name)
  local one = found(name, function() return { find(name) } end)
  return one[1], one[2]
end

local HBM2E_STACK_GB <const>, HBM2E_STACK <const> = 16, 0.4e12 -- bytes/s; H100 PCIe: 80 GB, 2 TB/s

--- Overrides implied by a GPU's name: a power limit ("500W") slows the clock by its cube root, since power grows with
--- frequency times voltage squared, and voltage with frequency; "96GB HBM2e" gives the number of stacks. nil: none.
---@param name string
---@param system table
---@return table? change  for system:with
function gpus.variant(name, system)
  local a = system.accelerator
  local watts, stacks = watts_of(name), tonumber(name:match "(%d+) ?GB HBM2e")
  local slower = watts and a.power and watts < a.power
  if not slower and not stacks then return nil end
  local change = { tensor = {}, vector = {} }
  local clock = slower and (watts / a.power) ^ (1 / 3) or 1
  for _, unit in ipairs { "tensor", "vector" } do
    for dtype, peak in pairs(a[unit]) do
      if type(peak) == "number" then change[unit][dtype] = clock * peak end
    end
  end
  change.power = slower and watts or nil
  change.hbm = stacks and { capacity = stacks * 1e9, bandwidth = stacks / HBM2E_STACK_GB * HBM2E_STACK } or nil
  return { accelerator = change }
end

return gpus
