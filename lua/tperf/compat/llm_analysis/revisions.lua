--- The revisions of llm-analysis: where 0571436 (the documented one, tag v0.2.2) differs from d841e40.
-- Every difference is a field in both tables below, or one of upstream.lua for d841e40 and of `older` here. The
-- corrections in fixed.lua are for d841e40. m, b and s are as in upstream.lua.
local check = require "tperf.base.check"
local setup = require "tperf.compat.llm_analysis.setup"
local memory = require "tperf.compat.llm_analysis.memory"
local python = require "tperf.compat.llm_analysis.python"
local upstream = require "tperf.compat.llm_analysis.upstream"
local fixed = require "tperf.compat.llm_analysis.fixed"
local warn, max = setup.warn, math.max

local newer, older = { revision = "d841e40" }, { revision = "0571436" }

-- Arguments and configurations ------------------------------------------------------------------------------
newer.models_say_gated, older.models_say_gated = true, false   -- else train's mlp_gated_linear_units does
newer.whole_ratio, older.whole_ratio = false, true             -- of ffn_embed_dim alone to hidden_dim

function newer.shipped_model(model) return model end

function older.shipped_model(model)                            -- one is gated and narrower in d841e40
  local copy = {}
  for key, value in pairs(model) do copy[key] = value end
  copy.mlp_gated_linear_units, copy.ffn_embed_dim = nil, 4 * model.hidden_dim
  return copy
end

-- activation_recomputation as m.R, with d841e40's numbers, and the names of the levels.
newer.recomputation_levels, older.recomputation_levels = { [0] = 0, 1, 2, 3, 4 }, { [0] = 0, 1, 4 }
newer.recomputation_names = { [0] = "NONE", "ATTN_COMPUTE", "ATTN", "NORM_ATTN_NORM", "FULL" }
older.recomputation_names = { [0] = "NONE", "SELECTIVE", [4] = "FULL" }

--- How often `ranks` GPUs, dp_size * tp_size * pp_size, fit into all GPUs.
function newer.replicas(what, gpus, ranks)
  if gpus % ranks ~= 0 then
    check.fail("%s: total_num_gpus %d must be divisible by dp_size * tp_size * pp_size which is %d", what, gpus, ranks)
  end
  return gpus // ranks
end

function older.replicas(what, gpus, ranks)
  if gpus ~= ranks then
    check.fail("%s: total_num_gpus must be equal to dp_size * tp_size * pp_size (%d is not %d)", what, gpus, ranks)
  end
  return 1
end

-- Parameters and weights ------------------------------------------------------------------------------------
function newer.layer_norm_split() return 1 end                 -- in weights and optimizer states
function older.layer_norm_split(m) return m.t end

function older.mlp_params(m) return 2 * m.h * m.f * m.E end

function newer.served_layers(m) return m.l end                 -- whose weights an inference GPU holds
function older.served_layers(m) return m.L end

function older.inference_shards(m) return memory.shards(m, 3) end

-- Activations -----------------------------------------------------------------------------------------------
newer.checkpoint_in_attention, older.checkpoint_in_attention = false, true  -- under full recomputation
newer.checkpoint_among_norms, older.checkpoint_among_norms = true, false

function newer.inference_attention_split(m) return m.t end
function older.inference_attention_split(m) return m.sp end

function newer.norm_is_kept() return true end
function older.norm_is_kept(m) return m.R ~= 4 end

function older.mlp_kept(m, b, s, beta_1, beta_g, beta_2, recompute_gelu, gated)
  local tokens = s * b * m.h * (m.E / m.ep) * m.k
  local wide = beta_g + beta_2                                 -- of a gated MLP too
  if recompute_gelu then wide = gated and beta_g / 3 or beta_g end
  return beta_1 * tokens / m.sp + wide * m.r * tokens / m.t
end

function newer.end_activations(m, b, s) return memory.input(m, b, s) + memory.logits(m, b, s) + memory.norm(m, b, s) end
function older.end_activations(m, b, s) return memory.logits(m, b, s) + memory.norm(m, b, s) end

--- The activations of the batch that training uses.
function newer.chosen_activations(m, b, s, layers) return memory.activations(m, b, s, layers, m.gated) end

function older.chosen_activations(m, b, s, layers)             -- one sequence: the ends twice; more: as not gated
  local total, attention, mlp, norms = memory.activations(m, b, s, layers, b == 1 and m.gated)
  return b == 1 and total + older.end_activations(m, b, s) or total, attention, mlp, norms
end

-- FLOPs and latencies ---------------------------------------------------------------------------------------
function older.mlp_flops(m, b, s) return 16 * b * s * m.h ^ 2 end -- whatever its width and experts
function older.mlp_weight_traffic(m) return m.P_mlp * m.beta_w / m.t end
function older.all_to_all_time() return 0 end
function older.norm_time(m, b, s) return s * b * m.h / m.sp * 4 / m.H end

function older.all_reduce_time(m, bytes)                       -- intra_node_memory_efficiency has no part in it
  return max(bytes / (m.gpu.intra_node_bandwidth_in_GB_per_sec * 1e9), m.tau)
end

function older.gather_time() return -math.huge end             -- of no layer: the longer of it and compute is compute
function older.output_time(m, b, s) return 2 * s * b * m.V * m.h / m.t / m.Phi end

-- Training --------------------------------------------------------------------------------------------------
function older.prefetch() return 0, 0 end
function older.memory_left(m, weights, optimizer, gradients) return m.W - weights - optimizer - gradients end

function newer.warn_memory(m, mem, lambda_1)
  local left = mem.left
  if m.Z == 0 then warn(m, "DeepSpeed ZeRO is disabled, consider using ZeRO to reduce memory usage") end
  if left < 0 then warn(m, "model weight/optimizer state memory usage is too large to fit in GPU memory") end
  if left - max(mem.prefetch, m.rules.gradients_to_come(mem.gradients)) < 0 then
    warn(m, "model gradient or bwd prefetch memory usage is too large to fit in GPU memory")
  end
  if left - lambda_1 < 0 then warn(m, "loss_bwd_memory is too large to fit in GPU memory") end
  if left - max(mem.prefetch, lambda_1) < mem.activation_1 then
    warn(m, "memory_left %s < activation_memory_batch_size_1 %s", python.number(left), python.number(mem.activation_1))
  end
end

-- No sign handling: a negative number is below every unit.
function newer.number(x, digits, base) return python.number(x, digits, base) end
function older.number(x, digits, base) return x and x < 0 and python.repr(x) or python.number(x, digits, base) end

function older.warn_memory(m, mem)
  if m.Z == 0 then warn(m, "DeepSpeed ZeRO is disabled, consider using ZeRO to reduce memory usage") end
  if mem.left < 0 then
    warn(m, "model weight/optimizer stage/gradient is too large (requiring %sB / %sB / %sB) to fit in total GPU memory",
      older.number(mem.weights), older.number(mem.optimizer), older.number(mem.gradients))
  end
  if mem.left < mem.activation_1 then
    warn(m, "memory_left %s < activation_memory_batch_size_1 %s", older.number(mem.left),
      older.number(mem.activation_1))
  end
end

local LARGEST_BATCH = 1 << 50 -- sequences; beyond, doubles miss some integers

local function in_range(m, b)
  if math.abs(b) > LARGEST_BATCH then check.fail("%s: max_batch_size_per_gpu is out of range (%g)", m.what, b) end
  return math.floor(b)
end

-- 8.5: the largest b with left >= max(prefetch, b lambda) + b A(1); the closed form, corrected for rounding.
function newer.largest_batch(m, mem, lambda_1)
  local left, a = mem.left, mem.activation_1
  local b = in_range(m, math.min((left - mem.prefetch) / a, left / (a + lambda_1)))
  for candidate = b + 1, b, -1 do
    if left >= max(mem.prefetch, candidate * lambda_1) + candidate * a then return candidate end
  end
  return b - 1
end

function older.largest_batch(m, mem)                           -- Python's //, which rounds the exact quotient down
  local left, a = mem.left, mem.activation_1
  return in_range(m, (left - left % a) / a + 0.5)
end

newer.batch_above_maximum = warn
function older.batch_above_maximum(m, format, ...) check.fail("%s: " .. format, m.what, ...) end

function newer.warn_activations(m, mem, b, total, loss, b_max)
  if mem.left >= total + max(mem.prefetch, loss) then return end
  warn(m, "activation_memory_per_gpu memory or loss_bwd_memory is too large with batch_size_per_gpu = %d to fit in "
    .. "GPU memory (requiring activation_memory_per_gpu=%sB, loss_bwd_memory=%sBmemory_left after fitting in model "
    .. "weights, gradients, and optimizer states = %sB, max_batch_size_per_gpu = %d)", b, python.number(total),
    python.number(loss), python.number(mem.left), b_max)
end

function older.warn_activations(m, mem, b, total, _, b_max)
  if mem.left >= total then return end
  warn(m, "activation memory is too large with batch_size_per_gpu = %d to fit in GPU memory (requiring %sB, "
    .. "memory_left after fitting in model weights, gradients, and optimizer states = %sB, max_batch_size_per_gpu = "
    .. "%d)", b, older.number(total), older.number(mem.left), b_max)
end

function newer.micro_batch_time(m, b, s, _, forward, parts)
  local rules = m.rules
  return forward + rules.backward_time(m, b, s, forward, parts) + rules.recompute_time(m, b, s, parts)
end

function older.micro_batch_time(m, _, _, flops) return flops / (m.t * m.p * m.tflops * 1e12) end
function older.update_time() return 0 end

-- The key that a warning compares with the estimate from the number of parameters.
newer.checked_latency, older.checked_latency = "total_training_latency_using_flops", "total_training_latency"

setmetatable(upstream, { __index = newer })
setmetatable(fixed, { __index = newer })
setmetatable(older, { __index = upstream })

local revisions = {
  names = { newer.revision, older.revision }, -- the first is the default
  rules = { [newer.revision] = upstream, [older.revision] = older },
  differences = { newer, older },
}

--- The formulas of a checked request.
---@param args table
---@return table
function revisions.rules_of(args) return args.fixed and fixed or revisions.rules[args.revision] end

return revisions
