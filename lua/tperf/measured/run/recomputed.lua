--- Activation checkpointing of a published run, as arguments of tperf.train.
local read = require "tperf.measured.read"
local recompute = require "tperf.describe.arch.recompute"

local recomputed = {}

-- Settings left to a recipe, and checkpointing of parts of an MLP, count as none: an assumption.
local GRANULARITY <const> = {
  { "^full", "full" }, { "^none", "none" }, { "^selective", "selective" }, { "^$", "none" }, { "^per recipe", "none" },
  { "^norm", "none" }, { "^per%-op", "selective" },
}

-- PyTorch's selective operator checkpointing as in torchtitan: recomputes every second product and everything between
-- products.
local EVERY_OTHER <const> = { ["torchtitan-2024"] = true, ["torchao-2025"] = true }

-- vTrain's table says full, but times of a layer are those of a forward and a backward pass: they do not depend on its
-- stage, while vTrain's predictor recomputes in all stages but the last.
local NEVER <const> = { ["vtrain-2024"] = true }

-- InternEvo recomputes the norms of layers that it does not checkpoint (modeling_internlm.py,
-- `dropout_selective_checkpoint`).
local NORMS_AGAIN <const> = { ["internevo-2024"] = true }

-- Megatron's module names that this model has; others, such as a scheduler's, keep their outputs.
local function modules_of(row, model)
  local named, list = {}, {}
  for name in read.text(row.recompute_modules):gmatch "[%w_]+" do named[name] = true end
  for _, name in ipairs(recompute.modules) do
    if named[name] and model and not recompute.lacks(name, model) then list[#list + 1] = name end
  end
  return list
end

local function granularity(text)
  for _, pattern in ipairs(GRANULARITY) do
    if text:lower():find(pattern[1]) then return pattern[2] end
  end
end

--- The arguments of a row; nil: the row's setting is not known.
---@param row table
---@param stack string
---@param model table|false  false: the model is not valid
---@return table? arguments  { recompute =, … }
function recomputed.of(row, stack, model)
  if NEVER[stack] then return { recompute = "none" } end
  if row.recompute_keep then
    local kept = {}
    for name in row.recompute_keep:gmatch "[%w_]+" do kept[#kept + 1] = name end
    if kept[1] then return { recompute = "selective", recompute_keep = kept } end
  end
  local text = read.text(row.recompute_modules)
  if text:find "every other layer" then
    return { recompute = "full", recompute_method = "every", recompute_num_layers = 2 }
  end
  local how = text == "full" and "full" or text == "none" and "none" or granularity(row.recompute)
  if text:find "every other product" or how == "selective" and EVERY_OTHER[stack] then
    return { recompute = "selective", recompute_modules = { "op" } }
  end
  local modules = modules_of(row, model)
  if how == "none" and NORMS_AGAIN[stack] then modules = { "layernorm" } end
  if modules[1] then return { recompute = "selective", recompute_modules = modules } end
  local part = row.recompute:match "block.-(%d+) of %d+ layers" -- "full, block (72 of 80 layers)"
  local method = row.recompute_method ~= "" and row.recompute_method ~= "uniform" and row.recompute_method
    or part and "block" or nil
  if not how then return nil end
  return {
    recompute = how, recompute_method = how == "full" and method or nil,
    recompute_num_layers = how == "full" and method and read.count(part or row.recompute_num_layers) or nil,
  }
end

return recomputed
