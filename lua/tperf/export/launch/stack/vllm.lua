--- Writes a serving configuration as a vLLM command.
local engines = require "tperf.export.launch.stack.engines"

return function(n, w)
  if n.ep > 1 and n.etp > 1 then
    w.cannot("ep", n.ep, "keeps experts whole when it shares them, and does not cut them over tp")
  end
  engines.alone(n, w)
  w.put("--tensor-parallel-size", n.tp)
  w.put("--pipeline-parallel-size", n.pp)
  w.put("--data-parallel-size", n.dp)
  if n.ep > 1 then w.put("--enable-expert-parallel", true) end
  if n.front_ends then w.put("--api-server-count", n.front_ends) end
  if n.max_batch then w.put("--max-num-seqs", n.max_batch) end
  if n.max_tokens then w.put("--max-num-batched-tokens", n.max_tokens) end
  if n.seq_max then w.put("--max-model-len", n.seq_max) end
  if n.kv_dtype then w.put("--kv-cache-dtype", n.kv_dtype) end
  if n.state_dtype then w.put("--mamba-ssm-cache-dtype", n.state_dtype) end
  if n.pooled == false then w.put("--disable-hybrid-kv-cache-manager", true) end
  engines.weights(n, w, "--quantization")
  if not n.prefix_caching then w.off "--enable-prefix-caching" end
  if n.chunked_prefill == false then w.off "--enable-chunked-prefill" end
  w.put("--gpu-memory-utilization", n.memory_utilization or 0.9)
  w.note "--max-num-seqs is of each of the data-parallel engines"
  return engines.script(w, "vllm serve " .. engines.model(n, w))
end
