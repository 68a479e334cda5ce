--- Partial training of a row in a table of training runs: adapters, packed documents.
local read = require "tperf.measured.read"
local targets = require "tperf.describe.tuning".targets

local tuning = {}

local known = {}
for _, name in ipairs(targets) do known[name] = true end

-- Recipe defaults of a source: NeMo's fine-tuning recipes of 24.11 to 25.05 in performance mode (rank 8, only queries,
-- keys and values); NeMo AutoModel's ("*_proj", rank 16, with fused kernels if the notes say triton); Megatron-Bridge's
-- default (rank 32, all four products).
local RECIPES <const> = {
  { "dgx cloud", { rank = 8, targets = { "linear_qkv" } } },
  { "automodel", { rank = 16, targets = "all-linear" } },
  { "", {} },
}

local function recipe_of(source)
  for _, recipe in ipairs(RECIPES) do
    if source:lower():find(recipe[1], 1, true) then return recipe[2] end
  end
end

local function targets_of(text)
  local list = {}
  for name in text:gmatch "[%a_%d]+" do list[#list + 1] = known[name] and name or nil end
  return list[1] and list or nil
end

-- MLPerf's rules require dropout of 0.1; NVIDIA's configurations set LORA_A2A.
local MLPERF <const> = { dropout = 0.1, a2a = true }

--- The adapters of a row, as tperf.train's `peft`; nil: none.
function tuning.peft(row)
  local kind = read.text(row.peft)
  if row.workload ~= "lora" and kind == "" then return nil end
  local recipe, mlperf = recipe_of(row.source), row.source:find "^MLPerf" and MLPERF or {}
  return {
    kind = kind == "qlora" and kind or "lora", rank = read.count(row.peft_rank) or recipe.rank,
    targets = targets_of(read.text(row.peft_targets)) or recipe.targets, dropout = mlperf.dropout, a2a = mlperf.a2a,
    fused = row.notes:find "triton" ~= nil or nil,
  }
end

-- SQuAD, the default of NeMo's and Megatron-Bridge's fine-tuning recipes: paragraphs of 120 words, questions of 11,
-- answers of 3 (averages of its version 1.1), at 4 tokens per 3 words.
local SQUAD <const> = 180

--- The documents in a row's sequences, as tperf.train's `packing`; nil: one. MLPerf's sequences are packed, too, but
--- attention crosses document boundaries, as in its reference (packed_sequence_return_cu_seqlen: false).
function tuning.packing(row)
  local packs = read.count(row.packed_seq) or row.notes:find "sequence_packing"
  if row.source:find "^MLPerf" or not packs then return nil end
  return { mean = SQUAD }
end

--- Whether a row must be kept out of its stack's fits: steps of functional fine-tuning recipes wait many times as long
--- for the host, document by document, so that no six numbers describe both.
function tuning.apart(row, stack)
  return row.workload ~= "pretrain" and stack:find "functional$" ~= nil
end

-- Tensor-parallel GPUs of a replica in NVIDIA's configurations of MLPerf's LoRA: all except two of Hopper's, whose
-- memory the weights fill; the rest is context parallelism.
local MOST_TENSOR <const> = 4

--- Fills in the sizes of a row of MLPerf's LoRA without a layout: a replica's GPUs follow from its gradient
--- accumulation (one sequence per micro-batch), and their layout from the other submissions on the same GPU.
---@param row table
---@param s table  sizes, changed in place
---@return boolean known
function tuning.layout(row, s)
  local steps, batch = read.count(row.notes:match "grad_accum (%d+)"), read.count(row.global_batch)
  if not (row.workload == "lora" and row.source:find "^MLPerf" and steps and batch and s.gpus) then return false end
  local replicas = batch // steps
  if batch % steps ~= 0 or s.gpus % replicas ~= 0 then return false end
  local each = s.gpus // replicas
  local hopper = row.gpu:find "H[12]00" ~= nil
  s.tp = hopper and each >= MOST_TENSOR and each % MOST_TENSOR == 0 and MOST_TENSOR or 1
  s.cp = each // s.tp
  return true
end

return tuning
