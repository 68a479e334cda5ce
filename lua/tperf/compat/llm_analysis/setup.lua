--- Converts upstream's arguments and configurations to the symbols used in the formulas.
-- m (a "setup") holds: h f r a a_kv g d L l V s_max E k c (model), t sp p n_dp n_r ep Z R (parallelism),
-- beta_w beta_a beta_e beta_n (bytes per weight, activation, embedding, norm activation), W (GPU memory in bytes),
-- e_f e_h (efficiencies), peak (TFLOP/s), Phi (FLOP/s), H I X (HBM, intra-node, inter-node bytes/s), tau (s).
local check = require "tperf.base.check"
local catalogue = require "tperf.base.catalogue"
local configs = require "tperf.compat.llm_analysis.configs"

local setup = {}

local LARGEST = 1 << 40 -- of any size or count: products of a few of them stay finite

local function size(options)
  options = options or {}
  options.min, options.max = options.min or 1, LARGEST
  return check.integer(options)
end

local label = check.string { optional = true, empty = true }
local positive, not_negative = { above = 0, max = 1e15 }, { min = 0, max = 1e15, optional = true }

local older_model_fields = {
  name = check.string {}, num_layers = size(), n_head = size(), hidden_dim = size(), vocab_size = size(),
  max_seq_len = size { optional = true }, num_key_value_heads = size { optional = true },
  num_key_value_groups = check.number { optional = true }, -- upstream overwrites it with n_head / num_key_value_heads
  ffn_embed_dim = check.number { above = 0, max = LARGEST, optional = true },
  expansion_ratio = check.number { above = 0, max = LARGEST, optional = true },
  model_type = label, moe_num_experts = size { default = 1 }, moe_top_k = size { default = 1 },
}

local gpu_fields = {
  name = check.string {}, mem_per_GPU_in_GB = check.number(positive),
  hbm_bandwidth_in_GB_per_sec = check.number(positive), intra_node_bandwidth_in_GB_per_sec = check.number(positive),
  intra_node_min_message_latency = check.number { min = 0, max = 1e15 }, peak_fp16_TFLOPS = check.number(not_negative),
  peak_i8_TFLOPS = check.number(not_negative), peak_i4_TFLOPS = check.number(not_negative),
  inter_node_bandwidth_in_GB_per_sec = check.number { above = 0, max = 1e15, optional = true },
}

local dtype_fields = {
  name = check.string { default = "w16a16e16" }, weight_bits = size { default = 16 },
  activation_bits = size { default = 16 }, embedding_bits = size { default = 16 },
}

local function extended(fields, more)
  for name, checker in pairs(fields) do more[name] = checker end
  return more
end

local model_fields = extended(older_model_fields, { mlp_gated_linear_units = check.boolean { default = false } })

-- Fields that upstream's configurations lack and the corrections use (Q2, Q3, Q13, Q38).
local fixed_fields = {
  model = extended(model_fields, {
    head_dim = size { optional = true }, untied_embeddings = check.boolean { default = false },
    learned_positions = size { min = 0, default = 0 }, biases = check.boolean { default = false },
  }),
  gpu = extended(gpu_fields, { peak_vector_TFLOPS = check.number { above = 0, max = 1e15, optional = true } }),
  dtype = extended(dtype_fields, { weight_group_size = size { optional = true } }),
}

local kinds = {
  model = { registry = configs.models, fields = model_fields, default = "facebook_opt-1.3b",
    unknown = "unknown model config name: %s, and none is found on HuggingFace Hub" },
  gpu = { registry = configs.gpus, fields = gpu_fields, default = "a100-sxm-40gb",
    unknown = "unknown gpu config name: %s" },
  dtype = { registry = configs.dtypes, fields = dtype_fields, default = "w16a16e16",
    unknown = "unknown quant config name: %s" },
}

local function fields_of(kind, rules)
  if rules.extended then return fixed_fields[kind] end
  return kind == "model" and not rules.models_say_gated and older_model_fields or kinds[kind].fields
end

--- Reads upstream's JSON file of a configuration.
function setup.read(what, kind, path)
  local content, message = catalogue.read(path)
  if content == nil then check.fail("%s: unknown %s config name: %s", what, kind, message) end
  return content
end

local shipped = setmetatable({}, { __mode = "k" }) -- rules -> kind and name -> the checked configuration

-- A copy of a shipped configuration, which is checked once for each set of rules.
local function shipped_config(kind, name, rules)
  shipped[rules] = shipped[rules] or {}
  local of_rules, key, adapt = shipped[rules], kind .. " " .. name, rules["shipped_" .. kind]
  if not of_rules[key] then
    local value = kinds[kind].registry[name]
    of_rules[key] = check.record(key, adapt and adapt(value) or value, fields_of(kind, rules))
  end
  local copy = {}
  for field, value in next, of_rules[key] do copy[field] = value end
  return copy
end

--- A checked configuration: from a table, a shipped name, or, for a model, the path of a JSON file.
---@param what string   prefix of messages
---@param kind string   "model", "gpu" or "dtype"
---@param value string|table
---@param rules table
---@return table
function setup.config(what, kind, value, rules)
  local spec = kinds[kind]
  if type(value) == "string" and spec.registry[value] then return shipped_config(kind, value, rules) end
  if type(value) == "string" then
    if kind ~= "model" or not value:find(".json", 1, true) then
      check.fail("%s: " .. spec.unknown .. "%s", what, value, check.suggest(value, check.names(spec.registry)))
    end
    value = setup.read(what, kind, value)
  end
  return check.record(what .. ": " .. kind, value, fields_of(kind, rules))
end

local function resolve(what, kind, args, rules)
  return setup.config(what, kind, args[kind] or args[kind .. "_name"] or kinds[kind].default, rules)
end

--- "Truthy" in the sheet's sense: given and not zero.
---@return number?
function setup.given(x)
  if x ~= 0 then return x end
  return nil
end
local given = setup.given

-- Section 11.1: width f and expansion ratio r of the MLP; either may be omitted.
local function ffn_widths(what, model, rules)
  local h, f, r = model.hidden_dim, model.ffn_embed_dim, model.expansion_ratio
  if not f and not r then return 4 * h, 4 end
  if f and not r and rules.whole_ratio and f % h ~= 0 then
    check.fail("%s: ffn_embed_dim (%s) must be divisible by hidden_dim (%d); with expansion_ratio beside it, "
      .. "llm-analysis takes any", what, check.show(f), h)
  end
  return f or h * r, r or f / h
end

--- Completes a checked model as upstream does: both MLP widths, and the numbers of key and value heads.
function setup.complete(what, model, rules)
  local a, a_kv = model.n_head, model.num_key_value_heads or model.n_head
  if a % a_kv ~= 0 then
    check.fail("%s: n_head (%d) must be divisible by num_key_value_heads (%d)", what, a, a_kv)
  end
  model.num_key_value_heads, model.num_key_value_groups = a_kv, a / a_kv
  model.ffn_embed_dim, model.expansion_ratio = ffn_widths(what, model, rules)
  return model
end

local function model_symbols(m)
  local model = m.model
  local a, f, r = model.n_head, model.ffn_embed_dim, model.expansion_ratio
  m.h, m.a, m.a_kv, m.g = model.hidden_dim + 0.0, a, model.num_key_value_heads, model.num_key_value_groups
  m.d = (model.head_dim or model.hidden_dim / a) + 0.0
  m.ffn_is_integer = math.type(f) == "integer"
  m.f, m.r = f + 0.0, m.rules.expansion_ratio(m.h, f, r)
  m.L, m.V, m.s_max = model.num_layers, model.vocab_size + 0.0, model.max_seq_len
  m.E, m.k, m.c = model.moe_num_experts, model.moe_top_k, model.mlp_gated_linear_units and 3 or 2
end

local function bits_symbols(m)
  local what, dtype = m.what, m.dtype
  local scale_bits = dtype.weight_group_size and 16 / dtype.weight_group_size or 0 -- Q38: one fp16 scale per group
  m.beta_w = (dtype.weight_bits + scale_bits) / 8
  m.beta_a, m.beta_e = dtype.activation_bits / 8, dtype.embedding_bits / 8
  local gpu, widest = m.gpu, math.max(dtype.weight_bits, dtype.activation_bits)
  local fp16 = gpu.peak_fp16_TFLOPS
  if widest == 4 then m.peak = gpu.peak_i4_TFLOPS or 4 * fp16
  elseif widest == 8 then m.peak = gpu.peak_i8_TFLOPS or 2 * fp16
  elseif widest == 16 then m.peak = fp16
  else
    check.fail("%s: weight_bits and activation_bits must be 4, 8, or 16, the wider of the dtype '%s' has %d",
      what, dtype.name, widest)
  end
end

local function check_peak(m)
  if m.peak ~= 0 then return end
  check.fail("%s: the gpu '%s' has a peak of 0 TFLOPS for %d-bit operands: choose another dtype", m.what, m.gpu.name,
    math.max(m.dtype.weight_bits, m.dtype.activation_bits))
end

-- Section 7.1. An achieved rate takes precedence over an efficiency.
local function efficiencies(m, args)
  local what, gpu = m.what, m.gpu
  local achieved = given(args.achieved_memory_bandwidth_GBs)
  m.e_h = achieved and achieved / gpu.hbm_bandwidth_in_GB_per_sec or given(args.hbm_memory_efficiency) or 1
  if m.e_h <= 0 or m.e_h > 1 then
    check.fail("%s: hbm_memory_efficiency must be in (0, 1], check the achieved_memory_bandwidth_GBs and "
      .. "hbm_memory_efficiency passed in (it is %s)", what, check.show(m.e_h))
  end
  achieved = given(args.achieved_tflops)
  m.e_f = achieved and achieved / m.rules.achieved_peak(m) or given(args.flops_efficiency) or 1
  if not (m.e_f > 0 and m.e_f <= 1) then
    check.fail("%s: flops_efficiency must be in (0, 1], check the achieved_tflops and flops_efficiency passed in "
      .. "(it is %s)", what, check.show(m.e_f))
  end
  m.e_intra, m.e_inter = args.intra_node_memory_efficiency, args.inter_node_memory_efficiency
end

local function rates(m)
  local gpu = m.gpu
  m.tflops = m.peak * m.e_f
  m.Phi = m.tflops * 1e12
  m.H = gpu.hbm_bandwidth_in_GB_per_sec * m.e_h * 1e9
  m.I = gpu.intra_node_bandwidth_in_GB_per_sec * m.e_intra * 1e9
  local inter_node = gpu.inter_node_bandwidth_in_GB_per_sec or m.rules.inter_node_GBs
  m.X = inter_node * m.e_inter * 1e9
  m.tau = gpu.intra_node_min_message_latency
end

--- The sizes of the parallelism; sp_size defaults to tp_size.
function setup.parallelism(m, args)
  m.t, m.p, m.ep = args.tp_size, args.pp_size, args.ep_size or 1
  m.n_dp, m.n_r = args.dp_size, args.rdp_size or 1
  m.sp = given(args.sp_size) or m.t
end

local function check_sequence_parallelism(m)
  if m.sp > 1 and m.sp ~= m.t then
    check.fail("%s: if sequence parallelism size > 1, it must be equal to tensor parallelism size using Megatron-LM "
      .. "sequence parallelism (sp_size %d, tp_size %d)", m.what, m.sp, m.t)
  end
end

-- Section 1.
local function parameters(m)
  local rules, E = m.rules, m.E
  m.P_attn = rules.attention_params(m)
  m.P_attn_gpu = rules.attention_params_per_gpu(m)
  m.P_mlp, m.P_router = rules.mlp_params(m), E > 1 and m.h * E or 0
  m.P_ln = rules.norm_params(m)
  m.P_last = m.P_ln / 2
  m.P_emb = rules.embedding_params(m)
  m.P_emb_stage = rules.embedding_params_per_stage(m)
  m.P_layer = m.P_attn + m.P_mlp + m.P_router + m.P_ln
  m.P_tot = m.L * m.P_layer + m.P_emb + m.P_last
  m.P_active = m.L * (m.P_attn + m.P_mlp * m.k / E + m.P_router + m.P_ln) + m.P_emb + m.P_last
end

--- Derives everything that follows from m's configurations, efficiencies and parallelism, which are not checked.
function setup.derive(m)
  model_symbols(m)
  bits_symbols(m)
  rates(m)
  m.l = m.rules.layers_per_gpu(m.L, m.p)
  m.W = m.rules.capacity(m)
  parameters(m)
end

--- Sections 0, 1, 7.1 and 11.
---@param what string   prefix of messages
---@param args table    checked arguments; dp_size and rdp_size resolved
---@param rules table   upstream's formulas, or the corrected ones
---@param any_peak boolean?  true: a peak of 0 is allowed, as nothing is timed yet
---@return table m
function setup.new(what, args, rules, any_peak)
  local m = { rules = rules, args = args, what = what, warnings = {} }
  m.model = setup.complete(what, resolve(what, "model", args, rules), rules)
  m.gpu, m.dtype = resolve(what, "gpu", args, rules), resolve(what, "dtype", args, rules)
  bits_symbols(m)
  if not any_peak then check_peak(m) end
  efficiencies(m, args)
  setup.parallelism(m, args)
  check_sequence_parallelism(m)
  setup.derive(m)
  m.beta_n = args.layernorm_dtype_bytes
  m.Z, m.R = args.ds_zero or 0, rules.recomputation_levels[args.activation_recomputation or 0]
  rules.validate(m)
  return m
end

--- The five parameter counts with which both summaries start.
function setup.put_parameters(m, summary)
  local mlp = m.L * m.P_mlp
  summary.num_params_total = m.P_tot
  summary.num_params_total_mlp = m.ffn_is_integer and math.tointeger(mlp) or mlp
  summary.num_params_total_embedding = math.tointeger(m.P_emb) or m.P_emb
  summary.num_params_total_others = m.P_tot - mlp - m.P_emb
  summary.num_active_params_total = m.P_active
end

--- Python's int(): rounds towards zero.
function setup.trunc(m, x, name)
  if x ~= x or math.abs(x) > 2 ^ 53 then check.fail("%s: %s is out of range (%g)", m.what, name, x) end
  return x < 0 and math.ceil(x) or math.floor(x)
end

--- Appends a warning in upstream's words.
function setup.warn(m, format, ...)
  m.warnings[#m.warnings + 1] = format:format(...)
end

--- The warning common to train and infer (section 10).
function setup.warn_flops_efficiency(m)
  if m.e_f > 0.55 then
    setup.warn(m, "Note that Megatron-LM reported up to 0.6 flops efficiency for large scale model training")
  end
end

return setup
