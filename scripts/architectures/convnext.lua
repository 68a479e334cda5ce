-- ConvNeXt-T (arXiv 2201.03545): depthwise convolutions of 7 x 7, each with an MLP over the channels, at four
-- resolutions. Images of 224 x 224 pixels; every GPU works on its own.
local tperf = require "tperf"
local op = tperf.op

local PIXELS <const>, STEM <const>, CLASSES <const> = 224, 4, 1000
local WIDTHS <const>, DEPTHS <const> = { 96, 192, 384, 768 }, { 3, 3, 9, 3 } -- of each resolution

local function conv(p, name, side, kernel, stride, n_in, n_out, groups)
  return op.conv { name = name, batch = p.micro_batch, size = { side, side }, kernel = kernel, stride = stride,
    n_in = n_in, n_out = n_out, groups = groups, bias = true }
end

local function norm(p, name, side, width)
  return op.norm { name = name, tokens = p.micro_batch * side * side, width = width }
end

-- The learned factor of each channel (layer scale).
local function scale(rows, width)
  return op.elementwise { name = "scale", elements = 1.0 * rows * width, parameters = width, forward_flops = 1,
    backward_flops = 3, forward_bytes = 4, backward_bytes = 6, saved_bytes = 2 }
end

-- The first layer of a resolution halves the sides of the one before it.
local block = tperf.block("block", function(_, p)
  local side, d = p.group.side, p.group.channels
  local rows = p.micro_batch * side * side
  return {
    p.group.halves and { norm(p, "down-norm", 2 * side, d // 2), conv(p, "down", 2 * side, 2, 2, d // 2, d) } or {},
    conv(p, "depthwise", side, 7, 1, d, d, d), norm(p, "norm", side, d),
    op.linear { name = "up", tokens = rows, n_in = d, n_out = 4 * d, bias = true },
    op.gelu { elements = 4.0 * rows * d },
    op.linear { name = "down", tokens = rows, n_in = 4 * d, n_out = d, bias = true }, scale(rows, d),
    op.residual { elements = 1.0 * rows * d },
  }
end)

local stem = tperf.block("stem", function(_, p)
  return { conv(p, "stem", PIXELS, STEM, STEM, 3, WIDTHS[1]), norm(p, "norm", PIXELS // STEM, WIDTHS[1]) }
end)

local head = tperf.block("head", function(_, p)
  local width = WIDTHS[#WIDTHS]
  return { op.norm { name = "norm", tokens = p.micro_batch, width = width },
    op.linear { name = "classes", tokens = p.micro_batch, n_in = width, n_out = CLASSES, bias = true } }
end)

local groups, layers = {}, 0
for i, depth in ipairs(DEPTHS) do
  local side = PIXELS // STEM >> i - 1
  for k = 1, depth do
    groups[#groups + 1] = { count = 1, side = side, seq = side * side, channels = WIDTHS[i], halves = k == 1 and i > 1,
      width = k == 1 and i > 1 and WIDTHS[i - 1] or WIDTHS[i] }
  end
  layers = layers + depth
end

local function whole_images(_, layout)
  for _, axis in ipairs { "tp", "tp1", "tp2", "cp", "ulysses" } do
    if (layout[axis] or 1) > 1 then return false, "works on whole images" end
  end
  return true
end

return tperf.model { name = "convnext-t", layers = layers, hidden = WIDTHS[1],
  seq = (PIXELS // STEM) * (PIXELS // STEM),
  architecture = tperf.architecture { name = "convnext", layer = { block }, groups = groups, first = { stem },
    last = { head }, admits = whole_images } }
