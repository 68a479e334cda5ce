--- tperf.system: the machine. `schema` below is the whole format of systems/*.yaml; numbers come out in SI units.
local check = require "tperf.check"
local resource = require "tperf.resource"

-- Where the numbers of a mapping, and of the mappings in it that say nothing nearer, come from.
local source = check.string { optional = true }

local part_reached = { min = 1e-6, max = 1 }
local function efficiency(default) -- the part of a peak that is reached
  return check.number { min = part_reached.min, max = part_reached.max, default = default }
end

local function quantity(unit, options)
  local o = { unit = unit, min = 1, max = 1e24 }
  for key, value in pairs(options or {}) do o[key] = value end
  return check.number(o)
end

local function peaks(...)
  local fields = { source = source }
  for _, dtype in ipairs { ... } do fields[dtype] = quantity("FLOP/s", { optional = true }) end
  return fields
end

local latency = { min = 0, max = 1e3 }

local schema = {
  name = check.string(),
  vendor = check.string { optional = true },
  generation = check.string { optional = true },
  source = source,
  accelerator = check.record_of {
    source = source,
    name = check.string { optional = true },
    -- Dense peaks of the matrix units (no sparsity) and of the vector units. fp16 and bf16 stand for each other.
    tensor = check.record_of(peaks("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")),
    vector = check.record_of(peaks("fp64", "fp32", "fp16", "bf16")),
    compute_efficiency = efficiency(0.8),
    launch = quantity("s", { min = 0, max = 1e3, default = "20 us" }), -- fixed latency of an op and pass
    hbm = check.record_of {
      source = source,
      bandwidth = quantity "bytes/s",
      capacity = quantity "bytes",
      efficiency = efficiency(1),
    },
    power = quantity("W", { optional = true }), -- the board's limit (TDP)
  },
  network = check.record_of {
    source = source,
    fast = check.record_of { -- within a domain: NVLink, Infinity Fabric
      source = source,
      name = check.string { optional = true },
      bandwidth = quantity "bytes/s", -- per GPU and direction
      efficiency = efficiency(),
      latency = quantity("s", latency), -- per hop
      domain = check.integer { min = 1, max = 1 << 31 }, -- GPUs
    },
    slow = check.record_of { -- between domains: InfiniBand, Ethernet
      source = source,
      name = check.string { optional = true },
      bandwidth = quantity "bytes/s", -- per NIC and direction
      efficiency = efficiency(),
      latency = quantity("s", latency),
      nics_per_gpu = check.number { min = 1e-6, max = 1e3, default = 1 }, -- 0.5: two GPUs share one
    },
  },
  price = check.record_of({
    source = source,
    gpu_hour = check.number { min = 0, max = 1e6 }, -- US dollars
  }, { optional = true }),
}

local twin = { fp16 = "bf16", bf16 = "fp16" }
local peaks_metatable = {
  __index = function(peak, dtype) return twin[dtype] and rawget(peak, twin[dtype]) end,
}

local function finish(system)
  for _, unit in ipairs { "tensor", "vector" } do
    local peak = setmetatable(system.accelerator[unit], peaks_metatable)
    if not peak.fp16 then
      local path = "accelerator." .. unit
      return string.format("'%s' needs a peak for fp16 or bf16", path), path
    end
  end
end

return resource.constructor { what = "tperf.system", kind = "systems", schema = schema, finish = finish }
