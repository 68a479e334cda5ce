--- The public llm-analysis tool's answers, from its own arguments: train{...} and infer{...} return its summaries
-- under its key names, with its warnings as the list `warnings`. `fixed = true` replaces the formulas known to be
-- wrong (docs/compat_llm_analysis.md). This is another tool's arithmetic, kept apart from tperf's own.
local check = require "tperf.check"
local configs = require "tperf.compat.llm_analysis.configs"
local train = require "tperf.compat.llm_analysis.train"
local infer = require "tperf.compat.llm_analysis.infer"
local summary = require "tperf.compat.llm_analysis.summary"
local upstream = require "tperf.compat.llm_analysis.upstream"
local fixed = require "tperf.compat.llm_analysis.fixed"

local llm_analysis = { text = summary.text, json = summary.json }

local LARGEST = 1 << 40
local function count(default, least) return check.integer { min = least or 1, max = LARGEST, default = default } end
local function maybe(least) return check.integer { min = least or 0, max = LARGEST, optional = true } end
local function number(default) return check.number { min = 0, max = 1e18, default = default, optional = true } end
local function any_number() return check.number { min = -1e18, max = 1e18, optional = true } end
local function flag(default) return check.boolean { default = default } end
local function text() return check.string { optional = true, empty = true } end

-- Both questions' arguments; sizes in tokens, sequences or GPUs.
local function common(fields)
  local either = check.one_of(check.string { optional = true }, check.any {})
  fields.model, fields.gpu, fields.dtype = either, either, either
  fields.model_name, fields.gpu_name, fields.dtype_name = text(), text(), text()
  fields.ds_zero, fields.tp_size, fields.pp_size, fields.sp_size = check.integer { min = 0, max = 3, default = 0 },
    count(1), count(1), maybe()
  fields.seq_len = maybe(1)
  fields.achieved_tflops, fields.flops_efficiency = any_number(), any_number()
  fields.hbm_memory_efficiency = any_number()
  fields.intra_node_memory_efficiency = check.number { above = 0, max = 1e6, default = 1 }
  fields.inter_node_memory_efficiency = check.number { above = 0, max = 1e6, default = 1 }
  fields.log_level = check.choice { { "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL" }, optional = true }
  fields.output_dir, fields.output_file_prefix, fields.output_file_suffix = text(), text(), text()
  fields.fixed = flag(false)
  return fields
end

local train_fields = common {
  batch_size_per_gpu = maybe(), gradient_accumulation_steps = maybe(), global_batch_size = maybe(),
  total_num_tokens = number(), activation_recomputation = check.integer { min = 0, max = 4, default = 0 },
  fwd_prefetch = flag(true), bwd_prefetch = flag(true), dp_size = maybe(), ep_size = count(1), total_num_gpus = maybe(),
  layernorm_dtype_bytes = number(4), master_weights_dtype_bytes = number(4), other_op_bytes = number(),
  flash_attn = flag(true), softmax_dropout = flag(false), mlp_activation_quant_bits = maybe(),
  mlp_1linear_quant_bits = maybe(), mlp_gelu_input_quant_bits = maybe(), mlp_2linear_quant_bits = maybe(),
  mlp_recompute_gelu = flag(false), num_gpus_per_node = count(8),
}

local infer_fields = common {
  batch_size_per_gpu = count(1), dp_size = count(1), num_tokens_to_generate = count(32), use_kv_cache = flag(true),
  layernorm_dtype_bytes = number(2), kv_cache_dtype_bytes = number(), achieved_memory_bandwidth_GBs = any_number(),
  cost_per_gpu_hour = number(),
}
infer_fields.seq_len = count(512)

local function answer(what, question, fields, request)
  what = "llm_analysis." .. what
  local args = check.record(what, request, fields)
  local result, m = question.summary(what, args, args.fixed and fixed or upstream)
  if args.output_dir then summary.write(m, result) end
  return result
end

--- Training: memory per GPU, batch sizes, latencies.
---@param request table  upstream's arguments; model, gpu and dtype may be names or upstream's configuration tables
---@return table summary 69 keys and `warnings`
function llm_analysis.train(request) return answer("train", train, train_fields, request) end

--- Inference: memory per GPU, prefill and decode latencies, tokens per second, cost.
---@param request table  upstream's arguments
---@return table summary 47 keys (50 with a cost) and `warnings`
function llm_analysis.infer(request) return answer("infer", infer, infer_fields, request) end

--- The names of the shipped configurations.
---@param kind "models"|"gpus"|"dtypes"
---@return string[]
function llm_analysis.names(kind)
  if not configs[kind] then
    check.fail("llm_analysis.names needs models, gpus or dtypes, got %s", check.show(kind))
  end
  local names = {}
  for name in pairs(configs[kind]) do names[#names + 1] = name end
  table.sort(names)
  return names
end

return llm_analysis
