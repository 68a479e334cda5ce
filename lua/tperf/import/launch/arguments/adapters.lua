--- The memory that a server holds for adapters (LoRA, arXiv 2106.09685).
local check = require "tperf.base.check"

local BYTES <const> = 2 -- of a number, 16 bits

-- Rows and columns of the two factors of one rank for all products of a layer, on one of tp GPUs: what is cut by output
-- has a whole first factor on each GPU, what is cut by input a whole second one (vllm/lora/layers).
local function of_layer(m, tp)
  local h, own, inner = m.hidden, m.heads * m.head_dim / tp, m.ffn / tp
  local cache = math.max(1, m.kv_heads / tp) * m.head_dim
  local ups = m.gated and 2 or 1
  return (3 + ups) * h + own + 2 * cache + ups * inner + (own + h) + (inner + h)
end

--- Bytes of a GPU for `count` adapters of a rank beside a model's layers.
---@param adapters table  { count, rank }
---@param m table         the model
---@param tp integer
---@param pp integer
---@return number
return function(adapters, m, tp, pp)
  local plain = m.heads and m.ffn and not (m.experts or m.mla or m.window or m.mixers or m.mamba or m.mamba1
    or m.layer_pattern or m.architecture)
  if not plain then
    check.fail("adapters (--enable-lora): their buffers are known of dense layers with plain attention, which model "
      .. "'%s' does not have alone: leave the option out", m.name)
  end
  return adapters.count * adapters.rank * of_layer(m, tp) * BYTES * math.ceil(m.layers / pp)
end
