--- Peak memory as different tools report it: allocated by PyTorch's allocator, reserved by it, or everything that
--- nvidia-smi shows: kernels/memory.yaml.
local has = require "tperf.base.lists".has
local kernels = require "tperf.describe.kernels"
local training = require "tperf.describe.optimizers"

local peak = {}

-- Megatron-Core, Megatron-Bridge and NeMo multiply through Transformer Engine.
local function has_engine(stack) return stack:find "^megatron%-[cb]" or stack:find "^nemo" end

--- Bytes of workspaces that a run's libraries hold beside those in tperf.memory, which are PyTorch's on Hopper.
---@param stack string         a profile in software/
---@param generation string    of the GPU
---@param deterministic boolean  CUBLAS_WORKSPACE_CONFIG=:4096:8, as on Hopper
---@return number bytes        below 0: the GPU's are smaller
function peak.workspaces(stack, generation, deterministic)
  local of, bytes = kernels.of "memory", 0
  local older = has(of.older, generation)
  if older and not deterministic then bytes = of.cublas.threads * (of.cublas.older - of.cublas.bytes) end
  if has_engine(stack) then bytes = bytes + (older and of.engine.older or of.engine.bytes) end
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
  local allocated, of = training.allocated(memory) + (workspaces or 0), kernels.of "memory"
  if kind == "whole GPU" then return allocated * of.reserved + outside + of.context end
  return kind == "reserved" and allocated * of.reserved or allocated
end

return peak
