--- The cost of unequal GPUs to a synchronous step, which waits for the slowest of them.
--
-- The time of a GPU's kernels is normally distributed, with one mean for all GPUs and a standard deviation that is a
-- given part of it. The slowest GPU of those that share a layer slows its stage; the slowest stage sets the pipeline's
-- pace, while the bubble at its ends is made of all stages, so a usual one counts; the slowest replica sets the step:
--   E = deviation x (computing x e(all GPUs) + computing in the bubble x e(GPUs of a stage)),
-- with e(n) the expected largest of n standard normal numbers. Links and HBM are equally fast everywhere.
--
-- Sinha et al. (SC22, arXiv 2208.11035) timed nine tenths of the GPUs of five clusters: GPUs of one kind differ by 8 %
-- on average (22 % at most), without outliers up to 1.5 times as slow as the median.
local check = require "tperf.base.check"
local normal = require("tperf.base.lazy").module "tperf.question.goodput.normal"

local straggling = {}

local DEVIATION <const> = { min = 0, max = 0.5 }
local schema = {
  deviation = check.number(DEVIATION),
  screened = check.number { above = 0, max = 10, optional = true },
}

--- The field of tperf.train and tperf.cost: the standard deviation as a part of the mean, or { deviation, screened =
--- GPUs slower by more than this part are found and replaced before they run }.
straggling.field = check.one_of(check.number { min = 0, max = 0.5, optional = true }, check.record_of(schema))

local LOW <const>, HIGH <const> = 0.05, 0.95

---@class tperf.straggling the cost of unequal GPUs to a step
---@field deviation number standard deviation of a GPU's time, a part of the mean
---@field screened? number GPUs slower by more than this part do not run
---@field slowest number expected time of the slowest of all GPUs, as a multiple of the mean
---@field seconds number lost in an iteration, expected
---@field low number 5 % quantile of these seconds over clusters
---@field high number 95 % quantile of these seconds over clusters

--- What unequal GPUs add to an iteration.
---@param c tperf.configuration  gpus, pp, dp and breakdown
---@param given number|table     of straggling.field
---@return tperf.straggling
function straggling.of(c, given)
  local s = type(given) == "table" and given or { deviation = given }
  local deviation, b = s.deviation, c.breakdown
  local limit = s.screened and deviation > 0 and s.screened / deviation or nil
  local all, stage = c.gpus, math.max(c.gpus // ((c.dp or 1) * (c.pp or 1)), 1)
  local busy = b.compute + b.memory + b.tensor_comm + (b.host or 0)
  local waiting = busy > 0 and b.bubble * b.compute / busy or 0.0
  local usual = waiting * normal.expected_largest(stage, limit)
  local function lost(slowest) return math.max(deviation * (b.compute * slowest + usual), 0.0) end
  local slowest = normal.expected_largest(all, limit)
  return {
    deviation = deviation, screened = s.screened, slowest = 1 + deviation * slowest, seconds = lost(slowest),
    low = lost(normal.largest_quantile(all, LOW, limit)), high = lost(normal.largest_quantile(all, HIGH, limit)),
  }
end

return straggling
