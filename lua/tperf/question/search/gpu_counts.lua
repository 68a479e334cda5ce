--- Why a question of a search has no candidate, and which numbers of GPUs have one.
local axes = require "tperf.describe.strategy.axes"
local divisors = require "tperf.base.divisors"
local nearest = require "tperf.base.nearest"
local pipelines = require "tperf.question.search.pipelines"
local space = require "tperf.question.search.space"
local strategy = require "tperf.describe.strategy"

local splits = {}

-- Whether the sizes asked for can split so many GPUs at all.
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

local NEAR <const> = 256 -- numbers tried below, and above

-- "; 504 or 512 GPUs have one": the nearest counts that work, as whole fast domains beyond one domain.
local function counts_near(p, question)
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

-- The axes along which the strategy could cut this model.
local function axes_of(p)
  local s, names = p.strategies[1], {}
  for _, axis in ipairs(s.axes) do
    if axes.matters(axis, p.model) and axes.shows(axis, 0) then names[#names + 1] = axis.name end
  end
  return names
end

local MOST_REASONS <const> = 3

local function reasons()
  local list, seen = {}, {}
  return list, function(reason)
    if not seen[reason] and #list < MOST_REASONS then list[#list + 1] = reason end
    seen[reason] = true
  end
end

-- Why a size of an axis is not possible, and the nearest sizes that divide the GPUs and are admitted; nil if it is
-- possible.
local function wrong_size(p, axis, size, gpus)
  local share = strategy.share(p.strategies[1], p.model, 1, {}, p.rules)
  for _, name in ipairs(p.strategies[1].axis_names) do share[name] = 1 end
  local function admits(n)
    share[axis.name] = n
    return axis.admits(p.model, share, p.rules)
  end
  local admitted, reason = admits(size)
  if admitted and gpus % size == 0 then return nil end
  if admitted then reason = ("does not divide %d"):format(gpus) end
  local list = {}
  for _, n in ipairs(divisors.of(gpus)) do
    if admits(n) then list[#list + 1] = n end
  end
  return ("%s = %d %s; %s"):format(axis.name, size, reason or "is not admitted", nearest.of(list, size))
end

-- What is wrong with the sizes asked for: of the first strategy's axes, pp and dp.
local function wrong_sizes(p, question)
  local list, add = reasons()
  local gpus, batch = question.gpus, question.global_batch
  for _, axis in ipairs(p.strategies[1].axes) do
    for _, size in ipairs(p.fixed[axis.name] or {}) do
      local reason = wrong_size(p, axis, size, gpus)
      if reason then add(reason) end
    end
  end
  local pps = p.wanted_pps and space.pipeline_sizes(p.model, p.rules, { question }) or {}
  for _, pp in ipairs(p.wanted_pps or {}) do
    local reason = pp > p.model.layers and ("is more than the model's %d layers"):format(p.model.layers)
      or gpus % pp ~= 0 and ("does not divide %d"):format(gpus)
      or not p.rules.stages_may_differ and p.model.layers % pp ~= 0
      and ("does not divide the model's %d layers"):format(p.model.layers)
    if reason then add(("pp = %d %s; %s"):format(pp, reason, nearest.of(pps, pp))) end
  end
  for _, dp in ipairs(p.fixed.dp or {}) do
    local reason = gpus % dp ~= 0 and ("does not divide %d"):format(gpus)
      or batch % dp ~= 0 and ("does not divide the global batch of %d"):format(batch)
    if reason then add(("dp = %d %s; %s"):format(dp, reason, nearest.divisors(divisors.gcd(gpus, batch), dp))) end
  end
  if #p.pipeline_list == 0 and #p.pps > 0 then
    add(pipelines.why_none(p.schedules[1], p.pps[1], p.virtual_stages and p.virtual_stages[1], p.model.layers))
  end
  return table.concat(list, "; ")
end

-- The first reasons why tried sizes were not admitted, except for axes that do not matter to the model.
local function refusals(p)
  local list, add = reasons()
  local idle = {} -- axes that do not matter to the model
  for _, s in ipairs(p.strategies) do
    for _, axis in ipairs(s.axes) do idle[axis.name] = not axes.matters(axis, p.model) end
  end
  for _, reason in ipairs(p.refused) do
    if not idle[reason:match "^[%w_]+"] then add(reason) end
  end
  return table.concat(list, "; ")
end

--- The reason in words.
---@param p table         of problem.of, with `refused`: why sizes were not admitted
---@param question table  one of its questions
---@param fast table?     the placement asked for
---@return string
---@param left_out string[]?  of search_walk.left_out
function splits.why_none(p, question, fast, left_out)
  local domain = question.system.network.fast.domain
  if not p.rules.placements_may_underfill and question.gpus > domain and question.gpus % domain ~= 0 then
    return ("%d GPUs do not fill fast domains of %d exactly, as the rules '%s' demand"):format(question.gpus, domain,
      p.rules.name)
  end
  local names = axes_of(p)
  local text = ("no split of %d GPUs into %s, pp and dp"):format(question.gpus, table.concat(names, ", "))
  local wrong = wrong_sizes(p, question)
  if wrong ~= "" then return text .. ": " .. wrong end
  if left_out then return ("%s can be laid out: %s"):format(text, table.concat(left_out, "; ")) end
  local orders = p.placed.orders
  if orders and exists(p, question, question.gpus) then -- there are splits, and none can be placed
    return ("%s can be placed in the order of ranks %s; give another rank_order, or placement = \"best\""):format(text,
      orders[p.strategies[1]].text)
  end
  text = ("%s has pp fitting %d layers, dp x micro-batch dividing the global batch of %d and the sequence of %d cut "
    .. "evenly"):format(text, p.model.layers, question.global_batch, p.model.seq)
  local placed = {}
  for axis, gpus in pairs(fast or {}) do placed[#placed + 1] = ("%s = %d"):format(axis, gpus) end
  if #placed > 0 then
    table.sort(placed)
    text = ("%s, and %s in a fast domain of %d"):format(text, table.concat(placed, ", "), domain)
  end
  local refused = refusals(p)
  if refused ~= "" then text = text .. "; " .. refused end
  return (p.many or #placed > 0 or p.fixed.dp) and text or text .. counts_near(p, question)
end

return splits
