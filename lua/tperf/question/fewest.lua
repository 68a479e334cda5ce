--- tperf.fewest: the smallest number of GPUs on which a model trains or is served, and a configuration for it.
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"
local search = require "tperf.question.search"
local search_inference = require "tperf.question.search.inference"
local strategy = require "tperf.describe.strategy"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")

local fewest = {}

local MOST <const> = 1 << 17 -- GPUs
local TRIES <const> = 128 -- at most, between two powers of two

-- The GPU counts above `low` and up to `high` to try: every count within a fast domain, whole domains beyond it.
local function between(low, high, domain)
  local list, n = {}, low
  local whole = math.max((high - low) // (TRIES * domain), 1) * domain
  while n < high do
    n = n < domain and n + 1 or math.min(n + whole, high)
    list[#list + 1] = n
  end
  return list
end

-- Doubles a GPU count: capped at one fast domain below it, in whole domains beyond.
local function doubled(gpus, domain)
  return gpus < domain and math.min(2 * gpus, domain) or 2 * gpus
end

-- Returns the first count for which `try` succeeds and its result, then the count tried before it and why that failed:
-- doubles until one succeeds, then tries the counts between the last two. Raises if no count succeeds.
local function first(try, domain)
  local before, reason, high = 0, nil, 1
  while true do
    local found, why, refused = try(high)
    if found then break end
    if 2 * high > MOST then
      if refused then refusal.raise("tperf.fewest: %s", why) end
      refusal.raise("tperf.fewest: not even %d GPUs hold it: %s", high, why)
    end
    before, reason, high = high, why, doubled(high, domain)
  end
  for _, gpus in ipairs(between(before, high, domain)) do
    local found, why = try(gpus)
    if found then return gpus, found, before, reason end
    before, reason = gpus, why
  end
end

local REFUSED <const> = { "gpus", "top", "keep", "infeasible", "simulate", "where", "minimize" }

local function copy_of(given)
  if type(given) ~= "table" then check.fail("tperf.fewest needs a table of arguments, got %s", check.show(given)) end
  for _, name in ipairs(REFUSED) do
    if given[name] ~= nil then check.fail("tperf.fewest: leave out '%s': it finds the number of GPUs", name) end
  end
  if given.system == nil then check.fail "tperf.fewest: 'system' is missing" end
  local copy = { top = 1 }
  for name, value in pairs(given) do copy[name] = value end
  return copy
end

local DEFAULTS <const> = { zero = { 1, 2, 3 }, micro_batch = 1 }

local function trained(given, gpus)
  local question = copy_of(given)
  for name, value in pairs(DEFAULTS) do
    if question[name] == nil then question[name] = value end
  end
  if question.strategy == nil and axes.asked(question) == strategy.of "tensor" then
    question.strategy = { "tensor", "context" }
  end
  question.gpus = { gpus } -- a list, so that search does not look for advice
  question.global_batch = question.global_batch or gpus
  local results, why = refusal.attempt(search.within, question)
  if not results then return nil, why, true end
  if not results[1].complete then require "tperf.core".search.interrupted() end
  return results[1][1], results[1].reason, results[1].candidates == 0
end

local function served(given, gpus)
  local question = copy_of(given)
  question.gpus, question.batch = gpus, question.batch or 1
  local found, why = refusal.attempt(search_inference.run, question)
  if not found then return nil, why, true end
  return found[1], found.reason, found.candidates == 0
end

--- The smallest number of GPUs on which a model fits, and the fastest configuration on it. Within a fast domain every
--- number is tried, beyond it whole domains.
---@param given table  for training: the arguments of tperf.search without gpus. What is left open is tried: strategies
---  tensor and context, ZeRO stages 1 to 3, no and full recomputation, every size of the axes; micro_batch is 1, and
---  global_batch has as many sequences as GPUs, so that pipelines are full. For serving: the arguments of
---  tperf.search_inference (prompt, generate …) without gpus; batch is 1 by default
---@return table answer  { gpus, configuration, before = { gpus, reason }: the next smaller number that was tried, and
---  why it is too few (nil if one GPU suffices) }
function fewest.run(given)
  local machine = system(copy_of(given).system)
  local serves = given.prompt ~= nil or given.generate ~= nil
  local function try(gpus)
    if serves then return served(given, gpus) end
    return trained(given, gpus)
  end
  local gpus, configuration, before, reason = first(try, machine.network.fast.domain)
  local too_few = before > 0 and { gpus = before, reason = reason } or nil
  return { gpus = gpus, configuration = configuration, before = too_few }
end

return fewest
