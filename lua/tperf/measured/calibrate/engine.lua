--- Fits profiles of serving engines to tables of measured serving: the host's costs, a few numbers per engine. Each run
--- is simulated at a few values of each parameter; between these, and for combinations, its times are taken as linear.
local check = require "tperf.base.check"
local descent = require "tperf.measured.calibrate.descent"
local engines = require "tperf.measured.serving.engines"
local fit = require "tperf.measured.calibrate.fit"
local lists = require "tperf.base.lists"
local read = require "tperf.measured.read"
local trim = require "tperf.input.text".trim

local engine = {}

-- The fitted parameters: fields of the profile's engine, and the profile's `host`, which is not linear: some steps are
-- not bound by launches.
local PARAMETERS <const> = {
  { name = "step", at = { 0, 2e-3 }, high = 5e-2 }, { name = "step_parallel", at = { 0, 2e-3 }, high = 5e-2 },
  { name = "request", at = { 0, 5e-5 }, high = 2e-3 },
  { name = "host", at = { 0, 2e-5, 4e-5, 6e-5, 9e-5, 1.5e-4 }, high = 1.5e-4 },
}
local FEWEST <const> = 3 -- rows per parameter
local NEAR_NOTHING <const> = 0.01 -- of the second value; smaller values count as 0

-- The profile with fitted values replacing its own.
local function with(base, values)
  local made, own = {}, {}
  for name, value in pairs(base) do made[name] = value end
  for name, value in pairs(base.engine) do own[name] = value end
  for name, value in pairs(values) do (name == "host" and made or own)[name] = value end
  made.engine = own
  return made
end

-- Times of all rows of a sample: { row, seconds, measured }. A throughput is converted to time per token.
local function times_of(sample, profile)
  local list = {}
  for _, part in ipairs(sample) do
    for _, case in ipairs(part.reader.cases(part.rows, part.path, { software = profile }, function() end)) do
      local rate = case.metric == "throughput"
      if case.metric == "TPOT" or case.metric == "TTFT" or not read.positive(case.row.tpot_s) then
        list[#list + 1] = { row = case.row, metric = case.metric, first = case.metric == "TTFT", model = case.model,
          gpu = case.system, source = case.source,
          seconds = rate and 1 / case.predicted or case.predicted,
          measured = rate and 1 / case.measured or case.measured }
      end
    end
  end
  return list
end

--- The times of a sample by the values of each parameter, with the others at 0.
---@param sample table[]  from engine.samples
---@param base table      the profile
---@return table[] cases  { row, metric, model, gpu, source, measured }, for engine.best and engine.seconds_at
function engine.tabulated(sample, base)
  local zero = {}
  for _, p in ipairs(PARAMETERS) do zero[p.name] = 0 end
  local cases = times_of(sample, with(base, zero))
  for _, case in ipairs(cases) do case.at = {} end
  for _, p in ipairs(PARAMETERS) do
    for k = 2, #p.at do
      zero[p.name] = p.at[k]
      for i, other in ipairs(times_of(sample, with(base, zero))) do
        cases[i].at[p.name] = cases[i].at[p.name] or { cases[i].seconds }
        cases[i].at[p.name][k] = other.seconds
      end
    end
    zero[p.name] = 0
  end
  return cases
end

--- Seconds of a case at the given values of the parameters.
function engine.seconds_at(case, values)
  local seconds = case.seconds
  for _, p in ipairs(PARAMETERS) do
    local value, k = values[p.name], 1
    while k < #p.at - 1 and value > p.at[k + 1] do k = k + 1 end
    local low, high = case.at[p.name][k], case.at[p.name][k + 1]
    seconds = seconds + low + (value - p.at[k]) / (p.at[k + 1] - p.at[k]) * (high - low) - case.seconds
  end
  return seconds
end

--- The values of the parameters that best fit the cases with keep(case).
function engine.best(cases, keep)
  local parameters = {}
  for i, p in ipairs(PARAMETERS) do
    parameters[i] = { name = p.name, low = p.at[2] * NEAR_NOTHING / 10, high = p.high, start = p.at[2] / 2 }
  end
  local kept = lists.where(cases, keep)
  return descent.minimise(parameters, function(values)
    local residuals = {}
    for i, case in ipairs(kept) do
      residuals[i] = math.log(math.max(engine.seconds_at(case, values), 1e-9) / case.measured)
    end
    return residuals
  end)
end

local function number_rows(cases)
  local numbers, n = {}, 0
  for _, case in ipairs(cases) do
    if not numbers[case.row] then
      n = n + 1
      numbers[case.row] = n
    end
    case.number = numbers[case.row]
  end
  return n
end

-- predicted / measured of each third of the rows, by a fit to the other two: only TPOT and whole times, to which the
-- interval applies.
local function held_out(cases)
  local ratios = {}
  for third = 0, 2 do
    local values = engine.best(cases, function(case) return fit.third(case.number) ~= third end)
    for _, case in ipairs(cases) do
      if fit.third(case.number) == third and not case.first then
        ratios[#ratios + 1] = engine.seconds_at(case, values) / case.measured
      end
    end
  end
  return ratios
end

local function rounded(values)
  local made = {}
  for _, p in ipairs(PARAMETERS) do
    local value = values[p.name]
    made[p.name] = value < NEAR_NOTHING * p.at[2] and 0 or tonumber(("%.2g"):format(value))
  end
  return made
end

--- Fits one engine's profile.
---@param base table      the profile to start from
---@param sample table[]  from engine.samples
---@return table? result  nil and why if there are too few rows; { values, rows, held = { median, p90, spread },
---   fitted },
---   errors of TPOT or, for rows without it, of the whole time
function engine.fit(base, sample)
  local cases = engine.tabulated(sample, base)
  local rows = number_rows(cases)
  local fewest = FEWEST * #PARAMETERS
  if rows < fewest then
    return nil, ("%d rows that can be predicted, where a fit needs %d"):format(rows, fewest)
  end
  local ratios = held_out(cases)
  local held = fit.errors(ratios)
  held.spread = fit.spread { ratios }
  local values = rounded(engine.best(cases, function() return true end))
  local fitted = {}
  for _, case in ipairs(times_of(sample, with(base, values))) do
    if not case.first then fitted[#fitted + 1] = case.seconds / case.measured end
  end
  return { values = values, rows = rows, held = held, fitted = fit.errors(fitted) }
end

--- The rows of serving tables, grouped by the profile of the engine that served them.
---@param files string[]
---@return table<string, table[]> samples  lists of { reader, path, rows }
---@return string[] names
function engine.samples(files)
  local measured = require "tperf.measured"
  local samples, names = {}, {}
  for _, path in ipairs(files) do
    local rows, reader = measured.open(path)
    if not reader.cases then check.fail("%s is not a table of serving", path) end
    local by_name, found = fit.groups(rows, function(row) return engines.profile(row) or "" end)
    for _, name in ipairs(found) do
      if name ~= "" then
        if not samples[name] then
          samples[name] = {}
          names[#names + 1] = name
        end
        table.insert(samples[name], { reader = reader, path = path, rows = by_name[name] })
      end
    end
  end
  return samples, names
end

local FITTED <const> = { step = true, step_parallel = true, request = true }
local OWN <const> = { "release", "scheduler", "async_scheduling", "step", "step_parallel", "request", "token",
  "front_end", "front_end_token", "sampler", "sampler_entry", "compiled", "prefill_graphs", "delta", "fused_casts",
  "whole_caches", "fused_experts", "portable_experts", "experts_step", "experts_setup", "compile", "memory",
  "memory_utilization", "runtime", "runtime_parallel", "state_dtype", "pooled", "pooled_families", "unpooled_families" }

local UNITS <const> = { step = "us", step_parallel = "us", request = "us", token = "us", front_end = "ms",
  front_end_token = "us", sampler_entry = "ns",
  experts_setup = "us", experts_step = "us", compile = "s", runtime = "GB", runtime_parallel = "GB" }
local SCALES <const> = { us = 1e6, ms = 1e3, ns = 1e9, s = 1, GB = 1e-9 }

local function with_unit(value, unit)
  return unit and ("%.4g %s"):format(value * SCALES[unit], unit) or tostring(value)
end

-- The fields of a record that are not 0, as "fp8: 30 us".
local function fields_of(record, unit)
  local fields = {}
  for _, name in ipairs(check.names(record)) do
    if record[name] ~= 0 then fields[#fields + 1] = ("%s: %s"):format(name, with_unit(record[name], unit)) end
  end
  return fields
end

local function line_of(name, value)
  if type(value) ~= "table" then return ("  %s: %s"):format(name, with_unit(value, UNITS[name])) end
  if value[1] then return ("  %s: [%s]"):format(name, table.concat(value, ", ")) end
  return ("  %s: { %s }"):format(name, table.concat(fields_of(value, UNITS[name]), ", "))
end

local USUAL <const> = { async_scheduling = true, compiled = true, delta = "merged", state_dtype = "fp32",
  prefill_graphs = true }

-- Whether a profile need not say it.
local function usual(name, value)
  if type(value) == "table" then return not value[1] and #fields_of(value) == 0 end
  return value == nil or value == 0 or value == (USUAL[name] or false)
end

-- Text in lines of a YAML block.
local function append_wrapped(lines, text)
  local line = " "
  for word in text:gmatch "%S+" do
    if #line + 1 + #word > 118 then
      lines[#lines + 1], line = line, " "
    end
    line = line .. " " .. word
  end
  lines[#lines + 1] = line
end

--- The text of a profile's file: fitted values replace the base's, the rest is unchanged.
---@param base table
---@param result table  from engine.fit
function engine.text(base, result)
  local before = trim(base.source or ""):gsub("^step,.-to the others; ", "")
  local lines = { "name: " .. base.name, "source: >-" }
  append_wrapped(lines, ("step, step_parallel, request, host: fitted by `tperf calibrate --software` to the TTFT and "
    .. "TPOT of %d closed loops or whole times of static batches (docs/serving.md); error, spread: each third of them "
    .. "by a fit to the others; %s"):format(result.rows, before))
  lines[#lines + 1] = "kernel: " .. base.kernel
  for _, name in ipairs { "compute", "attention", "memory", "comm" } do
    lines[#lines + 1] = ("%s: %g"):format(name, base[name])
  end
  if base.comm_setup > 0 then lines[#lines + 1] = ("comm_setup: %.4g us"):format(base.comm_setup * 1e6) end
  lines[#lines + 1] = ("host: %.4g us"):format(result.values.host * 1e6)
  lines[#lines + 1] = "overlap: 0"
  lines[#lines + 1] = "engine:"
  for _, name in ipairs(OWN) do
    local value = base.engine[name]
    if FITTED[name] then value = result.values[name] end
    if not usual(name, value) then lines[#lines + 1] = line_of(name, value) end
  end
  local held = result.held
  lines[#lines + 1] = ("runs: %d\nerror: %.3g\nspread: [%.3g, %.3g]"):format(result.rows, held.median,
    held.spread[1], held.spread[2])
  return table.concat(lines, "\n") .. "\n"
end

return engine
