--- What a published run overlaps, from the columns of its row: arguments of tperf.train. What a row does not say is
-- left to the stack's profile; so is what overlaps of data parallelism, which `overlap` is fitted to, and of tensor
-- parallelism, with which refitted profiles predict runs held back worse.
local read = require "tperf.measured.read"

local DISPATCHERS <const> = { alltoall = "alltoall", allgather = "allgather", deepep = "deepep", hybridep = "hybridep",
  flex = "deepep" } -- Megatron-LM's usual backend of that dispatcher

---@param row table     text by column
---@param sizes table   { tp, ep, dp, pp … }
---@return table switches
return function(row, sizes)
  local s = {}
  if sizes.ep > 1 then
    s.moe_dispatcher = DISPATCHERS[read.text(row.moe_dispatcher)]
    s.overlap_moe_a2a = read.text(row.overlap_moe_a2a) == "1" or nil
    s.delay_wgrad = s.overlap_moe_a2a and read.text(row.delay_wgrad) == "1" or nil
  end
  return s
end
