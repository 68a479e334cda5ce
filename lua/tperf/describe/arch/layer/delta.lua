--- Gated delta net (arXiv 2412.06464; Qwen3-Next): one projection to queries, keys, values and a gate, and to the
-- decay and the strength of every update; a short convolution over q, k and v; the delta rule in chunks; a gated norm
-- of every head; the output projection. Heads are sharded by tp; key heads, each shared by several value heads, are
-- replicated if there are fewer than GPUs.
--
-- Work of a chunk of q tokens, per token and value head, as matrix products (arXiv 2406.06484, section 3): keys
-- against keys 2 q k, inverting the resulting triangle 2 q^2 / 3, its products with keys and values 2 q (k + v);
-- queries against keys and the result against values 2 q (k + v); state products (reading the chunk, updates and
-- outputs) 6 k v. Backward: twice that, plus recomputing whatever the forward pass did not keep.
--
-- Kimi Delta Attention (arXiv 2510.26692) decays every feature of a key by itself; the decay and the gate come through
-- narrow ranks. Its rule counts the same products.
--
-- Saved: the projections' inputs; q, k, v, the gate, decay and strength as the first projection made them; the rule's
-- output.
local block = require "tperf.describe.block"
local fitting = require "tperf.describe.strategy.fitting"
local kernels = require "tperf.describe.kernels"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"

local delta = {}

local BYTES <const> = 2

-- FLOPs of the rule per token and value head: in total, and recomputed in the backward pass.
local function rule_flops(d, seq)
  local q, k, v = math.min(d.chunk, seq), d.key_dim, d.value_dim
  local triangle, state = 2.0 * q * (2 * k + v) + 2.0 * q * q / 3, 2.0 * k * v
  return triangle + 2.0 * q * (k + v) + 3 * state, triangle + 2 * state
end

--- Forward FLOPs of one layer's rule, per token.
---@param d table  the model's `delta`
---@param seq integer
function delta.flops(d, seq) return d.value_heads * rule_flops(d, seq) end

-- This GPU's sizes.
local function cut_of(m, p)
  local d, n = m.delta, p[p.features]
  local values = fitting.split(p, d.value_heads, n, p.features, "value_heads")
  local keys = fitting.replicated(p, d.heads, n, "heads of keys")
  return {
    heads = values, decays = values * (d.decay_rank and d.key_dim or 1), inner = values * d.value_dim,
    convolved = 2 * keys * d.key_dim + values * d.value_dim,
  }
end

local function convolution(m, p, cut)
  local taps = m.delta.conv
  return op.elementwise {
    name = "conv", elements = 1.0 * p:inner_tokens() * cut.convolved, dtype = p.dtype,
    parameters = cut.convolved * taps, recomputed = p.mode == "train", forward_flops = 2 * taps + 4,
    backward_flops = 4 * taps + 8, forward_bytes = 2 * BYTES,
    backward_bytes = 4 * BYTES,
  }
end

-- The decay exp(-A softplus(a + bias)) and the strength sigmoid(b).
local function gates(p, cut)
  return op.elementwise {
    name = "gates", elements = 1.0 * p:inner_tokens() * (cut.heads + cut.decays), parameters = cut.heads + cut.decays,
    dtype = p.dtype,
    forward_flops = 4, backward_flops = 6, forward_bytes = 2 * BYTES, backward_bytes = 3 * BYTES,
  }
end

-- One token: the kept state decays, is read by the key, corrected, then read by the query.
local function step(m, p, cut)
  local state = 1.0 * p.micro_batch * cut.heads * m.delta.key_dim * m.delta.value_dim
  return op.custom {
    name = "rule", dtype = p.dtype,
    forward = {
      vector_flops = 7 * state,
      bytes = 2 * fitting.state_element(p) * state + BYTES * p:inner_tokens() * (cut.convolved + cut.inner),
    },
    keeps = { sequence = p.micro_batch * delta.state_bytes(m, p) },
  }
end

-- Keys, updates and every chunk's state pass through memory between the rule's kernels in chunks.
local function rule(m, p, cut)
  if p.mode == "decode" then return step(m, p, cut) end
  local count = kernels.of "attention".delta
  local d, tokens = m.delta, 1.0 * p:inner_tokens()
  local q = math.min(d.chunk, p.seq)
  local forward, again = rule_flops(d, p.seq)
  local width = cut.convolved + cut.decays + cut.heads + cut.inner
  local k, v = d.key_dim, d.value_dim
  local between = cut.heads * (2 * (k + v) + 2 * v + 2 * q + 2.0 * k * v / q)
  local bytes = BYTES * tokens * (width + between)
  return op.custom {
    name = "rule", dtype = p.dtype, saved_bytes = BYTES * tokens * (cut.convolved + cut.decays + cut.heads),
    forward = { tensor_flops = tokens * cut.heads * forward, bytes = bytes },
    backward = { tensor_flops = tokens * cut.heads * (2 * forward + again), bytes = 3 * bytes },
  }:chunkwise():launches(count.forward - 1):calls(count.forward, count.backward)
end

-- Bytes of a GPU's final state.
local function state(m, p, cut)
  return 1.0 * fitting.state_element(p) * p.micro_batch * cut.heads * m.delta.key_dim * m.delta.value_dim
end

-- The norm of every head, then times silu(z), in one kernel.
local function gated_norm(m, p, cut)
  local tokens = p:inner_tokens()
  return {
    parts.head_norm(m, p, "gated-norm", tokens * cut.heads, m.delta.value_dim),
    op.elementwise {
      name = "gate", elements = 1.0 * tokens * cut.inner, forward_flops = 5, backward_flops = 11, forward_bytes = BYTES,
      backward_bytes = 2 * BYTES, saved_bytes = BYTES, dtype = p.dtype,
    },
  }
end

local function copied(p, name, width)
  return op.elementwise {
    name = name, elements = 1.0 * p:inner_tokens() * width, dtype = p.dtype, forward_flops = 0, backward_flops = 0,
    forward_bytes = 2 * BYTES, backward_bytes = 0, saved_bytes = 0,
  }
end

-- A product through a narrow rank, whose first half every GPU works out for its own tokens.
local function through(m, p, name, rank, width)
  return {
    p:replicated { name = name .. "-in", n_in = m.hidden, n_out = rank, input_kept_elsewhere = true },
    p:column { name = name .. "-out", n_in = rank, local_out = width },
  }
end

-- The first products where the decay or the gate have narrow ranks: q, k, v and the strength, as of an engine without
-- kernels to sort them (vLLM's kda.py), and those of the ranks.
local function narrow(m, p, cut, product)
  local d = m.delta
  local rest = (d.gate_rank and 0 or cut.inner) + (d.decay_rank and 0 or cut.decays)
  local ops = { product("in-qkv", cut.convolved + rest, true), product("in-b", cut.heads) }
  if d.decay_rank then parts.append(ops, through(m, p, "decay", d.decay_rank, cut.decays)) end
  if d.gate_rank then parts.append(ops, through(m, p, "gate", d.gate_rank, cut.inner)) end
  return ops
end

-- The first product, in training. In serving two, of q, k, v and z and of the decay and the strength, whose results
-- one kernel sorts (SGLang's pull request 21019, vLLM's qwen3_next.py); "separate": four, whose results and, after the
-- convolution, q, k and v are copied one by one (SGLang before pull requests 19321, 20627 and 21019).
local function projected(m, p, cut)
  local function product(name, width, first)
    return p:column { name = name, n_in = m.hidden, local_out = width, input_kept_elsewhere = not first or nil }
  end
  local qkv, z, h, d = cut.convolved, cut.inner, cut.heads, m.delta
  if d.decay_rank or d.gate_rank then return narrow(m, p, cut, product), {} end
  if p.mode == "train" then return { product("in", qkv + z + 2 * h, true) }, {} end
  if p.delta ~= "separate" then
    return { product("in-qkvz", qkv + z, true), product("in-ba", 2 * h), copied(p, "sort", qkv + z + 2 * h) }, {}
  end
  local ops = { product("in-qkv", qkv, true), product("in-z", z), product("in-b", h), product("in-a", h),
    copied(p, "join-qkv", qkv), copied(p, "copy-z", z), copied(p, "copy-b", h), copied(p, "copy-a", h) }
  local keys = (qkv - z) // 2
  return ops, { copied(p, "copy-q", keys), copied(p, "copy-k", keys), copied(p, "copy-v", z) }
end

local function inside(m, p)
  local d, cut = m.delta, cut_of(m, p)
  local ops, copies = projected(m, p, cut)
  ops[#ops + 1] = convolution(m, p, cut)
  parts.append(ops, copies)
  parts.append(ops, { gates(p, cut), rule(m, p, cut) })
  parts.append(ops, fitting.states(p, state(m, p, cut)))
  parts.append(ops, gated_norm(m, p, cut))
  ops[#ops + 1] = p:row { name = "out", n_in = d.value_heads * d.value_dim, n_out = m.hidden }
  return ops
end

--- Bytes that one layer keeps per sequence on one GPU: the state and the convolution's last inputs.
function delta.state_bytes(m, p)
  local d, cut = m.delta, cut_of(m, p)
  return 1.0 * fitting.state_element(p) * cut.heads * d.key_dim * d.value_dim
    + 1.0 * BYTES * (d.conv - 1) * cut.convolved
end

--- The gated delta net block, i-th of the layer's n sublayers.
function delta.block(i, n)
  return block("delta", function(m, p) return parts.sublayer(m, p, i, n, inside(m, p)) end)
end

return delta
