--- Writes a serving configuration as an SGLang command.
local engines = require "tperf.export.launch.stack.engines"

return function(n, w)
  engines.alone(n, w)
  if n.ep > 1 and n.ep * n.etp ~= n.tp * n.dp then
    w.cannot("ep", n.ep, "cuts each expert over the GPUs that --ep-size leaves of --tp-size")
  end
  local inside = n.dp > 1
  w.put("--model-path", engines.model(n, w))
  w.put("--tp-size", n.tp * n.dp)
  w.put("--pp-size", n.pp)
  w.put("--dp-size", n.dp)
  if inside then
    w.put("--enable-dp-attention", true)
    w.note "attention's replicas lie inside --tp-size"
  end
  if n.ep > 1 then w.put("--ep-size", n.ep) end
  if n.max_batch then w.put("--max-running-requests", n.max_batch * n.dp) end
  if n.max_tokens and n.chunked_prefill ~= false then w.put("--chunked-prefill-size", n.max_tokens * n.dp) end
  if n.chunked_prefill == false then w.put("--chunked-prefill-size", -1) end
  if n.front_ends then w.put("--tokenizer-worker-num", n.front_ends) end
  if n.mixed_chunk then w.put("--enable-mixed-chunk", true) end
  if n.pooled == false then w.put("--disable-hybrid-swa-memory", true) end
  if n.ratio then w.put("--swa-full-tokens-ratio", n.ratio) end
  if n.memory_utilization then w.put("--mem-fraction-static", n.memory_utilization) end
  if not n.prefix_caching then w.put("--disable-radix-cache", true) end
  engines.weights(n, w, "--quantization")
  if n.seq_max then w.put("--context-length", n.seq_max) end
  if n.kv_dtype then w.put("--kv-cache-dtype", n.kv_dtype) end
  if n.state_dtype then w.put("--mamba-ssm-dtype", n.state_dtype) end
  w.note "--max-running-requests and --chunked-prefill-size are of the whole server"
  return engines.script(w, "python3 -m sglang.launch_server")
end
