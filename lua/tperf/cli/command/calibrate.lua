local check = require "tperf.check"
local options = require "tperf.cli.options"
local output = require "tperf.report.output"

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

-- Profiles from tables of training runs, one file a stack. What could fail is done before the fits, which take long.
local function calibrate_software(values, files, host)
  local profile, software = require "tperf.calibrate.profile", require "tperf".software
  local folder, message = host.output.folder(values.software)
  if not folder then check.fail("--software: cannot use the folder %s", message) end
  local fits, rows = {}, {}
  for _, file in ipairs(files) do
    for stack, cases in pairs(profile.stacks(file)) do
      local path = ("%s/%s.yaml"):format(values.software, stack)
      output.check(path)
      fits[#fits + 1] = { base = software(stack), cases = cases, path = path }
      rows[#rows + 1] = { software = stack, runs = #cases }
    end
  end
  for i, fit in ipairs(fits) do
    local text
    text, rows[i].fitted, rows[i].held = profile.text(fit.base, fit.cases)
    output.write(fit.path, text)
  end
  table.sort(rows, function(a, b) return a.software < b.software end)
  require "tperf.cli.table"(values, rows, STEP_COLUMNS)
end

return {
  summary = "fit a system's efficiency curves to measurements",
  arguments = "SYSTEM FILE ... | --software DIR FILE ...",
  from = { "systems files", "files" },
  details = [[
SYSTEM is what to start from: its peaks and bandwidths stay. A FILE is a log of
nccl-tests as printed, or a CSV table: of matrix products (dtype, m, n, k, time_s),
attention (phase, attn_dtype, kv_dtype, batch, seq_q, kv_len, heads, kv_heads,
head_dim, time_s), kernels that only read and write (op, elements, bytes_min,
time_s), blocks of experts (tokens, hidden, moe_inter, experts, topk, tp, ep,
distribution, dtype, time_s), collectives (collective, gpus, nodes, size_bytes,
time_us) or all-reduces of serving engines (num_gpus, size_bytes, busbw_GBps,
time_s). A third of the measurements is held back from each fit and tells its error.
For example:
  tperf calibrate h100-sxm all_reduce.log gemm.csv --out mine.yaml
With --software, the FILEs are tables of training runs.]],
  options = options.join({
    { long = "out", short = "o", value = "FILE", writes = "file",
      help = "write the system file (default: standard output)" },
    { long = "gpu", value = "SYSTEM", from = "systems", help = "use only the rows whose GPU is that of this system" },
    { long = "name", value = "NAME", help = "the new system's name" },
    { long = "keep", help = "accept values that the measurements leave open" },
    { long = "software", value = "DIR",
      help = "fit software profiles to tables of training runs, into DIR, made if missing" },
    { long = "plot", value = "PREFIX", writes = "prefix",
      help = "draw each fitted curve over its points: PREFIX-CURVE.svg" },
  }, options.formats),
  run = function(values, arguments, host)
    if values.software and arguments[1] then return calibrate_software(values, arguments, host) end
    if not arguments[2] then return false, "SYSTEM and at least one FILE are needed" end
    local calibrate = require "tperf.calibrate"
    local result = calibrate.run {
      system = arguments[1], files = table.move(arguments, 2, #arguments, 1, {}), gpu = values.gpu, name = values.name,
      keep = values.keep or false,
    }
    for _, left in ipairs(result.left_out) do
      io.stderr:write(("%s: %d rows left out: %s\n"):format(left.file, left.rows, left.reason))
    end
    local text = require "tperf.calibrate.write"(result.system)
    if values.out then output.write(values.out, text) end
    for i, f in ipairs(values.plot and result.fits or {}) do
      calibrate.plot(result, i):save(("%s-%s.svg"):format(values.plot, f.curve))
    end
    if values.out or values.json or values.csv then
      require "tperf.cli.table"(values, table_of(result), COLUMNS)
    else
      io.stdout:write(text)
    end
  end,
}
