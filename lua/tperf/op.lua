--- tperf.op: constructors of ops, the kernels that blocks are made of. Each takes one table and returns the
-- counts of one kernel, forward and backward (include/tperf/op.h has the formulas). Sizes are what one GPU
-- sees; an axis ("tp" …) names the collectives that go with the kernel. All take name = and dtype = ("bf16").
local core = require "tperf.core".op

local BYTES, MASK_BYTES = 2, 1 -- of a 16-bit element, of an entry of a dropout mask

local op = {}

--- Y = X W: tokens, n_in, n_out. reduce_scatter: the axis over which Y is reduced; input_grad: the axis over which
--- X's gradient is.
op.linear = core.linear

--- The same on a grid by SUMMA: tokens, n_in, n_out, n_in_columns, n_in_rows, columns =, rows = axes.
op.summa = core.summa

--- Attention's two products by SUMMA: batch, heads, queries, queries_rows, queries_columns,
--- head_dim_columns, keep_scores, columns =, rows = axes.
op.summa_scores, op.summa_attend = core.summa_scores, core.summa_attend

--- Fused attention: batch, heads, queries, keys, head_dim; gather: the axis over which keys and values are
--- gathered; grad_reads_gathered.
op.flash_attention = core.flash_attention

--- Attention's products as kernels of their own; like flash_attention, and keep_scores, recomputed.
op.scores, op.attend = core.scores, core.attend

--- Softmax as a kernel of its own: rows, width, keep_output, recomputed; row_sum: the axis over which a row is spread.
op.softmax = core.softmax

--- Layer norm: tokens, width; gather: the axis over which the result is gathered (gathered_tokens when the
--- shards do not add up); statistics: the axis over which a row is spread; parameter_grad: the axis over which
--- scale and shift are replicated.
op.norm = core.norm

--- A pass over elements: elements, forward_flops, backward_flops, forward_bytes, backward_bytes, saved_bytes (each
--- per element), parameters, parameter_grad, recomputed.
op.elementwise = core.elementwise

--- Adds a vector of `width` to `tokens` rows.
function op.bias(o)
  return core.elementwise {
    name = o.name or "bias", elements = 1.0 * o.tokens * o.width, parameters = o.width,
    forward_flops = 1, backward_flops = 1, forward_bytes = BYTES, backward_bytes = BYTES,
    parameter_grad = o.parameter_grad,
  }
end

--- GELU of `elements`, 8 FLOP forward and 13 backward each.
function op.gelu(o)
  return core.elementwise {
    name = o.name or "gelu", elements = o.elements, forward_flops = 8, backward_flops = 13,
    forward_bytes = 2 * BYTES, backward_bytes = 3 * BYTES, saved_bytes = BYTES,
  }
end

--- Dropout of `elements`; keep_mask = false draws the mask again in the backward pass.
function op.dropout(o)
  local bytes = 2 * BYTES + MASK_BYTES
  return core.elementwise {
    name = o.name or "dropout", elements = o.elements, forward_flops = 1, backward_flops = 1,
    forward_bytes = bytes, backward_bytes = bytes, saved_bytes = o.keep_mask == false and 0 or MASK_BYTES,
    recomputed = o.recomputed,
  }
end

return op
