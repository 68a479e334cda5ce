--- `--anchor`: a software profile moved so that it predicts a measured run.
local format = require "tperf.output.format"

--- Says on standard error what an anchor moved, and writes the profile.
---@param values table  the command's options
---@param a table       of tperf.anchor
return function(values, a)
  local path = values.anchor_to
  if path then require "tperf.output.file".write(path, require "tperf.measured.calibrate.write"(a.software)) end
  io.stdout:flush()
  io.stderr:write(("tperf: --anchor: %.4g %s is %s an iteration, where %s was predicted%s: the software's compute, "
    .. "attention, memory, comm and host take %.3g times as long; %s\n"):format(a.measured, a.unit,
    format.number(a.seconds, "s"), format.number(a.predicted, "s"),
    a.inside == false and ", from which nine tenths of runs differ less (are the arguments those of the run?)" or "",
    a.factor, path and ("what-ifs: --software %s"):format(path) or "--anchor-to writes it for what-ifs"))
end
