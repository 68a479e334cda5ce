--- Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): queries, and keys with values, go through
-- a narrow latent with a norm; all heads share one rotary key. The projections into the latents are replicated on every
-- GPU and work on the stream as it is sharded (as in Megatron-LM); those out of them are sharded by heads.
-- Training and prefill expand keys and values for every head. In decode the cache holds latents, and the
-- projections out of them are absorbed into queries and outputs (section 2.1.2): their FLOPs are the same for
-- one token, and attention is multi-query over keys of kv_rank + rope_dim, of which kv_rank are the values.
--
-- With an indexer (`sparse`: DeepSeek-V3.2, arXiv 2512.02556, section 2.1) training and prefill use the absorbed form,
-- too, and each query sees the top_k preceding tokens that the indexer scores highest.
--
-- In serving engines the kernel for chosen tokens has one query token and its heads in a tile, of at least 64 heads:
-- FlashMLA's on Hopper (128 on Blackwell; SGLang, pull request 13646) and TensorRT-LLM's on Blackwell (vLLM, pull
-- request 48047). Fewer are padded. Prompts of up to top_k tokens choose all of them, and need no such kernel.
--
-- Saved: the inputs of all projections and norms; queries, keys and values of every head.
local attention = require "tperf.describe.arch.layer.attention"
local block = require "tperf.describe.block"
local indexer = require "tperf.describe.arch.layer.indexer"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"

local mla = {}

-- The projections out of the latents with their norms and the rotation: Megatron-Core's module mla_up_proj.
local function up(ops) return parts.module("mla_up_proj", ops) end

-- Whether both projections into the latents are one product: engines join their weights (fused_qkv_a_proj of vLLM and
-- SGLang, fused_a of TensorRT-LLM).
local function is_joined(m, p) return p.mode ~= "train" and m.mla.q_rank ~= nil end

local function queries(m, p, made, ops)
  local a = m.mla
  local width = made.heads * (a.nope_dim + a.rope_dim)
  if not a.q_rank then
    ops[#ops + 1] = p:column { name = "q", n_in = m.hidden, local_out = width }:belong "qkv_linear"
    return
  end
  local joined = is_joined(m, p)
  ops[#ops + 1] = p:replicated {
    name = joined and "down" or "q-down", n_in = m.hidden, n_out = a.q_rank + (joined and a.kv_rank + a.rope_dim or 0),
    bias = m.biases.qkv,
  }:belong "qkv_linear"
  parts.append(ops, up {
    parts.norm(m, p, "q-norm", a.q_rank), p:column { name = "q-up", n_in = a.q_rank, local_out = width },
  })
end

local JOIN <const> = 2 -- kernels that put the keys of prompts together of their two parts

-- Keys and values of all heads; in decode the two products that are absorbed, one on either side of attention.
local function expanded(m, p, made)
  local a = m.mla
  local function product(name, width)
    return p:column { name = name, n_in = a.kv_rank, local_out = made.heads * width }
  end
  if p.mode == "decode" then return { product("k-absorbed", a.nope_dim), product("v-absorbed", a.v_dim) } end
  return { product("kv-up", a.nope_dim + a.v_dim):launches(JOIN) }
end

-- What the shared rotary key takes over the GPUs that cut the heads: each needs all of it, and has the part of its
-- gradient that its own heads give.
local function shared_key(m, p)
  local bytes = 2.0 * p:outer_tokens() * m.mla.rope_dim
  if p.sequence_parallel then
    return { op.collective { name = "k-rope", kind = "all_gather", axis = p.features, share = true, bytes = bytes } }
  end
  if p.mode ~= "train" or not p.features then return {} end
  local sum = { kind = "all_reduce", axis = p.features, bytes = bytes }
  return { op.custom { name = "k-rope", dtype = p.dtype, forward = {}, backward = { comms = { sum } } } }
end

local function keys_and_values(m, p, made, ops)
  local a = m.mla
  if not is_joined(m, p) then
    ops[#ops + 1] = p:replicated {
      name = "kv-down", n_in = m.hidden, n_out = a.kv_rank + a.rope_dim, bias = m.biases.qkv,
      input_kept_elsewhere = true, -- by the product for the queries, from the same stream
    }:belong "qkv_linear"
  end
  parts.append(ops, up { parts.norm(m, p, "kv-norm", a.kv_rank) })
  parts.append(ops, up(expanded(m, p, made)))
  parts.append(ops, up(shared_key(m, p)))
  if m.positions == "rotary" then
    parts.append(ops, up { attention.rotary(p, made, made.heads + 1, a.rope_dim) })
  end
end

local TILE_HEADS <const> = 64

-- The cut as the kernel for chosen tokens computes it.
local function padded(m, p, cut)
  local chooses = m.sparse and (p.mode == "decode" or p.mode == "prefill" and p.context + p.seq > m.sparse.top_k)
  return chooses and setmetatable({ heads = math.max(cut.heads, TILE_HEADS) }, { __index = cut }) or cut
end

-- The ops between the projections.
local function kernels(m, p, cut)
  local a, ops = m.mla, {}
  local shape = { kv_heads = cut.heads, head_dim = a.nope_dim + a.rope_dim, value_dim = a.v_dim }
  if m.sparse and not p.group.reuses then parts.append(ops, indexer.ops(m, p, cut)) end
  if p.mode == "decode" or m.sparse then
    shape = { kv_heads = 1, head_dim = a.kv_rank + a.rope_dim, value_dim = a.kv_rank, values_in_keys = true }
  end
  return parts.append(ops, attention.kernels(m, p, padded(m, p, cut), shape))
end

local function inside(m, p)
  local a, ops, cut = m.mla, {}, p:heads(m.heads)
  if p.part == "attention" then return kernels(m, p, cut) end
  local made = cut.projected or cut
  queries(m, p, made, ops)
  keys_and_values(m, p, made, ops)
  parts.append(ops, kernels(m, p, cut))
  ops[#ops + 1] = p:row { name = "proj", n_in = m.heads * a.v_dim, n_out = m.hidden, bias = m.biases.attention_out }
  ops[#ops]:belong "attn_proj"
  return ops
end

--- The attention block, i-th of the layer's n sublayers.
function mla.block(i, n)
  return block("attention", function(m, p) return parts.sublayer(m, p, i, n, inside(m, p), "attn_norm") end)
end

return mla
