--- How unequally routers load GPUs, by the kind of run: the busiest GPU's rows over the mean, for which all others wait
-- in every layer, and which it keeps.
local popularity = require "tperf.describe.arch.experts.popularity"

local routing = {}

-- Gini coefficients of experts' loads in a batch with natural routing (arXiv 2605.20982, abstract), on text: 0.105 and
-- 0.150 in two models, over 0.24 in two, between them in one; on mock tokens: 0.29 to 0.38 in the last two, and at most
-- 2.35 times that on text. Of normally distributed loads, the deviation is the coefficient times the root of pi.
local GINI <const> = { pretraining = 0.195, mock = 0.31 }

-- A fine-tuned router sees data of one kind, mostly without a loss that balances it (transformers' output_router_logits
-- is off by default): experts are assumed as popular as those of servers (docs/serving.md), the i-th in proportion to
-- i^-0.8.
local SERVED <const> = 0.8

-- Expected largest of 1, 2, 4, 8 … standard normal numbers (Harter, Biometrika 48, 1961, table 1; from 512 on: Blom's
-- approximation).
local LARGEST <const> = { 0, 0.5642, 1.0294, 1.4236, 1.7660, 2.0697, 2.3437, 2.5946, 2.8269, 3.04, 3.24 }

--- The expected largest of so many standard normal numbers.
---@param gpus integer
---@return number
function routing.largest(gpus)
  local doublings = math.log(gpus, 2)
  local low = math.min(doublings // 1 + 1, #LARGEST - 1)
  return LARGEST[low] + (LARGEST[low + 1] - LARGEST[low]) * math.min(doublings - (low - 1), 1)
end

-- The standard deviation of experts' loads over their mean.
local function deviation(e, kind)
  if kind == "balanced" then return 0 end
  if GINI[kind] then return GINI[kind] * math.sqrt(math.pi) end
  return popularity.deviation(e.count, e.top_k, SERVED)
end

--- The busiest GPU's rows over the mean. If experts' loads are independent and normally distributed, the deviation of a
--- GPU's is less by the root of the experts that it holds, and fewer GPUs have a smaller largest one. At most all rows.
---@param e table       a model's experts
---@param gpus integer  that these are spread over
---@param kind string   of routing
---@return number
function routing.natural(e, gpus, kind)
  local spread = gpus > 1 and deviation(e, kind) or 0
  if spread == 0 then return 1 end
  return math.min(1 + spread / math.sqrt(e.count / gpus) * routing.largest(gpus), gpus)
end

local PARTS <const> = 256 -- of the mean, in whole numbers of which loads are, so that rows are in proportion to tokens
local known = setmetatable({}, { __mode = "k" }) -- a model's experts, which are never changed -> said -> gpus -> load

local function load_of(e, gpus, said)
  local of = known[e] or {}
  known[e], of[said] = of, of[said] or {}
  local load = type(said) == "number" and (gpus > 1 and said or 1) or routing.natural(e, gpus, said)
  of[said][gpus] = math.ceil(load * PARTS) / PARTS
  return of[said][gpus]
end

--- What of its slots or rows a GPU has, over the mean: those of a capacity factor; else as the question, the model or
--- the kind of run says.
---@param m table  the model
---@param p table  the share; routing: of training, a kind of run, or a number that the question states
---@param gpus integer  that experts are spread over
---@return number
function routing.load(m, p, gpus)
  local e = m.experts
  if e.capacity_factor then return e.capacity_factor end
  local said = p.mode == "train" and p.routing
  if not said or e.imbalance > 1 and type(said) == "string" then return e.imbalance end
  local of = known[e]
  local loads = of and of[said]
  return loads and loads[gpus] or load_of(e, gpus, said)
end

return routing
