--- Nested records of a model's description: field -> checker.
local check = require "tperf.base.check"
local fields = require "tperf.describe.model.fields"

local records = {}

local flag, size, some = fields.flag, fields.size, fields.some

records.biases = {
  qkv = flag(false), -- of the query, key and value projections
  attention_out = flag(false), -- of attention's output projection
  mlp = flag(false), -- of the MLP's products
  head = flag(false), -- of the product with the output table
  norm = flag(true), -- of LayerNorms; RMSNorms have none
}

records.experts = {
  count = size { min = 2, max = 1 << 16 }, -- routed experts per layer
  top_k = size { max = 1 << 16 }, -- experts per token
  groups = size(some), -- groups of experts (node-limited routing, arXiv 2412.19437, section 2.1.2)
  top_groups = size(some), -- groups that a token's experts may come from; default: all
  ffn = size(), -- width of one routed expert
  shared = check.integer { min = 0, max = 1 << 16, default = 0 }, -- experts that process every token
  shared_ffn = size(some), -- width of one shared expert; default: that of a routed one
  shared_gate = flag(false), -- one learned vector scales the shared experts' output (Qwen1.5-MoE, Qwen2-MoE)
  router_bias = flag(false), -- a bias of the router's scores
  router_dtype = check.choice { { "fp32" }, optional = true }, -- of its product in serving; default: the stream's
  -- Further experts that the router scores and that return a token as it is, so that `top_k` is a mean (LongCat-Flash).
  zero = check.integer { min = 0, max = 1 << 16, default = 0 },
  latent = size(some), -- width that the routed experts work at, between two projections (LatentMoE)
  capacity_factor = check.number { above = 0, max = 1e6, optional = true }, -- slots over mean load; default: dropless
  imbalance = check.number { min = 1, max = 1e6, default = 1 }, -- load of the busiest expert over the mean
  -- How much more popular some experts are: the i-th most is chosen in proportion to i^-skew; 0: all alike.
  skew = check.number { min = 0, max = 4, default = 0 },
  -- The first k layers, or these, are dense.
  dense_layers = check.one_of(check.integer { min = 0, max = 1 << 16, default = 0 },
    check.list(size(), { max = 1 << 16 })),
  every = size { default = 1 }, -- of the other layers, every n-th (n, 2 n, …) has experts
}

records.window = {
  size = size(), -- tokens
  pattern = check.string { default = "w" }, -- over the layers, repeated: w windowed, f full
  -- Of layers with the window, where they differ from the model's own (MiMo-V2, Gemma 4).
  heads = size(some), -- query heads
  kv_heads = size(some), -- key and value heads
  head_dim = size(some), -- features of a head
  value_dim = size(some), -- features of a head's value
  tied_values = flag(), -- keys are the values, too
  attention_sinks = flag(), -- one learned score per head
}

records.packing = {
  mean = check.number { min = 1, max = 1 << 31, optional = true }, -- tokens per document, all of equal length
  lengths = check.list(size(), { min = 1, max = 1 << 16, optional = true }), -- or a sample of document lengths
}

records.mla = {
  q_rank = size(some), -- width of the queries' latent; default: one full query projection
  kv_rank = size(), -- width of the latent of keys and values
  nope_dim = size(), -- features of a key that are not rotated
  rope_dim = size(), -- rotated features of a key, shared by all heads
  v_dim = size(), -- features of a value
}

records.mamba = {
  state = size(), -- state elements per feature
  heads = size(), -- heads of the scan
  head_dim = size(), -- features of a head
  groups = size { default = 1 }, -- groups of B and C
  conv = size { default = 4 }, -- taps of the convolution
  expand = check.number { above = 0, max = 1024, optional = true }, -- heads head_dim / hidden; checked if given
  chunk = size { default = 256 }, -- tokens of one block of the scan
  bias = flag(false), -- of both projections
  conv_bias = flag(true), -- of the convolution
  norm = flag(true), -- a norm before the output projection (not in Falcon-H1)
}

records.vision = {
  image = size(), -- pixels along a side
  patch = size(), -- pixels along a side
  channels = size { default = 3 }, -- numbers per pixel
  classes = size(some), -- classes of the classification head; default: no head
  pooler = flag(false), -- a product and a tanh of the class token
  class_token = flag(true), -- a class token is added to the patches
  -- Another one, which learns a teacher's classes: "token"; "classes", with a head of its own (DeiT).
  distillation = check.choice { { "token", "classes" }, optional = true },
  mask_token = flag(false), -- a token that takes the place of masked patches in training (DINOv2)
  patch_bias = flag(true), -- of the product from a patch's pixels (not in CLIP)
  probe = flag(false), -- a learned query pools the patches by attention, then comes an MLP (SigLIP)
  projection = size(some), -- a product without a bias to so many features (CLIP)
}

-- Mamba-1 layers (arXiv 2312.00752).
records.mamba1 = {
  state = size { default = 16 }, -- state elements per feature
  inner = size(), -- features of the scan
  rank = size(), -- rank of the projection to the steps
  conv = size { default = 4 }, -- taps of the convolution
  bias = flag(false), -- of both projections
  conv_bias = flag(true), -- of the convolution
  -- Norms of steps, B and C: true (Jamba); "plain", without weights (Falcon-Mamba).
  norms = check.one_of(flag(false), check.choice { { "plain" } }),
}

-- Gated delta net layers (arXiv 2412.06464).
records.delta = {
  heads = size(), -- heads of queries and keys
  value_heads = size(), -- heads of values, a multiple of heads
  key_dim = size(), -- features of a head's query and key
  value_dim = size(), -- features of a head's value
  conv = size { default = 4 }, -- taps of the convolution
  chunk = size { default = 64 }, -- tokens of one block of the scan
  -- Rank of the projection to a decay for every feature of a key (Kimi Delta Attention); default: one decay per head.
  decay_rank = size(some),
  gate_rank = size(some), -- rank of the projection to the output's gate; default: a full one
}

-- Formats of stored weights: a name of tperf.describe.stored, or integers of few bits.
records.integers = {
  bits = check.number { min = 1, max = 16 }, -- of a weight
  group = size(some), -- weights that share a scale; default: a row's
  zero_points = flag(false), -- a zero of `bits` for each group, too
  scale = check.number { min = 0, max = 8, default = 2 }, -- bytes of a group's scale
}
local function format(...)
  local names = { "fp8", "fp8-block", "mxfp8", "mxfp4", "nvfp4", "int8", "int4", ... }
  return check.one_of(check.choice { names, optional = true }, check.record_of(records.integers))
end
local other = format "bf16"
records.stored = {
  method = check.string(), -- name of the method in the checkpoint
  layers = format(), -- format of the layers' weights except experts'; default: 16 bits
  experts = format(), -- format of routed experts' weights; if both and `gguf` are absent, the method is not known
  attention = other, -- of attention's weights, if it differs from `layers`; bf16: 16 bits
  recurrent = other, -- likewise of Mamba and delta net layers
  mlp = other, -- likewise of dense MLPs
  shared_experts = other, -- likewise of shared experts
  latents = other, -- likewise of the products around the latent of experts
  head = other, -- of the output's table; default: 16 bits
  table = other, -- of the input's, likewise
  gguf = check.string(some), -- the name of one of llama.cpp's mixes ("q4_k_m"), instead of formats by part
  products = check.choice { { "bf16", "fp8", "int8", "fp4" }, optional = true }, -- dtype; default: the format's
  cache = check.choice { { "fp8" }, optional = true }, -- the dtype of keys and values that it has scales for
}

-- Latent attention to the tokens that an indexer selects (DeepSeek-V3.2, arXiv 2512.02556).
records.sparse = {
  heads = size(), -- heads of the indexer
  head_dim = size(), -- features of one of its heads
  top_k = size(), -- most tokens that a query attends to
  -- Over the layers, repeated: F, a layer with an indexer; S, one that reuses the last selection (GLM-5.2).
  pattern = check.string(some),
}

-- A tower around a text model, with what leads from it to that: in counts and stored bytes, in no time or memory.
records.tower = {
  name = check.choice { { "vision", "audio" } },
  parameters = check.integer { min = 1, max = 1 << 53 },
}

-- A text encoder's parts besides its layers (BERT, arXiv 1810.04805).
records.encoder = {
  segments = check.integer { min = 0, max = 1 << 16, default = 0 }, -- rows of the table of token types
  transform = flag(false), -- a product, the activation and a norm before the output table
  transform_bias = flag(true), -- of that product
  token_classes = size(some), -- a product, the activation and a classifier of every token into as many (ELECTRA)
  pooler = flag(false), -- a product and a tanh of the first token
  pooler_classes = size(some), -- classes of a classifier after the pooler
  head = flag(true), -- false: no output table
  projection = size(some), -- a product without a bias to so many features (CLIP)
  contacts = flag(false), -- a regression over the maps of all heads, which predicts contacts of residues (ESM)
}

-- The encoder of an encoder-decoder (T5, arXiv 1910.10683); `layers` counts both, `seq` is the decoder's.
records.encoder_stack = {
  layers = size { max = 1 << 16 }, -- layers of the encoder
  seq = size(some), -- tokens of its sequence; default seq
}

-- A model that denoises images (DiT, arXiv 2212.09748): adaLN-zero in every layer.
records.diffusion = {
  out_channels = size(), -- predicted numbers per pixel
  labels = size(), -- rows of the class table, including the one for no class
  frequency = size { default = 256 }, -- features that encode a time step
}

--- Dtypes of the states that recurrent layers keep.
records.states = { "fp32", "bf16", "fp16" }

return records
