--- Mamba-2 (arXiv 2405.21060, section 7): one projection to z, x, B, C and dt, a short convolution over x, B and C, the
-- state-space scan, a gated norm, the output projection. Heads are sharded by tp. Groups of B and C are, too, or are
-- replicated if there are fewer than GPUs (section 8.1); the norm's statistics are then summed over tp.
--
-- Saved: the projections' inputs; z, x, B, C and dt; y. The convolution and the states are recomputed inside the
-- scan's backward kernel (the paper's mamba_split_conv1d_scan_combined).
local attention = require "tperf.describe.arch.layer.attention"
local block = require "tperf.describe.block"
local fitting = require "tperf.describe.strategy.fitting"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"

local mamba = {}

local BYTES = 2

-- This GPU's sizes.
local function cut_of(m, p)
  local s, n = m.mamba, p[p.features]
  local heads = fitting.split(p, s.heads, n, p.features, "heads")
  local groups = fitting.replicated(p, s.groups, n, "groups")
  local inner = heads * s.head_dim
  return { heads = heads, groups = groups, inner = inner, convolved = inner + 2 * groups * s.state }
end

local function convolution(m, p, cut)
  local taps = m.mamba.conv
  return op.elementwise {
    name = "conv", elements = 1.0 * p:inner_tokens() * cut.convolved, dtype = p.dtype,
    parameters = cut.convolved * (taps + (m.mamba.conv_bias and 1 or 0)), recomputed = p.mode == "train",
    forward_flops = 2 * taps + 4, backward_flops = 4 * taps + 8, forward_bytes = 2 * BYTES, backward_bytes = 4 * BYTES,
  }
end

-- softplus(dt + bias), with A and D one number per head: exponential, sum, logarithm.
local function steps(p, cut)
  return op.elementwise {
    name = "dt", elements = 1.0 * p:inner_tokens() * cut.heads, parameters = 3 * cut.heads, dtype = p.dtype,
    forward_flops = 4, backward_flops = 6, forward_bytes = 2 * BYTES, backward_bytes = 3 * BYTES,
  }
end

-- y silu(z), then the norm, in one kernel: z is read and kept; the norm's op counts y. Without a norm the scan's kernel
-- reads z.
local function gated_norm(m, p, cut)
  local tokens = p:inner_tokens()
  local rms = m.norm == "rmsnorm"
  local whole = cut.inner == m.mamba.heads * m.mamba.head_dim
  local gate = op.elementwise {
    name = "gate", elements = 1.0 * tokens * cut.inner, forward_flops = 5, backward_flops = 11, forward_bytes = BYTES,
    backward_bytes = 2 * BYTES, saved_bytes = BYTES, dtype = p.dtype,
  }
  if not m.mamba.norm then return { gate } end
  return {
    gate:join(),
    op.norm {
      name = "gated-norm", tokens = tokens, width = cut.inner, root_mean_square = rms,
      parameters = (rms or not m.biases.norm) and cut.inner or 2 * cut.inner, dtype = p.dtype,
      statistics = m.mamba.groups < p[p.features] and not whole and p.features or nil,
      grad_statistics = (rms and 1 or 2) * tokens,
    },
  }
end

-- Megatron's stream has the sequence first, the scan's kernels have the batch first: of several sequences their inputs
-- are copied there, and y back (mamba_mixer.py, rearrange … contiguous), in both passes.
local function turned(p, name, width)
  if p.mode ~= "train" or p.micro_batch == 1 then return {} end
  local pass = { bytes = 2 * BYTES * 1.0 * p:inner_tokens() * width }
  return { op.custom({ name = name, dtype = p.dtype, forward = pass, backward = pass }):single() }
end

local function inside(m, p)
  local s, cut = m.mamba, cut_of(m, p)
  local ops = {
    p:column {
      name = "in", n_in = m.hidden, local_out = cut.inner + cut.convolved + cut.heads, bias = s.bias,
    },
  }
  parts.append(ops, turned(p, "batch-first", cut.inner + cut.convolved + cut.heads))
  local conv = convolution(m, p, cut)
  if p.mode == "decode" then conv:keep { sequence = 1.0 * BYTES * p.micro_batch * (s.conv - 1) * cut.convolved } end
  parts.append(ops, { conv, steps(p, cut) })
  parts.append(ops, p:scan {
    name = "scan", heads = cut.heads, head_dim = s.head_dim, groups = cut.groups, state = s.state, chunk = s.chunk,
  })
  parts.append(ops, gated_norm(m, p, cut))
  parts.append(ops, turned(p, "batch-second", cut.inner))
  ops[#ops + 1] = p:row { name = "out", n_in = s.heads * s.head_dim, n_out = m.hidden, bias = s.bias }
  return ops
end

--- The Mamba block, i-th of the layer's n sublayers.
function mamba.block(i, n)
  return block("mamba", function(m, p) return parts.sublayer(m, p, i, n, inside(m, p)) end)
end

-- Both read one norm, and both outputs are reduced before they are added, as engines do.
local function beside(m, p)
  if p.part == "attention" then return attention.inside(m, p) end
  local ops = parts.append(inside(m, p), attention.inside(m, p, { input_kept_elsewhere = true, gathered = true }))
  ops[#ops + 1] = op.residual { name = "join", elements = p:outer(m.hidden), dtype = p.dtype }
  return ops
end

--- Mamba-2 and attention side by side (Falcon-H1, arXiv 2507.22448).
mamba.beside = {
  block = function(i, n)
    return block("mamba", function(m, p) return parts.sublayer(m, p, i, n, beside(m, p)) end)
  end,
}

return mamba
