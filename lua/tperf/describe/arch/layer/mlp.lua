--- The MLP, plain or gated (arXiv 2002.05202), with the model's activation.
local block = require "tperf.describe.block"
local parts = require "tperf.describe.arch.layer.parts"

local mlp = {}

--- The MLP block, i-th of the layer's n sublayers.
function mlp.block(i, n)
  return block("mlp", function(m, p)
    local ops = parts.module("mlp", parts.mlp(m, p, p.group.ffn or m.ffn))
    ops[2]:belong "mlp_act"
    return parts.sublayer(m, p, i, n, ops, "mlp_norm")
  end)
end

return mlp
