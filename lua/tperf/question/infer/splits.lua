--- The ways to split GPUs over a strategy's axes, pipeline stages and replicas.
local axes = require "tperf.describe.strategy.axes"
local divisors = require "tperf.base.divisors"
local infer = require "tperf.question.infer"
local serving = require "tperf.question.infer.deployment"
local stated = require "tperf.describe.model.stated"

local splits = {}

local function is_wanted(wanted, size)
  for _, one in ipairs(type(wanted) == "table" and wanted or { wanted }) do
    if one == size then return true end
  end
  return not wanted
end

-- The sizes of an axis that are asked for and admitted; c: the sizes of the axes before it.
local function choices(p, axis, c, candidates)
  local list, wanted, share = {}, p.o[axis.name], serving.share(p, c)
  if not axes.shows(axis, 0) then return { 0 } end
  local tried = not wanted and axis.tries and axis.tries(p.model, share, p.rules) or candidates
  local tries = setmetatable({}, { __index = c })
  for _, size in ipairs(tried) do
    tries[axis.name] = size
    if is_wanted(wanted, size) and not infer.refusal(p, axis, tries) then list[#list + 1] = size end
  end
  return list
end

--- Calls visit for every { pp, dp, sizes of the strategy's axes }: first axes that multiply the GPUs, then stages, then
--- axes that fold over those and over the remaining replicas. refuse: is called with why the model's architecture does
--- not admit a split.
function splits.each(p, visit, refuse)
  local o, s, c, own = p.o, p.strategy, {}, {}
  local plain, folded = {}, {}
  for i, axis in ipairs(s.axes) do
    local list = axis.folds and folded or plain
    list[#list + 1] = { axis = axis, at = i }
  end
  local function fold(n)
    local one = folded[n]
    if not one then
      local admitted, reason = stated.admits(p.model, s, c)
      if not admitted then return refuse(reason) end
      if not s.grid:folds(own, c.dp) or o.prompt % serving.shards(p, c) ~= 0 then return end
      local copy = {}
      for name, size in pairs(c) do copy[name] = size end
      return visit(copy)
    end
    for _, size in ipairs(choices(p, one.axis, c, divisors.of(o.gpus))) do
      c[one.axis.name], own[one.at] = size, size
      fold(n + 1)
    end
    c[one.axis.name] = nil
  end
  local function cut(n, left)
    local one = plain[n]
    if one then
      for _, size in ipairs(choices(p, one.axis, c, divisors.of(left))) do
        c[one.axis.name], own[one.at] = size, size
        cut(n + 1, left // size)
      end
      c[one.axis.name] = nil
      return
    end
    for _, pp in ipairs(divisors.of(left)) do
      if pp <= p.model.layers and is_wanted(o.pp, pp) then
        c.pp, c.dp = pp, left // pp
        fold(1)
      end
    end
    c.pp, c.dp = nil, nil
  end
  cut(1, o.gpus)
end

return splits
