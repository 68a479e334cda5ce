--- Fits software profiles to step times: six numbers per stack, shared by all its runs.
local check = require "tperf.base.check"
local core = require "tperf.core"
local descent = require "tperf.measured.calibrate.descent"
local fit = require "tperf.measured.calibrate.fit"
local lists = require "tperf.base.lists"
local pool = require "tperf.question.ranks.pool"
local runtime = require "tperf.describe.profile"
local software = require "tperf.base.catalogue".shared(require "tperf.describe.software")
local step = require "tperf.measured.run.step"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")
local unfit = require "tperf.describe.unfit"

local profile = {}

-- Where a parameter usually is, within which bounds, and by how much its logarithm usually differs. An op of a layer is
-- several of PyTorch's, each of which takes its Python and C++ 5 to 20 us: 75 us on an HGX H100's host is what vTrain's
-- traces of small layers on a slower one show, to which neither `typical` nor `tuned` is fitted. Stacks call the
-- libraries that the curves of systems were timed with, which leaves their products a quarter at most; unfused kernels
-- pass memory up to three times. Experts' overheads must not pass for slow products, nor for attention far faster than
-- timed. Exchanges of replicas that run beside passes are hidden to a good part; a stack that exchanges after them
-- says so (`overlap_grad_reduce: false`).
profile.parameters = {
  { name = "compute", start = 1.1, low = 0.85, high = 1.25, spread = 0.15 },
  { name = "attention", start = 1.3, low = 0.8, high = 6, spread = 0.4 },
  { name = "memory", start = 1.3, low = 0.7, high = 3, spread = 0.5 },
  { name = "comm", start = 1, low = 0.05, high = 4, spread = 0.15 },
  { name = "host", start = 7.5e-5, low = 1e-7, high = 2e-4, spread = 0.8 },
  { name = "overlap", start = 0.6, low = 0.3, high = 1, spread = 0.3 },
}

-- The loss has several local minima: a host slow enough to matter, slow memory traffic, an exposed exchange of
-- gradients. The lowest is used.
local STARTS <const> = {
  {}, { host = 1e-5 }, { overlap = 0.3 }, { memory = 3, comm = 0.5 }, { host = 1.2e-4, compute = 0.9, attention = 2 },
}

-- The parameters of a fit of so many independent items. Few items are pulled to the usual values: each parameter adds
-- (its distance in spreads / items)^2 to the loss. Of factors from 0.4 to 2, and of powers of the items from 1 to 2,
-- this has the least errors on runs held out, over all stacks.
---@param most table<string, number>?  what parameters are at most, if less than their bound
local function parameters_of(items, usual, most)
  local list = {}
  for i, p in ipairs(profile.parameters) do
    local high = most and most[p.name] or p.high
    list[i] = { name = p.name, low = p.low, high = high, start = p.start,
      usual = math.min(usual and usual[p.name] or p.start, high), stiffness = 1 / (math.max(items, 1) * p.spread) ^ 2 }
  end
  return list
end

-- log(predicted / measured)
local function residual(case, values)
  runtime.keep_facts(values, case.profile)
  return math.log(step.seconds(case, values) / case.measured)
end

--- Adds predicted / measured of the cases to a list.
function profile.add_ratios(list, cases, values)
  for _, case in ipairs(cases) do list[#list + 1] = math.exp(residual(case, values)) end
  return list
end

-- The values that fit groups of cases best; usual, most: as in parameters_of.
---@param items integer  independent ones
local function best_of(groups, items, near, usual, most)
  local all, weights, total = {}, {}, 0
  for _, group in ipairs(groups) do total = total + group.weight end
  for _, group in ipairs(groups) do
    for _, case in ipairs(group.cases) do
      all[#all + 1], weights[#weights + 1] = case, group.weight / (total * #group.cases)
    end
  end
  local function residuals(values)
    local list = {}
    for i = 1, #all do list[i] = residual(all[i], values) end
    return list
  end
  return descent.minimise(parameters_of(items, usual, most), residuals, weights, near and { near } or STARTS)
end

local MOST_OF_SOURCE <const> = 150 -- enough to represent a thousand similar runs, in less time
local MOST_OF_STACK <const> = 24   -- for a profile shared by several stacks

--- The best values for some cases of one stack. A source is weighted by the cube root of its runs, so that one of a
--- thousand does not drown one of a dozen.
---@param cases table[]
---@param near table?  values to start from, if those of other cases of the stack are known
---@param usual table?  what the values usually are, which few cases are pulled to (profile.parameters)
function profile.best(cases, near, usual)
  local by_source, names = fit.groups(cases, "source")
  local groups = {}
  for i, name in ipairs(names) do
    local list = by_source[name]
    groups[i] = { cases = lists.spread(list, MOST_OF_SOURCE), weight = (#list) ^ (1 / 3) }
  end
  local plain = cases[1].profile
  return best_of(groups, #cases, near, usual,
    plain.pytorch_modules and { host = plain.module_calls * plain.pytorch_call } or nil)
end

--- The best values shared by several stacks, each with the same weight.
---@param stacks table[][]  a list of lists of cases
---@param near table?       values to start from
function profile.shared(stacks, near)
  local groups = {}
  for i, cases in ipairs(stacks) do groups[i] = { cases = lists.spread(cases, MOST_OF_STACK), weight = 1 } end
  return best_of(groups, #stacks, near)
end

--- Predicted / measured of each third of one stack's cases, by a fit to the other two.
---@param near table?   values to start from
---@param usual table?  as in profile.best
---@return number[]
function profile.thirds(cases, salt, near, usual)
  local ratios = {}
  for third = 0, 2 do
    local function held(_, i) return fit.third(i, salt) == third end
    local rest = lists.where(cases, function(case, i) return not held(case, i) end)
    profile.add_ratios(ratios, lists.where(cases, held), profile.best(rest, near, usual))
  end
  return ratios
end

--- The profile fitted to all cases, its error on them, and the error on each third of a fit to the other two.
---@param cases table[]  of one stack, from tperf.measured.run.step, predicted once so that they have predictors
---@param usual table?  as in profile.best
---@return table fitted  { values, all, held }
function profile.fit(cases, usual)
  local ratios = profile.thirds(cases, nil, nil, usual)
  local held = fit.errors(ratios)
  held.spread = fit.spread { ratios }
  local values = profile.best(cases, nil, usual)
  return { values = values, all = fit.errors(profile.add_ratios({}, cases, values)), held = held }
end

local function span_of(cases, value)
  local low, high = math.huge, 0
  for _, case in ipairs(cases) do low, high = math.min(low, value(case)), math.max(high, value(case)) end
  return { low, high }
end

-- The distinct values of a list, sorted.
local function set_of(list, value)
  local seen, values = {}, {}
  for _, item in ipairs(list) do
    local one = value(item)
    if one and not seen[one] then values[#values + 1] = one end
    seen[one or false] = true
  end
  table.sort(values)
  return values
end

--- The range of runs that a profile was fitted to: these fields of tperf.software.
---@param cases table[]
---@return table facts  { systems, generations, architectures, gpus, hidden, seq, kernel }
function profile.facts(cases)
  local systems = set_of(cases, function(case) return case.system end)
  return {
    systems = systems, generations = set_of(systems, function(name) return system(name).generation end),
    architectures = set_of(cases, function(case) return unfit.architecture(case.model) end),
    gpus = span_of(cases, function(case) return case.sizes.gpus end),
    hidden = span_of(cases, function(case) return case.model.hidden end),
    seq = span_of(cases, function(case) return case.model.seq end), kernel = cases[1].profile.kernel,
  }
end

local FITTED_TO <const> = {
  stack = { "published runs of the stack", "each third of the runs predicted by a fit to the other two" },
  shared = { "published runs of several stacks, each with the same weight",
    "each stack predicted by a fit to the others" },
}

-- Properties of a stack that are not fitted, in the order of a profile's file: among them the facts that the core
-- knows, switches before numbers.
local FACTS <const> = { "facts", "like", "kernel", "sharding", "compile", "gradient_shard", "gradient_reduce",
  "broadcast_weights", "gradient_buckets", "gradients", "rank_order", "accumulation", "weights", "loss",
  "fused_activation", "fused_pointwise", "norm", "padded_vocabulary", "grouped_kernels" }
local function add_facts(kind, others)
  for _, fact in ipairs(core.record "software") do
    if fact.from == "stated" and fact.kind == kind then FACTS[#FACTS + 1] = fact.name end
  end
  for _, name in ipairs(others) do FACTS[#FACTS + 1] = name end
end
add_facts("flag", { "scatter_messages", "megatron_softmax" })
add_facts("number", { "moe_dispatcher", "overlap_tp", "overlap_moe_a2a", "delay_wgrad", "overlap_shared_experts",
  "overlap_grad_reduce", "overlap_param_gather", "overlap_param_gather_with_optimizer_step", "overlap_p2p",
  "expert_calls", "counted_pairs" })

-- A profile that states none of them, for their defaults.
local PLAIN <const> = { name = "plain", compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 0 }

--- The text of a profile's file.
---@param base table     the previous profile: its name and the stack's facts stay
---@param cases table[]
---@param values table   the fitted values
---@param held table     { median, spread } of runs held out from the fits
---@param shared boolean?  true: the cases are of several stacks
function profile.text(base, cases, values, held, shared)
  local what = FITTED_TO[shared and "shared" or "stack"]
  local lines = { "name: " .. base.name, "source: >-" }
  lines[3] = ("  fitted by `tperf calibrate --software` to %s (docs/accuracy.md);"):format(what[1])
  lines[4] = "  error: " .. what[2]
  local plain = software(PLAIN)
  for _, name in ipairs(FACTS) do
    local value = base[name]
    if name == "facts" and value then value = "'" .. value:gsub("'", "''") .. "'" end
    if value ~= plain[name] then lines[#lines + 1] = ("%s: %s"):format(name, value) end
  end
  lines[#lines + 1] = "switched: true"
  for _, p in ipairs(profile.parameters) do
    local value = values[p.name]
    local text = p.name == "host" and ("%.3g us"):format(value * 1e6) or ("%.3g"):format(value)
    lines[#lines + 1] = p.name .. ": " .. text
  end
  local facts = profile.facts(cases)
  local function span(name) return ("%s: [%d, %d]"):format(name, table.unpack(facts[name])) end
  local function names(name) return ("%s: [%s]"):format(name, table.concat(facts[name], ", ")) end
  local more = {
    "error: " .. ("%.3g"):format(held.median), ("spread: [%.3g, %.3g]"):format(table.unpack(held.spread)),
    "runs: " .. #cases, names "systems", names "generations", names "architectures", span "gpus", span "hidden",
    span "seq",
  }
  if held.reach then table.insert(more, 3, ("reach: [%.3g, %.3g]"):format(table.unpack(held.reach))) end
  table.move(more, 1, #more, #lines + 1, lines)
  return table.concat(lines, "\n") .. "\n"
end

--- Cases by stack, without those marked `apart`.
---@param cases table[]
function profile.by_stack(cases)
  return fit.groups(lists.where(cases, function(case) return not case.apart end), "stack")
end

--- The cases of tables of training runs by stack, predicted once.
---@param files string[]
---@return table<string, table[]> stacks
---@return string[] names
---@return table[] left_out  { rows, reason } of each file
function profile.stacks(files)
  local measured = require "tperf.measured"
  local all, left = {}, {}
  for _, path in ipairs(files) do
    local rows, reader = measured.open(path)
    if reader.name ~= "step" then check.fail("%s is not a table of training runs", path) end
    local cases, left_out = measured.predict(rows, reader, { refit = true })
    if #cases == 0 then check.fail("%s: %s", path, measured.none_predicted(#rows, left_out)) end
    table.move(cases, 1, #cases, #all + 1, all)
    table.move(left_out, 1, #left_out, #left + 1, left)
  end
  local stacks, names = profile.by_stack(all)
  return stacks, names, left
end

--- As profile.fit, of a stack's rows as a table has them: what another process of a run under MPI is sent.
---@param given table  { rows, usual }
function profile.fit_rows(given)
  return profile.fit(require "tperf.measured".predict(given.rows, step, { refit = true }), given.usual)
end

--- Fits the profile of every stack, on all processes of a run under MPI.
---@param stacks table<string, table[]>
---@param names string[]
---@param usual (fun(name: string): table?)?  of a stack, as in profile.best
---@return table[] fitted  { values, all, held } of each name
function profile.fit_all(stacks, names, usual)
  usual = usual or function() end
  local asked, list = {}, {}
  for i, name in ipairs(names) do
    local rows = {}
    for j, case in ipairs(stacks[name]) do rows[j] = case.row end
    asked[i] = { { rows = rows, usual = usual(name) } }
  end
  if pool.is_shared() then
    return pool.map("tperf.measured.calibrate.profile", "fit_rows", asked, function() end)
  end
  for i, name in ipairs(names) do list[i] = profile.fit(stacks[name], usual(name)) end
  return list
end

return profile
