--- Arguments of training that several options set, or one in other words (tperf/describe/tuning.lua).
local tuning = {}

--- Puts them into the arguments of tperf.search or tperf.train. Returns a message if they contradict each other.
---@param values table  of the options
---@param asked table   changed in place
---@return string? message
function tuning.fill(values, asked)
  local targets, rank, dropout = values.lora_targets, values.lora_rank, values.lora_dropout
  if values.peft or targets or rank or dropout then
    if targets and #targets == 1 and targets[1] == "all-linear" then targets = "all-linear" end
    local from = type(values.peft) == "table" and values.peft -- from a launch file
    asked.peft = { kind = not from and values.peft or nil }
    for name, value in pairs(from or {}) do asked.peft[name] = value end
    asked.peft.rank, asked.peft.dropout = rank or asked.peft.rank, dropout or asked.peft.dropout
    asked.peft.targets = targets or asked.peft.targets
  end
  if values.packing and values.packing < 1 then
    return ("--packing: documents have at least 1 token, got %g"):format(values.packing)
  end
  asked.packing = values.packing and { mean = values.packing } or nil
end

return tuning
