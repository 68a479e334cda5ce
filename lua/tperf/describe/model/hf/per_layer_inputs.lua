--- The small Gemma 4 models (E2B, E4B): every layer adds an input of its own, made of a table by token and of the
-- embedding; the last layers read the keys and values of the last layer of their kind that has its own. Structure and
-- names are those of transformers' Gemma4TextModel.
local attention = require "tperf.describe.arch.layer.attention"
local block = require "tperf.describe.block"
local composed = require "tperf.describe.arch.composed"
local ends = require "tperf.describe.arch.ends"
local mlp = require "tperf.describe.arch.layer.mlp"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"

local BYTES <const> = 2

-- After the usual embedding: a table with a row for every token and layer, plus a product of the embedding with a norm
-- of each layer's part.
local function inputs(m, o)
  local all = m.layers * o.width
  return block("layer-inputs", function(described, p)
    local tokens = p:outer_tokens()
    return {
      p:embedding { name = "table", rows = o.rows, width = all },
      p:replicated { name = "projection", n_in = described.hidden, n_out = all },
      parts.head_norm(described, p, "norm", tokens * m.layers, o.width),
      op.residual { name = "sum", elements = p:outer(all), dtype = p.dtype },
    }
  end)
end

-- After the MLP: a gate by the stream, times the layer's input, back to the stream's width, a norm, and the layer's one
-- scale.
local function gated_input(o)
  return block("layer-input", function(m, p)
    return {
      p:replicated { name = "gate", n_in = m.hidden, n_out = o.width },
      op.activation { name = "gate-act", kind = "gelu", gated = true, elements = p:outer(o.width), dtype = p.dtype },
      p:replicated { name = "projection", n_in = o.width, n_out = m.hidden },
      parts.norm(m, p, "norm"), parts.residual(m, p, "residual"),
      op.elementwise {
        name = "layer-scale", elements = p:outer(m.hidden), parameters = 1, dtype = p.dtype, forward_flops = 1,
        backward_flops = 3, forward_bytes = 2 * BYTES, backward_bytes = 3 * BYTES, saved_bytes = BYTES,
        parameter_grad = p.sequence_parallel and p.features or nil,
      },
    }
  end)
end

local function layer_of(m, i, o, blocks)
  local borrows = i > m.layers - o.shared
  local window = m.window and m.window.pattern:sub(i, i) == "w" and m.window.size or nil
  return {
    kind = "dense", attention = "gqa", mlp = "dense", norms = m.norms_per_layer, window = window,
    borrows = borrows or nil, ffn = borrows and o.double and 2 * m.ffn or m.ffn, blocks = blocks,
  }
end

--- Sets the architecture of a description whose layers have inputs of their own, or share keys and values.
---@param m table  the unfinished description
---@param o table  width: features of a layer's input, 0: none; rows: of its table; shared: the last layers, which have
---   no keys and values of their own; double: whether these have an MLP twice as wide
---@return table m
return function(m, o)
  local blocks, list = { attention.block(1, 2), mlp.block(2, 2) }, {}
  if o.width > 0 then blocks[3] = gated_input(o) end
  for i = 1, m.layers do list[i] = layer_of(m, i, o, blocks) end
  m.architecture = composed.of("gemma4", list, o.width > 0 and { ends.embedding, inputs(m, o) } or nil)
  return m
end
