--- The phases of steps in a log of a stack of reinforcement learning: verl's timing_s/*, NeMo-RL's timing/*, slime's
--- perf/*; and how a prediction's phases compare with them.
local check = require "tperf.base.check"
local text_file = require "tperf.input.text"

local steps = {}

-- The last words of a timer's name -> the phase.
local TIMERS <const> = {
  { phase = "step", "step", "total_step_time", "step_time" },
  { phase = "rollout", "gen", "generation", "rollout_time", "generate_sequences" },
  { phase = "wait", "exposed_generation", "train_wait_time" },
  { phase = "old", "old_log_prob", "policy_and_reference_logprobs", "log_probs_time" },
  { phase = "ref", "ref", "ref_log_probs_time" },
  { phase = "values", "values" },
  { phase = "reward", "reward", "reward_time" },
  { phase = "update", "update_actor", "policy_training", "actor_train_time" },
  { phase = "critic", "update_critic" },
  { phase = "refit", "update_weights", "prepare_for_generation/total", "weight_sync", "update_weights_time" },
}

local PREFIXES <const> = { "timing_s/", "timing/train/", "timing/", "perf/" }

local function phase_of(name)
  for _, prefix in ipairs(PREFIXES) do
    local rest = name:sub(1, #prefix) == prefix and name:sub(#prefix + 1)
    for _, timer in ipairs(rest and TIMERS or {}) do
      for _, known in ipairs(timer) do
        if rest == known then return timer.phase end
      end
    end
  end
end

local function median(list)
  table.sort(list)
  local n = #list
  return n % 2 == 1 and list[n // 2 + 1] or (list[n // 2] + list[n // 2 + 1]) / 2
end

--- Medians of the timers of a log, without the first step's, which is slower.
---@param path string
---@return table<string, number> phases  seconds by the names of tperf.rl's phases, and `step`
---@return integer count  steps
function steps.read(path)
  local found = {}
  text_file.each_line(path, function(line)
    for name, value in line:gmatch "([%w_]+/[%w_/]+)['\"]?%s*[:=]%s*([%d.eE+-]+)" do
      local phase, number = phase_of(name), tonumber(value)
      if phase and number then
        found[phase] = found[phase] or {}
        table.insert(found[phase], number)
      end
    end
  end)
  if not next(found) then
    check.fail("%s: no timers of steps: timing_s/* (verl), timing/* (NeMo-RL) or perf/* (slime)", path)
  end
  local medians, count = {}, 0
  for phase, list in pairs(found) do
    count = math.max(count, #list)
    if #list > 1 then table.remove(list, 1) end
    medians[phase] = median(list)
  end
  return medians, count
end

-- What a phase's time rests on: what to look at where it is off.
local RESTS <const> = {
  rollout = "response.mean, cv or clip; the engine's release, CUDA graphs and memory_utilization",
  wait = "response.mean, cv or clip; the split of the GPUs", old = "train.recompute; tokens_per_gpu; train.software",
  ref = "train.software; whether the reference is on the same GPUs", values = "the critic's size",
  update = "train.software; train.recompute; tokens_per_gpu; mini", critic = "the critic's size",
  refit = "refit: the method", reward = "reward_time", step = "its phases",
}

--- Compares a prediction with a log's medians.
---@param a table         a tperf.rl_step
---@param measured table  of steps.read
---@return table[] rows   { phase, predicted, measured, ratio, rests = what it rests on }, the largest difference first;
---  the step last
function steps.compare(a, measured)
  local predicted = { step = a.step, rollout = a.rollout.time }
  for _, one in ipairs(a.phases) do predicted[one.name] = one.time end
  if a.mode == "colocated" then -- what must leave and wake for the weights
    predicted.refit = a.refit.time + (predicted.offload or 0) + (predicted.wake or 0)
  end
  local rows = {}
  for _, phase in ipairs(check.names(measured)) do
    local p, m = predicted[phase] or 0, measured[phase]
    rows[#rows + 1] = { phase = phase, predicted = p, measured = m, ratio = m > 0 and p / m or nil,
      rests = RESTS[phase] }
  end
  table.sort(rows, function(x, y)
    if (x.phase == "step") ~= (y.phase == "step") then return y.phase == "step" end
    local dx, dy = math.abs(x.predicted - x.measured), math.abs(y.predicted - y.measured)
    if dx ~= dy then return dx > dy end
    return x.phase < y.phase
  end)
  return rows
end

return steps
