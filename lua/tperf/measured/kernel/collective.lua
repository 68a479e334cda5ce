--- Timed collectives, one per row: columns collective, gpu, gpus, nodes, size_bytes, and time_us or busbw_GBps or
--- algbw_GBps.
local fabrics = require "tperf.measured.kernel.fabrics"
local nccl_tests = require "tperf.import.nccl_tests"
local read = require "tperf.measured.read"

local collective = { name = "collective", columns = { "collective", "gpus", "size_bytes", "time_us" } }

local function seconds_of(row, kind, gpus, bytes)
  local time = read.positive(row.time_us)
  if time then return time * 1e-6 end
  local bus, algorithm = read.positive(row.busbw_GBps), read.positive(row.algbw_GBps)
  if bus then return bytes * nccl_tests.bus_factor(kind, gpus) / (bus * 1e9) end
  return algorithm and bytes / (algorithm * 1e9)
end

-- The number of GPUs that share a fast domain of the system. A domain may span nodes (NVL72).
local function fast_of(gpus, nodes, links)
  if nodes == 1 then return gpus end
  local domain = links.domain
  local fast = links.host_gpus and math.min(gpus, domain) or gpus // nodes
  return fast <= domain and gpus % fast == 0 and fast or nil
end

-- The members of a row's groups: the devices of the axis that a row names ("gather over one axis of 4 devices"), of
-- which all lines work at the same time, each as if alone; else all GPUs.
local function members_of(row, gpus)
  local axis = tonumber(read.text(row.intra):match "over one axis of (%d+) devices")
  return axis and gpus % axis == 0 and math.tointeger(axis) or gpus
end

--- The rows of a log of nccl-tests, as those of a table.
---@param text string
---@param path string
---@return table[]
function collective.rows_of_log(text, path)
  local rows = {}
  for i, one in ipairs(nccl_tests.parse(text, path)) do
    rows[i] = { collective = one.kind, gpu = one.gpu, gpus = one.gpus, nodes = one.nodes, size_bytes = one.bytes,
      time_us = one.microseconds }
  end
  return rows
end

--- A case, or nil and why the row is left out.
function collective.case(row)
  local kind = nccl_tests.kind(row.collective)
  if not kind then return nil, "not a collective of NCCL" end
  local gpus, bytes = read.count(row.gpus), read.positive(row.size_bytes)
  if not (gpus and bytes) then return nil, "gpus or size_bytes is not given" end
  if gpus < 2 then return nil, "a group of one GPU" end
  local nodes = read.count(row.nodes)
  if not nodes then return nil, "the number of nodes is not given" end
  local members = members_of(row, gpus)
  if members < gpus then gpus, nodes = members, math.max(nodes * members // gpus, 1) end
  if gpus % nodes ~= 0 then return nil, "nodes with different numbers of GPUs" end
  local seconds = seconds_of(row, kind, gpus, bytes)
  if not seconds then return nil, "neither a time nor a bandwidth is given" end
  if read.text(row.algo):find "off" then return nil, "in-network reduction is switched off" end
  return {
    gpu = row.gpu ~= "None" and row.gpu or row.source, kind = kind, gpus = gpus, nodes = nodes, bytes = bytes,
    measured = seconds, inter = read.text(row.inter),
    source = ("collectives, %s, %s"):format(nodes > 1 and "multi-node" or "single-node",
      bytes >= 1 << 20 and "at least 1 MiB" or "less than 1 MiB"),
    label = ("%s %d GPUs %.15g B"):format(kind, gpus, bytes),
  }
end

--- A case's changes to its system: the network between nodes unless the system is given; nil and a reason.
function collective.system(case, system, given)
  if given or case.nodes == 1 then return {} end
  local network, reason = fabrics.of(case.inter, case.gpus / case.nodes)
  if not network then
    if system.network.fast.host_gpus and case.gpus <= system.network.fast.domain then return {} end
    return nil, reason
  end
  local slow = { efficiency = network.curve }
  if network.bandwidth then slow.bandwidth, slow.nics_per_gpu = network.bandwidth, 1 end
  return { network = { slow = slow } }
end

--- Seconds predicted; nil and a reason if the system does not support the case.
function collective.predict(case, machine, system, rules)
  local fast = fast_of(case.gpus, case.nodes, system.network.fast)
  if not fast or case.nodes == 1 and fast > system.network.fast.domain then
    return nil, "more GPUs in a fast domain than the system has"
  end
  return machine:collective(rules, case.kind, case.bytes, case.gpus, fast)
end

return collective
