--- Shared parts of blocks: norms, residual sums, an MLP's products.
local op = require "tperf.describe.op"
local eager = require "tperf.describe.arch.eager"
local recompute = require "tperf.describe.arch.recompute"

local parts = {}

local BYTES <const> = 2

-- Learned numbers per feature: weights, and the biases of a layernorm.
local function learned(m)
  if not m.norm_weights then return 0 end
  return m.norm == "layernorm" and m.biases.norm and 2 or 1
end

-- The kind of norm and its number of parameters over `width` features.
local function norm_fields(m, width)
  return { root_mean_square = m.norm == "rmsnorm", parameters = learned(m) * width }
end

--- A norm of the residual stream. width: default hidden; kept: another op keeps the same input.
function parts.norm(m, p, name, width, kept)
  local o = norm_fields(m, width or m.hidden)
  o.name, o.width, o.input_kept_elsewhere = name, width or m.hidden, kept
  return p:norm(o)
end

--- Marks ops as part of a module that may be recomputed (recompute.lua).
function parts.module(name, ops)
  for _, one in ipairs(ops) do one:belong(name) end
  return ops
end

--- A norm per head of queries or keys: `rows` heads x tokens of this GPU. Its few parameters are replicated; plain: it
--- has none.
function parts.head_norm(m, p, name, rows, width, plain)
  local o = norm_fields(m, width)
  if plain then o.parameters = 0 end
  o.name, o.tokens, o.width, o.dtype, o.parameter_grad = name, rows, width, p.dtype, p.features
  return eager.norm(p, op.norm(o), rows * width, o.root_mean_square)
end

--- A norm over this GPU's shard of all heads' queries or keys; over: the axis that holds the other shards.
function parts.wide_norm(m, p, name, rows, width, over)
  local o = norm_fields(m, width)
  o.name, o.tokens, o.width, o.dtype, o.statistics = name, rows, width, p.dtype, over
  o.grad_statistics = over and (m.norm == "rmsnorm" and 1 or 2) * rows or nil
  return op.norm(o)
end

--- The sum of the stream and a branch, after dropout of the branch in training. Serving engines, compilers and some
--- stacks fuse it into the next norm's kernel.
function parts.residual(m, p, name)
  local train = p.mode == "train"
  return op.residual {
    name = name, elements = p:outer(m.hidden), dropout = m.dropout and train, dtype = p.dtype,
    fused = not train or p.fused_pointwise,
  }
end

-- The number of norms of sublayer i of n: the first of a sublayer's norms precedes it, the others follow.
local function norms_of(p, i, n)
  local all = p.group.norms + (p.group.bare and 1 or 0)
  return all // n + (i <= all % n and 1 or 0)
end

--- The norm before sublayer i of n, if it has one. name: module that it belongs to, besides "layernorm".
function parts.opening(m, p, i, n, name)
  if norms_of(p, i, n) == 0 or i == 1 and p.group.bare then return {} end
  local norm = parts.norm(m, p, "norm"):belong "layernorm"
  return { name and norm:belong(name) or norm }
end

-- A factor for each feature of a sublayer's output, which the factor's gradient reads again.
local function scale(m, p)
  return op.elementwise {
    name = "scale", elements = p:outer(m.hidden), parameters = m.hidden, dtype = p.dtype, forward_flops = 1,
    backward_flops = 3, forward_bytes = 2 * BYTES, backward_bytes = 3 * BYTES, saved_bytes = BYTES,
    parameter_grad = p.sequence_parallel and p.features or nil,
  }
end

--- The norms after it, the factors of its output, and the residual sum.
function parts.closing(m, p, i, n)
  local ops = {}
  for k = 2, norms_of(p, i, n) do
    ops[#ops + 1] = parts.norm(m, p, k == 2 and "post-norm" or "post-norm-" .. k - 1)
  end
  if m.output_scale then ops[#ops + 1] = scale(m, p) end
  ops[#ops + 1] = parts.residual(m, p, "residual")
  return ops
end

--- A sublayer: norm, the ops `inside`, further norms, residual sum.
---@param i integer  index of the sublayer in the layer's n
---@param name string?  module that its first norm belongs to, besides "layernorm"
function parts.sublayer(m, p, i, n, inside, name)
  if p.part == "attention" then return inside end
  return parts.append(parts.append(parts.opening(m, p, i, n, name), inside), parts.closing(m, p, i, n))
end

-- Features of an activation between products on this GPU, whatever the micro-batch and the shards of the sequence:
-- those of one whole sample.
local function inner_width(p, width)
  local one = setmetatable({ micro_batch = 1, tokens = p.seq, stream = false }, { __index = p })
  for _, axis in ipairs(p.sequence_axes) do one[axis] = 1 end
  return one:inner(width) / one:inner_tokens()
end

--- An MLP of `width` between its products; o passes on to both (rows, experts, active) and to one of them
--- (input_kept_elsewhere, gathered: fc1; partial: fc2; fused: activation). name: a prefix for the ops' names.
-- Saved: fc1's input; the activation's inputs (both halves of a gated one); fc2's input. Bias and activation run
-- in one kernel, as do the halves of a gated activation (Megatron-LM's bias_gelu_fusion and bias_swiglu_fusion).
function parts.mlp(m, p, width, o, name)
  o, name = o or {}, name or ""
  local halves = m.gated and 2 or 1
  local fc1 = p:column {
    name = name .. "fc1", n_in = m.hidden, n_out = halves * width, bias = m.biases.mlp, rows = o.rows,
    experts = o.experts, active = o.active, input_kept_elsewhere = o.input_kept_elsewhere, gathered = o.gathered,
    parts = m.gated and { gate = 1, up = 1 } or nil,
  }
  local elements = o.rows and inner_width(p, width) * p:inner_tokens(o.rows) or p:inner(width)
  local activation = op.activation {
    name = name .. m.activation, kind = m.activation, gated = m.gated, dtype = p.dtype, elements = elements,
    kept_element = p.kept_element, fused = o.fused,
  }
  if m.gated then eager.gate(p, activation, elements) end
  if m.activation_steps then eager.steps(p, activation, elements) end
  if m.gated and m.limited_activation and p.mode == "train" and not o.fused then eager.limit(activation, elements) end
  if m.gated and p.fused_activation == false then -- the product with the other half keeps the first kernel's output
    activation:hold(activation:saved_bytes() + BYTES * elements, 0)
  end
  return {
    m.gated and recompute.made_of(fc1, { 1, 1 }) or fc1,
    activation,
    p:row {
      name = name .. "fc2", n_in = width, n_out = m.hidden, bias = m.biases.mlp, rows = o.rows, experts = o.experts,
      active = o.active, partial = o.partial,
    },
  }
end

--- Appends a list of ops.
function parts.append(ops, more)
  return table.move(more, 1, #more, #ops + 1, ops)
end

--- Attention's kernels, enclosed by the strategy's exchanges.
function parts.exchanged(p, kernels, cut, shape)
  if not p.exchange then return kernels end
  local before, after = p:exchange(cut, shape)
  return parts.append(parts.append(before, kernels), after)
end

return parts
