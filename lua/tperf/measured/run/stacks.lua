--- The software stack of a published run, from its source and the release that its table names: the profile in
--- software/ and whether it was tuned. A profile is named after the first release that it describes.
local memo = require "tperf.base.memo"

local stacks = {}

-- { pattern of the source, pattern of its table or "", profile }; the first match decides.
local patterns = {
  -- No runs, though the table calls them ground truth: all 270 triples of rows that differ in the number of
  -- micro-batches alone, and all 54 that differ in layers, lie on a line to the last bit. They are vTrain's own sums
  -- over one traced layer for each width, tensor-parallel size and micro-batch (its predictor.py).
  { "vtrain ground_truth_single", "", "vtrain-2024" }, { "vtrain", "", "megatron-deepspeed-2022" },
  { "bloom", "", "bigscience-2022" },
  { "bigscience", "", "bigscience-2022" },
  { "2205%.05198", "", "megatron-lm-2022" }, { "sc21", "", "megatron-lm-2021" },
  { "megatron%-lm readme", "", "megatron-lm-2021" },
  { "llm%-foundry", "", "llm-foundry-2023" }, { "fms%-fsdp", "", "fms-fsdp-2024" },
  { "internevo", "", "internevo-2024" },
  -- torchao times torchtitan with its own kernels; model and batch of the table of 8 H100s are guesses.
  { "torchao", "8 h100s", false }, { "torchtitan", "", "torchtitan-2024" }, { "torchao", "", "torchao-2025" },
  { "nanotron", "", "nanotron-2025" },
  { "automodel", "", "nemo-automodel-26.02" },
  { "mlperf training v[34]%.", "", "nemo-mlperf-3.1" }, { "mlperf training v5%.0", "", "nemo-mlperf-5.0" },
  { "mlperf", "", "nemo-mlperf-5.1" },
  -- Google's recipes and submissions run MaxText; `find` tells MLPerf's.
  { "^tpu%-recipes", "", "maxtext-2024" }, { "^maxtext", "", "maxtext-2024" },
  -- DGX Cloud's recipes run NeMo (24.11 to 25.05), except one model in JAX.
  { "dgx cloud", "maxtext", "maxtext-2024" }, { "dgx cloud", "", "nemo-24.11" },
  -- The cards of performance recipes repeat rows of the performance summary, and so does the experiment in their shape
  -- (its runs take as long as the card's); the others are functional recipes, with natural routing and small batches,
  -- like the experiments that change one of their flags.
  { "verification cards", "rc pretrain_", "megatron-bridge-26.06" },
  { "verification cards", "", "megatron-bridge-26.08-functional" },
  { "matched experiments", "production%-shape", "megatron-bridge-26.06" },
  { "matched experiments", "", "megatron-bridge-26.08-functional" },
  { "bridge", "^2[0-5]%.", "megatron-bridge-25.09" }, { "bridge", "^26%.0[1-5]", "megatron-bridge-26.02" },
  { "bridge", "", "megatron-bridge-26.06" },
  -- Its tables are of NeMo's containers 24.03.01 (H100) and 25.04 (B200).
  { "nemo long%-sequence", "h100", "nemo-24.03" }, { "nemo long%-sequence", "", "nemo-long-2025" },
  { "megatron%-core readme", "", "megatron-core-2024" },
  -- The paper's Qwen3 rows are ModelZoo's.
  { "modelzoo", "", "megatron-core-moe-2025" }, { "megatron%-core moe paper", "", "megatron-core-moe-2025" },
  -- Each row of this history uses other kernels than the one before: no profile describes two of them.
  { "optimisation history", "", false },
  -- Functional tests: models so small that kernel launches dominate.
  { "golden values %(ci", "", "megatron-core-ci-2025" },
  { "megatron", "", "megatron-core-simumax-1.2" }, { "simumax", "", "megatron-core-simumax-1.2" },
}

-- Vendors, who show what their machines reach; and a run that its owner tuned for months.
local TUNED <const> = { "nvidia", "amd ", "rocm", "intel ", "llama 3 405b" }

local function find(source, table, gpu)
  source, table = source:lower(), table:lower()
  if source:find "^mlperf" and gpu:find "MI%d" then return "rocm-mlperf-5.0" end
  if source:find "^mlperf" and gpu:find "^TPU" then return "maxtext-2024" end
  for _, pattern in ipairs(patterns) do
    if source:find(pattern[1]) and table:find(pattern[2]) then return pattern[3] end
  end
  for _, name in ipairs(TUNED) do
    if source:find(name, 1, true) then return "tuned", true end
  end
  return "typical", true
end

local MOST_FOUND <const> = 4096
local found = memo.by_text(MOST_FOUND)

--- The name of a profile; false if none describes the runs. That of a source that is not known is shared by stacks.
---@param source string
---@param table string?  of the source
---@param gpu string?    AMD submits to MLPerf an implementation of its own
---@return string|false profile
---@return boolean? unknown  true: the source is not known
function stacks.of(source, table, gpu)
  table, gpu = table or "", gpu or ""
  local one = found(source .. "\0" .. table .. "\0" .. gpu, function() return { find(source, table, gpu) } end)
  return one[1], one[2]
end

--- Whether a run of an unknown stack had no fused attention yet: on V100s, for which there is none, or published before
--- 2023, by the year or the arXiv number of its source.
---@param row table
---@return boolean
function stacks.is_unfused(row)
  local text = row.source .. " " .. row.url
  local year = text:match "%f[%d](%d%d)[01]%d%.%d%d%d%d%d?%f[%D]" or text:match "%f[%d]20(%d%d)%f[%D]"
  return row.gpu:find "V100" ~= nil or year ~= nil and tonumber(year) < 23
end

-- Who published the runs, and to what end, decides. Tuned: NVIDIA's submissions to MLPerf and the tables in which
-- it shows what its libraries reach on its machines, layout by layout. All others ran a library as it is
-- shipped. Tests: models that nobody trains, which neither `typical` nor `tuned` is fitted to.
--
-- Apart: predicted by one of the two, but not fitted to: attention of several kernels on GPUs of 2020 and before; and
-- systems without curves of their own, whose errors are not the software's; and cards that verify in a few steps that a
-- recipe runs, in which the host does what it does once in a real run.
local APART <const> = { ["bigscience-2022"] = "typical", ["megatron-deepspeed-2022"] = "typical",
  ["vtrain-2024"] = "typical",
  ["megatron-lm-2021"] = "tuned", ["megatron-lm-2022"] = "tuned", ["rocm-mlperf-5.0"] = "tuned",
  ["megatron-bridge-26.08-functional"] = "typical" }

local KINDS = {
  ["nemo-mlperf-3.1"] = "tuned", ["nemo-mlperf-5.0"] = "tuned", ["nemo-mlperf-5.1"] = "tuned",
  ["megatron-core-2024"] = "tuned", ["megatron-core-moe-2025"] = "tuned",
  ["megatron-bridge-25.09"] = "tuned", ["megatron-bridge-26.02"] = "tuned", ["megatron-bridge-26.06"] = "tuned",
  ["nemo-24.03"] = "tuned", ["nemo-24.11"] = "tuned", ["nemo-long-2025"] = "tuned", ["maxtext-2024"] = "tuned",
  ["megatron-core-ci-2025"] = "tests",
}

--- "typical", "tuned", "apart" or "tests": which of the profiles for stacks without one of their own describes a stack.
---@param name string
function stacks.kind(name) return APART[name] and "apart" or KINDS[name] or "typical" end

--- "typical" or "tuned": which of the two predicts a stack without a profile of its own.
---@param name string
function stacks.nearest(name)
  local kind = stacks.kind(name)
  return kind == "apart" and APART[name] or kind == "tests" and "typical" or kind
end

return stacks
