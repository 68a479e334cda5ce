local check = require "tperf.base.check"
local options = require "tperf.input.options"
local output = require "tperf.output.file"
local processes = require "tperf.cli.sandbox.processes"

local COLUMNS = {
  { key = "curve" }, { key = "points" }, { key = "fitted.median", title = "error", unit = "%" },
  { key = "fitted.p90", title = "p90", unit = "%" }, { key = "held.median", title = "held back", unit = "%" },
  { key = "held.p90", title = "held back p90", unit = "%" }, { key = "open" },
}

local function table_of(result)
  local rows = {}
  for i, f in ipairs(result.fits) do
    rows[i] = {
      curve = f.curve, points = f.points, fitted = f.fitted, held = f.held, values = f.values,
      open = #f.undetermined > 0 and table.concat(f.undetermined, ", ") or nil,
    }
  end
  return rows
end

local STEP_COLUMNS = {
  { key = "software" }, { key = "runs" }, { key = "fitted.median", title = "error", unit = "%" },
  { key = "fitted.mean", title = "mean", unit = "%" }, { key = "fitted.p90", title = "p90", unit = "%" },
  { key = "held.median", title = "held back", unit = "%" }, { key = "held.mean", title = "held back mean", unit = "%" },
}

local function path_of(folder, name) return ("%s/%s.yaml"):format(folder, name) end

-- Writes a profile and adds its row to the table.
local function write_profile(folder, rows, name, fitted)
  local profile, software = require "tperf.measured.calibrate.profile", require "tperf".software
  local text = profile.text(software(name), fitted.cases, fitted.values, fitted.held, fitted.shared)
  output.write(path_of(folder, name), text)
  rows[#rows + 1] = { software = name, runs = #fitted.cases, fitted = fitted.all, held = fitted.held }
end

-- Writes `typical` and `tuned`, which the stacks of their kind share.
local function write_shared(folder, rows, stacks, usual)
  local kinds = require "tperf.measured.calibrate.kinds"
  local holdout = require "tperf.measured.calibrate.holdout"
  local profile, fit = require "tperf.measured.calibrate.profile", require "tperf.measured.calibrate.fit"
  for _, kind in ipairs { "typical", "tuned" } do
    local groups, cases = kinds.of(stacks, kind), {}
    for _, group in ipairs(groups) do table.move(group, 1, #group, #cases + 1, cases) end
    if #groups >= 2 then
      local values, held = holdout.shared(groups)
      held.reach = kind == "typical" and holdout.reach(stacks, usual)() or nil
      local all = fit.errors(profile.add_ratios({}, cases, values))
      write_profile(folder, rows, kind, { cases = cases, values = values, all = all, held = held, shared = true })
    end
  end
end

-- Writes profiles of the engines in tables of serving measurements.
local function calibrate_engines(values, files)
  local engine, software = require "tperf.measured.calibrate.engine", require "tperf".software
  local samples, names = engine.samples(files)
  local rows = {}
  table.sort(names)
  if #names == 0 then
    check.fail("%s: no row is of an engine with a profile: the columns 'engine' and 'engine_version' name it",
      table.concat(files, ", "))
  end
  for _, name in ipairs(names) do output.check(path_of(values.software, name)) end
  for _, name in ipairs(names) do
    local result, reason = engine.fit(software(name), samples[name])
    if not result then io.stderr:write(("%s: %s: no profile written\n"):format(name, reason)) end
    if result then
      output.write(path_of(values.software, name), engine.text(software(name), result))
      rows[#rows + 1] = { software = name, runs = result.rows, fitted = result.fitted, held = result.held }
    end
  end
  require "tperf.cli.answer.table"(values, rows, STEP_COLUMNS)
end

-- Fits profiles to tables of training runs, one file per stack, and the shared ones. Output files are checked before
-- the fits, which take long.
local function calibrate_software(values, files, host)
  local profile = require "tperf.measured.calibrate.profile"
  local folder, message = host.output.folder(values.software)
  if not folder then check.fail("--software: cannot use the folder %s", message) end
  local _, reader = require "tperf.measured".open(files[1])
  if reader.cases then return calibrate_engines(values, files) end
  local rows, stacks, names, left_out = {}, profile.stacks(files)
  table.sort(names)
  for _, name in ipairs(names) do output.check(path_of(values.software, name)) end
  local usual = require "tperf.measured.calibrate.kinds".usual(stacks)
  for i, fitted in ipairs(profile.fit_all(stacks, names, usual)) do
    fitted.cases = stacks[names[i]]
    write_profile(values.software, rows, names[i], fitted)
  end
  write_shared(values.software, rows, stacks, usual)
  require "tperf.cli.answer.table"(values, rows, STEP_COLUMNS)
  if not (values.json or values.csv) then require "tperf.cli.answer.left_out"(left_out) end
end

return {
  summary = "fit a system's efficiency curves to measurements",
  arguments = "SYSTEM FILE ... | --software DIR FILE ... | --kit",
  from = { "systems files", "files" },
  example = [[
tperf calibrate h100-sxm all_reduce.log gemm.csv --out mine.yaml
tperf calibrate --kit > kit.py; python3 kit.py --out measured]],
  details = [[
SYSTEM is the starting point: its peaks stay, and its bandwidths unless a FILE has others. A
FILE is a log of nccl-tests as printed; a network that `tperf show` reads, whose tiers the
system gets; or a CSV table: of matrix products (dtype, m, n, k, time_s),
attention (phase, attn_dtype, kv_dtype, batch, seq_q, kv_len, heads, kv_heads,
head_dim, time_s), kernels that only read and write (op, elements, bytes_min,
time_s), blocks of experts (tokens, hidden, moe_inter, experts, topk, tp, ep,
distribution, dtype, time_s), collectives (collective, gpus, nodes, size_bytes,
time_us) or all-reduces of serving engines (num_gpus, size_bytes, busbw_GBps,
time_s). A third of the measurements is held out from each fit to measure its error.
With --software, the FILEs are tables of training runs; a profile is written for each
stack, and `typical` and `tuned`, which several stacks share, each with one weight.
Or they are tables of closed loops or static batches: then one for each serving engine.
--kit prints a script that measures a machine with PyTorch or JAX and writes tables.]],
  options = options.join({
    { long = "out", short = "o", value = "FILE", writes = "file",
      help = "write the system file (default: standard output)" },
    { long = "gpu", value = "SYSTEM", from = "systems", help = "use only rows measured on this system's GPU" },
    { long = "name", value = "NAME", help = "the new system's name" },
    { long = "keep", help = "keep values that the measurements do not determine" },
    { long = "software", value = "DIR",
      help = "fit software profiles to tables of runs; write to DIR" },
    { long = "kit", help = "print a script in Python that measures a machine" },
    processes.option,
    { long = "plot", value = "PREFIX", writes = "prefix",
      help = "draw each fitted curve over its points: PREFIX-CURVE.svg" },
  }, options.formats),
  run = function(values, arguments, host)
    if values.kit then
      if arguments[1] or values.software or values.out then return false, "--kit goes by itself" end
      io.stdout:write((require "tperf.measured.calibrate.kit"))
      return
    end
    local ok, wrong = processes.start(values, host)
    if not ok then return false, wrong end
    if values.software and arguments[1] then return calibrate_software(values, arguments, host) end
    if not arguments[2] then return false, "SYSTEM and at least one FILE are needed" end
    local calibrate = require "tperf.measured.calibrate"
    local result = calibrate.run {
      system = arguments[1], files = table.move(arguments, 2, #arguments, 1, {}), gpu = values.gpu, name = values.name,
      keep = values.keep or false,
    }
    for _, left in ipairs(result.left_out) do
      io.stderr:write(("%s: %d rows left out: %s\n"):format(left.file, left.rows, left.reason))
    end
    for _, note in ipairs(result.notes) do io.stderr:write(("tperf: %s\n"):format(note)) end
    local text = require "tperf.measured.calibrate.write"(result.system)
    if values.out then output.write(values.out, text) end
    for i, f in ipairs(values.plot and result.fits or {}) do
      calibrate.plot(result, i):save(("%s-%s.svg"):format(values.plot, f.curve))
    end
    if values.out and #result.fits == 0 then return end
    if values.out or values.json or values.csv then
      require "tperf.cli.answer.table"(values, table_of(result), COLUMNS)
    else
      io.stdout:write(text)
    end
  end,
}
