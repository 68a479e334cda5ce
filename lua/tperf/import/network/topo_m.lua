--- The matrix of `nvidia-smi topo -m`: how GPUs and NICs of a host reach each other. It counts NVLinks (NV18) and names
-- PCIe's kinds (PIX, PXB, PHB, NODE, SYS), without any bandwidth.
local topo_m = { name = "nvidia-smi topo -m" }

local MOST_LINKS <const> = 18 -- of a GPU, up to NVLink 5

function topo_m.recognises(text) return text:find "GPU0[ \t]+X[ \t]" ~= nil end

-- The columns, and a row of cells for each GPU.
local function matrix_of(text)
  local columns, rows = nil, {}
  for line in text:gmatch "[^\r\n]+" do
    local cells = {} -- underlined ones begin with an escape, which a paste loses
    for cell in line:gsub("\27?%[[%d;]*m", ""):gmatch "%S+" do cells[#cells + 1] = cell end
    if not columns and cells[1] == "GPU0" and cells[2] ~= "X" then
      columns = {}
      for _, cell in ipairs(cells) do
        if cell == "CPU" then break end
        columns[#columns + 1] = cell
      end
    elseif columns and cells[1] and cells[1]:find "^GPU%d+$" then
      rows[#rows + 1] = table.move(cells, 2, #cells, 1, {})
    end
  end
  return columns or {}, rows
end

-- Links of a GPU to each other one that it has any to, and how many those are; nil if they differ.
local function nvlinks(rows)
  local links, others
  for _, row in ipairs(rows) do
    local count = 0
    for i = 1, #rows do
      local here = tonumber((row[i] or ""):match "^NV(%d+)$")
      if here then
        if links and here ~= links then return nil end
        links, count = here, count + 1
      end
    end
    if others and count ~= others then return nil end
    others = count
  end
  return links or 0, others
end

-- What a path crosses, from the nearest: PCIe switches; a host bridge; bridges of a NUMA node; sockets.
local PATHS <const> = { { "pcie", "PIX", "PXB" }, { "host_bridge", "PHB" }, { "numa", "NODE" }, { "sockets", "SYS" } }

-- GPUs that reach each other by cells of a set, alike for all; nil if the groups differ in size.
local function group_size(rows, near)
  local size
  for i, row in ipairs(rows) do
    local count = 1
    for j = 1, #rows do
      if j ~= i and near[row[j]] then count = count + 1 end
    end
    if size and count ~= size then return nil end
    size = count
  end
  return size
end

-- Adds tiers of PCIe beyond the GPUs' own links: what is joined by switches, bridges, sockets.
local function add_pcie(tiers, rows, size, notes)
  local near = { PIX = false }
  for _, row in ipairs(rows) do
    for _, cell in ipairs(row) do
      if cell:find "^NV%d" then near[cell] = true end
    end
  end
  for _, path in ipairs(PATHS) do
    for i = 2, #path do near[path[i]] = true end
    local now = group_size(rows, near)
    if not now or now % size ~= 0 then
      notes[#notes + 1] = ("%s: groups of unequal size, here as what lies beyond"):format(path[1])
    elseif now > size then
      tiers[#tiers + 1] = { name = #tiers == 0 and "pcie" or path[1], size = now }
      size = now
    end
  end
end

function topo_m.read(text)
  local columns, rows = matrix_of(text)
  local gpus, nics, tiers = #rows, 0, {}
  for _, column in ipairs(columns) do
    if not column:find "^GPU" then nics = nics + 1 end
  end
  if #columns - nics ~= gpus or gpus == 0 then return nil, "the matrix has not a row for each GPU" end
  local links, others = nvlinks(rows)
  if not links then return nil, "GPUs with different NVLinks are no list of tiers" end
  local notes = { "bandwidths, latencies and efficiencies are not in it" }
  if links > 0 then
    if others > 1 and others < gpus - 1 then
      return nil, "GPUs with NVLinks to some others, and no switch, are no list of tiers"
    end
    local meshed = others > 1 and links * others <= MOST_LINKS
    tiers[1] = { name = "nvlink", size = others + 1, topology = meshed and "all_to_all" or "switch" }
    local all = meshed and links * others or links
    notes[#notes + 1] = ("nvlink: a GPU has %d links%s; of one, 25 GB/s one way (NVLink 2 to 4), 50 (5)"):format(all,
      meshed and (", %d to each"):format(links) or "")
  end
  add_pcie(tiers, rows, tiers[1] and tiers[1].size or 1, notes)
  if nics == 0 then
    notes[#notes + 1] = "no NIC: add a tier with nics_per_gpu for what lies beyond the host"
  else
    tiers[#tiers + 1] = { name = "nics", nics_per_gpu = nics / gpus }
  end
  return tiers, notes
end

return topo_m
