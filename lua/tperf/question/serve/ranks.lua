--- How a deployment divides its GPUs: sizes of the strategy's axes, the ranks of a replica that share experts, and the
--- number of replicas. docs/serving.md.
local axes = require "tperf.describe.strategy.axes"
local divisors = require "tperf.base.divisors"
local infer = require "tperf.question.infer"
local placement = require "tperf.question.placement"
local refusal = require "tperf.base.refusal"
local rules = require("tperf.describe.rules.sets").of
local serving = require "tperf.question.infer.deployment"

local ranks = {}

local WHAT <const> = "tperf.serve"
local MOST <const> = 1 << 31 -- GPUs

--- Stands in for a problem if step times are given, so that no model restricts the sizes: all divide 0 experts.
function ranks.unpriced(s)
  return { strategy = s, model = { name = "step_time", seq = 1, experts = { count = 0 } }, rules = rules(), o = {} }
end

local function refuse_size(p, o, c, own, name, reason)
  if o[name] then refusal.raise("%s: '%s' = %d %s", WHAT, name, c[name], reason) end
  refusal.raise("%s: the %d experts on %d GPUs would need '%s' = %d, which %s; give other sizes", WHAT,
    p.model.experts.count, p.strategy.grid:gpus(own) * (o.attention_dp or 1), name, c[name], reason)
end

-- Checks given sizes first: those that follow from them may be wrong for the same reason.
local function check_sizes(p, o, c, own)
  for _, given in ipairs { true, false } do
    for _, axis in ipairs(p.strategy.axes) do
      local name = axis.name
      local reason = (o[name] ~= nil) == given and c[name] > 1 and infer.refusal(p, axis, c)
      if reason then refuse_size(p, o, c, own, name, reason) end
    end
  end
  if o.pp > p.model.layers then
    refusal.raise("%s: 'pp' = %d is more than the model's %d layers", WHAT, o.pp, p.model.layers)
  end
end

-- The product of the sizes of the axes that spread experts, except those without a size of their own.
local function folded(s, own, free, usual)
  local product = 1
  for i, axis in ipairs(s.axes) do
    if axes.spreads(axis) and i ~= free and i ~= usual then product = product * own[i] end
  end
  return product
end

-- "'ep' = 8 and 'etp' = 2"
local function said(s, own)
  local parts = {}
  for i, axis in ipairs(s.axes) do
    if axes.spreads(axis) and own[i] > 1 then parts[#parts + 1] = ("'%s' = %d"):format(axis.name, own[i]) end
  end
  return table.concat(parts, " and ")
end

-- The axes that spread experts and are not given: one without a default (ep), and one with (etp).
local function open_axes(s, o)
  local free, usual
  for i, axis in ipairs(s.axes) do
    if axes.spreads(axis) and o[axis.name] == nil then
      if axis.default then usual = usual or i else free = free or i end
    end
  end
  return free, usual
end

local function check_experts(p, o)
  local s, some = p.strategy, false
  for _, axis in ipairs(s.axes) do some = some or axes.spreads(axis) end
  if not (some and p.model.experts) then
    refusal.raise("%s: 'attention_dp' = %d: %s no experts for ranks to share; 'replicas' are engines apart", WHAT,
      o.attention_dp, some and ("model '%s' has"):format(p.model.name) or ("strategy '%s' spreads"):format(s.name))
  end
end

-- Spreads experts over all GPUs of a replica, as far as sizes are not given. Ranks share whole experts if their number
-- allows. Without ranks, `ep` alone leaves the rest of the GPUs to cut each expert, as in the engines.
local function spread(p, o, c, own)
  local s, n_ranks = p.strategy, o.attention_dp or 1
  local free, usual = open_axes(s, o)
  if n_ranks > 1 then check_experts(p, o) elseif free then return end
  local gpus, others = s.grid:gpus(own) * n_ranks, folded(s, own, free, usual)
  local function set(i, size) c[s.axis_names[i]], own[i] = size, size end
  if free then
    if gpus % others ~= 0 then
      refusal.raise("%s: %s do not divide the %d GPUs of 'attention_dp' = %d ranks; give '%s'", WHAT, said(s, own),
        gpus, n_ranks, s.axis_names[free])
    end
    set(free, usual and divisors.gcd(gpus // others, p.model.experts.count) or gpus // others)
    others = others * own[free]
  end
  if usual and (others > 1 or n_ranks > 1) and gpus % others == 0 then set(usual, gpus // others) end
end

-- Engines of axes that cut the batch: those that experts are spread over step together, the others independently.
local function of_batch(s, own)
  local together, apart, over = 1, 1, {}
  for _, axis in ipairs(s.axes) do
    for _, name in ipairs(axes.spreads(axis) and axis.folds or {}) do over[name] = true end
  end
  for i, axis in ipairs(s.axes) do
    if axes.cuts(axis, "batch") then
      if over[axis.name] then together = together * own[i] else apart = apart * own[i] end
    end
  end
  return together, apart
end

--- Sets `replicas` in arguments that the sizes are set in, from those that were asked for.
function ranks.replicate(o, s)
  local sharing = o.sharing
  if not o.attention_dp and o.replicas % sharing ~= 0 then
    refusal.raise("%s: 'replicas' = %d must be a multiple of %d, the replicas over which %s spread%s the experts",
      WHAT, o.replicas, sharing, said(s, o.own), said(s, o.own):find " and " and "" or "s")
  end
  o.replicas = (o.attention_dp and o.replicas or o.replicas // sharing) * o.apart
end

--- Sets in the arguments: `own`, the sizes of the strategy's axes; `sharing`, the replicas that share experts;
--- `rank_gpus`, the GPUs of a rank; `ranks` of a replica; `apart`, the replicas that sizes make of one; and `replicas`
--- of so many ranks.
---@param o table  checked arguments of tperf.serve
---@param p table  a problem of tperf.question.infer.deployment, or ranks.unpriced
function ranks.set(o, p)
  local s, c = p.strategy, {}
  for _, axis in ipairs(s.axes) do c[axis.name] = o[axis.name] end
  local own = serving.own_sizes(p, c)
  spread(p, o, c, own)
  if p.model.layers then check_sizes(p, o, c, own) end
  local sharing, gpus = placement.sharing(s, own), s.grid:gpus(own)
  if not gpus or gpus > MOST // o.pp or not s.grid:folds(own, sharing) then
    refusal.raise("%s: 'pp' x the strategy's axes is more than 2^31 GPUs", WHAT)
  end
  if o.attention_dp and o.attention_dp ~= sharing then
    refusal.raise("%s: %s and 'attention_dp' = %d: the experts are spread over %d rank%s so; leave 'attention_dp' out, "
      .. "or the size", WHAT, said(s, own), o.attention_dp, sharing, sharing == 1 and "" or "s")
  end
  local together, apart = of_batch(s, own)
  o.own, o.sharing, o.ranks, o.apart = own, sharing, sharing * together, apart
  o.rank_gpus = gpus // (together * apart) * o.pp
  ranks.replicate(o, s)
end

--- The sharding of the layers, as text for a cache key.
function ranks.key(p, o)
  return ("%s %s %s"):format(p.strategy.name, table.concat(o.own, " "), serving.chosen(p.strategy, o))
end

--- The number of parts into which the deployment's axes cut a prompt.
function ranks.shards(o, p)
  local c = {}
  for i, name in ipairs(p.strategy.axis_names) do c[name] = o.own[i] end
  return serving.shards(p, c)
end

--- Rounds tokens up to equal parts: engines pad the last part.
function ranks.whole(tokens, shards) return (tokens + shards - 1) // shards * shards end

return ranks
