--- Speculation: what drafts cost, as part of the model whose tokens they guess. docs/serving.md.
local refusal = require "tperf.base.refusal"

local drafts = {}

-- A part of the model's layers, in time and memory: EAGLE's heads and MTP's modules have one layer (arXiv
-- 2401.15077, section 4; arXiv 2412.19437, section 2.2), n-grams none. Of a draft model it is an
-- assumption, if `part` does not say.
local DRAFT_MODEL <const> = 0.1

--- The layers that run when tokens are decoded: not those that encode something beside the prompt.
---@param laid table  of tperf.describe.workload
---@return integer
function drafts.layers(laid)
  local count = 0
  for _, run in ipairs(laid.runs) do
    local kind = laid.kinds[run[1]]
    count = count + (kind.seq and not kind.rate and 0 or run[2])
  end
  return count
end

--- Refuses heads of one layer where layers differ in how many tokens they see.
---@param what string  the question
---@param speculation table?  checked, of an engine's settings
---@param kinds table[]  of layers
function drafts.check(what, speculation, kinds)
  if not speculation or speculation.method ~= "eagle" or speculation.part then return end
  for _, kind in ipairs(kinds) do
    if kind.rate then
      refusal.raise("%s: 'engine.speculation': method \"eagle\" drafts with one of the model's layers, and those of "
        .. "group '%s' have %g tokens for each of the model's: give 'part', what a pass takes of all layers", what,
        kind.key, kind.rate)
    end
  end
end

--- The part of the layers that decode which drafts, in one pass.
---@param speculation table?  checked, of an engine's settings
---@param layers integer      of drafts.layers
---@return number
function drafts.part(speculation, layers)
  if not speculation or speculation.method == "ngram" then return 0 end
  return speculation.part or speculation.method == "eagle" and 1 / layers or DRAFT_MODEL
end

--- The passes after each step.
---@param speculation table?
---@return integer
function drafts.passes(speculation)
  return speculation and speculation.method ~= "ngram" and speculation.tokens or 0
end

-- The part of a model's parameters that decodes: an encoder is not drafted with.
local function decoding_part(model)
  if not model.architecture then return 1 end
  local all = model:parameters()
  local encoders = 0
  for _, group in ipairs(all.groups) do
    encoders = encoders + (group.seq and not group.rate and group.total or 0)
  end
  return 1 - encoders / all.total
end

--- The memory of a deployment with what drafts: its weights, and its keys and values of every token.
---@param held table  of tperf.question.serve.memory
---@param speculation table?
---@param layers integer  of drafts.layers
---@param model table
---@return table
function drafts.with(held, speculation, layers, model)
  local part = drafts.part(speculation, layers)
  if part == 0 then return held end
  local more = {}
  for name, value in pairs(held) do more[name] = value end
  more.weights, more.token = held.weights * (1 + part * decoding_part(model)), held.token * (1 + part)
  return more
end

--- What an answer assumes of drafts, as a sentence; nil without speculation.
---@param speculation table?
---@param layers integer?  of drafts.layers; nil: step times are given
---@return string?
function drafts.assumed(speculation, layers)
  if not speculation then return nil end
  local accepted = speculation.acceptance and ("each is accepted with a probability of %g if those before it are")
    :format(speculation.acceptance) or "as many are accepted as the pattern says"
  if not layers then
    return ("speculation: %d drafts a step take no time of their own beside 'step_time', and %s"):format(
      speculation.tokens, accepted)
  end
  if speculation.method == "ngram" then
    return ("speculation: %d drafts a step are looked up at no cost and verified together; %s"):format(
      speculation.tokens, accepted)
  end
  return ("speculation: %d drafts a step take as many passes through %.3g of the model's layers and its head, and are "
    .. "verified together; %s"):format(speculation.tokens, drafts.part(speculation, layers), accepted)
end

return drafts
