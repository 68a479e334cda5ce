--- A graph of links as levels: how many GPUs each joins, and the capacity of the cut below it.
local cuts = {}

-- Steps from the nearest leaf to each node; the farthest.
local function depths_of(leaves, links)
  local beside, depth, queue = {}, {}, {}
  for _, link in ipairs(links) do
    for _, end_ in ipairs { { link.a, link.b }, { link.b, link.a } } do
      beside[end_[1]] = beside[end_[1]] or {}
      table.insert(beside[end_[1]], end_[2])
    end
  end
  for _, leaf in ipairs(leaves) do depth[leaf.id], queue[#queue + 1] = 0, leaf.id end
  local farthest = 0
  for i = 1, math.huge do
    local node = queue[i]
    if not node then return depth, farthest end
    farthest = depth[node]
    for _, other in ipairs(beside[node] or {}) do
      if not depth[other] then depth[other], queue[#queue + 1] = depth[node] + 1, other end
    end
  end
end

-- Sets of nodes that grow together, with the GPUs of each.
local function sets_of(leaves)
  local parent, gpus, self = {}, {}, {}
  function self.root(node)
    local at = node
    while parent[at] do at = parent[at] end
    while parent[node] do parent[node], node = at ~= node and at or nil, parent[node] end
    return at
  end
  function self.gpus(node) return gpus[self.root(node)] or 0 end
  function self.join(a, b)
    a, b = self.root(a), self.root(b)
    if a == b then return end
    parent[b], gpus[a] = a, (gpus[a] or 0) + (gpus[b] or 0)
  end
  for _, leaf in ipairs(leaves) do gpus[leaf.id] = leaf.gpus end
  return self
end

-- The cut of a step's links: the capacity out of each set with GPUs, per GPU, the smallest, or nil if a link's is
-- unknown; whether all are equal; the longest latency. nil if they leave no set.
local function cut_of(step, sets)
  local sums, latency, known = {}, nil, true
  for _, link in ipairs(step) do
    for _, node in ipairs { link.a, link.b } do
      local root = sets.root(node)
      if sets.gpus(root) > 0 and sets.root(link.a) ~= sets.root(link.b) then
        known = known and link.bandwidth ~= nil
        sums[root] = (sums[root] or 0) + (link.bandwidth or 0)
      end
    end
    if link.latency then latency = math.max(latency or 0, link.latency) end
  end
  if not next(sums) then return nil end
  local least, most = math.huge, 0
  for root, sum in pairs(sums) do
    local each = sum / sets.gpus(root)
    least, most = math.min(least, each), math.max(most, each)
  end
  return { bandwidth = known and least or nil, even = least == most, latency = latency }
end

-- The GPUs of each set; nil and both sizes if they differ.
local function size_of(leaves, sets)
  local size
  for _, leaf in ipairs(leaves) do
    local here = sets.gpus(leaf.id)
    if size and here ~= size then return nil, size, here end
    size = here
  end
  return size
end

local function outer(link, depth) return depth[link.a] > depth[link.b] and link.a or link.b end

--- Which nodes the links join: a function from a node to one that stands for all that are joined with it.
---@param links table[]  { a =, b = }
---@return fun(node: string): string
function cuts.joined(links)
  local sets = sets_of {}
  for _, link in ipairs(links) do sets.join(link.a, link.b) end
  return sets.root
end

--- The levels of a graph, from its leaves out. A switch lies as far out as its nearest leaf; a level's links lead from
-- what the level inward joined one step out, or between equals.
---@param leaves table[]  { id =, gpus = }, not empty
---@param links table[]   { a =, b = nodes, bandwidth = bytes/s one way or nil, latency = s or nil }
---@return table[]? levels  { size = GPUs joined, bandwidth = bytes/s of the narrowest cut passed, per GPU, or nil,
---                          latency =, direct = joined without a switch, uneven = the cuts differ, via = a node at
---                          which links of the level end }
---@return string? wrong
function cuts.levels(leaves, links)
  local depth, farthest = depths_of(leaves, links)
  local steps = {}
  for i = 0, 2 * farthest do steps[i] = {} end
  for _, link in ipairs(links) do
    local a, b = depth[link.a], depth[link.b]
    if a then table.insert(steps[a + b], link) end -- what no leaf reaches has no depth
  end
  local sets, levels = sets_of(leaves), {}
  local size, narrow, known, even = size_of(leaves, sets), math.huge, true, true
  for i = 0, 2 * farthest do
    local cut = cut_of(steps[i], sets)
    if cut then
      known, even = known and cut.bandwidth ~= nil, even and cut.even
      narrow = math.min(narrow, cut.bandwidth or narrow)
    end
    for _, link in ipairs(steps[i]) do sets.join(link.a, link.b) end
    local now, one, other = size_of(leaves, sets)
    if not now then return nil, ("units of %d and of %d GPUs at one level are no tier"):format(one, other) end
    if now > size then
      size = now
      levels[#levels + 1] = { size = size, bandwidth = known and narrow or nil, latency = cut.latency,
        direct = i == 0, uneven = not even, via = outer(steps[i][1], depth) }
      narrow, known, even = math.huge, true, true
    end
  end
  return levels
end

return cuts
