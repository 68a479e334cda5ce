-- Stable Diffusion 3 medium (arXiv 2403.03206): 24 layers of MM-DiT. Image and text have weights of their own and
-- attend to each other; one forward pass is one step of denoising one image.
local tperf = require "tperf"
local op = tperf.op

-- tokens: 1024 pixels / 8 of the autoencoder / patches of 2; CLIP's and T5's
local IMAGE <const>, TEXT <const> = 64 * 64, 154
local HEADS <const> = 24
local POOLED <const>, CONTEXT <const>, STEP <const>, CHANNELS <const> = 2048, 4096, 256, 16

-- One of both streams: its ops before and after the joint attention. last: the text is not needed beyond it.
local function stream(m, p, name, tokens, last)
  local d, rows = m.hidden, p:outer_tokens() * tokens // (IMAGE + TEXT)
  local function elements(width) return 1.0 * rows * width end
  local function product(cut, what, n_in, n_out)
    return p[cut](p, { name = name .. what, n_in = n_in, n_out = n_out, bias = true, rows = rows })
  end
  local modulation = p:replicated { name = name .. "-modulation", n_in = d, n_out = (last and 2 or 6) * d, bias = true,
    rows = p.micro_batch }
  local function norm(what) return op.norm { name = name .. what, tokens = rows, width = d, parameters = 0 } end
  local before = { modulation, norm "-norm1", product("column", "-qkv", d, 3 * d) }
  if last then return before, {} end
  return before, {
    product("row", "-proj", d, d), op.residual { name = name .. "-residual1", elements = elements(d) }, norm "-norm2",
    product("column", "-up", d, 4 * d),
    op.activation { name = name .. "-gelu", kind = "gelu", elements = p:inner_tokens(rows) * (4 * d // p.tp) },
    product("row", "-down", 4 * d, d), op.residual { name = name .. "-residual2", elements = elements(d) },
  }
end

local joint = tperf.block("joint", function(m, p)
  local before, after = stream(m, p, "image", IMAGE)
  local text_before, text_after = stream(m, p, "text", TEXT, p.group.last)
  local attention = p:attention { heads = HEADS, head_dim = m.hidden // HEADS, causal = false }
  return { before, text_before, attention, after, text_after }
end)

local first = tperf.block("inputs", function(m, p)
  local d, tokens = m.hidden, p:outer_tokens()
  local function product(name, n_in, n_out, rows)
    return p:replicated { name = name, n_in = n_in, n_out = n_out, bias = true, rows = rows }
  end
  return {
    product("patches", 4 * CHANNELS, d, tokens * IMAGE // (IMAGE + TEXT)),
    product("context", CONTEXT, d, tokens * TEXT // (IMAGE + TEXT)),
    product("time1", STEP, d, p.micro_batch), product("time2", d, d, p.micro_batch),
    product("pooled1", POOLED, d, p.micro_batch), product("pooled2", d, d, p.micro_batch),
  }
end)

local last = tperf.block("output", function(m, p)
  local d, rows = m.hidden, p:outer_tokens() * IMAGE // (IMAGE + TEXT)
  return {
    p:replicated { name = "modulation", n_in = d, n_out = 2 * d, bias = true, rows = p.micro_batch },
    op.norm { name = "norm", tokens = rows, width = d, parameters = 0 },
    p:replicated { name = "patches", n_in = d, n_out = 4 * CHANNELS, bias = true, rows = rows },
  }
end)

return tperf.model {
  name = "sd3-medium", layers = 24, hidden = 1536, vocab = 1, seq = IMAGE + TEXT, causal = false,
  architecture = tperf.architecture {
    name = "mm-dit", layer = { joint }, first = { first }, last = { last },
    groups = { { count = 23, key = "joint" }, { count = 1, key = "last", last = true } },
  },
}
