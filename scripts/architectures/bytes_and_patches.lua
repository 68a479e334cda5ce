-- The byte latent transformer (arXiv 2412.09871, BLT 8B): one layer reads bytes, 32 layers of a large transformer work
-- on patches of 4.5 bytes on average, six layers write bytes. Hashes of the last 3 to 8 bytes look up six tables.
local tperf = require "tperf"
local op = tperf.op

local PATCH <const>, HASHES <const>, TABLES <const>, WINDOW <const> = 4.5, 500000, 6, 512
local BYTES <const>, PATCHES <const> = 1280, 4096 -- widths
local HEAD <const> = { [BYTES] = 64, [PATCHES] = 128 }
local SEQ <const> = 18432 -- bytes, of 4,096 patches

local function attention(p, name, width, window)
  return {
    p:norm { name = name .. "-norm", width = width, root_mean_square = true },
    p:column { name = name .. "-qkv", n_in = width, n_out = 3 * width }, op.rotary { elements = p:inner(2 * width) },
    p:attention { name = name, heads = width // HEAD[width], head_dim = HEAD[width], window = window },
    p:row { name = name .. "-proj", n_in = width, n_out = width }, op.residual { elements = p:outer(width) },
  }
end

local function mlp(p, width)
  local inner = 8 * width // 3
  return {
    p:norm { name = "mlp-norm", width = width, root_mean_square = true },
    p:column { name = "up", n_in = width, n_out = 2 * inner, local_out = 2 * inner // p.tp },
    op.activation { kind = "silu", gated = true, elements = 1.0 * p:inner_tokens() * (inner // p.tp) },
    p:row { name = "down", n_in = inner, n_out = width, local_in = inner // p.tp },
    op.residual { elements = p:outer(width) },
  }
end

local bytes = tperf.block("bytes",
  function(_, p) return { attention(p, "attention", BYTES, WINDOW), mlp(p, BYTES) } end)

local patches = tperf.block("patches", function(_, p)
  return { attention(p, "attention", PATCHES), mlp(p, PATCHES) }
end)

-- Patches attend to their bytes, before the large transformer, and bytes to their patches after it.
local function cross(p, query, key, rows, seen)
  local cut = p:heads(query // HEAD[query])
  return {
    p:norm { name = "norm", width = query, root_mean_square = true },
    p:column { name = "q", n_in = query, n_out = query },
    p:column { name = "kv", n_in = key, n_out = 2 * query, rows = rows },
    op.attention { batch = p.micro_batch, heads = cut.heads, head_dim = HEAD[query], queries = cut.queries,
      keys = math.max(math.ceil(cut.queries * seen), 1), seen = seen, keeps = {} },
    p:row { name = "proj", n_in = query, n_out = query }, op.residual { elements = p:outer(query) },
  }
end
local into = tperf.block("into patches", function(_, p)
  return cross(p, PATCHES, BYTES, math.ceil(p:outer_tokens() * PATCH), PATCH)
end)
local from = tperf.block("from patches", function(_, p)
  local rows = p:outer_tokens() / PATCH
  return op.times(math.min(rows, 1), cross(p, BYTES, PATCHES, math.max(math.floor(rows), 1), 1))
end)

local first = tperf.block("tables", function(m, p)
  local list = { p:embedding { name = "bytes", rows = m.vocab, width = BYTES } }
  for i = 1, TABLES do list[i + 1] = p:embedding { name = "hashes-" .. i, rows = HASHES, width = BYTES } end
  return list
end)

local last = tperf.block("head", function(m, p)
  return {
    p:norm { name = "norm", width = BYTES, root_mean_square = true },
    p:head { name = "head", n_in = BYTES, n_out = m.vocab }, p:cross_entropy { name = "loss", vocab = m.vocab },
  }
end)

return tperf.model {
  name = "blt-8b", layers = 1 + 32 + 6, hidden = BYTES, vocab = 260, seq = SEQ, norm = "rmsnorm",
  architecture = tperf.architecture {
    name = "bytes and patches", first = { first }, last = { last },
    groups = {
      { count = 1, key = "encoder", width = BYTES, blocks = { bytes } },
      { count = 1, key = "into patches", rate = 1 / PATCH, width = PATCHES, carries = SEQ * BYTES,
        blocks = { into, patches } },
      { count = 31, key = "patches", rate = 1 / PATCH, width = PATCHES, carries = SEQ * BYTES, blocks = { patches } },
      { count = 6, key = "decoder", width = BYTES, carries = SEQ * 2 // 9 * PATCHES,
        blocks = { from, bytes } },
    },
  },
}
