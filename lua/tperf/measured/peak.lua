--- Peak memory as different tools show it: what PyTorch allocated is what tperf predicts; its allocator reserves more,
-- and nvidia-smi adds what the process holds besides.
local peak = {}

-- Reserved over allocated: the median of SimuMax's 26 runs on B200, which tell both (1.03 to 1.09).
local RESERVED <const> = 1.05

-- CUDA's context with the libraries' kernels loaded: an assumption.
local CONTEXT <const> = 1.5 * 2 ^ 30

--- Bytes that the tool named in a table's note shows, where `bytes` are allocated.
---@param bytes number
---@param note string
function peak.shown(bytes, note)
  note = note:lower()
  if note:find "nvidia%-smi" then return bytes * RESERVED + CONTEXT end
  -- "max allocated …; reserved …" is an allocated figure with a remark.
  if note:find "reserved" and not note:find "allocated" then return bytes * RESERVED end
  return bytes
end

return peak
