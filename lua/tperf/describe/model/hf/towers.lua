--- The towers of models around a text model, for images and sound: the parameters that their classes have, with what
--- leads from a tower to the text model. They are counted; no time and no memory has them. Structure, names and
--- defaults are those of the published classes of the same names (transformers; the repositories of InternVL and Kimi).
local with = require "tperf.base.tables".with

local towers = {}

local LIMIT <const> = 2.0 ^ 53

local function linear(n_in, n_out, bias) return 1.0 * n_in * n_out + (bias and n_out or 0) end

-- Layers of full attention with an MLP. t: layers, hidden, ffn, bias (true: of all products), gated, norm (weights of
-- one norm's feature: LayerNorm 2, RMSNorm 1), more (further weights of a layer).
local function layers(t)
  local h = t.hidden
  local attention = 4 * linear(h, h, t.bias)
  local mlp = (t.gated and 2 or 1) * linear(h, t.ffn, t.bias) + linear(t.ffn, h, t.bias)
  return t.layers * (attention + mlp + 2.0 * t.norm * h + (t.more or 0))
end

-- A product from the pixels of a patch.
local function patches(channels, side, hidden, bias, frames)
  return linear(1.0 * channels * side * side * (frames or 1), hidden, bias)
end

local function grid(image, patch) return 1.0 * (image // patch) * (image // patch) end

-- Two products with an activation between them.
local function two(n_in, inner, n_out, bias) return linear(n_in, inner, bias) + linear(inner, n_out, bias) end

local function sizes(v)
  return {
    layers = v:count("num_hidden_layers", nil, 1, 1 << 16), hidden = v:count "hidden_size",
    ffn = v:count "intermediate_size",
  }
end

local VIT <const> = {
  hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 12, image_size = 224, patch_size = 16,
}

local kinds = {} -- of towers: { defaults, function(reader) }

-- SigLIP: no token of a class; a probe pools patches by attention unless vision_use_head is false.
kinds.siglip_vision_model = { with(VIT, { vision_use_head = true }), function(v)
  local t = sizes(v)
  t.bias, t.norm = true, 2
  local patch, h = v:count "patch_size", t.hidden
  local head = v:flag "vision_use_head" and h + 4 * linear(h, h, true) + two(h, t.ffn, h, true) + 2 * h or 0
  return layers(t) + patches(v:count("num_channels", 3), patch, h, true) + grid(v:count "image_size", patch) * h + 2 * h
    + head
end }

-- Idefics 3: SigLIP's layers, never with a head.
kinds.idefics3_vision = { with(VIT, { hidden_size = 1152, patch_size = 32 }), function(v)
  v.defaults.vision_use_head = false
  return kinds.siglip_vision_model[2](v)
end }
kinds.smolvlm_vision, kinds.idefics3 = kinds.idefics3_vision, kinds.idefics3_vision

-- CLIP: a token of the class, a norm before and after the layers, patches without a bias.
kinds.clip_vision_model = { with(VIT, { patch_size = 32 }), function(v)
  local t = sizes(v)
  t.bias, t.norm = true, 2
  local patch, h = v:count "patch_size", t.hidden
  return layers(t) + patches(v:count("num_channels", 3), patch, h) + (grid(v:count "image_size", patch) + 2) * h + 4 * h
end }

-- Pixtral: gated MLPs and RMSNorms without biases, rotary positions.
kinds.pixtral = { with(VIT, { hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 24 }), function(v)
  local t = sizes(v)
  t.gated, t.norm = true, 1
  return layers(t) + patches(v:count("num_channels", 3), v:count "patch_size", t.hidden) + t.hidden
end }

-- InternViT: a token of the class and factors on the outputs of sublayers.
local INTERN <const> = with(VIT, { hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 24,
  image_size = 448, patch_size = 14 })

kinds.intern_vit_6b = { INTERN, function(v)
  local t = sizes(v)
  t.bias, t.norm, t.more = true, 2, 2.0 * t.hidden
  local patch, h = v:count "patch_size", t.hidden
  if v:text("norm_type", "layer_norm") ~= "layer_norm" or v:flag("qk_normalization", false)
    or not v:flag("qkv_bias", true) then return nil end
  return layers(t) + patches(v:count("num_channels", 3), patch, h, true) + (grid(v:count "image_size", patch) + 2) * h
end }

local function tower(v, names)
  local kind = kinds[v:text("model_type", names)]
  if not kind then return nil end
  v:assume(kind[1])
  return kind[2](v)
end

local wholes = {} -- model_type of the whole: function(reader of the tower, the text model, reader of the whole)

local function image_and(default, projector)
  return function(v, m, c)
    local own = tower(v, default)
    return own and own + projector(v, m, c)
  end
end

wholes.gemma3 = image_and("siglip_vision_model", function(v, m)
  return linear(v:count "hidden_size", m.hidden) + v:count "hidden_size"
end)

wholes.paligemma = image_and("siglip_vision_model", function(v, m)
  return linear(v:count "hidden_size", m.hidden, true)
end)

local function llava(newline)
  return image_and("clip_vision_model", function(v, m, c)
    return two(v:count "hidden_size", m.hidden, m.hidden, c:flag("multimodal_projector_bias", true))
      + (newline and m.hidden or 0)
  end)
end
wholes.llava, wholes.llava_next, wholes.llava_onevision = llava(false), llava(true), llava(true)

wholes.mistral3 = image_and("pixtral", function(v, m, c)
  local h, merged = v:count "hidden_size", c:count("spatial_merge_size", 2) ^ 2
  return h + linear(merged * h, h) + two(h, m.hidden, m.hidden, c:flag("multimodal_projector_bias", false))
end)

wholes.internvl_chat = image_and("intern_vit_6b", function(v, m)
  local n_in = 4.0 * v:count "hidden_size" -- four patches become one token
  return 2 * n_in + two(n_in, m.hidden, m.hidden, true)
end)

wholes.idefics3 = image_and("idefics3_vision", function(v, m, c)
  return linear(v:count "hidden_size" * c:count("scale_factor", 2) ^ 2, m.hidden)
end)
wholes.smolvlm = wholes.idefics3

-- Both towers of CLIP and SigLIP, and scalars of their loss. The image tower's projection goes with it.
wholes.clip = image_and("clip_vision_model", function(v, _, c)
  return linear(v:count "hidden_size", c:count("projection_dim", 512)) + 1
end)
wholes.siglip = image_and("siglip_vision_model", function() return 2 end)

-- Qwen's patches are of several frames; a merger makes one token of the patches of a square.
local QWEN <const> = { depth = 32, in_channels = 3, patch_size = 14, spatial_merge_size = 2, temporal_patch_size = 2 }

local function merger(v, hidden, out, norm)
  local n_in = 1.0 * hidden * v:count "spatial_merge_size" ^ 2
  return norm + two(n_in, n_in, out, true)
end

local function qwen_patches(v, hidden, bias)
  return patches(v:count "in_channels|in_chans", v:count "patch_size|spatial_patch_size", hidden, bias,
    v:count "temporal_patch_size")
end

function wholes.qwen2_vl(v, m)
  v:assume(with(QWEN, { embed_dim = 1280, mlp_ratio = 4 }))
  local h = v:count "embed_dim"
  return layers { layers = v:count("depth", nil, 1, 1 << 16), hidden = h, ffn = h * v:count "mlp_ratio", bias = true,
    norm = 2 } + qwen_patches(v, h) + merger(v, h, v:count("hidden_size", m.hidden), 2 * h)
end

function wholes.qwen2_5_vl(v, m)
  v:assume(with(QWEN, { hidden_size = 3584, intermediate_size = 3420 }))
  local h = v:count "hidden_size"
  return layers { layers = v:count("depth", nil, 1, 1 << 16), hidden = h, ffn = v:count "intermediate_size",
    bias = true, gated = true, norm = 1 } + qwen_patches(v, h) + merger(v, h, v:count("out_hidden_size", m.hidden), h)
end

-- From Qwen3 on there is a table of positions, and some layers' outputs go to the text model by mergers of their own,
-- whose norms come after the patches are joined.
function wholes.qwen3_vl(v, m)
  v:assume(with(QWEN, { depth = 27, hidden_size = 1152, intermediate_size = 4304, patch_size = 16,
    num_position_embeddings = 2304 }))
  local h, out = v:count "hidden_size", v:count("out_hidden_size", m.hidden)
  local deep = v:table "deepstack_visual_indexes"
  local more = deep and #deep or 0
  return layers { layers = v:count("depth", nil, 1, 1 << 16), hidden = h, ffn = v:count "intermediate_size",
    bias = true, norm = 2 } + qwen_patches(v, h, true) + 1.0 * v:count "num_position_embeddings" * h
    + merger(v, h, out, 2 * h) + more * merger(v, h, out, 2.0 * h * v:count "spatial_merge_size" ^ 2)
end
wholes.qwen3_vl_moe, wholes.qwen3_5, wholes.qwen3_5_moe = wholes.qwen3_vl, wholes.qwen3_vl, wholes.qwen3_vl

-- Llama 4: CLIP's layers; the MLP of the adapter and the projector have no biases.
function wholes.llama4(v, m)
  v:assume(with(VIT, { num_hidden_layers = 34, intermediate_size = 5632, image_size = 448, patch_size = 14,
    projector_input_dim = 4096, projector_output_dim = 4096, vision_output_dim = 7680 }))
  local t = sizes(v)
  t.bias, t.norm = true, 2
  local patch, h, made = v:count "patch_size", t.hidden, v:count "projector_output_dim"
  return layers(t) + patches(v:count("num_channels", 3), patch, h) + (grid(v:count "image_size", patch) + 2) * h + 4 * h
    + two(t.ffn, v:count "projector_input_dim", made) + linear(v:count "vision_output_dim", m.hidden)
end

-- MoonViT (arXiv 2504.07491): a table of positions by row and column; the projector joins four patches.
function wholes.kimi_k25(v, m)
  for _, key in ipairs { "vt_hidden_size", "vt_intermediate_size", "vt_num_hidden_layers" } do
    if not v:has(key) then return nil end
  end
  if v:text("mm_projector_type", "patchmerger") ~= "patchmerger" then return nil end
  local h = v:count "vt_hidden_size"
  local rows = 1.0 * v:count("init_pos_emb_height", 64) * v:count("init_pos_emb_width", 64)
  return layers { layers = v:count("vt_num_hidden_layers", nil, 1, 1 << 16), hidden = h,
    ffn = v:count "vt_intermediate_size", bias = true, norm = 2 } + patches(3, v:count("patch_size", 14), h, true)
    + rows * h + 2 * h + 2 * h + two(4.0 * h, 4 * h, m.hidden, true)
end

-- Gemma 4's images: tables of rows and columns, norms before and after sublayers and of queries and keys. Bounds of
-- clipped products are no parameters.
function wholes.gemma4(v, m)
  v:assume(with(VIT, { num_hidden_layers = 16, num_attention_heads = 12, num_key_value_heads = 12, head_dim = 64,
    position_embedding_size = 10240, standardize = false }))
  local t = sizes(v)
  local h, width, heads = t.hidden, v:count "head_dim", v:count "num_attention_heads"
  local layer = linear(h, width * (2.0 * heads + 2 * v:count "num_key_value_heads")) + 3 * linear(h, t.ffn)
    + 2 * width + 4 * h
  return t.layers * layer + patches(3, v:count "patch_size", h) + 2.0 * v:count "position_embedding_size" * h
    + (v:flag "standardize" and 2 * h or 0) + linear(h, m.hidden)
end

-- Gemma 4's sound: a Conformer (arXiv 2005.08100) after two convolutions.
local function gemma4_audio(v, m)
  v:assume { hidden_size = 1024, num_hidden_layers = 12, num_attention_heads = 8, conv_kernel_size = 5,
    output_proj_dims = 1536 }
  local h, out = v:count "hidden_size", v:count "output_proj_dims"
  local channels = v:table "subsampling_conv_channels" or { 128, 32 }
  local first, second = channels[1], channels[2]
  if math.type(first) ~= "integer" or math.type(second) ~= "integer" then return nil end
  local feeds = 2 * (two(h, 4.0 * h, h) + 2 * h)
  local attention = 5 * linear(h, h) + h // v:count "num_attention_heads"
  local conv = linear(h, 2 * h) + linear(h, h) + 1.0 * h * v:count "conv_kernel_size" + 2 * h
  local sampling = 10.0 * first + 9.0 * first * second + second + linear(first // 4 * second, h)
  return v:count("num_hidden_layers", nil, 1, 1 << 16) * (feeds + attention + conv + 3 * h) + sampling
    + linear(h, out, true) + linear(out, m.hidden)
end

local KINDS <const> = { { "vision", "vision_config" }, { "audio", "audio_config" } }

-- The parameters of one tower; nil: its class is not known.
local function count(name, v, m, whole)
  local type_of = whole:text("model_type", "")
  local rule = name == "vision" and wholes[type_of] or name == "audio" and type_of == "gemma4" and gemma4_audio
  local n = rule and rule(v, m, whole)
  return n and n < LIMIT and math.tointeger(n) or nil
end

--- The towers around a text model that a file has settings of, and the readers of these.
---@param c table  reader of the text model
---@param m table  its description
---@return table[] list  { name = "vision" or "audio", field, reader, parameters = integer or nil: not known }
function towers.of(c, m)
  local list, whole = {}, c
  while whole do
    for _, one in ipairs(KINDS) do
      local v = type(whole.fields[one[2]]) == "table" and next(whole.fields[one[2]]) and whole:nested(one[2])
      if v then
        list[#list + 1] = { name = one[1], field = v.path, reader = v, parameters = count(one[1], v, m, whole) }
      end
    end
    whole = whole.outer
  end
  return list
end

--- What a description says of towers; nil: none is counted.
---@param list table[]  of towers.of
---@return table[]?
function towers.counted(list)
  local found = {}
  for _, one in ipairs(list) do
    if one.parameters then found[#found + 1] = { name = one.name, parameters = one.parameters } end
  end
  return found[1] and found or nil
end

return towers
