--- The ranks of a cluster, numbered as by Megatron-LM: the strategy's axes first (tp, cp …), then dp, then pp.
-- Axes folded over others (etp, ep) number the same GPUs in the same order.
local axes = require "tperf.describe.strategy.axes"
local strategy = require "tperf.describe.strategy"

local ranks = {}
ranks.__index = ranks

---@param c table  a configuration
function ranks.of(c)
  local s = strategy.of(c.strategy)
  local self = setmetatable({ sizes = {}, strides = {}, total = 1, groups = {}, names = {} }, ranks)
  local function axis(name, size)
    self.sizes[name], self.strides[name], self.total = size, self.total, self.total * size
  end
  self.folded = {}
  for _, one in ipairs(s.axes) do
    if not one.folds then axis(one.name, c[one.name] or 1) end
  end
  axis("dp", c.dp)
  axis("pp", c.pp)
  local inner = 1
  for _, one in ipairs(s.axes) do
    if axes.spreads(one) then
      self.folded[one.name] = { over = one.folds, inner = inner, size = c[one.name] or 1 }
      inner = inner * self.folded[one.name].size
    end
  end
  self.replicas = { "dp" }
  for _, one in ipairs(s.axes) do
    if not one.folds and not axes.cuts(one, "weights") then table.insert(self.replicas, one.name) end
  end
  return self
end

--- The position of a rank along an axis, from 0.
function ranks:at(rank, axis) return rank // self.strides[axis] % self.sizes[axis] end

--- The rank at another position along an axis, equal in all others.
function ranks:moved(rank, axis, to) return rank + (to - self:at(rank, axis)) * self.strides[axis] end

-- The ranks that differ from this one only along the named axes, sorted.
local function over(self, rank, names)
  local list = { rank }
  for _, axis in ipairs(names) do
    local wider = {}
    for _, one in ipairs(list) do
      for i = 0, self.sizes[axis] - 1 do wider[#wider + 1] = self:moved(one, axis, i) end
    end
    list = wider
  end
  table.sort(list)
  return list
end

-- The ranks of a rank's group along a folded axis, sorted.
local function folded_group(self, rank, fold)
  local place, whole = 0, 1 -- position and number of the GPUs it is folded over
  for _, name in ipairs(fold.over) do
    place, whole = place + self:at(rank, name) * whole, whole * self.sizes[name]
  end
  local list, first = {}, place - place // fold.inner % fold.size * fold.inner
  for i = 0, fold.size - 1 do
    local rest, member = first + i * fold.inner, rank
    for _, name in ipairs(fold.over) do
      member, rest = self:moved(member, name, rest % self.sizes[name]), rest // self.sizes[name]
    end
    list[#list + 1] = member
  end
  table.sort(list)
  return list
end

--- The ranks of a rank's group along an axis, or of "replicas", the ranks with the same weights; sorted.
---@return integer[]
function ranks:group(rank, axis)
  if axis == "replicas" then return over(self, rank, self.replicas) end
  if self.folded[axis] then return folded_group(self, rank, self.folded[axis]) end
  return over(self, rank, { axis })
end

--- The number of GPUs in a group along an axis.
function ranks:size(axis)
  if self.folded[axis] then return self.folded[axis].size end
  local size = 1
  for _, name in ipairs(axis == "replicas" and self.replicas or { axis }) do size = size * self.sizes[name] end
  return size
end

--- The name of a rank's group, equal for all its members: a number from 1 in order of the first call.
function ranks:name(rank, axis)
  local members = self:group(rank, axis)
  local text = table.concat(members, ",")
  if not self.names[text] then
    self.groups[#self.groups + 1] = members
    self.names[text] = tostring(#self.groups)
  end
  return self.names[text]
end

return ranks
