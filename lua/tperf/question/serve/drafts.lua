--- Speculation: what drafts cost, as part of the model whose tokens they guess. docs/serving.md.
local drafts = {}

-- A part of the model's layers, in time and memory: EAGLE's heads and MTP's modules have one layer (arXiv
-- 2401.15077, section 4; arXiv 2412.19437, section 2.2), n-grams none. Of a draft model it is an
-- assumption, if `part` does not say.
local DRAFT_MODEL <const> = 0.1

--- The part of the model's layers that drafts, in one pass.
---@param speculation table?  checked, of an engine's settings
---@param layers integer      of the model
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

--- The memory of a deployment with what drafts: its weights, and its keys and values of every token.
---@param held table  of tperf.question.serve.memory
---@return table
function drafts.with(held, speculation, layers)
  local part = drafts.part(speculation, layers)
  if part == 0 then return held end
  local more = {}
  for name, value in pairs(held) do more[name] = value end
  more.weights, more.token = held.weights * (1 + part), held.token * (1 + part)
  return more
end

--- What an answer assumes of drafts, as a sentence; nil without speculation.
---@param speculation table?
---@param layers integer?  nil: step times are given
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
