--- Networks as other tools write them, as `tiers` of a system (lua/tperf/describe/machine/tiers.lua).
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local core = require "tperf.core"
local formats = { require "tperf.import.network.astra_sim", require "tperf.import.network.calculon",
  require "tperf.import.network.nccl_xml", require "tperf.import.network.topo_m" }

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
--- Calculon, NCCL's topology (NCCL_TOPO_DUMP_FILE), or the output of `nvidia-smi topo -m`.
---@param path string
---@return table network  { format = name of the tool, tiers = list for the network of a system, notes = what the format
---                       cannot say, or tiers cannot }
function network.read(path)
  local text, message = catalogue.text(path)
  if not text then check.fail("tperf.import.network: %s", message) end
  local found = network.parse(text, path)
  if found then return found end
  check.fail("tperf.import.network: %s is no network of ASTRA-sim or Calculon, and no topology of NCCL or nvidia-smi",
    path)
end

return network
