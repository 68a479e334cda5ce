--- A Hugging Face config.json as a model: the text model's description in tperf's own names.
-- The architectures are in hf/types.lua.
local lazy = require "tperf.base.lazy"
local account = lazy.module "tperf.describe.model.hf.account"
local check = require "tperf.base.check"
local config = lazy.module "tperf.input.config"
local classes = lazy.module "tperf.describe.model.hf.classes"
local class_defaults = lazy.module "tperf.describe.model.hf.defaults"
local harmless = lazy.module "tperf.describe.model.hf.harmless"
local hf_stored = lazy.module "tperf.describe.model.hf.stored"
local towers = lazy.module "tperf.describe.model.hf.towers"
local types = lazy.module "tperf.describe.model.hf.types"
local names = lazy.module "tperf.describe.model.hub.names"
local nearest = lazy.module "tperf.base.nearest"

local hf = {}

--- The known architectures, sorted.
---@return string[]
function hf.known()
  return check.names(require "tperf.describe.model.hf.types")
end

--- Whether a parsed file looks like a Hugging Face configuration.
---@param fields any
---@return boolean
function hf.recognise(fields)
  return type(fields) == "table"
    and (fields.model_type ~= nil or fields.architectures ~= nil or fields.text_config ~= nil
      or fields._class_name ~= nil or fields.ssm_cfg ~= nil)
end

-- What architectures that are refused have that tperf cannot describe.
local BEYOND <const> = {
  dinov3_vit = "rotary positions of patches and a gate of its own MLP",
  gemma3n_text = "a table for every layer and several streams",
  inkling = "biases by distance and short convolutions in attention", kimi_k3 = "attention of its own code",
  minimax_m1 = "lightning attention", minimax_m3 = "attention to blocks that an indexer selects",
  minimax_text_01 = "lightning attention", mllama_text_model = "layers that attend to images",
  rwkv = "RWKV's time mixing", rwkv7 = "RWKV's time mixing",
  step3_text = "queries factored into several matrices", whisper = "an encoder of sound with convolutions",
  zamba = "layers that share weights", zamba2 = "layers that share weights",
}

local function unknown(c, model_type)
  if BEYOND[model_type] then
    c:fail("model_type", "= %s is not modelled: it has %s; docs/architectures.md says how to describe others",
      check.show(model_type), BEYOND[model_type])
  end
  c:fail("model_type", "= %s: unknown architecture%s; docs/architectures.md lists those that are known and says how to "
    .. "describe others", check.show(model_type), check.suggest(model_type, hf.known()))
end

-- The file's architecture: model_type, else the diffusers class; files of the state-spaces repositories name neither.
local function type_of(c)
  local said = c:text("model_type", false) or c:text("_class_name", false)
  if said then return said end
  if (c:table "architectures" or {})[1] == "MiniCPMForCausalLM" then return "minicpm" end -- files without a model_type
  local around = c.outer and class_defaults.text_types[c.outer:text("model_type", "")]
  if around then return around end
  return c:has "ssm_cfg" and "mamba_ssm" or c:text "model_type"
end

local QK_NORMS <const> = { use_qk_norm = true, qk_norm = true, qk_layernorm = true }

-- Whether a value is the default: full attention in all layers, a causal mask, or the norms that the class has anyway.
local function is_usual(key, value, m)
  if key == "is_causal" or key == "causal" then return value == true end
  if QK_NORMS[key] then return value == true and m ~= nil and m.qk_norm ~= nil and m.qk_norm ~= false end
  if key ~= "layer_types" or type(value) ~= "table" then return false end
  for _, kind in next, value do
    if kind ~= "full_attention" then return false end
  end
  return true
end

-- Raises for fields that were not read and may change the model's computation.
local function refuse_unread(c, model_type, m)
  local unread, understood = c:unread()
  local fields, left = c.fields, {}
  for _, key in ipairs(unread) do
    if not harmless(key) and not is_usual(key, fields[key], m) then left[#left + 1] = key end
  end
  for _, key in ipairs { "is_causal", "causal" } do
    if fields[key] == false then left[#left + 1] = key end
  end
  local first = left[1]
  if not first then return end
  local others = #left > 1 and (", as are %s"):format(table.concat(left, ", ", 2)) or ""
  c:fail(first, "= %s is not known of model_type %s%s%s: it may change what the model computes; set it to null where "
    .. "it does not, or describe the model in tperf's own format (docs/architectures.md); --ignore %s goes on without",
    check.show(fields[first]), check.show(model_type), check.suggest(first, understood), others,
    table.concat(left, ","))
end

local OF_TOWERS <const> = "the towers of a model around the text model are left out, and how large they are"
local COUNTED <const> = "its tower's %d parameters are in counts and stored bytes; times and memory are without it"
local OF_WHOLE <const> = "it is of the model around the text model"

local function add_all(record, around)
  for _, name in ipairs { "read", "assumed" } do
    table.move(around[name], 1, #around[name], #record[name] + 1, record[name])
  end
end

local function without(list, name)
  local left = {}
  for _, one in ipairs(list) do
    if one ~= name and one.name ~= name then left[#left + 1] = one end
  end
  return left
end

-- Notes the towers that were found, and what is assumed of them, in place of what was read of their settings.
local function note_towers(record, found)
  for _, one in ipairs(found) do
    record.read, record.ignored = without(record.read, one.field), without(record.ignored, one.field)
    table.insert(record.ignored, {
      name = one.field, why = one.parameters and COUNTED:format(one.parameters) or OF_TOWERS,
      tower = one.parameters and "counted" or true,
    })
    if one.parameters then add_all(record, { read = {}, assumed = one.reader:account().assumed }) end
  end
end

-- What became of the fields of a text model and of what is around it: see account.lua. found: the towers.
local function note(c, path, gone, m, found)
  local record = c:account()
  for key, value in next, c.fields do
    if not c.understood[key] then
      local why = harmless(key) or is_usual(key, value, m) and "it is the usual value" or "it is off or empty"
      table.insert(record.ignored, { name = c.path and c.path .. "." .. key or key, why = why })
    end
  end
  local outer, inner = c.outer, c
  while outer do
    add_all(record, outer:account())
    for key, value in next, outer.fields do
      if not outer.understood[key] and value ~= inner.fields then
        local tower = type(value) == "table" and key:find "_config$" and next(value) ~= nil
        local why = tower and OF_TOWERS or harmless(key) or OF_WHOLE
        table.insert(record.ignored, { name = outer.path and outer.path .. "." .. key or key, why = why,
          tower = tower or nil })
      end
    end
    outer, inner = outer.outer, outer
  end
  note_towers(record, found)
  table.sort(record.ignored, function(a, b) return a.name < b.name end)
  account.note(path, record, gone)
end

-- The checkpoint's own name, else the file's folder (…/Mixtral-8x7B/config.json), else the file's name.
local function name_of(c, path)
  local own = c:text("_name_or_path", false)
  local last = own and own:match "([^/]+)/*$"
  if last and not own:match "^%.*/" then return last end
  local folder, file = path:match "([^/]*)/([^/]*)$"
  file = (file or path):gsub("%.%w+$", "")
  if file ~= "config" then return file end
  return folder and folder ~= "" and folder or "config"
end

-- The formats of a checkpoint whose name says that it is quantised, and of which no file says how: not known.
local function only_named(name, path)
  local method = names.quantization(name)
  if not method or method == "bf16" or hf_stored.is_said(path) then return nil end
  account.keep(path, nil)
  return { method = ("the method of its name alone (%s)"):format(method) }
end

-- Rates of dropout, of scores and of both branches.
local RATES <const> = { "attention_dropout", "attn_pdrop", "attention_probs_dropout_prob", "hidden_dropout",
  "hidden_dropout_prob", "resid_pdrop", "resid_dropout", "dropout" }

-- Whether the file has rates of dropout, all of which are 0.
local function drops_nothing(c)
  local said = false
  for _, key in ipairs(RATES) do
    if c:has(key) and c:value(key) ~= 0 then return false end
    said = said or c:has(key) ~= nil
  end
  return said
end

-- Kinds of rotation by which a context is a factor times the length that training began with, as vLLM derives it
-- (config/model.py, _get_and_verify_max_len).
local LENGTHENED <const> = { yarn = true, linear = true, dynamic = true }

-- YaRN and the like lengthen the context, unless the file's length is the longer one already. Gemma 3's is.
local function lengthen(c, m)
  local kind, factor, original
  for _, key in ipairs { "rope_scaling", "rope_parameters" } do
    local r = c:has(key) and c:table(key) or {}
    kind, factor = kind or r.rope_type or r.type, factor or r.factor
    original = original or r.original_max_position_embeddings
  end
  if not LENGTHENED[kind] or type(factor) ~= "number" or factor ~= factor or factor <= 1 or not m.seq then return end
  if (c.fields.model_type or ""):find "^gemma3" then return end
  local length = math.tointeger(original) or m.seq
  local context = factor <= 1 << 20 and length <= 1 << 31 and math.floor(factor * length) or m.seq
  if context > m.seq and not m.unbounded then m.context = math.min(context, 1 << 31) end
end

-- The text model of a file that has others, for images or sound, too; of Qwen's Omni files the thinker's.
local function text_of(c)
  c = c:nested "thinker_config" or c
  return c:nested "text_config" or c:nested "llm_config" or c:nested "language_config" or c
end

--- The description of a configuration's text model, for tperf.model to check and complete. Files give the longest
-- context, not the length of training sequences; seq is set to the former.
---@param fields table the parsed config.json
---@param path string the file's path, for messages and the name
---@param positions table? as tperf.core.yaml returns them, for messages
---@return table description
function hf.describe(fields, path, positions)
  if type(fields) ~= "table" then check.fail("%s: a map of configuration keys is needed", path) end
  local left, gone = account.without(fields)
  local c = text_of(config.new(left, path, positions))
  local model_type = type_of(c)
  local describe = types[model_type]
  if not describe then unknown(c, model_type) end
  if c.outer then c:assume(class_defaults.fields[model_type]) end
  local m = describe(c)
  lengthen(c, m)
  classes.set(c, m)
  if m.dropout == nil and drops_nothing(c) then m.dropout = false end
  refuse_unread(c, model_type, m)
  if m.heads and not m.head_dim and not m.mla and m.hidden % m.heads ~= 0 then
    c:fail(nil, "%d heads do not divide the hidden size %d (%s), and there is no \"head_dim\"", m.heads, m.hidden,
      nearest.divisors(m.hidden, m.heads))
  end
  local found = towers.of(c, m)
  m.towers = towers.counted(found)
  m.name = name_of(c.outer or c, path)
  m.family = model_type
  m.source = path
  m.stored = hf_stored.of(c, m, path) or only_named(m.name, path)
  note(c, path, gone, m, found)
  return m
end

return hf
