--- Sampling of tokens from logits in a serving engine: kernels that read and write every logit of every row.
local op = require "tperf.describe.op"

local sampling = {}

-- Bytes per logit that a kernel reads and writes; logits arrive in 16 bits and stay in 32.
local WIDEN <const>, LARGEST <const> = 6, 4
local DRAW <const> = { { "temperature", 8 }, { "softmax", 8 }, { "noise", 4 }, { "divide", 12 } }
-- A radix sort of pairs of a logit (4 bytes) and its index (8) counts, scans and moves the pairs in passes of 8 bits;
-- PyTorch then sorts them by row.
local SORT <const> = { { "number", 8 }, { "count", 4 }, { "offsets", 0 }, { "pass-1", 24 }, { "pass-2", 24 },
  { "pass-3", 24 }, { "pass-4", 24 }, { "count-rows", 4 }, { "offsets-rows", 0 }, { "pass-rows-1", 24 },
  { "pass-rows-2", 24 }, { "gather", 24 } }
local CUT <const> = { { "sorted-softmax", 8 }, { "sum", 8 }, { "compare", 5 }, { "keep-one", 0 }, { "mask", 9 },
  { "scatter", 16 } }
-- Copies of tokens and their log-probabilities to the host.
local COPIES <const> = 4
-- Rejection sampling needs no sort: about three passes find the threshold (FlashInfer's kernels).
local REJECT <const> = { { "pass-1", 4 }, { "pass-2", 4 }, { "pass-3", 4 } }

local KERNELS = {
  greedy = {},
  random = { DRAW },
  top_p = { DRAW, SORT, CUT },
  top_p_fused = { DRAW, REJECT },
}
sampling.KINDS = { "greedy", "random", "top_p", "none" }

--- The ops of `p.sampling` for the rows of logits: "greedy", "random" (with temperature), "top_p" (among the likeliest
--- tokens, found by a sort) or "top_p_fused" (the same without a sort).
function sampling.ops(m, p, rows)
  local ops = {}
  local function add(name, bytes)
    ops[#ops + 1] = op.elementwise {
      name = name, elements = 1.0 * rows * m.vocab, forward_flops = 1, backward_flops = 0, forward_bytes = bytes,
      backward_bytes = 0, dtype = p.dtype, eager = true,
    }
  end
  add("widen", WIDEN)
  for _, part in ipairs(KERNELS[p.sampling]) do
    for _, kernel in ipairs(part) do add(kernel[1], kernel[2]) end
  end
  add("largest", LARGEST)
  for i = 1, COPIES do add("copy-" .. i, 0) end
  return ops
end

return sampling
