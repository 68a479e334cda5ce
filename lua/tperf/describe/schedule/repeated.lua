--- A schedule that runs several times an iteration, each time with an equal part of its micro-batches: the pipeline
--- fills and drains as often. So do trainers that accumulate gradients over whole calls of PyTorch's pipelines.
local refusal = require "tperf.base.refusal"

-- The same queues, whose micro-batches are those after `before`.
local function later(s, before, microbatches)
  local part = { microbatches = microbatches }
  for _, name in ipairs { "forward", "backward", "backward_input", "backward_weight" } do
    part[name] = function(_, device, stage, microbatch) return s[name](s, device, stage, microbatch + before) end
  end
  function part.overlapped(_, device, forward_stage, forward_microbatch, backward_stage, backward_microbatch)
    return s:overlapped(device, forward_stage, forward_microbatch + before, backward_stage,
      backward_microbatch + before)
  end
  return setmetatable(part, { __index = s })
end

-- A shape with one run's micro-batches; nil if the runs do not divide them.
local function run_of(p, times)
  if p.microbatches % times ~= 0 then return nil end
  return setmetatable({ microbatches = p.microbatches // times }, { __index = p })
end

---@param name string
---@param base table  a definition with a closed form
---@param times integer
---@return table definition
return function(name, base, times)
  if not (base.closed_form and base.in_flight) then
    refusal.raise("schedule '%s': only a schedule with a closed form can run several times an iteration", name)
  end
  local definition = {}
  for field, value in pairs(base) do definition[field] = value end
  definition.summary = ("%s, %d times an iteration"):format(base.summary or "a schedule", times)
  definition.runs = times
  function definition.refuse(s)
    local run = run_of(s, times)
    if not run then return ("needs micro-batches in multiples of %d, not %d"):format(times, s.microbatches) end
    return base.refuse and base.refuse(run)
  end
  function definition.least_microbatches(s)
    return times * (base.least_microbatches and base.least_microbatches(s) or 1)
  end
  function definition.order(s)
    local each = s.microbatches // times
    for run = 0, times - 1 do base.order(later(s, run * each, each)) end
  end
  function definition.closed_form(p)
    local run = run_of(p, times)
    local form, all = run and base.closed_form(run), {}
    if not form then return nil end
    for kind, count in pairs(form) do all[kind] = times * count end
    return all
  end
  function definition.in_flight(p, device)
    local run = run_of(p, times)
    return run and base.in_flight(run, device)
  end
  return definition
end
