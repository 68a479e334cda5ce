--- A configuration's iteration, simulated pass by pass in a pipeline schedule: every pass takes what the core's prices
-- say (src/plan/iteration.c), as in the closed form. What that does not see: stages that differ, replicas that wait for
-- each other while the pipeline fills and drains, weight gradients that fill bubbles.
local check = require "tperf.check"
local configuration = require "tperf.configuration"
local refusal = require "tperf.refusal"
local schedule = require "tperf.schedule"

local simulate = {}

local OPTIONS = {
  schedule = check.string { optional = true },
  stages = check.integer { min = 1, optional = true },
  group_size = check.integer { min = 1, optional = true },
  memory_limit = check.number { min = 0, unit = "bytes", optional = true },
  rules = check.string { optional = true },
}

--- What `simulate` may be: true, the name of a schedule, or a table:
--   schedule      its name; the configuration's
--   stages        several per GPU where the schedule takes them; layers are dealt out as evenly as they divide
--   group_size, memory_limit (of activations, in bytes), rules   as for tperf.schedule
function simulate.options(value, path)
  if value == nil or value == false then return nil end
  if value == true then value = {} end
  if type(value) == "string" then value = { schedule = value } end
  return check.record_of(OPTIONS)(value, path)
end

-- The configuration's own stages where the schedule is its own, or has no number of its own and could take them.
local function stages_of(c, definition, o)
  if o.stages then return o.stages end
  if not o.schedule or o.schedule == c.schedule then return c.pp * c.virtual_stages end
  return schedule.default_stages(definition, c.pp)
end

-- From 0 until the last device has reduced its gradients.
local function iteration_time(t, after, optimizer)
  local last = 0.0
  for device = 1, t.devices do
    local stop = 0.0
    for _, op in t:queue(device) do stop = op.stop end
    last = math.max(last, stop + after[device])
  end
  return last + optimizer
end

--- Simulates a configuration of tperf.train.
---@param c table         the configuration
---@param question table  as problem.of makes them
---@param network userdata
---@param found table     as configuration.of takes it
---@param o table         simulate.options
---@return table timeline in seconds and bytes; with iteration_time, which adds waiting for replicas and the optimizer
function simulate.run(c, question, network, found, o)
  local name = o.schedule or c.pp > 1 and c.schedule or "1f1b" -- one stage runs one pass after the other
  local definition = schedule.get(name)
  local stages = stages_of(c, definition, o)
  if stages > question.model.layers then
    refusal.raise("tperf.train: %d stages are more than the model's %d layers", stages, question.model.layers)
  end
  local passes = configuration.passes(question, network, found, stages)
  local t = schedule.simulate {
    schedule = name, devices = c.pp, stages = stages, microbatches = c.microbatches, group_size = o.group_size,
    times = {
      forward = passes.forward, backward_input = passes.backward_input, backward_weight = passes.backward_weight,
      overlapped = passes.overlapped,
    },
    memory = { forward = passes.memory }, memory_limit = o.memory_limit, rules = o.rules, p2p = 0,
    ready = passes.ready,
  }
  t.units = { time = "s", memory = "bytes" }
  t.iteration_time = iteration_time(t, passes.after, c.breakdown.optimizer)
  return t
end

return simulate
