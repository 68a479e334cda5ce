-- xLSTM 7B (arXiv 2503.13427): 32 layers of an mLSTM with a matrix memory, each with an MLP. A sequence keeps a matrix
-- of 256 x 512 for each of 8 heads in 4 bytes, whatever its length.
local tperf = require "tperf"
local op = tperf.op

local HEADS <const>, KEYS <const>, VALUES <const>, MLP <const> = 8, 256, 512, 10944 -- features of a head; of an MLP

local mlstm = tperf.block("mlstm", function(m, p)
  local d, heads = m.hidden, p:heads(HEADS).heads
  return {
    p:norm { name = "norm", width = d, root_mean_square = true },
    p:column { name = "qk", n_in = d, n_out = 2 * HEADS * KEYS },
    p:column { name = "v", n_in = d, n_out = HEADS * VALUES,
      input_kept_elsewhere = true },
    p:column { name = "output-gate", n_in = d, n_out = d, input_kept_elsewhere = true },
    p:column { name = "gates", n_in = d, n_out = 2 * HEADS, bias = true, input_kept_elsewhere = true },
    p:scan { name = "memory", heads = heads, head_dim = VALUES, groups = heads, state = KEYS, chunk = 64 },
    p:norm { name = "head-norm", width = d, root_mean_square = true },
    op.activation { kind = "silu", gated = true, elements = p:inner(d) }, -- a sigmoid, times the memory's output
    p:row { name = "out", n_in = d, n_out = d }, op.residual { elements = p:outer(d) },
  }
end)

local mlp = tperf.block("mlp", function(m, p)
  return {
    p:norm { name = "norm", width = m.hidden, root_mean_square = true },
    p:column { name = "up", n_in = m.hidden, n_out = 2 * MLP },
    op.activation { kind = "silu", gated = true, elements = p:inner(MLP) },
    p:row { name = "down", n_in = MLP, n_out = m.hidden }, op.residual { elements = p:outer(m.hidden) },
  }
end)

return tperf.model {
  name = "xlstm-7b", layers = 32, hidden = 4096, vocab = 50304, seq = 8192, norm = "rmsnorm",
  architecture = tperf.architecture { name = "xlstm", layer = { mlstm, mlp } },
}
