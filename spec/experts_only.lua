-- Models whose layers are experts alone, and software with which their steps show every effect of overlap.
local tperf = require "tperf"

local experts_only = {}

experts_only.STACK = {
  compute = 1.2, attention = 1.4, memory = 1.5, comm = 1.3, host = 2e-6, overlap = 0.7, comm_sms = 20, kernel = "flash",
  name = "spec",
}

--- A model without embedding and head, so that all stages are equal: 64 experts, of which a token takes 4.
---@param layers integer
---@param change? table  fields of `experts`
function experts_only.model(layers, change)
  local m = {
    name = "spec", layers = layers, hidden = 4096, heads = 32, ffn = 2048, gated = true, seq = 4096,
    experts = { count = 64, top_k = 4, ffn = 2048, dense_layers = 0 },
  }
  for name, value in pairs(change or {}) do m.experts[name] = value end
  local plan = tperf.architecture.of(tperf.model(m))
  m.architecture = tperf.architecture { name = "spec", layer = plan.groups[1].blocks, first = {}, last = {} }
  return tperf.model(m)
end

return experts_only
