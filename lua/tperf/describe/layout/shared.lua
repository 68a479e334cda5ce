--- Weights that ops of several sections share: a looped model's core, layers that reuse another layer's products. Every
--- stage of a pipeline that has any of these ops holds one copy, so the weights leave their ops and become sections of
--- their own, one for each set of sections that shares some (include/tperf/workload.h).
local refusal = require "tperf.base.refusal"

local shared = {}

-- Calls visit(section's index, block, index, op) for all ops.
local function each(list, visit)
  for s, section in ipairs(list) do
    for _, block in ipairs(section) do
      for i, one in ipairs(block) do visit(s, block, i, one) end
    end
  end
end

-- Whether an op of the section holds what this op of the same block and name borrows.
local function owner_of(section, block, op)
  for _, other in ipairs(section) do
    for _, one in ipairs(other) do
      local is_owner = other.name == block.name and one:counts().name == op:counts().name
        and one:parameters() == op:borrowed()
      if is_owner then return one end
    end
  end
end

-- Ops that borrow weights (weights_elsewhere) from another section, and those that hold them: op -> the tensor's name.
local function borrowed(list)
  local names = {}
  each(list, function(s, block, _, one)
    if one:borrowed() == 0 or one:shared_as() or owner_of(list[s], block, one) then return end
    for _, section in ipairs(list) do
      local owner = owner_of(section, block, one)
      if owner then
        names[one] = owner:shared_as() or ("%s/%s"):format(block.name, one:counts().name)
        names[owner] = names[one]
        return
      end
    end
  end)
  return names
end

-- The tensors that ops share, in order: { name, holder = op, sections = their numbers, { block, index } … }.
local function tensors_of(list)
  local names, tensors = borrowed(list), {}
  each(list, function(s, block, i, one)
    local name = one:shared_as() or names[one]
    if not name then return end
    local tensor = tensors[name]
    if not tensor then
      tensor = { name = name, sections = {} }
      tensors[name], tensors[#tensors + 1] = tensor, tensor
    end
    local last = #tensor.sections
    if tensor.sections[last] ~= s then tensor.sections[last + 1] = s end
    tensor[#tensor + 1] = { block, i }
    local count = one:parameters()
    if count == 0 then return end
    tensor.holder = tensor.holder or one
    local held = tensor.holder:parameters()
    if held ~= count then
      refusal.raise("block '%s', op '%s': the tensor '%s' has %.0f parameters here and %.0f in op '%s'; give tensors "
        .. "that differ different names", block.name, one:counts().name, name, count, held, tensor.holder:counts().name)
    end
  end)
  for _, tensor in ipairs(tensors) do
    if not tensor.holder then
      refusal.raise("no op holds the weights of the tensor '%s': every one of its ops says weights_elsewhere",
        tensor.name)
    end
  end
  return tensors
end

--- Moves shared weights out of the ops of a model's sections, into further sections of `list`; `list.holders` says
--- which sections share each.
---@param list table[][]  sections of lists of ops, changed in place
---@return table[][] list
function shared.extract(list)
  local any = false
  each(list, function(_, _, _, one) any = any or one:borrowed() > 0 or one:shared_as() ~= nil end)
  if not any then return list end
  local at = {} -- numbers of sections, as text -> the section of what they share
  for _, tensor in ipairs(tensors_of(list)) do
    local sharing = table.concat(tensor.sections, " ")
    local section = at[sharing]
    if not section then
      section = { name = "shared" }
      at[sharing], list[#list + 1] = section, { section }
      list.holders = list.holders or {}
      table.insert(list.holders, tensor.sections)
    end
    section[#section + 1] = tensor.holder:alone()
    for _, place in ipairs(tensor) do
      local block, i = table.unpack(place)
      if block[i]:parameters() > 0 then block[i] = block[i]:lent() end
    end
  end
  return list
end

return shared
