--- tperf.search_rl: which GPUs train and which roll out, and how, for the shortest or cheapest step of reinforcement
--- learning. docs/rl.md.
local argument = require "tperf.base.entry.argument"
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local lists = require "tperf.base.lists"
local pareto = require "tperf.plot.pareto"
local progress = require "tperf.base.progress"
local questions = require "tperf.question.ranks.questions"
local refusal = require "tperf.base.refusal"
local rl = require "tperf.question.rl"
local system = catalogue.shared(require "tperf.describe.system")

local search = {}

---@class tperf.rl_deployment a deployment of a step of reinforcement learning
---@field mode "colocated"|"split"|"async"
---@field gpus integer
---@field train_gpus integer
---@field rollout_gpus integer
---@field staleness integer
---@field train table    the trainer's arguments
---@field rollout table  the engine's arguments
---@field step number       seconds
---@field low number        the low end of the step's interval
---@field high number       and the high end
---@field gpu_hours number  of a step, or of the run if steps are given
---@field dollars? number   likewise, with a price
---@field bound string      what bounds the step
---@field busy { rollout: number, training: number }

---@class tperf.rl_found
---@field deployments tperf.rl_deployment[]  the best, in order
---@field front tperf.rl_deployment[]        no other has a shorter step and fewer GPU-hours
---@field tried integer
---@field fitting integer
---@field refused { reason: string, deployments: integer }[]  why others were left out, most first

local MOST <const> = 100000 -- deployments
local PARTS <const> = { 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4 } -- of the GPUs that train
local USUAL <const> = {
  train = { tp = { 1, 2, 4, 8 }, pp = { 1, 2, 4 }, recompute = { "none", "full" } },
  rollout = { tp = { 1, 2, 4, 8 } },
}
local MODES <const> = { "colocated", "split", "async" }

local some = check.integer { min = 1, max = 1 << 24 }
local sizes = check.one_of(some, check.list(some, { min = 1, max = 64 }))
local function listed(checker)
  return function(value, path)
    if value == nil then return nil end
    return checker(type(value) == "table" and value or { value }, path)
  end
end

local any = check.any { optional = true }
local own = {
  train = any, rollout = any, gpus = sizes, train_gpus = listed(sizes),
  mode = listed(check.list(check.choice { MODES }, { min = 1, max = 3 })),
  staleness = listed(check.list(check.integer { min = 0, max = 1024 }, { min = 1, max = 64 })),
  minimize = check.choice { { "time", "gpu_hours", "dollars" }, default = "time" },
  target = check.number { above = 0, max = 1e9, unit = "s", optional = true },
  top = check.integer { min = 1, max = MOST, default = 10 },
}

-- The arguments of the search, and those of every step.
local function read(given)
  if type(given) ~= "table" then check.fail("tperf.search_rl needs a table of arguments, got %s", check.show(given)) end
  local mine, q = {}, {}
  for _, name in ipairs(check.names(given)) do
    if own[name] then mine[name] = given[name] else q[name] = given[name] end
  end
  local o = check.record("tperf.search_rl", mine, own)
  local response = q.response
  if type(response) == "table" and not (response.mean or response.values) then
    check.fail "tperf.search_rl: 'response.mean' is missing: deployments are compared at one length; give it"
  end
  return o, q
end

local AXES <const> = { tp = true, pp = true, cp = true, ep = true, etp = true, dp = true, ulysses = true }

-- Raises unless a field is an argument's name, and the size of an axis, by which deployments are made, a number.
local function check_field(what, name, values)
  if type(name) ~= "string" then
    check.fail("tperf.search_rl: '%s' must have arguments by name, got %s", what, check.show(name))
  end
  for _, value in ipairs(AXES[name] and values or {}) do
    if math.type(value) ~= "integer" or value < 1 then
      check.fail("tperf.search_rl: '%s.%s' must be a positive integer or a list of them, got %s", what, name,
        check.show(value))
    end
  end
end

-- All combinations of a table whose fields may be lists: those of `usual` unless given.
local function combinations(given, usual, what)
  local fields, names = {}, {}
  if given ~= nil and type(given) ~= "table" then
    check.fail("tperf.search_rl: '%s' must be a table of arguments, each a value or a list", what)
  end
  for name, values in pairs(usual) do fields[name] = values end
  for name, values in pairs(given or {}) do
    local is_list = type(values) == "table" and lists.measure(values) > 0
    if is_list then argument.list("tperf.search_rl", ("%s.%s"):format(what, tostring(name)), values) end
    fields[name] = is_list and values or { values }
    check_field(what, name, fields[name])
  end
  for _, name in ipairs(check.names(fields)) do names[#names + 1] = name end
  local list = { {} }
  for _, name in ipairs(names) do
    local longer = {}
    for _, one in ipairs(list) do
      for _, value in ipairs(fields[name]) do
        local copy = { [name] = value }
        for other, kept in pairs(one) do copy[other] = kept end
        longer[#longer + 1] = copy
      end
    end
    list = longer
  end
  return list
end

-- The splits of so many GPUs in a mode: { train_gpus, staleness }.
local function splits_of(o, gpus, mode)
  if mode == "colocated" then return { {} } end
  local list, seen = {}, {}
  local parts = o.train_gpus
  if not parts then
    parts = {}
    for i, part in ipairs(PARTS) do parts[i] = math.floor(part * gpus) end
  end
  for _, train_gpus in ipairs(type(parts) == "table" and parts or { parts }) do
    for _, k in ipairs(mode == "async" and (o.staleness or { 1, 2 }) or { 0 }) do
      local key = train_gpus .. " " .. k
      if train_gpus >= 1 and train_gpus < gpus and not seen[key] and (mode ~= "async" or k > 0) then
        seen[key] = true
        list[#list + 1] = { train_gpus = train_gpus, staleness = mode == "async" and k or nil }
      end
    end
  end
  return list
end

-- Every deployment of so many GPUs as a question.
local function questions_of(o, q, gpus, trains, rolls)
  local list = {}
  for _, mode in ipairs(o.mode or MODES) do
    for _, split in ipairs(splits_of(o, gpus, mode)) do
      for _, train in ipairs(trains) do
        for _, rollout in ipairs(rolls) do
          local one = { gpus = gpus, mode = mode, train = train, rollout = rollout }
          for name, value in pairs(split) do one[name] = value end
          for name, value in pairs(q) do one[name] = one[name] or value end
          list[#list + 1] = one
          if #list > MOST then
            check.fail("tperf.search_rl: there are more than %d deployments; give fewer values", MOST)
          end
        end
      end
    end
  end
  return list
end

local function plain(message)
  return (tostring(message):gsub("^[^:]*:%d+: ", ""):gsub("^tperf%.%w+: ", ""):gsub("%d+%.?%d*", "N"))
end

local function deployment(one, a, steps, price)
  local d = { mode = a.mode, gpus = a.gpus, train_gpus = a.training.gpus, rollout_gpus = a.rollout.gpus,
    staleness = a.staleness, train = one.train, rollout = one.rollout, step = a.step, bound = a.bound, busy = a.busy,
    low = a.intervals.step.low, high = a.intervals.step.high }
  d.gpu_hours = (steps or 1) * a.step * a.gpus / 3600
  d.dollars = price and price * d.gpu_hours
  return d
end

local NEWS <const> = "a larger staleness changes nothing" -- is not a deployment of its own

-- Remembers the steps of one trainer, engine and split: whether a smaller staleness has this step, too.
local function repeats(seen, one, a)
  local of = seen[one.train] or {}
  seen[one.train], of[one.rollout] = of, of[one.rollout] or {}
  local steps, key = of[one.rollout], ("%s %d %.17g"):format(a.mode, a.training.gpus, a.step)
  local before = steps[key]
  steps[key] = true
  return before and NEWS or nil
end

-- What each deployment of a list takes; counts what is left out by reason.
local function priced(list, kept, price, reasons, tell)
  local found, seen = {}, {}
  for i, one in ipairs(list) do
    tell(i, #list)
    local done, a = check.attempt(rl.within, one, kept)
    local reason = not done and plain(a) or a.reason and plain(a.reason) or repeats(seen, one, a)
    if reason then
      reasons[reason] = (reasons[reason] or 0) + 1
    else
      found[#found + 1] = deployment(one, a, one.steps, price)
    end
  end
  return found
end

local KEYS <const> = { time = "step", gpu_hours = "gpu_hours", dollars = "dollars" }

-- Orders by what is to be small, then by step and by GPUs; equal ones stay as they were listed.
local function sorted(list, minimize)
  local key, place = KEYS[minimize], {}
  for i, d in ipairs(list) do place[d] = i end
  table.sort(list, function(a, b)
    if a[key] ~= b[key] then return a[key] < b[key] end
    if a.step ~= b.step then return a.step < b.step end
    if a.gpus ~= b.gpus then return a.gpus < b.gpus end
    return place[a] < place[b]
  end)
  return list
end

local function front_of(list)
  local points, front = {}, {}
  for i, d in ipairs(list) do points[i] = { x = d.step, y = d.gpu_hours } end
  for i, index in ipairs(pareto.front(points, "min", "min")) do front[i] = list[index] end
  return front
end

local function refused(reasons)
  local list = {}
  for _, reason in ipairs(check.names(reasons)) do
    list[#list + 1] = { reason = reason, deployments = reasons[reason] }
  end
  table.sort(list, function(a, b)
    if a.deployments ~= b.deployments then return a.deployments > b.deployments end
    return a.reason < b.reason
  end)
  return list
end

-- The numbers of GPUs to look at: those given, or with a target and one number all halves of it, the fewest first.
local function counts_of(o)
  local list = type(o.gpus) == "table" and table.move(o.gpus, 1, #o.gpus, 1, {}) or { o.gpus }
  if o.target and #list == 1 then
    while list[#list] > 1 and list[#list] % 2 == 0 do list[#list + 1] = list[#list] // 2 end
  end
  table.sort(list)
  return list
end

-- Whether a deployment of a list is as fast as is asked for.
local function meets(list, target)
  for _, d in ipairs(list) do
    if d.step <= target then return true end
  end
  return false
end

local function nothing(o, tried, reasons)
  local first, does = refused(reasons)[1], o.target and ("takes at most %g s"):format(o.target) or "fits"
  refusal.raise("tperf.search_rl: none of %d deployments %s; of most: %s", tried, does,
    first and first.reason or "too slow; give more GPUs")
end

--- The best deployments for a step of reinforcement learning. Steps that roll out alike share the simulation.
---@param given table  the arguments of tperf.rl, of which these are looked for:
---  gpus        a number, or a list
---  mode        one, or a list (default: colocated, split and async)
---  train_gpus  GPUs that train if the pools are apart, a number or a list (default: eighths of the GPUs)
---  staleness   of async, a number or a list (default: 1 and 2)
---  train       arguments of tperf.train, each a value or a list (default: tp, pp and recompute vary)
---  rollout     arguments of tperf.serve, likewise (default: tp)
---  minimize    "time" (default), "gpu_hours" or "dollars"
---  target      seconds: the fewest GPUs whose step takes no longer; `gpus` is then the most (or those to try)
---  top         how many to return (default 10)
---@return tperf.rl_found
function search.run(given)
  local o, q = read(given)
  local trains, rolls = combinations(o.train, USUAL.train, "train"), combinations(o.rollout, USUAL.rollout, "rollout")
  local machine = system(q.system or check.fail "tperf.search_rl: 'system' is missing")
  local price = q.gpu_hour or machine.price and machine.price.gpu_hour
  if o.minimize == "dollars" and not price then
    check.fail "tperf.search_rl: 'minimize' = \"dollars\" needs a price: give 'gpu_hour'"
  end
  local kept, reasons, found, tried = {}, {}, {}, 0
  local tell = progress.start "tperf: deployments"
  for _, gpus in ipairs(counts_of(o)) do -- the fewest first
    local list = questions_of(o, q, gpus, trains, rolls)
    tried = tried + #list
    for _, d in ipairs(priced(list, kept, price, reasons, tell)) do found[#found + 1] = d end
    if o.target and meets(found, o.target) then break end
  end
  tell()
  local fitting = #found
  if o.target then
    local fast = {}
    for _, d in ipairs(found) do
      if d.step <= o.target then fast[#fast + 1] = d end
    end
    found = fast
  end
  if #found == 0 then nothing(o, tried, reasons) end
  sorted(found, o.minimize)
  return { deployments = table.move(found, 1, math.min(o.top, #found), 1, {}), front = front_of(found), tried = tried,
    fitting = fitting, refused = refused(reasons) }
end

questions.register("search_rl", search.run)

return search
