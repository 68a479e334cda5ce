--- Two-dimensional tensor parallelism by SUMMA on a tp1 x tp2 grid (2d in arXiv 2410.00273): activations are cut by
-- tokens over tp2 and by features over tp1, weights by rows over tp2 and by columns over tp1; both travel in panels.
-- Attention keeps heads on tp1 and gathers keys and values over tp2, or uses SUMMA as well.
local op = require "tperf.op"

local summa = {
  name = "summa",
  summary = "two-dimensional tensor parallelism (SUMMA), in panels",
  attention = { "flash", "unfused", "summa" },
}

local SMALLEST_PANEL = 512 -- features

summa.axes = {
  {
    name = "tp1", meaning = "grid columns: heads and features of activations, columns of weights",
    admits = function(m, p)
      if m.heads % p.tp1 ~= 0 then return false, "does not divide the heads" end
      if m.hidden % p.tp1 ~= 0 then return false, "does not divide the hidden size" end
      if m.hidden // p.tp1 < 128 then return false, "leaves fewer than 128 features" end
      return true
    end,
  },
  {
    name = "tp2", meaning = "grid rows: the sequence of activations, rows of weights",
    admits = function(m, p)
      if m.hidden % p.tp2 ~= 0 then return false, "does not divide the hidden size" end
      if m.seq // p.tp2 < 128 then return false, "leaves fewer than 128 tokens" end
      return true
    end,
  },
}

function summa.sequence_shards(p) return p.tp2 end

local function gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return a
end

--- The numbers of panels to try: doublings while a panel keeps 512 features.
function summa.panels(m, p, rules)
  local first = math.max(p.tp1, p.tp2)
  if rules.panels_by_lcm then first = p.tp1 // gcd(p.tp1, p.tp2) * p.tp2 end
  local list, n = {}, first
  while m.hidden % n == 0 and m.hidden // n >= SMALLEST_PANEL do
    list[#list + 1] = n
    n = 2 * n
  end
  return #list > 0 and list or { first }
end

local function rows(p) return p.micro_batch * (p.seq // p.tp2) end

local function grid(p, o)
  return op.summa {
    name = o.name, tokens = rows(p), n_in = o.n_in, n_out = o.n_out // p.tp1,
    n_in_columns = o.n_in // p.tp1, n_in_rows = o.n_in // p.tp2, columns = "tp1", rows = "tp2",
  }
end
summa.column, summa.row = grid, grid

local function local_elements(p, width) return 1.0 * rows(p) * (width // p.tp1) end
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
    name = o.name, tokens = rows(p), width = norm_width(p, o.width), statistics = "tp1",
    grad_statistics = by_group and 2 * rows(p) or 2 * o.width // p.tp1 + 2 * p.tokens // p.tp2,
    parameter_grad = by_group and "tp2" or nil,
  }
end

function summa.heads(p, heads)
  return { heads = heads // p.tp1, queries = p.seq // p.tp2, gather = "tp2" }
end

function summa.boundary(p, width) return 1.0 * rows(p) * norm_width(p, width) end

return summa
