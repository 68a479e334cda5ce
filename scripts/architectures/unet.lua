-- The U-Net of Stable Diffusion 1.5 (arXiv 2112.10752): convolutions and attention at four resolutions, whose outputs
-- on the way down join the layers on the way up. One forward pass is one step of denoising a latent of 64 x 64.
local tperf = require "tperf"
local op = tperf.op

local SIDE <const>, LATENT <const>, HEADS <const>, STEP <const>, TEXT <const>, TOKENS <const> = 64, 4, 8, 1280, 768, 77
local WIDTHS <const>, ATTENDS <const> = { 320, 640, 1280, 1280 }, { true, true, true, false } -- of each resolution

local function conv(p, name, side, n_in, n_out, kernel, stride)
  return op.conv { name = name, batch = p.micro_batch, size = { side, side }, kernel = kernel, stride = stride,
    n_in = n_in,
    n_out = n_out, bias = true }
end

local function norm(p, name, side, width)
  local tokens = p.micro_batch * side * side
  return { op.norm { name = name, tokens = tokens, width = width },
    op.activation { name = name .. "-silu", kind = "silu", elements = 1.0 * tokens * width } }
end

local function residual(p, name, side, n_in, n_out)
  return {
    norm(p, name .. "-norm1", side, n_in), conv(p, name .. "-conv1", side, n_in, n_out, 3),
    p:replicated { name = name .. "-step", n_in = STEP, n_out = n_out, bias = true, rows = p.micro_batch },
    norm(p, name .. "-norm2", side, n_out), conv(p, name .. "-conv2", side, n_out, n_out, 3),
    n_in ~= n_out and conv(p, name .. "-skip", side, n_in, n_out, 1) or {},
    op.residual { elements = 1.0 * p.micro_batch * side * side * n_out },
  }
end

-- Attention to the image, or to the text, then an MLP with a gate.
local function transformer(p, width)
  local elements, d = p:outer(width), width // HEADS
  local function attention(name, text)
    return {
      p:norm { name = name .. "-norm", width = width }, p:column { name = name .. "-q", n_in = width, n_out = width },
      p:replicated { name = name .. "-kv", n_in = text and TEXT or width, n_out = 2 * width,
        rows = text and p.micro_batch * TOKENS or nil, input_kept_elsewhere = not text },
      p:attention { name = name, heads = HEADS, head_dim = d, causal = false, keys = text and TOKENS or nil },
      p:row { name = name .. "-out", n_in = width, n_out = width, bias = true }, op.residual { elements = elements },
    }
  end
  return {
    p:norm { name = "norm", width = width }, p:column { name = "proj-in", n_in = width, n_out = width, bias = true },
    attention "self", attention("cross", true), p:norm { name = "mlp-norm", width = width },
    p:column { name = "up", n_in = width, n_out = 8 * width, bias = true },
    op.activation { kind = "gelu", gated = true, elements = 4 * elements },
    p:row { name = "down", n_in = 4 * width, n_out = width, bias = true }, op.residual { elements = elements },
    p:row { name = "proj-out", n_in = width, n_out = width, bias = true }, op.residual { elements = elements },
  }
end

local layer = tperf.block("layer", function(_, p)
  local g = p.group
  return {
    residual(p, "first", g.side, g.n_in, g.n_out), g.attends and transformer(p, g.n_out) or {},
    g.middle and residual(p, "second", g.side, g.n_out, g.n_out) or {},
    g.down and conv(p, "down", g.side, g.n_out, g.n_out, 3, 2) or {},
    g.up and conv(p, "up", 2 * g.side, g.n_out, g.n_out, 3) or {},
  }
end)

-- The layers, with the width of the stream that enters each and the elements of the skips that travel beside it.
local function layers()
  local list, skips, carries, width, side = {}, {}, 0, WIDTHS[1], SIDE
  local function keep(w, s) skips[#skips + 1], carries = { w, s }, carries + w * s * s end
  local function add(one)
    one.count, one.seq, one.side = 1, side * side, side
    list[#list + 1] = one
    width = one.n_out
  end
  keep(width, side)
  for level, n_out in ipairs(WIDTHS) do
    for i = 1, 2 do
      local down = i == 2 and level < #WIDTHS
      add { n_in = width, n_out = n_out, width = width, carries = carries, attends = ATTENDS[level], down = down }
      keep(width, side)
      if down then
        side = side // 2
        keep(width, side)
      end
    end
  end
  add { n_in = width, n_out = width, width = width, carries = carries, attends = true, middle = true }
  for level = #WIDTHS, 1, -1 do
    for i = 1, 3 do
      local skip, up = table.remove(skips), i == 3 and level > 1
      add { n_in = width + skip[1], n_out = WIDTHS[level], width = width, carries = carries, attends = ATTENDS[level],
        up = up }
      carries = carries - skip[1] * skip[2] * skip[2]
      if up then side = 2 * side end
    end
  end
  return list
end

local first = tperf.block("inputs", function(_, p)
  return {
    conv(p, "conv-in", SIDE, LATENT, WIDTHS[1], 3),
    p:replicated { name = "step1", n_in = WIDTHS[1], n_out = STEP, bias = true, rows = p.micro_batch },
    p:replicated { name = "step2", n_in = STEP, n_out = STEP, bias = true, rows = p.micro_batch },
  }
end)

local last = tperf.block("outputs", function(_, p)
  return { norm(p, "norm", SIDE, WIDTHS[1]), conv(p, "conv-out", SIDE, WIDTHS[1], LATENT, 3) }
end)

local all = layers()
return tperf.model {
  name = "sd-1.5-unet", layers = #all, hidden = WIDTHS[1], vocab = 1, seq = SIDE * SIDE, causal = false,
  architecture = tperf.architecture {
    name = "u-net", groups = all, layer = { layer }, first = { first }, last = { last },
    admits = function(_, layout)
      for _, axis in ipairs { "tp", "cp", "ulysses", "tp1", "tp2" } do
        if (layout[axis] or 1) > 1 then return false, "has convolutions of whole images" end
      end
      return true
    end,
  },
}
