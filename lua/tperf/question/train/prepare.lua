--- What a question to tperf.train is answered from: checked arguments, sizes, the layout and the placement.
local arguments = require "tperf.question.arguments"
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local configuration = require "tperf.question.configuration"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local problem = require "tperf.question.problem"
local kept = require "tperf.question.train.kept"
local rank_order = require "tperf.question.rank_order"
local refusal = require "tperf.base.refusal"
local search = require("tperf.base.lazy").module "tperf.question.search"
local straggling = require "tperf.question.goodput.straggling"
local simulate = require "tperf.question.train.simulate"
local strategy = require "tperf.describe.strategy"
local train_sizes = require "tperf.question.train.sizes"

local schema_of = check.once(function(s)
  local schema = arguments.schema({ s }, false)
  schema.simulate = simulate.options
  schema.explain = check.boolean { default = false }
  schema.configuration = check.any { optional = true }
  schema.straggling = straggling.field
  return schema
end)

-- Sets the fastest of these numbers of panels in a candidate, and returns it.
local function fastest(question, workload, found, panels)
  local best, least
  for _, number in ipairs(#panels > 1 and panels or {}) do
    found.panels = number
    local time = configuration.candidate(question, workload, found):time().time
    if not least or time < least then best, least = number, time end
  end
  found.panels = best or panels[1]
  return found
end

-- Raises why no placement is possible, in the words of a search for nothing else.
local function no_placement(o, s)
  local request = { top = 1, infeasible = true, gpus = o.gpus }
  for name in pairs(arguments.schema({ s }, true)) do request[name] = o[name] end
  for _, axis in ipairs(s.axes) do
    if not axes.shows(axis, o[axis.name]) then request[axis.name] = nil end
  end
  request.strategy, request.software = s, o.profile or "none"
  refusal.raise("tperf.train: %s", search.run(request).reason)
end

-- The fastest placement and number of panels, of those left open.
local function best_placement(t, panels)
  local s, o, question, asked_for = t.strategy, t.o, t.problem.questions[1], t.o.fast or {}
  local demanded = { asked_for.dp or 0, asked_for.pp or 0 }
  for i, name in ipairs(s.axis_names) do demanded[2 + i] = asked_for[name] or 0 end
  local fast, number = question.job:place(t.workload, {
    gpus = question.gpus, global_batch = question.global_batch, dp = o.dp, micro_batch = o.micro_batch, zero = o.zero,
  }, demanded, panels)
  if not fast then no_placement(o, s) end
  return fast, number
end

-- The placement, if it is given or follows from the stack's order of ranks; nil: the fastest one is to be found.
local function placement_of(o, s, own, question)
  local domain, orders = question.system.network.fast.domain, question.placed.orders
  if not orders then return train_sizes.placement(o, s, own, domain) end
  local fast = rank_order.place("tperf.train: ", s, orders[s], own, o.dp, o.pp, domain)
  local together = fast[1] * fast[2]
  for i, axis in ipairs(s.axes) do together = axis.folds and together or together * fast[2 + i] end
  if o.gpus > domain and together < domain and not question.rules.placements_may_underfill then
    refusal.raise("tperf.train: the order of ranks %s places %d GPUs together in domains of %d, which the rules '%s' "
      .. "demand to be full; placement = 'best' tries others", orders[s].text, together, domain, question.rules.name)
  end
  return fast
end

-- The arguments, completed from their `configuration`.
local function with_configuration(given)
  local c = given.configuration
  if type(c) ~= "table" then check.fail("tperf.train: 'configuration' must be a table, got %s", check.show(c)) end
  return arguments.of_configuration(c, given, strategy.of(given.strategy or c.strategy))
end

-- Computes everything that decides the result: { given = arguments with those of their configuration, o = the same,
-- checked, strategy, problem, workload, found, open = whether each axis was left open }. held: what a prepared question
-- keeps.
return function(given, held)
  if type(given) == "table" and given.configuration ~= nil then given = with_configuration(given) end
  local s = axes.asked(given)
  problem.refuse_axes("tperf.train", given, { s })
  local schema = schema_of(s)
  local o = problem.arguments("tperf.train", given, schema)
  problem.refuse_panels("tperf.train", o, { s })
  o.model = model(o.model)
  local open = {}
  for _, name in ipairs(s.axis_names) do open[name] = o[name] == nil end
  local sizes = train_sizes.of(o, s, o.model, o.rules)
  local own = sizes.own
  local p = kept(not problem.lists_systems(o.system) and held or nil, o, s, schema)
  local microbatches = train_sizes.check_batch(o, s, p, own)
  local pipeline = p.pipeline_list[1]
  if microbatches < pipeline.min_microbatches or microbatches % pipeline.microbatch_multiple ~= 0 then
    o.bounds = true -- no closed form holds, here or in what advice asks
    p = problem.of(o, { s })
  end
  train_sizes.check_cut(o, s, p, own, sizes.share)
  local question = p.questions[1]
  local t = { given = given, o = o, strategy = s, problem = p, open = open }
  t.workload = p.layouts[1].workload(own, o.micro_batch, p.variants[1])
  t.found = { sizes = { o.dp, o.pp, table.unpack(own) }, pipeline = 1, micro_batch = o.micro_batch, zero = o.zero }
  t.found.fast = placement_of(o, s, own, question)
  local panels = o.panels and { o.panels } or s.panels and s.panels(p.model, sizes.share, p.rules) or { 1 }
  if t.found.fast then
    fastest(question, t.workload, t.found, panels)
  else
    t.found.fast, t.found.panels = best_placement(t, panels)
  end
  t.candidate = configuration.candidate(question, t.workload, t.found)
  return t
end
