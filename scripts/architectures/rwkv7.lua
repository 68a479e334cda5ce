-- RWKV-7 "Goose" (arXiv 2503.14456), World 1.5B: a linear recurrence in place of attention. A sequence keeps a matrix
-- of 64 x 64 for each head, and the last token's features for both token shifts.
local tperf = require "tperf"
local op = tperf.op

local HEAD <const> = 64
local LOW <const> = { decay = 96, rate = 96, value = 64, gate = 256 } -- ranks

-- Vectors of the model's width that are read with the stream: `parameters` of them.
local function mixed(m, p, name, vectors, keeps)
  return op.elementwise { name = name, elements = p:outer(m.hidden), parameters = vectors * m.hidden,
    forward_flops = 2 * vectors,
    backward_flops = 4 * vectors, forward_bytes = 4, backward_bytes = 6, saved_bytes = 2, keeps = keeps }
end

local function low_rank(m, p, name, rank)
  return { p:replicated { name = name .. "-down", n_in = m.hidden, n_out = rank, input_kept_elsewhere = true },
    p:column { name = name .. "-up", n_in = rank, n_out = m.hidden } }
end

local function norm(m, p, name) return p:norm { name = name, width = m.hidden } end
local shift = function(m, p) return { sequence = 2 * p.micro_batch // p.micro_batch * m.hidden } end -- 2 bytes each

local time = tperf.block("time mix", function(m, p)
  local d, heads = m.hidden, m.hidden // HEAD
  local later = p.group.key ~= "first" -- the first layer's values are what the others mix theirs with
  return {
    norm(m, p, "ln1"), mixed(m, p, "shift", 6, shift(m, p)),
    p:column { name = "receptance", n_in = d, n_out = d }, p:column { name = "key", n_in = d, n_out = d },
    p:column { name = "value", n_in = d, n_out = d },
    low_rank(m, p, "decay", LOW.decay), low_rank(m, p, "rate", LOW.rate), low_rank(m, p, "gate", LOW.gate),
    later and low_rank(m, p, "first-value", LOW.value) or {},
    mixed(m, p, "vectors", later and 6 or 5), -- w0, a0, v0, k_k, k_a, r_k
    p:scan { name = "wkv", heads = p:heads(heads).heads, head_dim = HEAD, groups = p:heads(heads).heads, state = HEAD,
      chunk = 16 },
    norm(m, p, "ln-x"), p:row { name = "output", n_in = d, n_out = d }, op.residual { elements = p:outer(d) },
  }
end)

local channel = tperf.block("channel mix", function(m, p)
  return {
    norm(m, p, "ln2"), mixed(m, p, "shift", 1, shift(m, p)),
    p:column { name = "key", n_in = m.hidden, n_out = 4 * m.hidden },
    op.activation { kind = "relu2", elements = p:inner(4 * m.hidden) },
    p:row { name = "value", n_in = 4 * m.hidden, n_out = m.hidden }, op.residual { elements = p:outer(m.hidden) },
  }
end)

local first = tperf.block("embedding", function(m, p)
  return { p:embedding { name = "table", rows = m.vocab, width = m.hidden }, norm(m, p, "ln0") }
end)

return tperf.model {
  name = "rwkv-7-1.5b", layers = 24, hidden = 2048, vocab = 65536, seq = 4096, norm = "layernorm",
  architecture = tperf.architecture {
    name = "rwkv-7", first = { first },
    groups = { { count = 1, key = "first", blocks = { time, channel } },
      { count = 23, key = "later", blocks = { time, channel } } },
  },
}
