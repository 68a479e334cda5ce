--- The shapes of a search: every size of a strategy's axes and every micro-batch that some question allows.
-- docs/model.md section 7. The core walks the rest: pipelines, placements, panels.
local divisors = require "tperf.base.divisors"
local lists = require "tperf.base.lists"
local nearest = require "tperf.base.lazy".module "tperf.base.nearest"
local stated = require "tperf.describe.model.stated"
local strategy = require "tperf.describe.strategy"

local space = {}

local MOST_TOKENS = 1 << 53 -- exactly representable; no GPU holds that many

local function divides_any(n, questions)
  for _, q in ipairs(questions) do
    if q.gpus % n == 0 then return true end
  end
  return false
end

-- One question for each number of GPUs: sizes do not depend on the system. All questions share one batch.
local function of_each_count(questions)
  local seen, list = {}, {}
  for _, q in ipairs(questions) do
    if not seen[q.gpus] then list[#list + 1] = q end
    seen[q.gpus] = true
  end
  return list
end

-- The divisors of all the questions' GPU counts, ascending.
local function gpu_divisors(questions)
  local seen, list = {}, {}
  for _, q in ipairs(of_each_count(questions)) do
    for _, d in ipairs(divisors.of(q.gpus)) do
      if not seen[d] then
        seen[d] = true
        list[#list + 1] = d
      end
    end
  end
  table.sort(list)
  return list
end

-- The GPUs that the axes before `axis` take: `product` of those that multiply; `folded` by the axes that fold over the
-- same axes as this one, out of `over`.
local function taken_by(s, axis, sizes)
  local product, folded, over = 1, 1, 1
  for i, other in ipairs(s.axes) do
    if other == axis then break end
    if not other.folds then
      product = product * sizes[i]
    elseif axis.folds and other.cuts[1] == axis.cuts[1] then
      folded = folded * sizes[i]
    end
  end
  for _, name in ipairs(axis.folds or {}) do over = over * (s.index[name] and sizes[s.index[name]] or 1) end
  return product, folded, over
end

-- The sizes of an axis to try: those asked for, else those that the strategy suggests, else all candidates.
local function sizes_to_try(axis, fixed, candidates, model, share, rules)
  local asked = fixed[axis.name]
  if not asked then return axis.tries and axis.tries(model, share, rules) or candidates end
  return asked
end

-- Returns a test whether a size divides the GPUs that are left for an axis, in some question.
local function divider(s, axis, sizes, questions)
  local product, folded, over = taken_by(s, axis, sizes)
  if not axis.folds then
    return function(size) return divides_any(product * size, questions) end
  end
  return function(size)
    if size == 0 then return true end
    for _, q in ipairs(questions) do
      if q.gpus % product == 0 and over * (q.gpus // product) % (folded * size) == 0 then return true end
    end
    return false
  end
end

local function all_one(share, axes)
  for _, name in ipairs(axes) do
    if share[name] > 1 then return false end
  end
  return true
end

-- Calls visit(sizes, share) for every combination of sizes of the strategy's axes that divides some question's GPUs,
-- respects `fixed` (axis name -> list of allowed sizes) and is admitted by the strategy. Appends to `refused` why sizes
-- were not admitted.
local function each_size(s, model, rules, questions, fixed, refused, visit)
  local candidates = gpu_divisors(questions)
  local share, sizes, left = { micro_batch = 1, seq = model.seq }, {}, fixed.left[s.name]
  local function refuse(axis, size, reason)
    local text = ("%s = %d %s"):format(axis.name, size, reason or "is not admitted")
    refused[#refused + 1] = #refused < 100 and text or nil
  end
  local function descend(i)
    local axis = s.axes[i]
    if not axis then
      if left and all_one(share, left) then return false end
      local admitted, reason = stated.admits(model, s, share)
      if admitted then return visit(sizes, share) end
      refused[#refused + 1] = #refused < 100 and reason or nil
      return false
    end
    local divides = divider(s, axis, sizes, questions)
    for _, size in ipairs(sizes_to_try(axis, fixed, candidates, model, share, rules)) do
      if divides(size) then
        share[axis.name], sizes[i] = size, size
        local admitted, reason = axis.admits(model, share, rules)
        if not admitted then
          refuse(axis, size, reason)
        elseif descend(i + 1) then
          return true
        end
      end
    end
    share[axis.name], sizes[i] = nil, nil
  end
  descend(1)
end

-- Whether some axis folds over others: then the sizes of all of them decide how many replicas there may be.
local function folds(s, sizes)
  for i, axis in ipairs(s.axes) do
    if axis.folds and sizes[i] > 1 then return true end
  end
  return false
end

-- The batches per iteration that a data-parallel replica may have with these axes, over all pipeline sizes and
-- questions, less those that divide another one: what divides them divides that, too. only: so many replicas (any).
local function replica_batches(s, sizes, pps, questions, only)
  local set, product, ways = {}, s.grid:gpus(sizes), s.grid:batch(sizes)
  local folded = product and folds(s, sizes)
  for _, q in ipairs(product and questions or {}) do
    local gpus = q.gpus // product
    for _, pp in ipairs(q.gpus % product == 0 and pps or {}) do
      local dp = gpus // pp
      local fits = gpus % pp == 0 and q.global_batch % (dp * ways) == 0 and (not folded or s.grid:folds(sizes, dp))
      if fits and (dp == only or not only) then
        set[q.global_batch // (dp * ways)] = true
      end
    end
  end
  local all, largest = {}, {}
  for batch in pairs(set) do all[#all + 1] = batch end
  table.sort(all, function(a, b) return a > b end)
  for _, batch in ipairs(all) do
    local within = false
    for i = 1, #largest do within = within or largest[i] % batch == 0 end
    largest[#largest + 1] = not within and batch or nil
  end
  return largest
end

local function micro_batches(replicas, shards, model, rules, fixed)
  local seen, list = {}, {}
  for _, seq in ipairs(rules.shards_divide_sequence and stated.sequences(model, true) or {}) do
    if seq % shards ~= 0 then return list end
  end
  for _, batch in ipairs(replicas) do
    for _, b in ipairs(fixed or divisors.of(batch)) do
      if not seen[b] and batch % b == 0 and b <= MOST_TOKENS // model.seq then
        local cut = rules.shards_divide_sequence and model.seq or b * model.seq
        if cut % shards == 0 then
          seen[b] = true
          list[#list + 1] = b
        end
      end
    end
  end
  table.sort(list)
  return list
end

--- Words for the sizes of an axis that a strategy admits nearest to the one in `share`, which it does not admit.
---@return string
function space.nearest_sizes(axis, model, share, rules)
  local wrong = share[axis.name]
  local text = nearest.sizes(function(size)
    share[axis.name] = size
    return (axis.admits(model, share, rules))
  end, 2 * wrong, wrong)
  share[axis.name] = wrong
  return text
end

--- Whether a strategy admits these sizes with a variant's options, which each_shape does not consider.
function space.admits(s, model, rules, sizes, variant, refused)
  local matters = false -- quiet options only matter if they were asked for
  for name, option in pairs(s.options) do matters = matters or not option.quiet or variant[name] ~= nil end
  if not matters then return true end
  local share = strategy.share(s, model, 1, {}, rules, variant)
  for i, axis in ipairs(s.axes) do
    share[axis.name] = sizes[i]
    local admitted, reason = axis.admits(model, share, rules)
    if not admitted then
      refused[#refused + 1] = #refused < 100 and ("%s = %d %s"):format(axis.name, sizes[i], reason or "is not admitted")
        or nil
      return false
    end
  end
  return true
end

--- The pipeline sizes that divide some question's GPUs: divisors of the layers, or any size up to their number if the
--- rules let stages differ. wanted: a list, or nil for any.
function space.pipeline_sizes(model, rules, questions, wanted)
  local list = {}
  for _, pp in ipairs(gpu_divisors(questions)) do
    local divides = rules.stages_may_differ or model.layers % pp == 0
    if pp <= model.layers and divides and (not wanted or lists.has(wanted, pp)) then
      list[#list + 1] = pp
    end
  end
  return list
end

-- Returns a function from sizes and the share to their micro-batches. Where no axis folds, sizes with the same products
-- have the same ones.
local function micro_batches_of(s, model, rules, questions, pps, fixed)
  local known = {}
  return function(sizes, share)
    local shards, key = s.sequence_shards(share), nil
    if not folds(s, sizes) then
      key = ("%s %d %d"):format(s.grid:gpus(sizes), s.grid:batch(sizes), shards)
      if known[key] then return known[key] end
    end
    local list = micro_batches(replica_batches(s, sizes, pps, questions), shards, model, rules, fixed.micro_batch)
    if key then known[key] = list end
    return list
  end
end

-- The numbers of replicas that sizes leave, over all pipeline sizes and questions: each has shapes of its own where
-- blocks know it. wanted: those asked for (any).
local function replica_counts(s, sizes, pps, questions, wanted)
  local list, product = {}, s.grid:gpus(sizes)
  for _, q in ipairs(product and questions or {}) do
    for _, pp in ipairs(pps) do
      local dp = q.gpus // (product * pp)
      local fits = q.gpus % (product * pp) == 0 and not lists.has(list, dp) and (not wanted or lists.has(wanted, dp))
      list[#list + 1] = fits and dp or nil
    end
  end
  table.sort(list)
  return list
end

--- Calls visit(sizes, micro_batches, panels) for the shapes of one strategy until it returns true; the list of
--- micro-batches is not to be changed, and sizes have the number of replicas, `dp`, if blocks know it. pps: the
--- pipeline sizes; fixed: micro_batch, panels and axes' names -> list of allowed values.
function space.each_shape(s, model, rules, questions, pps, fixed, refused, visit)
  questions = of_each_count(questions)
  local batches_of = micro_batches_of(s, model, rules, questions, pps, fixed)
  local knows_replicas = stated.replicas(model) ~= nil
  each_size(s, model, rules, questions, fixed, refused, function(sizes, share)
    local panels = fixed.panels or s.panels and s.panels(model, share, rules) or { 1 }
    local copy = table.move(sizes, 1, #sizes, 1, {})
    if not knows_replicas then return visit(copy, batches_of(sizes, share), panels) end
    for _, dp in ipairs(replica_counts(s, sizes, pps, questions, fixed.dp)) do
      local list = micro_batches(replica_batches(s, sizes, pps, questions, dp), s.sequence_shards(share), model, rules,
        fixed.micro_batch)
      if visit(table.move(sizes, 1, #sizes, 1, { dp = dp }), list, panels) then return true end
    end
    return false
  end)
end

return space
