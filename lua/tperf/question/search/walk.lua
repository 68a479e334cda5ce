--- The walk over all shapes of a search: laid out here in batches, walked by the core.
local core = require "tperf.core".search
local kernels = require "tperf.describe.kernels"
local refusal = require "tperf.base.refusal"
local space = require "tperf.question.search.space"

local search_walk = {}

local BY_LEAST <const> = { open = 1, all = 2 } -- which candidates the core lists by a bound

local SHAPES_AT_ONCE = 256 -- shapes in a batch

--- How many candidates to simulate a walk lists for each question; another walk goes on after them.
search_walk.MOST_OPEN = 4096

-- The questions, each with where to go on after an earlier walk (o.reached, by question).
local function questions_of(p, o)
  if not o.reached then return p.questions end
  local list = {}
  for i, q in ipairs(p.questions) do
    local reached = o.reached[i]
    list[i] = { job = q.job, gpus = q.gpus, global_batch = q.global_batch, after = reached.after,
      reached = reached.throughput }
  end
  return list
end

--- Creates a search of the core; accept(question, found), if given, may reject a candidate that would be kept.
function search_walk.new(p, o, accept)
  local fast = o.fast or {}
  return core.new({
    top = o.top, by_least = BY_LEAST[o.simulates], most_open = o.simulates and search_walk.MOST_OPEN or nil,
    keep_all = o.keep == "all", no_pruning = not o.prune, ranked = o.minimize ~= nil,
    infeasible_too = o.infeasible, memory_only = o.memory_only, replicas_fast = fast.dp, stages_fast = fast.pp,
  }, p.pipelines, questions_of(p, o), p.zero, p.fixed.dp, accept, o.threads or core.threads())
end

-- "tp = 2, cp = 4"
local function words_of(s, sizes)
  local words = {}
  for i, name in ipairs(s.axis_names) do
    words[#words + 1] = sizes[i] > 1 and ("%s = %d"):format(name, sizes[i]) or nil
  end
  return words[1] and table.concat(words, ", ") or "one GPU a stage"
end

-- Leaves a micro-batch out of a series, whose blocks refuse it, and notes why.
local function leave_out(p, series, index, sizes, reason)
  local list, s, micro_batch = {}, p.strategies[series.strategy], series.micro_batches[index]
  for i, other in ipairs(series.micro_batches) do list[#list + 1] = i ~= index and other or nil end
  series.micro_batches = list
  local key, layout = s.name .. reason, words_of(s, sizes)
  local known = p.refusals[key]
  if not known then
    known = { strategy = s.name, reason = reason, layouts = 0, seen = {},
      first = ("%s, micro_batch = %d"):format(layout, micro_batch) }
    p.refusals[key], p.refusals[#p.refusals + 1] = known, known
  end
  known.layouts, known.seen[layout] = known.layouts + (known.seen[layout] and 0 or 1), true
end

--- Adds what another process noted, of other layouts.
---@param p table
---@param refusals table[]  by position and by key
function search_walk.add_refusals(p, refusals)
  for key, one in pairs(refusals) do
    local known = p.refusals[key]
    if type(key) == "string" and not known then
      p.refusals[key], p.refusals[#p.refusals + 1] = one, one
    elseif type(key) == "string" then
      for layout in pairs(one.seen) do
        known.layouts, known.seen[layout] = known.layouts + (known.seen[layout] and 0 or 1), true
      end
    end
  end
end

-- The number of micro-batches of a series that may fit. Those are laid out.
local function fitting_of(p, core_search, layout, sizes, series, variant, own)
  local workloads, micro_batches, growth = series.workloads, series.micro_batches, kernels.of "memory".growth
  growth = own and growth.script or growth.library
  local count, missing = core_search:fitting(workloads, micro_batches, 1, own, growth)
  while not count do
    local micro_batch = micro_batches[missing]
    local made, reason = refusal.attempt(layout.workload, sizes, micro_batch, variant)
    workloads[micro_batch] = made
    if not made then
      leave_out(p, series, missing, sizes, reason)
      micro_batches = series.micro_batches
    end
    count, missing = core_search:fitting(workloads, micro_batches, missing, own, growth)
  end
  return count
end

-- Whether a variant repeats the one before: without tensor parallelism there is nothing for sequence parallelism to
-- shard. Custom blocks may read the flag whatever the sizes.
local function repeats(p, s, sizes, variant)
  for _, name in ipairs(variant.other) do
    local option = s.options[name]
    if not option or sizes[s.index[option.axis]] == 1 then return true end
  end
  if not variant.again or p.model.architecture or not s.built_in then return false end
  for i, name in ipairs(s.axis_names) do
    if name == s.features then return sizes[i] == 1 end
  end
  return false
end

-- Whether a strategy's shapes of these sizes belong to a part { index, of }. Those with the same sizes of the first two
-- axes share most of their blocks, and are laid out together. Groups are scattered over the parts, since neighbours are
-- alike: all slow or all quick.
local function belongs(part, number, sizes)
  local group = (number * 1009 + (sizes[1] or 0)) * 1009 + (sizes[2] or 0)
  return (group * 2654435761 >> 16 & 0xffff) % part.of + 1 == part.index
end

-- Calls visit(strategy's index, sizes, variant's index, micro_batches, panels) for each series of shapes, which differ
-- only in the micro-batch, until it returns true. part: { index, of }, or nil for all.
local function each_series(p, refused, part, visit)
  for number, s in ipairs(p.strategies) do
    local ended = false
    space.each_shape(s, p.model, p.rules, p.questions, p.pps, p.fixed, refused, function(sizes, micro_batches, panels)
      if part and not belongs(part, number, sizes) then return false end
      for v, variant in ipairs(p.variants) do
        if not repeats(p, s, sizes, variant) and space.admits(s, p.model, p.rules, sizes, variant, refused)
          and visit(number, sizes, v, micro_batches, panels) then
          ended = true
          return true
        end
      end
      return false
    end)
    if ended then return end
  end
end

--- Why strategies, and layouts that blocks refuse, were left out of a search, as sentences; nil: none were.
---@return string[]?
function search_walk.left_out(p)
  local list = table.move(p.never or {}, 1, #(p.never or {}), 1, {})
  for _, one in ipairs(p.refusals or {}) do
    list[#list + 1] = ("%s%s (%d layout%s, the first %s)"):format(p.strategies[2] and one.strategy .. ": " or "",
      one.reason, one.layouts, one.layouts == 1 and "" or "s", one.first)
  end
  return list[1] and list or nil
end

--- The number of shapes of a search, without laying them out.
---@param refused string[]  receives the reasons why sizes are not admitted
function search_walk.count(p, refused)
  local count = 0
  each_series(p, refused, nil, function(_, _, _, micro_batches) count = count + #micro_batches end)
  return count
end

-- The demanded placements of each strategy's axes, if there are any.
local function fast_of(p, o)
  local list = {}
  if not o.fast then return list end
  for number, s in ipairs(p.strategies) do
    list[number] = {}
    for i, name in ipairs(s.axis_names) do list[number][i] = o.fast[name] or 0 end
  end
  return list
end

-- Lays out all shapes, or a part of them, and calls flush(series, shapes) for some hundred at a time until that returns
-- false.
local function lay_out(p, o, core_search, part, flush)
  local list, shapes, complete, fast, orders = {}, 0, true, fast_of(p, o), p.placed.orders
  each_series(p, p.refused, part, function(number, sizes, v, micro_batches, panels)
    if #micro_batches == 0 then return false end
    local layout, variant = p.layouts[number], p.variants[v]
    local series = {
      strategy = number, variant = v, workloads = layout.workloads(sizes, variant), micro_batches = micro_batches,
      panels = panels, fast = fast[number], order = orders and orders[p.strategies[number]].positions,
    }
    local own = p.model.architecture ~= nil or not p.strategies[number].built_in
    series.fitting = fitting_of(p, core_search, layout, sizes, series, variant, own)
    if #series.micro_batches == 0 then return false end
    list[#list + 1], shapes = series, shapes + #series.micro_batches
    if shapes >= SHAPES_AT_ONCE or core.pending() then
      complete = flush(list, shapes)
      list, shapes = {}, 0
    end
    return not complete
  end)
  if complete and shapes > 0 then flush(list, shapes) end
end

--- Lays out the shapes of all strategies, or of a part { index, of } of them, and walks them, some hundred at a time.
---@return boolean complete  false when interrupted
---@return integer done      shapes
function search_walk.some(p, o, core_search, part)
  local complete, done = true, 0
  lay_out(p, o, core_search, part, function(list, count)
    complete = core_search:walk(core_search:shapes(list))
    done = done + count
    if o.progress and not part then o.progress(done) end
    return complete
  end)
  return complete, done
end

return search_walk
