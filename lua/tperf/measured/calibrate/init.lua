--- tperf.calibrate: from measurements of one machine to its system file.
local check = require "tperf.base.check"
local core = require "tperf.core"
local curves = require "tperf.measured.calibrate.curves"
local descent = require "tperf.measured.calibrate.descent"
local fit = require "tperf.measured.calibrate.fit"
local gpus = require "tperf.measured.gpus"
local lists = require "tperf.base.lists"
local network = require "tperf.import.network"
local measured = require "tperf.measured"
local rules = require("tperf.describe.rules.sets").of
local sources = require "tperf.measured.calibrate.sources"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")
local tiers = require "tperf.describe.machine.tiers"
local units = require "tperf.base.units"

local calibrate = {}

local FEWEST <const> = 3 -- cases per parameter

-- A modifiable copy: the checked object's fields with their metatables (fp16 and bf16 substitute for each other).
local function copy(value)
  if type(value) ~= "table" then return value end
  local made = {}
  for key, item in pairs(value) do made[key] = copy(item) end
  return setmetatable(made, getmetatable(value))
end

local function reader_named(name)
  for _, reader in ipairs(measured.readers) do
    if reader.name == name then return reader end
  end
end

-- log(predicted / measured) of cases, and the cases that could be predicted.
local function residuals(curve, reader, trial, values, cases, set)
  curve.install(trial, values)
  local machine, predict, list, kept, n = core.machine(trial), reader.predict, {}, {}, 0
  for i = 1, #cases do
    local case = cases[i]
    local seconds = predict(case, machine, trial, set)
    if seconds and seconds > 0 then
      n = n + 1
      list[n], kept[n] = math.log(seconds / (case.achieved or case.measured)), case
    end
  end
  return list, kept
end

-- Errors of the predictions in the curve's scope.
local function errors_of(curve, list, cases)
  local ratios = {}
  for i, r in ipairs(list) do
    if curve.scope(cases[i]) then ratios[#ratios + 1] = math.exp(r) end
  end
  return fit.errors(ratios)
end

-- With too few long kernels to tell how far the clock drops, assume that it does not.
local NO_DROP <const> = 0.02 -- the weight of that, relative to all cases

-- The values that best fit the cases, and the loss as a function of them.
local function best_values(curve, trial, cases, set)
  local reader = reader_named(curve.reader)
  local start = {}
  for _, p in ipairs(curve.parameters) do start[p.name] = p.start end
  local _, predicted = residuals(curve, reader, trial, start, cases, set)
  local weights, n = {}, #predicted
  for i = 1, n do weights[i] = 1 / n end
  weights[n + 1] = NO_DROP
  local function residuals_at(values)
    local list = residuals(curve, reader, trial, values, predicted, set)
    list[n + 1] = 1 - (values.sustained or 1)
    return list
  end
  local function loss(values) return fit.loss(residuals_at(values), weights) end
  return descent.minimise(curve.parameters, residuals_at, weights), loss
end

-- The curve or the other one that it may be, whichever fits all cases better.
local function nearer(curve, trial, set)
  if not curve.either then return curve end
  curve.either.reader = curve.reader
  local values, loss = best_values(curve, trial, curve.cases, set)
  local others, other_loss = best_values(curve.either, trial, curve.either.cases, set)
  return other_loss(others) < loss(values) and curve.either or curve
end

-- Fits one curve: its error on the third of the cases that is held back, its values from all of them.
local function fit_curve(given, trial, o, set)
  local curve = nearer(given, trial, set)
  local reader = reader_named(curve.reader)
  if #curve.cases < FEWEST * #curve.parameters then
    check.fail("tperf.calibrate: %s has %d parameters, too many for %d measurements; it needs %s", curve.name,
      #curve.parameters, #curve.cases, curve.needs)
  end
  local values, loss = best_values(curve, trial, curve.cases, set)
  local open = fit.undetermined(curve.parameters, values, loss)
  local entangled = fit.entangled(curve.parameters, values, function(moved)
    return (residuals(curve, reader, trial, moved, curve.cases, set))
  end)
  table.move(entangled, 1, #entangled, #open + 1, open)
  if #open > 0 and not o.keep then
    check.fail("tperf.calibrate: the measurements do not determine %s of %s; it needs %s (keep = true accepts "
      .. "the fit's values)", table.concat(open, ", "), curve.name, curve.needs)
  end
  local function held_back(_, i) return fit.held_back(i, o.salt) end
  local function fitted(case, i) return not held_back(case, i) end
  local partial = best_values(curve, trial, lists.where(curve.cases, fitted), set)
  local held = errors_of(curve, residuals(curve, reader, trial, partial, lists.where(curve.cases, held_back), set))
  local all = errors_of(curve, residuals(curve, reader, trial, values, curve.cases, set))
  return {
    curve = curve.name, values = values, undetermined = open, fitted = all, held = held, points = #curve.cases,
    install = curve.install, cases = curve.cases, reader = reader,
  }
end

-- Records in the system how well a curve fits.
local function note(trial, result)
  local kind, name = result.curve:match "^(.*)%.([^.]*)$"
  local accelerator = trial.accelerator
  local passed = kind:match "^backward%.(.*)"
  if passed then
    local curve = accelerator.compute_efficiency[passed][name]
    curve.backward_error, curve.backward_points = result.held.median, result.points
    return
  end
  local portable = kind:match "^portable_attention%.(.*)"
  local curves_of = portable and accelerator.portable_attention[portable]
    or kind == "network.fast" and trial.network.fast.efficiency or kind == "hbm" and accelerator.hbm
    or kind == "accelerator" and accelerator or accelerator.compute_efficiency[kind]
  local target = curves_of[name]
  target.error, target.points = result.held.median, result.points
end

local schema = {
  system = check.any(), files = check.list(check.any(), { min = 1, max = 100 }),
  gpu = check.string { optional = true },
  keep = check.boolean { default = false }, salt = check.integer { default = 0 },
  name = check.string { optional = true },
  source = check.string { optional = true },
}

-- Raises unless cases that a script gives are as the reader makes them: it must be able to predict them.
local function check_cases(what, file, own)
  local reader, machine, set = reader_named(file.kind), core.machine(own), rules()
  for i, case in ipairs(file.cases) do
    local sound = type(case.measured) == "number" and case.measured > 0 and case.measured < math.huge
    if not (sound and check.attempt(reader.predict, case, machine, own, set)) then
      check.fail("%s.cases[%d] is no case of '%s' as tperf.measured reads them", what, i, file.kind)
    end
  end
  if not check.attempt(curves.of, file.kind, file.cases, own) then
    check.fail("%s.cases are not of '%s' as tperf.measured reads them", what, file.kind)
  end
end

local FILE <const> = {
  kind = check.choice { curves.kinds() },
  cases = check.list(function(case, path)
    if type(case) == "table" then return case end
    return nil, ("'%s' must be a table, got %s"):format(path, check.show(case)), path
  end),
}

-- The file number i, checked.
local function checked(file, i, o)
  if type(file) == "string" then return file end
  local what = ("tperf.calibrate: files[%d]"):format(i)
  if type(file) ~= "table" then
    check.fail("%s must be the name of a file or { kind =, cases = }, got %s", what, check.show(file))
  end
  file = check.record(what, file, FILE)
  check_cases(what, file, o.system)
  return file
end

local function cases_of(file, o, left_out)
  local cases, kind, left
  if type(file) == "table" then
    cases, kind = file.cases, file.kind
  else
    cases, kind, left = sources.open(file, function(case)
      return not o.gpu or gpus.system(case.gpu) == o.gpu, "of another GPU than " .. (o.gpu or "")
    end)
    for reason, rows in pairs(left) do left_out[#left_out + 1] = { file = file, reason = reason, rows = rows } end
  end
  return lists.where(cases, function(case)
    return not case.flops or o.system.accelerator.tensor[case.dtype]
  end), reader_named(kind)
end

-- Takes the networks among the files: the system gets their tiers. Returns their names, and what is to be said of them.
local function take_networks(o)
  local names, rest, said = {}, {}, {}
  for _, file in ipairs(o.files) do
    local found = type(file) == "string" and sources.network(file)
    if found then
      names[#names + 1] = file
      for _, text in ipairs(found.notes) do said[#said + 1] = ("%s: %s"):format(file, text) end
      for i, tier in ipairs(found.tiers) do
        if not tier.bandwidth and (i == 1 or tier.nics_per_gpu) then
          local own = i == 1 and o.system.network.fast or o.system.network.slow
          said[#said + 1] = ("%s: %s: the bandwidth is %s's, %s"):format(file, tier.name, o.system.name,
            units.format(own.bandwidth, "bytes/s"))
        end
      end
      o.system = o.system:with(network.onto(o.system, found.tiers))
    else
      rest[#rest + 1] = file
    end
  end
  o.files = rest
  return names, said
end

-- The cases of all files by reader, in the order of the files: a log of nccl-tests has one number of GPUs, but a curve
-- needs several.
local function cases_by_reader(o, left_out)
  local list, of = {}, {}
  for i, file in ipairs(o.files) do
    file = checked(file, i, o)
    local cases, reader = cases_of(file, o, left_out)
    local group = of[reader.name]
    if not group then
      group = { reader = reader, cases = {}, files = {} }
      of[reader.name], list[#list + 1] = group, group
    end
    table.move(cases, 1, #cases, #group.cases + 1, group.cases)
    group.files[#group.files + 1] = type(file) == "string" and file or "a table"
  end
  return list
end

-- The source text of the new system: the fitted curves, with the previous system's sources for the rest.
local function source_of(before, groups, fits, networks)
  local names, files = {}, {}
  for i, f in ipairs(fits) do names[i] = f.curve end
  for _, group in ipairs(groups) do table.move(group.files, 1, #group.files, #files + 1, files) end
  local parts = {}
  if networks[1] then parts[1] = ("network: as %s describe it"):format(table.concat(networks, ", ")) end
  if names[1] then
    parts[#parts + 1] = ("%s: fitted by `tperf calibrate` to %s"):format(table.concat(names, ", "),
      table.concat(files, ", "))
  end
  return ("%s; all else is %s's, with its sources"):format(table.concat(parts, "; "), before.name)
end

local BY_UNITS <const> = { gemm = true, attention = true, moe = true } -- kernels whose tiles fill multiprocessors

-- Raises where curves would need what the system does not say.
local function check_units(own, groups)
  for _, group in ipairs(groups) do
    if BY_UNITS[group.reader.name] and not own.accelerator.units then
      check.fail("tperf.calibrate: system '%s' does not say accelerator.units, its multiprocessors (AMD: compute "
        .. "units; else: cores with matrix units), which curves of %s need", own.name, table.concat(group.files, ", "))
    end
  end
end

--- Fits a system's curves to measurements. A third of them is held back from each fit and gives its error.
---@param given table
---   system  the system to start from: its peaks stay, and its bandwidths unless a network among the files has others
---   files   CSV files of products, attention, experts, memory kernels or collectives, logs of nccl-tests, networks as
---           tperf.import.network reads them, or { kind =, cases = } as tperf.measured reads them
---   gpu     use only the rows whose GPU is that of this system
---   keep    accept values that the measurements leave open
---   salt    another number holds back another third of the measurements (0)
---   name, source  of the new system
---@return table result { system, fits = { { curve, values, undetermined, fitted, held, points } … },
---   left_out = { { file, reason, rows } … }, notes = what networks do not say }
function calibrate.run(given)
  local o = check.record("tperf.calibrate", given, schema)
  o.system = system(o.system)
  local networks, said = take_networks(o)
  local trial, set, fits, left_out = copy(o.system), rules(), {}, {}
  local groups = cases_by_reader(o, left_out)
  check_units(o.system, groups)
  for _, group in ipairs(groups) do
    local list = curves.of(group.reader.name, group.cases, o.system)
    if #list == 0 then
      local most = measured.most_first(left_out)[1]
      check.fail("tperf.calibrate: %s has no measurement%s that a curve can be fitted to%s",
        table.concat(group.files, ", "), o.gpu and " of " .. o.gpu or "",
        most and (" (%d rows left out: %s)"):format(most.rows, most.reason) or "")
    end
    for _, curve in ipairs(list) do
      curve.reader = group.reader.name
      local result = fit_curve(curve, trial, o, set)
      result.install(trial, result.values)
      note(trial, result)
      fits[#fits + 1] = result
    end
  end
  trial.name, trial.source = o.name or trial.name, o.source or source_of(o.system, groups, fits, networks)
  trial.network = tiers.given(trial.network)
  return { system = system(trial), fits = fits, left_out = measured.most_first(left_out), notes = said }
end

local BY_BYTES = { x = "bytes", xunit = "bytes", yunit = "bytes/s", work = function(case) return case.bytes end }

-- The axes of a case in a plot: size, and work done per second.
local axes = {
  gemm = { x = "flops", xunit = "FLOP", yunit = "FLOP/s", work = function(case) return case.flops end },
  attention = {
    x = "queries", xunit = "tokens", yunit = "FLOP/s",
    work = function(case) return 2 * case.batch * case.heads * case.queries * case.keys * case.head_dim end,
  },
  moe = { x = "rows", xunit = "rows", yunit = "rows/s", work = function(case) return case.rows end },
  memory = BY_BYTES, direct = BY_BYTES, collective = BY_BYTES,
}

--- Plots one fit: the measured points and those of the fitted curve.
---@param result table  from calibrate.run
---@param index integer index of the fit
---@return tperf.Plot
function calibrate.plot(result, index)
  local f, rows = result.fits[index], {}
  local axis, machine, set = axes[f.reader.name], core.machine(result.system), rules()
  for _, case in ipairs(f.cases) do
    local x, work = case[axis.x], axis.work(case)
    rows[#rows + 1] = { x = x, y = work / (case.achieved or case.measured), series = "measured" }
    rows[#rows + 1] = { x = x, y = work / f.reader.predict(case, machine, result.system, set), series = "fitted" }
  end
  return require "tperf.plot".scatter {
    rows = rows, x = "x", y = "y", series = "series", logx = true, logy = true, xunit = axis.xunit, yunit = axis.yunit,
    title = f.curve, xlabel = axis.x, ylabel = "work per second",
  }
end

return calibrate
