--- PyTorch without a compiler: the steps of a norm, a rotation and a gate are kernels of their own, and pass their
-- elements through HBM between them: kernels/eager.yaml.
local kernels = require "tperf.describe.kernels"

local eager = {}

local function spill(one, bytes, elements) one:spill(bytes.forward * elements, bytes.backward * elements) end

--- What a share's ops read: nil if a compiler fuses them.
---@param o table  a question's arguments, with the profile's
function eager.of(o) return o.compile == false or nil end

--- The norms that a share's ops read: nil if they are fused.
---@param o table  a question's arguments, with the profile's
function eager.norms_of(o)
  if o.norm == "copied" or o.norm == "pytorch" and o.compile == false then return o.norm end
end

--- Changes the op of a norm.
---@param p table          the share
---@param one table        the op
---@param elements number  that it normalizes
---@param root_mean_square boolean?  it is an RMSNorm
function eager.norm(p, one, elements, root_mean_square)
  if not p.norms then return one end
  local copied, norm = p.norms == "copied", kernels.of "eager".norms[p.norms]
  -- PyTorch's layernorm was always one kernel.
  if copied or root_mean_square then spill(one, norm, elements) end
  return copied and one:hold(norm.kept * elements, 0) or one
end

--- Changes the op of a rotation.
function eager.rotary(p, one, elements)
  if p.eager then spill(one, kernels.of "eager".rotary, elements) end
  return one
end

--- Changes the op of a gated activation. elements: of its result.
function eager.gate(p, one, elements)
  if p.eager then spill(one, kernels.of "eager".gate, elements) end
end

--- Changes the op of an activation that is written in steps, some of which keep what they made.
function eager.steps(p, one, elements)
  if not p.eager then return end
  local steps = kernels.of "eager".steps
  spill(one, steps, elements)
  one:hold(one:saved_bytes() + steps.kept * elements, 0)
end

--- Changes the op of a softmax between separate products: the scores are scaled and masked by a kernel each, and the
--- softmax, in fp32, is kept and cast back.
function eager.softmax(p, one, scores, again)
  if not p.eager then return one end
  local steps = kernels.of "eager".softmax
  spill(one, steps, scores)
  return again and one or one:hold(one:saved_bytes() + steps.kept * scores, 0)
end

--- Changes the op of a gated activation whose halves are limited: the limited ones are kept, too.
function eager.limit(one, elements)
  local limits = kernels.of "eager".limits
  spill(one, limits, elements)
  one:hold(one:saved_bytes() + limits.kept * elements, 0)
end

return eager
