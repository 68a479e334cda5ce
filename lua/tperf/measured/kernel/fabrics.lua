--- Networks between nodes as named in tables of measurements: a node's bandwidth, and the curve of its kind.
local system = require "tperf.describe.system"

local fabrics = {}

-- Systems whose files state the curves, and their sources: InfiniBand's; and that of Ethernet with the cloud providers'
-- transports: Elastic Fabric Adapter, GPUDirect-TCPXO.
local INFINIBAND <const>, ETHERNET <const> = "h100-sxm", "a10"

local function curve_of(name)
  local stated = system(name).network.slow.efficiency
  return { efficiency = stated.efficiency, latency = stated.latency, doubling = stated.doubling, hop = stated.hop,
    ramp = stated.ramp }
end

local OMNI_PATH <const> = 100e9 / 8 -- bytes/s per link

-- "800 Gbps/node", "400 Gbps per node", "1600 Gbps RoCE per node", "EFA, 100 Gb/s a node".
local WHOLE <const> = { "^(%d+) Gbps/node", "^(%d+) Gbps per node", "^(%d+) Gbps RoCE per node",
  "%f[%d](%d+) Gb/s a node" }

-- "4x100 Gbps", "8x50 GBps", "4x100 Gb RoCE" per node, in bytes/s; the largest figure if there are several.
local function node_bandwidth(text)
  local best
  text = text:gsub(" Gb RoCE", " Gbps RoCE")
  for count, speed, unit in text:gmatch "(%d+)x(%d+) ?(G[Bb]ps)" do
    local bytes = tonumber(count) * tonumber(speed) * (unit == "GBps" and 1e9 or 1e9 / 8)
    best = math.max(best or 0, bytes)
  end
  local links = text:match "^(%d+) Omni%-Path links per node"
  if links then return tonumber(links) * OMNI_PATH end
  if best then return best end
  for i = 1, #WHOLE do
    local whole = text:match(WHOLE[i])
    if whole then return tonumber(whole) * 1e9 / 8 end
  end
end

--- The slow network of a row: { bandwidth = bytes/s of one GPU's NICs, curve = …, remote = whether it is sure to be the
--- GPUs' network }; nil and a reason if the text does not identify it.
---@param text string
---@param gpus_per_node number
function fabrics.of(text, gpus_per_node)
  local lower = text:lower()
  local ethernet = lower:find "efa" or lower:find "tcp" or lower:find "roce" or lower:find "ethernet"
  if lower:find "slingshot" then
    return nil, "no curve of Slingshot is known (-s NAME gives all rows the network of one system)"
  end
  local node = node_bandwidth(text)
  if node then
    return { bandwidth = node / gpus_per_node, curve = curve_of(ethernet and ETHERNET or INFINIBAND) }
  end
  -- Two that may be it are none: "USB4 or Ethernet".
  if lower:find "not stated" or lower:find "%w or %w" or lower:find "not named" or lower:find "omni%-path" then
    return nil, "the network between the nodes is not named"
  end
  if lower:find "infiniband" or lower:find "ndr" or lower:find "hdr" then return { curve = curve_of(INFINIBAND) } end
  -- Ethernet with remote memory access is what GPUs use; any other may be the hosts' own.
  local remote = (lower:find "^efa" or lower:find "roce") and true or nil
  if ethernet then return { curve = curve_of(ETHERNET), remote = remote } end
  return nil, "the network between the nodes is not named"
end

return fabrics
