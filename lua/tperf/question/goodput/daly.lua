--- The best checkpoint interval of a run that fails, and its expected time: the model of J. T. Daly, "A higher order
--- estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006) 303
--- (doi 10.1016/j.future.2004.11.016), after J. W. Young, Communications of the ACM 17 (1974) 530.
--
-- Failures come at random, one in M seconds on average, also while the run is saved or restarted. After `interval`
-- seconds of work, saving stops it for `block` seconds; a failure costs `restart` seconds and all work since the last
-- save. A save that is written in the background counts `lag` seconds later: the first one after a restart takes that
-- much longer and the others follow at the same pace, so the restart is longer by `lag` (docs/model.md).
local daly = {}

--- Young's interval: seconds of work between saves, √(2 block M).
function daly.young(block, mtbf) return math.sqrt(2 * block * mtbf) end

--- Daly's higher-order interval in seconds: accurate as long as saving takes less than half of M.
function daly.higher_order(block, mtbf)
  if block >= 2 * mtbf then return mtbf end
  local x = block / (2 * mtbf)
  return daly.young(block, mtbf) * (1 + math.sqrt(x) / 3 + x / 9) - block
end

--- The interval that minimizes daly.wall, in seconds. Solves (1 - interval / M) e^((interval + block) / M) = 1
--- by Newton's method.
function daly.best(block, mtbf)
  local x, rate = daly.higher_order(block, mtbf) / mtbf, block / mtbf
  for _ = 1, 60 do
    local slope = -x * math.exp(x + rate)
    if slope == 0 then break end
    local step = ((1 - x) * math.exp(x + rate) - 1) / slope
    x = math.max(math.min(x - step, 1.0), x / 2)
    if math.abs(step) < 1e-15 * x then break end
  end
  return mtbf * x
end

--- The expected seconds of a run (Daly's complete model): its work, and the time of saves, failures and restarts.
---@param work number     seconds without any of these
---@param interval number seconds of work between saves
---@param block number    seconds that a save stops the work
---@param restart number  seconds from a failure until work resumes
---@param lag number      seconds after which a save counts (0)
---@param mtbf number     mean seconds between failures
---@return number
function daly.wall(work, interval, block, restart, lag, mtbf)
  local each = (interval + block) / mtbf
  -- For small x, e^x - 1 by its series: the difference would have no digits left.
  local grown = each < 1e-5 and each * (1 + each / 2 * (1 + each / 3)) or math.exp(each) - 1
  return mtbf * math.exp((restart + lag) / mtbf) * grown * work / interval
end

return daly
