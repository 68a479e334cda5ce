--- Text encoders from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local classes = require "tperf.describe.model.hf.classes"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

-- The ends of the transformers classes, by what follows the model's name in the class that `architectures` names.
local HEADS = {
  Model = { pooler = true, head = false },
  ForMaskedLM = { transform = true },
  ForPreTraining = { transform = true, pooler = true, pooler_classes = 2 },
}

-- The classes of classifiers: of a sequence, by its first token and a pooler, and of every token. labels: how many.
local function classifiers(labels)
  return {
    ForSequenceClassification = { pooler = true, pooler_classes = labels, head = false },
    ForTokenClassification = { classes = labels }, ForQuestionAnswering = { classes = 2 },
  }
end

-- Sets what follows the layers. own: the family's ends, by class; default: the class of a file that names none;
-- classified: the family has classifiers like BERT's.
local function ends(c, m, family, own, default, classified)
  local class = (c:table "architectures" or {})[1] or family .. default
  local known = {}
  for name, fields in pairs(own) do known[family .. name] = fields end
  for name, fields in pairs(classified and classifiers(classes.labels(c)) or {}) do known[family .. name] = fields end
  local fields = known[class] or c:fail("architectures", "[1] = %s is not known of %s; known: %s "
    .. "(docs/architectures.md)", check.show(class), family, table.concat(check.names(known), ", "))
  for name, value in pairs(fields) do
    if name == "classes" then m.classes = value else m.encoder[name] = value end
  end
  m.biases.head = fields.head ~= false
  return m
end

-- Layers like BERT's: norms after each sublayer and after the tables, biases everywhere, learned positions.
local function bert_layers(m, segments)
  m.embedding_norm, m.final_norm, m.causal = true, false, false
  m.biases = { qkv = true, attention_out = true, mlp = true, norm = true }
  m.encoder = { segments = segments }
  return m
end

local function bert(c)
  local kind = c:text("position_embedding_type", "absolute")
  if kind ~= "absolute" then
    c:fail("position_embedding_type", '= "%s" is not modelled; known: absolute (docs/architectures.md)', kind)
  end
  if c:flag("is_decoder", false) or c:flag("add_cross_attention", false) then
    c:fail("is_decoder", "= true is not modelled: describe it in tperf's own format (docs/architectures.md)")
  end
  local m = bert_layers(parts.gpt(c, "gelu"), c:count("type_vocab_size", 2, 0))
  m.seq = c:count(parts.keys.seq)
  return m
end

--- Norms after each sublayer and after the tables, position and token-type tables; the output table is the input's,
-- with a bias.
function types.bert(c)
  c:ignore "directionality|pooler_fc_size|pooler_num_attention_heads|pooler_num_fc_layers" -- read by no class
  c:ignore "pooler_size_per_head|pooler_type"
  return ends(c, bert(c), "Bert", HEADS, "ForPreTraining", true)
end

-- Positions are counted from the one after the padding token's, so that the table's first rows are of no use.
local function roberta(c, family)
  local m = bert(c)
  c:ignore "output_past"
  m.position_rows, m.seq = m.seq, m.seq - c:count("pad_token_id", 1, 0) - 1
  if m.seq < 1 then
    c:fail("max_position_embeddings", '= %d leaves no position after "pad_token_id"', m.position_rows)
  end
  return ends(c, m, family, { Model = HEADS.Model, ForMaskedLM = HEADS.ForMaskedLM }, "ForMaskedLM", true)
end

function types.roberta(c) return roberta(c, "Roberta") end
types["xlm-roberta"] = function(c) return roberta(c, "XLMRoberta") end

-- ELECTRA: a generator of words, or a discriminator that classifies every token. Tables may be wider or narrower than
-- the layers.
function types.electra(c)
  local m = bert(c)
  c:ignore "output_past"
  m.embedding_width = c:count("embedding_size", 128)
  return ends(c, m, "Electra", {
    Model = { head = false }, ForMaskedLM = HEADS.ForMaskedLM, ForPreTraining = { head = false, token_classes = 1 },
  }, "ForPreTraining", true)
end

-- The first layer and every n-th after it have no window. In the others, a token sees half of "local_attention" on each
-- side, and itself.
local function local_window(c, m)
  local every, side = c:count("global_attn_every_n_layers", 3), c:count "local_attention" // 2
  parts.window(c, m, "local_attention", function(i) return i % every ~= 0 end)
  if m.window then m.window.size = 2 * side + 1 end
end

-- Norms before sublayers, but none before the first: it follows the one after the table. No position table. The class
-- reads neither position_embedding_type nor layer_norm_eps.
function types.modernbert(c)
  c:ignore "position_embedding_type|global_rope_theta|local_rope_theta|classifier_pooling|deterministic_flash_attn"
  c:ignore "initializer_cutoff_factor|reference_compile|repad_logits_with_grad|sparse_pred_ignore_index"
  parts.only(c, { sparse_prediction = false })
  local m = parts.decoder(c)
  m.ffn, m.seq, m.gated, m.causal = c:count(parts.keys.ffn), c:count(parts.keys.seq), true, false
  m.norm, m.positions, m.tied_embeddings = "layernorm", "rotary", parts.tied(c, true)
  m.embedding_norm, m.first_norm = true, false
  m.activation = parts.activation(c, "gelu", "hidden_activation")
  local act = parts.activation(c, "gelu", "classifier_activation")
  local attention = c:flag("attention_bias", false)
  m.biases = {
    qkv = attention, attention_out = attention, mlp = c:flag("mlp_bias", false), norm = c:flag("norm_bias", false),
  }
  m.encoder = { transform_bias = c:flag("classifier_bias", false) }
  ends(c, m, "ModernBert", { Model = { head = false }, ForMaskedLM = HEADS.ForMaskedLM }, "ForMaskedLM")
  m.biases.head = m.biases.head and c:flag("decoder_bias", true)
  if m.encoder.transform and act ~= m.activation then
    c:fail("classifier_activation", '= %s is not modelled: that of the layers is, "hidden_activation" '
      .. "(docs/architectures.md)", check.show(act))
  end
  local_window(c, m)
  return m
end

-- CLIP's text tower: GPT's layers without an output table. One class has a projection, as has the text model of a file
-- with both towers, of which the other is counted beside it (hf/towers.lua).
function types.clip_text_model(c)
  local width = c:count("projection_dim", 512)
  if c.outer then width = c.outer:count("projection_dim", 512) end
  local m = parts.gpt(c, "quick_gelu")
  m.seq, m.dropout, m.encoder = c:count("max_position_embeddings", 77), false, {}
  m.causal, m.biases = true, { qkv = true, attention_out = true, mlp = true, norm = true }
  return ends(c, m, "CLIPText", { Model = { head = false, projection = c.outer and width or nil },
    ModelWithProjection = { head = false, projection = width } }, "Model")
end

-- SigLIP's text tower: a product of the last token follows the layers.
function types.siglip_text_model(c)
  local m = bert_layers(parts.gpt(c, "gelu_pytorch_tanh"), 0)
  parts.only(c, { projection_size = m.hidden })
  m.seq, m.dropout, m.embedding_norm, m.final_norm = c:count("max_position_embeddings", 64), false, false, true
  return ends(c, m, "SiglipText", { Model = { head = false, pooler = true } }, "Model")
end

-- ESM: norms before the sublayers, rotary or learned positions, and a regression that predicts contacts.
function types.esm(c)
  parts.only(c, { is_folding_model = false })
  c:ignore "token_dropout|mask_token_id|vocab_list|esmfold_config"
  local m = bert_layers(parts.gpt(c, "gelu"), 0)
  local kind, rows = c:text("position_embedding_type", "absolute"), c:count("max_position_embeddings", 1026)
  if kind ~= "absolute" and kind ~= "rotary" then
    c:fail("position_embedding_type", "= %s is not modelled; known: absolute, rotary (docs/architectures.md)",
      check.show(kind))
  end
  m.positions, m.position_rows = kind == "rotary" and "rotary" or "learned", kind ~= "rotary" and rows or nil
  m.seq = rows - c:count("pad_token_id", 1, 0) - 1
  m.embedding_norm, m.final_norm, m.encoder.contacts = c:flag("emb_layer_norm_before", false), true, true
  return ends(c, m, "Esm", { Model = HEADS.Model, ForMaskedLM = HEADS.ForMaskedLM }, "ForMaskedLM", true)
end

-- BERT's layers without token types and pooler.
function types.distilbert(c)
  parts.only(c, { sinusoidal_pos_embds = false })
  c:ignore "tie_weights_|output_past"
  local m = bert_layers({
    layers = c:count("n_layers|num_hidden_layers", 6, 1, 1 << 16), hidden = c:count("dim|hidden_size", 768),
    heads = c:count("n_heads|num_attention_heads", 12), ffn = c:count("hidden_dim", 3072),
    vocab = c:count("vocab_size", 30522), seq = c:count("max_position_embeddings", 512), positions = "learned",
    norm = "layernorm", gated = false, activation = parts.activation(c, "gelu", "activation"),
    tied_embeddings = parts.tied(c, true),
  })
  return ends(c, m, "DistilBert", { Model = { head = false }, ForMaskedLM = HEADS.ForMaskedLM }, "ForMaskedLM", true)
end

return types
