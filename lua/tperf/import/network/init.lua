--- Networks as other tools write them, as `tiers` of a system (lua/tperf/describe/machine/tiers.lua).
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local core = require "tperf.core"
local formats = { require "tperf.import.network.astra_sim", require "tperf.import.network.calculon",
  require "tperf.import.network.infragraph", require "tperf.import.network.nccl_xml",
  require "tperf.import.network.topo_m" }

local network = {}

local function content_of(text, path)
  local ok, content = pcall(core.yaml, text, path)
  return ok and type(content) == "table" and content or nil
end

--- The network of a text, or nil if it is in none of the formats.
---@param text string
---@param path string  for messages
---@return table? network
function network.parse(text, path)
  local content = content_of(text, path)
  for _, format in ipairs(formats) do
    if format.recognises(text, content) then
      local tiers, notes = format.read(text, content)
      if not tiers then check.fail("tperf.import.network: %s: %s", path, notes) end
      return { format = format.name, tiers = tiers, notes = notes }
    end
  end
end

--- Reads a network as another tool describes it: ASTRA-sim's network.yml (analytical), the `networks` of a system of
--- Calculon, InfraGraph, NCCL's topology (NCCL_TOPO_DUMP_FILE), or the output of `nvidia-smi topo -m`.
---@param path string
---@return table network  { format = name of the tool, tiers = list for the network of a system, notes = what the format
---                       cannot say, or tiers cannot }
function network.read(path)
  local text, message = catalogue.text(path)
  if not text then check.fail("tperf.import.network: %s", message) end
  local found = network.parse(text, path)
  if found then return found end
  check.fail("tperf.import.network: %s is no network of ASTRA-sim, Calculon or InfraGraph, and no topology of NCCL or "
    .. "nvidia-smi", path)
end

local PORT <const> = { "size", "bandwidth", "latency", "topology", "axes", "nics_per_gpu" }
local FAST <const> = { "bandwidth", "efficiency", "latency", "start", "reduces", "host_gpus" }
local SLOW <const> = { "bandwidth", "efficiency", "latency", "chain", "nics_per_gpu" }

-- A tier of a port: what is found, and of the rest what the system has.
local function port(tier, before, fields)
  local made = { name = tier.name }
  for _, field in ipairs(fields) do made[field] = before[field] end
  for _, field in ipairs(PORT) do
    if tier[field] ~= nil then made[field] = tier[field] end
  end
  return made
end

--- The changes of a system, as system:with takes them, that give it a network's tiers: sizes, bandwidths and NICs. What
--- the format does not say stays the system's, its curves among it.
---@param machine tperf.System
---@param tiers table[]  of network.parse
---@return table changes
function network.onto(machine, tiers)
  local fast, slow, list, nics = machine.network.fast, machine.network.slow, {}, false
  for i, tier in ipairs(tiers) do
    list[i] = i == 1 and port(tier, fast, FAST) or tier.nics_per_gpu and port(tier, slow, SLOW) or tier
    nics = nics or tier.nics_per_gpu ~= nil
  end
  if not nics then list[#list + 1] = port({ name = "nics" }, slow, SLOW) end
  if #list > 2 then return { network = { tiers = list } } end
  local first, second = list[1], list[2]
  return { network = {
    fast = { bandwidth = first.bandwidth, latency = tiers[1].latency, domain = first.size, axes = first.axes,
      mesh = first.topology == "all_to_all" },
    slow = { bandwidth = second.bandwidth, latency = nics and tiers[2].latency or nil,
      nics_per_gpu = second.nics_per_gpu } } }
end

return network
