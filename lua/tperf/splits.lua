--- Why a question of a search has no candidate, and which numbers of GPUs have some.
local space = require "tperf.space"

local splits = {}

-- Whether what was asked for splits so many GPUs at all.
local function exists(p, question, gpus)
  local other, found = { gpus = gpus, global_batch = question.global_batch }, false
  local pps = space.pipeline_sizes(p.model, p.rules, { other }, p.wanted_pps)
  for _, s in ipairs(p.strategies) do
    space.each_shape(s, p.model, p.rules, { other }, pps, p.fixed, {}, function(_, micro_batches)
      found = found or #micro_batches > 0
      return found
    end)
  end
  return found
end

local NEAR <const> = 256 -- numbers tried below and above

-- "; 504 or 512 GPUs have one": the nearest that do, in whole fast domains where there are several.
local function nearest(p, question)
  local domain, list = question.system.network.fast.domain, {}
  local step = question.gpus > domain and domain or 1
  local function first(from, by)
    for i = 0, NEAR - 1 do
      local gpus = from + i * by
      if gpus < 1 then return end
      if exists(p, question, gpus) then
        list[#list + 1] = gpus
        return
      end
    end
  end
  first((question.gpus - 1) // step * step, -step)
  first((question.gpus // step + 1) * step, step)
  return #list > 0 and ("; %s GPUs have one"):format(table.concat(list, " or ")) or ""
end

-- The axes that the strategy would cut this model along.
local function axes_of(p)
  local s, names = p.strategies[1], {}
  for i, name in ipairs(s.axis_names) do
    if i ~= s.expert_axis or p.model.experts then names[#names + 1] = name end
  end
  return names, s.axis_names[s.expert_axis]
end

-- The first reasons why sizes were not admitted, those asked for that divide nothing first. That a model has no experts
-- is a reason only where they were asked for.
local function refusals(p, gpus, expert_axis)
  local list, seen = {}, {}
  local function add(reason)
    if not seen[reason] and #list < 3 then list[#list + 1] = reason end
    seen[reason] = true
  end
  local function asked(name, sizes)
    for _, size in ipairs(sizes or {}) do
      if gpus % size ~= 0 then add(("%s = %d does not divide %d"):format(name, size, gpus)) end
    end
  end
  for _, name in ipairs(p.strategies[1].axis_names) do asked(name, p.fixed[name]) end
  asked("pp", p.wanted_pps)
  asked("dp", p.fixed.dp)
  for _, reason in ipairs(p.refused) do
    local idle = expert_axis and not p.model.experts and not p.fixed[expert_axis]
      and reason:find("^" .. expert_axis .. " ")
    if not idle then add(reason) end
  end
  return table.concat(list, "; ")
end

--- In words.
---@param p table         as problem.of makes it, with `refused`: why sizes were not admitted
---@param question table  one of its
---@param fast table?     the placement asked for
---@return string
function splits.why_none(p, question, fast)
  local domain = question.system.network.fast.domain
  if not p.rules.placements_may_underfill and question.gpus > domain and question.gpus % domain ~= 0 then
    return ("%d GPUs do not fill fast domains of %d exactly, as the rules '%s' demand"):format(question.gpus, domain,
      p.rules.name)
  end
  local axes, expert_axis = axes_of(p)
  local text = ("no split of %d GPUs into %s, pp and dp has pp fitting %d layers, dp x micro-batch dividing the "
    .. "global batch of %d and the sequence of %d cut evenly"):format(question.gpus, table.concat(axes, ", "),
    p.model.layers, question.global_batch, p.model.seq)
  local placed = {}
  for axis, gpus in pairs(fast or {}) do placed[#placed + 1] = ("%s = %d"):format(axis, gpus) end
  if #placed > 0 then
    table.sort(placed)
    text = ("%s, and %s in a fast domain of %d"):format(text, table.concat(placed, ", "), domain)
  end
  local refused = refusals(p, question.gpus, expert_axis)
  if refused ~= "" then text = text .. "; " .. refused end
  return (p.many or #placed > 0 or p.fixed.dp) and text or text .. nearest(p, question)
end

return splits
