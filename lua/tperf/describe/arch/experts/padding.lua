--- Rows added to those of each expert for products in fewer bits, whose matrix units want a multiple of some number of
-- rows (the recipe's row_multiple: 32 for mxfp8 and nvfp4, else 16: Megatron-Core's get_fp8_align_size and
-- get_fp4_align_size). A number of rows that may be any lacks (multiple - 1) / 2 on average. Who adds them:
--   experts   each GPU, to what it got for each of its experts. TransformerEngine's Fp8Padding copies all rows to new
--             places for it, and Fp8Unpadding back; deepep and hybridep pad while they copy rows to their experts
--   sort      the same in the kernel that sorts rows by expert (torchtitan)
--   router    each GPU routes more tokens before it sends any, until each expert gets a multiple from it
--             (--moe-router-padding-for-quantization with dispatcher alltoall): these rows travel, too, and are as many
--             times more as GPUs send
-- With a capacity factor, an expert's slots are rounded up.
local op = require "tperf.describe.op"
local popularity = require "tperf.describe.arch.experts.popularity"
local scattered = require "tperf.describe.arch.experts.scattered"

local padding = {}

local BYTES <const> = 2
local COPYING <const> = { alltoall = true, allgather = true }

-- The multiple; nil: the experts' products run in 16 bits.
local function multiple_of(p) return p.mode == "train" and p.row_multiple or nil end

-- Experts of this GPU.
local function own(m, p) return m.experts.count // (p[p.spread] or 1) end

local function by_router(p)
  return p.row_padding == "router" and (p.moe_dispatcher or "alltoall") == "alltoall"
end

--- Rows that others add to those they send to this GPU's experts.
---@param tokens number  of one sender
---@param lie table      { replicas: the senders … }
function padding.sent(m, p, tokens, lie)
  local multiple, e = multiple_of(p), m.experts
  if not multiple or e.capacity_factor or not by_router(p) then return 0 end
  local chosen = popularity.touched(e.count, e.top_k, e.skew, tokens) / (p[p.spread] or 1)
  return lie.replicas * chosen * (multiple - 1) / 2
end

--- Rows of this GPU's experts, padded.
---@param rows integer   as dispatched
---@param active number  experts with any
---@return integer
function padding.rows(m, p, rows, active, lie)
  local multiple = multiple_of(p)
  if not multiple then return rows end
  local gathered = p.sequence_parallel and lie.cut or 1 -- before the products
  if m.experts.capacity_factor then
    local slots = rows * gathered / own(m, p)
    return math.ceil(math.ceil(slots / multiple) * multiple * own(m, p) / gathered)
  end
  return by_router(p) and rows or rows + math.ceil(active * (multiple - 1) / 2 / gathered)
end

--- The kernel that copies rows to their padded places, or back.
function padding.copy(m, p, name, rows, padded)
  if padded == rows or p.row_padding == "sort" or not COPYING[p.moe_dispatcher or "alltoall"] then return {} end
  local pass = { bytes = BYTES * 1.0 * m.hidden * p:inner_tokens(rows + padded) }
  local copy = op.custom({ name = name, dtype = p.dtype, forward = pass, backward = pass }):single()
  return { scattered(copy, p.fused_experts) }
end

return padding
