--- Multi-head, grouped-query (arXiv 2305.13245) and multi-query (arXiv 1911.02150) attention, depending on the model's
-- key and value heads; optionally causal, windowed (share.group.window, with heads of their own: model/windowed.lua),
-- rotary, with query and key norms, or with sinks. For training, prefill and decode: the keys are those of the context
-- plus the sequence itself.
--
-- Saved in training: the input of the projection; queries, keys and values (before the norms, too, if there are any;
-- rotation needs no copy); with fused attention 4 bytes of log-sum-exp per row and head, with separate kernels the
-- softmax, the dropout mask and the dropout's output: 5 s bytes per row and head (arXiv 2205.05198, section 4.1); the
-- output projection's input. Selective recomputation (section 5) drops the 5 s; fused attention never stores them.
local block = require "tperf.describe.block"
local data = require "tperf.describe.kernels"
local eager = require "tperf.describe.arch.eager"
local op = require "tperf.describe.op"
local packing = require "tperf.describe.arch.packing"
local parts = require "tperf.describe.arch.layer.parts"
local recompute = require "tperf.describe.arch.recompute"
local windowed = require "tperf.describe.model.windowed"

local attention = {}

local BYTES <const> = 2

local kernels = {}

-- Keys that a GPU's queries see; in decode, the GPUs of an axis may shard the cache.
local function keys_of(p, cut, shape)
  return math.ceil((shape.keys or p.context + p.seq) / (cut.key_shards or 1))
end

-- Whether future tokens are masked: set by `shape` (keys of another sequence), else by the layers, else by the model.
local function is_causal(m, p, shape)
  if shape.causal ~= nil then return shape.causal end
  if p.group.causal ~= nil then return p.group.causal end
  return m.causal
end

function kernels.flash(m, p, cut, shape)
  local window = shape.window
  if window == nil then window = m.sparse and m.sparse.top_k or p.group.window end
  window = window or nil
  local fused = op.attention {
    name = shape.name or "attention", batch = p.micro_batch, heads = cut.heads, kv_heads = shape.kv_heads,
    queries = cut.queries,
    keys = keys_of(p, cut, shape), shards = cut.shards, head_dim = shape.head_dim, value_dim = shape.value_dim,
    causal = is_causal(m, p, shape), window = window,
    seen = p.mode == "train" and packing.seen(m, window, p.seq) or nil,
    dropout = m.dropout and p.mode == "train", sinks = m.attention_sinks,
    values_in_keys = shape.values_in_keys, gather = cut.gather, ring = cut.ring, dtype = p.dtype,
    kv_dtype = p.kv_dtype, matrix_dtype = p.fused_dtype,
  }
  -- In a ring, the host starts a kernel for each part of the keys as it comes round.
  if cut.ring and cut.shards > 1 then fused:calls(cut.shards) end
  return { fused }
end

-- cuBLAS needs rows of a multiple of 8 bytes to use the matrix units (kernels/attention.yaml).
local function matrix_dtype(width)
  return width % data.of "attention".aligned ~= 0 and "fp32" or nil
end

-- Megatron-LM's fused softmax scales, masks and normalises in one kernel, if it takes the sizes
-- (kernels/attention.yaml).
local function softmax(p, cut, rows, keys, again)
  local one = op.softmax {
    name = "softmax", rows = rows, width = keys, keep_output = not again, recomputed = again, dtype = p.dtype,
  }
  if not p.megatron_softmax then return eager.softmax(p, one, rows * keys, again) end
  local of = data.of "attention".softmax
  if p.micro_batch * cut.heads % of.heads == 0 and keys <= of.keys then return one end
  local scores = rows * keys
  return one:spill(of.forward * scores, of.backward * scores):calls(of.calls, of.calls)
end

-- Separate kernels compute every pair, masked or not, and repeat shared keys and values for every head.
local function separate(m, p, cut, shape)
  local again = p.attention == "recompute" or recompute.has(p, "core_attn")
  local rows, keys = 1.0 * p.micro_batch * cut.heads * cut.queries, keys_of(p, cut, shape)
  local function product(make, name, width, recomputed)
    return make {
      name = name, batch = p.micro_batch, heads = cut.heads, queries = cut.queries, keys = keys, head_dim = width,
      kv_heads = shape.kv_heads, gather = cut.gather, keep_scores = not again and m.dropout, recomputed = recomputed,
      grad_reads_gathered = true, dtype = p.dtype, matrix_dtype = matrix_dtype(width),
    }
  end
  local ops = {
    product(op.scores, "logits", shape.head_dim, again),
    softmax(p, cut, rows, keys, again),
  }
  if m.dropout and p.mode == "train" then
    ops[3] = op.dropout { name = "dropout", elements = rows * keys, keep_mask = not again, recomputed = again }
  end
  ops[#ops + 1] = product(op.attend, "attend", shape.value_dim or shape.head_dim, false)
  if m.attention_sinks then
    ops[#ops + 1] = op.elementwise {
      name = "sinks", elements = rows, parameters = cut.heads, forward_flops = 2, backward_flops = 2, forward_bytes = 4,
      backward_bytes = 4, dtype = p.dtype,
    }
  end
  return ops
end
kernels.unfused, kernels.recompute = separate, separate

-- The score products by SUMMA, too; only for strategy summa.
function kernels.summa(m, p, _, shape)
  local rows, columns = p.seq // p.tp2, p.seq // p.tp1
  local elements = 1.0 * p.micro_batch * m.heads * rows
  local function product(make, name, width)
    return make {
      name = name, batch = p.micro_batch, heads = m.heads, queries = p.seq, queries_rows = rows,
      queries_columns = columns, head_dim_columns = width // p.tp1, columns = "tp1", rows = "tp2",
      shaped = true,
    }
  end
  local ops = {
    product(op.summa_scores, "logits", shape.head_dim),
    op.softmax { name = "softmax", rows = elements, width = columns, row_sum = "tp1" },
  }
  if m.dropout then ops[3] = op.dropout { name = "dropout", elements = elements * columns } end
  ops[#ops + 1] = product(op.summa_attend, "attend", shape.value_dim or shape.head_dim)
  return ops
end

-- Combines the partial results of sharded keys: outputs in 16 bits, sums of exponentials in 32.
local function join_keys(p, cut, shape)
  local rows = 1.0 * p.micro_batch * cut.heads * cut.queries
  return op.collective {
    name = "join-keys", kind = "all_reduce", axis = cut.key_axis,
    bytes = rows * (2 * (shape.value_dim or shape.head_dim) + 4),
  }
end

--- The ops between the projections. cut: p:heads(…); shape: kv_heads, head_dim, value_dim, values_in_keys; also keys
--- and causal if the keys belong to another sequence, and window (false: none) if it is not the layer's.
function attention.kernels(m, p, cut, shape)
  local own = cut.batch and setmetatable({ micro_batch = cut.batch }, { __index = p }) or p
  local ops = kernels[p.attention](m, own, cut, shape)
  if (cut.key_shards or 1) > 1 then ops[#ops + 1] = join_keys(own, cut, shape) end
  return parts.module("core_attn", parts.exchanged(p, ops, cut, shape))
end

--- Rotary embedding of `heads` heads of `width` features for every query that this GPU projects. normed: norms of each
--- head precede it, whose kernels rotate, too, where a compiler fuses them.
function attention.rotary(p, made, heads, width, normed)
  local elements = 1.0 * p.micro_batch * made.queries * heads * width
  local one = op.rotary { elements = elements, dtype = p.dtype }
  if normed and p.fused_pointwise then return one:move(0, 0):fuse() end
  return eager.rotary(p, one, elements)
end

-- This GPU's sums of squares, which are a kernel of their own if they are summed over GPUs before the norm.
local function sums(p, name, elements)
  return op.elementwise {
    name = name, elements = 1.0 * elements, dtype = p.dtype, forward_flops = 2, backward_flops = 0,
    forward_bytes = BYTES, backward_bytes = 0, saved_bytes = 0,
  }
end

-- Query and key norms: per head, or over all heads at once, with statistics summed over the GPUs that share the heads.
-- Keys of an earlier layer have theirs already.
local function query_key_norms(m, p, made)
  local rows, d = p.micro_batch * made.queries, m.head_dim
  if m.qk_norm ~= "whole" then
    local plain = m.qk_norm == "plain"
    return {
      parts.head_norm(m, p, "q-norm", rows * made.heads, d, plain),
      not p.group.borrows and parts.head_norm(m, p, "k-norm", rows * made.kv_heads, d, plain) or nil,
    }
  end
  local over = p[p.features] > 1 and p.features or nil
  local together = p.mode ~= "train" -- engines sum both statistics in one all-reduce (vLLM, pull request 31493)
  local ops = {}
  if together and over then
    ops = { sums(p, "q-sums", rows * made.heads * d), sums(p, "k-sums", rows * made.kv_heads * d) }
  end
  return parts.append(ops, {
    parts.wide_norm(m, p, "q-norm", rows, made.heads * d, over),
    parts.wide_norm(m, p, "k-norm", rows, made.kv_heads * d, not together and over or nil),
  })
end

-- The bias that relative positions add to every score: read in the forward pass, its gradient written in the backward.
local function position_bias(p, cut)
  return op.elementwise {
    name = "position-bias",
    elements = 1.0 * (cut.batch or p.micro_batch) * cut.heads * cut.queries * (p.context + p.seq),
    dtype = p.dtype, forward_flops = 1, backward_flops = 1, forward_bytes = BYTES, backward_bytes = 2 * BYTES,
  }
end

--- The ops between the norm and the residual sum. o: input_kept_elsewhere, gathered (for the first product), partial
--- (for the last one).
function attention.inside(m, p, o)
  o, m = o or {}, windowed.view(m, p.group)
  local cut = p:heads(m.heads, m.kv_heads)
  local between, borrows = attention.kernels(m, p, cut, {
    kv_heads = cut.kv_heads, head_dim = m.head_dim, value_dim = m.value_dim,
  }), p.group.borrows
  for _, one in ipairs(borrows and p.mode == "decode" and between or {}) do one:keep {} end
  if p.part == "attention" then return between end -- whoever asks wants no other op
  local made = cut.projected or cut
  local rows, d, value = p.micro_batch * made.queries, m.head_dim, windowed.value_dim(m)
  local q, k, output = made.heads * d, not borrows and made.kv_heads * d or nil, made.heads * value
  local gate = m.attention_gate == "head" and made.heads or m.attention_gate and output or 0
  local v = not borrows and not m.tied_values and made.kv_heads * value or nil
  local products = { q, k, v }
  if gate > 0 then products[#products + 1] = gate end
  local ops = {
    p:column {
      name = "qkv", n_in = m.hidden, local_out = q + (k or 0) + (v or 0) + gate, bias = m.biases.qkv,
      input_kept_elsewhere = o.input_kept_elsewhere, gathered = o.gathered, parts = { q = q + gate, k = k, v = v },
    }:belong "qkv_linear",
  }
  recompute.made_of(ops[1], products)
  if m.qk_norm then parts.append(ops, query_key_norms(m, p, made)) end
  if m.positions == "rotary" then
    local heads = made.heads + (borrows and 0 or made.kv_heads)
    ops[#ops + 1] = attention.rotary(p, made, heads, d, m.qk_norm and m.qk_norm ~= "whole")
  end
  if m.positions == "relative" then ops[#ops + 1] = position_bias(p, cut) end
  parts.append(ops, between)
  if m.attention_gate then -- sigmoid(gate) x output
    local each = gate / output -- numbers of the gate for each of the output
    ops[#ops + 1] = op.elementwise {
      name = "gate", elements = 1.0 * rows * output, dtype = p.dtype, forward_flops = 1 + 3 * each,
      backward_flops = 2 + 5 * each, forward_bytes = (2 + each) * BYTES, backward_bytes = (3 + 2 * each) * BYTES,
      saved_bytes = (1 + each) * BYTES,
    }
  end
  ops[#ops + 1] = p:row {
    name = "proj", n_in = m.heads * value, n_out = m.hidden, bias = m.biases.attention_out, partial = o.partial,
  }:belong "attn_proj"
  return ops
end

--- The attention block, i-th of the layer's n sublayers.
function attention.block(i, n)
  return block("attention", function(m, p) return parts.sublayer(m, p, i, n, attention.inside(m, p), "attn_norm") end)
end

return attention
