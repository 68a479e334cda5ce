--- tperf.system: the machine. `schema` below is the whole format of systems/*.yaml; numbers are converted to SI units.
local io = io
local lazy = require "tperf.base.lazy"
local borrowed = require "tperf.describe.machine.borrowed"
local check = require "tperf.base.check"
local core = require "tperf.core"
local catalogue = require "tperf.base.catalogue"
local curves = require "tperf.describe.machine.curves"
local frozen = require "tperf.base.object.frozen"
local solver = lazy.module "tperf.describe.solver"
local tiers = lazy.module "tperf.describe.machine.tiers"
local units = require "tperf.base.units"

-- The source of a mapping's numbers, and of those in nested mappings without a `source`.
local source = check.string { optional = true }

local part_reached = { min = 1e-6, max = 1 }
local function efficiency(default) -- the part of a peak that is reached
  return check.number { min = part_reached.min, max = part_reached.max, default = default }
end

-- The least of a GPU's rates and sizes: whoever writes a bandwidth of 900 has forgotten the unit.
local LEAST <const> = { ["bytes/s"] = 1e6, ["FLOP/s"] = 1e9, bytes = 1e6, W = 1 }
local EXAMPLES <const> = { ["bytes/s"] = '"900 GB/s"', ["FLOP/s"] = '"990 TFLOP/s"', bytes = '"80 GB"', s = '"2.5 us"' }

local function quantity(unit, options)
  local o = { unit = unit, min = LEAST[unit], max = 1e24, example = EXAMPLES[unit] }
  for key, value in pairs(options or {}) do o[key] = value end
  return check.number(o)
end

local wait = quantity("s", { min = 0, max = 1e3 })

local kernel_curves, link_curves = curves.at "accelerator.compute_efficiency", curves.at "network.fast.efficiency"

-- The curve of products in kernels for blocks of experts alone, as parts of each dtype's peak; and `routing`, the
-- seconds that these take to choose experts, and `pair`, for each pair of a token and an expert.
local function own_experts()
  local fields = curves.numbers "gemm"
  fields.routing, fields.pair = wait, wait
  return curves.of(fields)
end

-- Constants, or curves by kind of kernel or collective: src/machine/curves.c has a row for each.
local function beside_curves(known, constant)
  local fields = { source = source, [constant] = efficiency() }
  for name, one in pairs(known) do fields[name] = one end
  return check.record_of(fields)
end

local compute_curves = beside_curves(kernel_curves, "other")
local fast_curves = beside_curves(link_curves, "send")
local slow = curves.between "slow"
slow.source = source
local slow_curve = check.record_of(slow)

local function constant_or(one, default)
  local constant = efficiency(default)
  return function(value, path)
    return (type(value) == "table" and one or constant)(value, path)
  end
end

-- Of a tier: a constant, or the curves of a port.
local function tier_efficiency(value, path)
  if value == nil then return nil end
  if type(value) ~= "table" then return efficiency()(value, path) end
  return (value.efficiency and slow_curve or fast_curves)(value, path)
end

local function peaks(...)
  local fields = { source = source }
  for _, dtype in ipairs { ... } do fields[dtype] = quantity("FLOP/s", { optional = true }) end
  return fields
end

-- Default launch, efficiency and latency of a hop if nothing was measured: as in Subramanian et al. 2024
-- (arXiv:2410.00273).
local function latency_of(default) return { min = 0, max = 1, default = default } end

-- Of links that failed, or of a part of them: what is left.
local degraded = check.number { min = 1e-6, max = 1, optional = true }

local axes = check.list(check.integer { min = 2, max = 1000000 }, { min = 1, max = 3, optional = true })

local schema = {
  name = check.string { name = true }, -- name in messages and reports
  vendor = check.string { optional = true }, -- vendor of the accelerator, for display
  generation = check.string { optional = true }, -- generation of the accelerator, for display
  -- The system whose GPU the curves were fitted to, if it is another: the same chip or generation. It gives the curves,
  -- efficiencies and latencies of kernels and networks that the file leaves out.
  curves_of = check.string { optional = true },
  source = source,
  accelerator = check.record_of { -- one GPU
    source = source,
    name = check.string { name = true, optional = true }, -- of the GPU
    -- Dense peaks of the matrix units (no sparsity). fp16 and bf16 substitute for each other.
    tensor = check.record_of(peaks("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")),
    -- Dense peaks of the vector units; default: for 16 bits an eighth of the matrix units', for fp32 half of that.
    vector = check.record_of(peaks("fp64", "fp32", "fp16", "bf16"), { optional = true }),
    sparse = check.boolean { default = false }, -- its matrix units skip the zeros of 2:4 sparse weights
    units = check.integer { min = 1, max = 1000000, optional = true }, -- streaming multiprocessors; curves need them
    compute_efficiency = constant_or(compute_curves, 0.8), -- the part of a peak that kernels reach, or curves
    launch = quantity("s", latency_of "20 us"), -- fixed latency of an op and pass
    hbm = check.record_of { -- its memory
      source = source,
      bandwidth = quantity "bytes/s", -- the vendor's
      capacity = quantity "bytes", -- the vendor's
      -- What a program sees of it, which training and engines may use; of a copy with another capacity, that.
      visible = quantity("bytes", { optional = true }),
      efficiency = efficiency(1), -- the part of the bandwidth that kernels reach
      -- Fitted once, to the runs with experts of all stacks (docs/model.md). Engines have kernels of their own.
      scattered = check.number { min = 1e-6, max = 1, default = 0.7 }, -- part of that over rows in their experts' order
      stream = check.record_of({ -- kernels that only read and write
        source = source,
        efficiency = efficiency(), -- the part of the bandwidth
        setup = wait, -- seconds of fixed latency, including the launch
        error = check.number { min = 0, max = 10, optional = true }, -- the fit's median error
        points = check.integer { min = 1, max = 1 << 31, optional = true }, -- measurements of the fit
      }, { optional = true }),
    },
    fused_experts = own_experts(), -- kernels that serving engines may run blocks of experts in: FlashInfer's
    portable_experts = own_experts(), -- and those in Triton
    portable_attention = check.record_of({ -- attention in Triton, where engines run it
      source = source,
      attention = kernel_curves.attention, -- prefills, by the dtype of the products
      decode = kernel_curves.decode, -- by the dtype of the cache
    }, { optional = true }),
    routing = check.record_of({ -- kernels of serving engines that choose experts and sort tokens by expert
      source = source,
      setup = wait, -- seconds of fixed latency
      pair = wait, -- seconds per pair of a token and an expert
      error = check.number { min = 0, max = 10, optional = true }, -- the fit's median error, over whole blocks
      points = check.integer { min = 1, max = 1 << 31, optional = true }, -- measurements of the fit
    }, { optional = true }),
    -- Decoding by kernels that leave caches whole (FlashAttention 2), where an engine's profile says that they run.
    whole_caches = check.record_of({
      source = source,
      bandwidth = quantity("bytes/s", { optional = true }), -- at which a multiprocessor reads a cache for one token
      -- FlashAttention 2, num_splits_heuristic: 0.8 of two blocks on each multiprocessor.
      uncut = check.number { min = 0, max = 1000, default = 1.6 }, -- caches for each, from which on they stay whole
      -- That of simulated lists of 8 to 200 caches a head, of lognormal lengths, in the order of requests within heads
      -- (0.75 to 1).
      late = check.number { min = 0, max = 1, default = 0.85 }, -- part of the longest cache's excess that shows
    }, { default = {} }),
    -- What predicts held-out runs of vTrain on A100s best (docs/model.md).
    unaligned = check.record_of({ -- products of 16-bit factors whose rows do not begin on multiples of 16 bytes
      source = source,
      by_8 = check.number { min = part_reached.min, max = 1, default = 0.8 }, -- part of the rate, on those of 8
      by_less = check.number { min = part_reached.min, max = 1, default = 0.4 }, -- of fewer
    }, { default = {} }),
    -- Fitted to the runs of one source whose heads are not aligned (docs/model.md).
    converted = check.number { min = 1e-6, max = 1, default = 0.8 }, -- part of the rate of products that widen factors
    -- docs/model.md has its source. These kernels run one after another: their traffic adds to their work.
    chunkwise = check.number { min = 1e-6, max = 1e6, default = 2 }, -- FLOP in a recurrence's chunks per vector FLOP
    -- In Triton: the middle of the 1.3 to 2.5 that arXiv 2307.08691, section 4.1, measured on an A100.
    unpack = check.number { min = 0, max = 1000, default = 2 }, -- FLOP per weight of fewer bits than activations
    flash1 = check.number { min = 1, max = 1000, default = 1.8 }, -- seconds of FlashAttention 1 relative to 2
    -- 18.9 % of an H100's 132, as kernels beside collectives were slower on average (arXiv 2507.03114, abstract), since
    -- both compete for multiprocessors, HBM and power. The collectives' own kernels use 1 to 16
    -- (transformer_engine/pytorch/module/base.py, num_sm).
    overlap_sms = check.number { min = 0, max = 1e6, default = 24.948 }, -- that collectives take from chunks
    cache = check.record_of({ -- last-level cache, from which repeated measurements read
      source = source,
      bandwidth = quantity "bytes/s", -- replaces the HBM's; the same efficiencies apply
      capacity = quantity "bytes", -- of all units together
    }, { optional = true }),
    power = quantity("W", { optional = true }), -- the board's limit (TDP)
  },
  network = check.record_of { -- between GPUs: fast and slow, or tiers
    source = source,
    -- From the innermost out, if there are more than two; then in place of fast and slow, which are made of the first
    -- and of the one with nics_per_gpu. Each other one joins what the tier inward joins, through its uplinks.
    tiers = check.list(check.record_of {
      source = source,
      name = check.string { name = true }, -- by which system:with and --set name it: network.tiers.NAME.FIELD
      size = check.integer { min = 1, max = 1 << 31, optional = true }, -- GPUs that it joins; the last: all
      -- Per GPU and direction; of NICs, per NIC; of uplinks by default that inward over the oversubscription.
      bandwidth = quantity("bytes/s", { optional = true }),
      oversubscription = check.number { min = 1e-3, max = 1e6, optional = true }, -- bandwidth inward over its own
      degraded = degraded, -- part of the bandwidth that is left
      efficiency = tier_efficiency, -- of a port as of fast and slow; of uplinks by default the port's
      latency = quantity("s", { min = 0, max = 1, optional = true }), -- per hop; of uplinks by default as inward
      -- A ring is a torus of one axis, and pcie a switch: roots, as all uplinks, are shared by what lies below them.
      topology = check.choice { { "switch", "all_to_all", "ring", "torus", "tree", "pcie" }, default = "switch" },
      axes = axes, -- of a torus: of GPUs, or of the units that a tier joins
      nics_per_gpu = check.number { min = 1e-6, max = 1e3, optional = true }, -- of the innermost between domains
      shared = check.boolean { default = true }, -- GPUs of a unit share its uplinks; false: one group has all
      curves_of = check.string { optional = true }, -- as of fast and slow, with the next four
      chain = quantity("s", { min = 0, max = 1, optional = true }),
      start = quantity("s", { min = 0, max = 1, optional = true }),
      host_gpus = check.integer { min = 1, max = 1 << 31, optional = true },
      reduces = check.boolean { default = false },
    }, { min = 2, max = 8, optional = true }),
    fast = check.record_of { -- within a domain: NVLink, Infinity Fabric
      source = source,
      name = check.string { name = true, optional = true }, -- name of the links, for display
      curves_of = check.string { optional = true }, -- a system whose links' curves fill missing ones; none: none's
      bandwidth = quantity "bytes/s", -- per GPU and direction
      efficiency = constant_or(fast_curves, 0.7), -- the part of the bandwidth that messages reach, or curves
      degraded = degraded, -- part of the bandwidth that is left where links failed
      latency = quantity("s", latency_of "2.5 us"), -- per hop
      start = quantity("s", { min = 0, max = 1, optional = true }), -- of a collective, beside its hops; without curves
      domain = check.integer { min = 1, max = 1 << 31 }, -- GPUs
      host_gpus = check.integer { min = 1, max = 1 << 31, optional = true }, -- of one host, if a domain joins several
      mesh = check.boolean { default = false }, -- every two GPUs have a link, no switch: fewer GPUs have fewer links
      -- A torus of up to three axes: the length from which each wraps around. Two links of a GPU lie along each.
      axes = axes,
      reduces = check.boolean { default = false }, -- its switches reduce (NVLink SHARP); in_network is how fast
    },
    slow = check.record_of { -- between domains: InfiniBand, Ethernet
      source = source,
      name = check.string { name = true, optional = true }, -- name of the network, for display
      curves_of = check.string { optional = true }, -- as of the links
      bandwidth = quantity "bytes/s", -- per NIC and direction
      efficiency = constant_or(slow_curve, 0.7), -- the part of the bandwidth that messages reach, or a curve
      degraded = degraded, -- as of the links
      latency = quantity("s", latency_of "5 us"), -- per hop
      -- A chunk of NCCL's Simple protocol over a network (its tuning model, src/graph/tuning.cc). With a curve alone.
      chain = quantity("s", { min = 0, max = 1, default = "14 us" }), -- of broadcasts and reduces, per GPU of the chain
      nics_per_gpu = check.number { min = 1e-6, max = 1e3, default = 1 }, -- 0.5: two GPUs share one
    },
  },
  host = check.record_of({ -- memory that a GPU reaches besides its own; needed for offloading
    source = source,
    name = check.string { name = true, optional = true }, -- name of the link, for display
    bandwidth = quantity "bytes/s", -- of one GPU's link (PCIe, NVLink-C2C), in one direction
    efficiency = efficiency(0.85), -- the part of it that copies of pinned memory reach
    memory_bandwidth = quantity "bytes/s", -- bandwidth of the host's memory, per GPU
    capacity = quantity("bytes", { optional = true }), -- capacity of the host's memory, per GPU
    slowness = check.number { min = 0.1, max = 10, default = 1 }, -- time of its calls over those of an HGX H100's host
  }, { optional = true }),
  price = check.record_of({ -- for tperf.cost
    source = source,
    gpu_hour = check.number { min = 0, max = 1e6 }, -- US dollars
  }, { optional = true }),
}

local twin = { fp16 = "bf16", bf16 = "fp16" }
local peaks_metatable = {
  __index = function(peak, dtype) return twin[dtype] and rawget(peak, twin[dtype]) end,
}

catalogue.metatables["tperf.system peaks"] = peaks_metatable

local ATTENTION <const> = { { "compute_efficiency", "attention" }, { "compute_efficiency", "flash2" },
  { "portable_attention", "attention" } }

local function check_attention(system)
  for _, place in ipairs(ATTENTION) do
    local of = system.accelerator[place[1]]
    for dtype, curve in pairs(type(of) == "table" and of[place[2]] or {}) do
      local path, sizes = ("accelerator.%s.%s.%s"):format(place[1], place[2], dtype), #curve.head_dim
      if sizes ~= #curve.efficiency or type(curve.backward) == "table" and sizes ~= #curve.backward then
        return string.format("'%s' needs as many efficiencies as head sizes, of each pass", path), path
      end
    end
  end
end

local VECTOR_PART <const> = 1 / 8 -- as on A100 and MI300X; from 0.064 (GB200) to 0.26 (RTX PRO 6000) on other systems

local function fill_vector(accelerator)
  local peak = accelerator.tensor.bf16 or accelerator.tensor.fp16
  if accelerator.vector or not peak then return end
  accelerator.vector = { bf16 = peak * VECTOR_PART, fp32 = peak * VECTOR_PART / 2 }
end

local FAR <const> = 0.1 -- 80 GB are 79.1 GiB on an H100, 48 GB are 44.4 GiB on an L40S

-- Refuses what a program cannot see of a capacity: somebody changed one of the two.
local function check_visible(hbm)
  if not hbm.visible or math.abs(hbm.visible / hbm.capacity - 1) <= FAR then return end
  local path = "accelerator.hbm.visible"
  return ("'%s' = %s is not what a program sees of a capacity of %s: change it, too, or leave it out"):format(path,
    units.format(hbm.visible, "bytes"), units.format(hbm.capacity, "bytes")), path
end

-- Fields of a network that curves leave little to do, or that do nothing without one.
local IDLE <const> = {
  { "fast", "latency", curve = true, says = "network.fast.latency is that of sends alone here: the curves of "
    .. "collectives have their own (network.fast.efficiency.all_reduce.latency and so on; efficiency = 0.7 leaves the "
    .. "curves out)" },
  { "fast", "start", curve = true, says = "network.fast.start has no effect here: the curves of collectives have their "
    .. "own (network.fast.efficiency.all_reduce.latency and so on)" },
  { "slow", "latency", curve = true, says = "network.slow.latency is that of sends alone here: the curve of "
    .. "collectives has its own (network.slow.efficiency.latency; efficiency = 0.7 leaves the curve out)" },
  { "slow", "chain", curve = false, says = "network.slow.chain has no effect here: it belongs to a curve, and "
    .. "network.slow.efficiency is a number" },
}

local said = {} -- each sentence once

-- Says which changed fields of a network have little effect, or none.
local function tell_idle(content, changes)
  if type(changes.network) ~= "table" then return end
  for _, idle in ipairs(IDLE) do
    local side, of = changes.network[idle[1]], content.network[idle[1]]
    local is_curve = type(of) == "table" and type(of.efficiency) == "table"
    if type(side) == "table" and side[idle[2]] ~= nil and is_curve == idle.curve and not said[idle] then
      said[idle] = true
      io.stderr:write(("tperf: %s: %s\n"):format(content.name, idle.says))
    end
  end
end

-- Whether a description, or changes of one, list tiers.
local function has_tiers(content)
  local network = type(content) == "table" and frozen.plain(content.network)
  return type(network) == "table" and network.tiers ~= nil
end

-- A changed capacity is what counts.
local function merged(content, changes, object)
  if object.network.tiers or has_tiers(changes) then tiers.merged(content, changes, object) end
  tell_idle(content, changes)
  local hbm = type(changes.accelerator) == "table" and changes.accelerator.hbm
  if type(hbm) ~= "table" or hbm.capacity == nil or hbm.visible ~= nil then return end
  content.accelerator.hbm.visible = nil
end

local function finish(system)
  fill_vector(system.accelerator)
  local message, where
  if system.network.tiers then message, where = tiers.fault(system.network.tiers) end
  if message then return message, where end
  message, where = check_visible(system.accelerator.hbm)
  if message then return message, where end
  for _, unit in ipairs { "tensor", "vector" } do
    local peak = system.accelerator[unit]
    if not peak or not setmetatable(peak, peaks_metatable).fp16 then
      local path = "accelerator." .. unit
      return string.format("'%s' needs a peak for fp16 or bf16", path), path
    end
  end
  return check_attention(system)
end

-- Whether a curve was fitted to kernels, and says to how many; others put published rates in the form of curves.
local function was_timed(of)
  for _, kind in ipairs { "gemm", "attention" } do
    for _, one in pairs(of[kind] or {}) do
      if one.points then return true end
    end
  end
  return false
end

---@class tperf.system a checked description; fields are those of tperf.system { … }
local methods = {}

--- The basis of the efficiencies: "measured", curves fitted to kernels timed on this GPU; "borrowed", curves fitted to
--- a GPU of the same chip or generation; "datasheet", the vendor's peaks and assumed efficiencies.
---@return "measured"|"borrowed"|"datasheet"
---@return string? base  the system whose curves are borrowed
function methods:calibration()
  local reached = self.accelerator.compute_efficiency
  if type(reached) ~= "table" then return "datasheet" end
  if self.curves_of then return "borrowed", self.curves_of end
  return was_timed(reached) and "measured" or "datasheet"
end

-- Turns a file of the published solver into a description, whose errors can only name the file.
local function import(content, origin, construct)
  local own = content.accelerator ~= nil or content.network ~= nil -- which the solver's files lack
  if own or not solver.recognise(content) then
    return borrowed.fill(has_tiers(content) and tiers.spell(content) or content, construct), origin
  end
  if not origin then return solver.describe(content) end
  return solver.describe(content, origin.path, origin.positions), {
    path = origin.path, positions = { [""] = origin.positions[""] },
  }
end

--- A machine: systems/NAME.yaml, a file of that format, a config-NAME.json of the published solver, or a table of the
-- same fields. system:with { … } returns a changed copy.
---@param value string|table
---@return tperf.system
return catalogue.constructor {
  what = "tperf.system", kind = "systems", schema = schema, methods = methods, finish = finish, import = import,
  merged = merged, seal = core.seal_system,
}
