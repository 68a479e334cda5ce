--- Image models from Hugging Face files: model_type or diffusers class -> function(reader) -> description.
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, activation = parts.keys, parts.activation

-- An image encoder: a class token, learned positions, and a head if the file has labels.
function types.vit(c)
  local labels, count = c:table "id2label", 0
  for _ in pairs(labels or {}) do count = count + 1 end
  local bias = c:flag("qkv_bias", true)
  return {
    layers = parts.layers(c), hidden = c:count(keys.hidden), heads = c:count(keys.heads),
    ffn = c:count(keys.ffn), gated = false, norm = "layernorm", activation = activation(c, "gelu"),
    biases = { qkv = bias, attention_out = true, mlp = true, norm = true }, positions = "learned", causal = false,
    vision = {
      image = c:count "image_size", patch = c:count "patch_size", channels = c:count("num_channels", 3),
      classes = c:count("num_labels", count > 0 and count or false), class_token = true,
    },
  }
end

-- Diffusers files use either class name. Its positions are fixed but stored like parameters. The checkpoint's time step
-- and class go through two products once (arXiv 2212.09748); the library's copies of them in every layer are left out,
-- as in the published figure.
function types.DiTTransformer2DModel(c)
  local kind = c:text("norm_type", "ada_norm_zero")
  if kind ~= "ada_norm_zero" then
    c:fail("norm_type", '= "%s" is not modelled; known: ada_norm_zero (docs/architectures.md)', kind)
  end
  local heads, head_dim = c:count("num_attention_heads", 16), c:count("attention_head_dim", 72)
  local patch, side, channels = c:count("patch_size", 2), c:count("sample_size", 32), c:count("in_channels", 4)
  local bias = c:flag("attention_bias", true)
  c:ignore "norm_num_groups|norm_elementwise_affine"
  return {
    layers = c:count("num_layers", 28, 1, 1 << 16), hidden = heads * head_dim, heads = heads, gated = false,
    norm = "layernorm", activation = activation(c, "gelu-approximate", "activation_fn"), positions = "learned",
    causal = false, final_norm = false, biases = { qkv = bias, attention_out = bias, mlp = true, norm = false },
    vision = { image = side, patch = patch, channels = channels, class_token = false },
    diffusion = {
      out_channels = c:count("out_channels", channels), labels = c:count("num_embeds_ada_norm", 1000) + 1,
    },
  }
end
types.Transformer2DModel = types.DiTTransformer2DModel

return types
