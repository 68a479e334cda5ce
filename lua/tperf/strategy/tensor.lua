--- Tensor parallelism in one dimension with sequence parallelism between (Megatron-LM, arXiv 2104.04473 and
-- 2205.05198; tp1d in arXiv 2410.00273). Heads and features are cut by tp; the residual stream by tokens.
local op = require "tperf.op"

local tensor = {
  name = "tensor",
  summary = "one-dimensional tensor parallelism (Megatron-LM), sequence-parallel norms",
  attention = { "flash", "unfused", "recompute" },
}

tensor.axes = {
  {
    name = "tp", meaning = "tensor parallelism: heads and features",
    admits = function(m, p, rules)
      if m.heads % p.tp ~= 0 then return false, "does not divide the heads" end
      if m.hidden % p.tp ~= 0 then return false, "does not divide the hidden size" end
      local width = (rules.one_minimum_width and 1 or 3) * m.hidden // p.tp
      if width < 128 then return false, "leaves fewer than 128 features" end
      return true
    end,
  },
}

function tensor.sequence_shards(p) return p.tp end

function tensor.column(p, o)
  return op.linear { name = o.name, tokens = p.tokens, n_in = o.n_in, n_out = o.n_out // p.tp, input_grad = "tp" }
end

function tensor.row(p, o)
  return op.linear { name = o.name, tokens = p.tokens, n_in = o.n_in // p.tp, n_out = o.n_out, reduce_scatter = "tp" }
end

function tensor.inner(p, width) return 1.0 * p.tokens * (width // p.tp) end

function tensor.outer(p, width) return 1.0 * p.micro_batch * (p.seq // p.tp) * width end

function tensor.inner_bias(p, o)
  return op.bias { name = o.name, tokens = p.tokens, width = o.width // p.tp }
end

function tensor.outer_bias(p, o)
  local sharded = p.rules.outer_bias_on_shard
  return op.bias {
    name = o.name, tokens = sharded and p.micro_batch * (p.seq // p.tp) or p.tokens, width = o.width,
    parameter_grad = p.rules.small_gradients_reduced and "tp" or nil,
  }
end

function tensor.norm(p, o)
  return op.norm {
    name = o.name, tokens = p.micro_batch * (p.seq // p.tp), width = o.width, gather = "tp",
    gathered_tokens = p.tokens, parameter_grad = p.rules.small_gradients_reduced and "tp" or nil,
  }
end

function tensor.heads(p, heads)
  return { heads = heads // p.tp, queries = p.seq }
end

--- Elements that one micro-batch sends to the next pipeline stage.
function tensor.boundary(p, width) return 1.0 * p.micro_batch * (p.seq // p.tp) * width end

return tensor
