--- tperf.search_inference: ranks ways to serve a model on a number of GPUs under latency limits.
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local nearest = require "tperf.base.nearest"
local pareto = require "tperf.plot.pareto"
local refusal = require "tperf.base.refusal"
local serving = require "tperf.question.infer.deployment"
local splits = require "tperf.question.infer.splits"
local strategies_of = require "tperf.question.search.strategies"
local units = require "tperf.base.units"
local warnings = require "tperf.question.warnings"
local questions = require "tperf.question.ranks.questions"

local search_inference = {}

local WHAT <const> = "tperf.search_inference"

local some = check.integer { min = 1, max = 1 << 31 }
local sizes = check.one_of(some, check.list(some, { min = 1 }))
local function optional_sizes(value, path)
  if value == nil then return nil end
  return sizes(value, path)
end
local seconds = check.number { above = 0, max = 1e9, unit = "s", optional = true }

-- The figure of a record that each objective minimizes.
local objectives = {
  throughput = function(r) return -r.tokens_per_second_per_gpu end,
  tpot = function(r) return r.tpot end,
  ttft = function(r) return r.ttft end,
  latency = function(r) return r.latency end,
  cost = function(r) return r.cost.generated end,
}

local schema_of = check.once(function(s)
  local schema = serving.schema_of(s, optional_sizes)
  schema.strategy = check.any { optional = true, many = true }
  schema.gpus, schema.pp, schema.batch, schema.dp = some, optional_sizes, optional_sizes, nil
  schema.ttft, schema.tpot = seconds, seconds
  schema.top = check.integer { min = 1, max = 1 << 20, default = 10 }
  schema.objective = check.choice { { "throughput", "tpot", "ttft", "latency", "cost" }, default = "throughput" }
  return schema
end)

local function within(o, r)
  return r.feasible and (not o.ttft or r.ttft <= o.ttft) and (not o.tpot or r.tpot <= o.tpot)
end

-- Visits doublings up to the largest batch that fits, and the largest within the limits: times grow with the batch.
local function each_batch(p, split, visit)
  local o = p.o
  local function at(batch)
    local c = { batch = batch, prefill_batch = o.prefill_batch }
    for name, size in pairs(split) do c[name] = size end
    return (serving.evaluate(p, c))
  end
  if o.batch then
    for _, batch in ipairs(type(o.batch) == "table" and o.batch or { o.batch }) do
      if batch >= o.prefill_batch then visit(at(batch)) end
    end
    return
  end
  local r = at(o.prefill_batch)
  local good, bad = r, nil
  visit(r)
  while r.batch < r.max_batch do
    r = at(math.min(2 * r.batch, r.max_batch))
    visit(r)
    if within(o, r) then good = r else bad = bad or r end
  end
  if not bad or not within(o, good) then return end
  local doubling, low, high = good.batch, good, bad.batch
  while high - low.batch > 1 do
    r = at((low.batch + high) // 2)
    if within(o, r) then low = r else high = r.batch end
  end
  if low.batch > doubling then visit(low) end
end

-- The sizes that order equal records.
local function order_of(s)
  local list = table.move(s.axis_names, 1, #s.axis_names, 1, {})
  table.insert(list, 2, "pp")
  list[#list + 1] = "batch"
  return list
end

-- An ordering of records by the objective; ties are broken by strategy and sizes, so that the result is deterministic.
local function better(problems)
  local least, rank, orders = objectives[problems[1].o.objective], {}, {}
  for i, p in ipairs(problems) do rank[p.strategy.name], orders[p.strategy.name] = i, order_of(p.strategy) end
  return function(a, b)
    local x, y = least(a), least(b)
    if x ~= y then return x < y end
    if a.tokens_per_second ~= b.tokens_per_second then return a.tokens_per_second > b.tokens_per_second end
    if a.strategy ~= b.strategy then return rank[a.strategy] < rank[b.strategy] end
    for _, name in ipairs(orders[a.strategy]) do
      if a[name] ~= b[name] then return a[name] < b[name] end
    end
    return false
  end
end

-- The Pareto front of time per token and throughput per GPU, by increasing time per token.
local function front_of(records)
  local points, front = {}, {}
  for i, r in ipairs(records) do points[i] = { x = r.tpot, y = r.tokens_per_second_per_gpu } end
  for i, index in ipairs(pareto.front(points, "min", "max")) do front[i] = records[index] end
  return front
end

-- Words for the requested sizes that divide no split of the GPUs or are not admitted, with the nearest that work.
local function wrong_size(p)
  local o, list, possible, open = p.o, {}, { pp = {} }, { pp = false }
  for _, name in ipairs(p.strategy.axis_names) do possible[name], open[name] = {}, false end
  setmetatable(open, { __index = o })
  splits.each({ o = open, model = p.model, rules = p.rules, strategy = p.strategy }, function(split)
    for name, seen in pairs(possible) do seen[split[name]] = true end
  end, function() end)
  for _, name in ipairs(order_of(p.strategy)) do
    local seen, ascending = possible[name], {}
    for size in pairs(seen or {}) do ascending[#ascending + 1] = size end
    table.sort(ascending)
    for _, size in ipairs(seen and (type(o[name]) == "table" and o[name] or { o[name] }) or {}) do
      if not seen[size] then list[#list + 1] = ("%s = %d: %s"):format(name, size, nearest.of(ascending, size)) end
    end
  end
  return table.concat(list, "; ")
end

local function shown_axes(p)
  local names = {}
  for _, axis in ipairs(p.strategy.axes) do
    if axes.shows(axis, 0) and axes.matters(axis, p.model) then names[#names + 1] = axis.name end
  end
  return table.concat(names, ", ")
end

-- "tp = 8, pp = 2, batch = 1": the sizes of a record that matter to the model.
local function layout_of(p, r)
  local list = {}
  for _, axis in ipairs(p.strategy.axes) do
    if axes.matters(axis, p.model) and axes.shows(axis, r[axis.name]) then
      list[#list + 1] = ("%s = %d"):format(axis.name, r[axis.name])
    end
  end
  return ("%s, pp = %d, batch = %d"):format(table.concat(list, ", "), r.pp, r.batch)
end

local function no_sizes(problems)
  local reasons = {}
  for i, p in ipairs(problems) do
    local wrong = wrong_size(p)
    reasons[i] = ("no sizes of %s and pp are admitted that divide %d GPUs%s"):format(shown_axes(p), p.o.gpus,
      wrong ~= "" and "; " .. wrong or "")
  end
  return table.concat(reasons, "; ")
end

local function reason_of(problems, counts)
  local o = problems[1].o
  if counts.candidates == 0 then return no_sizes(problems) end
  if counts.fitting == 0 and o.batch and counts.most > 0 then
    return ("no 'batch' that was asked for fits: the largest that does is %d"):format(counts.most)
  end
  if counts.fitting == 0 then
    local r, m = counts.smallest, counts.smallest.memory
    return ("the model does not fit: the smallest candidate, %s, needs %s per GPU, %s more than the %s there are; try "
      .. "more GPUs, or smaller dtypes"):format(layout_of(counts.smallest_of, r), units.format(m.total, "bytes"),
      units.format(m.total - m.capacity, "bytes"), units.format(m.capacity, "bytes"))
  end
  local best = counts.fastest
  return ("nothing keeps within the limits: of what fits, the least ttft is %s, the least tpot %s"):format(
    units.format(best.ttft, "s", 3), units.format(best.tpot, "s", 3))
end

-- A problem for each strategy.
local function problem_of(one)
  local o = check.record(WHAT, one.given, schema_of(one.strategy))
  o.strategy = one.strategy
  if o.generate < 2 then check.fail("%s: 'generate' must be at least 2: there is no tpot", WHAT) end
  local p = serving.problem(WHAT, o)
  if o.objective == "cost" and not p.price then
    check.fail("%s: objective \"cost\" needs 'gpu_hour', or a system with a price", WHAT)
  end
  return p
end

-- The problems of all strategies, and why others of several cannot serve the model.
local function problems_of(given)
  local problems, left_out, all = {}, {}, strategies_of(WHAT, given)
  for _, one in ipairs(all) do
    local p, reason
    if all[2] then p, reason = refusal.attempt(problem_of, one) else p = problem_of(one) end
    problems[#problems + 1] = p
    if not p then left_out[#left_out + 1] = ("%s: %s"):format(one.strategy.name, reason) end
  end
  if not problems[1] then refusal.raise("%s: %s", WHAT, table.concat(left_out, "; ")) end
  return problems, left_out
end

-- Adds the candidates of a problem that fit and keep the limits, and what is known of all of them. left_out: receives
-- why blocks or architectures refuse a layout.
local function gather(p, found, counts, left_out)
  local function refuse(reason)
    if not left_out[reason] then left_out[#left_out + 1], left_out[reason] = reason, true end
  end
  splits.each(p, function(split)
    local _, reason = refusal.attempt(each_batch, p, split, function(r)
      counts.candidates, counts.most = counts.candidates + 1, math.max(counts.most, r.max_batch)
      local smallest = counts.smallest
      if not smallest or r.memory.total < smallest.memory.total then counts.smallest, counts.smallest_of = r, p end
      if within(p.o, r) then found[#found + 1] = r end
      if r.feasible then
        counts.fitting = counts.fitting + 1
        for name, least in pairs(counts.fastest) do counts.fastest[name] = math.min(least, r[name]) end
      end
    end)
    if reason then refuse(reason) end
  end, refuse)
end

--- The best ways to serve a model on a number of GPUs. Tries every split of the GPUs over a strategy's axes, pp and
--- replicas, with doublings of the batch, the largest that fits, and the largest within the limits.
---@param given table  the arguments of tperf.infer but dp, where sizes take a list of values to try, and
---  gpus                   total; replicas use the GPUs that tp and pp leave
---  ttft, tpot             limits in seconds
---  objective              what to optimize: "throughput" (tokens per second per GPU, default), "tpot", "ttft",
---                         "latency", "cost" (of output tokens)
---  top                    number of records to return (10)
---@return table records  as of tperf.infer, best first; with
---  pareto       the Pareto front of tpot and throughput per GPU
---  candidates, feasible   number tried; number that fit and keep the limits
---  warnings     sentences: what of the model the figures take for granted; nil: nothing
---  left_out     why strategies cannot serve the model, or its blocks or architecture refuse a layout; nil: none do
---  reason       why there are none
function search_inference.run(given)
  local problems, left_out = problems_of(given)
  local found, counts = {}, { candidates = 0, fitting = 0, most = 0, fastest = { ttft = math.huge, tpot = math.huge } }
  for _, p in ipairs(problems) do gather(p, found, counts, left_out) end
  local told = warnings.of_model(problems[1].model, problems[1].o)
  for _, r in ipairs(told and found or {}) do r.warnings = told end
  table.sort(found, better(problems))
  local best = table.move(found, 1, math.min(problems[1].o.top, #found), 1, {})
  best.pareto, best.candidates, best.feasible = front_of(found), counts.candidates, #found
  best.warnings, best.left_out = told, left_out[1] and table.move(left_out, 1, #left_out, 1, {}) or nil
  if #found == 0 then
    best.reason = counts.candidates == 0 and left_out[1] and table.concat(left_out, "; ")
      or reason_of(problems, counts)
  end
  return best
end

questions.register("search_inference", search_inference.run)

return search_inference
