--- How a published run is split: the sizes of its axes, its batch and micro-batch.
local read = require "tperf.measured.read"

local split = {}

-- Chunks of an interleaved stage if the row does not say: torchtitan's default; that of NVIDIA's GPT-3 in MLPerf
-- (training_results_v3.1, gpt3/implementations/pytorch/conf/custom.yaml: INTERLEAVED_PIPELINE, else 12).
local TORCHTITAN <const>, MLPERF_GPT3 <const> = 2, 12

local function usual_chunks(row)
  if row.schedule:lower():find "^interleaved 1f1b$" then return TORCHTITAN end
  return row.source:find "^MLPerf" and row.model:find "^GPT3" and MLPERF_GPT3 or 1
end

--- The sizes of the axes; data parallelism follows from the number of GPUs. nil and a reason if they are not given.
---@param row table
function split.of(row)
  local s = { gpus = read.count(row.gpus) }
  for _, name in ipairs { "tp", "pp", "cp", "ep" } do s[name] = read.count(row[name]) or 1 end
  s.vp = read.count(row.vp) or usual_chunks(row)
  if row.tp == "" and row.pp == "" and not row.zero_fsdp:find "FSDP" then
    return nil, "the parallelism is not given"
  end
  if not s.gpus then return nil, "the number of GPUs is not given" end
  local product = s.tp * s.pp * s.cp
  if s.gpus % product ~= 0 then return nil, "tp x pp x cp does not divide the GPUs" end
  s.dp = s.gpus // product
  -- Megatron's recipes do not shard experts, so expert parallelism uses the tensor-parallel GPUs first.
  s.etp = read.count(row.etp) or s.ep % s.tp == 0 and 1 or s.tp
  if s.tp * s.cp * s.dp % (s.ep * s.etp) ~= 0 then return nil, "ep x etp does not divide tp x cp x dp" end
  return s
end

-- Default micro-batch: torchtitan splits a replica's batch into as many micro-batches as stages (its default).
local function usual_micro_batch(row, s, share)
  if row.notes:find "micro batch = batch/DP" then return share end
  return row.zero_fsdp:find "FSDP" and share % s.pp == 0 and share // s.pp or nil
end

-- The sizes that a run with an unstated micro-batch can have; the chunks of its stages, too, if the table says that it
-- leaves them out.
local MOST <const> = 64

local function open_sizes(row, s, share, layers)
  local per_stage = layers % s.pp == 0 and layers // s.pp or 1
  local chunked = s.pp > 1 and row.vp == "" and row.notes:find "VP not in table"
  local list = {}
  local function add(micro, chunks)
    -- Megatron-Core interleaves a multiple of as many micro-batches as stages.
    if (chunks or s.vp) > 1 and share // micro % s.pp ~= 0 then return end
    list[#list + 1] = { micro_batch = micro, chunks = chunks }
  end
  for micro = 1, math.min(share, MOST) do
    if share % micro == 0 and not chunked then add(micro) end
    for chunks = 1, share % micro == 0 and chunked and math.min(per_stage, MOST) or 0 do
      if per_stage % chunks == 0 then add(micro, chunks) end
    end
  end
  return list[1] and list or { { micro_batch = 1 } }
end

--- The global batch, and the sizes that a step can have: one, if the row states them. nil, nil and a reason if it
--- cannot be told.
---@param row table
---@param s table  from split.of
---@param layers integer
---@return integer? batch
---@return { micro_batch: integer, chunks: integer? }[]? steps  chunks: of a stage, if open, too
---@return string? reason
function split.steps(row, s, layers)
  -- A replica without stages needs no more than one micro-batch.
  local alone = s.pp == 1 and read.count(row.micro_batch)
  local batch = read.count(row.global_batch) or alone and alone * s.dp
  if not batch then return nil, nil, "the global batch is not given" end
  if batch % s.dp ~= 0 then return nil, nil, "the global batch is no multiple of dp" end
  local share = batch // s.dp
  local micro = read.count(row.micro_batch) or usual_micro_batch(row, s, share)
  if not micro then return batch, open_sizes(row, s, share, layers) end
  if share % micro ~= 0 then return nil, nil, "the micro-batch does not divide a replica's batch" end
  return batch, { { micro_batch = micro } }
end

return split
