--- The roles of a strategy's axes, which blocks ask for instead of axis names.
local has = require "tperf.base.lists".has

local roles = {}

--- Fills in what an axis cuts and folds over.
function roles.complete(s, axis)
  local replicates = has(s.gradient_axes, axis.name)
  if axis.experts then axis.cuts, axis.folds = axis.cuts or { "experts" }, axis.folds or { "dp" } end
  axis.cuts = axis.cuts or replicates and { "tokens" } or { "weights", "experts" }
end

-- The folded axis that cuts experts and does, or does not, cut features; false if there is none.
local function of_experts(s, features)
  for _, axis in ipairs(s.axes) do
    if axis.folds and has(axis.cuts, "experts") and has(axis.cuts, "features") == features then return axis.name end
  end
  return false
end

--- Sets the names of axes by role:
---   spread            GPUs that the experts are spread over (ep)
---   expert_features   GPUs that shard each expert (etp); both are false if no axis has the role
---   sequence_axes     a list of those that shard the sequence (cp, ulysses), with all of them as its `name`
function roles.set(s)
  s.spread, s.expert_features, s.sequence_axes = of_experts(s, false), of_experts(s, true), {}
  for _, axis in ipairs(s.axes) do
    if has(axis.cuts, "tokens") then table.insert(s.sequence_axes, axis.name) end
  end
  s.sequence_axes.name = table.concat(s.sequence_axes, " ")
end

return roles
