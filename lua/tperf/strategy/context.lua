--- Tensor and context parallelism (tp x cp; tp+cp in arXiv 2410.00273): like tensor, with the sequence cut by cp
-- everywhere. Attention gathers keys and values over cp; weights are replicated over it.
local op = require "tperf.op"

local context = {
  name = "context",
  summary = "tensor x context parallelism, keys and values gathered",
  attention = { "flash", "unfused" },
  gradient_axes = { "cp" },
}

context.axes = {
  {
    name = "tp", meaning = "tensor parallelism: heads and features",
    admits = function(m, p)
      if m.heads % p.tp ~= 0 then return false, "does not divide the heads" end
      if m.hidden % p.tp ~= 0 then return false, "does not divide the hidden size" end
      if m.hidden // p.tp < 128 then return false, "leaves fewer than 128 features" end
      return true
    end,
  },
  {
    name = "cp", meaning = "context parallelism: the sequence",
    admits = function(m, p)
      if m.seq // p.cp < 128 then return false, "leaves fewer than 128 tokens" end
      return true
    end,
  },
}

function context.sequence_shards(p) return p.tp * p.cp end

local function tokens(p) return p.micro_batch * (p.seq // p.cp) end
local function shard(p) return p.micro_batch * (p.seq // (p.tp * p.cp)) end

function context.column(p, o)
  return op.linear { name = o.name, tokens = tokens(p), n_in = o.n_in, n_out = o.n_out // p.tp, input_grad = "tp" }
end

function context.row(p, o)
  return op.linear { name = o.name, tokens = tokens(p), n_in = o.n_in // p.tp, n_out = o.n_out, reduce_scatter = "tp" }
end

function context.inner(p, width) return 1.0 * tokens(p) * (width // p.tp) end

function context.outer(p, width) return 1.0 * shard(p) * width end

function context.inner_bias(p, o)
  return op.bias { name = o.name, tokens = tokens(p), width = o.width // p.tp }
end

function context.outer_bias(p, o)
  if o.after_attention and not p.rules.context_biases_alike then
    return op.bias { name = o.name, tokens = tokens(p), width = o.width // p.tp }
  end
  return op.bias {
    name = o.name, tokens = shard(p), width = o.width,
    parameter_grad = p.rules.small_gradients_reduced and "tp" or nil,
  }
end

function context.norm(p, o)
  return op.norm {
    name = o.name, tokens = shard(p), width = o.width, gather = "tp", gathered_tokens = tokens(p),
    parameter_grad = p.rules.small_gradients_reduced and "tp" or nil,
  }
end

function context.heads(p, heads)
  return { heads = heads // p.tp, queries = p.seq // p.cp, gather = "cp" }
end

function context.boundary(p, width) return 1.0 * shard(p) * width end

return context
