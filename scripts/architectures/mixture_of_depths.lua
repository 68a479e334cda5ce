-- Mixture of depths (arXiv 2404.02258): in every second layer a router lets an eighth of the tokens through; the others
-- pass it by. The paper gives no sizes; these are TinyLlama's (1.1 B), with 11 routers of one vector each.
local tperf = require "tperf"
local op = tperf.op

local HEADS <const>, KV_HEADS <const>, HEAD <const>, MLP <const> = 32, 4, 64, 5632
local CAPACITY <const> = 1 / 8

-- The rows of the stream that a layer works on, and how often it does: a decode step of few requests has, on average, a
-- token for it in a part of the steps.
local function chosen(p)
  local tokens = p:outer_tokens()
  if not p.group.routed then return tokens, 1 end
  local rows = tokens * CAPACITY
  return math.max(math.floor(rows), 1), math.min(rows, 1)
end

local router = tperf.block("router", function(m, p)
  if not p.group.routed then return {} end
  return { p:replicated { name = "router", n_in = m.hidden, n_out = 1 } }
end)

local attention = tperf.block("attention", function(m, p)
  local rows, times = chosen(p)
  local cut, d = p:heads(HEADS, KV_HEADS), HEAD
  local part = p.group.routed and CAPACITY or 1
  local width = (cut.heads + 2 * cut.kv_heads) * d
  return op.times(times, {
    op.norm { name = "norm", tokens = rows, width = m.hidden, root_mean_square = true },
    p:column { name = "qkv", n_in = m.hidden, n_out = (HEADS + 2 * KV_HEADS) * d, local_out = width, rows = rows },
    op.rotary { elements = 1.0 * p:inner_tokens(rows) * (cut.heads + cut.kv_heads) * d },
    op.attention { batch = p.micro_batch, heads = cut.heads, kv_heads = cut.kv_heads, head_dim = d,
      queries = math.max(math.floor(cut.queries * part), 1), keys = math.max(math.floor((p.context + p.seq) * part), 1),
      causal = true },
    p:row { name = "proj", n_in = HEADS * d, n_out = m.hidden, rows = rows },
    op.residual { elements = 1.0 * rows * m.hidden },
  })
end)

local mlp = tperf.block("mlp", function(m, p)
  local rows, times = chosen(p)
  return op.times(times, {
    op.norm { name = "norm", tokens = rows, width = m.hidden, root_mean_square = true },
    p:column { name = "up", n_in = m.hidden, n_out = 2 * MLP, rows = rows },
    op.activation { kind = "silu", gated = true, elements = 1.0 * p:inner_tokens(rows) * MLP / p.tp },
    p:row { name = "down", n_in = MLP, n_out = m.hidden, rows = rows },
    op.residual { elements = 1.0 * rows * m.hidden },
  })
end)

local groups = {}
for pair = 1, 11 do
  groups[2 * pair - 1] = { count = 1, key = "all tokens" }
  groups[2 * pair] = { count = 1, key = "an eighth", routed = true }
end

return tperf.model {
  name = "mixture-of-depths-1.1b", layers = 22, hidden = 2048, vocab = 32000, seq = 2048,
  norm = "rmsnorm",
  architecture = tperf.architecture { name = "mixture of depths", layer = { router, attention, mlp }, groups = groups },
}
