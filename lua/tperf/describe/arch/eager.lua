--- PyTorch without a compiler: the steps of a norm, a rotation and a gate are kernels of their own, and pass their
-- elements through HBM between them. Bytes of 16-bit elements beyond those of one fused kernel; docs/model.md, section
-- 2.5, lists the steps.
local eager = {}

local ROTARY <const>, GATE <const> = { 16, 16 }, { 4, 8 }

-- By what the profile calls its norms. pytorch: RMSNorm before PyTorch 2.8. copied: a fused kernel that reads and keeps
-- a copy in fp32.
local NORMS <const> = { pytorch = { 32, 74 }, copied = { 8, 12 } }
local COPY <const> = 4 -- bytes of an element

-- Of a gated activation with limits, which Megatron-Core keeps out of its compiled kernel (fused_bias_geglu.py,
-- weighted_bias_quick_geglu_impl): each half is read and written within its limits, and both are read and written as
-- one tensor. Backward, a half's gradient and input are read and its gradient written; both are joined like that, too.
local LIMITS <const>, BYTES <const> = { 2 * (2 + 2) + 2 * (2 + 2), 2 * (2 + 2 + 2) + 2 * (2 + 2) }, 2

local function spill(one, bytes, elements) one:spill(bytes[1] * elements, bytes[2] * elements) end

--- What a share's ops read: nil if a compiler fuses them.
---@param o table  a question's arguments, with the profile's
function eager.of(o) return o.compile == false or nil end

--- The norms that a share's ops read: nil if they are fused.
---@param o table  a question's arguments, with the profile's
function eager.norms_of(o)
  if o.norm == "copied" or o.norm == "pytorch" and o.compile == false then return o.norm end
end

--- Changes the op of a norm.
---@param m table          the model
---@param p table          the share
---@param one table        the op
---@param elements number  that it normalizes
function eager.norm(m, p, one, elements)
  if not p.norms then return one end
  local copied = p.norms == "copied"
  -- PyTorch's layernorm was always one kernel.
  if copied or m.norm == "rmsnorm" then spill(one, NORMS[p.norms], elements) end
  return copied and one:hold(COPY * elements, 0) or one
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
