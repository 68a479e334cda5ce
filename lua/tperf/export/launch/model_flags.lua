--- Megatron's arguments for a model of tperf.
local windowed = require "tperf.describe.model.windowed"

local function norm_of(m) return m.norm == "rmsnorm" and "RMSNorm" or "LayerNorm" end

local POSITIONS <const> = { rotary = "rope", alibi = "alibi", none = "none", learned = "learned_absolute" }

local function experts(m, w)
  local e = m.experts
  w.put("--num-experts", e.count)
  w.put("--moe-router-topk", e.top_k)
  w.put("--moe-ffn-hidden-size", e.ffn)
  if e.shared > 0 then w.put("--moe-shared-expert-intermediate-size", e.shared * (e.shared_ffn or e.ffn)) end
  if type(e.dense_layers) ~= "number" then
    w.note "the layers without experts are a list: --moe-layer-freq has to be written by hand"
  elseif e.dense_layers > 0 then
    w.put("--moe-layer-freq", ("[0]*%d+[1]*%d"):format(e.dense_layers, m.layers - e.dense_layers))
  elseif e.every > 1 then
    w.put("--moe-layer-freq", e.every)
  end
  if w.by_name["--moe-token-dispatcher-type"] == nil then w.put("--moe-token-dispatcher-type", "alltoall") end
  w.put("--moe-grouped-gemm", true)
end

local function latent(m, w)
  w.put("--multi-latent-attention", true)
  if m.mla.q_rank then w.put("--q-lora-rank", m.mla.q_rank) end
  w.put("--kv-lora-rank", m.mla.kv_rank)
  w.put("--qk-head-dim", m.mla.nope_dim)
  w.put("--qk-pos-emb-head-dim", m.mla.rope_dim)
  w.put("--v-head-dim", m.mla.v_dim)
end

-- Words for the parts of a model that these arguments cannot express; nil if there are none.
local function unsaid(m)
  local list = {}
  local function add(has, words)
    if has then list[#list + 1] = words end
  end
  add(m.delta, "gated delta nets")
  add(m.mamba or m.mamba1, "Mamba layers")
  add(not m.delta and not m.mamba and rawget(m, "layer_pattern"), "layers that differ")
  add(m.sparse, "sparse attention")
  add(m.qk_norm == "whole", "norms of all queries at once")
  add(m.attention_gate, "gated attention")
  add(m.heads and #windowed.kinds(m) > 1, "windowed layers with heads of their own")
  add(m.value_dim or m.tied_values, "values unlike keys")
  add(m.experts and m.experts.latent, "experts in a latent")
  add(m.experts and m.experts.zero > 0, "experts that compute nothing")
  add(m.classes, "a head of classes")
  add(m.encoder or m.encoder_stack, "an encoder")
  add(m.vision, "images")
  return list[1] and table.concat(list, ", ")
end

---@param m table  a model of tperf
---@param w table  the writer
return function(m, w)
  local beyond = unsaid(m)
  if beyond then
    w.note("the model's own arguments are not here: it has %s, which have to be written by hand", beyond)
    return
  end
  w.put("--num-layers", m.layers)
  w.put("--hidden-size", m.hidden)
  w.put("--num-attention-heads", m.heads)
  if m.ffn then w.put("--ffn-hidden-size", m.ffn) end
  if m.mla then
    latent(m, w)
  else
    if m.kv_heads ~= m.heads then
      w.put("--group-query-attention", true)
      w.put("--num-query-groups", m.kv_heads)
    end
    if m.head_dim * m.heads ~= m.hidden then w.put("--kv-channels", m.head_dim) end
  end
  if m.gated then w.put("--swiglu", true) end
  w.put("--normalization", norm_of(m))
  if m.norm == "rmsnorm" then w.put("--disable-bias-linear", true) end
  if not m.tied_embeddings then w.put("--untie-embeddings-and-output-weights", true) end
  w.put("--position-embedding-type", POSITIONS[m.positions])
  w.put("--max-position-embeddings", m.context or m.seq)
  if m.vocab then w.put("--vocab-size", m.vocab) end
  if (m.mtp or 0) > 0 then w.put("--mtp-num-layers", m.mtp) end
  if m.experts then experts(m, w) end
end
