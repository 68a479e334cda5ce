--- InfraGraph, a graph of an infrastructure in YAML or JSON (Keysight and OCP; schema/*.yaml of Keysight/infragraph,
-- version 2.4): devices of components, instances of devices, and edges between endpoints in slice notation, with links.
-- It is reduced to tiers by the capacity of cuts (cuts.lua).
local check = require "tperf.base.check"
local cuts = require "tperf.import.network.cuts"

local infragraph = { name = "InfraGraph" }

local MOST <const> = 1 << 20 -- nodes and edges

function infragraph.recognises(_, content)
  local root = content and content.infrastructure or content
  return type(root) == "table" and type(root.devices) == "table" and type(root.instances) == "table"
end

local function fail(text, ...) error({ wrong = text:format(...) }, 0) end

local function list_of(value, path)
  if value == nil then return {} end
  if type(value) ~= "table" then fail("'%s' must be a list", path) end
  return value
end

-- The records of a list by name.
local function by_name(list, path)
  local named = {}
  for i, one in ipairs(list_of(list, path)) do
    if type(one) ~= "table" or type(one.name) ~= "string" then fail("'%s[%d].name' must be a string", path, i) end
    named[one.name] = one
  end
  return named
end

local function find(named, name, path)
  local one = named[name]
  if not one then fail("'%s': %s is not defined%s", path, check.show(name), check.suggest(name, named)) end
  return one
end

local function count_of(record, path)
  local count = math.tointeger(record.count)
  if not count or count < 1 or count > MOST then fail("'%s.count' must be an integer from 1 to %d", path, MOST) end
  return count
end

-- The name and the indices of "nic", "nic[1]", "nic[0:4:2]", of so many.
local function slice(text, count_named, path)
  local name, inside = text:match "^([^%[%]]+)%[([%d:]*)%]$"
  name = name or text:match "^[^%[%]]+$"
  if not name then fail("'%s': %s is no name with a slice such as nic[0:2]", path, check.show(text)) end
  local count, list = count_named(name), {}
  local first, last, step = 0, count, 1
  if inside and inside:find "^%d+$" then
    first = math.tointeger(inside)
    last = first + 1
  elseif inside then
    local a, b, c = inside:match "^(%d*):(%d*):?(%d*)$"
    if not a or c == "0" then fail("'%s': %s is no slice", path, check.show(text)) end
    first, last, step = math.tointeger(a) or 0, math.tointeger(b) or count, math.tointeger(c) or 1
  end
  if last > count or first >= last then
    fail("'%s': %s is none of %d, counted from 0", path, check.show(text), count)
  end
  for i = first, last - 1, step do list[#list + 1] = ("%s.%d"):format(name, i) end
  return name, list
end

local UNITS <const> = { gigabits_per_second = 1e9 / 8, gigabytes_per_second = 1e9, gigatransfers_per_second = false }
local TIMES <const> = { ms = 1e-3, us = 1e-6, ns = 1e-9 }

-- A quantity that names its unit, as a number of SI units; nil if it is not given. A rate of transfers says nothing of
-- bytes without the number of lanes.
local function quantity(record, units, path)
  if record == nil then return nil end
  local value
  for unit, factor in pairs(units) do
    if type(record) == "table" and record[unit] ~= nil then value = { record[unit], factor } end
  end
  if not value then fail("'%s' has none of the units %s", path, table.concat(check.names(units), ", ")) end
  if type(value[1]) ~= "number" or not (value[1] > 0 and value[1] < 1e9) then fail("'%s' must be a number", path) end
  return value[2] and value[1] * value[2] or nil, value[2] == false
end

local function links_of(list, path, notes)
  local named = by_name(list, path)
  local links = {}
  for name, one in pairs(named) do
    local physical = type(one.physical) == "table" and one.physical or one
    local bandwidth, lanes = quantity(physical.bandwidth, UNITS, ("%s.%s.bandwidth"):format(path, name))
    if lanes then notes.lanes = true end
    links[name] = { name = name, bandwidth = bandwidth,
      latency = quantity(physical.latency, TIMES, ("%s.%s.latency"):format(path, name)) }
  end
  return links
end

-- Adds the nodes of a device, "host.0.xpu.3"; the kinds of its components.
local function add_nodes(graph, devices, device, prefix, of, depth)
  if depth > 8 then fail("device '%s' contains itself", device.name) end
  for name, one in pairs(by_name(device.components, device.name .. ".components")) do
    local kind = one.choice or one.type
    for i = 0, count_of(one, name) - 1 do
      local id = ("%s.%s.%d"):format(prefix, name, i)
      if kind == "device" then
        add_nodes(graph, devices, find(devices, name, device.name .. ".components"), id, of, depth + 1)
      else
        graph.n = graph.n + 1
        if graph.n > MOST then fail("more than %d components", MOST) end
        graph.nodes[id] = { id = id, kind = kind, of = of }
        if kind == "xpu" then graph.gpus[#graph.gpus + 1] = id end
      end
    end
  end
end

-- The paths below a device that an endpoint names: "cx5[0:2].port[0]".
local function paths_of(devices, device, text, path)
  local found = { "" }
  for part in tostring(text):gmatch "[^.]+" do
    local components = by_name(device.components, device.name .. ".components")
    local name, list = slice(part, function(name) return count_of(find(components, name, path), name) end, path)
    local longer = {}
    for _, before in ipairs(found) do
      for _, after in ipairs(list) do longer[#longer + 1] = before .. "." .. after end
    end
    if #longer > MOST then fail("'%s' names more than %d endpoints", path, MOST) end
    found, device = longer, devices[name] or device
  end
  return found
end

local SCHEMES <const> = { many2many = true, one2one = true, ring = true }

-- Calls join(a, b) for the pairs of an edge's endpoints.
local function pair(edge, ones, others, path, join)
  local scheme = edge.scheme or (edge.many2many and "many2many" or "one2one")
  if not SCHEMES[scheme] then
    fail("'%s.scheme': unknown %s%s", path, check.show(scheme), check.suggest(scheme, SCHEMES))
  end
  if scheme == "ring" then
    for i, one in ipairs(ones) do
      if #ones > 2 or i == 1 then join(one, ones[i % #ones + 1]) end
    end
    return
  end
  local seen = {}
  for i, one in ipairs(ones) do
    for j = scheme == "one2one" and i or 1, scheme == "one2one" and math.min(i, #others) or #others do
      local other = others[j]
      local key = one < other and one .. " " .. other or other .. " " .. one
      if one ~= other and not seen[key] then
        seen[key] = true
        join(one, other)
      end
    end
  end
end

local function add_edge(graph, a, b, link, class)
  graph.n_edges = graph.n_edges + 1
  if graph.n_edges > MOST then fail("more than %d edges", MOST) end
  graph.edges[graph.n_edges] = { a = a, b = b, link = class, bandwidth = link.bandwidth, latency = link.latency }
end

-- Adds the edges within an instance of a device, and within devices of it.
local function add_inner(graph, devices, device, prefix)
  local path, components = device.name .. ".edges", by_name(device.components, device.name .. ".components")
  graph.links[device.name] = graph.links[device.name] or links_of(device.links, device.name .. ".links", graph.notes)
  for _, edge in ipairs(list_of(device.edges, path)) do
    local link = find(graph.links[device.name], edge.link, path)
    local ones, others = paths_of(devices, device, edge.ep1 and edge.ep1.component, path),
      paths_of(devices, device, edge.ep2 and edge.ep2.component, path)
    pair(edge, ones, others, path, function(a, b) add_edge(graph, prefix .. a, prefix .. b, link, link.name) end)
  end
  for name, one in pairs(components) do
    if (one.choice or one.type) == "device" then
      for i = 0, count_of(one, name) - 1 do
        add_inner(graph, devices, devices[name], ("%s.%s.%d"):format(prefix, name, i))
      end
    end
  end
end

local function has_xpu(devices, device, depth)
  for name, one in pairs(by_name(device.components, device.name .. ".components")) do
    local kind, inner = one.choice or one.type, devices[name]
    if kind == "xpu" or kind == "device" and depth < 8 and inner and has_xpu(devices, inner, depth + 1) then
      return true
    end
  end
  return false
end

-- The graph of all instances: nodes of hosts, which have GPUs; any other device, such as a switch, is one node.
local function graph_of(root)
  local graph = { nodes = {}, gpus = {}, edges = {}, links = {}, notes = {}, n = 0, n_edges = 0 }
  local devices, instances = by_name(root.devices, "devices"), by_name(root.instances, "instances")
  local hosts = {}
  for name, one in pairs(instances) do
    local device = find(devices, one.device, "instances." .. name)
    hosts[name] = has_xpu(devices, device, 0)
    for i = 0, hosts[name] and count_of(one, "instances." .. name) - 1 or -1 do
      local id = ("%s.%d"):format(name, i)
      add_nodes(graph, devices, device, id, id, 0)
      add_inner(graph, devices, device, id)
    end
  end
  local links = links_of(root.links, "links", graph.notes)
  local function endpoints(end_, path)
    if type(end_) ~= "table" or type(end_.instance) ~= "string" then fail("'%s.instance' is missing", path) end
    local found = {}
    local name, list = slice(end_.instance, function(name)
      return count_of(find(instances, name, path), "instances." .. name)
    end, path)
    local below = paths_of(devices, devices[instances[name].device], end_.component, path)
    for _, id in ipairs(list) do
      for _, path_below in ipairs(below) do found[#found + 1] = id .. path_below end
    end
    return found, not hosts[name]
  end
  for i, edge in ipairs(list_of(root.edges, "edges")) do
    local path = ("edges[%d]"):format(i)
    local link = find(links, edge.link, path)
    local ones, one_box = endpoints(edge.ep1, path .. ".ep1")
    local others, other_box = endpoints(edge.ep2, path .. ".ep2")
    local function box(id, whole) return whole and id:match "^[^.]+%.%d+" or id end
    pair(edge, ones, others, path, function(a, b)
      add_edge(graph, box(a, one_box), box(b, other_box), link, "between " .. link.name)
    end)
  end
  return graph
end

local BESIDES <const> = { cpu = true, nic = true, memory = true }

local function kind_of(graph, id) return graph.nodes[id] and graph.nodes[id].kind or "switch" end

-- The links of GPUs that lead to GPUs and switches alone, such as NVLinks: those of the widest class, by its levels.
local function scale_up(graph, leaves)
  local classes, best = {}, nil
  for _, edge in ipairs(graph.edges) do
    local class = classes[edge.link] or { edges = {} }
    classes[edge.link] = class
    class.edges[#class.edges + 1] = edge
    for _, id in ipairs { edge.a, edge.b } do
      local kind = kind_of(graph, id)
      class.besides = class.besides or BESIDES[kind]
      class.gpus = class.gpus or kind == "xpu"
    end
  end
  for name, class in pairs(classes) do
    if class.gpus and not class.besides then
      local levels, wrong = cuts.levels(leaves, class.edges)
      if not levels then fail("links '%s': %s", name, wrong) end
      local width = levels[1] and levels[1].bandwidth or 0
      if levels[1] and (not best or width > best.width) then
        best = { name = name:gsub("^between ", ""), levels = levels, edges = class.edges, width = width }
      end
    end
  end
  return best
end

-- How GPUs that are linked without a switch lie: each to each other one, or in a ring.
local function topology_of(found)
  local degree, size = nil, found.levels[1].size
  if not found.levels[1].direct then return "switch" end
  local others, most = {}, 0
  for _, edge in ipairs(found.edges) do
    for _, ends in ipairs { { edge.a, edge.b }, { edge.b, edge.a } } do
      others[ends[1]] = others[ends[1]] or {}
      others[ends[1]][ends[2]] = true
    end
  end
  for _, list in pairs(others) do
    local count = #check.names(list)
    most, degree = math.max(most, count), math.min(degree or count, count)
  end
  if degree == size - 1 then return size > 2 and "all_to_all" or "switch" end
  if degree == 2 and most == 2 then return "torus", { size } end
  fail("GPUs with links '%s' to some others, and no switch, are no list of tiers", found.name)
end

local function add_tier(tiers, name, level, more)
  local tier = more or {}
  tier.name, tier.size, tier.bandwidth, tier.latency = name, level.size, level.bandwidth, level.latency
  tiers[#tiers + 1] = tier
  return tier
end

-- What joins GPUs of a host beyond their own links: PCIe switches and sockets, up to its NICs.
local function add_host(tiers, graph, leaves, domain)
  local inner = {}
  for _, edge in ipairs(graph.edges) do
    local nic = kind_of(graph, edge.a) == "nic" or kind_of(graph, edge.b) == "nic"
    local here = graph.nodes[edge.a] and graph.nodes[edge.b] and graph.nodes[edge.a].of == graph.nodes[edge.b].of
    if here and not nic then inner[#inner + 1] = edge end
  end
  local levels, wrong = cuts.levels(leaves, inner)
  if not levels then fail("in a host: %s", wrong) end
  for _, level in ipairs(levels) do
    if level.size > domain then
      add_tier(tiers, #tiers == 0 and "pcie" or ("host%d"):format(#tiers), level)
      domain = level.size
    end
  end
end

-- Hosts, or domains of several, as leaves of the network between them; its links, and the NICs at which they end.
local function outside(graph, up)
  local joined = cuts.joined(up and up.edges or {})
  local within, leaf_of, weight, leaves, links, nics = {}, {}, {}, {}, {}, {}
  for _, edge in ipairs(up and up.edges or {}) do within[edge.a], within[edge.b] = true, true end
  local first = {} -- host of each domain
  for _, id in ipairs(graph.gpus) do
    local host, domain = graph.nodes[id].of, joined(id)
    first[domain] = first[domain] or leaf_of[host] or host
    leaf_of[host] = leaf_of[host] or first[domain]
    weight[leaf_of[host]] = (weight[leaf_of[host]] or 0) + 1
  end
  for _, edge in ipairs(graph.edges) do
    local a, b = graph.nodes[edge.a], graph.nodes[edge.b]
    if not (a and b and a.of == b.of) and not (within[edge.a] and within[edge.b]) then
      if a then nics[a.id] = true end
      if b then nics[b.id] = true end
      links[#links + 1] = { a = a and leaf_of[a.of] or edge.a, b = b and leaf_of[b.of] or edge.b,
        bandwidth = edge.bandwidth, latency = edge.latency }
    end
  end
  for id, gpus in pairs(weight) do leaves[#leaves + 1] = { id = id, gpus = gpus } end
  table.sort(leaves, function(x, y) return x.id < y.id end)
  return leaves, links, #check.names(nics)
end

-- Bytes/s of the links of the first leaf, per GPU.
local function port_of(leaves, links)
  local own = 0
  for _, link in ipairs(links) do
    if link.a == leaves[1].id or link.b == leaves[1].id then own = own + (link.bandwidth or 0) end
  end
  return own / leaves[1].gpus
end

local function add_outside(tiers, graph, up)
  local leaves, links, nics = outside(graph, up)
  if #links == 0 then return end
  local levels, wrong = cuts.levels(leaves, links)
  if not levels then fail("between hosts: %s", wrong) end
  local each, port = nics / #graph.gpus, port_of(leaves, links)
  for i, level in ipairs(levels) do
    if i == 1 and level.bandwidth and level.bandwidth < port * (1 - 1e-9) then -- a switch of a single leaf lies between
      add_tier(tiers, "nics", { size = leaves[1].gpus, bandwidth = port / each, latency = level.latency },
        { nics_per_gpu = each })
      add_tier(tiers, "fabric", level)
    elseif i == 1 then
      local tier = add_tier(tiers, "nics", level, { nics_per_gpu = each })
      tier.bandwidth = level.bandwidth and level.bandwidth / each
    else
      add_tier(tiers, ("fabric%d"):format(i), level)
    end
  end
end

local function notes_of(graph, tiers, levels)
  local notes = { "bandwidths are taken as of one direction, and switches to carry all that their ports do",
    "efficiencies are not in it" }
  if graph.notes.lanes then
    notes[#notes + 1] = "rates of transfers, of an unknown number of lanes, are no bandwidths"
  end
  local nics = false
  for _, tier in ipairs(tiers) do nics = nics or tier.nics_per_gpu ~= nil end
  if not nics then
    notes[#notes + 1] = "no network beyond NICs: add a tier with nics_per_gpu for what lies beyond a domain"
  end
  for _, level in ipairs(levels) do
    if level.uneven then notes[#notes + 1] = "GPUs have unequal links: the narrowest are taken" break end
  end
  return notes
end

local function tiers_of(root)
  if root.connections then
    fail "'connections' are of an early InfraGraph; 'edges' with ep1, ep2 and a scheme are read"
  end
  local graph = graph_of(root)
  if #graph.gpus == 0 then fail "no instance of a device has a component of the kind xpu" end
  local leaves, tiers, domain = {}, {}, 1
  table.sort(graph.gpus)
  for i, id in ipairs(graph.gpus) do leaves[i] = { id = id, gpus = 1 } end
  local up = scale_up(graph, leaves)
  if up then
    local topology, axes = topology_of(up)
    for i, level in ipairs(up.levels) do
      add_tier(tiers, i == 1 and up.name or ("%s%d"):format(up.name, i), level,
        i == 1 and { topology = topology, axes = axes } or nil)
      domain = level.size
    end
  end
  add_host(tiers, graph, leaves, domain)
  add_outside(tiers, graph, up)
  if #tiers == 0 then fail "no edge leads from a GPU to another one" end
  return tiers, notes_of(graph, tiers, up and up.levels or {})
end

function infragraph.read(_, content)
  local root = content.infrastructure or content
  local ok, tiers, notes = pcall(tiers_of, root)
  if ok then return tiers, notes end
  if type(tiers) == "table" and tiers.wrong then return nil, tiers.wrong end
  error(tiers, 0)
end

return infragraph
