--- Recurrent models from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, tied = parts.keys, parts.tied

-- A recurrent model has no context limit; the published ones were trained at 2048 (arXiv 2405.21060).
function types.mamba2(c)
  local hidden, expand = c:count(keys.hidden), c:count("expand", 2)
  c:ignore(keys.seq .. "|hidden_act")
  local inner = c:count("intermediate_size", false)
  if inner and inner ~= expand * hidden then
    c:fail("intermediate_size", "= %d is not \"expand\" x \"hidden_size\" = %d", inner, expand * hidden)
  end
  return {
    layers = parts.layers(c), hidden = hidden, vocab = c:count "vocab_size", seq = 2048, unbounded = true,
    tied_embeddings = tied(c, false), norm = "rmsnorm", positions = "none",
    mamba = {
      state = c:count "state_size", heads = c:count "num_heads", head_dim = c:count("head_dim", 64),
      groups = c:count("n_groups", 8), conv = c:count("conv_kernel", 4), expand = expand,
      chunk = c:count("chunk_size", 256), bias = c:flag("use_bias", false), conv_bias = c:flag("use_conv_bias", true),
    },
  }
end

-- Files of the state-spaces repositories, which have no model_type. The table is padded to a multiple; ssm_cfg gives
-- the Mamba version and omits its class's defaults.
function types.mamba_ssm(c)
  local hidden, layers = c:count "d_model", c:count("n_layer", nil, 1, 1 << 16)
  local ssm = c:nested "ssm_cfg" or c:fail("ssm_cfg", "must be a map")
  local vocab, multiple = c:count "vocab_size", c:count("pad_vocab_size_multiple", 8)
  local m = {
    layers = layers, hidden = hidden, vocab = (vocab + multiple - 1) // multiple * multiple, seq = 2048,
    unbounded = true, tied_embeddings = c:flag("tie_embeddings", true), positions = "none",
    norm = c:flag("rms_norm", true) and "rmsnorm" or "layernorm",
  }
  if m.norm == "layernorm" then m.biases = { norm = true } end
  if c:count("d_intermediate", 0, 0) > 0 then
    c:fail("d_intermediate", "> 0: an MLP in every layer is not modelled; see `mixers` in docs/architectures.md")
  end
  if next(c:table "attn_layer_idx" or {}) ~= nil then
    c:fail("attn_layer_idx", "names layers of attention, which are not modelled; see docs/architectures.md")
  end
  c:ignore "attn_layer_idx|attn_cfg"
  local which, expand = ssm:text("layer", "Mamba1"), ssm:count("expand", 2)
  if which == "Mamba2" then
    local head_dim = ssm:count("headdim", 64)
    m.mamba = {
      state = ssm:count("d_state", 128), heads = expand * hidden // head_dim, head_dim = head_dim,
      groups = ssm:count("ngroups", 1), conv = ssm:count("d_conv", 4), chunk = ssm:count("chunk_size", 256),
      expand = expand,
    }
  elseif which == "Mamba1" then
    m.mamba1 = {
      state = ssm:count("d_state", 16), inner = expand * hidden, conv = ssm:count("d_conv", 4),
      rank = ssm:count("dt_rank", (hidden + 15) // 16),
    }
  else
    ssm:fail("layer", "= %s is unknown; known: Mamba1, Mamba2", check.show(which))
  end
  for _, key in ipairs(ssm:unread()) do
    if not key:find "^dt_" and key ~= "A_init_range" then -- those set initial weights
      ssm:fail(key, "is not known of a state-spaces model: it may change what it computes (docs/architectures.md)")
    end
  end
  return m
end

-- Mamba-1 as configured in transformers.
function types.mamba(c)
  local hidden, expand = c:count(keys.hidden), c:count("expand", 2)
  c:ignore "use_mambapy|use_falcon_mambapy|use_associative_scan" -- kernels
  c:ignore(keys.seq .. "|hidden_act|d_inner|d_model|n_layer|ssm_cfg|rms_norm|fused_add_norm")
  local rank = c:has "time_step_rank" and c:value "time_step_rank"
  return {
    layers = parts.layers(c), hidden = hidden, vocab = c:count "vocab_size", seq = 2048, unbounded = true,
    tied_embeddings = tied(c, true), norm = "rmsnorm", positions = "none",
    mamba1 = {
      state = c:count("state_size", 16), inner = c:count("intermediate_size", expand * hidden),
      conv = c:count("conv_kernel", 4), bias = c:flag("use_bias", false), conv_bias = c:flag("use_conv_bias", true),
      rank = type(rank) == "number" and c:count "time_step_rank" or (hidden + 15) // 16,
    },
  }
end

-- Falcon-Mamba normalises steps, B and C, without weights.
function types.falcon_mamba(c)
  local m = types.mamba(c)
  m.mamba1.norms = "plain"
  return m
end

return types
