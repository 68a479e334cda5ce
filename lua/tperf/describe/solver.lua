--- The published solver's systems/config-NAME.json (arXiv 2410.00273) as a system's description.
local lazy = require "tperf.base.lazy"
local check = require "tperf.base.check"
local config = lazy.module "tperf.input.config"

local solver = {}

-- Each number's path in the description, its unit, and its maximum.
local NUMBERS <const> = {
  matrix_flops_fp16 = { "accelerator", "tensor", "fp16", unit = " TFLOP/s" },
  vector_flops_fp16 = { "accelerator", "vector", "fp16", unit = " TFLOP/s" },
  vector_flops_fp32 = { "accelerator", "vector", "fp32", unit = " TFLOP/s" },
  hbm_bandwidth = { "accelerator", "hbm", "bandwidth", unit = " GB/s" },
  hbm_capacity = { "accelerator", "hbm", "capacity", unit = " GB" },
  nvlink_bandwidth = { "network", "fast", "bandwidth", unit = " GB/s" },
  nvlink_eff = { "network", "fast", "efficiency", most = 1 },
  nvlink_latency = { "network", "fast", "latency", zero = true },
  nvlink_size = { "network", "fast", "domain", whole = true },
  ib_bandwidth = { "network", "slow", "bandwidth", unit = " GB/s" },
  ib_eff = { "network", "slow", "efficiency", most = 1 },
  ib_latency = { "network", "slow", "latency", zero = true },
  nic_factor = { "network", "slow", "nics_per_gpu" },
}

-- Fields that a system here does not have, the only value that agrees with tperf, and an explanation for other values.
local FIXED <const> = {
  { "empirical", false, "the timings that it would read were never published" },
  { "element_size", 2e-9, "numbers have 16 bits under its rules: GB of an element" },
  { "mask_element_size", 1e-9, "a dropout mask has a byte for each element: GB" },
  { "flops_units", 1e-12, "peaks are in TFLOP/s" },
  { "summa_nb", 4, "panels are not of a system here: write 4, and give panels to what is asked of the system" },
}

--- Whether a parsed file looks like one of the solver's.
---@param fields any
---@return boolean
function solver.recognise(fields)
  local function has(name) return rawget(fields, name) ~= nil end
  return type(fields) == "table" and not has "accelerator" and not has "network"
    and (has "matrix_flops_fp16" or has "nvlink_bandwidth" or has "element_size")
end

local function check_names(c)
  local known = {}
  for name in pairs(NUMBERS) do known[name] = true end
  for _, fixed in ipairs(FIXED) do known[fixed[1]] = true end
  local unknown -- the first by its name
  for name in next, c.fields do
    local shown = type(name) == "string" and name or check.show(name)
    if not known[name] and (not unknown or shown < unknown) then unknown = shown end
  end
  if unknown then
    c:fail(unknown, "is not a field of the solver's systems%s", check.suggest(unknown, check.names(known)))
  end
end

local function shortest(value)
  local text = ("%.15g"):format(value)
  return tonumber(text) == value and text or ("%.17g"):format(value)
end

local function number(c, name, field)
  local value, most = c:value(name), field.most or math.huge
  local sound = type(value) == "number" and value <= most and value < math.huge
    and (value > 0 or field.zero and value == 0) and (not field.whole or math.tointeger(value))
  if not sound then
    c:fail(name, "must be %s %s%s, got %s", field.whole and "an integer" or "a number",
      field.zero and "of at least 0" or "above 0", field.most and " and at most " .. most or "", check.show(value))
  end
  if field.unit then return shortest(value) .. field.unit end -- 133.8 TFLOP/s is not 133.8 * 1e12 in doubles
  return field.whole and math.tointeger(value) or value
end

local function check_fixed(c)
  for _, fixed in ipairs(FIXED) do
    local value = c:value(fixed[1])
    if value ~= fixed[2] then c:fail(fixed[1], "must be %s, got %s (%s)", fixed[2], check.show(value), fixed[3]) end
  end
end

--- The description, for tperf.system to check and complete. The solver has these values in its program, not in its
--- files: kernels reach 0.8 of a peak, launches take 20 us, and the full HBM bandwidth is reached.
---@param fields table
---@param path string?     for messages and the name; nil for a table
---@param positions table? as tperf.core.yaml returns them, for messages
---@return table description
function solver.describe(fields, path, positions)
  local c = config.new(fields, path or "tperf.system", positions)
  path = path or "system"
  check_names(c)
  check_fixed(c)
  local s = {
    name = path:gsub("^.*/", ""):gsub("%.%w+$", ""):gsub("^config%-", ""),
    source = path .. ", a system of the published solver (arXiv 2410.00273)",
    accelerator = { compute_efficiency = 0.8, launch = 20e-6, tensor = {}, vector = {}, hbm = { efficiency = 1 } },
    network = { fast = { name = "NVLink" }, slow = { name = "InfiniBand" } },
  }
  for _, name in ipairs(check.names(NUMBERS)) do
    local field = NUMBERS[name]
    s[field[1]][field[2]][field[3]] = number(c, name, field)
  end
  return s
end

return solver
