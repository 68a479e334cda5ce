--- The formats of weights that methods of quantisation write: config.json's quantization_config as transformers,
-- compressed-tensors (vLLM's llm-compressor), NVIDIA's ModelOpt, GPTQ, AWQ and bitsandbytes have it. Each method is a
-- function(q) -> { format, products, ignore, groups, listed, cache } and the fields that it understands; without a
-- format, the method's file is not understood, and `fault` says why.
--   format    of describe/stored.lua: a name, or { bits, group, zero_points, scale }
--   products  the dtype in which products multiply, if it is not the format's
--   ignore    modules that stay in 16 bits
--   groups    { { targets, format, products } … } in place of one format for all
--   listed    modules with formats of their own; listed_alone: no others are quantised
--   cache     the dtype that the file has scales for
--   head      the format of the output table, if it is quantised; tables: of the input table, too
--   index, row_scale   bytes for each feature of a product's input (GPTQ's g_idx) and output
--   routers   whether routers are quantised as other products are
--   shape     bytes of a product's shape (compressed-tensors' packed integers)
local methods = {}

local function is_block(size) return type(size) == "table" and size[1] == 128 and size[2] == 128 end

-- Fields that change neither the stored bytes nor the products: how the checkpoint was made, and how a loader packs it.
local HARMLESS <const> = [[quant_method quantization_status global_compression_ratio version format producer
  provider backend damp_percent static_groups true_sequential desc_act sym checkpoint_format meta pack_dtype
  quantizer model_name_or_path model_file_base_name dataset tokenizer batch_size cache_block_outputs
  block_name_to_quantize exllama_config use_exllama max_input_length model_seqlen module_name_preceding_first_block
  pad_token_id use_cuda_fp16 is_marlin_format do_fuse fuse_max_seq_len modules_to_fuse activation_scheme fmt
  scale_fmt act_scale activation_scale_ub _load_in_4bit _load_in_8bit llm_int8_threshold llm_int8_has_fp16_weight
  llm_int8_enable_fp32_cpu_offload bnb_4bit_compute_dtype bnb_4bit_quant_storage packing_format dequantize
  has_zero_point pre_quant_scale]]

local function words(text)
  local set = {}
  for word in text:gmatch "%S+" do set[word] = true end
  return set
end

local harmless = words(HARMLESS)

-- Whether a field says nothing: off, or empty.
local function is_absent(value)
  return value == false or type(value) == "userdata" or type(value) == "table" and next(value) == nil
end

-- The first field that is not understood, in alphabetical order.
local function unknown(q, understood)
  local first
  for key, value in pairs(q) do
    if not (harmless[key] or understood[key] or is_absent(value)) and (not first or tostring(key) < first) then
      first = tostring(key)
    end
  end
  return first
end

local function fault(format, ...) return { fault = format:format(...) } end

-- Integers of few bits, with a 16-bit scale for each group of weights along the input. A group of -1 is a whole row.
local function integers(bits, group, zero_points)
  if math.type(bits) ~= "integer" or bits < 2 or bits > 8 then return nil end
  if group ~= nil and (math.type(group) ~= "integer" or group == 0 or group < -1) then return nil end
  if group and group > 0 then return { bits = bits, group = group, zero_points = zero_points or nil } end
  return { bits = bits }
end

local KINDS <const> = { float8 = "fp8", float4 = "fp4", int8 = "int8" }

-- The dtype of products by the activations that a compressed-tensors group quantises; none: 16 bits.
local function products_of(inputs)
  if type(inputs) ~= "table" then return "bf16" end
  return KINDS[tostring(inputs.type) .. tostring(inputs.num_bits)]
end

local function float_format(w)
  if w.num_bits == 8 then
    if w.strategy == "group" then return w.group_size == 32 and "mxfp8" or nil end
    if w.strategy == "block" then return is_block(w.block_structure) and "fp8-block" or nil end
    return "fp8"
  end
  return w.num_bits == 4 and (w.group_size == 16 and "nvfp4" or w.group_size == 32 and "mxfp4") or nil
end

local WEIGHT_FIELDS <const> = words [[num_bits type symmetric strategy group_size block_structure dynamic actorder
  observer observer_kwargs scale_dtype zp_dtype]]
local GROUP_FIELDS <const> = words "weights input_activations output_activations targets format"

-- One compressed-tensors group: its format, from its bits, type and scale granularity, and its products' dtype.
local function of_group(group)
  local w = type(group) == "table" and group.weights
  if type(w) ~= "table" then return nil, "a group without weights" end
  local odd = unknown(w, WEIGHT_FIELDS) or unknown(group, GROUP_FIELDS)
    or not is_absent(group.output_activations or false) and "output_activations"
  if odd then return nil, ("field '%s'"):format(odd) end
  local format
  if w.type == "float" then format = float_format(w) end
  if w.type == "int" then
    format = integers(w.num_bits, w.strategy ~= "channel" and w.group_size or nil, w.symmetric == false)
  end
  local products = products_of(group.input_activations)
  if not format or not products then return nil, ("%s weights of %s bits"):format(w.type, w.num_bits) end
  if type(format) == "table" and format.bits == 8 and products == "int8" then format = "int8" end
  return format, products
end

local function first_of(config, ...)
  for _, name in ipairs { ... } do
    if type(config[name]) == "table" then return config[name] end
  end
end

local EXCEPTIONS <const> = { "modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers",
  "llm_int8_skip_modules" }

local function ignored(q) return first_of(q, table.unpack(EXCEPTIONS)) end

-- Adds the fields that all methods may have, and checks the rest.
local function checked(q, found, fields)
  local understood = words(fields)
  for _, name in ipairs(EXCEPTIONS) do understood[name] = true end
  local odd = unknown(q, understood)
  if odd then return fault("field '%s'", odd) end
  found.ignore = found.ignore or ignored(q)
  return found
end

function methods.fp8(q)
  local size, format = q.weight_block_size, "fp8"
  if not is_absent(size or false) then format = is_block(size) and "fp8-block" or nil end
  return checked(q, { format = format, products = "fp8" }, "weight_block_size kv_cache_scheme")
end
function methods.fbgemm_fp8(q) return checked(q, { format = "fp8", products = "fp8", row_scale = 4 }, "") end

-- transformers converts only gpt-oss's experts.
function methods.mxfp4(q)
  return checked(q, { groups = { { targets = { "experts" }, format = "mxfp4" } } }, "")
end

-- The files have zero points whether the quantisation is symmetric or not. `dynamic` leaves modules out ("-:") or gives
-- them other settings ("+:").
function methods.gptq(q)
  local left = table.move(ignored(q) or {}, 1, #(ignored(q) or {}), 1, {})
  local listed = {}
  for name, settings in pairs(type(q.dynamic) == "table" and q.dynamic or {}) do
    local sign, own = tostring(name):sub(1, 2), type(settings) == "table" and settings or {}
    local other = sign == "+:" and integers(own.bits or q.bits, own.group_size or q.group_size, true)
    if other then
      listed[#listed + 1] = { name = "re:" .. name:sub(3), format = other, products = "bf16" }
    elseif sign ~= "-:" then
      return fault("field 'dynamic' for %s", name)
    else
      left[#left + 1] = "re:" .. name:sub(3)
    end
  end
  local format = integers(q.bits, q.group_size, true)
  return checked(q, { format = format, products = "bf16", ignore = left, listed = listed, index = 4,
    head = q.lm_head == true and format or nil }, "bits group_size dynamic lm_head")
end

-- Intel's AutoRound writes GPTQ's tensors or AWQ's. extra_config gives modules other settings.
methods["auto-round"] = function(q)
  local packing = type(q.packing_format) == "string" and q.packing_format or "auto_gptq"
  local zeros = packing:find "gptq" ~= nil or packing:find "awq" ~= nil
  if q.data_type ~= nil and q.data_type ~= "int" then return fault("data_type '%s'", q.data_type) end
  local found = { format = zeros and integers(q.bits, q.group_size, true), products = "bf16", listed = {}, ignore = {},
    index = packing:find "gptq" and 4 or nil }
  for name, one in pairs(type(q.extra_config) == "table" and q.extra_config or {}) do
    local bits = type(one) == "table" and (one.bits or q.bits)
    if bits == 16 then
      found.ignore[#found.ignore + 1] = name
    elseif bits ~= false then
      local format = integers(bits, one.group_size or q.group_size, true)
      if not format then return fault("extra_config of %s", name) end
      found.listed[#found.listed + 1] = { name = name, format = format, products = "bf16" }
    end
  end
  return checked(q, found, [[bits group_size extra_config data_type autoround_version iters nsamples seqlen lr minmax_lr
    amp train_bs scale_dtype low_gpu_mem_usage enable_quanted_input enable_minmax_tuning enable_norm_bias_tuning
    enable_alg_ext super_bits super_group_size to_quant_block_names block_name_to_quantize gradient_accumulate_steps
    act_bits act_group_size act_sym act_dynamic act_data_type]])
end
methods["intel/auto-round"] = methods["auto-round"]

-- MLX's groups have a scale and a bias of 16 bits each. All products and tables are quantised, except modules that the
-- map names with false, or other settings.
local function mlx(q)
  local function format(one)
    local mode = one.mode -- a module's own settings are affine unless they say otherwise
    if mode == "mxfp4" or mode == "nvfp4" then return mode end
    if mode ~= nil and mode ~= "affine" then return nil end
    local made = integers(one.bits or q.bits, one.group_size or q.group_size)
    if made then made.scale = 4 end
    return made
  end
  local found = { format = format(q), products = "bf16", ignore = {}, listed = {}, routers = true }
  found.head, found.tables = found.format, found.format
  for name, one in pairs(q) do
    if tostring(name):find(".", 1, true) or name == "lm_head" then
      name = name:gsub("switch_mlp", "experts") -- MLX's stack of experts
      local other = type(one) == "table" and format(one)
      if name:find "embed_tokens$" then found.tables = other or nil end
      if name:find "lm_head$" then found.head = other or nil end
      if one == false then
        found.ignore[#found.ignore + 1] = name
      elseif type(one) == "table" and not other then
        return fault("module '%s'", name)
      elseif other then
        found.listed[#found.listed + 1] = { name = name, format = other, products = "bf16" }
      end
    elseif name ~= "bits" and name ~= "group_size" and name ~= "mode" and name ~= "quant_method" then
      return fault("field '%s'", tostring(name))
    end
  end
  return found
end
methods["MLX's groups"] = mlx

-- AMD's Quark: one setting for all products, but for those of `exclude`.
function methods.quark(q)
  local all = type(q.global_quant_config) == "table" and q.global_quant_config or {}
  local w, inputs = all.weight, all.input_tensors
  if type(w) ~= "table" then return fault "no 'global_quant_config' with a weight" end
  for _, name in ipairs { "layer_quant_config", "layer_type_quant_config" } do
    if not is_absent(q[name] or false) then return fault("field '%s'", name) end
  end
  local format, products = nil, "bf16"
  if w.dtype == "fp4" and w.group_size == 32 then format = "mxfp4" end
  if w.dtype == "fp8_e4m3" and w.group_size == nil then format = "fp8" end
  if w.dtype == "int4" or w.dtype == "uint4" then format = integers(4, w.group_size, w.dtype == "uint4") end
  if type(inputs) == "table" then products = inputs.dtype == "fp4" and "fp4" or inputs.dtype == "fp8_e4m3" and "fp8" end
  if not format or not products then return fault("weights in %s", w.dtype or "an unnamed dtype") end
  local found = { format = format, products = products, ignore = type(q.exclude) == "table" and q.exclude or nil }
  found.cache = not is_absent(q.kv_cache_quant_config or false) and "fp8" or nil
  return checked(q, found, [[global_quant_config exclude kv_cache_quant_config algo_config softmax_quant_spec
    quant_mode export layer_quant_config layer_type_quant_config log_severity_level kv_cache_post_rope]])
end

function methods.awq(q)
  local bits, group = q.bits or q.w_bit, q.group_size or q.q_group_size
  local found = { format = integers(bits, group, q.zero_point ~= false), products = "bf16" }
  return checked(q, found, "bits w_bit group_size q_group_size zero_point")
end

-- NF4 has a scale in fp32 for each 64 weights; doubly quantised, one byte and a second scale for each 256 of them
-- (QLoRA, arXiv 2305.14314, section 3).
function methods.bitsandbytes(q)
  local format
  if q.load_in_4bit then
    format = { bits = 4, group = 64, scale = q.bnb_4bit_use_double_quant and 1 + 4 / 256 or 4 }
  elseif q.load_in_8bit then
    format = { bits = 8 }
  end
  return checked(q, { format = format, products = q.load_in_8bit and "int8" or "bf16" },
    "load_in_4bit load_in_8bit bnb_4bit_quant_type bnb_4bit_use_double_quant")
end

local FOUR <const> = { bits = 4, group = 128 }
local ALGORITHMS <const> = {
  FP8 = { "fp8" }, FP8_PER_CHANNEL_PER_TOKEN = { "fp8" }, FP8_PB_WO = { "fp8-block" }, NVFP4 = { "nvfp4", 16 },
  NVFP4_AWQ = { "nvfp4", 16 }, MXFP8 = { "mxfp8", 32 }, W4A16_AWQ = { FOUR, 128, "bf16" },
  W4A16_NVFP4 = { "nvfp4", 16, "bf16" },
  W4A8_AWQ = { FOUR, 128, "fp8" },
}

local function algorithm(name, group)
  local known = ALGORITHMS[name]
  if not known or group ~= nil and known[2] and group ~= known[2] then return nil end
  return known[1], known[3]
end

-- Every quantised module by name, each with its algorithm.
local function mixed(layers)
  local listed, head = {}, nil
  for name, one in pairs(type(layers) == "table" and layers or {}) do
    local given = type(one) == "table" and one or {}
    local format, products = algorithm(given.quant_algo, given.group_size)
    if not format then return fault("%s of %s", given.quant_algo or "an unknown algorithm", name) end
    if name == "lm_head" then head = format end
    listed[#listed + 1] = { name = name, format = format, products = products }
  end
  if not listed[1] then return fault "MIXED_PRECISION without 'quantized_layers'" end
  return { listed = listed, listed_alone = true, head = head }
end

function methods.modelopt(q)
  local inner = type(q.quantization) == "table" and q.quantization or q
  local scheme = q.kv_cache_scheme or inner.kv_cache_quant_algo or inner.kv_cache_scheme
  local found = {}
  if inner.quant_algo == "MIXED_PRECISION" then
    found = mixed(inner.quantized_layers)
  else
    found.format, found.products = algorithm(inner.quant_algo, inner.group_size)
    if not found.format then return fault("%s", inner.quant_algo or "an unnamed algorithm") end
  end
  found.cache = scheme and not is_absent(scheme) and "fp8" or nil
  found.ignore = ignored(inner)
  local fields = "quantization quant_algo group_size kv_cache_quant_algo kv_cache_scheme config_groups quantized_layers"
  if inner ~= q then
    local odd = checked(inner, {}, fields).fault
    if odd then return { fault = odd } end
  end
  return found.fault and found or checked(q, found, fields)
end
methods.modelopt_fp4 = methods.modelopt

methods["compressed-tensors"] = function(q)
  local groups = {}
  for name, group in pairs(type(q.config_groups) == "table" and q.config_groups or {}) do
    local format, products = of_group(group)
    if not format then return { fault = products } end
    local targets = type(group.targets) == "table" and group.targets or { "Linear" }
    groups[#groups + 1] = { name = tostring(name), targets = targets, format = format, products = products }
  end
  if not groups[1] then return fault "no 'config_groups'" end
  table.sort(groups, function(a, b) return a.name < b.name end)
  local cache = not is_absent(q.kv_cache_scheme or false) and "fp8" or nil
  local all, head = groups[1], nil
  if #groups == 1 and all.targets[1] == "Linear" and not all.targets[2] then -- the output table is a Linear, too
    head = all.format
    for _, name in ipairs(ignored(q) or {}) do
      if tostring(name):find "lm_head" then head = nil end
    end
  end
  local sparse = q.sparsity_config
  if type(sparse) == "table" and sparse.format ~= nil and sparse.format ~= "dense" then
    return fault "field 'sparsity_config'"
  end
  local shape = q.format == "pack-quantized" and 8 or nil -- two integers of 32 bits
  return checked(q, { groups = groups, cache = cache, head = head, shape = shape },
    "config_groups kv_cache_scheme sparsity_config")
end

return methods
