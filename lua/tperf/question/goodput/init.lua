--- The time of a run that saves, fails and restarts, and its goodput: the part of that time that is training.
local check = require "tperf.base.check"
local checkpoint = require "tperf.question.goodput.checkpoint"
local daly = require "tperf.question.goodput.daly"
local machines = require "tperf.question.goodput.machines"
local poisson = require "tperf.question.goodput.poisson"
local units = require "tperf.base.units"

local goodput = {}

local time = check.number { min = 0, max = 1e12, unit = "s", optional = true }

--- The fields of tperf.cost about failures and checkpoints.
goodput.fields = {
  mtbf = check.record_of(machines.mtbf, { optional = true }),
  checkpoint = check.record_of(checkpoint.schema, { optional = true }),
  restart = time, detection = time,
  spares = check.record_of(machines.spares, { optional = true }),
}

local LOW <const>, HIGH <const> = 0.05, 0.95
local LEAST <const> = 1e-3 -- part of the time: a run that trains less than this never ends

-- Raises unless the arguments of a run that fails are complete.
local function check_given(o)
  if o.mtbf then
    for _, name in ipairs { "checkpoint", "restart" } do
      if not o[name] then
        check.fail("tperf.cost: with 'mtbf', '%s' is missing: %s", name, name == "restart"
          and "seconds from a failure's detection to training, without loading the checkpoint"
          or "how the run is saved, such as { bandwidth = \"2 GB/s\" } of each GPU")
      end
    end
    return
  end
  for _, name in ipairs { "restart", "detection", "spares" } do
    if o[name] then check.fail("tperf.cost: '%s' needs 'mtbf', how often the cluster fails", name) end
  end
  if o.checkpoint and not (o.checkpoint.interval or o.checkpoint.steps) then
    check.fail "tperf.cost: 'checkpoint' needs 'interval', or 'mtbf', for which the best one is found"
  end
end

local function seconds(value) return units.format(value, "s") end

local function never(mtbf, reason)
  check.fail("tperf.cost: the cluster fails every %s on average, and %s: no time is left to train", seconds(mtbf),
    reason)
end

-- Sets the interval: the one asked for, else the best feasible one.
local function choose_interval(one, least, mtbf)
  one.young, one.daly = daly.young(one.block, mtbf), daly.higher_order(one.block, mtbf)
  one.best = one.block > 0 and math.max(daly.best(one.block, mtbf), least) or nil
  one.interval = one.interval or one.best
end

-- The 5 % and 95 % quantiles of a run's time: the count of failures is Poisson-distributed, and the time that each
-- loses is uniform over an interval.
local function band(base, wall, failures, each)
  local lost = failures > 0 and (wall - base) / failures or 0
  if lost <= 0 then return wall, wall end
  local wider = math.sqrt(1 + each * each / (12 * lost * lost))
  local function at(part)
    return math.max(wall + (poisson.quantile(failures, part) - failures) * wider * lost, base)
  end
  return math.min(at(LOW), wall), math.max(at(HIGH), wall)
end

---@class tperf.goodput how much of a run's time is training
---@field seconds number of the whole run, expected
---@field low number 5 % quantile of the seconds
---@field high number 95 % quantile of the seconds
---@field part number goodput: the part of the time that is training
---@field mtbf? number mean seconds between failures of all GPUs
---@field failures? number expected
---@field checkpoint table { bytes, write, block, load, interval, young, daly, best: seconds, count }
---@field lost table seconds: { checkpoints, rework, restarts, waiting }
---@field spare_gpus integer on standby

-- A run without failures: the work, and the time for which saves stop it.
local function saved_only(work, one)
  local count = math.floor(work / one.interval)
  one.count = count
  local wall = work + count * one.block
  return {
    seconds = wall, low = wall, high = wall, part = work / wall, checkpoint = one, spare_gpus = 0,
    lost = { checkpoints = count * one.block, rework = 0.0, restarts = 0.0, waiting = 0.0 },
  }
end

local function failing(work, o, one, least, mtbf, machine)
  local restart = o.restart + (o.detection or 0) + one.load
  if mtbf <= one.write then never(mtbf, "writing a checkpoint takes " .. seconds(one.write)) end
  choose_interval(one, least, mtbf)
  local running = daly.wall(work, one.interval, one.block, restart, one.lag, mtbf)
  if not (work / running > LEAST) then
    never(mtbf, ("a restart takes %s, with a checkpoint every %s"):format(seconds(restart), seconds(one.interval)))
  end
  local waiting, spare_gpus = 0.0, 0
  if o.spares then waiting, spare_gpus = machines.spares_of(o.spares, mtbf, machine) end
  local checkpoints = work / one.interval * one.block
  local base, restarts = work + checkpoints, running * (1 - math.exp(-restart / mtbf))
  local low, high = band(base, running, running / mtbf, one.interval + one.block)
  local wall = running / (1 - waiting)
  one.count = work / one.interval
  return {
    seconds = wall, low = low / (1 - waiting), high = high / (1 - waiting), part = work / wall, mtbf = mtbf,
    failures = running / mtbf, checkpoint = one, spare_gpus = spare_gpus,
    lost = {
      checkpoints = checkpoints, rework = running - base - restarts, restarts = restarts, waiting = wall - running,
    },
  }
end

--- The time of a run with saves and failures.
---@param c table       a configuration: gpus, time, checkpoint_bytes
---@param o table       checked arguments with goodput.fields
---@param work number   seconds of training
---@param machine table?  a system
---@return tperf.goodput?  nil if neither was asked for
function goodput.of(c, o, work, machine)
  check_given(o)
  if not o.checkpoint then return nil end
  local one, least = checkpoint.of(c, o.checkpoint)
  if not o.mtbf then return saved_only(work, one) end
  return failing(work, o, one, least, machines.mtbf_of(o.mtbf, c.gpus, machine), machine)
end

return goodput
