--- The software stack of a published run, by its source and the release that its table names: which profile of
--- software/ describes it. A profile's name has the first release that it describes.
local stacks = {}

local patterns = {
  { "vtrain", "megatron-deepspeed-2022" }, { "bloom", "bigscience-2022" }, { "bigscience", "bigscience-2022" },
  { "2205%.05198", "megatron-lm-2022" }, { "sc21", "megatron-lm-2022" }, { "megatron%-lm readme", "megatron-lm-2022" },
  { "llm%-foundry", "llm-foundry-fsdp" }, { "torchtitan", "torchtitan" }, { "fms%-fsdp", "fms-fsdp" },
  { "automodel", "nemo-automodel" }, { "internevo", "internevo" },
  { "mlperf", "nemo-mlperf" },
  { "bridge.* 2[0-5]%.", "megatron-bridge-25.09" }, { "bridge.* 26%.0[1-5]", "megatron-bridge-26.02" },
  { "bridge", "megatron-bridge-26.06" }, { "nemo", "megatron-bridge-25.09" },
  { "megatron%-core readme", "megatron-core-2024" }, { "modelzoo", "megatron-core-moe-2025" },
  { "megatron", "megatron-core" },
  { "simumax", "megatron-core" },
}

--- The name of a profile, or nil.
---@param source string
---@param table string?  of the source
function stacks.of(source, table)
  local text = (source .. " " .. (table or "")):lower()
  for _, pattern in ipairs(patterns) do
    if text:find(pattern[1]) then return pattern[2] end
  end
end

return stacks
