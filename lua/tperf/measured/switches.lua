--- What a published run overlaps, from the columns of its row: arguments of tperf.train. What a row does not say is
--- left to the stack's profile.
local read = require "tperf.measured.read"

local DISPATCHERS <const> = { alltoall = "alltoall", allgather = "allgather", deepep = "deepep", hybridep = "hybridep",
  flex = "deepep" } -- Megatron-LM's usual backend of that dispatcher

-- "none" is Megatron-LM's own overlap in the backward pass, which is what happens where nothing is said.
local function overlap_tp_of(text)
  text = text:lower()
  if text:find "^userbuffers" then return "ring" end
  return text:find "async tp" and "async" or nil
end

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
  if sizes.tp > 1 then s.overlap_tp = overlap_tp_of(read.text(row.overlap_tp)) end
  return s
end
