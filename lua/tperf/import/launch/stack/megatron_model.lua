--- The model that Megatron's arguments describe.
local model = {}

-- "[0]*3+[1]*58" as a list of zeros and ones; an integer stays an integer.
local function frequency(value)
  local text = tostring(value):gsub("[\"'%s()]", "")
  local number = math.tointeger(tonumber(text))
  if number then return number end
  local list = {}
  for group in text:gmatch "[^+]+" do
    local inside, times = group:match "^%[(.-)%]%*?(%d*)$"
    if not inside then return nil end
    for _ = 1, math.min(tonumber(times) or 1, 4096) do
      for one in inside:gmatch "%d+" do list[#list + 1] = tonumber(one) end
    end
  end
  return list
end

local function hybrid_layers(pattern)
  return #pattern:match "^[^/]*":gsub("[|%s]", "")
end

-- The default width of the feed-forward layer: 4 h, or 8 h / 3 rounded down to a multiple of 64 if it is gated.
local function usual_ffn(hidden, gated)
  if not hidden then return nil end
  return gated and hidden * 8 // 3 // 64 * 64 or 4 * hidden
end

local function mla(s)
  if not s:get "--multi-latent-attention" then return nil end
  return {
    q_rank = s:set "--q-lora-rank", kv_rank = s:get "--kv-lora-rank", nope_dim = s:get "--qk-head-dim",
    rope_dim = s:get "--qk-pos-emb-head-dim", v_dim = s:get "--v-head-dim",
  }
end

--- A neutral description: layers, hidden, heads, kv_heads, ffn, gated, vocab, tied_embeddings, experts …
function model.of(s)
  local m = { gated = s:get "--swiglu" == true, hidden = s:concept "model.hidden", heads = s:concept "model.heads" }
  m.layers = s:get "--num-layers" or s:set "--encoder-num-layers"
  local pattern = s:set "--hybrid-layer-pattern" or s:set "--hybrid-override-pattern"
  if pattern then m.layers, m.pattern = hybrid_layers(pattern), pattern end
  m.kv_heads = m.heads
  if s:get "--group-query-attention" then m.kv_heads = s:get "--num-query-groups" end
  if s:set "--num-key-value-heads" then m.kv_heads = s:set "--num-key-value-heads" end
  m.head_dim = s:set "--kv-channels"
  m.ffn = s:set "--ffn-hidden-size" or usual_ffn(m.hidden, m.gated)
  m.tied_embeddings = s:set "--untie-embeddings-and-output-weights" ~= true
  m.vocab, m.mtp_layers, m.mla = s:concept "model.vocab", s:set "--mtp-num-layers", mla(s)
  local norm = tostring(s:get "--normalization" or ""):lower()
  m.norm = norm == "rmsnorm" and "rmsnorm" or norm == "layernorm" and "layernorm" or nil
  local positions = s:get "--position-embedding-type"
  if s:set "--use-rotary-position-embeddings" then positions = "rope" end
  m.positions = ({ rope = "rotary", alibi = "alibi", none = "none", learned_absolute = "learned" })[positions]
  m.max_positions = s:set "--max-position-embeddings"
  m.bias = s:set "--disable-bias-linear" == nil
  local experts = s:set "--num-experts"
  if experts and experts > 1 then
    m.experts, m.experts_per_token = experts, s:set "--topk" or s:get "--moe-router-topk"
    m.expert_ffn = s:set "--moe-ffn-hidden-size" or m.ffn
    m.shared_expert_ffn = s:set "--moe-shared-expert-intermediate-size" or 0
    m.moe_layers = frequency(s:get "--moe-layer-freq" or 1)
  end
  return m
end

return model
