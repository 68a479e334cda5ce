--- Tensor and context parallelism (tp x cp; tp+cp in arXiv 2410.00273): like tensor, with the sequence cut by cp
-- everywhere. Attention gathers keys and values over cp; weights are replicated over it.
local fitting = require "tperf.strategy.fitting"
local op = require "tperf.op"

local context = {
  name = "context",
  extends = "tensor",
  summary = "tensor x context parallelism, keys and values gathered",
  attention = { "flash", "unfused" },
  gradient_axes = { "cp" },
  same_as = { strategy = "tensor", without = { "cp" } },
}

context.axes = {
  {
    name = "tp", meaning = "tensor parallelism: heads and features", cuts = { "features", "weights", "experts" },
    admits = function(m, p, rules)
      local fits, reason = fitting.cuts(m, p.tp, rules, true)
      if not fits then return false, reason end
      if m.hidden // p.tp < 128 then return false, "leaves fewer than 128 features" end
      return true
    end,
  },
  {
    name = "cp", meaning = "context parallelism: the sequence", cuts = { "tokens" },
    admits = function(m, p)
      if m.seq // p.cp < 128 then return false, "leaves fewer than 128 tokens" end
      return true
    end,
  },
  fitting.expert_features { "tp", "cp", "dp" },
  fitting.experts { "tp", "cp", "dp" },
  fitting.shards { "cp", "dp" },
}

function context.sequence_shards(p) return p.tp * p.cp end

function context.outer_bias(p, o)
  if o.after_attention and not p.rules.context_biases_alike then
    return op.bias { name = o.name, tokens = p:inner_tokens(), width = o.width // p.tp }
  end
  return op.bias {
    name = o.name, tokens = p:outer_tokens(), width = o.width,
    parameter_grad = p.rules.small_gradients_reduced and "tp" or nil,
  }
end

return context
