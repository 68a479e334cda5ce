-- A model of several stacks of different widths: a vision tower before a language model, as in LLaVA-1.5 (arXiv
-- 2310.03744; the tower is CLIP's ViT-L/14 at 336 pixels, arXiv 2103.00020, the language model Vicuna 7B). All of it is
-- trained, one image and its text per sequence: how much of the time does the tower take, by length of the text?
local tperf = require "tperf"
local op, report = tperf.op, tperf.report

local o = tperf.args {
  summary = "a vision tower and a language model, trained together", system = "h100-sxm", batch = 128,
  software = "none",
  { long = "texts", value = "N,...", kind = "integers", default = "64,448,1472,3520", help = "tokens of text" },
  { long = "micro-batch", value = "N", kind = "integer", min = 1, default = 4, help = "sequences" },
}

local IMAGE <const>, PATCH <const> = 336, 14
local PATCHES <const> = (IMAGE // PATCH) * (IMAGE // PATCH) -- plus one token for the whole image
local tower = { layers = 24, hidden = 1024, heads = 16, ffn = 4096, seq = PATCHES + 1 }

-- The blocks of a stack of a given width: LayerNorms, biases and a plain MLP, or Llama's.
local function blocks_of(s)
  local plain = s == tower
  local function norm(p, name)
    return p:norm {
      name = name, width = s.hidden, root_mean_square = not plain, parameters = (plain and 2 or 1) * s.hidden,
    }
  end
  local attention = tperf.block("attention", function(_, p)
    local cut, d = p:heads(s.heads), s.hidden // s.heads
    local ops = {
      norm(p, "norm"), p:column { name = "qkv", n_in = s.hidden, local_out = 3 * cut.heads * d, bias = plain },
      op.attention {
        name = "attention", batch = p.micro_batch, heads = cut.heads, queries = cut.queries, keys = p.seq, head_dim = d,
        causal = not plain, shards = cut.shards, gather = cut.gather,
      },
      p:row { name = "proj", n_in = s.hidden, n_out = s.hidden, bias = plain },
      op.residual { elements = p:outer(s.hidden) },
    }
    if not plain then table.insert(ops, 3, op.rotary { elements = p:inner(2 * s.hidden) }) end
    return ops
  end)
  local mlp = tperf.block("mlp", function(_, p)
    return {
      norm(p, "norm"), p:column { name = "fc1", n_in = s.hidden, n_out = (plain and 1 or 2) * s.ffn, bias = plain },
      op.activation { kind = plain and "quick_gelu" or "silu", gated = not plain, elements = p:inner(s.ffn) },
      p:row { name = "fc2", n_in = s.ffn, n_out = s.hidden, bias = plain },
      op.residual { elements = p:outer(s.hidden) },
    }
  end)
  return { attention, mlp }
end

-- Before the layers: the text's embedding table; the patches, the class token and their positions; the tower's norms
-- before and after its layers; the two projections from its output to the language model's width.
local first = tperf.block("first", function(m, p)
  local rows = p.micro_batch * tower.seq
  local function product(name, n_in, n_out, bias, tokens)
    return p:replicated { name = name, n_in = n_in, n_out = n_out, bias = bias, rows = tokens }
  end
  local function norm(name)
    return op.norm { name = name, tokens = rows, width = tower.hidden, parameters = 2 * tower.hidden }
  end
  return {
    p:embedding { name = "table", rows = m.vocab, width = m.hidden },
    product("patches", 3 * PATCH * PATCH, tower.hidden, false, p.micro_batch * PATCHES),
    op.elementwise {
      name = "positions", elements = 1.0 * rows * tower.hidden, parameters = (1 + tower.seq) * tower.hidden,
      forward_flops = 1, backward_flops = 1, forward_bytes = 4, backward_bytes = 4,
    },
    norm "pre-norm", norm "post-norm", product("projector-1", tower.hidden, m.hidden, true, p.micro_batch * PATCHES),
    op.gelu { name = "gelu", elements = 1.0 * p.micro_batch * PATCHES * m.hidden },
    product("projector-2", m.hidden, m.hidden, true, p.micro_batch * PATCHES),
  }
end)

local PUBLISHED <const> = 7063427072 -- parameters

local llama = { layers = 32, hidden = 4096, heads = 32, ffn = 11008 }
local function model(text)
  return tperf.model {
    name = "llava-1.5-7b", layers = tower.layers + llama.layers, hidden = llama.hidden, heads = llama.heads,
    ffn = llama.ffn, vocab = 32064, seq = PATCHES + text, norm = "rmsnorm", gated = true, biases = false,
    architecture = tperf.architecture {
      name = "vision-language", first = { first }, parameters = PUBLISHED,
      groups = {
        { count = tower.layers, key = "tower", seq = tower.seq, blocks = blocks_of(tower) },
        { count = llama.layers, key = "language model", blocks = blocks_of(llama) },
      },
    },
  }
end

-- The parameters of the ops: 2 bytes each.
local function counted(c)
  local bytes = 0
  local function add(ops, times)
    for _, one in ipairs(ops) do bytes = bytes + times * one.weight_bytes end
  end
  for _, kind in ipairs(c.kinds) do add(kind.ops, kind.count) end
  add(c.first, 1)
  add(c.last, 1)
  return bytes // 2
end

-- Seconds of both passes of a group's layers for one micro-batch.
local function passes(kind)
  local sum = 0
  for _, one in ipairs(kind.ops) do sum = sum + kind.count * (one.forward.time + one.backward.time) end
  return sum
end

local rows, parameters = {}, nil
for i, text in ipairs(o.texts) do
  local c = tperf.train { model = model(text), system = o.system, global_batch = o.batch, dp = 8, zero = 2,
    micro_batch = o.micro_batch, software = o.software }
  parameters = counted(c)
  local seen, read = passes(c.kinds[1]), passes(c.kinds[2])
  rows[i] = {
    text = text, tokens = PATCHES + text, time = c.time, tower = seen / (seen + read), images = c.sequences_per_second,
    memory = c.memory.total, fits = c.feasible and "yes" or "no",
  }
end
print(("%.0f parameters, %.0f published; %d tokens an image"):format(parameters, PUBLISHED, PATCHES))
report.print(rows, {
  { key = "text", title = "text tokens" }, { key = "tokens", title = "sequence" }, { key = "time", unit = "s" },
  { key = "images", title = "images/s" }, { key = "tower", title = "of it the tower", unit = "%", digits = 3 },
  { key = "memory", unit = "bytes" }, { key = "fits" },
}, { title = ("8 %s, %d images an iteration"):format(o.system, o.batch) })
report.save("vision_language.csv", rows, { "text", "tokens", "time", "images", "tower", "memory", "fits" })
