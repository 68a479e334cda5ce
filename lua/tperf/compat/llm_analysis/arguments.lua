--- Every argument of train and infer: its checker, its kind on the command line, and its meaning for the manual.
local check = require "tperf.base.check"
local revisions = require "tperf.compat.llm_analysis.revisions"

local arguments = {}

local LARGEST = 1 << 40 -- of any size or count
local absent = { optional = true }

local function integer(least, default)
  return check.integer { min = least, max = LARGEST, default = default, optional = default == nil }
end
local function number(default)
  return check.number { min = 0, max = 1e18, default = default, optional = default == nil }
end
local function text() return check.string { optional = true, empty = true } end
local function efficiency() return check.number { above = 0, max = 1e6, default = 1 } end
local signed = check.number { min = -1e18, max = 1e18, optional = true } -- the range is checked where upstream does
local unused = check.number { min = -1e18, max = 1e18, default = 1 }
local config = check.one_of(check.string(absent), check.any {})
local levels = { "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "NOTSET", "WARN", "FATAL" } -- Python's; or a number
local log_level = check.one_of(check.choice { levels, optional = true }, check.integer { optional = true })
local newer, older = revisions.names[1], revisions.names[2]

-- name, kind (on the command line), checker, meaning, and the revision if only one has it
local common = {
  { "revision", "string", check.choice { revisions.names, default = newer },
    "of llm-analysis: 0571436 is the documented one; d841e40" },
  { "model", "string", config, "a shipped name, upstream's JSON file, or its table; facebook_opt-1.3b" },
  { "gpu", "string", config, "a shipped name, or upstream's table; a100-sxm-40gb" },
  { "dtype", "string", config, "a shipped name, or upstream's table; w16a16e16" },
  { "model_name", "string", text(), "upstream's name of model" },
  { "gpu_name", "string", text(), "upstream's name of gpu" },
  { "dtype_name", "string", text(), "upstream's name of dtype" },
  { "tp_size", "integer", integer(1, 1), "tensor-parallel GPUs; 1" },
  { "pp_size", "integer", integer(1, 1), "pipeline stages; 1" },
  { "sp_size", "integer", integer(0), "sequence-parallel GPUs, 1 or tp_size; tp_size" },
  { "ds_zero", "integer", check.integer { min = 0, max = 3, default = 0 }, "ZeRO stage, 0 to 3; 0" },
  { "achieved_tflops", "number", signed, "TFLOP/s per GPU; instead of flops_efficiency" },
  { "flops_efficiency", "number", signed, "share of the peak FLOP/s, in (0, 1]; 1" },
  { "hbm_memory_efficiency", "number", signed, "share of the HBM bandwidth, in (0, 1]; 1" },
  { "intra_node_memory_efficiency", "number", efficiency(), "share of the intra-node bandwidth; 1", newer },
  { "inter_node_memory_efficiency", "number", efficiency(), "share of the inter-node bandwidth; 1", newer },
  { "intra_node_memory_efficiency", "number", unused, "accepted; changes no result; 1", older },
  { "inter_node_memory_efficiency", "number", unused, "accepted; changes no result; 1", older },
  { "output_dir", "string", text(), "folder of the summary's JSON and text files, made if missing" },
  { "output_file_prefix", "string", text(), "before the files' names", newer },
  { "output_file_suffix", "string", text(), "after the files' names" },
  { "log_level", "string", log_level, "accepted; has no effect: warnings are in the result" },
  { "fixed", "boolean", check.boolean { default = false }, "use the corrected formulas; false", newer },
}

local train = {
  { "batch_size_per_gpu", "integer", integer(0), "sequences per micro-batch and GPU; solved when absent or 0" },
  { "gradient_accumulation_steps", "integer", integer(0), "micro-batches per iteration; solved when absent" },
  { "global_batch_size", "integer", integer(0), "sequences per iteration; solved when absent or 0" },
  { "seq_len", "integer", integer(1), "tokens per sequence; the model's max_seq_len" },
  { "total_num_tokens", "number", number(), "tokens of the whole training; its duration is left out when absent" },
  { "dp_size", "integer", integer(0), "GPUs ZeRO shards over; from total_num_gpus, or 1" },
  { "ep_size", "integer", integer(1, 1), "expert-parallel GPUs; 1" },
  { "total_num_gpus", "integer", integer(0), "GPUs in all; tp_size * pp_size * dp_size" },
  { "num_gpus_per_node", "integer", integer(1, 8), "the most tp_size may be; 8" },
  { "activation_recomputation", "integer", check.integer { min = 0, max = 4, default = 0 },
    "0 none, 1 attention core, 2 attention, 3 + norms, 4 all; 0", newer },
  { "activation_recomputation", "integer", check.integer { min = 0, max = 2, default = 0 },
    "0 none, 1 attention core, 2 all; 0", older },
  { "fwd_prefetch", "boolean", check.boolean { default = true }, "ZeRO-3 gathers a layer ahead in forward; true",
    newer },
  { "bwd_prefetch", "boolean", check.boolean { default = true }, "ZeRO-3 gathers a layer ahead in backward; true",
    newer },
  { "layernorm_dtype_bytes", "number", number(4), "bytes per norm activation; 4" },
  { "master_weights_dtype_bytes", "number", number(4), "bytes per master weight and per gradient; 4" },
  { "other_op_bytes", "number", number(), "other optimizer bytes per parameter; Adam's 8, in fp32" },
  { "flash_attn", "boolean", check.boolean { default = true }, "flash attention; true" },
  { "softmax_dropout", "boolean", check.boolean { default = false }, "keep the softmax's dropout mask; false" },
  { "mlp_activation_quant_bits", "integer", integer(0), "bits of all three kept MLP inputs; the dtype's" },
  { "mlp_1linear_quant_bits", "integer", integer(0), "bits of the first linear's kept input; the dtype's" },
  { "mlp_gelu_input_quant_bits", "integer", integer(0), "bits of the kept GELU input; the dtype's" },
  { "mlp_2linear_quant_bits", "integer", integer(0), "bits of the second linear's kept input; the dtype's" },
  { "mlp_recompute_gelu", "boolean", check.boolean { default = false }, "recompute the GELU in backward; false" },
  { "mlp_gated_linear_units", "boolean", check.boolean { default = false },
    "gated MLPs: changes a batch of 1 and the largest one; false", older },
}

local infer = {
  { "batch_size_per_gpu", "integer", integer(1, 1), "sequences; 1" },
  { "seq_len", "integer", integer(1, 512), "tokens of the prompt; 512" },
  { "num_tokens_to_generate", "integer", integer(1, 32), "tokens generated per sequence; 32" },
  { "dp_size", "integer", integer(1, 1), "GPUs ZeRO shards over; 1" },
  { "use_kv_cache", "boolean", check.boolean { default = true }, "keep keys and values; true" },
  { "layernorm_dtype_bytes", "number", number(2), "bytes per norm activation; 2" },
  { "kv_cache_dtype_bytes", "number", number(), "bytes per cached element; the activations'" },
  { "achieved_memory_bandwidth_GBs", "number", signed, "GB/s of HBM; instead of hbm_memory_efficiency" },
  { "cost_per_gpu_hour", "number", number(), "dollars; adds the three cost keys" },
}

-- Only with `fixed`.
local reserve = { "memory_reserve", "number", check.number { min = 0, max = 0.99, default = 0 },
  "with fixed: share of the memory left free; 0" }
local fixed_train = {
  reserve,
  { "attn_dropout", "boolean", check.boolean { default = true }, "with fixed: keep attention's dropout mask; true" },
  { "mlp_dropout", "boolean", check.boolean { default = true }, "with fixed: keep the MLP's dropout mask; true" },
}

local function join(...)
  local list = {}
  for _, part in ipairs { ... } do table.move(part, 1, #part, #list + 1, list) end
  return list
end

local function schema(list, revision)
  local fields = {}
  for _, argument in ipairs(list) do
    if not argument[5] or argument[5] == revision then fields[argument[1]] = argument[3] end
  end
  return fields
end

--- Every argument of both functions, in the manual's order.
arguments.lists = { train = join(common, train, fixed_train), infer = join(common, infer, { reserve }) }

local function schemas_of(own, with_fixed)
  local schemas = { fixed = schema(with_fixed, newer) }
  for _, revision in ipairs(revisions.names) do schemas[revision] = schema(join(common, own), revision) end
  return schemas
end

local schemas = { train = schemas_of(train, arguments.lists.train), infer = schemas_of(infer, arguments.lists.infer) }

-- The arguments of only one revision.
local apart = {}
for question, list in pairs(arguments.lists) do
  apart[question] = {}
  for _, argument in ipairs(list) do table.insert(apart[question], argument[5] and argument or nil) end
end

-- An argument in the request that belongs to another revision.
local function other_revision(request, question, revision)
  for _, argument in ipairs(apart[question]) do
    local name, own = argument[1], argument[5]
    if own ~= revision and rawget(request, name) ~= nil and not schemas[question][revision][name] then
      return name, own
    end
  end
end

--- The checked copy of a request.
---@param what string       prefix of messages
---@param question string   "train" or "infer"
---@param request any       what the user passed
---@return table
function arguments.check(what, question, request)
  local asked = type(request) == "table" and rawget(request, "revision")
  local revision = schemas[question][asked] and asked or newer
  if type(request) == "table" then
    local name, own = other_revision(request, question, revision)
    if name then check.fail("%s: '%s' is an argument of revision %s, not of %s", what, name, own, revision) end
  end
  local fixed = revision == newer and type(request) == "table" and rawget(request, "fixed") == true
  return check.record(what, request, schemas[question][fixed and "fixed" or revision])
end

return arguments
