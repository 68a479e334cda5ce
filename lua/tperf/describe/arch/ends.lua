--- The blocks before and after the layers: embedding tables, image patches, final norm, head and loss.
-- The table and the head are sharded by the vocabulary, padded to a multiple of the shards (arXiv 1909.08053, section
-- 3). Saved: the embedding's dropout mask; the inputs of the final norm and of the head; the logits in fp32 (arXiv
-- 2205.05198, section 4.3).
local lazy = require "tperf.base.lazy"
local block = require "tperf.describe.block"
local cross = lazy.module "tperf.describe.arch.layer.cross"
local dit = lazy.module "tperf.describe.arch.layer.dit"
local fitting = require "tperf.describe.strategy.fitting"
local images = require "tperf.describe.model.images"
local kernels = require "tperf.describe.kernels"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"
local sampling = lazy.module "tperf.describe.arch.sampling"

local ends = {}

local BYTES = 2

-- The axis over which each GPU computes only its own rows of the stream.
local function shards_axis(p) return p.sequence_parallel and p.features or nil end

-- The width of positions and of the norm after them.
local function start_of(m) return m.encoder and m.embedding_width or m.hidden end

-- Learned positions, an encoder's token types and an image's own tokens, added to every row.
local function positions(m, p)
  if m.positions == "relative" then return cross.positions(m, p) end
  local width = start_of(m)
  local class = m.vision and images.vectors(m.vision) * m.hidden or 0
  local segments = m.encoder and m.encoder.segments * width or 0
  local rows = (m.positions == "learned" and m.position_rows * width or 0) + segments
  if class + rows == 0 then return nil end
  return op.elementwise {
    name = "positions", elements = p:outer(width), parameters = class + rows, forward_flops = 1, backward_flops = 1,
    forward_bytes = 2 * BYTES, backward_bytes = 2 * BYTES, parameter_grad = shards_axis(p), dtype = p.dtype,
  }
end

ends.embedding = block("embedding", function(m, p)
  local ops, width = {}, m.embedding_width or m.hidden
  local function add(one) ops[#ops + 1] = one end
  if m.vocab then
    add(p:embedding { name = "table", rows = m.vocab, width = width })
    if width ~= start_of(m) then add(p:replicated { name = "projection", n_in = width, n_out = m.hidden }) end
  end
  if m.vision then
    local v = m.vision
    add(p:replicated { name = "patches", n_in = v.channels * v.patch * v.patch, n_out = m.hidden,
      bias = v.patch_bias })
  end
  add(positions(m, p))
  if m.encoder_stack then parts.append(ops, cross.embedding(m, p)) end
  if m.diffusion then parts.append(ops, dit.conditioning(m, p)) end
  if m.embedding_norm then add(parts.norm(m, p, "norm", start_of(m))) end
  if m.dropout and p.mode == "train" then add(op.dropout { name = "dropout", elements = p:outer(start_of(m)) }) end
  if start_of(m) ~= m.hidden then
    add(p:replicated { name = "projection", n_in = width, n_out = m.hidden, bias = true })
  end
  return ops
end, { dense = true, linear = true })

local OWN_BYTES <const> = 4 -- of each logit, kept without a profile: the softmax in fp32

-- The loss as a profile names it: kernels/losses.yaml.
local function as_in(one, loss)
  if not loss then return one end
  local bytes, logits = kernels.of "losses"[loss], one:saved_bytes() / OWN_BYTES
  local held = math.max(bytes.held * logits, 1) -- 0 would mean as many as it reads and writes
  return one:hold(bytes.kept * logits, held):move(bytes.forward * logits, bytes.backward * logits)
end

local CHUNKS <const> = 2 -- inputs of the head: at most so much of 16-bit logits exists if they are nowhere whole

-- The head's product where the loss takes its rows in chunks of at least their number / ceil(vocab / width), rounded up
-- to a power of two (Liger): their logits are up to twice as large as all inputs.
local function in_chunks(head, loss)
  if not loss or kernels.of "losses"[loss].whole then return head end
  return head:hold(head:saved_bytes(), CHUNKS * head:saved_bytes())
end

--- The product with the output table and, in training, the loss. shared: another op of this GPU holds the table.
function ends.logits(m, p, shared)
  local width = m.embedding_width or m.hidden
  local last = p.mode ~= "train" and p.micro_batch or nil -- only the last token of a prompt needs logits
  local rows = p.logits ~= "all" and last or nil -- or all of them, to score the prompt
  local own_bias = m.tied_embeddings and m.biases.head and not shared -- the input table has no bias to share
  local head = p:head {
    name = "head", n_in = width, n_out = m.vocab, bias = m.biases.head and not own_bias, tied = m.tied_embeddings,
    weights_elsewhere = shared, rows = rows,
  }
  head = p.padded_vocabulary == false and head or head:pad()
  local ops = { p.mode == "train" and in_chunks(head, p.loss) or head }
  if own_bias then
    ops[2] = op.bias {
      name = "head-bias", tokens = rows or p:inner_tokens(), width = fitting.padded(m.vocab, p[p.features]),
      dtype = p.dtype,
    }
  end
  if p.mode == "train" then
    ops[#ops + 1] = as_in(p:cross_entropy { name = "loss", vocab = m.vocab }, p.loss)
  elseif p.features and p[p.features] > 1 then -- every GPU samples from all logits
    ops[#ops + 1] = op.collective {
      name = "logits", kind = "all_gather", axis = p.features, bytes = BYTES * (rows or p:inner_tokens()) * m.vocab,
    }
  end
  if p.sampling then parts.append(ops, sampling.ops(m, p, last)) end
  return ops
end

-- A pooler (a product and a tanh on the first token of every sequence) and an encoder's classifier after it.
local function pooler(m, p)
  local classes = m.encoder and m.encoder.pooler_classes
  local function product(name, n_out)
    return p:replicated { name = name, n_in = m.hidden, n_out = n_out, bias = true, rows = p.micro_batch }
  end
  return { product("pooler", m.hidden), classes and product("classes", classes) }
end

-- A learned query of every image attends to its patches; an MLP with a norm of its own follows (SigLIP). The query's
-- parameters are among the patches'.
local function probe(m, p)
  local one = p.micro_batch
  local function product(name, n_in, n_out, rows)
    return p:replicated { name = name, n_in = n_in, n_out = n_out, bias = true, rows = rows }
  end
  return {
    product("probe-query", m.hidden, m.hidden, one), product("probe-keys", m.hidden, 2 * m.hidden),
    op.attention {
      name = "probe-attention", batch = one, heads = m.heads, kv_heads = m.heads, queries = 1, keys = p.seq,
      head_dim = m.head_dim, causal = false, dtype = p.dtype,
    },
    product("probe-output", m.hidden, m.hidden, one),
    op.norm { name = "probe-norm", tokens = one, width = m.hidden, parameters = 2 * m.hidden, dtype = p.dtype },
    product("probe-widen", m.hidden, m.ffn, one),
    op.activation { kind = m.activation, elements = 1.0 * one * m.ffn, dtype = p.dtype },
    product("probe-narrow", m.ffn, m.hidden, one),
  }
end

-- The product of pooled features without a bias; and the regression over an encoder's maps, of which a pass that asks
-- for no contacts computes nothing.
local function projected(m, p)
  local o, ops = m.encoder or m.vision or {}, {}
  if o.projection then
    ops[1] = p:replicated { name = "projection", n_in = m.hidden, n_out = o.projection, rows = p.micro_batch }
  end
  if o.contacts then
    ops[#ops + 1] = p:replicated { name = "contacts", n_in = m.layers * m.heads, n_out = 1, bias = true, rows = 1 }
  end
  return ops
end

local function transformed(m, p, width, bias)
  return {
    p:replicated { name = "transform", n_in = m.hidden, n_out = width, bias = bias },
    op.activation { kind = m.activation, elements = p:outer(width), dtype = p.dtype },
  }
end

local function transform(m, p)
  local width = m.embedding_width or m.hidden
  local ops = transformed(m, p, width, m.encoder.transform_bias)
  ops[#ops + 1] = parts.norm(m, p, "transform-norm", width)
  return ops
end

local function token_classes(m, p)
  local ops = transformed(m, p, m.hidden, true)
  ops[#ops + 1] = p:replicated { name = "classes", n_in = m.hidden, n_out = m.encoder.token_classes, bias = true }
  return ops
end

ends.head = block("head", function(m, p)
  local ops, width = {}, m.embedding_width or m.hidden
  if m.diffusion then return dit.pixels(m, p) end
  if m.encoder_stack then parts.append(ops, cross.last(m, p)) end
  if m.final_norm then ops[#ops + 1] = parts.norm(m, p, "norm") end
  if (m.encoder or m.vision or {}).pooler then parts.append(ops, pooler(m, p)) end
  if m.vision and m.vision.probe then parts.append(ops, probe(m, p)) end
  parts.append(ops, projected(m, p))
  if m.encoder and m.encoder.token_classes then parts.append(ops, token_classes(m, p)) end
  if m.classes then -- of every token
    return parts.append(ops, m.classes > 0 and { p:replicated {
      name = "classes", n_in = m.hidden, n_out = m.classes, bias = m.biases.head,
    } } or {})
  end
  if m.encoder and not m.encoder.head then return ops end
  if m.encoder and m.encoder.transform then parts.append(ops, transform(m, p)) end
  if m.vocab then
    if width ~= start_of(m) then
      ops[#ops + 1] = p:replicated { name = "projection", n_in = m.hidden, n_out = width }
    end
    parts.append(ops, ends.logits(m, p))
  elseif m.vision and m.vision.classes then
    for _, name in ipairs(m.vision.distillation == "classes" and { "classes", "taught" } or { "classes" }) do
      ops[#ops + 1] = p:replicated {
        name = name, n_in = m.hidden, n_out = m.vision.classes, bias = true, rows = p.micro_batch,
      }
    end
  end
  return ops
end, { dense = true, linear = true })

return ends
