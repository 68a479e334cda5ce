--- Constructors of pointwise ops: one pass over their elements (core.elementwise). A new one is a function here.
local check = require "tperf.base.check"
local core = require "tperf.core".op
local fields = require "tperf.describe.op.fields"

local MASK_BYTES <const> = 1 -- per entry of a dropout mask
local RESIDUAL <const>, ROTARY <const>, GATE <const> = 1, 2, 3 -- roles: include/tperf/op.h

local math_type = math.type

local pointwise = {}

-- Bytes per element of the dtype in o; raises for fields that are not allowed.
local function element(what, o, allowed)
  local bytes = core.element(o, allowed)
  if bytes then return bytes end
  fields.check("op." .. what, o, allowed)
  local dtype = o.dtype or "bf16"
  if type(dtype) ~= "string" then check.fail("op.%s: 'dtype' must be a name, got %s", what, check.show(dtype)) end
  return core.bytes("op." .. what, dtype)
end

-- FLOPs per element, forward and backward. GELU as published (arXiv 2410.00273); SiLU x s(x) costs an exponential, a
-- sum, a quotient and a product, its gradient s (1 + x (1 - s)) dy those and four more; xIELU as for x < 0, where it is
-- a (e^x - 1 - x) + b x (arXiv 2411.13010), with the gradient of the learned a; the others follow from their formulas.
local activations = {
  gelu = { 8, 13 }, quick_gelu = { 5, 9 }, silu = { 4, 8 }, tanh = { 1, 3 }, relu = { 1, 1 }, relu2 = { 2, 3 },
  xielu = { 6, 8 },
}

local activation_names = fields.set "kind dtype elements gated kept_element fused"
--- An activation with `elements` results: kind ("gelu", "silu", "relu", "relu2", "quick_gelu", "tanh", "xielu"); gated:
--- times a second input, as in SwiGLU (arXiv 2002.05202), in one kernel. Saved: the inputs; kept_element: bytes per
--- input if they are kept in fewer, in an extra copy that the kernel writes and the backward pass reads. fused: part of
--- its neighbours' kernels, which in the backward pass read the inputs.
function pointwise.activation(o)
  local bytes = element("activation", o, activation_names)
  local flops, inputs, kept = activations[o.kind], o.gated and 2 or 1, o.kept_element or bytes
  if not flops then
    check.fail("op.activation: unknown kind %s%s; there are: %s", check.show(o.kind),
      check.suggest(o.kind, check.names(activations)), table.concat(check.names(activations), ", "))
  end
  local passed = o.fused and 0 or (inputs + 1) * bytes -- inputs and outputs of a kernel of its own
  return core.elementwise {
    name = o.name or o.kind, dtype = o.dtype, elements = o.elements, fused = o.fused,
    forward_flops = flops[1] + inputs - 1, backward_flops = flops[2] + 3 * (inputs - 1),
    forward_bytes = passed + (o.kept_element and inputs * kept or 0),
    backward_bytes = passed + inputs * kept, saved_bytes = inputs * kept, input_bytes = inputs * kept,
    role = o.gated and GATE or nil,
  }
end

local residual_names, rotary_names = fields.set "dtype elements dropout fused", fields.set "dtype elements"
--- Adds a branch to the stream; dropout: of the branch, in the same kernel, with its mask kept; fused: in the norm's
--- kernel, whose backward pass reads the stream's gradient as well.
function pointwise.residual(o)
  local bytes = element("residual", o, residual_names)
  local mask = o.dropout and MASK_BYTES or 0
  return core.elementwise {
    name = o.name or "residual", dtype = o.dtype, elements = o.elements, forward_flops = o.dropout and 2 or 1,
    backward_flops = o.dropout and 2 or 1, forward_bytes = (o.fused and 2 or 3) * bytes + mask,
    backward_bytes = (o.fused and 1 or 3) * bytes + mask, saved_bytes = mask, fused = o.fused, role = RESIDUAL,
  }
end

--- Rotates pairs of features by position (arXiv 2104.09864): two products and a sum per element; nothing saved.
function pointwise.rotary(o)
  local bytes = element("rotary", o, rotary_names)
  return core.elementwise {
    name = o.name or "rotary", dtype = o.dtype, elements = o.elements, forward_flops = 3, backward_flops = 3,
    forward_bytes = 2 * bytes, backward_bytes = 2 * bytes, role = ROTARY,
  }
end

local bias_names = fields.set "dtype tokens width parameter_grad"

--- Adds a vector of `width` to `tokens` rows.
function pointwise.bias(o)
  local bytes = element("bias", o, bias_names)
  local tokens, width = o.tokens, o.width
  if not (math_type(tokens) and math_type(width)) then
    local name = math_type(tokens) and "width" or "tokens"
    check.fail("op.bias: '%s' must be an integer, got %s", name, check.show(o[name]))
  end
  return core.elementwise {
    name = o.name or "bias", dtype = o.dtype, elements = 1.0 * tokens * width, parameters = width,
    forward_flops = 1, backward_flops = 1, forward_bytes = bytes, backward_bytes = bytes,
    parameter_grad = o.parameter_grad,
  }
end

local gelu_names, dropout_names = fields.set "dtype elements", fields.set "dtype elements keep_mask recomputed"

--- GELU of `elements`: 8 FLOP forward and 13 backward per element.
function pointwise.gelu(o)
  local bytes = element("gelu", o, gelu_names)
  return core.elementwise {
    name = o.name or "gelu", dtype = o.dtype, elements = o.elements, forward_flops = 8, backward_flops = 13,
    forward_bytes = 2 * bytes, backward_bytes = 3 * bytes, saved_bytes = bytes,
  }
end

--- Dropout of `elements`; keep_mask = false draws the mask again in the backward pass.
function pointwise.dropout(o)
  local bytes = 2 * element("dropout", o, dropout_names) + MASK_BYTES
  return core.elementwise {
    name = o.name or "dropout", dtype = o.dtype, elements = o.elements, forward_flops = 1, backward_flops = 1,
    forward_bytes = bytes, backward_bytes = bytes, saved_bytes = o.keep_mask == false and 0 or MASK_BYTES,
    recomputed = o.recomputed,
  }
end

return pointwise
