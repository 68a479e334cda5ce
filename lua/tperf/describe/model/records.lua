--- The nested records of a model's description: field -> checker.
local check = require "tperf.base.check"
local fields = require "tperf.describe.model.fields"

local records = {}

local flag, size, some = fields.flag, fields.size, fields.some

records.biases = {
  qkv = flag(false), -- of the projections to queries, keys and values
  attention_out = flag(false), -- of attention's output projection
  mlp = flag(false), -- of the MLP's products
  head = flag(false), -- of the product with the output table
  norm = flag(true), -- of LayerNorms; an RMSNorm has none
}

records.experts = {
  count = size { min = 2, max = 1 << 16 }, -- routed experts of a layer
  top_k = size { max = 1 << 16 }, -- of them a token goes to
  groups = size(some), -- that the experts are divided into (node-limited routing, arXiv 2412.19437, section 2.1.2)
  top_groups = size(some), -- of them a token's experts are of; absent: all
  ffn = size(), -- width of one routed expert
  shared = check.integer { min = 0, max = 1 << 16, default = 0 }, -- experts every token meets
  shared_ffn = size(some), -- width of one shared expert; that of a routed one if absent
  shared_gate = flag(false), -- one learned vector scales the shared experts' output (Qwen1.5-MoE, Qwen2-MoE)
  router_bias = flag(false), -- of the router's scores
  latent = size(some), -- width that the routed experts work at, with a projection there and back (LatentMoE)
  capacity_factor = check.number { above = 0, max = 1e6, optional = true }, -- absent: dropless
  imbalance = check.number { min = 1, max = 1e6, default = 1 }, -- load of the busiest expert over the mean
  -- How much more popular some experts are: the i-th most is chosen in proportion to i^-skew; 0: all alike.
  skew = check.number { min = 0, max = 4, default = 0 },
  -- The first k layers, or these, are dense.
  dense_layers = check.one_of(check.integer { min = 0, max = 1 << 16, default = 0 },
    check.list(size(), { max = 1 << 16 })),
  every = size { default = 1 }, -- of the other layers every n-th (n, 2 n, …) has experts
}

records.packing = {
  mean = check.number { min = 1, max = 1 << 31, optional = true }, -- tokens of a document; all are as long
  lengths = check.list(size(), { min = 1, max = 1 << 16, optional = true }), -- or a sample of them
}

records.mla = {
  q_rank = size(some), -- absent: one full query projection
  kv_rank = size(), -- width of the latent of keys and values
  nope_dim = size(), -- of a key, not rotated
  rope_dim = size(), -- of a key, rotated; shared by all heads
  v_dim = size(), -- of a value
}

records.mamba = {
  state = size(), -- numbers of state for each feature
  heads = size(), -- of the scan
  head_dim = size(), -- features of a head
  groups = size { default = 1 }, -- of B and C
  conv = size { default = 4 }, -- taps of the convolution
  expand = check.number { above = 0, max = 1024, optional = true }, -- heads head_dim / hidden, checked when given
  chunk = size { default = 256 }, -- tokens of one block of the scan
  bias = flag(false), -- of both projections
  conv_bias = flag(true), -- of the convolution
}

records.vision = {
  image = size(), -- pixels along a side
  patch = size(), -- pixels along a side
  channels = size { default = 3 }, -- numbers of a pixel
  classes = size(some), -- of the classification head; absent: a bare encoder
  class_token = flag(true), -- a token that stands for the whole image
}

-- Mamba-1 layers (arXiv 2312.00752).
records.mamba1 = {
  state = size { default = 16 }, -- numbers of state for each feature
  inner = size(), -- features of the scan
  rank = size(), -- of the projection to the steps
  conv = size { default = 4 }, -- taps of the convolution
  bias = flag(false), -- of both projections
  conv_bias = flag(true), -- of the convolution
  norms = flag(false), -- of steps, B and C (Jamba)
}

-- Gated delta net layers (arXiv 2412.06464).
records.delta = {
  heads = size(), -- of queries and keys
  value_heads = size(), -- of values: a multiple of heads
  key_dim = size(), -- features of a head's query and key
  value_dim = size(), -- features of a head's value
  conv = size { default = 4 }, -- taps of the convolution
  chunk = size { default = 64 }, -- tokens of one block of the scan
}

-- Latent attention to the tokens that an indexer chooses (DeepSeek-V3.2, arXiv 2512.02556).
local format = check.choice {
  { "fp8", "fp8-block", "mxfp8", "mxfp4", "nvfp4", "int8", "int4" }, optional = true, -- see tperf.describe.stored
}
records.stored = {
  method = check.string(), -- as the checkpoint calls it
  layers = format, -- of the layers' weights but for experts' (16 bits)
  experts = format, -- of routed experts' weights; without both the method is not known
}

records.sparse = {
  heads = size(), -- of the indexer
  head_dim = size(), -- features of one of them
  top_k = size(), -- tokens that a query attends to, at most
}

-- What an encoder of text has besides layers (BERT, arXiv 1810.04805).
records.encoder = {
  segments = check.integer { min = 0, max = 1 << 16, default = 0 }, -- rows of the table of token types
  transform = flag(false), -- a product, the activation and a norm before the output table
  pooler = flag(false), -- a product and a tanh of the first token
  pooler_classes = size(some), -- of a classification of what the pooler made
  head = flag(true), -- false: no output table; the encoder is used bare
}

-- The encoder of an encoder-decoder (T5, arXiv 1910.10683); `layers` counts both, `seq` is the decoder's.
records.encoder_stack = {
  layers = size { max = 1 << 16 }, -- of the encoder
  seq = size(some), -- tokens of its sequence; else seq
}

-- Denoising images in place of classifying them (DiT, arXiv 2212.09748): adaLN-zero in every layer.
records.diffusion = {
  out_channels = size(), -- numbers of a pixel that it predicts
  labels = size(), -- rows of the table of classes, the one of no class included
  frequency = size { default = 256 }, -- features that a time step is spread into
}

return records
