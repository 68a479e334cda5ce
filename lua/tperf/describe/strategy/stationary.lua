--- Two-dimensional tensor parallelism with stationary weights (arXiv 2211.05102, section 3.2.2: "2D
-- weight-stationary"), for serving on many GPUs: weights are cut by columns over tp1 and by rows over tp2, and
-- activations travel. Between products their features are cut over both axes: before a product they are gathered over
-- one, after it partial sums are reduce-scattered over the other, so that a GPU sends 2 B L (E / tp2 + F / tp1) for a
-- feed-forward layer, which scales with the root of the number of GPUs. Attention cuts heads over both axes.
-- There is no cut for products with replicated weights, so experts, latent attention and Mamba layers are not
-- supported.
local fitting = require "tperf.describe.strategy.fitting"
local op = require "tperf.describe.op"

local stationary = {
  name = "stationary",
  summary = "two-dimensional tensor parallelism, weights stationary, for serving",
  attention = { "flash", "unfused" },
  features = "tp1",
  trains = false,
  same_as = { strategy = "tensor", without = { "tp1", "tp2" } },
}

-- The part of a model that this strategy cannot cut.
local function uncovered(m, rules)
  if not rules.layers_from_description then return "the published layer" end
  if m.architecture then return nil end
  return m.experts and "experts" or m.mla and "latent attention" or m.mamba and "Mamba layers"
    or m.vision and "image patches" or nil
end

local function divides(m, gpus, rules)
  local part = uncovered(m, rules)
  if part then return false, "is not for models with " .. part .. ": strategy stationary cannot cut them" end
  local fits, reason = fitting.cuts(m, gpus, rules)
  if not fits then return false, reason end
  if gpus > 1 and m.hidden // gpus < 64 then return false, "leaves fewer than 64 features" end
  return true
end

stationary.axes = {
  {
    name = "tp1", meaning = "columns of weights", cuts = { "features", "weights", "experts" },
    admits = function(m, p, rules) return divides(m, p.tp1, rules) end,
  },
  {
    name = "tp2", meaning = "rows of weights", cuts = { "features", "weights", "experts" },
    admits = function(m, p, rules) return divides(m, p.tp1 * p.tp2, rules) end,
  },
}

function stationary.sequence_shards() return 1 end

local function tokens(p) return p.micro_batch * p.seq end

local function both(p, width, o) return fitting.split(p, width, p.tp1 * p.tp2, "tp1 x tp2", o.name) end

local function product(p, o, given)
  given.name, given.tokens, given.bias, given.input_kept_elsewhere = o.name, o.rows or tokens(p), o.bias,
    o.input_kept_elsewhere
  given.tied, given.weights_elsewhere = o.tied, o.weights_elsewhere
  given.dtype, given.weight_dtype, given.matrix_dtype = p.dtype, p.weight_dtype, p.matrix_dtype
  given.input_grad, given.output_grad = given.gather, given.reduce_scatter
  fitting.store(o, given)
  return op.linear(given)
end

--- local_out: one GPU's part of the result, whose features are cut over both axes.
function stationary.column(p, o)
  local out = o.local_out and o.local_out * p.tp2 or fitting.split(p, o.n_out, p.tp1, "tp1", o.name)
  return product(p, o, {
    n_in = fitting.split(p, o.n_in, p.tp2, "tp2", o.name), n_out = out, gather = "tp1", reduce_scatter = "tp2",
  })
end

function stationary.row(p, o)
  local n_in = o.local_in and o.local_in * p.tp2 or fitting.split(p, o.n_in, p.tp1, "tp1", o.name)
  return product(p, o, {
    n_in = n_in, n_out = fitting.split(p, o.n_out, p.tp2, "tp2", o.name), gather = "tp2", reduce_scatter = "tp1",
  })
end

stationary.outer_tokens = tokens
function stationary.inner_tokens(p, given) return given or tokens(p) end

local function local_elements(p, width) return 1.0 * tokens(p) * both(p, width, { name = "elements" }) end
stationary.inner, stationary.outer = local_elements, local_elements

local function bias(p, o) return op.bias { name = o.name, tokens = tokens(p), width = both(p, o.width, o) } end
stationary.inner_bias, stationary.outer_bias = bias, bias

--- A row is sharded over both axes: its statistics, two 32-bit numbers, are summed over one after the other.
function stationary.norm(p, o)
  local statistics = 2 * 4.0 * tokens(p)
  local norm = op.norm {
    name = o.name, tokens = tokens(p), width = both(p, o.width, o), statistics = "tp1", grad_statistics = 2 * tokens(p),
    parameters = o.parameters and o.parameters // (p.tp1 * p.tp2), root_mean_square = o.root_mean_square,
    input_kept_elsewhere = o.input_kept_elsewhere, dtype = p.dtype,
  }
  norm:communicate("forward", "all_reduce", "tp2", statistics)
  norm:communicate("backward", "all_reduce", "tp2", statistics)
  return norm
end

function stationary.heads(p, heads, kv_heads)
  return {
    heads = both(p, heads, { name = "heads" }),
    kv_heads = fitting.replicated(p, kv_heads or heads, p.tp1 * p.tp2, "kv_heads"), queries = p.seq, shards = 1,
  }
end

--- The table is cut by features over tp1 and by rows over tp2.
function stationary.embedding(p, o)
  return op.embedding(fitting.store(o, {
    name = o.name, tokens = tokens(p), rows = fitting.padded(o.rows, p.tp2),
    width = fitting.split(p, o.width, p.tp1, "tp1", o.name), tied = o.tied, reduce_scatter = "tp2", dtype = p.dtype,
    weight_dtype = p.weight_dtype,
  }))
end

function stationary.head(p, o)
  return product(p, o, {
    n_in = fitting.split(p, o.n_in, p.tp2, "tp2", o.name), n_out = fitting.padded(o.n_out, p.tp1), gather = "tp1",
    reduce_scatter = "tp2",
  })
end

function stationary.cross_entropy(p, o)
  return op.cross_entropy {
    name = o.name, tokens = tokens(p), vocab = fitting.padded(o.vocab, p.tp1 * p.tp2), row_sum = "tp1", dtype = p.dtype,
  }
end

function stationary.boundary(p, width) return local_elements(p, width) end

return stationary
