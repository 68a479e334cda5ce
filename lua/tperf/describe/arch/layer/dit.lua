--- A layer of a diffusion transformer (DiT, arXiv 2212.09748, section 3.2, adaLN-zero): attention and an MLP, each
-- preceded by a weightless norm with scale and shift and followed by a gate. One product per image makes these six
-- vectors from its time step and class. Norm, scale and shift are one kernel, as are gate and residual sum.
--
-- Saved: the inputs of the product, of both norms and of both gates; whatever attention and the MLP keep.
local attention = require "tperf.describe.arch.layer.attention"
local block = require "tperf.describe.block"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"

local dit = {}

local BYTES <const> = 2

-- Mean and variance 4 FLOPs, normalisation 2, scale and shift 2.
local function modulated_norm(m, p)
  return op.elementwise {
    name = "norm", elements = p:outer(m.hidden), dtype = p.dtype, forward_flops = 8, backward_flops = 14,
    forward_bytes = 2 * BYTES, backward_bytes = 4 * BYTES, saved_bytes = BYTES,
  }
end

-- x + gate * branch; the gate's gradient is a sum over the image.
local function gated_sum(m, p)
  return op.elementwise {
    name = "residual", elements = p:outer(m.hidden), dtype = p.dtype, forward_flops = 2, backward_flops = 4,
    forward_bytes = 3 * BYTES, backward_bytes = 4 * BYTES, saved_bytes = BYTES,
  }
end

local function around(m, p, inside)
  local ops = parts.append({ modulated_norm(m, p) }, inside)
  ops[#ops + 1] = gated_sum(m, p)
  return ops
end

--- A product of one row per image, to `vectors` vectors as wide as the stream.
function dit.modulate(m, p, vectors)
  return p:replicated {
    name = "modulation", n_in = m.hidden, n_out = vectors * m.hidden, bias = true, rows = p.micro_batch,
  }
end

local DENSE <const> = { dense = true, linear = true }

dit.modulation = block("modulation", function(m, p) return { dit.modulate(m, p, 6) } end, DENSE)

dit.attention = block("attention", function(m, p) return around(m, p, attention.inside(m, p)) end, DENSE)

dit.mlp = block("mlp", function(m, p) return around(m, p, parts.module("mlp", parts.mlp(m, p, m.ffn))) end, DENSE)

--- Before the first layer: the time step, expanded into sines and cosines, through two products; the class embedding.
function dit.conditioning(m, p)
  local d = m.diffusion
  local function product(name, n_in) -- one row per image
    return p:replicated { name = name, n_in = n_in, n_out = m.hidden, bias = true, rows = p.micro_batch }
  end
  return {
    product("time-1", d.frequency), product("time-2", m.hidden),
    op.elementwise {
      name = "class", elements = 1.0 * p.micro_batch * m.hidden, parameters = d.labels * m.hidden, dtype = p.dtype,
      forward_flops = 1, backward_flops = 1, forward_bytes = 2 * BYTES, backward_bytes = 2 * BYTES,
    },
  }
end

--- After the last layer: its own modulation, and the product to the pixels of a patch.
function dit.pixels(m, p)
  local width = m.vision.patch * m.vision.patch * m.diffusion.out_channels
  return {
    dit.modulate(m, p, 2), modulated_norm(m, p),
    p:replicated { name = "pixels", n_in = m.hidden, n_out = width, bias = true },
  }
end

return dit
