--- Text encoders from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

-- The ends of the transformers classes, by the class that a file's `architectures` names.
local HEADS = {
  BertModel = { pooler = true, head = false },
  BertForMaskedLM = { transform = true },
  BertForPreTraining = { transform = true, pooler = true, pooler_classes = 2 },
}

--- Norms after each sublayer and after the tables, position and token-type tables; the output table is the input's,
-- with a bias.
function types.bert(c)
  local kind = c:text("position_embedding_type", "absolute")
  if kind ~= "absolute" then
    c:fail("position_embedding_type", '= "%s" is not modelled; known: absolute (docs/architectures.md)', kind)
  end
  if c:flag("is_decoder", false) or c:flag("add_cross_attention", false) then
    c:fail("is_decoder", "= true is not modelled: describe it in tperf's own format (docs/architectures.md)")
  end
  c:ignore "directionality|pooler_fc_size|pooler_num_attention_heads|pooler_num_fc_layers" -- read by no class
  c:ignore "pooler_size_per_head|pooler_type"
  local m = parts.gpt(c, "gelu")
  local class = (c:table "architectures" or {})[1] or "BertForPreTraining"
  local ends = HEADS[class] or c:fail("architectures", "[1] = %s is not known of BERT; known: %s", check.show(class),
    table.concat(check.names(HEADS), ", "))
  m.seq = c:count(parts.keys.seq)
  m.embedding_norm, m.final_norm, m.causal = true, false, false
  m.biases = { qkv = true, attention_out = true, mlp = true, norm = true, head = ends.head ~= false }
  m.encoder = { segments = c:count("type_vocab_size", 2, 0) }
  for name, value in pairs(ends) do m.encoder[name] = value end
  return m
end

return types
