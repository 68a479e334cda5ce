--- The modules of a checkpoint, by the part of a layer that they are, and which of them a list of names, globs or
-- regular expressions means: quantised checkpoints list what they leave in 16 bits.
local groups = require "tperf.describe.model.groups"
local regex = require "tperf.input.regex"

local modules = {}

local MLP <const> = { "gate_proj up_proj down_proj", "gate_up_proj down_proj", "up_proj down_proj", "w1 w2 w3",
  "fc1 fc2", "c_fc c_proj", "dense_h_to_4h dense_4h_to_h" }

-- For each part, the modules that may hold its products in a layer, and the sets of products that they may have.
local HOLDERS <const> = {
  attention = { "self_attn attn attention self_attention mixer", {
    "q_proj k_proj v_proj o_proj", "qkv_proj o_proj", "q_proj k_proj v_proj out_proj", "query_key_value dense",
    "c_attn c_proj", "wqkv wo", "q_a_proj q_b_proj kv_a_proj_with_mqa kv_b_proj o_proj",
    "q_proj kv_a_proj_with_mqa kv_b_proj o_proj", "fused_qkv_a_proj_with_mqa q_b_proj kv_b_proj o_proj",
    "index_q_proj index_k_proj",
  } },
  recurrent = { "linear_attn mamba mixer self_attn", {
    "in_proj out_proj", "in_proj_qkvz out_proj", "in_proj_qkv in_proj_z out_proj", "q_proj k_proj v_proj o_proj",
    "in_proj x_proj dt_proj out_proj",
  } },
  mlp = { "mlp feed_forward ffn mixer", MLP },
  experts = { "mlp.experts.0 mlp.experts block_sparse_moe.experts.0 block_sparse_moe.experts mixer.experts.0 experts.0 "
    .. "experts feed_forward.experts moe.experts.0 moe", MLP },
  shared_experts = { "mlp.shared_experts mlp.shared_expert block_sparse_moe.shared_experts mixer.shared_experts "
    .. "feed_forward.shared_expert shared_mlp mlp.shared_mlp moe.shared_experts shared_expert", MLP },
  latents = { "mixer mlp", { "fc1_latent_proj fc2_latent_proj" } },
  router = { "mlp block_sparse_moe mixer feed_forward router", {} },
}

-- Where layers have a dense MLP beside their experts, which tperf counts as a shared expert (Gemma 4).
local DENSE_BESIDE <const> = { shared_experts = "mlp", experts = "experts.0 experts moe.experts.0 moe" }

--- The modules that may hold a part's products in a layer, by name. dense: layers with experts have a dense MLP beside
--- them (Gemma 4).
---@return string
function modules.holders(part, dense) return dense and DENSE_BESIDE[part] or HOLDERS[part][1] end

--- The parts of layers, in the order of a message.
modules.PARTS = { "attention", "recurrent", "mlp", "shared_experts", "latents", "experts" }

-- Where the layers are in a model's tree of modules.
local ROOTS <const> = { "model.", "language_model.model.", "model.language_model.", "backbone.", "" }

-- Words of modules outside the layers' products: tables, routers, norms, towers and modules of multi-token prediction,
-- which are in 16 bits in any case; and products of a few features.
local OUTSIDE <const> = { "^lm_head$", "^head$", "^output$", "^score$", "^embed", "^wte$", "embeddings?$", "^norm",
  "norm$", "^router$", "^gate$", "shared_expert_gate$", "^vis", "^vit$", "^vpm$", "^im[ga]", "^audio", "^multi_modal",
  "projector", "^mtp", "^eh_proj$", "^conv1d$", "^in_proj_b?a?$", "^weights_proj$", "^resampler$", "^connector$",
  "^indexers_proj$", "^e_score_correction_bias$" }

-- The parts that a layer of a group has. beside: its layers have a dense MLP beside their experts, which is called mlp.
local function parts_of(model, group)
  local sparse, e = group.mlp == "experts", model.experts
  return {
    attention = group.attention ~= "none", recurrent = group.mamba or group.delta, mlp = group.mlp == "dense",
    experts = sparse, shared_experts = sparse and e.shared > 0, latents = sparse and e.latent ~= nil,
  }
end

-- The names of a part's products in a layer, as sets: { { name … } … }.
local function names_of(part, layer, holders)
  local sets = {}
  for holder in holders:gmatch "%S+" do
    for _, leaves in ipairs(HOLDERS[part][2]) do
      local set = {}
      for leaf in leaves:gmatch "%S+" do set[#set + 1] = ("layers.%d.%s.%s"):format(layer, holder, leaf) end
      sets[#sets + 1] = set
    end
  end
  return sets
end

-- Names from "layers." on, as all of ours start there; h and blocks are GPT's and others' words for it.
local function from_layers(name)
  if name:find "^mtp%." then return name end -- modules for multi-token prediction have layers of their own
  local rest = name:match "layers%..*$"
  if rest then return rest end
  local other = name:match "%f[%w]h%.(%d.*)$" or name:match "%f[%w]blocks%.(%d.*)$"
  return other and "layers." .. other or name
end

-- Whether a plain name is a module or lies around it: "self_attn", "model.layers.0.mlp", "mlp.down_proj".
local function plain(text)
  local part = "." .. from_layers(text) .. "."
  return function(name) return ("." .. name .. "."):find(part, 1, true) ~= nil end
end

local function glob(text)
  local match = regex.compile(regex.of_glob(from_layers(text)) .. "(\\..*)?$")
  if not text:find "^%*" then return match end
  return match and function(name) return match("model." .. name) end
end

-- A regular expression has to match from the start of the full name, which depends on the model's class. Without digits
-- it means the same in all layers.
local function expression(text)
  local match, found = regex.compile(text), {}
  local alike = not text:find "[%d%[]" and not text:find "\\d"
  return match and function(name)
    local key = alike and name:gsub("^layers%.%d+", "layers.0") or name
    if found[key] == nil then
      found[key] = false
      for _, root in ipairs(ROOTS) do
        local here = match(root .. key)
        if here == nil then return nil end
        found[key] = found[key] or here
      end
    end
    return found[key]
  end
end

local function matcher(text)
  local rest = text:match "^re:(.*)$"
  if rest then return expression(rest) end
  return text:find "[*?%[]" and glob(text) or plain(text)
end

--- A list of names as matchers: { text, match, layer = the only layer that it can mean }.
---@param names any
---@return table[]? list
---@return string? fault  an entry that is not understood
function modules.list(names)
  local list = {}
  for i, text in ipairs(type(names) == "table" and names or {}) do
    local match = type(text) == "string" and matcher(text)
    if not match then return nil, tostring(text) end
    local layer = not text:find "^re:" and tonumber(from_layers(text):match "^layers%.(%d+)%f[%.\0]")
    list[i] = { text = text, match = match, layer = layer }
  end
  return list
end

--- Whether a name is of a module outside the layers' products.
function modules.is_outside(text, layers)
  local layer = tonumber(from_layers(text):match "^layers%.(%d+)")
  if layer and layer >= layers then return true end -- of multi-token prediction
  for word in text:gsub("\\.", " "):gmatch "[%w_]+" do
    for _, pattern in ipairs(OUTSIDE) do
      if word:find(pattern) then return true end
    end
  end
  return false
end

local function first_expert(text) return (text:gsub("experts%.%d+", "experts.0")) end

--- The first entry of a list that no module of the model matched and that is not of one outside its layers' products;
--- nil: there is none. Where a list names experts one by one, all of them and with the same value, the first stands for
--- the others.
---@param list table[]  of modules.list, after all modules were looked up
---@param m table  a model, or an unfinished description
---@return string?
function modules.unmatched(list, m)
  local named = {} -- name of a first expert's module -> how many experts are named so; false: with several values
  for _, one in ipairs(list) do
    local first = first_expert(one.text)
    local same = named[first]
    if same == nil then same = { count = 0, value = one.value } end
    same = same and same.value == one.value and same
    if same then same.count = same.count + 1 end
    named[first] = same
  end
  for _, one in ipairs(list) do
    local same = named[first_expert(one.text)]
    local expert = same and m.experts and same.count == m.experts.count
    if not (one.matched or expert or modules.is_outside(one.text, m.layers)) then return one.text end
  end
end

--- The value that a list's last match of a name has; marks the entries that matched.
---@param list table[]  of modules.list, each with a value
---@return any value    nil: none matches
---@return string? fault
function modules.value(list, name, layer)
  local value
  for _, one in ipairs(list) do
    if not one.layer or one.layer == layer then
      local found = one.match(name)
      if found == nil then return nil, one.text end
      if found then one.matched, value = true, one.value end
    end
  end
  return value
end

-- The value of one set of products: nil and the name if they differ.
local function of_set(set, layer, value_of)
  local first, fault = value_of(set[1], layer)
  if fault then return nil, fault end
  for i = 2, #set do
    local other, wrong = value_of(set[i], layer)
    if wrong or other ~= first then return nil, wrong or set[i] end
  end
  return first
end

-- The value of a layer's part: that of the only set of products that differs from the usual one.
local function of_layer(part, layer, holders, usual, value_of)
  local found, partly
  for _, set in ipairs(names_of(part, layer, holders)) do
    local value, differs = of_set(set, layer, value_of)
    if value == nil then
      partly = partly or differs
    elseif value ~= usual then
      if found ~= nil and found ~= value then return nil, set[1] end
      found = value
    end
  end
  if found ~= nil then return found end
  if partly then return nil, partly end
  return usual
end

-- A description as far as its groups of layers need it, with the defaults of fields that a file's reader leaves out.
local function completed(m)
  local e = m.experts
  local states = (m.mamba or m.mamba1) and not m.mixers and not m.layer_pattern
  return setmetatable({
    experts = e and setmetatable({ every = e.every or 1, shared = e.shared or 0 }, { __index = e }),
    layer_pattern = states and ("M"):rep(m.layers) or nil, norms_per_layer = m.norms_per_layer or 2,
    first_norm = m.first_norm ~= false,
  }, { __index = m })
end

--- The value of every part that the model has, if all its layers agree.
---@param model table        an unfinished description
---@param usual any          the value of modules that no list names
---@param value_of fun(name: string, layer: integer): any, string?
---@param dense boolean?     layers with experts have a dense MLP beside them (Gemma 4)
---@return table<string, any>? values
---@return string? fault     a module whose value differs from that of others
function modules.by_part(model, usual, value_of, dense)
  local values, whole = {}, completed(model)
  for _, group in ipairs(groups.of(whole)) do
    local has = parts_of(whole, group)
    for _, part in ipairs(modules.PARTS) do
      local holders = modules.holders(part, dense)
      for layer = group.first - 1, has[part] and group.first + group.count - 2 or -1 do
        local value, fault = of_layer(part, layer, holders, usual, value_of)
        if value == nil then return nil, fault end
        if values[part] ~= nil and values[part] ~= value then return nil, ("layers.%d's %s"):format(layer, part) end
        values[part] = value
      end
    end
  end
  return values
end

return modules
