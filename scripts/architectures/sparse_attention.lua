-- Native sparse attention (arXiv 2502.11089), the 27B model: each query attends to means of blocks, to the 16 blocks
-- that score best, and to the last 512 tokens, with keys and values of its own for each of the three. The paper states
-- 27B parameters in all and not how wide the experts are: as here, the sum is that.
local tperf = require "tperf"
local op = tperf.op

local HEADS <const>, GROUPS <const>, KEY <const>, VALUE <const> = 64, 4, 192, 128
local BLOCK <const>, STRIDE <const>, CHOSEN <const>, SIZE <const>, WINDOW <const> = 32, 16, 16, 64, 512
local EXPERT <const>, DENSE <const> = 1472, 10944

-- The library's blocks of experts and of the first layer's MLP, from a description that has them.
local described = {
  layers = 30, hidden = 2560, vocab = 129280, seq = 8192, norm = "rmsnorm", gated = true, ffn = DENSE,
  experts = { count = 72, top_k = 6, ffn = EXPERT, shared = 2, dense_layers = 1 },
}
local function with(name, fields)
  local copy = { name = name }
  for _, more in ipairs { described, fields } do
    for field, value in pairs(more) do copy[field] = value end
  end
  return tperf.model(copy)
end
local parts = tperf.architecture.of(with("described", { heads = HEADS, kv_heads = GROUPS, head_dim = KEY }))

-- A group of the description with another attention.
local function with_attention(group, attention)
  local copy = { blocks = { attention, group.blocks[#group.blocks] } }
  for field, value in pairs(group) do copy[field] = copy[field] or value end
  return copy
end

-- Rows of what is done once a stride, and how often a step does it: decoding adds a token at a time.
local function compressed(p, heads)
  local rows = p:inner_tokens() * heads
  return math.max(rows // STRIDE, heads), math.min(rows / STRIDE / heads, 1)
end

local attention = tperf.block("attention", function(m, p)
  local cut = p:heads(HEADS, GROUPS)
  local rows, times = compressed(p, cut.kv_heads)
  local blocks = math.max((p.context + p.seq) // STRIDE, 1)
  local function branch(name, window, keeps)
    return p:attention { name = name, heads = HEADS, kv_heads = GROUPS, head_dim = KEY, value_dim = VALUE,
      window = window,
      keeps = keeps }
  end
  return {
    p:norm { name = "norm", width = m.hidden, root_mean_square = true },
    p:column { name = "q", n_in = m.hidden, n_out = HEADS * KEY, local_out = cut.heads * KEY },
    p:column { name = "kv", n_in = m.hidden, n_out = 3 * GROUPS * (KEY + VALUE),
      local_out = 3 * cut.kv_heads * (KEY + VALUE),
      input_kept_elsewhere = true },
    p:column { name = "gate", n_in = m.hidden, n_out = 3 * HEADS, local_out = 3 * cut.heads,
      input_kept_elsewhere = true },
    op.rotary { elements = 1.0 * p:inner_tokens() * (cut.heads + 2 * cut.kv_heads) * KEY },
    op.times(times, {
      p:replicated { name = "compress-k", n_in = BLOCK * KEY, n_out = KEY, rows = rows },
      p:replicated { name = "compress-v", n_in = BLOCK * VALUE, n_out = VALUE, rows = rows },
    }),
    op.attention { name = "compressed", batch = p.micro_batch, heads = cut.heads, kv_heads = cut.kv_heads,
      queries = cut.queries,
      keys = blocks, head_dim = KEY, value_dim = VALUE, seen = p.mode ~= "decode" and math.max(blocks / 2, 1) or nil },
    branch("selected", CHOSEN * SIZE, { token = 2 * cut.kv_heads * (KEY + VALUE) }), branch("window", WINDOW),
    op.elementwise { name = "gates", elements = 1.0 * p:inner_tokens() * cut.heads * VALUE, forward_flops = 5,
      backward_flops = 9, forward_bytes = 8, backward_bytes = 14, saved_bytes = 6 },
    p:row { name = "proj", n_in = HEADS * VALUE, n_out = m.hidden }, op.residual { elements = p:outer(m.hidden) },
  }
end)

return with("nsa-27b", { architecture = tperf.architecture {
  name = "native sparse attention",
  groups = { with_attention(parts.groups[1], attention), with_attention(parts.groups[2], attention) },
} })
