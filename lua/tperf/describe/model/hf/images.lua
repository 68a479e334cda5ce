--- Image models from Hugging Face files: model_type or diffusers class -> function(reader) -> description.
local check = require "tperf.base.check"
local classes = require "tperf.describe.model.hf.classes"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, activation = parts.keys, parts.activation

-- The end of an image encoder by its class: a head of classes, or a pooler of the class token.
local function end_of(c, known)
  local class = (c:table "architectures" or {})[1]
  if class == nil then return c:has "id2label|num_labels" and "classes" or nil end
  return known[class] or c:fail("architectures", "[1] = %s is not modelled; known: %s (docs/architectures.md)",
    check.show(class), table.concat(check.names(known), ", "))
end

local VIT <const> = { ViTForImageClassification = "classes", ViTModel = "pooler" }

-- An image encoder: a class token, learned positions, and what its class has after the layers.
local function vit(c, ending, act)
  local bias = c:flag("qkv_bias", true)
  return {
    layers = parts.layers(c), hidden = c:count(keys.hidden), heads = c:count(keys.heads),
    ffn = c:count(keys.ffn), gated = false, norm = "layernorm", activation = activation(c, act or "gelu"),
    biases = { qkv = bias, attention_out = true, mlp = true, norm = true }, positions = "learned", causal = false,
    vision = {
      image = c:count "image_size", patch = c:count "patch_size", channels = c:count("num_channels", 3),
      classes = ending == "classes" and classes.labels(c) or nil, pooler = ending == "pooler", class_token = true,
    },
  }
end

function types.vit(c) return vit(c, end_of(c, VIT)) end

local CLASSES_OF_CLIP <const> = { CLIPVisionModel = "none", CLIPVisionModelWithProjection = "projection" }

-- CLIP's image tower on its own: a norm before the layers, too, and patches without a bias. Files name the width of a
-- projection that one class has.
function types.clip_vision_model(c)
  c:assume { num_hidden_layers = 12, hidden_size = 768, num_attention_heads = 12, intermediate_size = 3072,
    image_size = 224, patch_size = 32 }
  local m, width = vit(c, "none", "quick_gelu"), c:count("projection_dim", 512)
  local ending = end_of(c, CLASSES_OF_CLIP)
  m.vision.patch_bias, m.embedding_norm = false, true
  m.vision.projection = ending == "projection" and width or nil
  return m
end

-- SigLIP's image tower on its own: no token of a class; a learned query pools the patches. Pixels beyond the last whole
-- patch are left out.
function types.siglip_vision_model(c)
  c:assume { num_hidden_layers = 12, hidden_size = 768, num_attention_heads = 12, intermediate_size = 3072,
    image_size = 224, patch_size = 16 }
  local m = vit(c, "none", "gelu_pytorch_tanh")
  end_of(c, { SiglipVisionModel = "none" })
  m.vision.class_token, m.vision.probe = false, c:flag("vision_use_head", true)
  m.vision.image = math.max(m.vision.image - m.vision.image % m.vision.patch, m.vision.patch)
  return m
end

-- ViT with a distillation token, which one class gives a head of its own.
function types.deit(c)
  local known = { DeiTForImageClassification = "token", DeiTForImageClassificationWithTeacher = "classes" }
  local class = (c:table "architectures" or {})[1]
  local m = vit(c, "classes")
  m.vision.distillation = known[class] or c:fail("architectures", "[1] = %s is not modelled; known: %s "
    .. "(docs/architectures.md)", check.show(class), table.concat(check.names(known), ", "))
  return m
end

-- ViT whose sublayers have factors on their outputs. mlp_ratio gives the MLP's width; a gated one has two thirds of it,
-- rounded up to 8. Fields of backbones only name outputs.
function types.dinov2(c)
  c:ignore "layerscale_value|apply_layernorm|reshape_hidden_states|out_features|out_indices|stage_names"
  local class = (c:table "architectures" or {})[1] or "Dinov2Model"
  if class ~= "Dinov2Model" and class ~= "Dinov2Backbone" then
    c:fail("architectures", "[1] = %s is not modelled; known: Dinov2Backbone, Dinov2Model (docs/architectures.md)",
      check.show(class))
  end
  local hidden, gated, bias = c:count("hidden_size", 768), c:flag("use_swiglu_ffn", false), c:flag("qkv_bias", true)
  local width = hidden * c:count("mlp_ratio", 4)
  local act = activation(c, "gelu")
  return {
    layers = c:count("num_hidden_layers", 12, 1, 1 << 16), hidden = hidden, heads = c:count("num_attention_heads", 12),
    ffn = gated and (width * 2 // 3 + 7) // 8 * 8 or width, gated = gated, activation = gated and "silu" or act,
    norm = "layernorm", biases = { qkv = bias, attention_out = true, mlp = true, norm = true }, positions = "learned",
    causal = false, output_scale = true,
    vision = {
      image = c:count("image_size", 224), patch = c:count("patch_size", 14), channels = c:count("num_channels", 3),
      mask_token = c:flag("use_mask_token", true),
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
