-- Writes kernels/intervals.yaml from hold-outs of a table of training runs, and of tables of serving: tperf run --trust
-- tools/write_intervals.lua STEPS.csv SERVING.csv … `make intervals MEASURED=FOLDER SERVING=FOLDER` runs it.
local check = require "tperf.base.check"
local classes = require "tperf.measured.calibrate.classes"
local served = require "tperf.measured.calibrate.served"
local tperf = require "tperf"

local file = assert(arg[1], "which table of training runs?")
local own = tperf.validate { file = file }.cases
local shared = {}
for _, kind in ipairs { "typical", "tuned" } do shared[kind] = tperf.validate { file = file, software = kind }.cases end
local lines = { [[
# Intervals that hold nine tenths of runs which no fit saw, by figure and class: quantiles of measured / predicted, 5 %
# and 95 %, runs, sources, and what the runs have in common.
source: >-
  made by `make intervals` (lua/tperf/measured/calibrate/classes.lua) from the training runs behind docs/accuracy.md;
  time: typical, tuned: each stack predicted by the profile fitted to the others of that kind, without its own facts;
  own: runs on systems, of scales and models that the fit to the rest of the stack did not see; memory: nothing is
  fitted to it; own: with the stack's facts, else without. tpot, ttft, duration of serving (served.lua beside it):
  closed loops and static batches, each predicted by its engine's profile fitted to the runs of other models. Each
  source counts as five runs at most
classes:]] }
local observed = classes.observed(own, shared)
for _, one in ipairs(served.observed(table.move(arg, 2, #arg, 1, {}))) do observed[#observed + 1] = one end
local figure
for _, class in ipairs(classes.of(observed)) do
  if class.figure ~= figure then lines[#lines + 1] = ("  %s: |"):format(class.figure) end
  figure = class.figure
  local where = {}
  for i, name in ipairs(check.names(class.where)) do where[i] = ("%s=%s"):format(name, class.where[name]) end
  lines[#lines + 1] = ("    %.3g %.3g %d %d %s"):format(class.low, class.high, class.runs, class.sources,
    table.concat(where, " "))
end
local out <close> = assert(io.open("kernels/intervals.yaml", "w"))
out:write(table.concat(lines, "\n"), "\n")
