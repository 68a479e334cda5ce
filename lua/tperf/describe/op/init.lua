--- tperf.op: constructors of ops, the kernels that blocks are made of. Each takes one table and returns the
-- counts of one kernel, forward and backward (include/tperf/op.h has the formulas). Sizes are per GPU; an axis
-- ("tp" …) names the collectives that go with the kernel. Fields have the same meaning in all constructors:
--  name                  of the op, in tables and messages
--  dtype                 of its elements; selects the peak ("bf16")
--  weight_dtype, kv_dtype   weight_dtype: of weights, kv_dtype: of cached keys and values (dtype)
--  weight_bits           bits of a stored weight with its share of scales, such as 1.6 or 4.5, in place of
--                        weight_dtype. No dtype or precision of a question changes it
--  on                    "host": weights in the host's memory, read over its link in each pass
--  sparse                true: of 4 weights along n_in 2 are zero (2:4): the others are stored and multiplied, in
--                        serving
--  matrix_dtype          of the matrix units' products (dtype)
--  tokens, rows          rows that this GPU works on
--  n_in, n_out, width    features of a row; n_in: of the input, n_out: of the output
--  elements, batch       number of elements; batch: of samples
--  bias                  true: the product adds a bias
--  input_kept_elsewhere  true: another op keeps the same input
--  input                 a name: all ops of a layer whose input has this name read one tensor, which is kept once
--  tied                  true: the weights are the embedding's
--  weights_elsewhere     true: another op of the same name and size holds the weights; a pipeline's stage without it
--                        holds a copy
--  shared_as             a name: all ops of this name share one tensor. Each stage that has any of them holds one copy,
--                        and the copies' gradients are added up
--  keeps                 { token =, sequence =, window = }: bytes that a sequence keeps between steps of decoding on
--                        this GPU: for each of its tokens, or the last `window` of them, and whatever their number.
--                        Default: of attention its keys and values, of a scan's step its state, of other ops nothing
--  shard, output_shard   rows of X per GPU of `gather`; output_shard: of Y's gradient per GPU of `output_grad` (all)
--  gather                axis over which X, or keys and values, or a norm's result, are gathered
--  reduce_scatter, all_reduce         axis over which Y is summed
--  input_grad, input_grad_all_reduce  axis over which X's gradient is reduce-scattered; all_reduce: summed whole
--  output_grad           axis over which Y's gradient is gathered
--  overlap               true: the backward pass overlaps gathering X and reducing its gradient with the products
--  taps, positions       of a convolution: positions that a row of X is made of, so n_in is taps x channels; positions:
--                        of X (tokens); groups: of its channels, whose rows tokens and positions count
--  chunks, pipelined     chunks of rows, overlapped with gather and reduction; pipelined: as in TransformerEngine
--  parameter_grad, bias_grad          axis over which weights, or a bias, are replicated
--  experts               of this GPU; of a router: of the layer
--  active                experts that have any rows (all)
--  top_k                 experts per token
--  n_in_columns, n_in_rows   n_in over the columns and the rows of the grid
--  columns               axis of the grid's columns
--  heads, kv_heads       heads of queries; kv_heads: of keys and values (heads)
--  queries, keys, seq    rows of queries and of keys; seq sets both
--  head_dim, value_dim   features of a head's query and key; value_dim: of its value (head_dim)
--  queries_rows, queries_columns, head_dim_columns   queries and head_dim over the grid's sides
--  causal, window, seen  keys a query sees; causal: the preceding ones, window: the last of them, seen: their
--                        average in sequences of several documents
--  dropout               true: dropout of the scores
--  sinks                 true: one learned score per head
--  values_in_keys        true: values are part of the keys
--  shards                the queries are one of so many equal parts (1)
--  keep_scores           true: scores are kept for the backward pass
--  recomputed            true: the backward pass runs the forward pass again
--  fused, eager          in serving engines; fused: part of a neighbour's kernel, eager: launched by the host
--  grad_reads_gathered   true: the backward pass reads all keys and values (Q14 of docs/model.md)
--  keep_output           true: the softmax is kept
--  row_sum, statistics   axis over which a row is sharded
--  grad_statistics       numbers all-reduced over it in the backward pass
--  root_mean_square      true: RMSNorm
--  gathered_tokens, parameters   rows after the gather if the shards do not add up; parameters: their number
--  forward_flops, backward_flops, forward_bytes, backward_bytes, saved_bytes   per element
--  input_bytes           the part of saved_bytes that another op made (0)
--  role                  1: a residual sum, 2: a rotation, 3: a gated activation, which engines and stacks without a
--                        compiler run otherwise (0)
--  repeated_bytes        the part of forward_bytes that is read again or freed meanwhile, and takes no memory
--  vocab                 logits per row on this GPU
--  state_element   bytes of a number of the state that a scan keeps (4)
--  groups, state, chunk, step   of a scan; groups: of B and C, state: its size, chunk: tokens, step: true for one token
local check = require "tperf.base.check"
local core = require "tperf.core".op
local fields = require "tperf.describe.op.fields"
local pointwise = require "tperf.describe.op.pointwise"

local op = {}

--- Y = X W + bias: tokens, n_in, n_out, bias, input_kept_elsewhere, tied (W is the embedding), weights_elsewhere,
--- weight_dtype or weight_bits, sparse, matrix_dtype, chunks, pipelined. Axes: gather (X is sharded, `shard` tokens per
--- GPU), reduce_scatter or all_reduce (of Y), input_grad or input_grad_all_reduce (of X's gradient), output_grad (Y's
--- gradient is gathered), parameter_grad and bias_grad (weights and bias are replicated). overlap: the backward pass
--- overlaps gathering X and reducing its gradient with the products.
op.linear = core.linear

--- Parallel products of this GPU's `experts` experts: tokens counts the rows of all of them, active the experts that
--- have rows (all). Other fields as in linear.
op.grouped_linear = core.grouped_linear

--- The product on a grid by SUMMA: tokens, n_in, n_out, n_in_columns, n_in_rows, columns =, rows = axes.
---  shaped   true: each panel is a kernel that takes what the machine's curves say of its shape (false)
op.summa = core.summa

--- Attention's two products by SUMMA: batch, heads, queries, queries_rows, queries_columns,
--- head_dim_columns, keep_scores, columns =, rows = axes.
---  shaped   true: each panel is a kernel that takes what the machine's curves say of its shape (false)
op.summa_scores, op.summa_attend = core.summa_scores, core.summa_attend

--- Fused attention: batch, heads, queries, keys, head_dim; gather: axis of keys and values; grad_reads_gathered.
op.flash_attention = core.flash_attention

--- Fused attention over the visible pairs: batch, heads, head_dim, queries and keys (or seq for both);
--- kv_heads (heads), value_dim (head_dim), causal, window, seen, dropout, sinks, values_in_keys, kv_dtype, shards
--- (the queries are one of so many equal parts), gather: the axis over which keys and values are gathered.
---  ring   true: they pass from GPU to GPU instead, overlapped with the kernels
function op.attention(o)
  for _, name in ipairs { "kv_heads", "value_dim", "window" } do -- 0 means absent to the core
    if type(o) == "table" and o[name] == 0 then check.fail("op.attention: '%s' must be at least 1, got 0", name) end
  end
  if type(o) == "table" and o.seq then
    if o.queries or o.keys then check.fail("op.attention: 'seq' sets 'queries' and 'keys': give 'seq' or these two") end
    local copy = {}
    for name, value in pairs(o) do copy[name] = value end
    copy.queries, copy.keys, copy.seq = o.seq, o.seq, nil
    o = copy
  end
  return core.attention(o)
end

--- Attention's products as separate kernels: fields of flash_attention, and keep_scores, recomputed, matrix_dtype,
--- kv_heads (they are gathered, then repeated for every head).
op.scores, op.attend = core.scores, core.attend

--- Softmax as a separate kernel: rows, width, keep_output, recomputed; row_sum: the axis over which a row is sharded.
op.softmax = core.softmax

--- Looks up `tokens` rows of `width` in a table with `rows` rows on this GPU; tied, weight_dtype; reduce_scatter or
--- all_reduce: the axis over which the table is sharded.
op.embedding = core.embedding

--- Cross-entropy of `tokens` rows with `vocab` logits each on this GPU; row_sum: the axis over which a row is sharded.
op.cross_entropy = core.cross_entropy

--- Chooses top_k of `experts` experts for each token: tokens, width, experts, top_k, bias, input_kept_elsewhere;
--- parameter_grad: the axis over which the weights are replicated.
op.router = core.router

--- The scan of Mamba-2: batch, seq, heads, head_dim, state, groups (1), chunk (256); step: true for one token that
--- updates a kept state instead of a sequence, of numbers of state_element bytes.
op.scan = core.scan

--- Layer norm: tokens, width; root_mean_square; parameters (2 width; width if root_mean_square); input_kept_elsewhere;
--- gather: the axis over which the result is gathered (gathered_tokens if the shards do not add up); statistics: the
--- axis over which a row is sharded; parameter_grad: the axis that replicates scale and shift.
op.norm = core.norm

--- An elementwise pass: elements, forward_flops, backward_flops, forward_bytes, backward_bytes, saved_bytes,
--- input_bytes, repeated_bytes (each per element), parameters, parameter_grad, recomputed, fused, eager.
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
  name = check.string { name = true, default = "custom" }, dtype = check.string { default = "bf16" }, forward = pass,
  backward = pass, weight_bytes = count, saved_bytes = count, repeated_bytes = count, routed = count,
  expert = check.boolean { default = false }, by_keys = check.boolean { default = false },
  shared_as = check.string { optional = true }, keeps = check.any { optional = true },
}

--- An op with counts given directly.
---@param o table
---   forward, backward   { tensor_flops, vector_flops, bytes, comms = { { kind, axis, bytes, share, beside, once } … }
---                       } (share: bytes are one GPU's part, as those of an all_to_all always are; beside: overlaps
---                       with the op; once, exchanges:
---                       arch/experts/dispatch.lua)
---   weight_bytes, saved_bytes   weight_bytes: of weights, in the op's dtype; saved_bytes: of kept activations
---   repeated_bytes      the part of forward bytes that is read again or freed meanwhile, and takes no memory
---   routed, expert      routed: pairs of token and expert that inference sorts, forward; expert: experts' weights
---   by_keys             true: its cost grows with the keys that its tokens see, as attention's does: serving engines
---                       price it for each request apart
function op.custom(o)
  local given = core.given(o) -- checks all that the schema does
  if given then return given end
  o = check.record("op.custom", o, custom)
  local forward, backward = o.forward, o.backward
  for _, way in ipairs { forward, backward } do
    for _, c in ipairs(way.comms) do
      if c.kind == "all_to_all" and c.share then
        check.fail("op '%s': 'share' is of vectors that GPUs hold parts of; the bytes of an all_to_all are one GPU's "
          .. "already: leave it out", o.name)
      end
    end
  end
  local one = core.custom {
    name = o.name, dtype = o.dtype, weight_bytes = o.weight_bytes, saved_bytes = o.saved_bytes, expert = o.expert,
    by_keys = o.by_keys, shared_as = o.shared_as, keeps = o.keeps,
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

local collective_names = fields.set "kind axis bytes share"

--- A collective, with its counterpart in the backward pass: kind, axis, bytes (see tperf.collective), share.
function op.collective(o)
  fields.check("op.collective", o, collective_names)
  if not back[o.kind] then
    local kinds = check.names(back)
    check.fail("op.collective: unknown kind %s%s; there are: %s", check.show(o.kind), check.suggest(o.kind, kinds),
      table.concat(kinds, ", "))
  end
  local function one(kind) return { comms = { { kind = kind, axis = o.axis, bytes = o.bytes, share = o.share } } } end
  return op.custom { name = o.name or o.kind, forward = one(o.kind), backward = one(back[o.kind]) }
end

local some_sizes = check.one_or_list(check.integer { min = 1, max = 1 << 31 })
local function sizes(value, path)
  if value == nil then return nil, ("'%s' is missing"):format(path), path end
  return some_sizes(value, path)
end
local count_of = check.integer { min = 1, max = 1 << 31 }
local conv = {
  name = check.string { name = true, default = "conv" }, dtype = check.string { default = "bf16" }, batch = count_of,
  size = sizes, kernel = sizes, stride = check.one_or_list(check.integer { min = 1, max = 1 << 31 }), n_in = count_of,
  n_out = count_of, groups = check.integer { min = 1, max = 1 << 31, default = 1 },
  bias = check.boolean { default = false }, input_kept_elsewhere = check.boolean { default = false },
  input = check.string { optional = true }, weights_elsewhere = check.boolean { default = false },
  shared_as = check.string { optional = true },
  weight_bits = check.number { above = 0, max = 64, optional = true },
  keeps = check.any { optional = true },
}

-- A number for each direction.
local function in_each(name, value, directions)
  if type(value) ~= "table" then value = { value } end
  if #value ~= 1 and #value ~= directions then
    check.fail("op.conv: '%s' has %d numbers for %d directions: give one for each, or one for all", name, #value,
      directions)
  end
  local list = {}
  for i = 1, directions do list[i] = value[#value == 1 and 1 or i] end
  return list
end

local NARROW <const> = 16 -- channels of a group: fewer fill no matrix unit
local BYTES <const> = { fp32 = 4, fp16 = 2, bf16 = 2 }

-- Groups of few channels (depthwise: one): a pass of the vector units, bound by memory, which reads X and writes Y, and
-- in the backward pass reads Y's gradient for X's and, with X, for the weights'.
local function narrow_conv(o, taps, before, after)
  for _, field in ipairs { "weights_elsewhere", "shared_as", "weight_bits" } do
    if o[field] then
      check.fail("op.conv: '%s' is of products, and groups of fewer than %d channels are none", field, NARROW)
    end
  end
  local element = BYTES[o.dtype] or check.fail("op.conv: groups of fewer than %d channels have no 'dtype' %s", NARROW,
    check.show(o.dtype))
  local elements, depth = 1.0 * after * o.n_out, taps * (o.n_in // o.groups)
  local input = 1.0 * before * o.n_in / elements -- numbers of X for each of Y
  local bias = o.bias and 1 or 0
  return core.elementwise {
    name = o.name, input = o.input, dtype = o.dtype, keeps = o.keeps, elements = elements,
    parameters = depth * o.n_out + bias * o.n_out, forward_flops = 2 * depth - 1 + bias,
    backward_flops = 4 * depth - 1 + bias, forward_bytes = element * (input + 1),
    backward_bytes = element * (2 * input + 2), saved_bytes = o.input_kept_elsewhere and 0 or element * input,
    input_bytes = o.input_kept_elsewhere and 0 or element * input,
  }
end

local function check_groups(o)
  if o.n_in % o.groups == 0 and o.n_out % o.groups == 0 then return end
  check.fail("op.conv: 'groups' = %d must divide n_in = %d and n_out = %d", o.groups, o.n_in, o.n_out)
end

--- A convolution: as the product of rows of kernel x n_in features with the weights, reading and keeping X once
--- (implicit GEMM), padded so that stride 1 keeps the size. In groups, it is as many products of n_in / groups and
--- n_out / groups channels; of fewer than 16 channels, such as the one of a depthwise convolution, a pass of the vector
--- units, whose FLOPs mfu does not count.
---@param o table
---   batch, size    images; size: their positions in every direction, { 64, 64 }, or a number for one direction
---   kernel, stride   positions under the kernel in every direction, or one number for all; stride: likewise (1)
---   n_in, n_out, bias   channels
---   groups         parts of the channels, each of which sees its own inputs alone (1)
---   dtype, input, input_kept_elsewhere, weights_elsewhere, weight_bits, shared_as, keeps   as in linear
function op.conv(o)
  o = check.record("op.conv", o, conv)
  local size = in_each("size", o.size, type(o.size) == "table" and #o.size or 1)
  local kernel, stride = in_each("kernel", o.kernel, #size), in_each("stride", o.stride or 1, #size)
  local taps, before, after = 1, o.batch, o.batch
  for i, positions in ipairs(size) do
    taps, before, after = taps * kernel[i], before * positions, after * -(-positions // stride[i])
  end
  check_groups(o)
  local groups = o.groups
  if groups > 1 and math.min(o.n_in, o.n_out) // groups < NARROW then return narrow_conv(o, taps, before, after) end
  return core.linear {
    name = o.name, input = o.input, tokens = after * groups, n_in = taps * (o.n_in // groups),
    n_out = o.n_out // groups, bias = o.bias, taps = taps, positions = before * groups,
    groups = groups > 1 and groups or nil, dtype = o.dtype,
    input_kept_elsewhere = o.input_kept_elsewhere,
    weights_elsewhere = o.weights_elsewhere, shared_as = o.shared_as, keeps = o.keeps, weight_bits = o.weight_bits,
  }
end

-- Copies of an op, or of the ops of a list and of lists in it, each changed.
local function each(what, ops, change)
  if core.is(ops) then return change(ops:copy()) end
  if type(ops) ~= "table" then
    check.fail("%s needs an op or a list of ops, got %s", what, check.show(ops))
  end
  local list = {}
  for i, one in ipairs(ops) do list[i] = each(what, one, change) end
  return list
end

--- The same ops if they run `times` times in every pass, one run after the other: serial steps (an sLSTM's, one for
--- each token), equal messages, or, below 1, what happens to a part of the passes: a layer behind an exit that half of
--- the tokens take. Work, messages and what is kept for the backward pass are those of all runs; weights, and what a
--- sequence keeps between steps of decoding, stay as they are.
---@param times number   above 0, an average
---@param ops any         an op, or a list of ops
---@return any ops        copies
function op.times(times, ops)
  if type(times) ~= "number" or not (times > 0 and times < math.huge) then
    check.fail("op.times: the first argument must be a number above 0, got %s", check.show(times))
  end
  return each("op.times", ops, function(one) return one:occur(times) end)
end

--- The same ops if their weights are not trained: neither gradients nor optimizer state. The gradient of their input is
--- still computed.
---@param ops any    an op, or a list of ops
---@return any ops   copies
function op.frozen(ops)
  return each("op.frozen", ops, function(one) return one:freeze() end)
end

--- The same ops if no gradient passes them: a teacher, or a frozen tower below which nothing is trained. They have a
--- forward pass alone and keep nothing.
---@param ops any    an op, or a list of ops
---@return any ops   copies
function op.forward_only(ops)
  return each("op.forward_only", ops, function(one) return one:freeze():stop() end)
end

for name, constructor in pairs(pointwise) do op[name] = constructor end

return op
