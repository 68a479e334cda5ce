--- The tables of a step of reinforcement learning, for the command and the page.
local answer = {}

local PHASES <const> = {
  { key = "item", title = "phase" }, { key = "time", unit = "s" }, { key = "part", unit = "%" },
}
local MEMORY <const> = {
  { key = "phase" }, { key = "total", title = "memory", unit = "bytes" },
  { key = "capacity", title = "CUDA sees", unit = "bytes" }, { key = "fits", usual = true },
}

--- Its phases, and their sum.
---@param a tperf.rl_step
---@return table[] rows, tperf.Column[] columns
function answer.phases(a)
  local rows = {}
  for _, one in ipairs(a.phases) do
    rows[#rows + 1] = { item = one.name, time = one.time, part = one.time / a.step }
  end
  rows[#rows + 1] = { item = "step", time = a.step, part = 1 }
  return rows, PHASES
end

--- The memory of a GPU in each phase.
---@param a tperf.rl_step
---@return table[] rows, tperf.Column[] columns
function answer.memory(a) return a.memory, MEMORY end

return answer
