--- llm-analysis's class LLMAnalysis of revision 0571436: one deployment, with its get_* and update_* methods.
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local setup = require "tperf.compat.llm_analysis.setup"
local memory = require "tperf.compat.llm_analysis.memory"
local latency = require "tperf.compat.llm_analysis.latency"
local summary = require "tperf.compat.llm_analysis.summary"
local revisions = require "tperf.compat.llm_analysis.revisions"
local max = math.max

local analysis = {}

local REVISION = "0571436"
local rules = revisions.rules[REVISION]
local LARGEST = 1 << 40

-- Checkers ----------------------------------------------------------------------------------------------------
local function count(default) return check.integer { min = 1, max = LARGEST, default = default } end
local function bytes(default)
  return check.number { min = 0, max = 1e15, default = default, optional = default == nil }
end
local function flag(default) return check.boolean { default = default } end
local bits = check.integer { min = 0, max = LARGEST, optional = true }

-- A checker for an enumeration, by upstream's number or name; returns the number.
local function enumeration(names)
  local numbers, listed = {}, {}
  for number = 0, #names do
    numbers[number], numbers[names[number]], listed[number + 1] = number, number, names[number]
  end
  return function(value, path)
    local number = numbers[value == nil and 0 or value]
    if number then return number end
    return nil, ("'%s' must be 0 to %d or one of %s, got %s"):format(path, #names, table.concat(listed, ", "),
      check.show(value)), path
  end
end

local ds_zero = enumeration { [0] = "NONE", "STAGE_1", "STAGE_2", "STAGE_3" }
local recomputation = enumeration { [0] = "NONE", "SELECTIVE", "FULL" }

local function with(...)
  local schema = {}
  for _, part in ipairs { ... } do
    for name, checker in pairs(part) do schema[name] = checker end
  end
  return schema
end

local none, sized = {}, { batch_size = count(), seq_len = count() }
local staged = { ds_zero = ds_zero }
local stated = with(staged, { master_weights_dtype_bytes = bytes(4), other_op_bytes = bytes() })
local passing = with(sized, { is_inference = flag(true), activation_recomputation = recomputation })
local forward = with(passing, { layernorm_dtype_bytes = bytes(4) })
local quantised = with(passing, { mlp_activation_quant_bits = bits, mlp_1linear_quant_bits = bits,
  mlp_gelu_input_quant_bits = bits, mlp_2linear_quant_bits = bits })
local scored = { flash_attn = flag(true), softmax_dropout = flag(false) }
local attention_kept = with(passing, scored, { attn_dropout = flag(true) })
local mlp_kept = with(quantised, { recompute_gelu = flag(false), gated_linear_units = flag(false),
  with_dropout = flag(false) })
local layer_kept = with(quantised, forward, scored, { mlp_recompute_gelu = flag(false),
  mlp_gated_linear_units = flag(false), return_breakdown = flag(false) })
local normed = with(sized, { activation_recomputation = recomputation, dtype_bytes = bytes(4) })

-- Quantities: a schema of the arguments, and a function of the setup and them (m.args, m.Z, m.R, m.beta_n) -------
local quantities = {}

local function quantity(name, schema, compute) quantities[name] = { schema = schema, compute = compute } end

for name, symbol in pairs { num_params_total = "P_tot", num_active_params_total = "P_active",
  num_params_per_layer = "P_layer", num_params_per_layer_attn = "P_attn" } do
  quantity("get_" .. name, none, function(m) return m[symbol] end)
end

-- Upstream computes these as integers.
local function whole(x) return math.tointeger(x) or x end

for name, symbol in pairs { mlp = "P_mlp", router = "P_router", layernorm = "P_ln" } do
  quantity("get_num_params_per_layer_" .. name, none, function(m) return whole(m[symbol]) end)
end
quantity("get_num_params_last_layernorm", none, function(m) return whole(m.P_last) end)

quantity("get_num_active_params_per_layer", none, function(m)
  return m.P_attn + m.P_mlp * m.k / m.E + m.P_router + m.P_ln
end)

quantity("get_num_params_embedding", { shared_embedding = flag(true) }, function(m)
  return whole(m.args.shared_embedding and m.P_emb or 2 * m.P_emb)
end)

quantity("get_TFLOPS_per_gpu", none, function(m) return m.tflops end)
quantity("get_gpu_hbm_bandwidth", none, function(m) return m.gpu.hbm_bandwidth_in_GB_per_sec * m.e_h end)
quantity("get_intra_node_bandwidth", none, function(m) return m.I / 1e9 end)
quantity("get_inter_node_bandwidth", none, function(m) return m.X / 1e9 end)
quantity("get_pivot", none, function(m) return m.tflops * 1e3 * m.beta_a / (m.H / 1e9) / 2 end)
quantity("get_configs_desc", none, summary.description)

quantity("get_weight_memory_per_layer", with(staged, { return_breakdown = flag(false) }), function(m)
  local attention, mlp, norms = memory.layer_weights(m, memory.shards(m, 3))
  local sum = attention + mlp + norms
  if m.args.return_breakdown then return sum, attention, mlp, norms end
  return sum
end)

quantity("get_weight_memory_last_layernorm", staged, function(m)
  local _, _, last_norm = memory.end_weights(m)
  return last_norm
end)

quantity("get_memory_embedding", staged, function(m) return (memory.end_weights(m)) end)

for i, part in ipairs { "per_layer", "embedding", "last_layernorm" } do
  quantity("get_memory_optimizer_state_and_gradient_" .. part, stated, function(m)
    return (select(i, memory.optimizer_parts(m))), (select(i, memory.gradient_parts(m, 2)))
  end)
end

quantity("get_memory_kv_cache_per_layer", with(sized, { kv_cache_dtype_bytes = bytes() }), function(m, b, s)
  return memory.kv_cache(m, b, s)
end)

local function attention_activations(m, b, s, dropout)
  local args = m.args
  local how = args.is_inference and memory.attention_inference or memory.attention
  -- Inference recomputes nothing; only "selective" leaves the scores out.
  return how(m, b, s, m.R, args.flash_attn, args.softmax_dropout, dropout)
end

quantity("get_activation_memory_per_layer_attn", attention_kept, function(m, b, s)
  return attention_activations(m, b, s, m.args.attn_dropout)
end)

local function mlp_activations(m, b, s, recompute_gelu, gated)
  local beta_1, beta_g, beta_2 = memory.mlp_bytes(m)
  if m.args.is_inference then return memory.mlp_inference(m, b, s, beta_1, beta_g) end
  return memory.mlp(m, b, s, m.R, beta_1, beta_g, beta_2, recompute_gelu, gated)
end

quantity("get_activation_memory_per_layer_mlp", mlp_kept, function(m, b, s)
  local args = m.args
  local kept = mlp_activations(m, b, s, args.recompute_gelu, args.gated_linear_units)
  local masked = args.with_dropout and not args.is_inference and m.R ~= 4
  return masked and kept + s * b * m.h / m.sp or kept
end)

quantity("get_activation_memory_per_layernorm", normed, memory.norm)

-- The activations of one layer: the sum, or in inference the largest part, and the parts.
local function layer_activations(m, b, s)
  if not m.args.is_inference then return memory.layer(m, b, s, m.args.mlp_gated_linear_units) end
  local attention, mlp, norm = attention_activations(m, b, s), mlp_activations(m, b, s), memory.norm(m, b, s)
  return max(attention, mlp, norm), attention, mlp, 2 * norm
end

quantity("get_activation_memory_per_layer", layer_kept, function(m, b, s)
  if m.args.return_breakdown then return layer_activations(m, b, s) end
  return (layer_activations(m, b, s))
end)

quantity("get_activation_memory_output_embedding", sized, memory.logits)

quantity("get_num_flops_fwd_per_layer_attn", sized, latency.attention_flops)
quantity("get_num_flops_fwd_per_layer_mlp", sized, function(m, b, s) return whole(rules.mlp_flops(m, b, s)) end)
quantity("get_num_flops_fwd_per_layer", sized, function(m, b, s)
  return latency.attention_flops(m, b, s) + rules.mlp_flops(m, b, s)
end)
quantity("get_num_flops_fwd_total", sized, function(m, b, s) return latency.forward_flops(m, b, s) end)
quantity("get_num_flops_bwd_total", sized, function(m, b, s) return 2 * latency.forward_flops(m, b, s) end)
quantity("get_num_flops_total_selective_recompute_attn", sized, function(m, b, s)
  return whole(m.L * rules.core_flops(m, b, s))
end)

local function training(m) return not m.args.is_inference end

quantity("get_latency_fwd_per_layer_attn", passing, function(m, b, s)
  return latency.attention(m, b, s, training(m))
end)
quantity("get_latency_fwd_per_layer_mlp", passing, function(m, b, s) return (latency.mlp(m, b, s, training(m))) end)
quantity("get_latency_fwd_per_layer_layernorm", normed, rules.norm_time)

quantity("get_latency_fwd_per_layer_tp_comm", with(sized, { dtype_bytes = check.number { min = 0, max = 1e15 } }),
  function(m, b, s) return latency.all_reduce(m, b, s, m.args.dtype_bytes) end)

quantity("get_latency_fwd_per_layer", forward, function(m, b, s)
  local _, parts = latency.forward(m, b, s, training(m))
  return parts.layer, { attn = parts.attention, mlp = parts.mlp, layernorm = 2 * parts.norm, tp_comm = 2 * parts.tp }
end)

quantity("get_latency_fwd_input_embedding", with(sized, { dtype_bytes = bytes(4) }), function(m, b, s)
  m.beta_e = m.args.dtype_bytes
  return rules.input_time(m, b, s)
end)

quantity("get_latency_fwd_output_embedding_loss", sized, rules.output_time)

quantity("get_latency_fwd", with(forward, { breakdown_prefix = check.string { default = "", empty = true } }),
  function(m, b, s)
    local total, parts = latency.forward(m, b, s, training(m))
    local breakdown, prefix = {}, m.args.breakdown_prefix
    latency.put_breakdown(m, breakdown, prefix, parts)
    breakdown[prefix .. "latency_fwd_sharded_dp_comm"] = nil -- d841e40's
    return total, breakdown
  end)

-- The object ----------------------------------------------------------------------------------------------------
local methods = {}
local setups = setmetatable({}, { __mode = "k" }) -- an analysis -> its setup

local function setup_of(self, name)
  return setups[self] or check.fail("llm_analysis: call it as analysis:%s { … }", name)
end

local class = frozen.class(function(_, name)
  check.fail("llm_analysis: an analysis is only changed by its methods update_*, so '%s' cannot be set", tostring(name))
end, methods, "LLMAnalysis")

local function finite(name, ...)
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    if type(value) == "number" and (value ~= value or math.abs(value) == math.huge) then
      check.fail("llm_analysis.%s: the result is out of range: an efficiency or a peak is 0, or a size too large", name)
    end
  end
  return ...
end

for name, one in pairs(quantities) do
  methods[name] = function(self, arguments)
    local m = setup_of(self, name)
    local args = check.record("llm_analysis." .. name, arguments or {}, one.schema)
    local with_arguments = setmetatable({ args = args, Z = args.ds_zero or 0,
      R = rules.recomputation_levels[args.activation_recomputation or 0],
      beta_n = args.layernorm_dtype_bytes or args.dtype_bytes }, { __index = m })
    return finite(name, one.compute(with_arguments, args.batch_size, args.seq_len))
  end
end

-- Stores a value after checking only its type: as in upstream, the efficiencies and total parameter counts set at
-- construction do not change.
local function update(name, checker, store)
  methods[name] = function(self, value)
    local m = setup_of(self, name)
    local args = check.record("llm_analysis." .. name, { value = value }, { value = checker })
    store(m, args.value, self)
    setup.derive(m)
  end
end

local named = check.any {} -- setup.config accepts names and tables
local efficiency = check.number { min = -1e6, max = 1e6 }

update("update_model_config", named, function(m, model)
  m.model = setup.complete(m.what, setup.config(m.what, "model", model, rules), rules)
end)
update("update_gpu_config", named, function(m, gpu) m.gpu = setup.config(m.what, "gpu", gpu, rules) end)
update("update_dtype_config", named, function(m, dtype) m.dtype = setup.config(m.what, "dtype", dtype, rules) end)
update("update_intra_node_memory_efficiency", efficiency, function(m, share) m.e_intra = share end)
update("update_inter_node_memory_efficiency", efficiency, function(m, share) m.e_inter = share end)
update("update_float_efficiency", efficiency, function(m, share, self) -- upstream's spelling
  m.e_f, self.flops_efficiency = share, share
end)

local parallelism = { tp_size = count(1), pp_size = count(1), dp_size = count(1), ep_size = count(1),
  sp_size = check.integer { min = 1, max = LARGEST, optional = true } }

update("update_parallelism_config", check.record_of(parallelism), setup.parallelism)

local share = check.number { min = -1e18, max = 1e18, optional = true }
local own_share = check.number { min = -1e18, max = 1e18, default = 1 }

local constructor = {
  model = named, gpu = named, dtype = named, parallelism = check.record_of(parallelism, { default = {} }),
  achieved_tflops = share, achieved_memory_bandwidth_GBs = share, flops_efficiency = share,
  hbm_memory_efficiency = share, intra_node_memory_efficiency = own_share, inter_node_memory_efficiency = own_share,
  revision = check.choice { { REVISION }, default = REVISION },
}

--- Makes the object for one deployment, as upstream's class does.
---@param arguments table  model, gpu, dtype: names or tables; parallelism: { tp_size =, pp_size =, dp_size =,
---  ep_size =, sp_size = }; the efficiencies of train and infer
---@return table analysis  with the get_* and update_* methods, which take their arguments by name, and the numbers
---  flops_efficiency, hbm_memory_efficiency, total_num_params, total_num_active_params
function analysis.new(arguments)
  local what = "llm_analysis.LLMAnalysis"
  local args = check.record(what, arguments, constructor)
  for name, value in pairs(args.parallelism) do args[name] = value end
  local m = setup.new(what, args, rules, true)
  local self = { flops_efficiency = m.e_f, hbm_memory_efficiency = m.e_h, total_num_params = m.P_tot,
    total_num_active_params = m.P_active }
  setups[self] = m
  return frozen.show(frozen.keep(self, class))
end

analysis.methods = check.names(methods)

return analysis
