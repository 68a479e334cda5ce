--- Intervals that hold nine tenths of runs that no fit saw: kernels/intervals.yaml, a list of classes of runs, each
--- with the quantiles of measured / predicted of hold-outs by whole sources. An answer takes the nearest classes: those
--- whose conditions it meets and that none of the others narrows down; of several, the widest ends. Training and
--- serving share this; each names its own features.
local kernels = require "tperf.describe.kernels"
local memo = require "tperf.base.memo"

local intervals = {}

-- Whether a table has all of another one's fields.
local function has_all(fields, wanted)
  for name, value in pairs(wanted) do
    if fields[name] ~= value then return false end
  end
  return true
end

local NONE <const> = {}

--- The classes of a figure in kernels/intervals.yaml.
---@param figure string    such as "time", "memory", "tpot"
---@return table[] classes  { where, low, high, runs, sources } each; not to be changed
function intervals.known(figure) return kernels.of "intervals".classes[figure] or NONE end

local function narrows(one, other) return one ~= other and has_all(one.where, other.where) end

--- The nearest classes of a figure; none: nothing comparable was measured.
---@param figure string    such as "time", "memory", "tpot"
---@param features table<string, string>  of the question, such as { software = "typical", model = "experts" }
---@return table[] classes  of intervals.known
function intervals.classes(figure, features)
  local met, nearest = {}, {}
  for _, class in ipairs(intervals.known(figure)) do
    if has_all(features, class.where) then met[#met + 1] = class end
  end
  for _, class in ipairs(met) do
    local is_nearest = true
    for _, other in ipairs(met) do is_nearest = is_nearest and not narrows(other, class) end
    if is_nearest then nearest[#nearest + 1] = class end
  end
  return nearest
end

--- The interval of measured / predicted values.
---@param figure string
---@param features table<string, string>
---@return number[]? interval  { low, high }; nil: nothing comparable was measured
function intervals.of(figure, features)
  local low, high
  for _, class in ipairs(intervals.classes(figure, features)) do
    low, high = math.min(low or class.low, class.low), math.max(high or class.high, class.high)
  end
  return low and { low, high }
end

local NODE <const> = 8 -- GPUs of a usual node
local MOST <const> = 256 -- kinds of runs remembered: all there are
local WIDE <const> = { bf16 = true, fp16 = true, fp32 = true, tf32 = true }

--- The features of a training run; what is usual has none.
---@param run table  { software = "own", "typical" or "tuned": which profile predicts it; unlike = whether no run of
---  that profile resembles it; model, gpus, precision = the recipe's name, compile, adapters }
---@return table<string, string>
function intervals.features(run)
  return {
    software = run.software, runs = run.unlike and "unlike" or nil,
    model = run.model.experts and "experts" or "dense", scale = run.gpus <= NODE and "node" or "cluster",
    numbers = not WIDE[run.precision or "bf16"] and "narrow" or nil,
    kernels = run.compile == false and "eager" or nil, trained = run.adapters and "adapters" or nil,
  }
end

local known = memo.by_text(MOST)

--- The intervals of measured / predicted values of a training run.
---@param run table  as for intervals.features
---@return number[]? time, number[]? memory
function intervals.of_training(run)
  local f = intervals.features(run)
  local key = ("%s %s %s %s %s %s %s"):format(f.software, f.runs, f.model, f.scale, f.numbers, f.kernels, f.trained)
  local both = known(key, function()
    return { intervals.of("time", f) or false, intervals.of("memory", f) or false }
  end)
  return both[1] or nil, both[2] or nil
end

local FEW <const> = 16 -- requests in flight, below which steps are small kernels and waits

--- The features of a serving run.
---@param run table  { model; system; weights = their dtype or recipe; requests = in flight }
---@return table<string, string>  machine: "measured": its curves were fitted to kernels timed on it or one of its kind;
---  "datasheet": constants stand for them
function intervals.served(run)
  local measured = type(run.system.accelerator.compute_efficiency) == "table"
  return {
    machine = measured and "measured" or "datasheet", model = run.model.experts and "experts" or "dense",
    numbers = not WIDE[run.weights] and "narrow" or nil, load = run.requests < FEW and "few" or "many",
  }
end

local SERVING <const> = { "tpot", "ttft", "duration" }

--- The intervals of measured / predicted values of a serving run. On a machine that nobody measured, the engine errs as
--- on others, and so does the data sheet: the widest ends of both hold.
---@param run table  as for intervals.served
---@return table<string, number[]> intervals  tpot, ttft, duration; those that are known
function intervals.of_serving(run)
  local f = intervals.served(run)
  local key = ("%s %s %s %s"):format(f.machine, f.model, f.numbers, f.load)
  return known(key, function()
    local found = {}
    for _, figure in ipairs(SERVING) do
      local own = intervals.of(figure, f)
      local others = f.machine == "datasheet" and intervals.of(figure, setmetatable({ machine = "measured" }, {
        __index = f }))
      found[figure] = own and others and { math.min(own[1], others[1]), math.max(own[2], others[2]) } or own
    end
    return found
  end)
end

return intervals
