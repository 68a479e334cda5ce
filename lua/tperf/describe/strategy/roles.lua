--- What becomes of a layer along the axes of a strategy: roles that blocks ask for, whatever an axis is called.
local roles = {}

local function has(list, what)
  for _, one in ipairs(list) do
    if one == what then return true end
  end
  return false
end

--- Says in full what an axis cuts and folds over.
function roles.complete(s, axis)
  local replicates = has(s.gradient_axes, axis.name)
  if axis.experts then axis.cuts, axis.folds = axis.cuts or { "experts" }, axis.folds or { "dp" } end
  axis.cuts = axis.cuts or replicates and { "tokens" } or { "weights", "experts" }
end

-- The folded axis that cuts experts and has, or has not, to do with features; false where there is none.
local function of_experts(s, features)
  for _, axis in ipairs(s.axes) do
    if axis.folds and has(axis.cuts, "experts") and has(axis.cuts, "features") == features then return axis.name end
  end
  return false
end

--- Sets the names of axes by what they do:
---   spread            GPUs that share experts out (ep)
---   expert_features   GPUs that cut each expert (etp); both false where no axis does so
---   sequence_axes     a list of those that cut a sequence (cp, ulysses), and all of them as its `name`
function roles.set(s)
  s.spread, s.expert_features, s.sequence_axes = of_experts(s, false), of_experts(s, true), {}
  for _, axis in ipairs(s.axes) do
    if has(axis.cuts, "tokens") then table.insert(s.sequence_axes, axis.name) end
  end
  s.sequence_axes.name = table.concat(s.sequence_axes, " ")
end

return roles
