--- LFM2's gated short convolution (Liquid AI's LFM2; transformers' Lfm2ShortConv): one projection to B, C and x, a
-- depthwise convolution of few taps over B x, times C, and the output projection. Features are sharded by tp. A
-- sequence keeps the convolution's last inputs.
--
-- Saved: the first projection's input and output, and the second one's input.
local block = require "tperf.describe.block"
local fitting = require "tperf.describe.strategy.fitting"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"

local short_conv = {}

local BYTES <const> = 2

local function inside(m, p, taps, bias)
  local width = fitting.split(p, m.hidden, p[p.features], p.features, "conv")
  local tokens = 1.0 * p:inner_tokens()
  local conv = op.elementwise {
    name = "conv", elements = tokens * width, parameters = width * (taps + (bias and 1 or 0)), dtype = p.dtype,
    forward_flops = 2 * taps + 2, backward_flops = 4 * taps + 6, forward_bytes = 4 * BYTES, backward_bytes = 7 * BYTES,
    saved_bytes = 3 * BYTES,
  }
  if p.mode == "decode" then conv:keep { sequence = 1.0 * BYTES * p.micro_batch * (taps - 1) * width } end
  return {
    p:column { name = "in", n_in = m.hidden, local_out = 3 * width, bias = bias }, conv,
    p:row { name = "out", n_in = m.hidden, n_out = m.hidden, bias = bias },
  }
end

--- The block, i-th of the layer's n sublayers.
---@param taps integer  of the convolution
---@param bias boolean  of it and of both projections
function short_conv.block(i, n, taps, bias)
  return block("conv", function(m, p) return parts.sublayer(m, p, i, n, inside(m, p, taps, bias)) end)
end

return short_conv
