--- The small kernels around a block of experts that differ between training and serving: the router's product, and the
-- sum of routed and shared experts where a gate scales the latter, or where experts return tokens as they are.
local op = require "tperf.describe.op"

local small = {}

local BYTES <const>, WIDE_BYTES <const> = 2, 4

-- A kernel over `width` numbers of every token, of so many bytes each.
local function pass(p, name, width, bytes, dtype)
  return op.elementwise {
    name = name, elements = 1.0 * p:outer_tokens() * width, dtype = dtype or p.dtype, forward_flops = 1,
    backward_flops = 0, forward_bytes = bytes, backward_bytes = 0, saved_bytes = 0,
  }
end

--- The router. Where its weights are in 32 bits, engines copy its input and multiply in as many, which no matrix unit
--- does; a product of few rows is split over its long side, and in decode one more kernel adds the parts up (vLLM, pull
--- request 38445).
function small.router(m, p)
  local e, dtype = m.experts, p.mode ~= "train" and m.experts.router_dtype or nil
  local scored = e.count + e.zero
  local router = p:router { name = "router", width = m.hidden, experts = scored, top_k = e.top_k,
    bias = e.router_bias, dtype = dtype }:belong "moe_router"
  if not dtype then return { router } end
  local ops = { pass(p, "router-input", m.hidden, BYTES + WIDE_BYTES, dtype), router }
  if p.mode == "decode" then ops[3] = pass(p, "router-sums", scored, 3 * WIDE_BYTES, dtype) end
  return ops
end

--- In serving, what follows the product with the shared experts' gate: its sigmoid, times their output, plus the routed
--- experts' sum. One kernel, or three where nothing compiles the model (SGLang's qwen2_moe.py).
function small.gated_sum(m, p)
  if p.mode == "train" then return {} end
  if not p.eager_ops then return { pass(p, "gated-sum", m.hidden, 3 * BYTES) } end
  return { pass(p, "gate-sigmoid", 1, 2 * BYTES), pass(p, "gate", m.hidden, 2 * BYTES),
    pass(p, "sum", m.hidden, 3 * BYTES) }
end

--- Adds every token, times the weights of the experts that return it as it is, to the sum of the others.
function small.returned(m, p)
  if m.experts.zero == 0 then return {} end
  return {
    op.elementwise {
      name = "zero-experts", elements = 1.0 * p:outer_tokens() * m.hidden, dtype = p.dtype, forward_flops = 2,
      backward_flops = 4, forward_bytes = 3 * BYTES, backward_bytes = 4 * BYTES, saved_bytes = 0,
    },
  }
end

return small
