--- The curves that measurements of operators and collectives determine. Each: name, cases, parameters to fit,
-- install(system, values), which sets them in a plain copy of a system, and `needs`, what would settle them.
local attention = require "tperf.measured.calibrate.attention"
local check = require "tperf.base.check"
local experts = require "tperf.measured.calibrate.experts"
local fit = require "tperf.measured.calibrate.fit"
local lists = require "tperf.base.lists"
local parts = require "tperf.measured.calibrate.parts"

local curves = {}

local compute_of, SUSTAINED, SUSTAINED_AFTER = parts.compute_of, parts.SUSTAINED, parts.SUSTAINED_AFTER

-- The launch and the HBM's efficiency come with the 16-bit products. Kernels for fewer bits have fewer tiles to choose
-- from, which shows as a larger loss of the smaller ones, and may leave k whole (split = 1).
local function gemm(dtype, cases, with_memory, split)
  local parameters = {
    { name = "efficiency", start = 0.85, low = 0.05, high = 1.5 },
    { name = "tile_loss", start = 4, low = 0.1, high = with_memory and 100 or 300 },
    { name = "depth", start = 100, low = 4, high = 2000 },
    { name = "quantisation", start = 0.5, low = 0, high = 1 },
    SUSTAINED, SUSTAINED_AFTER,
  }
  if with_memory then
    table.insert(parameters, { name = "launch", start = 4e-6, low = 2e-7, high = 2e-4 })
    table.insert(parameters, { name = "hbm", start = 0.85, low = 0.2, high = 1 })
  elseif dtype == "fp4" then
    table.insert(parameters, { name = "ramp", start = 1e-6, low = 1e-9, high = 1e-4 })
  end
  return {
    name = "gemm." .. dtype, cases = cases, parameters = parameters,
    scope = function(case) return case.flops >= 1e9 end,
    needs = "products of sizes from 1e8 to 1e13 FLOP: square ones, few rows or columns, and ones that take over 10 ms",
    install = function(system, v)
      local compute = compute_of(system)
      compute.gemm = compute.gemm or {}
      compute.gemm[dtype] = {
        efficiency = v.efficiency, tile_loss = v.tile_loss, depth = v.depth, quantisation = v.quantisation,
        sustained = v.sustained, sustained_after = v.sustained_after, split = split, ramp = v.ramp,
      }
      if with_memory then
        system.accelerator.launch, system.accelerator.hbm.efficiency = v.launch, v.hbm
      end
    end,
  }
end

-- The bandwidth that read-write kernels reach on the HBM and, if its size is known, on the cache.
local function stream(cases, system)
  local cache = system.accelerator.cache
  local bandwidth = system.accelerator.hbm.bandwidth
  local parameters = {
    { name = "efficiency", start = 0.85, low = 0.05, high = 1 },
    { name = "setup", start = 3e-6, low = 1e-8, high = 1e-4 },
  }
  if cache then
    parameters[3] = { name = "cache", start = 2 * bandwidth, low = bandwidth, high = 10 * bandwidth }
  end
  return {
    name = "hbm.stream", cases = cases, parameters = parameters,
    scope = function(case) return case.bytes >= 1e7 end,
    needs = "kernels of 1 KB to 1 GB",
    install = function(trial, v)
      trial.accelerator.hbm.stream = { efficiency = v.efficiency, setup = v.setup }
      if cache then trial.accelerator.cache.bandwidth = v.cache end
    end,
  }
end

local function fast_of(system)
  local fast = system.network.fast
  if type(fast.efficiency) ~= "table" then fast.efficiency = { send = fast.efficiency } end
  return fast.efficiency
end

local FEWEST_ADDED <const> = 5 -- GPUs whose all-reduce the switch adds up: include/tperf/efficiency.h

-- reduces: the switch can. How fast it does is fitted only if a case uses it; otherwise it stays as the system says.
local function link(kind, cases, reduces)
  local parameters = {
    { name = "latency", start = 8e-6, low = 1e-7, high = 1e-3 },
    { name = "hop", start = 7e-7, low = 1e-8, high = 1e-4 },
    { name = "small", start = 0.3, low = 0.01, high = 1 },
    { name = "extra", start = 1e-5, low = 1e-7, high = 1e-3 },
    { name = "large", start = 0.6, low = 0.01, high = 1 },
    { name = "switch", start = 1.2e6, low = 3e4, high = 3e7 },
    { name = "growth", start = 0.15, low = -2.5, high = 0.8 },
  }
  local used = false
  for _, case in ipairs(cases) do used = used or case.gpus >= FEWEST_ADDED end
  if reduces and used then
    table.insert(parameters, { name = "in_network", start = 0.5, low = 0.02, high = 1 })
  end
  return {
    name = "network.fast." .. kind, cases = cases, parameters = parameters,
    scope = function(case) return case.bytes >= 1 << 20 end,
    needs = "messages from 64 KiB to 512 MiB among 2, 4 and 8 GPUs of one node",
    install = function(system, v)
      local known = fast_of(system)[kind]
      local curve = { in_network = reduces and known and known.in_network or 0 }
      for name, value in pairs(v) do curve[name] = value end
      fast_of(system)[kind] = curve
    end,
  }
end

local function direct(cases)
  return {
    name = "network.fast.direct", cases = cases,
    parameters = {
      { name = "latency", start = 4e-6, low = 1e-7, high = 1e-4 },
      { name = "hop", start = 2e-7, low = 1e-9, high = 1e-5 },
      { name = "one_shot", start = 0.5, low = 0.01, high = 1 },
      { name = "extra", start = 5e-6, low = 1e-7, high = 1e-4 },
      { name = "two_shot", start = 0.6, low = 0.01, high = 1 },
    },
    scope = function(case) return case.bytes <= 8 << 20 end,
    needs = "messages from 1 KiB to 8 MiB among 2, 4 and 8 GPUs of one node",
    install = function(system, v)
      fast_of(system).direct = {
        latency = v.latency, hop = v.hop, one_shot = v.one_shot, extra = v.extra, two_shot = v.two_shot,
      }
    end,
  }
end

local NCCL_CURVES <const> = { all_reduce = true, all_gather = true, reduce_scatter = true, all_to_all = true }

-- Per kind of table: adds the curves that its cases determine.
local makers = {}

function makers.gemm(cases, add)
  local groups, names = fit.groups(lists.where(cases, function(case)
    return case.flops >= 1e8 and not case.blockwise
  end), "dtype")
  table.sort(names, function(a, b) return (a == "bf16" and "" or a) < (b == "bf16" and "" or b) end)
  for _, dtype in ipairs(names) do
    local wide = dtype == "bf16" or dtype == "fp16"
    local curve = gemm(dtype, groups[dtype], wide)
    if not wide then curve.either = gemm(dtype, groups[dtype], wide, 1) end
    add(curve)
  end
end

makers.attention = attention.add

function makers.moe(cases, add)
  local list = lists.where(cases, function(case)
    return (case.format == "bf16" or case.format == "fp8") and not case.portable and not case.sglang
  end)
  if #list > 0 then add(experts.routing(list)) end
  local owned, fields = fit.groups(lists.where(cases, function(case)
    return case.own and case.dtype == "bf16"
  end), "own")
  table.sort(fields)
  for _, field in ipairs(fields) do add(experts.own(field, owned[field])) end
  local groups, names = fit.groups(lists.where(cases, function(case) return case.weight end), "dtype")
  table.sort(names)
  for _, dtype in ipairs(names) do add(experts.narrow(dtype, groups[dtype])) end
end

function makers.memory(cases, add, system)
  local list = lists.where(cases, function(case) return #case.kernels == 1 end)
  if #list > 0 then add(stream(list, system)) end
end

function makers.collective(cases, add, system)
  local groups, names = fit.groups(lists.where(cases, function(case)
    return case.nodes == 1 and case.bytes >= 1 << 16 and NCCL_CURVES[case.kind]
  end), "kind")
  table.sort(names)
  for _, kind in ipairs(names) do
    add(link(kind, groups[kind], kind == "all_reduce" and system.network.fast.reduces))
  end
end

-- Engines leave long messages to NCCL.
function makers.direct(cases, add)
  local short = lists.where(cases, function(case) return case.bytes <= 16 << 20 end)
  if #short > 0 then add(direct(short)) end
end

--- The curves that the cases of one kind of table can determine.
---@param kind string  the reader's name
---@param cases table[]
---@param system table
function curves.of(kind, cases, system)
  local list = {}
  local function add(curve)
    if curve then list[#list + 1] = curve end
  end
  if makers[kind] then makers[kind](cases, add, system) end
  return list
end

--- The kinds of measurements that curves are fitted to, sorted.
---@return string[]
function curves.kinds() return check.names(makers) end

return curves
