--- Which system file describes a GPU that a table of measurements names.
local gpus = {}

-- Lower-case patterns, the first that is found decides.
local patterns = {
  { "gb300", "gb300-nvl72" }, { "gb200", "gb200-nvl72" }, { "b300", "b300-sxm" }, { "b200", "b200-sxm" },
  { "h200", "h200-sxm" }, { "h100.*pcie", "h100-pcie" }, { "h100", "h100-sxm" },
  { "a100.*40gb", "a100-sxm-40gb" }, { "a100", "a100-sxm-80gb" },
  { "l40s", "l40s" }, { "rtx[_ ]pro[_ ]6000", "rtx-pro-6000" }, { "mi300x", "mi300x" }, { "v100", "v100-sxm" },
  { "b60", "arc-pro-b60" },
}

-- Chips that the patterns would take for a faster relative.
local others = { "h100.*nvl", "a100.*pcie", "h20$", "h20[^0]", "a800", "h800" }

--- The name of a system, or nil and a reason.
---@param name string
function gpus.system(name)
  local text = name:lower()
  if text == "" then return nil, "the GPU is not named" end
  for _, other in ipairs(others) do
    if text:find(other) then return nil, "no system describes the GPU " .. name end
  end
  for _, pattern in ipairs(patterns) do
    if text:find(pattern[1]) then return pattern[2] end
  end
  return nil, "no system describes the GPU " .. name
end

return gpus
