--- NCCL's topology of one host (NCCL_TOPO_DUMP_FILE, or a cloud's NCCL_TOPO_FILE): GPUs with NVLinks, PCIe, NICs.
local cuts = require "tperf.import.network.cuts"

local nccl_xml = { name = "NCCL" }

function nccl_xml.recognises(text) return text:find "^%s*<system[%s>]" ~= nil or text:find "<system version=" ~= nil end

-- Bytes/s of an NVLink in one direction by compute capability: the vendor's figure for a GPU over its links (P100 160
-- GB/s over 4, V100 300 over 6, A100 600 over 12, RTX A6000 112.5 over 4, H100 900 over 18, B200 1,800 over 18; both
-- directions).
local NVLINK <const> = { [60] = 20e9, [70] = 25e9, [75] = 25e9, [80] = 25e9, [86] = 14.0625e9, [90] = 25e9,
  [100] = 50e9, [103] = 50e9 }
local SWITCH <const> = "0x068000" -- class of an NVSwitch

local function attributes(text)
  local list = {}
  for name, value in text:gmatch '([%w_]+)="([^"]*)"' do list[name] = value end
  return list
end

-- Bytes/s of a PCIe link in one direction, from "16.0 GT/s PCIe" and "16"; 128 of 130 bits are data from 8 GT/s on.
local function pcie(pci)
  local rate, width = tonumber((pci.link_speed or ""):match "[%d.]+"), tonumber(pci.link_width)
  if not rate or not width or width == 0 then return nil end
  return rate * 1e9 * width / 8 * (rate >= 8 and 128 / 130 or 0.8)
end

-- The GPUs and NICs of the text, each below its PCIe device, and the links of these: to a switch, to a socket, to all.
local function devices(text)
  local gpus, nets, above, links = {}, {}, {}, {}
  for closing, name, rest in text:gmatch "<(/?)(%w+)([^>]*)>" do
    local own, empty = attributes(rest), rest:find "/%s*$"
    if closing == "/" then
      if name == "pci" or name == "cpu" then above[#above] = nil end
    elseif name == "gpu" then
      local pci = above[#above] or {}
      gpus[#gpus + 1] = { sm = tonumber(own.sm), id = pci.busid, pcie = pcie(pci), links = 0, to = {} }
    elseif name == "nvlink" and gpus[1] then
      local gpu, count = gpus[#gpus], tonumber(own.count) or 1
      gpu.links = gpu.links + count
      if own.tclass == SWITCH then gpu.switched = true else gpu.to[#gpu.to + 1] = own.target end
    elseif name == "net" then
      nets[#nets + 1] = tonumber(own.speed)
    elseif (name == "pci" or name == "cpu") and not empty then
      own.node = own.busid or "cpu" .. tostring(own.numaid)
      local parent = above[#above]
      links[#links + 1] = { a = own.node, b = parent and parent.node or "host", bandwidth = pcie(own) }
      above[#above + 1] = own
    end
  end
  return gpus, nets, links
end

-- Adds tiers of PCIe: GPUs below a switch, below a socket, all.
local function add_pcie(tiers, gpus, links, notes)
  local leaves, size = {}, tiers[1] and tiers[1].size or 1
  for i, gpu in ipairs(gpus) do leaves[i] = { id = gpu.id, gpus = 1 } end
  local levels = cuts.levels(leaves, links)
  if not levels then
    notes[#notes + 1] = "PCIe: switches and sockets have unequal numbers of GPUs, and are taken to carry all that the "
      .. "GPUs' links do"
    levels = { { size = #gpus, bandwidth = gpus[1].pcie } }
  end
  for _, level in ipairs(levels) do
    if level.size > size and level.size % size == 0 then
      local via = level.via == "host" and "sockets" or level.via and level.via:find "^cpu" and "roots" or "pcie"
      tiers[#tiers + 1] = { name = via, size = level.size, bandwidth = level.bandwidth }
      size = level.size
      if not level.bandwidth then
        notes[#notes + 1] = ("%s: bandwidth is not in it; without one, as wide as the tier inward")
          :format(tiers[#tiers].name)
      end
    end
  end
end

local function add_gpus(tiers, gpus, links, notes)
  local first, count = gpus[1], #gpus
  for i, gpu in ipairs(gpus) do
    if gpu.links ~= first.links or #gpu.to ~= #first.to then
      notes[#notes + 1] = ("GPU %d has other NVLinks than the first, whose are taken"):format(i)
    end
  end
  if first.links > 0 then
    local link = NVLINK[first.sm]
    if not link then return ("NVLinks of compute capability %s are unknown"):format(tostring(first.sm)) end
    local others = #first.to
    local all = first.switched or others == count - 1
    tiers[1] = { name = "nvlink", size = all and count or others + 1, bandwidth = first.links * link,
      topology = not first.switched and others > 1 and "all_to_all" or "switch" }
    if all then return end
    if others > 1 then return "GPUs with NVLinks to some others, and no switch, are no list of tiers" end
  end
  if not first.pcie then return "the GPUs' PCIe links have no speed" end
  add_pcie(tiers, gpus, links, notes)
end

function nccl_xml.read(text)
  local gpus, nets, links = devices(text)
  if #gpus == 0 then return nil, "no GPU" end
  local tiers, notes = {}, {}
  local wrong = add_gpus(tiers, gpus, links, notes)
  if wrong then return nil, wrong end
  local sum = 0
  for _, speed in ipairs(nets) do sum = sum + speed end
  if #nets == 0 then
    notes[#notes + 1] = "no network card: add a tier with nics_per_gpu for what lies beyond the host"
  else -- Mb/s
    tiers[#tiers + 1] = { name = "nics", bandwidth = sum / #nets * 1e6 / 8, nics_per_gpu = #nets / #gpus }
  end
  notes[#notes + 1] = "latencies and efficiencies are not in it"
  return tiers, notes
end

return nccl_xml
