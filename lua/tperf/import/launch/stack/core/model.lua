--- The model that Megatron-Core's settings describe, under the names of Megatron-LM or Megatron-Bridge.
local layer_list = require "tperf.import.launch.layer_list"

local model = {}

--- A field of a model -> its option; nil: the stack has none.
model.megatron = {
  layers = "--num-layers", hidden = "--hidden-size", heads = "--num-attention-heads", ffn = "--ffn-hidden-size",
  groups = "--num-query-groups", head_dim = "--kv-channels", window = "--window-size",
  skip = "--window-attn-skip-freq", qk_norm = "--qk-layernorm", qkv_bias = "--add-qkv-bias",
  sinks = "--softmax-type", clamp = "--activation-func-clamp-value", hidden_dropout = "--hidden-dropout",
  attention_dropout = "--attention-dropout", gate = "--attention-output-gate", norm = "--normalization",
  positions = "--position-embedding-type", max_positions = "--max-position-embeddings", mtp = "--mtp-num-layers",
  latent = "--multi-latent-attention", q_rank = "--q-lora-rank", kv_rank = "--kv-lora-rank",
  nope_dim = "--qk-head-dim", rope_dim = "--qk-pos-emb-head-dim", v_dim = "--v-head-dim", experts = "--num-experts",
  top_k = "--moe-router-topk", expert_ffn = "--moe-ffn-hidden-size",
  shared_ffn = "--moe-shared-expert-intermediate-size", shared_gate = "--moe-shared-expert-gate",
  frequency = "--moe-layer-freq", router_groups = "--moe-router-num-groups", top_groups = "--moe-router-group-topk",
  latent_experts = "--moe-latent-size", capacity = "--moe-expert-capacity-factor",
  router_bias = "--moe-router-enable-expert-bias",
}
model.bridge = {
  layers = "model.num_layers", hidden = "model.hidden_size", heads = "model.num_attention_heads",
  ffn = "model.ffn_hidden_size", groups = "model.num_query_groups", head_dim = "model.kv_channels",
  window = "model.window_size", skip = "model.window_attn_skip_freq", qk_norm = "model.qk_layernorm",
  qkv_bias = "model.add_qkv_bias", sinks = "model.softmax_type", clamp = "model.activation_func_clamp_value",
  hidden_dropout = "model.hidden_dropout", attention_dropout = "model.attention_dropout",
  gate = "model.attention_output_gate", norm = "model.normalization", positions = "model.position_embedding_type",
  max_positions = "model.max_position_embeddings", mtp = "model.mtp_num_layers",
  latent = "model.multi_latent_attention", q_rank = "model.q_lora_rank", kv_rank = "model.kv_lora_rank",
  nope_dim = "model.qk_head_dim", rope_dim = "model.qk_pos_emb_head_dim", v_dim = "model.v_head_dim",
  experts = "model.num_moe_experts", top_k = "model.moe_router_topk", expert_ffn = "model.moe_ffn_hidden_size",
  shared_ffn = "model.moe_shared_expert_intermediate_size", shared_gate = "model.moe_shared_expert_gate",
  frequency = "model.moe_layer_freq", router_groups = "model.moe_router_num_groups",
  top_groups = "model.moe_router_group_topk", latent_experts = "model.moe_latent_size",
  capacity = "model.moe_expert_capacity_factor", router_bias = "model.moe_router_enable_expert_bias",
}

-- A list by layer, or the number that stands for one; raises unless it is either and has as many elements as layers.
local function by_layer(context, option, value, layers)
  if type(value) == "table" then value = "[" .. table.concat(value, ",") .. "]" end
  local list, message = layer_list.of(value)
  if not list then context.fail("%s %s: %s", option, tostring(value), message) end
  if type(list) == "table" and layers and #list ~= layers then
    context.fail("%s has %d elements for %d layers", option, #list, layers)
  end
  if list == 0 then context.fail("%s is a number from 1 on, or a list", option) end
  return list
end

-- Which layers have experts, as zeros and ones: Megatron's number n stands for layers 1, n + 1, 2 n + 1, …
local function expert_layers(context, option, value, layers)
  local list = by_layer(context, option, value, layers)
  if type(list) == "table" or list == 1 or not layers then return list end
  local whole = {}
  for i = 1, layers do whole[i] = (i - 1) % list == 0 and 1 or 0 end
  return whole
end

-- Attention to the last tokens: Megatron's (left, right) counts the tokens beside the query's own.
local function window(s, context, m, N)
  local text = s:set(N.window)
  local skip = s:set(N.skip)
  if not text then return nil end
  if type(text) == "table" then text = table.concat(text, ",") end
  local left, right = tostring(text):gsub("%s+", ""):match "^[%(%[]?(%-?%d+),(%-?%d+)[%)%]]?$"
  left, right = math.tointeger(tonumber(left)), math.tointeger(tonumber(right))
  if not left or left < -1 or right > 0 or right < -1 then
    context.fail("%s %s: a causal window is written (tokens before the query, 0)", N.window, tostring(text))
  end
  if left == -1 then return nil end
  local pattern = "w"
  if skip then
    local list = by_layer(context, N.skip, skip, m.layers)
    if type(list) == "table" then
      for i, one in ipairs(list) do list[i] = one ~= 0 and "w" or "f" end
      pattern = table.concat(list)
    else
      pattern = ("w"):rep(list - 1) .. "f" -- every n-th layer sees everything
    end
  end
  return pattern:find "w" and { size = left + 1, pattern = pattern } or nil
end

-- The default width of the feed-forward layer: 4 h, or 8 h / 3 rounded down to a multiple of 64 under --swiglu.
local function usual_ffn(hidden, swiglu)
  if not hidden then return nil end
  return swiglu and hidden * 8 // 3 // 64 * 64 or 4 * hidden
end

local function mla(s, context, N)
  if not s:get(N.latent) then return nil end
  if not s:get(N.qk_norm) then context.assume "the latents of queries and keys have norms" end
  return { q_rank = s:set(N.q_rank), kv_rank = s:get(N.kv_rank), nope_dim = s:get(N.nope_dim),
    rope_dim = s:get(N.rope_dim), v_dim = s:get(N.v_dim) }
end

local NORMS <const> = { rmsnorm = "rmsnorm", layernorm = "layernorm" }
local POSITIONS <const> = { rope = "rotary", yarn = "rotary", mrope = "rotary", none = "none",
  learned_absolute = "learned", alibi = "alibi" }

-- Megatron's dropout of the branches and of attention's scores: one switch here.
local function dropout(s, context, N)
  local hidden, scores = tonumber(s:get(N.hidden_dropout)) or 0, tonumber(s:get(N.attention_dropout)) or 0
  if (hidden > 0) ~= (scores > 0) then
    context.assume("dropout of branches and of attention's scores, though %s is %g and %s %g", N.hidden_dropout, hidden,
      N.attention_dropout, scores)
  end
  return hidden > 0 or scores > 0
end

local SINKS <const> = { vanilla = false, learnable = true }

-- The mixture of experts.
local function experts(s, context, m, N)
  local count = s:set(N.experts)
  if not (count and count > 1) then return end
  m.experts, m.experts_per_token = count, s:set "--topk" or s:get(N.top_k)
  m.expert_ffn, m.shared_expert_ffn = s:set(N.expert_ffn) or m.ffn, s:set(N.shared_ffn) or 0
  m.shared_gate = s:get(N.shared_gate) == true
  m.moe_layers = expert_layers(context, N.frequency, s:get(N.frequency) or 1, m.layers)
  m.router_groups, m.top_groups = s:set(N.router_groups), s:set(N.top_groups)
  m.latent_experts, m.capacity = s:set(N.latent_experts), s:set(N.capacity)
  local router_bias = s:get(N.router_bias) == true
  m.router_bias = m.biases.mlp or router_bias
end

--- A neutral description: layers, hidden, heads, kv_heads, ffn, gated, activation, vocab, tied_embeddings, experts …
--- o: what the stack's own module reads: { layers, swiglu, activation, kv_heads, vocab, untied, linear_bias }
function model.of(s, context, N, o)
  local m = { layers = o.layers, hidden = s:concept "model.hidden", heads = s:concept "model.heads", vocab = o.vocab,
    gated = o.gated, activation = o.activation, kv_heads = o.kv_heads, tied_embeddings = not o.untied }
  m.head_dim = s:set(N.head_dim)
  m.ffn = s:set(N.ffn) or usual_ffn(m.hidden, o.gated and o.activation == "silu")
  m.mtp_layers, m.mla = s:set(N.mtp), mla(s, context, N)
  local norm, positions = tostring(s:get(N.norm) or "LayerNorm"), s:get(N.positions)
  positions = o.positions or positions
  m.norm = NORMS[norm:lower()] or context.fail("%s %s is not modelled", N.norm, norm)
  m.positions = POSITIONS[positions or "learned_absolute"]
    or context.fail("%s %s is not modelled", N.positions, tostring(positions))
  m.max_positions = s:set(N.max_positions)
  local qkv, qk_norm = s:get(N.qkv_bias) == true, s:get(N.qk_norm) == true
  m.biases = { qkv = o.linear_bias or qkv, attention_out = o.linear_bias, mlp = o.linear_bias,
    norm = m.norm == "layernorm" }
  m.qk_norm = qk_norm and not m.mla
  local softmax = s:get(N.sinks) or "vanilla"
  m.attention_sinks = SINKS[softmax]
  if m.attention_sinks == nil then context.fail("%s %s is not modelled", N.sinks, tostring(softmax)) end
  m.limited_activation, m.attention_gate = s:set(N.clamp) ~= nil, s:get(N.gate) == true
  m.window, m.dropout = window(s, context, m, N), dropout(s, context, N)
  experts(s, context, m, N)
  return m
end

local MAMBA <const> = { "--mamba-state-dim", "--mamba-head-dim", "--mamba-num-groups", "--mamba-num-heads", "--spec",
  "--is-hybrid-model" }

local function hybrid_layers(pattern) return #pattern:match "^[^/]*":gsub("[|%s]", "") end

-- Of the switches of an activation the last one counts in no version: two are an error.
local function activation(s, context)
  local swiglu, quick, squared = s:get "--swiglu", s:get "--quick-geglu", s:get "--squared-relu"
  if (swiglu and 1 or 0) + (quick and 1 or 0) + (squared and 1 or 0) > 1 then
    context.fail "--swiglu, --quick-geglu and --squared-relu exclude each other"
  end
  if swiglu or quick then return true, quick and "quick_gelu" or "silu" end
  return false, squared and "relu2" or "gelu"
end

local GPT2 <const> = 50257 -- tokens of GPT-2's byte-pair encoding (its vocab.json)

-- A file of merges is of byte-pair encoding, which pretrain_gpt.py has where it names no other (args_defaults).
local function by_merges(s, context)
  local kind = s.by_option["--tokenizer-type"]
  if not s.by_option["--merge-file"] or kind and kind.value ~= "GPT2BPETokenizer" or context.given.vocab then return end
  context.assume("the vocabulary has the %d tokens of GPT-2's files: --merge-file is of its encoding", GPT2)
  return GPT2
end

--- The description by Megatron-LM's arguments.
function model.of_arguments(s, context)
  local layers = s:get "--num-layers" or s:set "--encoder-num-layers" or s:set "--decoder-num-layers"
  local pattern = s:set "--hybrid-layer-pattern" or s:set "--hybrid-override-pattern"
  if pattern then
    layers = hybrid_layers(pattern)
    for _, name in ipairs(MAMBA) do s:set(name) end -- the model has to be named
  end
  local gated, kind = activation(s, context)
  local kv_heads = s:concept "model.heads"
  if s:get "--group-query-attention" then kv_heads = s:get "--num-query-groups" end
  local own = s:set "--num-key-value-heads"
  local positions = s:set "--use-rotary-position-embeddings" and "rope" or nil
  if s:set "--no-position-embedding" ~= nil then positions = "none" end
  local m = model.of(s, context, model.megatron, {
    layers = layers, gated = gated, activation = kind, kv_heads = own or kv_heads,
    vocab = s:concept "model.vocab" or by_merges(s, context),
    untied = s:set "--untie-embeddings-and-output-weights" == true,
    linear_bias = s:set "--disable-bias-linear" == nil, positions = positions,
  })
  m.pattern = pattern
  m.from_checkpoint = s:get "--use-checkpoint-args" or nil
  return m
end

return model
