--- The distribution of a published run's layers over its stages, as arguments of tperf.train.
local pipeline_layout = require "tperf.describe.pipeline_layout"
local read = require "tperf.measured.read"

-- nanotron (build_model): a stage takes blocks until their products' weights exceed its part of all, the head among
-- them.
local function by_weights(model, sizes)
  local m = require "tperf.describe.model"(model)
  local one = m.hidden * (4 * m.heads * m.head_dim + (m.gated and 3 or 2) * m.ffn)
  local total, sum, list = m.layers * one + m.vocab * m.hidden, 0, { 0 }
  for _ = 1, m.layers do
    sum, list[#list] = sum + one, list[#list] + 1
    if sum > total * #list / sizes.pp then list[#list + 1] = 0 end
  end
  return { pipeline_layout = list }
end

--- Megatron's string, layers of the first and last stage, or ends that count as layers; of nanotron, what it does.
--- A layout whose stages are no multiple of the row's belongs to another run; if the row does not give the chunks of a
--- stage, they follow from the layout (as in Megatron-LM).
---@param row table
---@param model table
---@param sizes table  its vp is changed in place
---@param stack string
return function(row, model, sizes, stack)
  local text, a = read.text(row.pp_layout):gsub("\\", ""), {}
  if text == "" then return stack == "nanotron-2025" and sizes.pp > 1 and by_weights(model, sizes) or a end
  if text:find "^E" then
    local stages = pipeline_layout.stages(text)
    if stages % sizes.pp ~= 0 or sizes.vp > 1 and stages ~= sizes.pp * sizes.vp then return a end
    sizes.vp = stages // sizes.pp
    a.pipeline_layout = require "tperf.describe.model"(model).mtp == 0 and text:gsub("m", "") or text
  else
    a.first_stage_layers, a.last_stage_layers = read.count(text:match "first (%d+)" or ""),
      read.count(text:match "last (%d+)" or "")
    a.account_for_embedding, a.account_for_loss = text:find "embedding=1" ~= nil, text:find "loss=1" ~= nil
  end
  return a
end
