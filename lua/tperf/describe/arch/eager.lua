--- PyTorch without a compiler: the steps of a norm, a rotation and a gate are kernels of their own, and pass their
-- elements through HBM between them. Bytes of 16-bit elements beyond those of one fused kernel; docs/model.md, section
-- 2.5, lists the steps.
local eager = {}

-- PyTorch before 2.8, whose RMSNorm has these steps, and since.
local UNFUSED <const>, FUSED <const> = "norms unfused", "norms fused"

local NORM <const>, ROTARY <const>, GATE <const> = { 32, 74 }, { 16, 16 }, { 4, 8 }

-- Of a gated activation with limits, which Megatron-Core keeps out of its compiled kernel (fused_bias_geglu.py,
-- weighted_bias_quick_geglu_impl): each half is read and written within its limits, and both are read and written as
-- one tensor. Backward, a half's gradient and input are read and its gradient written; both are joined like that, too.
local LIMITS <const>, BYTES <const> = { 2 * (2 + 2) + 2 * (2 + 2), 2 * (2 + 2 + 2) + 2 * (2 + 2) }, 2

local function spill(one, bytes, elements) one:spill(bytes[1] * elements, bytes[2] * elements) end

--- What a share's ops read: nil if a compiler fuses them.
---@param o table  a question's arguments, with the profile's
function eager.of(o) return o.compile == false and (o.fused_norm == false and UNFUSED or FUSED) or nil end

--- Changes the op of a norm. A layernorm was always one kernel.
---@param m table          the model
---@param p table          the share
---@param one table        the op
---@param elements number  that it normalizes
function eager.norm(m, p, one, elements)
  if p.eager == UNFUSED and m.norm == "rmsnorm" then spill(one, NORM, elements) end
  return one
end

--- Changes the op of a rotation.
function eager.rotary(p, one, elements)
  if p.eager then spill(one, ROTARY, elements) end
  return one
end

--- Changes the op of a gated activation. elements: of its result.
function eager.gate(p, one, elements)
  if p.eager then spill(one, GATE, elements) end
end

--- Changes the op of a gated activation whose halves are limited: the limited ones are kept, too.
function eager.limit(one, elements)
  spill(one, LIMITS, elements)
  one:hold(one:saved_bytes() + 2 * BYTES * elements, 0)
end

return eager
