--- Model FLOPs per token by the published formulas, the basis of MFU.
local lazy = require "tperf.base.lazy"
local counted = lazy.module "tperf.describe.layout.counted"
local delta = lazy.module "tperf.describe.arch.layer.delta"
local groups = require "tperf.describe.model.groups"
local packing = require "tperf.describe.arch.packing"
local parameters = require "tperf.describe.model.parameters"
local stacks = require "tperf.describe.model.stacks"
local stated = require "tperf.describe.model.stated"
local windowed = require "tperf.describe.model.windowed"

local flops = {}

-- Average keys per query. Causal averages over positions: s/2, and w - w^2/2s in a window of w < s.
local function keys_seen(seq, window, causal)
  local w = math.min(window or seq, seq)
  return causal and w - w * w / (2.0 * seq) or 1.0 * w
end

-- Forward FLOPs of an encoder layer's attention, without a mask, per token of the decoder's `seq`; and of a decoder
-- layer's, including cross-attention to the encoder's tokens.
local function stack(m, group, seq) return 4.0 * m.heads * m.head_dim * group.seq * group.seq / seq end

local function cross(m, seq, causal)
  return 4.0 * m.heads * m.head_dim * (keys_seen(seq, nil, causal) + stacks.seq(m))
end

-- The parameters that the encoder's tokens use, per token of the decoder's `seq`: those of its layers, and of the
-- projections of its output to every decoder layer's keys and values.
local function met_by_source(m, count, seq)
  local own = 0.0
  for _, group in ipairs(count.groups) do
    if group.seq then own = own + group.total end
    if group.cross then own = own + 2.0 * group.count * m.hidden * m.kv_heads * m.head_dim end
  end
  return own * (stacks.seq(m) / seq - 1)
end

-- Forward FLOPs of one layer's attention per token: scores and their product with the values.
local function attention(m, group, seq, causal)
  if group.attention == "none" then return 0 end
  if group.seq then return stack(m, group, seq) end
  if group.cross then return cross(m, seq, causal) end
  local seen = causal and packing.seen(m, group.window, seq) or keys_seen(seq, group.window, causal)
  if not m.sparse then
    local one = windowed.view(m, group)
    return 2.0 * one.heads * (one.head_dim + (m.mla and m.mla.v_dim or windowed.value_dim(one))) * seen
  end
  -- An indexer scores all pairs; attention to the selected ones works in the latent (DeepSeek-V3.2).
  local s, a = m.sparse, m.mla
  local scored = group.reuses and 0 or 2.0 * s.heads * s.head_dim * keys_seen(seq, nil, causal)
  return scored + 2.0 * m.heads * (2 * a.kv_rank + a.rope_dim) * keys_seen(seq, s.top_k, causal)
end

-- Forward FLOPs of one layer's state-space scan per token, in chunks of q (Mamba-2, arXiv 2405.21060, section 6.3):
-- C B^T per group, its product with X, the chunk's state, and the previous state's contribution.
-- A gated delta net's is in delta.lua. Mamba-1's is no matrix product and counts as zero, like other elementwise
-- passes.
local function scan(m, group, seq)
  if group.delta then return delta.flops(m.delta, seq) end
  if not group.mamba or m.mamba1 then return 0 end
  local s = m.mamba
  local q = math.min(s.chunk, seq)
  return 2.0 * q * s.state * s.groups + s.heads * (2.0 * q * s.head_dim + 4.0 * s.state * s.head_dim)
end

-- Forward FLOPs of multi-token prediction modules per token: their layers, projections, and a product with the output
-- table each.
local function prediction(m, known, options)
  if options.convention ~= "megatron" or (m.mtp or 0) == 0 then return 0, 0, 0 end
  local pairs_of, scans = 0.0, 0.0
  for _, group in ipairs(groups.module(m, known.groups)) do
    pairs_of = pairs_of + attention(m, group, options.seq, options.causal)
    scans = scans + scan(m, group, options.seq)
  end
  local weights = parameters.prediction_active(m, known.groups) + m.hidden * m.vocab
  return m.mtp * weights, m.mtp * pairs_of, m.mtp * scans
end

local function counted_with(count, m, options)
  local said = stated.flops_per_token(m, options)
  if said then
    local sum = options.backward and said or said / 3
    return { total = sum, parameters = sum, attention = 0.0, scan = 0.0 }
  end
  if m.architecture then
    return counted.flops(options.seq == m.seq and m or m:with { seq = options.seq }, options)
  end
  local known, message = count(m)
  if not known then return nil, message end
  local weights = known.active
  if options.convention ~= "palm" then
    local bare = m.classes or m.encoder and not m.encoder.head
    local shared = m.tied_embeddings and not bare -- with an output table
    weights = weights - (known.components.positions or 0) - (shared and 0 or known.embedding)
  end
  if m.encoder_stack then weights = weights + met_by_source(m, known, options.seq) end
  if m.diffusion then -- the parts that work once per image, on its time step and class
    local once = known.components.modulation + known.components.conditioning
    weights = weights - once * (1 - 1 / options.seq)
  end
  local own, pairs_of, scans = prediction(m, known, options)
  local result = { parameters = 2.0 * (weights + own), attention = pairs_of, scan = scans }
  for _, group in ipairs(known.groups) do
    result.attention = result.attention + group.count * attention(m, group, options.seq, options.causal)
    result.scan = result.scan + group.count * scan(m, group, options.seq)
  end
  local passes = options.backward and 3 or 1 -- backward: twice the forward
  for part, n in pairs(result) do result[part] = passes * n end
  result.total = result.parameters + result.attention + result.scan
  return result
end

--- FLOPs per token. Each parameter counts 2 per token forward and 4 backward, as does every product of attention.
-- "palm" (arXiv 2204.02311, appendix B): 6 N + 12 L H Q T, with N all active parameters, and all pairs of tokens
-- unless `causal`. "matmul": as palm, but tables that are only looked up (input tokens, positions) count nothing, as
-- in Megatron-LM's formula (arXiv 2104.04473, section 5.1, without recomputation). "megatron": as matmul, with
-- multi-token prediction modules, each of which has a product with the output table, too (Megatron-LM's
-- num_floating_point_operations).
---@param m table a model
---@param options table seq (tokens), causal (count only the pairs that a causal mask leaves), convention ("palm",
--   "matmul" or "megatron"), backward
---@return table? result total, parameters, attention, scan: FLOP per token
---@return string? message
function flops.per_token(m, options) return counted_with(parameters.count, m, options) end

--- The total of both passes of a model whose parameters may be known already.
---@return number? total FLOP per token
---@return string? message
function flops.trained(m, causal, convention)
  local options = { seq = m.seq, causal = causal, convention = convention, backward = true }
  local result, message = counted_with(parameters.known, m, options)
  return result and result.total, message
end

return flops
