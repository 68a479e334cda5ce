--- Sampling of tokens from logits in a serving engine: kernels that read and write every logit of every row.
local kernels = require "tperf.describe.kernels"
local op = require "tperf.describe.op"

local sampling = {}

-- The lists of kernels/sampling.yaml that each kind runs.
local KERNELS <const> = {
  greedy = {},
  random = { "draw" },
  top_p = { "draw", "sort", "cut" },
  top_p_fused = { "draw", "reject" },
}
sampling.KINDS = { "greedy", "random", "top_p", "none" }

--- The ops of `p.sampling` for the rows of logits: "greedy", "random" (with temperature), "top_p" (among the likeliest
--- tokens, found by a sort) or "top_p_fused" (the same without a sort).
function sampling.ops(m, p, rows)
  local ops, of = {}, kernels.of "sampling"
  local function add(name, bytes)
    ops[#ops + 1] = op.elementwise {
      name = name, elements = 1.0 * rows * m.vocab, forward_flops = 1, backward_flops = 0, forward_bytes = bytes,
      backward_bytes = 0, dtype = p.dtype, eager = true,
    }
  end
  add("widen", of.widen)
  for _, part in ipairs(KERNELS[p.sampling]) do
    for _, kernel in ipairs(of[part]) do add(kernel[1], kernel[2]) end
  end
  add("largest", of.largest)
  for i = 1, of.copies do add("copy-" .. i, 0) end
  return ops
end

return sampling
