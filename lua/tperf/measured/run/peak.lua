--- Peak memory as different tools report it: allocated by PyTorch's allocator, reserved by it, or everything that
--- nvidia-smi shows.
local training = require "tperf.describe.optimizers"

local peak = {}

-- Reserved over allocated: the median of SimuMax's 26 runs on B200, which report both (1.03 to 1.09).
local RESERVED <const> = 1.05

-- CUDA's context with the libraries' kernels loaded: an assumption.
local CONTEXT <const> = 1.5 * 2 ^ 30

local MIB <const> = 1 << 20

-- Workspaces before Hopper: cuBLAS's in PyTorch (4096:2:16:8, in KiB), and Transformer Engine's.
local OLDER <const> = { Volta = true, Ampere = true, Ada = true }
local CUBLAS <const>, CUBLAS_OLDER <const> = 32 * MIB, 8.125 * MIB
local ENGINE <const>, ENGINE_OLDER <const> = 32 * MIB, 4 * MIB

-- Megatron-Core, Megatron-Bridge and NeMo multiply through Transformer Engine.
local function has_engine(stack) return stack:find "^megatron%-[cb]" or stack:find "^nemo" end

--- Bytes of workspaces that a run's libraries hold beside those in tperf.memory, which are PyTorch's on Hopper.
---@param stack string         a profile in software/
---@param generation string    of the GPU
---@param deterministic boolean  CUBLAS_WORKSPACE_CONFIG=:4096:8, as on Hopper
---@return number bytes        below 0: the GPU's are smaller
function peak.workspaces(stack, generation, deterministic)
  local older, bytes = OLDER[generation], 0
  if older and not deterministic then bytes = 2 * (CUBLAS_OLDER - CUBLAS) end
  if has_engine(stack) then bytes = bytes + (older and ENGINE_OLDER or ENGINE) end
  return bytes
end

--- What a table's figure counts: "allocated", "reserved", "whole GPU" (nvidia-smi), or "not stated".
---@param note string
function peak.kind(note)
  note = note:lower()
  -- BigScience's notes mean what its chronicles do.
  if note:find "nvidia%-smi" or note == "gb as noted" then return "whole GPU" end
  if note:find "not stated" or note:find "not said" then return "not stated" end
  -- "max allocated …; reserved …" is an allocated figure with a remark.
  return note:find "allocated" and "allocated" or note:find "reserved" and "reserved" or "not stated"
end

local function fullest(stages)
  local most = stages[1].memory
  for i = 2, #stages do
    if stages[i].memory.total > most.total then most = stages[i].memory end
  end
  return most
end

--- Bytes that the tool named in a table's note reports for a run.
---@param stages tperf.stage[]
---@param note string
---@param workspaces number?  bytes that the allocator holds beside (0)
function peak.shown(stages, note, workspaces)
  local memory = note:lower():find "last%) rank" and stages[#stages].memory or fullest(stages)
  local outside, kind = training.outside_allocator(memory), peak.kind(note)
  local allocated = memory.total - outside + (workspaces or 0)
  if kind == "whole GPU" then return allocated * RESERVED + outside + CONTEXT end
  return kind == "reserved" and allocated * RESERVED or allocated
end

return peak
