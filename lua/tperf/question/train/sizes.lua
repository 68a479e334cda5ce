--- Completes the sizes of one configuration, and refuses sizes that do not divide what they cut.
local stated = require "tperf.describe.model.stated"
local axes = require "tperf.describe.strategy.axes"
local nearest = require "tperf.base.lazy".module "tperf.base.nearest"
local pipelines = require "tperf.question.search.pipelines"
local refusal = require "tperf.base.refusal"
local space = require "tperf.question.search.space"
local strategy = require "tperf.describe.strategy"

local train_sizes = {}

local function divide(whole, part, what, whole_name)
  if whole % part ~= 0 then
    refusal.raise("tperf.train: %s = %d does not divide %s of %d; %s", what, part, whole_name, whole,
      nearest.divisors(whole, part))
  end
  return whole // part
end

-- The sizes of the strategy's axes; sets those left open to their defaults.
local function own_of(o, s, m, set)
  local given, options = { sequence_parallel = o.sequence_parallel }, s.option_names
  for i = 1, #options do given[options[i]] = o[options[i]] end
  local own, share = {}, strategy.share(s, m, o.micro_batch, {}, set, given)
  for i, axis in ipairs(s.axes) do
    if o[axis.name] == nil then o[axis.name] = axes.default(axis, m, share, set) end
    own[i], share[axis.name] = o[axis.name], o[axis.name]
  end
  return own, share
end

-- "tp x pp": what divides the GPUs among replicas; folded axes do not.
local function dividers(o, s)
  local names = {}
  for _, axis in ipairs(s.axes) do names[#names + 1] = not axis.folds and o[axis.name] > 1 and axis.name or nil end
  names[#names + 1] = o.pp > 1 and "pp" or nil
  return table.concat(names, " x ")
end

-- Sets gpus and dp, which follow from each other.
local function complete(o, s, own)
  local product = s.grid:gpus(own)
  if not product or o.pp > (1 << 31) // product then refusal.raise("tperf.train: more than 2^31 GPUs") end
  product = product * o.pp
  if not o.dp then
    o.dp = o.gpus and divide(o.gpus, product, dividers(o, s), "'gpus'") or 1
  end
  if o.dp > (1 << 31) // product then refusal.raise("tperf.train: more than 2^31 GPUs") end
  if o.gpus and o.gpus ~= product * o.dp then
    refusal.raise("tperf.train: 'gpus' is %d, but the axes multiply to %d", o.gpus, product * o.dp)
  end
  o.gpus = product * o.dp
end

--- Sets the sizes that are left open: of the strategy's axes, gpus and dp.
---@return table sizes  { own = the axes' sizes, share }
function train_sizes.of(o, s, m, set)
  local own, share = own_of(o, s, m, set)
  complete(o, s, own)
  if m.architecture then own.dp = stated.replicas(m, o.dp) end
  return { own = own, share = share }
end

-- Refuses tokens that the shards of a sequence do not divide.
local function divide_tokens(o, s, tokens, shards)
  if tokens % shards == 0 then return end
  local names = {}
  for _, axis in ipairs(s.axes) do
    if not axis.folds and o[axis.name] > 1 then names[#names + 1] = axis.name end
  end
  local what = #names > 1 and "the number of shards of the sequence (" .. table.concat(names, ", ") .. ")" or names[1]
  divide(tokens, shards, what, "the tokens of a micro-batch,")
end

-- Refuses axes that do not divide the axes that they fold over.
local function check_folds(o, s, own)
  for i, axis in ipairs(s.axes) do
    if o.zero == 0 and own[i] > 0 and axes.cuts(axis, "state") then
      refusal.raise("tperf.train: '%s' = %d wants a ZeRO stage from 1 on, which shards something", axis.name, own[i])
    end
  end
  if s.grid:folds(own, o.dp) then return end
  for i, axis in ipairs(s.axes) do
    local over, folded, names = 1, 1, {}
    for _, name in ipairs(axis.folds or {}) do
      over, names[#names + 1] = over * o[name], name
    end
    for j = 1, i do
      if axis.folds and s.axes[j].folds and s.axes[j].cuts[1] == axis.cuts[1] then folded = folded * own[j] end
    end
    if axis.folds and own[i] > 0 and over % folded ~= 0 then
      local rest = folded // own[i]
      refusal.raise("tperf.train: %s = %d%s does not divide %s = %d; %s", axis.name, own[i],
        rest > 1 and (" (x %d of the axes before it)"):format(rest) or "", table.concat(names, " x "), over,
        nearest.divisors(math.max(over // rest, 1), own[i]))
    end
  end
end

--- Refuses a batch and a pipeline that the sizes do not divide.
---@return integer microbatches
function train_sizes.check_batch(o, s, p, own)
  if o.pp > p.model.layers then
    refusal.raise("tperf.train: pp = %d is more than the model's %d layers", o.pp, p.model.layers)
  end
  if #p.pps == 0 then
    refusal.raise("tperf.train: pp = %d does not divide the model's %d layers, as the rules '%s' demand; %s", o.pp,
      p.model.layers, p.rules.name, nearest.divisors(p.model.layers, o.pp))
  end
  local ways = s.grid:batch(own)
  local replica = divide(o.global_batch, o.dp * ways, ways > 1 and "the number of replicas" or "dp", "'global_batch'")
  divide(replica, o.micro_batch, "micro_batch", "the global batch of one replica,")
  if #p.pipeline_list == 0 and p.dealt then
    refusal.raise("tperf.train: the layers cannot be dealt out to %d x %d stages as asked: give pp and virtual_stages "
      .. "that go with %s", o.pp, o.virtual_stages or 1, p.dealt)
  elseif #p.pipeline_list == 0 then
    refusal.raise("tperf.train: %s", pipelines.why_none(o.schedule, o.pp, o.virtual_stages, p.model.layers))
  end
  return replica // o.micro_batch
end

--- Refuses sizes that the strategy does not admit, whatever the batch.
function train_sizes.check_cut(o, s, p, own, share)
  for _, axis in ipairs(s.axes) do
    local admitted, reason = axis.admits(p.model, share, p.rules)
    if not admitted then
      refusal.raise("tperf.train: %s = %d %s; %s", axis.name, o[axis.name], reason or "is not admitted",
        space.nearest_sizes(axis, p.model, share, p.rules))
    end
  end
  local allowed, why = stated.admits(p.model, s, share)
  if not allowed then refusal.raise("tperf.train: %s", why) end
  check_folds(o, s, own)
  local shards = s.sequence_shards(share)
  if not p.rules.shards_divide_sequence then
    divide_tokens(o, s, o.micro_batch * p.model.seq, shards)
    return
  end
  for _, seq in ipairs(stated.sequences(p.model, true)) do
    divide_tokens(o, s, seq, shards)
  end
end

local function take(used, part, domain)
  if part > domain // used then
    refusal.raise("tperf.train: the placement takes more GPUs than the %d of a fast domain", domain)
  end
  return used * part
end

--- The checked placement, if all of it is given; else nil.
function train_sizes.placement(o, s, own, domain)
  local given = o.fast
  if not given then return nil end
  for name, part in next, given do
    if o[name] % part ~= 0 then divide(o[name], part, "fast." .. name, name) end
  end
  if not (given.dp and given.pp) then return nil end
  local used, fast = 1, { given.dp, given.pp }
  for i, axis in ipairs(s.axes) do
    if not axis.folds and not given[axis.name] then return nil end
    fast[2 + i] = given[axis.name] or 1
    if not axis.folds then used = take(used, fast[2 + i], domain) end
  end
  take(take(used, fast[1], domain), fast[2], domain)
  local whole = s.grid:fold(own, fast)
  for i, axis in ipairs(s.axes) do
    if axis.folds and given[axis.name] then whole[2 + i] = given[axis.name] end
  end
  return whole
end

return train_sizes
