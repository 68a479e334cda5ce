--- Who is who in a cluster: ranks as Megatron-LM numbers them, the strategy's axes first (tp, cp …), then dp, then pp.
-- Axes that fold over others (etp, ep) number the GPUs of these in the same order.
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

--- Where a rank stands on an axis, from 0.
function ranks:at(rank, axis) return rank // self.strides[axis] % self.sizes[axis] end

--- The rank that differs from this one by its place on an axis.
function ranks:moved(rank, axis, to) return rank + (to - self:at(rank, axis)) * self.strides[axis] end

-- All combinations over some axes.
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

-- The ranks of a rank's group along an axis that folds over others.
local function folded_group(self, rank, fold)
  local place, whole = 0, 1 -- among the GPUs that it folds over
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

--- The ranks of a rank's group: of an axis, or of "replicas", which have the same weights.
---@return integer[]
function ranks:group(rank, axis)
  if axis == "replicas" then return over(self, rank, self.replicas) end
  if self.folded[axis] then return folded_group(self, rank, self.folded[axis]) end
  return over(self, rank, { axis })
end

--- The number of GPUs in a group of that axis.
function ranks:size(axis)
  if self.folded[axis] then return self.folded[axis].size end
  local size = 1
  for _, name in ipairs(axis == "replicas" and self.replicas or { axis }) do size = size * self.sizes[name] end
  return size
end

--- The name of a rank's group, the same for all its members: a number from 1, given when it is first asked for.
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
