-- Flamingo 3B (arXiv 2204.14198): a frozen vision tower (NFNet-F6) and a frozen language model (Chinchilla 1.4B).
-- Trained are a resampler, which turns an image into 64 latents, and cross-attention before every layer.
local tperf = require "tperf"
local op = tperf.op

local IMAGES <const>, LATENTS <const>, GRID <const> = 5, 64, 100 -- of a sequence; of an image; features of an image
-- arXiv 2102.06171, table 3; 320 pixels
local TOWER <const> = { parameters = 435e6, flops = 2 * 377.28e9 * (320 / 576) ^ 2 }
local VISION <const>, HEADS <const>, HEAD <const> = 1536, 16, 128 -- width of the tower's features; heads everywhere

-- Attention of a stream of some width to other features, or to its own tokens and their relative positions.
local function attends(p, name, width, n_kv, keys, causal)
  local inner = HEADS * HEAD
  return {
    p:norm { name = name .. "-norm", width = width }, p:column { name = name .. "-q", n_in = width, n_out = inner },
    p:column { name = name .. "-kv", n_in = n_kv, n_out = 2 * inner, rows = keys and p.micro_batch * keys or nil,
      input_kept_elsewhere = not keys },
    causal and p:column { name = name .. "-positions", n_in = width, n_out = inner,
      rows = p:outer_tokens() // p.micro_batch } or {},
    p:attention { name = name, heads = HEADS, head_dim = HEAD, causal = causal, keys = keys },
    p:row { name = name .. "-out", n_in = inner, n_out = width }, op.residual { elements = p:outer(width) },
  }
end

local function mlp(p, name, width)
  return {
    p:norm { name = name .. "-norm", width = width },
    p:column { name = name .. "-up", n_in = width, n_out = 4 * width },
    op.activation { name = name .. "-relu2", kind = "relu2", elements = p:inner(4 * width) },
    p:row { name = name .. "-down", n_in = 4 * width, n_out = width }, op.residual { elements = p:outer(width) },
  }
end

local resampler = tperf.block("resampler", function(_, p)
  return { attends(p, "latents", VISION, VISION, IMAGES * GRID, false), mlp(p, "mlp", VISION) }
end)

local gated = tperf.block("cross", function(m, p)
  return { attends(p, "images", m.hidden, VISION, LATENTS, false), mlp(p, "gated", m.hidden) } -- a token sees one image
end)

local language = tperf.block("language", function(m, p)
  return op.frozen { attends(p, "text", m.hidden, m.hidden, nil, true), mlp(p, "mlp", m.hidden) }
end)

local first = tperf.block("tower", function(m, p)
  local images = IMAGES * p:outer_tokens() / p.seq -- the GPUs that share a sequence share its images, too
  return {
    op.forward_only(op.custom { name = "nfnet-f6", weight_bytes = 2 * TOWER.parameters, forward = {
      tensor_flops = images * TOWER.flops, bytes = 2 * TOWER.parameters } }),
    op.forward_only(p:embedding { name = "table", rows = m.vocab, width = m.hidden }),
  }
end)

local last = tperf.block("head", function(m, p)
  return {
    op.frozen(p:norm { name = "norm", width = m.hidden }),
    op.frozen(p:head { name = "head", n_in = m.hidden, n_out = m.vocab,
      tied = true }),
    p:cross_entropy { name = "loss", vocab = m.vocab },
  }
end)

return tperf.model {
  name = "flamingo-3b", layers = 6 + 24, hidden = 2048, vocab = 32000, seq = 256, tied_embeddings = true,
  architecture = tperf.architecture {
    name = "flamingo", first = { first }, last = { last },
    groups = {
      { count = 6, key = "resampler", seq = IMAGES * LATENTS, width = VISION, blocks = { resampler } },
      { count = 24, key = "text", blocks = { gated, language } },
    },
  },
}
