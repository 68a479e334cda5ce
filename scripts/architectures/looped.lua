-- Ouro 1.4B (arXiv 2510.25741): 24 layers that every token passes four times. Weights have names, so each stage of a
-- pipeline holds those that it needs once, whatever the number of loops; each loop has a cache of its own.
local tperf = require "tperf"
local op = tperf.op

local LAYERS <const>, LOOPS <const>, HEADS <const>, HEAD <const>, MLP <const> = 24, 4, 16, 128, 5632

local function norm(m, p, name)
  return p:norm { name = name, width = m.hidden, root_mean_square = true,
    shared_as = ("%s-%d"):format(name, p.group.layer) }
end

local function product(p, kind, name, n_in, n_out)
  return p[kind](p, { name = name, n_in = n_in, n_out = n_out, shared_as = ("%s-%d"):format(name, p.group.layer) })
end

local attention = tperf.block("attention", function(m, p)
  local d = HEADS * HEAD
  return {
    norm(m, p, "norm1"), product(p, "column", "qkv", m.hidden, 3 * d), op.rotary { elements = p:inner(2 * d) },
    p:attention { heads = HEADS, head_dim = HEAD },
    product(p, "row", "proj", d, m.hidden), norm(m, p, "norm2"), op.residual { elements = p:outer(m.hidden) },
  }
end)

local mlp = tperf.block("mlp", function(m, p)
  return {
    norm(m, p, "norm3"), product(p, "column", "up", m.hidden, 2 * MLP),
    op.activation { kind = "silu", gated = true, elements = p:inner(MLP) },
    product(p, "row", "down", MLP, m.hidden), norm(m, p, "norm4"), op.residual { elements = p:outer(m.hidden) },
  }
end)

local groups = {}
for _ = 1, LOOPS do
  for layer = 1, LAYERS do groups[#groups + 1] = { count = 1, layer = layer, key = "layer " .. layer } end
end

return tperf.model {
  name = "ouro-1.4b", layers = LOOPS * LAYERS, hidden = 2048, vocab = 49152, seq = 4096, norm = "rmsnorm",
  architecture = tperf.architecture { name = "looped", layer = { attention, mlp }, groups = groups },
}
