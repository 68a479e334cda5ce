--- infer(): section 9.
local check = require "tperf.base.check"
local setup = require "tperf.compat.llm_analysis.setup"
local memory = require "tperf.compat.llm_analysis.memory"
local latency = require "tperf.compat.llm_analysis.latency"
local python = require "tperf.compat.llm_analysis.python"
local given, warn, max = setup.given, setup.warn, math.max

local sized = require "tperf.core".resource.sized

local infer = {}

local KEYS <const> = 64 -- of a summary, at most

local function gigabytes(bytes) return python.number(bytes) .. "B" end

local function check_length(m, s)
  if m.s_max and s > m.s_max then
    check.fail("%s: seq_len must be less than model max_seq_len (%d) (seq_len %d)", m.what, m.s_max, s)
  end
end

-- 9.2: weights, and the memory left.
local function put_weights(summary, m)
  local attention, mlp, norms = memory.layer_weights(m, m.rules.inference_shards(m))
  local embedding, _, last_norm = memory.end_weights(m)
  local weights = embedding + m.rules.served_layers(m) * (attention + mlp + norms) + last_norm
  if m.W <= weights then
    check.fail("%s: model is too large (requiring %s) to fit in total GPU memory", m.what, gigabytes(weights))
  end
  summary.weight_memory_per_gpu, summary.weight_memory_embedding_per_gpu = weights, embedding
  return m.W - weights
end

-- 9.2: A_pre.
local function prefill_activation(m, b, s)
  return max(memory.layer_inference(m, b, s), memory.logits(m, b, s))
end

local function put_prefill_memory(summary, m, b, s, left, cache)
  local activation = prefill_activation(m, b, s)
  cache = m.rules.prefill_cache(cache)
  local largest = setup.trunc(m, left / (prefill_activation(m, 1, s) + cache / b), "prefill_max_batch_size_per_gpu")
  if left <= activation + cache then
    check.fail("%s: prefill activation memory is too large with batch_size_per_gpu = %d to fit in GPU memory(requiring "
      .. "%s), memory_left after fitting in model weights: %s, prefill_max_batch_size_per_gpu: %d", m.what, b,
      gigabytes(activation + cache), gigabytes(left), largest)
  end
  summary.prefill_activation_memory_per_gpu, summary.prefill_max_batch_size_per_gpu = activation, largest
end

-- The batch size from which a cache pays off: below it, recomputing keys and values is cheaper than reading them.
local function pivot_warning(m, b, s, n)
  local pivot = m.Phi * m.beta_a / (2 * m.H)
  if b * (s + n) < pivot then
    warn(m, "kv_cache is only useful when batch_size * (seq+num_tokens_to_generate) (%d) is larger than (%s), which is "
      .. "the pivot point", b * (s + n), python.repr(python.round(pivot, 3)))
  end
end

local function put_decode_memory(summary, m, b, s, n, left, cache)
  if m.args.use_kv_cache then
    local activation = prefill_activation(m, b, 1)
    local largest = setup.trunc(m, left / ((activation + cache) / b), "decode_max_batch_size_per_gpu")
    if left <= cache + activation then
      check.fail("%s: kv_cache and activation memory with batch_size_per_gpu = %d is too large to fit in GPU memory "
        .. "(requiring %s), memory_left after fitting in model weights: %s, decode_max_batch_size_per_gpu: %d",
        m.what, b, gigabytes(cache + activation), gigabytes(left), largest)
    end
    pivot_warning(m, b, s, n)
    summary.decode_activation_memory_per_gpu, summary.decode_max_batch_size_per_gpu = activation, largest
  else
    local largest = setup.trunc(m, left / m.rules.uncached_limit(m, s, n), "decode_max_batch_size_per_gpu")
    if b > largest then
      check.fail("%s: batch_size_per_gpu %d is too large to fit in GPU memory, decode_max_batch_size_per_gpu: %d",
        m.what, b, largest)
    end
    summary.decode_activation_memory_per_gpu = m.rules.uncached_activation(m, b, s, n)
    summary.decode_max_batch_size_per_gpu = largest
  end
end

-- 9.3: tokens per second, and their cost.
local function put_rates(summary, m, b, s, n, prefill, decode)
  local total = prefill + n * decode
  summary.total_decode_latency, summary.total_latency = n * decode, total
  summary.total_per_token_latency = total / n
  summary.prefill_tokens_per_sec, summary.decode_tokens_per_sec = b * s / prefill, b / decode
  summary.total_tokens_per_sec = b / summary.total_per_token_latency
  local price = given(m.args.cost_per_gpu_hour)
  if not price then return end
  for _, phase in ipairs { "prefill", "decode", "total" } do
    summary[phase .. "_cost_per_1k_tokens"] = 1000 * price * m.p * m.t / 3600 / summary[phase .. "_tokens_per_sec"]
  end
end

local function put_setup(summary, m, b, s, n)
  summary.batch_size_per_gpu, summary.seq_len, summary.num_tokens_to_generate = b, s, n
  summary.tp_size, summary.ep_size, summary.pp_size = m.t, m.ep, m.p
  setup.put_parameters(m, summary)
  summary.flops_efficiency, summary.hbm_memory_efficiency = m.e_f, m.e_h
  summary.layernorm_dtype_bytes, summary.use_kv_cache = m.beta_n, m.args.use_kv_cache
end

--- The keys of 9.4, of every revision, and `warnings`.
---@param what string   prefix of messages
---@param args table    checked arguments
---@param rules table   upstream.lua or fixed.lua
---@return table summary, table setup
function infer.summary(what, args, rules)
  local m = setup.new(what, args, rules)
  setup.warn_flops_efficiency(m)
  if m.e_h > 0.8 then
    warn(m, "Note that benchmarks show closer to 0.6-0.7 hbm_memory_efficiency in inference workloads")
  end
  local b, s, n = args.batch_size_per_gpu, args.seq_len, args.num_tokens_to_generate
  check_length(m, s)
  local summary = sized(KEYS)
  summary.warnings = m.warnings
  put_setup(summary, m, b, s, n)
  local left = put_weights(summary, m)
  local cache = args.use_kv_cache and m.l * memory.kv_cache(m, b, s + n) or 0
  put_prefill_memory(summary, m, b, s, left, cache)
  summary.prefill_num_flops_fwd_total = latency.forward_flops(m, b, s)
  local prefill, prefill_parts = latency.forward(m, b, s, false)
  put_decode_memory(summary, m, b, s, n, left, cache)
  local step, past = rules.decode_step(m, s, n, args.use_kv_cache)
  summary.decode_num_flops_fwd_total = latency.forward_flops(m, b, step, past)
  local decode, decode_parts = latency.forward(m, b, step, false, past)
  local kv_time = args.use_kv_cache and rules.kv_cache_time(m, b, past, cache) or 0
  summary.kv_cache_memory_per_gpu, summary.kv_cache_latency = cache, kv_time
  prefill = rules.pipeline_latency(m, b, s, prefill, prefill_parts)
  decode = rules.pipeline_latency(m, b, step, rules.decode_time(decode, kv_time), decode_parts)
  summary.prefill_latency, summary.decode_latency = prefill, decode
  latency.put_breakdown(m, summary, "prefill_", prefill_parts)
  latency.put_breakdown(m, summary, "decode_", decode_parts)
  put_rates(summary, m, b, s, n, prefill, decode)
  return summary, m
end

return infer
