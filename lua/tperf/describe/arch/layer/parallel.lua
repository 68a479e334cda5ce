--- Attention and MLP side by side (PaLM, arXiv 2204.02311, section 2; Falcon; ViT-22B): both read the stream, and one
-- sum adds both outputs, so a layer gathers the stream once and reduces once. With two norms (Falcon's new
-- decoder) each branch gathers its own norm's output. Further norms follow the sum. "join" adds attention's
-- partial sums to the MLP's before they are reduced.
local attention = require "tperf.describe.arch.layer.attention"
local block = require "tperf.describe.block"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"

local function ops(m, p)
  local norms = p.group.norms
  local list = { norms > 0 and parts.norm(m, p, "norm"):belong "layernorm" or nil }
  parts.append(list, attention.inside(m, p, { partial = true }))
  if norms > 1 then list[#list + 1] = parts.norm(m, p, "mlp-norm", nil, true) end
  local shared = norms < 2 -- both read the same
  local mlp = parts.mlp(m, p, m.ffn, { gathered = shared, input_kept_elsewhere = shared })
  mlp[2]:belong "mlp_act"
  parts.append(list, parts.module("mlp", mlp))
  local both = 1.0 * p:inner_tokens() * m.hidden
  table.insert(list, #list, op.residual { name = "join", elements = both, dtype = p.dtype })
  for k = 3, norms do list[#list + 1] = parts.norm(m, p, k == 3 and "post-norm" or "post-norm-" .. k - 2) end
  list[#list + 1] = parts.residual(m, p, "residual")
  return list
end

return block("parallel", ops, { dense = true, linear = true })
