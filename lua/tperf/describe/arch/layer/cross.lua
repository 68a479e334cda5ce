--- The decoder of an encoder-decoder (T5, arXiv 1910.10683, section 2.1): between attention and MLP, each layer has a
--- cross-attention block with queries from the decoder's tokens and keys and values from the encoder's output.
---
--- Saved: the queries' input; queries, keys and values; the output projection's input. The encoder's output is one
--- tensor shared by all decoder layers, counted once, after its last norm.
local attention = require "tperf.describe.arch.layer.attention"
local block = require "tperf.describe.block"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"
local stacks = require "tperf.describe.model.stacks"

local cross = {}

local BYTES <const> = 2

-- Encoder rows that go with this share's decoder rows: as many sequences, each of the encoder's length.
local function source_rows(m, p) return p:outer_tokens() * stacks.seq(m) // p.seq end

local function inside(m, p)
  local cut = p:heads(m.heads, m.kv_heads)
  local d = m.head_dim
  local ops = {
    p:column { name = "q", n_in = m.hidden, local_out = cut.heads * d, bias = m.biases.qkv },
    p:column {
      name = "kv", n_in = m.hidden, local_out = 2 * cut.kv_heads * d, bias = m.biases.qkv, rows = source_rows(m, p),
      input_kept_elsewhere = true,
    },
  }
  parts.append(ops, attention.kernels(m, p, cut, {
    kv_heads = cut.kv_heads, head_dim = d, keys = stacks.seq(m), causal = false,
  }))
  ops[#ops + 1] = p:row { name = "proj", n_in = m.heads * d, n_out = m.hidden, bias = m.biases.attention_out }
  return ops
end

--- The cross-attention block, i-th of the layer's n sublayers.
function cross.block(i, n)
  return block("cross", function(m, p) return parts.sublayer(m, p, i, n, inside(m, p)) end)
end

--- Before the layers: embeds the encoder's tokens from the table shared with the decoder. Learned positions have a
--- table per stack, and a norm follows each (BART).
function cross.embedding(m, p)
  local rows, positions = source_rows(m, p), stacks.position_rows(m)
  local elements = 1.0 * rows * m.hidden
  local ops = {
    op.elementwise {
      name = "source", elements = elements, dtype = p.dtype, forward_flops = 0, backward_flops = 1,
      forward_bytes = 2 * BYTES, backward_bytes = 2 * BYTES,
    },
  }
  if positions then
    ops[#ops + 1] = op.elementwise {
      name = "source-positions", elements = elements, parameters = positions * m.hidden, dtype = p.dtype,
      forward_flops = 1, backward_flops = 1, forward_bytes = 2 * BYTES, backward_bytes = 2 * BYTES,
      parameter_grad = p.sequence_parallel and p.features or nil,
    }
  end
  if m.embedding_norm then ops[#ops + 1] = parts.head_norm(m, p, "source-norm", rows, m.hidden) end
  if m.dropout then ops[#ops + 1] = op.dropout { name = "source-dropout", elements = elements } end
  return ops
end

--- After the layers: the encoder's last norm, and its output.
function cross.last(m, p)
  local rows = source_rows(m, p)
  local ops = {
    op.elementwise {
      name = "source", elements = 1.0 * rows * m.hidden, dtype = p.dtype, forward_flops = 0, backward_flops = 0,
      forward_bytes = 0, backward_bytes = 0, saved_bytes = BYTES, fused = true,
    },
  }
  if m.final_norm then ops[2] = parts.head_norm(m, p, "source-norm", rows, m.hidden) end
  return ops
end

--- The tables of relative positions, one per stack, and the bias they yield for every pair of tokens.
function cross.positions(m, p)
  local heads = p:heads(m.heads, m.kv_heads).heads
  local pairs_of, tables = 1.0 * p.seq * p.seq, 1
  if m.encoder_stack then pairs_of, tables = pairs_of + 1.0 * stacks.seq(m) ^ 2, 2 end
  return op.elementwise {
    name = "positions", elements = heads * pairs_of, parameters = tables * m.position_buckets * m.heads,
    dtype = p.dtype, forward_flops = 1, backward_flops = 1, forward_bytes = BYTES, backward_bytes = BYTES,
    parameter_grad = p.features,
  }
end

return cross
