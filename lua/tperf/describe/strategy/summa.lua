--- Two-dimensional tensor parallelism by SUMMA on a tp1 x tp2 grid (2d in arXiv 2410.00273): activations are cut by
-- tokens over tp2 and by features over tp1, weights by rows over tp2 and by columns over tp1; both travel in panels.
-- Attention keeps heads on tp1 and gathers keys and values over tp2, or uses SUMMA as well. There is no cut for
-- products with replicated weights, so experts, latent attention and Mamba layers are not supported.
local divisors = require "tperf.base.divisors"
local fitting = require "tperf.describe.strategy.fitting"
local op = require "tperf.describe.op"

local summa = {
  name = "summa",
  summary = "two-dimensional tensor parallelism (SUMMA), in panels",
  attention = { "flash", "unfused", "summa" },
  features = "tp1",
  -- Colossal-AI's, the one stack that runs it (legacy/context/process_group_initializer, initializer_2d.py,
  -- initializer_pipeline.py and initializer_data.py of 0.5.0): a row of the grid, which shares tokens, is neighbours;
  -- weights travel along columns, whose GPUs are a row apart; then stages, then replicas.
  rank_order = "tp1-tp2-pp-dp",
  serves = false,
  same_as = { strategy = "tensor", without = { "tp1", "tp2" } },
}

local SMALLEST_PANEL = 512 -- features

-- The part of a model that this strategy cannot cut.
local function uncovered(m, rules)
  if not rules.layers_from_description or m.architecture then return nil end
  return m.experts and "experts" or m.mla and "latent attention" or (m.mamba or m.mamba1) and "Mamba layers"
    or m.delta and "delta net layers"
    or m.vision and "image patches" or nil
end

summa.axes = {
  {
    name = "tp1", meaning = "2-D tensor parallelism: features, columns of weights",
    admits = function(m, p, rules)
      local part = uncovered(m, rules)
      if part then return false, "is not for models with " .. part .. ": strategy summa cannot cut them" end
      local fits, reason = fitting.cuts(m, p.tp1, rules)
      if not fits then return false, reason end
      if p.tp1 > 1 and m.hidden // p.tp1 < 128 then return false, "leaves fewer than 128 features" end
      return true
    end,
  },
  {
    name = "tp2", meaning = "2-D tensor parallelism: the sequence, rows of weights",
    admits = function(m, p, rules)
      if m.hidden % p.tp2 ~= 0 then return false, ("does not divide the hidden size of %d"):format(m.hidden) end
      if rules.columns_gather and m.ffn and m.ffn % p.tp2 ~= 0 then
        return false, ("does not divide the MLP's width of %d"):format(m.ffn)
      end
      if rules.columns_gather and m.heads and m.heads * m.head_dim % p.tp2 ~= 0 then
        return false, ("does not divide the %d features of the heads"):format(m.heads * m.head_dim)
      end
      if p.tp2 > 1 and m.seq // p.tp2 < 128 then return false, "leaves fewer than 128 tokens" end
      return true
    end,
  },
}

function summa.sequence_shards(p) return p.tp2 end

--- The numbers of panels to try: doublings while a panel keeps 512 features.
function summa.panels(m, p, rules)
  local first = math.max(p.tp1, p.tp2)
  if rules.panels_by_lcm then first = p.tp1 // divisors.gcd(p.tp1, p.tp2) * p.tp2 end
  local list, n = {}, first
  while m.hidden % n == 0 and m.hidden // n >= SMALLEST_PANEL do
    list[#list + 1] = n
    n = 2 * n
  end
  return #list > 0 and list or { first }
end

local function rows(p) return p.micro_batch * (p.seq // p.tp2) end

local function split(p, width, axis, o) return fitting.split(p, width, p[axis], axis, o.name) end

local function grid(p, o)
  return op.summa {
    name = o.name, tokens = o.rows or rows(p), n_in = o.n_in, n_out = o.local_out or split(p, o.n_out, "tp1", o),
    n_in_columns = split(p, o.n_in, "tp1", o), n_in_rows = split(p, o.n_in, "tp2", o), columns = "tp1", rows = "tp2",
    bias = o.bias, bias_grad = o.bias and "tp2" or nil, input_kept_elsewhere = o.input_kept_elsewhere, tied = o.tied,
    dtype = p.dtype, shaped = p.rules.layers_from_description,
  }
end
summa.column, summa.row = grid, grid

summa.outer_tokens = rows
function summa.inner_tokens(p, given) return given or rows(p) end

local function local_elements(p, width) return 1.0 * rows(p) * split(p, width, "tp1", { name = "elements" }) end
summa.inner, summa.outer = local_elements, local_elements

local function bias(p, o)
  return op.bias {
    name = o.name, tokens = rows(p), width = o.width // p.tp1,
    parameter_grad = p.rules.small_gradients_reduced and "tp2" or nil,
  }
end
summa.inner_bias, summa.outer_bias = bias, bias

local function norm_width(p, width)
  return (p.rules.norm_2d_splits_hidden and width or p.seq) // p.tp1
end

function summa.norm(p, o)
  local by_group = p.rules.norm_2d_grads_by_group
  return op.norm {
    name = o.name, tokens = rows(p), width = norm_width(p, o.width), statistics = "tp1", dtype = p.dtype,
    parameters = o.parameters and o.parameters // p.tp1, root_mean_square = o.root_mean_square,
    input_kept_elsewhere = o.input_kept_elsewhere,
    grad_statistics = by_group and 2 * rows(p) or 2 * o.width // p.tp1 + 2 * p.tokens // p.tp2,
    parameter_grad = by_group and "tp2" or nil,
  }
end

function summa.heads(p, heads, kv_heads)
  return {
    heads = split(p, heads, "tp1", { name = "heads" }),
    kv_heads = fitting.replicated(p, kv_heads or heads, p.tp1, "kv_heads"),
    queries = p.seq // p.tp2, shards = p.tp2, gather = "tp2",
  }
end

--- The table is cut by features over tp1 and by rows over tp2.
function summa.embedding(p, o)
  return op.embedding {
    name = o.name, tokens = p.tokens, rows = fitting.padded(o.rows, p.tp2), width = split(p, o.width, "tp1", o),
    tied = o.tied, reduce_scatter = "tp2", dtype = p.dtype,
  }
end

function summa.head(p, o)
  o.local_out = fitting.padded(o.n_out, p.tp1)
  return grid(p, o)
end

function summa.cross_entropy(p, o)
  return op.cross_entropy {
    name = o.name, tokens = rows(p), vocab = fitting.padded(o.vocab, p.tp1), row_sum = "tp1", dtype = p.dtype,
  }
end

function summa.boundary(p, width) return 1.0 * rows(p) * norm_width(p, width) end

return summa
