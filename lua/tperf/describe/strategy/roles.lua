--- The roles of a strategy's axes, which blocks ask for instead of axis names.
local check = require "tperf.base.check"
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

-- Refuses an order of ranks without each of the axes that multiply GPUs. It may say where replicas and stages lie, too.
local function check_order(s)
  if not s.rank_order then return end
  local seen, expected, others = {}, {}, 0
  for _, axis in ipairs(s.axes) do expected[#expected + 1] = not axis.folds and axis.name or nil end
  for name in s.rank_order:gmatch "[^-]+" do
    local axis = s.axes[s.index[name]]
    if seen[name] or not axis and name ~= "dp" and name ~= "pp" then
      others = 1
      break
    end
    seen[name] = true
    if not axis then others = others + 1 elseif not axis.folds then seen[#seen + 1] = name end
  end
  if #seen ~= #expected or others == 1 then
    check.fail("tperf.strategy '%s': 'rank_order' must have each of the axes %s once, joined by '-', with or without "
      .. "both dp and pp, got %s", s.name, table.concat(expected, ", "), check.show(s.rank_order))
  end
end

--- Sets the names of axes by role, and checks the order of ranks:
---   spread            GPUs that the experts are spread over (ep)
---   expert_features   GPUs that shard each expert (etp); both are false if no axis has the role
---   sequence_axes     a list of those that shard the sequence (cp, ulysses), with all of them as its `name`
function roles.set(s)
  s.spread, s.expert_features, s.sequence_axes = of_experts(s, false), of_experts(s, true), {}
  check_order(s)
  for _, axis in ipairs(s.axes) do
    if has(axis.cuts, "tokens") then table.insert(s.sequence_axes, axis.name) end
  end
  s.sequence_axes.name = table.concat(s.sequence_axes, " ")
end

return roles
