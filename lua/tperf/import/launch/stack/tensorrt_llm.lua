--- TensorRT-LLM: LlmArgs in YAML, and trtllm-serve's options, which the YAML overrides.
local common = require "tperf.import.launch.stack.common"

local trtllm = {}

-- Kernels of experts, as tperf.serve names them.
local EXPERTS <const> = { TRTLLM = "fused", CUTLASS = "grouped", DEEPGEMM = "grouped", TRITON = "portable" }

local function experts(s, context, r)
  local ep, etp = s:concept "ep", s:set "moe_tensor_parallel_size"
  local cluster = s:set "moe_cluster_parallel_size" or 1
  ep = s:set "moe_expert_parallel_size" or s:set "--ep_size" or ep
  if ep == -1 then ep = nil end
  local tp = common.divided(context, r.tp, cluster, "moe_cluster_parallel_size in tp")
  if not ep and not etp then
    r.ep, r.etp = 1, tp
  else
    r.ep = ep or common.divided(context, tp, etp, "moe_tensor_parallel_size in tp")
    r.etp = etp or common.divided(context, tp, ep, "moe_expert_parallel_size in tp")
  end
  if r.ep * r.etp ~= tp then context.fail("moe tp %d x moe ep %d is not tp %d", r.etp, r.ep, tp) end
end

-- An option's value from the YAML, else from the command line, else its default.
local function either(s, yaml, flag)
  local value = s:set(yaml)
  if value == nil then value = s:set(flag) end
  if value == nil then return s:get(yaml) end
  return value
end

function trtllm.read(s, context)
  local r = { tp = either(s, "tensor_parallel_size", "--tp_size"),
    pp = either(s, "pipeline_parallel_size", "--pp_size"),
    cp = s:get "context_parallel_size", dp = 1 }
  for _, name in ipairs { "tp", "pp", "cp" } do common.size(context, r[name], name) end
  r.gpus = r.tp * r.pp * r.cp
  local inside = s:get "enable_attention_dp"
  r.attention_tp, r.attention_dp = inside and 1 or r.tp, inside and r.tp or 1
  experts(s, context, r)
  r.max_batch = either(s, "max_batch_size", "--max_batch_size")
  r.max_tokens = either(s, "max_num_tokens", "--max_num_tokens")
  r.seq_max, r.kv_dtype = either(s, "max_seq_len", "--max_seq_len"), s:get "kv_cache_config.dtype"
  r.state_dtype = s:get "kv_cache_config.mamba_ssm_cache_dtype"
  r.kv_free_fraction = s:set "kv_cache_config.free_gpu_memory_fraction" or s:set "kv_cache_free_gpu_memory_fraction"
    or s:set "--kv_cache_free_gpu_memory_fraction" or 0.9
  r.prefix_cache = s:get "kv_cache_config.enable_block_reuse"
  r.chunked_prefill = s:concept "scheduler.chunked_prefill" == true
  local tokens, block = s:set "kv_cache_config.max_tokens", s:set "kv_cache_config.tokens_per_block"
  local largest, batches = s:set "cuda_graph_config.max_batch_size", s:set "cuda_graph_config.batch_sizes"
  r.engine = { block_size = block, num_blocks = tokens and tokens // (block or 16),
    async_scheduling = not s:get "disable_overlap_scheduler",
    batch_wait_timeout_iters = s:set "batch_wait_timeout_iters",
    batch_wait_max_tokens_ratio = s:set "batch_wait_max_tokens_ratio",
    max_cudagraph_capture_size = context.null("cuda_graph_config") and 0 or largest ~= 0 and largest
      or common.largest(batches) }
  s:set "cuda_graph_config"
  s:set "cuda_graph_config.enable_padding" -- as tperf.serve assumes
  r.experts = EXPERTS[s:set "moe_config.backend"]
  local kind = s:set "speculative_config.decoding_type"
  r.speculative = kind and { method = kind, draft_tokens = s:set "speculative_config.max_draft_len"
    or s:get "speculative_config.num_nextn_predict_layers" } or nil
  r.model_name = s.words[1]
  return r
end

return trtllm
