--- What engines add to the work of the GPU, as measured. Fields: those of tperf.serve's `host`, seconds.
return {
  -- From a request's arrival at the API server to its place in the scheduler's queue, and from a token to the client:
  -- HTTP, the tokenizer, messages between processes. What 57 stages of 31 open-loop runs of vLLM 0.15.1 have in their
  -- mean TTFT beyond the simulated one: nine pairs of a model and a GPU, 7 to 70 billion parameters, H100, A100, L40S,
  -- 5.4 to 12.7 ms, the median. TTFT of each pair with the median of the others: 4.9 % off in the median, 10 % at the
  -- 90th percentile (docs/accuracy.md).
  ["vllm-0.15"] = { front_end = 7.5e-3, step = 0, request = 0, token = 0 },
}
