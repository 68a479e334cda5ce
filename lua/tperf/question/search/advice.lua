--- Advice if nothing fits in memory: how much is missing, and which single change would help, found by trying.
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local visible_memory = require "tperf.describe.machine.visible_memory"
local units = require "tperf.base.units"

local shortage = {}

local function as_list(value)
  return type(value) == "table" and value or { value }
end

local function show(name, value)
  return type(value) == "string" and ('%s = "%s"'):format(name, value) or ("%s = %s"):format(name, value)
end

-- The values of an argument that could help, least change first; nil stands for an argument that the search leaves
-- open.
local function recompute_after(given, o)
  local has, list = {}, {}
  for _, value in ipairs(as_list(given)) do has[value] = true end
  if o.attention == "unfused" and not has.selective and not has.full then list[1] = "selective" end
  if not has.full then list[#list + 1] = "full" end
  return list
end

local function zero_after(given)
  local list = {}
  for stage = math.max(0, table.unpack(as_list(given or 1))) + 1, 3 do list[#list + 1] = stage end
  return list
end

local function smaller(given)
  local list, size = {}, math.min(table.unpack(as_list(given)))
  while size % 2 == 0 do
    size = size // 2
    list[#list + 1] = size
  end
  return list
end

local function larger(given, gpus)
  local list, size = {}, 2 * math.max(table.unpack(as_list(given)))
  while size <= gpus do
    list[#list + 1] = size
    size = 2 * size
  end
  return list
end

-- Each argument that could be changed: { name, values, axis = whether dp shrinks to make room for it }.
local function changes(o, strategies, question)
  local list = {}
  local function add(name, values, axis)
    if #values > 0 then list[#list + 1] = { name = name, values = values, axis = axis } end
  end
  if question.rules.layers_from_description and o.recompute then add("recompute", recompute_after(o.recompute, o)) end
  add("zero", zero_after(o.zero))
  if o.micro_batch then add("micro_batch", smaller(o.micro_batch)) end
  local seen = {}
  for _, s in ipairs(strategies) do
    for _, name in ipairs(s.axis_names) do
      if o[name] and o[name] ~= 0 and not seen[name] then add(name, larger(o[name], question.gpus), true) end
      seen[name] = true
    end
  end
  if o.pp then add("pp", larger(o.pp, question.gpus), true) end
  return list
end

local function with(o, question, change, value)
  local changed = {}
  for name, old in pairs(o) do changed[name] = old end
  changed.system, changed.gpus = question.system, question.gpus
  changed.where, changed.minimize, changed.progress = nil, nil, nil
  if change.axis then changed.dp, changed.fast = nil, nil end
  changed[change.name] = value
  if change.name == "recompute" then -- full recomputation of all layers
    changed.recompute_modules, changed.recompute_keep = nil, nil
    changed.recompute_method, changed.recompute_num_layers = nil, nil
  end
  return changed
end

local function bytes(value) return units.format(value, "bytes") end

--- "96 GB, 16 GB too much": the memory needed, and the excess.
function shortage.miss(needed, question)
  local most = visible_memory(question.system) * (1 - question.training.reserved)
  return ("%s, %s too much"):format(bytes(needed), bytes(needed - most))
end

--- The single changes that make it fit, in words.
---@param o table           checked arguments of a search
---@param strategies table[]
---@param question table    of problem.of
---@param least function    search.least
function shortage.advice(o, strategies, question, least)
  local found, stopped = {}, false
  local function try(change)
    for _, value in ipairs(change.values) do
      if stopped then return end
      local tried, best, complete = check.attempt(least, with(o, question, change, value), strategies)
      stopped = tried and not complete
      if tried and best and best.feasible then
        found[#found + 1] = ("%s (%s)"):format(show(change.name, value), bytes(best.memory))
        return
      end
    end
  end
  for _, change in ipairs(changes(o, strategies, question)) do try(change) end
  if #found == 0 then try { name = "gpus", values = larger(question.gpus, 16 * question.gpus), axis = true } end
  if #found == 0 then return "no single change of recomputation, ZeRO stage, sizes or micro-batch makes it fit" end
  return "it would fit with " .. table.concat(found, ", or ")
end

--- Why none of a search's candidates fits: how much memory the smallest lacks, and which change would help. Finding
--- that takes more searches, which does not pay for many questions at once: most points in the corner of a sweep do not
--- fit.
---@param p table               the search's problem
---@param o table               its checked arguments
---@param question table
---@param found table           the core's answer
---@param least function|false  search.least; false: the search was interrupted
function shortage.why_too_big(p, o, question, found, least)
  local smallest, sizes = found.least, {}
  local text = ("none of %d candidates fits in %s of memory"):format(found.candidates,
    bytes(visible_memory(question.system)))
  if not smallest or not least then return text end
  local s, pipeline = p.strategies[smallest.strategy], p.pipeline_list[smallest.pipeline]
  for i, axis in ipairs(s.axes) do
    local size = smallest.sizes[2 + i] or 0
    if axes.matters(axis, p.model) and axes.shows(axis, size) then
      sizes[#sizes + 1] = ("%s = %d"):format(axis.name, size)
    end
  end
  text = ("%s: the smallest, %s, pp = %d, dp = %d, micro_batch = %d, needs %s%s"):format(text,
    table.concat(sizes, ", "), pipeline.pp, smallest.sizes[1], smallest.micro_batch,
    pipeline.closed and "" or "at least ", shortage.miss(smallest.memory, question))
  return p.many and text or ("%s; %s"):format(text, shortage.advice(o, p.strategies, question, least))
end

return shortage
