-- CLIP ViT-B/32 (arXiv 2103.00020): a tower for images and one for texts, trained to tell the pairs of a whole batch
-- apart. So the loss gathers the embeddings of all replicas, and compares those of this GPU with them.
local tperf = require "tperf"
local op = tperf.op

local PIXELS <const>, PATCH <const>, IMAGE <const> = 224, 32, 768 -- IMAGE: width of the tower
local TEXT <const>, TOKENS <const>, JOINT <const>, HEAD <const> = 512, 77, 512, 64
local PATCHES <const> = (PIXELS // PATCH) * (PIXELS // PATCH)
local FP32 <const> = 4

local layer = tperf.block("layer", function(_, p)
  local d = p.group.width
  return {
    p:norm { name = "norm1", width = d }, p:column { name = "qkv", n_in = d, n_out = 3 * d, bias = true },
    p:attention { heads = d // HEAD, head_dim = HEAD, causal = p.group.causal },
    p:row { name = "proj", n_in = d, n_out = d, bias = true }, op.residual { elements = p:outer(d) },
    p:norm { name = "norm2", width = d }, p:column { name = "up", n_in = d, n_out = 4 * d, bias = true },
    op.gelu { elements = p:inner(4 * d) },
    p:row { name = "down", n_in = 4 * d, n_out = d, bias = true }, op.residual { elements = p:outer(d) },
  }
end)

local function product(p, name, width)
  return op.linear { name = name, tokens = p.micro_batch, n_in = width, n_out = JOINT }
end

local inputs = tperf.block("inputs", function(m, p)
  local pairs_here = p.micro_batch
  return {
    op.conv { name = "patches", batch = pairs_here, size = { PIXELS, PIXELS }, kernel = PATCH, stride = PATCH, n_in = 3,
      n_out = IMAGE },
    op.embedding { name = "image-positions", tokens = pairs_here * (PATCHES + 1), rows = 1 + PATCHES + 1,
      width = IMAGE }, -- and the class
    op.norm { name = "image-norm", tokens = pairs_here * (PATCHES + 1), width = IMAGE },
    op.embedding { name = "table", tokens = pairs_here * TOKENS, rows = m.vocab, width = TEXT },
    op.embedding { name = "text-positions", tokens = pairs_here * TOKENS, rows = TOKENS, width = TEXT },
  }
end)

-- The embeddings of one modality, gathered, and its products with those of the other one on this GPU.
local function compare(p, name)
  local all = p.dp * p.micro_batch
  return {
    op.collective { name = name .. "s", kind = "all_gather", axis = "dp", bytes = FP32 * p.micro_batch * JOINT,
      share = true },
    op.custom { name = name .. "-logits", dtype = "fp32",
      forward = { tensor_flops = 2 * p.micro_batch * all * JOINT, bytes = FP32 * (all * JOINT + p.micro_batch * all) },
      backward = { tensor_flops = 4 * p.micro_batch * all * JOINT,
        bytes = 2 * FP32 * (all * JOINT + p.micro_batch * all) }, saved_bytes = FP32 * all * JOINT },
    op.cross_entropy { name = name .. "-loss", tokens = p.micro_batch, vocab = all, dtype = "fp32" },
  }
end

local loss = tperf.block("loss", function(_, p)
  return {
    op.norm { name = "image-norm", tokens = p.micro_batch, width = IMAGE }, product(p, "image-out", IMAGE),
    op.norm { name = "text-norm", tokens = p.micro_batch, width = TEXT }, product(p, "text-out", TEXT),
    op.custom { name = "temperature", dtype = "fp32", weight_bytes = FP32 }, -- one parameter
    compare(p, "image"), compare(p, "text"),
  }
end)

return tperf.model {
  name = "clip-vit-b-32", layers = 12 + 12, hidden = IMAGE, vocab = 49408, seq = TOKENS,
  architecture = tperf.architecture {
    name = "clip", first = { inputs }, last = { loss }, replicas = true,
    groups = {
      { count = 12, key = "images", seq = PATCHES + 1, width = IMAGE, causal = false, blocks = { layer } },
      { count = 12, key = "texts", width = TEXT, causal = true, blocks = { layer } },
    },
    admits = function(_, layout)
      for axis, size in pairs(layout) do
        if type(size) == "number" and size > 1 then return false, ("has no cut for %s"):format(axis) end
      end
      return true
    end,
  },
}
