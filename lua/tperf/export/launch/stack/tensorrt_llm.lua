--- Writes a serving configuration as TensorRT-LLM's YAML for trtllm-serve.
local engines = require "tperf.export.launch.stack.engines"
local format = require "tperf.export.launch.format"

return function(n, w)
  if n.shared and n.tp > 1 then w.cannot("ep", n.ep, "repeats attention over all of tp, and cannot cut it as well") end
  engines.alone(n, w)
  local inside = n.dp > 1
  w.put("tensor_parallel_size", n.tp * n.dp)
  w.put("pipeline_parallel_size", n.pp)
  if inside then
    w.put("moe_expert_parallel_size", n.ep)
    w.put("enable_attention_dp", true)
    w.note "max_batch_size and max_num_tokens are of each rank of attention"
  elseif n.ep > 1 then
    w.put("moe_expert_parallel_size", n.ep)
  end
  if (n.front_ends or 1) > 1 then w.cannot("front_ends", n.front_ends, "has one front end") end
  if n.max_batch then w.put("max_batch_size", n.max_batch) end
  if n.max_tokens then w.put("max_num_tokens", n.max_tokens) end
  if n.seq_max then w.put("max_seq_len", n.seq_max) end
  if n.kv_dtype then w.put("kv_cache_config.dtype", n.kv_dtype) end
  if n.state_dtype then w.put("kv_cache_config.mamba_ssm_cache_dtype", n.state_dtype) end
  if not n.prefix_caching then w.put("kv_cache_config.enable_block_reuse", false) end
  w.put("kv_cache_config.free_gpu_memory_fraction", n.memory_utilization or 0.9)
  w.put("enable_chunked_prefill", n.chunked_prefill == true)
  engines.weights(n, w)
  w.note("trtllm-serve %s --extra_llm_api_options FILE, FILE being this one", engines.model(n, w))
  return format.notes(w.notes) .. format.yaml(w.list)
end
