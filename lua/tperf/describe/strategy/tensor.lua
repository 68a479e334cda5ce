--- One-dimensional tensor parallelism (Megatron-LM, arXiv 1909.08053), with sequence parallelism between the products
-- (arXiv 2205.05198; tp1d in arXiv 2410.00273). Heads, features and the vocabulary are cut by tp; the residual stream
-- by tokens. With share.sequence_parallel = false every GPU holds the whole stream, and all-reduces replace
-- gathers and scatters. If tp is a multiple of kv_heads, key and value heads are replicated.
-- The cuts also handle cp, for strategy context: all products work on the tokens of one shard of the sequence.
local adapters = require "tperf.describe.strategy.adapters"
local fitting = require "tperf.describe.strategy.fitting"
local kernels = require "tperf.describe.kernels"
local op = require "tperf.describe.op"

local tensor = {
  name = "tensor",
  summary = "one-dimensional tensor parallelism (Megatron-LM), sequence-parallel norms",
  attention = { "flash", "unfused", "recompute" },
  features = "tp",
  options = fitting.options,
}

tensor.axes = {
  {
    name = "tp", meaning = "tensor parallelism: heads and features", cuts = { "features", "weights", "experts" },
    admits = function(m, p, rules)
      local fits, reason = fitting.cuts(m, p.tp, rules, true)
      if not fits then return false, reason end
      local width = (rules.one_minimum_width and 1 or 3) * m.hidden // p.tp
      if p.tp > 1 and width < 128 then return false, "leaves fewer than 128 features" end
      return true
    end,
  },
  fitting.expert_features { "tp", "dp" },
  fitting.experts { "tp", "dp" },
  fitting.shards { "dp" },
}

function tensor.sequence_shards(p) return p.tp end

-- Overlap of tp's collectives with products, by the option overlap_tp:
--   bulk   in the backward pass, gathering a column product's input and reducing its gradient overlap with its
--          products, as in Megatron-LM by default
--   none   no overlap
--   ring   TransformerEngine's user buffers (tp_comm_overlap): inputs are gathered in a ring of as many chunks as GPUs
--          while the local ones are multiplied, forward and for gradients; results are reduced in four chunks; the rest
--          as in bulk
--   async  PyTorch's async tensor parallelism (torch.distributed._symmetric_memory): in the forward pass, products that
--          follow a gather or precede a reduce-scatter are cut into as many chunks as GPUs. In the backward pass, sums
--          and second uses intervene (its announcement: up to 20 % of forward passes of Llama 3 70B, 8 % of steps), so
--          it is as in bulk
-- The last two need the stream cut by tokens.
local CHUNKED <const> = { ring = true, async = true }

-- Sets the overlap of a product that is not an expert's. The head's is never chunked: both leave it to PyTorch.
local function overlap_of(p, o, given)
  if o.experts then return end
  given.overlap = p.overlap_tp ~= "none"
  if CHUNKED[p.overlap_tp] and p.sequence_parallel and not o.is_head then
    given.chunks, given.pipelined = p[p.features], p.overlap_tp == "ring"
  end
end

-- Shards of the sequence; in decode the single token is replicated, and these GPUs shard its keys instead.
local function shards_of(p) return p.mode == "decode" and 1 or (p.cp or 1) * (p.ulysses or 1) end

-- Rows of the products, and of the residual stream.
local function whole(p)
  local stream = p.rules.shards_divide_sequence and p.stream
  if stream then return p.sequence_parallel and stream * p.tp or stream end
  return p.micro_batch * (p.seq // shards_of(p))
end

local function shard(p)
  return p.stream or p.sequence_parallel and p.micro_batch * (p.seq // (p.tp * shards_of(p))) or whole(p)
end

-- Products of experts are cut over a separate axis, which their share names.
local function split(p, width, o)
  local axis = p.features
  return fitting.split(p, width, p[axis], axis, o.name)
end

-- The axis over which results computed from shards of the stream must be summed; nil if it is not sharded.
local function shards_axis(p) return p.sequence_parallel and "tp" or nil end

--- Rows that a product works on: the stream's, or those gathered from `rows` on each GPU.
function tensor.inner_tokens(p, rows)
  if not rows then return whole(p) end
  return p.sequence_parallel and rows * p[p.features] or rows
end
tensor.outer_tokens = shard

-- The fields of a product's op, with room for what its cut adds.
local function fields_of(p, o, tokens, n_in, n_out)
  return {
    tokens = tokens, n_in = n_in, n_out = n_out, name = o.name, bias = o.bias, dtype = p.dtype,
    input_kept_elsewhere = o.input_kept_elsewhere, weight_dtype = p.weight_dtype, matrix_dtype = p.matrix_dtype,
    tied = nil, weights_elsewhere = nil, experts = nil, overlap = nil, gather = nil, shard = nil, input_grad = nil,
  }
end

-- cut: "column", "row" or "replicated"
local function product(p, o, given, cut)
  local make = op.linear
  if o.weight_bits or o.sparse then fitting.store(o, given) end
  if o.experts then
    make, given.experts, given.active = op.grouped_linear, o.experts, o.active
  else
    given.tied, given.weights_elsewhere = o.tied, o.weights_elsewhere
  end
  return p.tuning and adapters.attach(p, o, given, cut, make(given)) or make(given)
end

function tensor.column(p, o)
  local rows, axis = o.rows or shard(p), p.features
  local given = fields_of(p, o, tensor.inner_tokens(p, o.rows), o.n_in, o.local_out or split(p, o.n_out, o))
  if o.experts and p.sequence_parallel then return product(p, o, given, "column") end -- the rows were gathered before
  if not p.rules.columns_gather then
    given.input_grad = axis
  elseif o.gathered then -- the product that gathered it also sums the gradient
    given.shard = rows
  elseif p.sequence_parallel then
    given.shard, given.gather, given.input_grad = rows, axis, axis
    overlap_of(p, o, given)
  else
    given.input_grad_all_reduce = axis
    overlap_of(p, o, given)
  end
  return product(p, o, given, "column")
end

function tensor.row(p, o)
  local axis, sequence_parallel = p.features, p.sequence_parallel
  local given = fields_of(p, o, tensor.inner_tokens(p, o.rows), o.local_in or split(p, o.n_in, o), o.n_out)
  if not p.rules.columns_gather then
    given.reduce_scatter = axis
  elseif not o.partial then -- else the next row product's output joins it before they are summed
    given[sequence_parallel and "reduce_scatter" or "all_reduce"] = axis
    given.output_grad = sequence_parallel and axis or nil
    overlap_of(p, o, given)
    given.output_shard = sequence_parallel and (o.rows or shard(p)) or nil
  end
  given.bias_grad = o.bias and sequence_parallel and axis or nil
  return product(p, o, given, "row")
end

function tensor.replicated(p, o)
  local given = fields_of(p, o, o.rows or shard(p), o.n_in, o.n_out)
  given.parameter_grad = shards_axis(p)
  return product(p, o, given, "replicated")
end

function tensor.router(p, o)
  return op.router {
    name = o.name, tokens = shard(p), width = o.width, experts = o.experts, top_k = o.top_k, bias = o.bias,
    parameter_grad = shards_axis(p), dtype = o.dtype or p.dtype,
  }
end

--- The scan of this GPU's rows, and the exchange of states among GPUs that shard the sequence.
function tensor.scan(p, o)
  local element, count = fitting.state_element(p), kernels.of "attention".scan
  local states = fitting.states(p, 1.0 * element * p.micro_batch * o.heads * o.head_dim * o.state)
  return {
    op.scan {
      name = o.name, batch = p.micro_batch, seq = p.seq // shards_of(p), heads = o.heads, head_dim = o.head_dim,
      groups = o.groups, state = o.state, chunk = o.chunk, step = p.mode == "decode", dtype = p.dtype,
      state_element = element,
    }:calls(count.forward, count.backward), table.unpack(states),
  }
end

function tensor.inner(p, width) return 1.0 * whole(p) * split(p, width, { name = "inner" }) end

function tensor.outer(p, width) return 1.0 * shard(p) * width end

function tensor.inner_bias(p, o)
  return op.bias { name = o.name, tokens = whole(p), width = o.width // p.tp }
end

function tensor.outer_bias(p, o)
  return op.bias {
    name = o.name, tokens = p.rules.outer_bias_on_shard and shard(p) or whole(p), width = o.width,
    parameter_grad = p.rules.small_gradients_reduced and "tp" or nil,
  }
end

function tensor.norm(p, o)
  local rules = p.rules
  local gathers = not rules.columns_gather
  local replicated = not gathers and shards_axis(p) or gathers and rules.small_gradients_reduced and "tp" or nil
  return op.norm {
    name = o.name, tokens = shard(p), width = o.width, dtype = p.dtype, root_mean_square = o.root_mean_square,
    parameters = o.parameters, input_kept_elsewhere = o.input_kept_elsewhere, gather = gathers and "tp" or nil,
    gathered_tokens = gathers and whole(p) or nil, parameter_grad = replicated,
  }
end

--- kv_heads: default heads.
function tensor.heads(p, heads, kv_heads)
  return {
    heads = split(p, heads, { name = "heads" }), kv_heads = fitting.replicated(p, kv_heads or heads, p.tp, "kv_heads"),
    queries = p.seq // shards_of(p), shards = shards_of(p), gather = p.cp and shards_of(p) > 1 and "cp" or nil,
    key_shards = p.mode == "decode" and p.cp or 1, key_axis = "cp",
  }
end

function tensor.embedding(p, o)
  return op.embedding(fitting.store(o, {
    name = o.name, tokens = whole(p), rows = fitting.padded(o.rows, p.tp), width = o.width, tied = o.tied,
    dtype = p.dtype, weight_dtype = p.weight_dtype, [p.sequence_parallel and "reduce_scatter" or "all_reduce"] = "tp",
  }))
end

--- The product with the output table of o.n_out rows. o.rows: use this many rows of the stream instead of all; every
--- GPU has them.
function tensor.head(p, o)
  local width = fitting.padded(o.n_out, p.tp)
  if o.rows then return product(p, o, fields_of(p, o, o.rows, o.n_in, width)) end
  o.local_out, o.is_head = width, true
  return tensor.column(p, o)
end

function tensor.cross_entropy(p, o)
  return op.cross_entropy {
    name = o.name, tokens = whole(p), vocab = fitting.padded(o.vocab, p.tp), row_sum = "tp", dtype = p.dtype,
  }
end

--- Elements that one micro-batch sends to the next pipeline stage.
function tensor.boundary(p, width) return 1.0 * shard(p) * width end

--- GPUs that hold the same elements.
function tensor.boundary_copies(p) return p.sequence_parallel and 1 or p.tp or 1 end

return tensor
