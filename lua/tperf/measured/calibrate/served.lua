--- Errors of serving runs that no fit saw, from which kernels/intervals.yaml has its classes. The few numbers of an
--- engine's profile that are fitted (engine.lua) are fitted to the runs of the other models of that profile; the runs
--- of a model are predicted by that. What a data sheet alone would predict of the same runs, with constants in place of
--- the curves of their machine, is the error of machines that nobody measured. Runs of one source, model, GPU and
--- precision err alike: at most a few of them are simulated, evenly spread over the table, and they count as one
--- source.
local engine = require "tperf.measured.calibrate.engine"
local fit = require "tperf.measured.calibrate.fit"
local gpus = require "tperf.measured.gpus"
local intervals = require "tperf.describe.intervals"
local lists = require "tperf.base.lists"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local profile = require "tperf.base.catalogue".shared(require "tperf.describe.software")
local read = require "tperf.measured.read"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")

local served = {}

local MOST <const> = 6 -- runs of a source, model, GPU and precision that are simulated

local function group_of(row)
  return table.concat({ read.text(row.origin, row.source), row.model, row.gpu, row.precision or row.weight_dtype }, " ")
end

-- At most MOST rows of each group.
local function thinned(rows)
  local groups, names = fit.groups(rows, group_of)
  local chosen = {}
  for _, name in ipairs(names) do
    for _, row in ipairs(lists.spread(groups[name], MOST)) do chosen[row] = true end
  end
  return lists.where(rows, function(row) return chosen[row] end)
end

local function sampled(sample)
  local list = {}
  for i, part in ipairs(sample) do
    local kept = part.reader.kept and part.reader.kept(part.rows, {}) or {}
    list[i] = { reader = part.reader, path = part.path, rows = thinned(kept) }
  end
  return list
end

-- The figure of a case: times per token, of the first token, of whole requests and batches.
local FIGURES <const> = { TPOT = "tpot", TTFT = "ttft", E2E = "duration", throughput = "duration" }

local function features_of(case, machine)
  local row = case.row
  return intervals.served {
    model = model(case.model), system = machine or system(case.gpu),
    weights = read.text(row.precision, row.weight_dtype), requests = read.count(row.concurrency or row.batch) or 1,
  }
end

local function observe(list, case, seconds, machine)
  list[#list + 1] = { figure = FIGURES[case.metric], source = group_of(case.row), ratio = seconds / case.measured,
    features = features_of(case, machine) }
end

-- Whole requests of a row with both times: their time is the first token's, and that of the others.
local function add_whole(list, by_row, values)
  for row, pair in pairs(by_row) do
    local first, token, n = pair.TTFT, pair.TPOT, read.positive(row.osl_mean)
    if first and token and n then
      local function whole(seconds) return seconds(first) + (n - 1) * seconds(token) end
      local measured = whole(function(case) return case.measured end)
      observe(list, { row = row, metric = "E2E", model = first.model, gpu = first.gpu, measured = measured },
        whole(function(case) return engine.seconds_at(case, values) end))
    end
  end
end

-- Adds the errors of a profile's runs, model by model.
local function add(list, name, sample)
  local cases = engine.tabulated(sampled(sample), profile(name))
  local by_model, models = fit.groups(cases, function(case) return case.model end)
  for _, held in ipairs(#models > 1 and models or {}) do
    local values, by_row = engine.best(cases, function(case) return case.model ~= held end), {}
    for _, case in ipairs(by_model[held]) do
      by_row[case.row] = by_row[case.row] or {}
      by_row[case.row][case.metric] = case
      observe(list, case, engine.seconds_at(case, values))
    end
    add_whole(list, by_row, values)
  end
end

-- The machine with constants in place of curves, those of a system file that states none.
local function datasheet(machine)
  local fast, slow = machine.network.fast, machine.network.slow
  return machine:with { name = machine.name .. " by its data sheet",
    accelerator = { compute_efficiency = 0.8 },
    network = { fast = { efficiency = type(fast.efficiency) == "table" and 0.7 or nil },
      slow = { efficiency = type(slow.efficiency) == "table" and 0.7 or nil } } }
end

-- Adds the errors that data sheets alone would make of a profile's runs, machine by machine.
local function add_datasheets(list, name, sample)
  for _, part in ipairs(sampled(sample)) do
    local by_gpu, found = fit.groups(part.rows, function(row) return row.gpu end)
    for _, gpu in ipairs(found) do
      local known = gpus.system(gpu)
      local machine = known and datasheet(system(known))
      local how = { software = name, system = machine }
      for _, case in ipairs(machine and part.reader.cases(by_gpu[gpu], part.path, how, function() end) or {}) do
        local rate = case.metric == "throughput"
        local copied = rate and read.positive(case.row.tpot_s) -- closed loops have it from their times
        if FIGURES[case.metric] and not copied then
          observe(list, { row = case.row, metric = case.metric, model = case.model,
            measured = rate and 1 / case.measured or case.measured },
            rate and 1 / case.predicted or case.predicted, machine)
        end
      end
    end
  end
end

--- The errors of the runs of some tables: { figure, source, ratio = predicted / measured, features }.
---@param files string[]
---@param tell? fun(name: string)  called before each profile
---@return table[]
function served.observed(files, tell)
  local samples, names = engine.samples(files)
  local list = {}
  for _, name in ipairs(names) do
    if tell then tell(name) end
    add(list, name, samples[name])
    add_datasheets(list, name, samples[name])
  end
  return list
end

return served
