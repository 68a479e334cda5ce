--- The functions of upstream's module `config`: list, find, read and write configurations.
local check = require "tperf.base.check"
local core = require "tperf.core"
local json = require "tperf.output.json"
local output = require "tperf.output.file"
local configs = require "tperf.compat.llm_analysis.configs"
local python = require "tperf.compat.llm_analysis.python"
local revisions = require "tperf.compat.llm_analysis.revisions"
local setup = require "tperf.compat.llm_analysis.setup"

local helpers = {}

local function words(text)
  local list = {}
  for word in text:gmatch "%S+" do list[#list + 1] = word end
  return list
end

-- The fields of each kind in upstream's order. The last field of a model exists only in d841e40.
local FIELDS = {
  model = words("name num_layers n_head hidden_dim vocab_size max_seq_len num_key_value_heads num_key_value_groups "
    .. "ffn_embed_dim expansion_ratio model_type moe_num_experts moe_top_k mlp_gated_linear_units"),
  gpu = words("name mem_per_GPU_in_GB hbm_bandwidth_in_GB_per_sec intra_node_bandwidth_in_GB_per_sec "
    .. "intra_node_min_message_latency peak_fp16_TFLOPS peak_i8_TFLOPS peak_i4_TFLOPS "
    .. "inter_node_bandwidth_in_GB_per_sec"),
  dtype = words "name weight_bits activation_bits embedding_bits",
}

local known = {} -- models read by get_model_config_by_name, per revision
for _, revision in ipairs(revisions.names) do known[revision] = {} end

local function rules_of(what, revision)
  local rules = revisions.rules[revision or revisions.names[1]]
  if not rules then
    check.fail("%s: the revision must be one of %s, got %s", what, table.concat(revisions.names, ", "),
      check.show(revision))
  end
  return rules
end

local function need_string(what, value, name)
  if type(value) ~= "string" then check.fail("%s: %s must be a string, got %s", what, name, check.show(value)) end
end

-- Fills in upstream's defaults.
local function complete(what, kind, config, rules)
  if kind == "model" then return setup.complete(what, config, rules) end
  if kind == "gpu" then
    config.peak_i8_TFLOPS = config.peak_i8_TFLOPS or 2 * config.peak_fp16_TFLOPS
    config.peak_i4_TFLOPS = config.peak_i4_TFLOPS or 4 * config.peak_fp16_TFLOPS
    config.inter_node_bandwidth_in_GB_per_sec = config.inter_node_bandwidth_in_GB_per_sec or rules.inter_node_GBs
  end
  return config
end

local function find(what, kind, name, revision)
  local rules = rules_of(what, revision)
  return complete(what, kind, setup.config(what, kind, name, rules), rules), rules
end

--- The names of the shipped configurations, sorted: list_model_configs, list_gpu_configs, list_dtype_configs.
---@return string[]
function helpers.list_model_configs() return check.names(configs.models) end
function helpers.list_gpu_configs() return check.names(configs.gpus) end
function helpers.list_dtype_configs() return check.names(configs.dtypes) end

--- A model by its name, or from upstream's JSON file, with all fields as upstream fills them in. After reading a file,
--- its model is also found by name.
---@param name string
---@param revision string?  d841e40
---@return table
function helpers.get_model_config_by_name(name, revision)
  local what = "llm_analysis.get_model_config_by_name"
  need_string(what, name, "the name")
  local read = known[rules_of(what, revision).revision]
  local model = find(what, "model", configs.models[name] and name or read[name] or name, revision)
  if not configs.models[model.name] then read[model.name] = find(what, "model", model, revision) end -- a copy
  return model
end

--- A GPU by its name.
---@param name string
---@param revision string?  d841e40
---@return table
function helpers.get_gpu_config_by_name(name, revision)
  local what = "llm_analysis.get_gpu_config_by_name"
  need_string(what, name, "the name")
  return (find(what, "gpu", name, revision))
end

--- A dtype by its name.
---@param name string
---@param revision string?  d841e40
---@return table
function helpers.get_dtype_config_by_name(name, revision)
  local what = "llm_analysis.get_dtype_config_by_name"
  need_string(what, name, "the name")
  return (find(what, "dtype", name, revision))
end

--- The name with "/" replaced by "_".
---@param name string
---@return string
function helpers.canonical_model_name(name)
  need_string("llm_analysis.canonical_model_name", name, "the name")
  return (name:gsub("/", "_"))
end

local function kind_of(config)
  return rawget(config, "num_layers") and "model" or rawget(config, "peak_fp16_TFLOPS") and "gpu" or "dtype"
end

--- A configuration as upstream's JSON: indented by 4, keys in upstream's order, null for absent fields.
---@param config table     a model, gpu or dtype
---@param revision string?  d841e40
---@return string
function helpers.config_json(config, revision)
  local what = "llm_analysis.config_json"
  if type(config) ~= "table" then check.fail("%s needs a configuration, got %s", what, check.show(config)) end
  local kind = kind_of(config)
  local full, rules = find(what, kind, config, revision)
  local lines = {}
  for _, field in ipairs(FIELDS[kind]) do
    local value = full[field]
    if field ~= "mlp_gated_linear_units" or rules.models_say_gated then
      local shown = value == nil and "null" or type(value) == "string" and json.quote(value)
        or type(value) == "number" and python.repr(value) or tostring(value)
      lines[#lines + 1] = ('    "%s": %s'):format(field, shown)
    end
  end
  return "{\n" .. table.concat(lines, ",\n") .. "\n}"
end

--- Writes one JSON file per key into a folder, created if missing.
---@param named table<string, table>  file name without ".json" -> configuration
---@param folder string
---@param revision string?  d841e40
function helpers.dump_configs(named, folder, revision)
  local what = "llm_analysis.dump_configs"
  if type(named) ~= "table" then check.fail("%s needs a table of configurations, got %s", what, check.show(named)) end
  need_string(what, folder, "the folder")
  local texts = {}
  for name, config in next, named do
    need_string(what, name, "a name")
    if name == "" or name:find("[/\0]") then
      check.fail("%s: %s cannot name a file; llm_analysis.canonical_model_name makes it one", what, check.show(name))
    end
    texts[name] = helpers.config_json(config, revision)
  end
  output.make_folder(folder, what)
  for _, name in ipairs(check.names(texts)) do output.write(folder .. "/" .. name .. ".json", texts[name], what) end
end

--- Writes a model's JSON into a folder (default "model_configs").
---@param name string       as for get_model_config_by_name
---@param folder string?
---@param revision string?  d841e40
function helpers.dump_model_config_by_name(name, folder, revision)
  local model = helpers.get_model_config_by_name(name, revision)
  helpers.dump_configs({ [model.name] = model }, folder or "model_configs", revision)
end

local KINDS = { model = true, gpu = true, dtype = true }

--- The configurations in a folder's JSON files, by name.
---@param folder string
---@param kind "model"|"gpu"|"dtype"
---@param revision string?  d841e40
---@return table<string, table>
function helpers.read_configs(folder, kind, revision)
  local what = "llm_analysis.read_configs"
  need_string(what, folder, "the folder")
  if not KINDS[kind] then
    check.fail("%s: unknown config type when reading: %s", what, type(kind) == "string" and kind or check.show(kind))
  end
  local entries = core.resource.entries(folder)
  if not entries then check.fail("%s: cannot read the folder '%s'", what, folder) end
  table.sort(entries)
  local rules, found = rules_of(what, revision), {}
  for _, entry in ipairs(entries) do
    if entry:sub(-5) == ".json" then
      local content = setup.read(what, kind, folder .. "/" .. entry)
      local config = complete(what, kind, setup.config(what, kind, content, rules), rules)
      found[config.name] = config
    end
  end
  return found
end

-- The first of two names that a Hugging Face config has.
local function either(what, config, first, second)
  local value = config[first]
  if value == nil then value = config[second] end
  if value == nil then
    check.fail("%s: hf config does not have %s or %s, check the config.json file", what, first, second)
  end
  return value
end

--- A model from a Hugging Face config.json, as 0571436 reads one: without MLP widths and experts, so the MLP is always
--- four times as wide as the hidden size. `tperf.model` reads them.
---@param name string
---@param config string|table  the file, or its content
---@return table
function helpers.get_model_config_from_hf(name, config)
  local what = "llm_analysis.get_model_config_from_hf"
  need_string(what, name, "the name")
  if type(config) == "string" then config = setup.read(what, "model", config) end
  if type(config) ~= "table" then check.fail("%s needs a config.json, got %s", what, check.show(config)) end
  local model = {
    name = helpers.canonical_model_name(name),
    num_layers = either(what, config, "num_hidden_layers", "n_layers"),
    n_head = either(what, config, "num_attention_heads", "n_heads"),
    hidden_dim = either(what, config, "hidden_size", "d_model"),
    vocab_size = config.vocab_size, max_seq_len = config.max_position_embeddings, model_type = config.model_type,
    num_key_value_heads = config.num_key_value_heads,
  }
  return (find(what, "model", model, "0571436"))
end

return helpers
