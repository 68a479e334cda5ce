--- A model as runs of equal layers, in order: dense and mixture-of-experts layers mix (DeepSeek-V3: 3 + 58), windows
--- alternate (Gemma 2), Mamba and attention alternate (Nemotron-H).
local stacks = require "tperf.describe.model.stacks"

local groups = {}

--- Whether a model's description has layers that keep a state.
function groups.recur(model) return (model.mamba or model.mamba1 or model.delta) ~= nil end

-- Layers with a mixer and an MLP or experts, by the letters of `mixers`; B has attention, too.
local mixers = { M = "mamba", D = "delta", B = "both" }

-- One letter per layer, as hybrid_override_pattern in Nemotron-H files: each layer is one mixer with one norm.
local letters = {
  M = { kind = "mamba", attention = "none", mamba = true, mlp = "none" },
  ["*"] = { kind = "attention", attention = "gqa", mamba = false, mlp = "none" },
  ["-"] = { kind = "mlp", attention = "none", mamba = false, mlp = "dense" },
  E = { kind = "experts", attention = "none", mamba = false, mlp = "experts" },
}

-- The dense layers of a model with experts: a set of layer numbers.
local function dense_layers(model)
  local dense, set = model.experts and model.experts.dense_layers or 0, {}
  if type(dense) == "number" then
    for layer = 1, math.min(dense, model.layers) do set[layer] = true end
  else
    for _, layer in ipairs(dense) do set[layer] = true end
  end
  return set
end

-- The letter of a pattern that repeats over the layers.
local function letter_at(pattern, layer)
  local at = (layer - 1) % #pattern + 1
  return pattern:sub(at, at)
end

-- The window of a layer. The pattern repeats over the layers: "wf" is a windowed layer, then a full one, and so on.
local function window_of(window, layer)
  if not window then return nil end
  return letter_at(window.pattern, layer) == "w" and window.size or nil
end

local function mixer(letter, window)
  local one = letters[letter]
  return {
    kind = one.kind, attention = one.attention, mamba = one.mamba, mlp = one.mlp, norms = 1,
    window = one.attention ~= "none" and window or nil,
  }
end

-- The mixer of a layer by model.mixers, which repeats over the layers; nil: attention.
local function recurrent(model, layer)
  return model.mixers and mixers[letter_at(model.mixers, layer)]
end

local function block(model, layer, sparse, window)
  local other = recurrent(model, layer)
  local both = other == "both"
  local one = {
    kind = sparse and "moe" or "dense", attention = other and not both and "none" or model.mla and "mla" or "gqa",
    mamba = both or other == "mamba", delta = other == "delta", mlp = sparse and "experts" or "dense",
    norms = model.norms_per_layer, window = not other and window or nil,
    chosen = not other and model.sparse and model.sparse.top_k or nil,
  }
  local selections = one.chosen and model.sparse.pattern
  one.reuses = selections and letter_at(selections, layer) == "S" or nil
  return model.encoder_stack and stacks.group(model, one, layer) or one
end

local function key_of(one, recurrence)
  return ("%s/%s/%s%s%s"):format(one.kind, recurrence or one.attention, one.window or "full",
    one.bare and "/bare" or "", one.reuses and "/reuses" or "")
end

---@class tperf.layer_group
---@field first integer the group's first layer, from 1
---@field count integer layers
---@field kind "dense"|"moe"|"mamba"|"attention"|"mlp"|"experts"|"encoder"|"decoder"
---@field attention "gqa"|"mla"|"none"
---@field mamba boolean with attention ~= "none": beside it
---@field delta? boolean a gated delta net
---@field mlp "dense"|"experts"|"none"
---@field norms integer norms per layer, without those inside attention or Mamba
---@field window? integer most keys that a token sees (nil: all)
---@field chosen? integer most tokens that sparse attention selects
---@field reuses? boolean it has no indexer: it attends to what an earlier layer's selected
---@field seq? integer tokens of its sequence, if it differs from the model's
---@field bare? boolean the first sublayer has no norm before it; `norms` does not count that one
---@field causal? boolean false: no causal mask, regardless of the model's other layers
---@field cross? boolean it also attends to the encoder's output
---@field key string the same for groups of equal layers, so that a caller can cost each kind once

-- A cheap class number per layer, equal for equal layers: function(layer) -> integer; nil: all layers are alike. Models
-- are asked for their groups often, and building a record per layer is expensive.
local function classes(model, pattern, experts, dense)
  local mixed, windows, stack = model.mixers, model.window and model.window.pattern, model.encoder_stack
  windows = windows or model.sparse and model.sparse.pattern -- latent attention has no windows
  local bare = not model.first_norm
  if not (pattern or mixed or windows or stack or experts or bare) then return nil end
  local every, encoder = experts and experts.every, stack and stack.layers or 0
  local byte = string.byte
  return function(layer)
    local class = pattern and byte(pattern, layer) or 0
    if mixed then class = class << 8 | byte(mixed, (layer - 1) % #mixed + 1) end
    if windows then class = class << 8 | byte(windows, (layer - 1) % #windows + 1) end
    if every and layer % every == 0 and not dense[layer] then class = ~class end
    if bare and layer == 1 then class = class ~ 1 << 33 end
    return layer <= encoder and class ~ 1 << 32 or class
  end
end

-- A layer from which on all are alike.
local function alike_from(model, pattern, experts, dense)
  local alternates = model.mixers or model.window or model.sparse and model.sparse.pattern
  if pattern or alternates or experts and experts.every > 1 then return model.layers end
  local first = model.encoder_stack and model.encoder_stack.layers + 1 or 1
  for layer in next, dense do first = math.max(first, layer + 1) end
  return model.first_norm and first or math.max(first, 2)
end

local function group_of(model, layer, pattern, experts, dense)
  local window = window_of(model.window, layer)
  local one = pattern and mixer(pattern:sub(layer, layer), window)
    or block(model, layer, experts and layer % experts.every == 0 and not dense[layer], window)
  if layer == 1 and not model.first_norm then one.bare, one.norms = true, one.norms - 1 end
  one.key, one.first, one.count = key_of(one, recurrent(model, layer)), layer, 1
  return one
end

local function copy_at(layer, known)
  local one = {}
  for name, value in next, known do one[name] = value end
  one.first, one.count = layer, 1
  return one
end

--- The model's layers 1 .. layers as runs of equal ones.
---@param model table a model's description
---@return tperf.layer_group[]
function groups.of(model)
  local runs, pattern, experts, dense = {}, model.layer_pattern, model.experts, dense_layers(model)
  local class_of, class, last = classes(model, pattern, experts, dense), nil, nil
  local alike = alike_from(model, pattern, experts, dense)
  local known = {} -- class -> the first group of it
  for layer = 1, model.layers do
    local now = class_of and class_of(layer) or 0
    if now == class then
      last.count = last.count + 1
    else
      local one = known[now] and copy_at(layer, known[now]) or group_of(model, layer, pattern, experts, dense)
      known[now] = known[now] or one
      if last and last.key == one.key then
        last.count = last.count + 1
      else
        last, runs[#runs + 1] = one, one
      end
      class = now
    end
    if layer >= alike then
      last.count = last.count + model.layers - layer
      break
    end
  end
  return runs
end

--- The layers of one multi-token prediction module: those of mtp_pattern, else one like the model's last layer.
---@param model table
---@param all tperf.layer_group[]  groups.of(model)
---@return tperf.layer_group[]
function groups.module(model, all)
  if not model.mtp_pattern then return { all[#all] } end
  local list = {}
  for letter in model.mtp_pattern:gmatch "." do
    local one = mixer(letter)
    one.key, list[#list + 1] = key_of(one), one
  end
  return list
end

return groups
