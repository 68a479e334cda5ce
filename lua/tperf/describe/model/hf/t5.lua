--- T5 and its relatives from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local CLASSES <const> = { T5ForConditionalGeneration = true, T5WithLMHeadModel = true,
  MT5ForConditionalGeneration = true }

local MOST_LAYERS <const> = 1 << 15 -- per stack

local function check_class(c)
  local class = (c:table "architectures" or {})[1]
  if class and not CLASSES[class] then
    c:fail("architectures", "[1] = %s is not modelled; known: %s (docs/architectures.md)", check.show(class),
      table.concat(check.names(CLASSES), ", "))
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
  check_class(c)
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

return types
