--- Mamba-1 (arXiv 2312.00752, section 3.4): one projection to x and z; a short convolution over x; from x the steps
-- (through a narrow rank), B and C; the selective scan, a separate kernel on the vector units; its output times
-- silu(z); the output projection. Features are sharded by tp. Steps, B and C depend on all features: they are summed
-- over tp.
--
-- Saved: the projections' inputs; x and z; steps, B and C. The scan's states are recomputed in its backward kernel
-- (section 3.3.2).
local block = require "tperf.describe.block"
local fitting = require "tperf.describe.strategy.fitting"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"

local mamba1 = {}

local BYTES <const> = 2

-- FLOPs per state element and token, counted as the authors do: the step times A and its exponential, the state's
-- decay, B times x times the step, their sum, and the product with C.
local SCAN_FLOPS <const> = 9

local function inner_of(m, p)
  return fitting.split(p, m.mamba1.inner, p[p.features], p.features, "inner")
end

local function convolution(m, p, inner)
  local s = m.mamba1
  return op.elementwise {
    name = "conv", elements = 1.0 * p:inner_tokens() * inner, dtype = p.dtype,
    parameters = inner * (s.conv + (s.conv_bias and 1 or 0)), recomputed = p.mode == "train",
    forward_flops = 2 * s.conv + 4, backward_flops = 4 * s.conv + 8, forward_bytes = 2 * BYTES,
    backward_bytes = 4 * BYTES,
  }
end

-- The steps' rank, B and C, complete on every GPU; Jamba and Falcon-Mamba normalise each.
local function selection(m, p, inner)
  local s, tokens = m.mamba1, p:inner_tokens()
  local width = s.rank + 2 * s.state
  local ops = {
    p:row { name = "x", n_in = s.inner, local_in = inner, n_out = width, partial = true },
    op.collective { name = "sum", kind = "all_reduce", axis = p.features, bytes = 1.0 * BYTES * tokens * width },
  }
  if s.norms then
    for _, part in ipairs { { "dt-norm", s.rank }, { "b-norm", s.state }, { "c-norm", s.state } } do
      ops[#ops + 1] = parts.head_norm(m, p, part[1], tokens, part[2], s.norms == "plain")
    end
  end
  ops[#ops + 1] = p:column { name = "dt", n_in = s.rank, n_out = s.inner, bias = true, gathered = true }
  return ops
end

-- Reads x, steps, B, C and z and writes the gated output; in decode, one token reads and writes the kept state.
local function scan(m, p, inner)
  local s, tokens = m.mamba1, 1.0 * p:inner_tokens()
  local bytes = BYTES * tokens * (4 * inner + 2 * s.state)
  local flops = tokens * inner * (SCAN_FLOPS * s.state + 5)
  local state = p.mode == "decode" and 2.0 * fitting.state_element(p) * p.micro_batch * inner * s.state or 0
  return op.custom {
    name = "scan", dtype = p.dtype, weight_bytes = 1.0 * BYTES * inner * (s.state + 1),
    saved_bytes = BYTES * tokens * (3 * inner + 2 * s.state),
    forward = { vector_flops = flops, bytes = bytes + state },
    backward = { vector_flops = 3 * flops, bytes = 2 * bytes },
    keeps = p.mode == "decode" and { sequence = p.micro_batch * mamba1.state_bytes(m, p) } or nil,
  }
end

local function inside(m, p)
  local s, inner = m.mamba1, inner_of(m, p)
  local ops = {
    p:column { name = "in", n_in = m.hidden, local_out = 2 * inner, bias = s.bias }, convolution(m, p, inner),
  }
  parts.append(ops, selection(m, p, inner))
  ops[#ops + 1] = scan(m, p, inner)
  parts.append(ops, fitting.states(p, 1.0 * fitting.state_element(p) * p.micro_batch * inner * s.state))
  ops[#ops + 1] = p:row { name = "out", n_in = s.inner, n_out = m.hidden, bias = s.bias }
  return ops
end

--- Bytes that one layer keeps per sequence on one GPU: the state and the convolution's last inputs.
function mamba1.state_bytes(m, p)
  local s, inner = m.mamba1, inner_of(m, p)
  return 1.0 * fitting.state_element(p) * inner * s.state + 1.0 * BYTES * (s.conv - 1) * inner
end

--- The Mamba block, i-th of the layer's n sublayers.
function mamba1.block(i, n)
  return block("mamba", function(m, p) return parts.sublayer(m, p, i, n, inside(m, p)) end)
end

return mamba1
