--- Text encoders from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

-- The ends of the transformers classes, by what follows the model's name in the class that `architectures` names.
local HEADS = {
  Model = { pooler = true, head = false },
  ForMaskedLM = { transform = true },
  ForPreTraining = { transform = true, pooler = true, pooler_classes = 2 },
}

-- Sets what follows the layers. own: the family's ends, by class; default: the class of a file that names none.
local function ends(c, m, family, own, default)
  local class = (c:table "architectures" or {})[1] or family .. default
  local known = {}
  for name, fields in pairs(own) do known[family .. name] = fields end
  local fields = known[class] or c:fail("architectures", "[1] = %s is not known of %s; known: %s "
    .. "(docs/architectures.md)", check.show(class), family, table.concat(check.names(known), ", "))
  for name, value in pairs(fields) do m.encoder[name] = value end
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
  return ends(c, bert(c), "Bert", HEADS, "ForPreTraining")
end

-- Positions are counted from the one after the padding token's, so that the table's first rows are of no use.
local function roberta(c, family)
  local m = bert(c)
  c:ignore "output_past"
  m.position_rows, m.seq = m.seq, m.seq - c:count("pad_token_id", 1, 0) - 1
  if m.seq < 1 then
    c:fail("max_position_embeddings", '= %d leaves no position after "pad_token_id"', m.position_rows)
  end
  return ends(c, m, family, { Model = HEADS.Model, ForMaskedLM = HEADS.ForMaskedLM }, "ForMaskedLM")
end

function types.roberta(c) return roberta(c, "Roberta") end
types["xlm-roberta"] = function(c) return roberta(c, "XLMRoberta") end

-- BERT's layers without token types and pooler.
function types.distilbert(c)
  if c:flag("sinusoidal_pos_embds", false) then
    c:fail("sinusoidal_pos_embds", "= true is not modelled: learned positions are (docs/architectures.md)")
  end
  c:ignore "tie_weights_|output_past"
  local m = bert_layers({
    layers = c:count("n_layers|num_hidden_layers", 6, 1, 1 << 16), hidden = c:count("dim|hidden_size", 768),
    heads = c:count("n_heads|num_attention_heads", 12), ffn = c:count("hidden_dim", 3072),
    vocab = c:count("vocab_size", 30522), seq = c:count("max_position_embeddings", 512), positions = "learned",
    norm = "layernorm", gated = false, activation = parts.activation(c, "gelu", "activation"),
    tied_embeddings = parts.tied(c, true),
  })
  return ends(c, m, "DistilBert", { Model = { head = false }, ForMaskedLM = HEADS.ForMaskedLM }, "ForMaskedLM")
end

return types
