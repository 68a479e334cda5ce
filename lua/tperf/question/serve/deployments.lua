--- The deployments that tperf.search_serving tries: sizes of the strategy's axes, and limits of the engines.
local axes = require "tperf.describe.strategy.axes"
local lists = require "tperf.base.lists"
local infer = require "tperf.question.infer"
local placement = require "tperf.question.placement"
local ranks = require "tperf.question.serve.ranks"
local refusal = require "tperf.base.refusal"
local serving = require "tperf.question.infer.deployment"
local strategy = require "tperf.describe.strategy"

local deployments = {}

--- The engine settings that are searched.
deployments.LIMITS = { "max_num_seqs", "max_num_batched_tokens" }

-- Arguments that sizes do not depend on.
local USUAL <const> = {
  attention = "flash", prompt = 1, generate = 1, weight_dtype = "bf16", kv_dtype = "bf16", compute_dtype = "bf16",
  sequence_parallel = false, reserve = 0.1,
}

--- The powers of two up to `most`: 1, 2, 4 …
function deployments.doublings(most)
  local list = { 1 }
  while list[#list] * 2 <= most do list[#list + 1] = list[#list] * 2 end
  return list
end

-- The sizes of an axis to try after those of the axes before it, c: those asked for, else the axis's own, else powers
-- of 2: up to all GPUs for axes that only spread experts, within a fast domain for others.
local function tried(o, p, axis, c, used)
  if o[axis.name] then return o[axis.name] end
  local share = serving.share(p, c)
  if axis.default or not axes.shows(axis, 0) then return { axes.default(axis, p.model, share, p.rules) } end
  if axes.spreads(axis) then return deployments.doublings(p.model.experts and o.gpus or 1) end
  if axis.tries then return axis.tries(p.model, share, p.rules) end
  if axes.cuts(axis, "batch") then return { 1 } end -- a larger size would be more replicas
  return deployments.doublings(math.min(p.system.network.fast.domain, o.gpus) // used)
end

-- The group of ranks of these sizes; nil if they form none.
local function group_of(o, p, c, pp)
  local ranked = { pp = pp, replicas = 1 }
  for name, size in pairs(c) do ranked[name] = size end
  return refusal.attempt(function()
    local own = serving.own_sizes(p, ranked)
    ranked.replicas = placement.sharing(p.strategy, own)
    ranks.set(ranked, p)
    local gpus = ranked.rank_gpus * ranked.ranks * ranked.replicas
    if gpus > o.gpus then return nil end
    return { sizes = c, pp = pp, ranks = ranked.sharing, gpus = gpus }
  end)
end

-- The admitted groups of ranks: { sizes = of the axes by name, pp, ranks, gpus }.
local function groups_of(o, q, s)
  local given = { model = q.model, system = q.system, rules = q.rules, strategy = s }
  for name, value in pairs(USUAL) do given[name] = value end
  for _, name in ipairs(s.option_names) do given[name] = q[name] end
  local p, list, c = serving.problem("tperf.search_serving", given), {}, {}
  local axes_of = p.strategy.axes
  local function each(i, used)
    local axis = axes_of[i]
    for _, size in ipairs(axis and tried(o, p, axis, c, used) or {}) do
      c[axis.name] = size
      if size <= 1 or not infer.refusal(p, axis, c) then each(i + 1, axis.folds and used or used * size) end
      c[axis.name] = nil
    end
    for _, pp in ipairs(not axis and o.pp or {}) do
      local copy = {}
      for _, one in ipairs(axes_of) do copy[one.name] = axes.shows(one, c[one.name]) and c[one.name] or nil end
      local group = group_of(o, p, copy, pp)
      if group and (not o.attention_dp or lists.has(o.attention_dp, group.ranks)) then list[#list + 1] = group end
    end
  end
  each(1, 1)
  return list
end

--- Every deployment: a group's sizes combined with the limits of its engines.
---@param o table  gpus; sizes to try, as lists by the names of axes, pp, attention_dp and LIMITS
---@param q table  the other arguments of tperf.serve, with `strategies`, of tperf.question.search.strategies
---@return table[] deployments  with `of`, the group of ranks: { sizes, pp, ranks, gpus }
function deployments.all(o, q)
  local list = {}
  local function add(s, group, seqs, tokens)
    local d = { strategy = s.name, pp = group.pp, attention_dp = group.ranks, max_num_seqs = seqs,
      max_num_batched_tokens = tokens, of = group }
    for name, size in pairs(group.sizes) do d[name] = size end
    list[#list + 1] = d
  end
  for _, one in ipairs(q.strategies) do
    for _, group in ipairs(groups_of(o, q, one.strategy)) do
      for _, seqs in ipairs(o.max_num_seqs) do
        for _, tokens in ipairs(o.max_num_batched_tokens) do add(one.strategy, group, seqs, tokens) end
      end
    end
  end
  return list
end

--- The question to tperf.serve about `groups` groups of a deployment's ranks.
function deployments.question(q, d, groups)
  local one = { engine = {} }
  for name, value in pairs(q) do
    if name ~= "engine" and name ~= "strategies" then one[name] = value end
  end
  one.strategy = d.strategy -- its name, by which other processes look it up
  local _, others = axes.strangers(strategy.of(d.strategy))
  for _, name in ipairs(others) do one[name] = nil end
  for name, size in pairs(d.of.sizes) do one[name] = size end
  one.pp, one.replicas = d.pp, d.of.ranks * groups
  for name, value in pairs(q.engine) do one.engine[name] = value end
  for _, name in ipairs(deployments.LIMITS) do one.engine[name] = d[name] end
  return one
end

--- "tp, etp, ep and pp": the sizes that are searched.
function deployments.named(q)
  local names, known = {}, {}
  for _, one in ipairs(q.strategies) do
    for _, axis in ipairs(one.strategy.axes) do
      if axes.shows(axis, 0) and not known[axis.name] then names[#names + 1] = axis.name end
      known[axis.name] = true
    end
  end
  return table.concat(names, ", ") .. " and pp"
end

return deployments
