--- train(): section 8, one function per subsection.
local check = require "tperf.base.check"
local setup = require "tperf.compat.llm_analysis.setup"
local memory = require "tperf.compat.llm_analysis.memory"
local latency = require "tperf.compat.llm_analysis.latency"
local python = require "tperf.compat.llm_analysis.python"
local given, warn, max = setup.given, setup.warn, math.max

local sized = require "tperf.core".resource.sized

local train = {}

local KEYS <const> = 96 -- of a summary, at most

local ZERO = { [0] = "NONE", "STAGE_1", "STAGE_2", "STAGE_3" }
local LARGEST_BATCH = 1 << 50 -- sequences; beyond, doubles miss some integers

-- 8.2: n_dp and n_r from the number of GPUs.
local function data_parallel(what, args, rules)
  local t, p, gpus, n_dp = args.tp_size, args.pp_size, given(args.total_num_gpus), given(args.dp_size)
  if t > args.num_gpus_per_node then
    check.fail("%s: tp_size must be <= %d(num_gpus_per_node), tensor parallelism requires high communication bandwidth "
      .. "to be efficient and is best kept within a single node where high bandwidth NVLink is available. (tp_size "
      .. "%d)", what, args.num_gpus_per_node, t)
  end
  if not gpus then return n_dp or 1, 1 end
  if not n_dp then
    if gpus % (t * p) ~= 0 then
      check.fail("%s: dp_size is not specified, assuming total_num_gpus = dp_size * tp_size * pp_size, total_num_gpus "
        .. "must be a multiple of tp_size * pp_size (%d is not one of %d)", what, gpus, t * p)
    end
    return gpus // (t * p), 1
  end
  return n_dp, rules.replicas(what, gpus, n_dp * t * p)
end

-- 2, 3, 8.4: everything independent of the batch.
local function static_memory(m)
  local D, Dm = memory.shards(m, 3)
  local attention, mlp, norms = memory.layer_weights(m, D, Dm)
  local u_attention, u_mlp, u_norms = memory.layer_weights(m, 1, 1)
  local embedding, embedding_unsharded, last_norm = memory.end_weights(m)
  local layer = u_attention + u_mlp + u_norms
  local mem = {
    attention = attention, mlp = mlp, norms = norms, embedding = embedding, embedding_unsharded = embedding_unsharded,
    unsharded_layer = layer, unsharded_attention = u_attention, unsharded_mlp = u_mlp, unsharded_norms = u_norms,
    weights = embedding + m.l * (attention + mlp + norms) + last_norm,
    optimizer = memory.optimizer(m), gradients = memory.gradients(m, 2),
  }
  mem.prefetch_forward, mem.prefetch_backward = m.rules.prefetch(m, embedding_unsharded, layer)
  mem.prefetch = max(mem.prefetch_forward, mem.prefetch_backward)
  mem.left = m.rules.memory_left(m, mem.weights, mem.optimizer, mem.gradients)
  return mem
end

-- The largest divisor of x up to limit: counts down from the limit or tries pairs of divisors, whichever is shorter.
local function largest_divisor(x, limit)
  if limit * limit <= x then
    for divisor = limit, 1, -1 do
      if x % divisor == 0 then return divisor end
    end
  end
  local best, i = 1, 1
  while i * i <= x do
    if x % i == 0 then
      if i <= limit then best = max(best, i) end
      if x // i <= limit then return max(best, x // i) end -- the first such partner is the largest
    end
    i = i + 1
  end
  return best
end

local EQUATION = "note that global_batch_size == batch_size_per_gpu * gradient_accumulation_steps * dp_size"

-- 8.6: b, G and B from those that are given.
local function solve_batch(m, b_max)
  local what, args, ranks = m.what, m.args, m.n_dp * m.n_r
  local B, b, G = given(args.global_batch_size), given(args.batch_size_per_gpu), args.gradient_accumulation_steps
  if not B then
    if b and b > b_max then
      m.rules.batch_above_maximum(m, "batch_size_per_gpu %d must be <= max_batch_size_per_gpu %d, %s", b, b_max,
        EQUATION)
    end
    b, G = b or max(b_max, m.rules.least_batch), G or 1
    if math.abs((b + 0.0) * G * ranks) > LARGEST_BATCH then
      check.fail("%s: the global batch size, batch_size_per_gpu %d * gradient_accumulation_steps %d * %d data-parallel "
        .. "ranks, is too large", what, b, G, ranks)
    end
    return b, G, b * G * ranks
  end
  G = given(G)
  if b and G then
    if B ~= (b + 0.0) * G * ranks then
      check.fail("%s: %s (%d is not %d * %d * %d)", what, EQUATION, B, b, G, ranks)
    end
  elseif b then
    G = B // (b * ranks)
    if B % (b * ranks) ~= 0 or G < 1 then
      check.fail("%s: no valid gradient_accumulation_steps, %s (global_batch_size %d is not a multiple of %d * %d)",
        what, EQUATION, B, b, ranks)
    end
  elseif G then
    b = B // (G * ranks)
    if B % (G * ranks) ~= 0 or b < 1 then
      check.fail("%s: no valid batch_size_per_gpu, %s (global_batch_size %d is not a multiple of %d * %d)",
        what, EQUATION, B, G, ranks)
    end
  else
    if B % ranks ~= 0 then
      check.fail("%s: global_batch_size must be divisible by dp_size, %s (%d is not a multiple of %d)",
        what, EQUATION, B, ranks)
    end
    local x = B // ranks
    if b_max < 1 then
      check.fail("%s: no batch_size_per_gpu solves global_batch_size %d: not even one sequence fits in GPU memory "
        .. "(max_batch_size_per_gpu %d)", what, B, b_max)
    end
    b = b_max >= x and x or largest_divisor(x, b_max)
    G = x // b
  end
  return b, G, B
end

-- G before b is known: as given, derived from B and b, or else enough to fill the pipeline.
local function expected_micro_batches(m)
  local args = m.args
  local B, b, G = given(args.global_batch_size), given(args.batch_size_per_gpu), args.gradient_accumulation_steps
  if not B then return G or 1 end
  return given(G) or b and B // (b * m.n_dp * m.n_r) or m.p
end

local function put_memory(summary, m, mem, b)
  summary.weight_memory_per_gpu, summary.weight_memory_embedding_per_gpu = mem.weights, mem.embedding
  summary.weight_memory_attn_per_gpu, summary.weight_memory_mlp_per_gpu = m.l * mem.attention, m.l * mem.mlp
  summary.weight_memory_layernorm_per_gpu = m.l * mem.norms
  summary.unsharded_weight_memory_embedding = mem.embedding_unsharded
  summary.unsharded_weight_memory_per_layer = mem.unsharded_layer
  summary.unsharded_weight_memory_attn_per_layer = mem.unsharded_attention
  summary.unsharded_weight_memory_mlp_per_layer = mem.unsharded_mlp
  summary.unshared_weight_memory_layernorm = mem.unsharded_norms
  summary.gradient_memory_per_gpu, summary.optimizer_state_memory_per_gpu = mem.gradients, mem.optimizer
  local static = mem.optimizer + mem.weights
  summary["(weight+op_state)_memory_per_gpu"] = static
  summary.estimated_fwd_prefetch_memory_per_gpu = mem.prefetch_forward
  summary.estimated_bwd_prefetch_memory_per_gpu = mem.prefetch_backward
  local s, total, attention, mlp, norms = m.s, m.rules.chosen_activations(m, b, m.s, mem.layers_in_flight)
  local loss = memory.logits(m, b, s)
  summary.loss_bwd_memory = loss
  summary.activation_memory_batch_size_1, summary.activation_memory_per_gpu = mem.activation_1, total
  summary.activation_memory_attn_per_gpu, summary.activation_memory_mlp_per_gpu = attention, mlp
  summary.activation_memory_layernorm_per_gpu = norms
  summary.activation_memory_input_embedding_per_gpu = memory.input(m, b, s)
  summary.activation_memory_output_embedding_per_gpu = loss
  summary.activation_memory_embedding_output_per_gpu = loss
  summary["(weight+op_state+act)_memory_per_gpu"] = static + total
  local all = mem.weights + mem.gradients + mem.optimizer
  summary["(weight+op_state+grad)_memory_per_gpu"] = all
  summary["(weight+op_state+grad+act)_memory_per_gpu"] = all + total
  summary.memory_left_per_gpu = mem.left - total
  summary.estimated_peak_memory_per_gpu = m.rules.peak_memory(mem, total, loss)
  m.rules.warn_activations(m, mem, b, total, loss, summary.max_batch_size_per_gpu)
end

-- Warns if the all-gather of sharded weights cannot hide behind the layer's compute.
local function gather_warning(m, parts)
  if m.Z >= 2 and parts.dp > parts.compute then
    warn(m, "allgather communication time to unshard model weight %s ms is larger than compute %s ms, thus cannot be "
      .. "fully overlapped.", python.repr(python.round(parts.dp * 1e3, 3)),
      python.repr(python.round(parts.compute * 1e3, 3)))
  end
end

-- 8.8: seconds, and the duration of the whole training if the number of tokens is known.
local function put_times(summary, m, mem, b, G, B)
  local rules, s = m.rules, m.s
  local forward_flops, recompute_flops = latency.forward_flops(m, b, s), latency.recompute_flops(m, b, s)
  local flops = forward_flops + 2 * forward_flops + recompute_flops
  if m.R == 1 and rules.recompute_is_costly(recompute_flops, forward_flops) then
    warn(m, "num_flops_recompute (%s) is too large to ignore",
      python.repr(math.tointeger(recompute_flops) or recompute_flops))
  end
  local forward, parts = latency.forward(m, b, s, true)
  gather_warning(m, parts)
  local micro_batch = rules.micro_batch_time(m, b, s, flops, forward, parts)
  local update = rules.update_time(m, mem.weights, mem.gradients, mem.optimizer)
  local iteration = rules.iteration_time(m, b, mem, G, micro_batch, update, parts)
  local by_flops = flops / (m.t * m.p * m.tflops * 1e12) * G -- rounded in upstream's order
  summary.num_flops_total_per_micro_batch = flops
  summary.latency_per_micro_batch, summary.latency_fwd = micro_batch, forward
  latency.put_breakdown(m, summary, "", parts)
  summary.latency_per_iter, summary.latency_per_iter_using_flops = iteration, by_flops
  summary.device_tokens_per_sec = python.round(rules.tokens_per_second(m, b, B, s, iteration), 2)
  local tokens = m.args.total_num_tokens
  if not tokens then return end
  if B == 0 then check.fail("%s: division by zero: total_num_tokens needs a global batch size above 0", m.what) end
  local steps = setup.trunc(m, tokens / (B * s), "the number of iterations")
  summary.total_training_latency, summary.total_training_latency_using_flops = iteration * steps, by_flops * steps
  summary.gpu_hours = iteration * steps * summary.total_num_gpus / 3600
end

-- Section 10: warnings about the number of tokens.
local function token_warnings(m, summary)
  local tokens = m.args.total_num_tokens
  if not tokens then return end
  if tokens < 20 * m.P_tot then
    warn(m, "according to the Chinchilla paper (https://arxiv.org/abs/2203.15556), to train a compute-optimal LLM,  we "
      .. "need around 20 text tokens per parameter, the given total_num_tokens / total_num_tokens = %s ",
      python.repr(python.round(tokens / m.P_tot, 3)))
  end
  if m.E > 1 then return end
  if tokens == 0 then check.fail("%s: division by zero: total_num_tokens is 0", m.what) end
  local key = m.rules.checked_latency
  local estimate = (m.R == 4 and 8 or 6) * m.P_tot * tokens / (summary.total_num_gpus * m.tflops * 1e12)
  if math.abs(summary[key] - estimate) / estimate >= 0.05 then
    warn(m, "%s (%s) is too different from estimated_total_training_latency (%s)", key, python.repr(summary[key]),
      python.repr(estimate))
  end
end

local function put_setup(summary, m)
  local args = m.args
  summary.dp_size, summary.rdp_size, summary.tp_size, summary.pp_size = m.n_dp, m.n_r, m.t, m.p
  summary.sp_size, summary.ep_size, summary.ds_zero = m.sp, m.ep, ZERO[m.Z]
  summary.total_num_gpus = m.n_dp * m.n_r * m.t * m.p
  summary.seq_len, summary.total_num_tokens = m.s, args.total_num_tokens
  setup.put_parameters(m, summary)
  summary.activation_recomputation, summary.layernorm_dtype_bytes = m.rules.recomputation_names[m.R], m.beta_n
  summary.mlp_activation_quant_bits = args.mlp_activation_quant_bits
  summary.mlp_recompute_gelu, summary.mlp_gated_linear_units = args.mlp_recompute_gelu, m.gated
  summary.achieved_flops, summary.flops_efficiency, summary.hbm_memory_efficiency = m.tflops, m.e_f, m.e_h
end

--- The keys of 8.9, of every revision, and `warnings`.
---@param what string   prefix of messages
---@param args table    checked arguments
---@param rules table   upstream.lua or fixed.lua
---@return table summary, table setup
function train.summary(what, args, rules)
  args.dp_size, args.rdp_size = data_parallel(what, args, rules)
  local m = setup.new(what, args, rules)
  setup.warn_flops_efficiency(m)
  m.s = rules.sequence_length(m, args.seq_len)
  m.gated = m.c == 3 or args.mlp_gated_linear_units or false
  local summary, s = sized(KEYS), m.s
  summary.warnings = m.warnings
  local mem, lambda_1 = static_memory(m), memory.logits(m, 1, s)
  mem.activation_1 = memory.activations(m, 1, s, rules.layers_in_flight(m, expected_micro_batches(m)), m.gated)
  rules.warn_memory(m, mem, lambda_1)
  local b_max = rules.largest_batch(m, mem, lambda_1)
  local b, G, B = solve_batch(m, b_max)
  rules.accept_batch(m, mem, b, b_max, lambda_1)
  mem.layers_in_flight = rules.layers_in_flight(m, G)
  summary.batch_size_per_gpu, summary.max_batch_size_per_gpu = b, b_max
  summary.gradient_accumulation_steps, summary.global_batch_size = G, B
  put_setup(summary, m)
  put_memory(summary, m, mem, b)
  put_times(summary, m, mem, b, G, B)
  token_warnings(m, summary)
  return summary, m
end

return train
