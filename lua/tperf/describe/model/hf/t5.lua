--- Encoder-decoders (T5, mT5, BART) from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local CLASSES <const> = { T5ForConditionalGeneration = true, T5WithLMHeadModel = true,
  MT5ForConditionalGeneration = true }

local MOST_LAYERS <const> = 1 << 15 -- per stack

local function check_class(c, known)
  local class = (c:table "architectures" or {})[1]
  if class and not known[class] then
    c:fail("architectures", "[1] = %s is not modelled; known: %s (docs/architectures.md)", check.show(class),
      table.concat(check.names(known), ", "))
  end
  if not c:flag("is_encoder_decoder", true) then
    c:fail("is_encoder_decoder", "= false is not modelled: describe it in tperf's own format (docs/architectures.md)")
  end
end

-- "relu", or "gated-gelu" from version 1.1 on: the activation and whether it is gated. Newer files repeat it in two
-- fields.
local function set_mlp(c, m, default)
  c:ignore "is_gated_act"
  c:ignore "dense_act_fn"
  local name = c:text("feed_forward_proj", default)
  local act = name:match "^gated%-(.+)$"
  m.gated = act ~= nil
  local known = { relu = "relu", gelu = "gelu", gelu_new = "gelu", silu = "silu" }
  m.activation = known[act or name]
  if not m.activation then
    c:fail("feed_forward_proj", "= %s is unknown; known: relu, gated-gelu, gated-silu", check.show(name))
  end
end

-- Two stacks with an RMSNorm before every sublayer and after each stack, no biases, heads whose total width may differ
-- from hidden, and one table of relative positions each. n_positions limits nothing: it is the training sequence
-- length.
local function t5(c, mlp, tied)
  check_class(c, CLASSES)
  c:ignore "relative_attention_max_distance" -- beyond it all positions share a row
  c:ignore "output_past" -- for caches only
  local encoder = c:count("num_layers|num_hidden_layers", 6, 1, MOST_LAYERS)
  local decoder = c:count("num_decoder_layers", encoder, 1, MOST_LAYERS)
  local m = {
    layers = encoder + decoder, hidden = c:count("d_model|hidden_size", 512),
    heads = c:count("num_heads|num_attention_heads", 8), head_dim = c:count("d_kv|head_dim", 64),
    ffn = c:count("d_ff", 2048), vocab = c:count("vocab_size", 32128), seq = c:count("n_positions", 512),
    unbounded = true, norm = "rmsnorm", biases = false, positions = "relative",
    position_buckets = c:count("relative_attention_num_buckets", 32), tied_embeddings = parts.tied(c, tied),
    dropout = not c:has "dropout_rate" or c:value "dropout_rate" ~= 0, encoder_stack = { layers = encoder },
  }
  set_mlp(c, m, mlp)
  return m
end

function types.t5(c) return t5(c, "relu", true) end
function types.mt5(c) return t5(c, "gated-gelu", false) end

-- Both have the same weights: the output table is the input's.
local BART_CLASSES <const> = { BartModel = true, BartForConditionalGeneration = true }

-- A size that both stacks have under their own names.
local function both(c, name, default)
  local encoder, decoder = c:count("encoder_" .. name, default), c:count("decoder_" .. name, default)
  if encoder ~= decoder then
    c:fail("decoder_" .. name, '= %d differs from "encoder_%s" = %d: not modelled (docs/architectures.md)', decoder,
      name, encoder)
  end
  return encoder
end

-- Fields of older files, for variants that later have classes of their own (mBART, Pegasus, Marian): field -> the only
-- value that is modelled.
local VARIANTS <const> = {
  normalize_before = false, add_final_layer_norm = false, normalize_embedding = true, add_bias_logits = false,
  static_position_embeddings = false, do_blenderbot_90_layernorm = false,
}

-- Two stacks with a norm after every sublayer and after the tables; positions are counted from 2, in a table per stack.
function types.bart(c)
  check_class(c, BART_CLASSES)
  parts.only(c, VARIANTS)
  c:ignore "num_hidden_layers|encoder_layerdrop|decoder_layerdrop|scale_embedding|force_bos_token_to_be_generated"
  c:ignore "output_past"
  local encoder, decoder = c:count("encoder_layers", 12, 1, MOST_LAYERS), c:count("decoder_layers", 12, 1, MOST_LAYERS)
  local seq = c:count("max_position_embeddings", 1024)
  return {
    layers = encoder + decoder, hidden = c:count("d_model", 1024), heads = both(c, "attention_heads", 16),
    ffn = both(c, "ffn_dim", 4096), vocab = c:count("vocab_size", 50265), seq = seq, norm = "layernorm", gated = false,
    biases = true, positions = "learned", position_rows = seq + c:count("extra_pos_embeddings", 2, 0),
    activation = parts.activation(c, "gelu"), tied_embeddings = parts.tied(c, true), embedding_norm = true,
    final_norm = false, encoder_stack = { layers = encoder },
  }
end

return types
