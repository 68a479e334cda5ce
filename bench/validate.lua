--- Rows of published training runs predicted per second. Run by `make bench`. Argument: a table of measurements; by
--- default the one of the specs.
local tperf = require "tperf"

local file = arg[1] or "spec/data/measured/steps.csv"
local start = os.clock()
local found = tperf.validate { file = file }
local seconds = os.clock() - start
print(("validate: %d rows, %d predicted, %.2f s of processor time: %.0f rows/s"):format(found.rows, found.predicted,
  seconds, found.rows / seconds))
