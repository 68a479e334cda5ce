--- The software stack of a published run, by its source: which profile of software/ describes it.
local stacks = {}

local patterns = {
  { "vtrain", "megatron-deepspeed-2022" }, { "bloom", "bigscience-2022" }, { "bigscience", "bigscience-2022" },
  { "2205%.05198", "megatron-lm-2022" }, { "sc21", "megatron-lm-2022" }, { "megatron%-lm readme", "megatron-lm-2022" },
  { "llm%-foundry", "llm-foundry-fsdp" }, { "torchtitan", "torchtitan" }, { "fms%-fsdp", "fms-fsdp" },
  { "automodel", "torchtitan" }, { "internevo", "internevo" },
  { "mlperf", "nemo-mlperf" }, { "bridge", "megatron-bridge" }, { "nemo", "megatron-bridge" },
  { "megatron", "megatron-core" },
  { "simumax", "megatron-core" },
}

--- The name of a profile, or nil.
function stacks.of(source)
  local text = source:lower()
  for _, pattern in ipairs(patterns) do
    if text:find(pattern[1]) then return pattern[2] end
  end
end

return stacks
