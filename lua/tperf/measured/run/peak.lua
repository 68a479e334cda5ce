--- Peak memory as different tools report it: allocated by PyTorch's allocator, reserved by it, or everything that
--- nvidia-smi shows.
local training = require "tperf.describe.optimizers"

local peak = {}

-- Reserved over allocated: the median of SimuMax's 26 runs on B200, which report both (1.03 to 1.09).
local RESERVED <const> = 1.05

-- CUDA's context with the libraries' kernels loaded: an assumption.
local CONTEXT <const> = 1.5 * 2 ^ 30

--- Bytes that the tool named in a table's note reports for a run.
---@param memory tperf.memory  of the GPU with the highest peak
---@param stages tperf.stage[]
---@param note string
function peak.shown(memory, stages, note)
  note = note:lower()
  if note:find "last%) rank" then memory = stages[#stages].memory end
  local outside = training.outside_allocator(memory)
  local allocated = memory.total - outside
  -- BigScience's notes mean what its chronicles do.
  if note:find "nvidia%-smi" or note == "gb as noted" then return allocated * RESERVED + outside + CONTEXT end
  -- "max allocated …; reserved …" is an allocated figure with a remark.
  if note:find "reserved" and not note:find "allocated" then return allocated * RESERVED end
  return allocated
end

return peak
