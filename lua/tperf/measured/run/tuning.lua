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

-- NVIDIA's configurations capture layers as graphs since v4.1 where GPUs share a sequence; on Hopper, only if they
-- share the weights, too.
local function graphs_of(row, tensor, context)
  local release = tonumber(row.source:match "v(%d+%.%d+)") or 0
  if release < 4.1 or context == 1 then return "" end
  return row.gpu:find "Blackwell" and "per layer" or tensor > 1 and "layer" or ""
end

--- What a row of MLPerf's LoRA without a layout leaves out: a replica's GPUs follow from its gradient accumulation (one
--- sequence per micro-batch), their layout and CUDA graphs from the other submissions on the same GPU.
---@param row table
---@return table? columns  text by name
function tuning.layout(row)
  local steps, batch = read.count(row.notes:match "grad_accum (%d+)"), read.count(row.global_batch)
  local total = read.count(row.gpus)
  if not (row.tp == "" and row.pp == "" and row.workload == "lora" and row.source:find "^MLPerf") then return nil end
  if not (steps and batch and total) or batch % steps ~= 0 or total % (batch // steps) ~= 0 then return nil end
  local each = total // (batch // steps)
  local hopper = row.gpu:find "H[12]00" ~= nil
  local tensor = hopper and each >= MOST_TENSOR and each % MOST_TENSOR == 0 and MOST_TENSOR or 1
  local context = each // tensor
  return {
    tp = tostring(tensor), pp = "1", cp = tostring(context),
    cuda_graph = row.cuda_graph == "" and graphs_of(row, tensor, context) or nil,
  }
end

return tuning
