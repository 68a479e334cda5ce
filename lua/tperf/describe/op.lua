--- tperf.op: constructors of ops, the kernels that blocks are made of. Each takes one table and returns the
-- counts of one kernel, forward and backward (include/tperf/op.h has the formulas). Sizes are what one GPU
-- sees; an axis ("tp" …) names the collectives that go with the kernel. The fields, which mean the same in all:
--  name                  of the op, in tables and messages
--  dtype                 of its elements, and whose peak applies ("bf16")
--  weight_dtype, kv_dtype   of weights, of cached keys and values, where they differ
--  matrix_dtype          in which the matrix units multiply, where it differs
--  tokens, rows          rows that this GPU works on
--  n_in, n_out, width    features of a row: in, out
--  elements, batch       how many numbers; samples
--  bias                  true: the product adds one
--  input_kept_elsewhere  true: another op keeps the same input
--  tied                  true: the weights are the embedding's
--  weights_elsewhere     true: another op of this GPU has them
--  shard, output_shard   rows of X on each GPU of the axis `gather`, of Y's gradient on one of `output_grad` (all)
--  gather                axis over which X, or keys and values, or a norm's result, are gathered
--  reduce_scatter, all_reduce         axis over which Y is summed
--  input_grad, input_grad_all_reduce  axis over which X's gradient is summed: scattered, or whole
--  output_grad           axis over which Y's gradient is gathered
--  overlap               true: in the backward pass, gathering X and reducing its gradient run beside the products
--  chunks, pipelined     of rows, beside X's gather and Y's reduction; true: as TransformerEngine has it
--  parameter_grad, bias_grad          axis over which weights, or a bias, are replicated
--  experts               of this GPU; of a router: of the layer
--  active                experts that have any rows (all)
--  top_k                 experts a token goes to
--  n_in_columns, n_in_rows   n_in over the columns and the rows of the grid
--  columns               axis of the grid's columns
--  heads, kv_heads       heads of queries; of keys and values (heads)
--  queries, keys, seq    rows of queries, of keys; seq for both
--  head_dim, value_dim   sizes of a key and of a value (head_dim)
--  queries_rows, queries_columns, head_dim_columns   queries and head_dim over the grid's sides
--  causal, window, seen  what a query sees: those before it; the last `window` of them; so many on average, in
--                        sequences of several documents
--  dropout               true: with dropout of the scores
--  sinks                 true: one learned score a head
--  values_in_keys        true: values are part of the keys
--  shards                queries are an even share of so many times more (1)
--  keep_scores           true: scores are kept for the backward pass
--  recomputed            true: the backward pass runs the forward pass again
--  fused, eager          true: where an engine serves, part of a neighbour's kernel; launched by the host
--  grad_reads_gathered   true: the backward pass reads all keys and values (Q14 of docs/model.md)
--  keep_output           true: the softmax is kept
--  row_sum, statistics   axis over which a row is spread
--  grad_statistics       numbers all-reduced over it in the backward pass
--  root_mean_square      true: RMSNorm
--  gathered_tokens, parameters   rows after the gather, where the shards do not add up; how many
--  forward_flops, backward_flops, forward_bytes, backward_bytes, saved_bytes   of one element
--  input_bytes           of saved_bytes: what another op made (0)
--  repeated_bytes        of forward_bytes: what passes again or is freed meanwhile, and takes no memory
--  vocab                 logits of a row on this GPU
--  groups, state, chunk, step   of a scan: groups of B and C, size of a state, tokens of a chunk, one token
local check = require "tperf.base.check"
local core = require "tperf.core".op

local MASK_BYTES = 1 -- of an entry of a dropout mask

local op = {}

-- Refuses anything but a table of these fields. What they hold is the core's to check.
local function check_names(what, o, names)
  if type(o) ~= "table" then check.fail("%s needs a table of fields, got %s", what, check.show(o)) end
  for key in next, o do
    if not names[key] then
      check.fail("%s: unknown field %s%s; it has %s", what, check.show(key), check.suggest(key, check.names(names)),
        table.concat(check.names(names), ", "))
    end
  end
end

local function names(list)
  local set = { name = true }
  for name in list:gmatch "%S+" do set[name] = true end
  return set
end

--- Y = X W + bias: tokens, n_in, n_out, bias, input_kept_elsewhere, tied (W is the embedding), weights_elsewhere,
--- weight_dtype, matrix_dtype, chunks, pipelined. Axes: gather (X lies in shards of `shard` tokens),
--- reduce_scatter or all_reduce (of Y), input_grad or input_grad_all_reduce (of X's gradient), output_grad (Y's
--- gradient is gathered), parameter_grad and bias_grad (over which they are replicated). overlap: of the backward
--- pass, gathering X and reducing its gradient run beside the products.
op.linear = core.linear

--- As many products side by side, of `experts` experts of this GPU: tokens counts the rows of all of them, active
--- how many experts have rows (all). Otherwise as linear.
op.grouped_linear = core.grouped_linear

--- The same on a grid by SUMMA: tokens, n_in, n_out, n_in_columns, n_in_rows, columns =, rows = axes.
op.summa = core.summa

--- Attention's two products by SUMMA: batch, heads, queries, queries_rows, queries_columns,
--- head_dim_columns, keep_scores, columns =, rows = axes.
op.summa_scores, op.summa_attend = core.summa_scores, core.summa_attend

--- Fused attention: batch, heads, queries, keys, head_dim; gather: keys' and values' axis; grad_reads_gathered.
op.flash_attention = core.flash_attention

--- Fused attention over the pairs that see each other: batch, heads, head_dim, queries and keys (or seq for both);
--- kv_heads (heads), value_dim (head_dim), causal, window, seen, dropout, sinks, values_in_keys, kv_dtype, shards
--- (queries are an even share of so many times more), gather: the axis over which keys and values are gathered.
---  ring   true: they pass from GPU to GPU beside the kernels instead
function op.attention(o)
  for _, name in ipairs { "kv_heads", "value_dim", "window" } do -- 0 means absent to the core
    if type(o) == "table" and o[name] == 0 then check.fail("op.attention: '%s' must be at least 1, got 0", name) end
  end
  if type(o) == "table" and o.seq then
    if o.queries or o.keys then check.fail("op.attention: 'seq' stands for 'queries' and 'keys', given, too") end
    local copy = {}
    for name, value in pairs(o) do copy[name] = value end
    copy.queries, copy.keys, copy.seq = o.seq, o.seq, nil
    o = copy
  end
  return core.attention(o)
end

--- Attention's products as kernels of their own; like flash_attention, and keep_scores, recomputed, matrix_dtype,
--- kv_heads (that are gathered, and then repeated for every head).
op.scores, op.attend = core.scores, core.attend

--- Softmax as a kernel of its own: rows, width, keep_output, recomputed; row_sum: the axis over which a row is spread.
op.softmax = core.softmax

--- Looks tokens rows of width up in a table with `rows` rows on this GPU; tied, weight_dtype; reduce_scatter or
--- all_reduce: the axis over which the table is cut.
op.embedding = core.embedding

--- Cross-entropy of `tokens` rows of logits, of which this GPU has `vocab`; row_sum: the axis over which a row is
--- spread.
op.cross_entropy = core.cross_entropy

--- Chooses top_k of `experts` experts for each token: tokens, width, experts, top_k, bias, input_kept_elsewhere;
--- parameter_grad: the axis over which the weights are replicated.
op.router = core.router

--- The scan of Mamba-2: batch, seq, heads, head_dim, state, groups (1), chunk (256); step: one token from a state that
--- is kept, in place of a sequence.
op.scan = core.scan

--- Layer norm: tokens, width; root_mean_square; parameters (2 width, width of a root-mean-square norm);
--- input_kept_elsewhere; gather: the axis over which the result is gathered (gathered_tokens when the shards do not add
--- up); statistics: that over which a row is spread; parameter_grad: that over which scale and shift are replicated.
op.norm = core.norm

--- A pass over elements: elements, forward_flops, backward_flops, forward_bytes, backward_bytes, saved_bytes (each
--- per element, as input_bytes and repeated_bytes), parameters, parameter_grad, recomputed, fused, eager.
op.elementwise = core.elementwise

local count = check.number { min = 0, default = 0 }
local comm = check.record_of {
  kind = check.choice { { "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "scatter", "gather",
    "all_to_all", "send" } },
  axis = check.string(), bytes = check.number { min = 0 }, share = check.boolean { default = false },
  beside = check.boolean { default = false }, exchanges = check.boolean { default = false },
  once = check.any { optional = true },
}
local pass = check.record_of({
  tensor_flops = count, vector_flops = count, bytes = count, comms = check.list(comm, { max = 6, default = {} }),
}, { default = {} })
local custom = {
  name = check.string { default = "custom" }, dtype = check.string { default = "bf16" }, forward = pass,
  backward = pass, weight_bytes = count, saved_bytes = count, repeated_bytes = count, routed = count,
  expert = check.boolean { default = false },
}

--- Raw counts.
---@param o table
---  forward, backward   { tensor_flops, vector_flops, bytes, comms = { { kind, axis, bytes, share, beside, once } … } }
---                      (share: one GPU's bytes; beside: beside the op's work; once, exchanges: arch/dispatch.lua)
---  weight_bytes, saved_bytes   of weights, whose parameters have the op's dtype; of activations that are kept
---  repeated_bytes      of the forward pass's: what passes again or is freed meanwhile, and takes no memory
---  routed, expert      pairs of token and expert that the forward pass sorts, in inference; true: experts' weights
function op.custom(o)
  o = check.record("op.custom", o, custom)
  local forward, backward = o.forward, o.backward
  local one = core.custom {
    name = o.name, dtype = o.dtype, weight_bytes = o.weight_bytes, saved_bytes = o.saved_bytes, expert = o.expert,
    forward_tensor_flops = forward.tensor_flops, forward_vector_flops = forward.vector_flops,
    forward_bytes = forward.bytes, forward_routed = o.routed, backward_tensor_flops = backward.tensor_flops,
    backward_vector_flops = backward.vector_flops, backward_bytes = backward.bytes, repeated_bytes = o.repeated_bytes,
  }
  for way, all in pairs { forward = forward.comms, backward = backward.comms } do
    for _, c in ipairs(all) do one:communicate(way, c.kind, c.axis, c.bytes, c.share, c.beside, c.once, c.exchanges) end
  end
  return one
end

-- The collective that carries the gradient back.
local back = {
  all_reduce = "all_reduce", all_gather = "reduce_scatter", reduce_scatter = "all_gather", broadcast = "reduce",
  reduce = "broadcast", scatter = "gather", gather = "scatter", all_to_all = "all_to_all", send = "send",
}

local collective_names = names "kind axis bytes share"

--- A collective alone, and in the backward pass its counterpart: kind, axis, bytes (see tperf.collective), share.
function op.collective(o)
  check_names("op.collective", o, collective_names)
  if not back[o.kind] then
    local kinds = check.names(back)
    check.fail("op.collective: unknown kind %s%s; there are: %s", check.show(o.kind), check.suggest(o.kind, kinds),
      table.concat(kinds, ", "))
  end
  local function one(kind) return { comms = { { kind = kind, axis = o.axis, bytes = o.bytes, share = o.share } } } end
  return op.custom { name = o.name or o.kind, forward = one(o.kind), backward = one(back[o.kind]) }
end

-- Bytes of an element that the constructor `what`, which takes these names, was asked for.
local function element(what, o, allowed)
  check_names("op." .. what, o, allowed)
  local dtype = o.dtype or "bf16"
  if type(dtype) ~= "string" then check.fail("op.%s: 'dtype' must be a name, got %s", what, check.show(dtype)) end
  return core.bytes("op." .. what, dtype)
end

-- FLOPs of one element forward and backward. GELU as published (arXiv 2410.00273); SiLU x s(x) costs an exponential, a
-- sum, a quotient and a product, its gradient s (1 + x (1 - s)) dy those and four more; the others what their
-- formulas say.
local activations = {
  gelu = { 8, 13 }, quick_gelu = { 5, 9 }, silu = { 4, 8 }, tanh = { 1, 3 }, relu = { 1, 1 }, relu2 = { 2, 3 },
}

local activation_names = names "kind dtype elements gated kept_element"
--- An activation of `elements` results: kind ("gelu", "silu", "relu", "relu2", "quick_gelu", "tanh"); gated: times a
--- second input, as SwiGLU does (arXiv 2002.05202), in one kernel. Saved: the inputs; kept_element: bytes of each
--- where they are kept in fewer, which the kernel writes further and the backward pass reads.
function op.activation(o)
  local bytes = element("activation", o, activation_names)
  local flops, inputs, kept = activations[o.kind], o.gated and 2 or 1, o.kept_element or bytes
  if not flops then
    check.fail("op.activation: unknown kind %s%s; there are: %s", check.show(o.kind),
      check.suggest(o.kind, check.names(activations)), table.concat(check.names(activations), ", "))
  end
  return core.elementwise {
    name = o.name or o.kind, dtype = o.dtype, elements = o.elements,
    forward_flops = flops[1] + inputs - 1, backward_flops = flops[2] + 3 * (inputs - 1),
    forward_bytes = (inputs + 1) * bytes + (o.kept_element and inputs * kept or 0),
    backward_bytes = (inputs + 1) * bytes + inputs * kept, saved_bytes = inputs * kept, input_bytes = inputs * kept,
  }
end

local residual_names, rotary_names = names "dtype elements dropout fused", names "dtype elements"
--- Adds a branch to the stream; dropout: of the branch first, in the same kernel, its mask kept; fused: in the norm's.
function op.residual(o)
  local bytes = element("residual", o, residual_names)
  local mask = o.dropout and MASK_BYTES or 0
  return core.elementwise {
    name = o.name or "residual", dtype = o.dtype, elements = o.elements, forward_flops = o.dropout and 2 or 1,
    backward_flops = o.dropout and 2 or 1, forward_bytes = (o.fused and 2 or 3) * bytes + mask,
    backward_bytes = 3 * bytes + mask, saved_bytes = mask, fused = o.fused,
  }
end

--- Rotates pairs of features by the position (arXiv 2104.09864): two products and a sum an element; nothing saved.
function op.rotary(o)
  local bytes = element("rotary", o, rotary_names)
  return core.elementwise {
    name = o.name or "rotary", dtype = o.dtype, elements = o.elements, forward_flops = 3, backward_flops = 3,
    forward_bytes = 2 * bytes, backward_bytes = 2 * bytes,
  }
end

local bias_names = names "dtype tokens width parameter_grad"

--- Adds a vector of `width` to `tokens` rows.
function op.bias(o)
  local bytes = element("bias", o, bias_names)
  for _, name in ipairs { "tokens", "width" } do
    if math.type(o[name]) == nil then
      check.fail("op.bias: '%s' must be an integer, got %s", name, check.show(o[name]))
    end
  end
  return core.elementwise {
    name = o.name or "bias", dtype = o.dtype, elements = 1.0 * o.tokens * o.width, parameters = o.width,
    forward_flops = 1, backward_flops = 1, forward_bytes = bytes, backward_bytes = bytes,
    parameter_grad = o.parameter_grad,
  }
end

local gelu_names, dropout_names = names "dtype elements", names "dtype elements keep_mask recomputed"

--- GELU of `elements`, 8 FLOP forward and 13 backward each.
function op.gelu(o)
  local bytes = element("gelu", o, gelu_names)
  return core.elementwise {
    name = o.name or "gelu", dtype = o.dtype, elements = o.elements, forward_flops = 8, backward_flops = 13,
    forward_bytes = 2 * bytes, backward_bytes = 3 * bytes, saved_bytes = bytes,
  }
end

--- Dropout of `elements`; keep_mask = false draws the mask again in the backward pass.
function op.dropout(o)
  local bytes = 2 * element("dropout", o, dropout_names) + MASK_BYTES
  return core.elementwise {
    name = o.name or "dropout", dtype = o.dtype, elements = o.elements, forward_flops = 1, backward_flops = 1,
    forward_bytes = bytes, backward_bytes = bytes, saved_bytes = o.keep_mask == false and 0 or MASK_BYTES,
    recomputed = o.recomputed,
  }
end

return op
