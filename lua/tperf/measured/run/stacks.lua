--- The software stack of a published run, from its source and the release that its table names: the profile in
--- software/ and whether it was tuned. A profile is named after the first release that it describes.
local stacks = {}

-- { pattern of the source, pattern of its table or "", profile }; the first match decides.
local patterns = {
  { "vtrain", "", "megatron-deepspeed-2022" }, { "bloom", "", "bigscience-2022" },
  { "bigscience", "", "bigscience-2022" },
  { "2205%.05198", "", "megatron-lm-2022" }, { "sc21", "", "megatron-lm-2022" },
  { "megatron%-lm readme", "", "megatron-lm-2022" },
  { "llm%-foundry", "", "llm-foundry-2023" }, { "fms%-fsdp", "", "fms-fsdp-2024" },
  { "internevo", "", "internevo-2024" },
  -- torchao times torchtitan with its own kernels; model and batch of the table of 8 H100s are guesses.
  { "torchao", "8 h100s", nil }, { "torchtitan", "", "torchtitan-2024" }, { "torchao", "", "torchao-2025" },
  { "nanotron", "", "nanotron-2025" },
  { "automodel", "", "nemo-automodel-26.02" }, { "mlperf", "", "nemo-mlperf-3.1" },
  -- DGX Cloud's recipes run NeMo (24.11 to 25.05), except one model in JAX.
  { "dgx cloud", "maxtext", "maxtext-2024" }, { "dgx cloud", "", "nemo-24.11" },
  -- The cards of performance recipes repeat rows of the performance summary; the others are functional recipes, with
  -- natural routing and small batches, like the experiments that change one of their flags.
  { "verification cards", "rc pretrain_", "megatron-bridge-26.06" },
  { "verification cards", "", "megatron-bridge-26.08-functional" },
  { "matched experiments", "", "megatron-bridge-26.08-functional" },
  { "bridge", "^2[0-5]%.", "megatron-bridge-25.09" }, { "bridge", "^26%.0[1-5]", "megatron-bridge-26.02" },
  { "bridge", "", "megatron-bridge-26.06" }, { "nemo long%-sequence", "", "nemo-long-2025" },
  { "megatron%-core readme", "", "megatron-core-2024" },
  -- The paper's Qwen3 rows are ModelZoo's.
  { "modelzoo", "", "megatron-core-moe-2025" }, { "megatron%-core moe paper", "", "megatron-core-moe-2025" },
  -- Each row of this history uses other kernels than the one before: no profile describes two of them.
  { "optimisation history", "", nil },
  -- Functional tests: models so small that kernel launches dominate.
  { "golden values %(ci", "", "megatron-core-ci-2025" },
  { "megatron", "", "megatron-core-simumax-1.2" }, { "simumax", "", "megatron-core-simumax-1.2" },
}

--- The name of a profile, or nil.
---@param source string
---@param table string?  the source's table
function stacks.of(source, table)
  source, table = source:lower(), (table or ""):lower()
  for _, pattern in ipairs(patterns) do
    if source:find(pattern[1]) and table:find(pattern[2]) then return pattern[3] end
  end
end

-- The publisher and the purpose of the runs decide. Tuned: NVIDIA's own submissions to MLPerf and its tables of what
-- its libraries reach on its machines, layout by layout. Old: attention with several kernels on GPUs
-- of 2020 and before; neither `typical` nor `tuned` is fitted to these. Tests: models that are not trained in practice,
-- also excluded. All others ran a library as shipped.
local KINDS = {
  ["nemo-mlperf-3.1"] = "tuned", ["megatron-core-2024"] = "tuned", ["megatron-core-moe-2025"] = "tuned",
  ["megatron-bridge-25.09"] = "tuned", ["megatron-bridge-26.02"] = "tuned", ["megatron-bridge-26.06"] = "tuned",
  ["nemo-24.11"] = "tuned", ["nemo-long-2025"] = "tuned",
  ["bigscience-2022"] = "old", ["megatron-deepspeed-2022"] = "old", ["megatron-lm-2022"] = "old",
  ["megatron-core-ci-2025"] = "tests",
}

--- "typical", "tuned", "old" or "tests": the kind of a stack, which selects the shared profile that describes it.
---@param name string
function stacks.kind(name) return KINDS[name] or "typical" end

return stacks
