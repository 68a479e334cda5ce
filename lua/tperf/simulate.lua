--- A configuration's iteration, simulated pass by pass: the cost model's times of every stage, in a pipeline schedule.
-- What the closed form of tperf.train does not see: stages that differ, latency that a schedule hides or waits for,
-- weight gradients that fill bubbles, communication that overlapped passes hide.
local check = require "tperf.check"
local schedule = require "tperf.schedule"

local simulate = {}

local OPTIONS = {
  schedule = check.string { default = "1f1b" },
  stages = check.integer { min = 1, optional = true },
  group_size = check.integer { min = 1, optional = true },
  memory_limit = check.number { min = 0, unit = "bytes", optional = true },
  rules = check.string { optional = true },
}

--- What `simulate` may be: true, the name of a schedule, or a table:
--   schedule      its name ("1f1b")
--   stages        several per GPU where the schedule takes them; layers are dealt out as evenly as they divide
--   group_size, memory_limit (of activations, in bytes), rules   as for tperf.schedule
function simulate.options(value, path)
  if value == nil or value == false then return nil end
  if value == true then value = {} end
  if type(value) == "string" then value = { schedule = value } end
  return check.record_of(OPTIONS)(value, path)
end

-- What a list of ops takes: F and B in seconds; weight, the part of B that only computes weight gradients; comm, the
-- part of F and B that communicates; saved bytes.
-- Both gradients of a product X W are products of its own size, so an op with a weight matrix spends half its
-- backward's time on either. Its communication is of the input's gradient.
local function cost_of(ops)
  local c = { F = 0.0, B = 0.0, weight = 0.0, forward_comm = 0.0, backward_comm = 0.0, saved = 0.0 }
  for _, o in ipairs(ops) do
    c.F, c.B, c.saved = c.F + o.forward.time, c.B + o.backward.time, c.saved + o.saved_bytes
    c.forward_comm, c.backward_comm = c.forward_comm + o.forward.comm_time, c.backward_comm + o.backward.comm_time
    if o.weight_bytes > 0 and o.backward.tensor_flops > 0 then
      c.weight = c.weight + (o.backward.time - o.backward.comm_time) / 2
    end
  end
  return c
end

-- The kind of every layer, in order.
local function kinds_of(runs)
  local kinds = {}
  for _, run in ipairs(runs) do
    for _ = 1, run[2] do kinds[#kinds + 1] = run[1] end
  end
  return kinds
end

-- How many of `layers` stage s holds: where they do not divide, the last stage, the first, the last but one … have one
-- fewer, as in the closed form (src/plan/pipeline.c).
local function layers_of(layers, stages, s)
  local full = (layers + stages - 1) // stages
  local turn = math.min(2 * (stages - s), 2 * s - 1)
  return turn < full * stages - layers and full - 1 or full
end

local PARTS = { "F", "B", "weight", "forward_comm", "backward_comm", "saved" }

local function add(sum, cost)
  for _, part in ipairs(PARTS) do sum[part] = sum[part] + cost[part] end
end

-- What every stage takes: its layers, and the ends of the model on the first and the last.
local function stage_sums(c, runs, stages)
  local of_kind, kinds, at, sums = {}, kinds_of(runs), 0, {}
  for i, kind in ipairs(c.kinds) do of_kind[i] = cost_of(kind.ops) end
  for s = 1, stages do
    sums[s] = cost_of {}
    for _ = 1, layers_of(#kinds, stages, s) do
      at = at + 1
      add(sums[s], of_kind[kinds[at]])
    end
  end
  add(sums[1], cost_of(c.first))
  add(sums[stages], cost_of(c.last))
  return sums
end

-- Times and memory of every stage, for tperf.schedule.
local function stage_costs(c, runs, stages)
  local times, memory = { forward = {}, backward_input = {}, backward_weight = {}, overlapped = {} }, {}
  for s, sum in ipairs(stage_sums(c, runs, stages)) do
    local F, B, comm = sum.F, sum.B, sum.forward_comm + sum.backward_comm
    times.forward[s], times.backward_input[s], times.backward_weight[s] = F, B - sum.weight, sum.weight
    memory[s] = sum.saved
    -- One's communication hides behind the other's work, as far as there is any.
    times.overlapped[s] = math.max(F, B, F + B - comm, comm)
  end
  return times, memory
end

--- Simulates a configuration of tperf.train.
---@param c table     the configuration, with kinds, first and last (ops)
---@param runs table  the model's layers as { kind, layers }, in order
---@param o table     simulate.options
---@return table timeline in seconds and bytes; with iteration_time, which adds the data-parallel communication
function simulate.run(c, runs, o)
  local definition = schedule.get(o.schedule)
  local stages = o.stages or schedule.default_stages(definition, c.pp)
  local layers = 0
  for _, run in ipairs(runs) do layers = layers + run[2] end
  if stages > layers then check.fail("tperf.train: %d stages are more than the model's %d layers", stages, layers) end
  local times, memory = stage_costs(c, runs, stages)
  local t = schedule {
    schedule = o.schedule, devices = c.pp, stages = stages, microbatches = c.microbatches, group_size = o.group_size,
    times = times, memory = { forward = memory }, memory_limit = o.memory_limit, rules = o.rules,
    p2p = c.breakdown.pipeline_comm / (2 * c.microbatches), -- every micro-batch is sent once either way
  }
  t.units = { time = "s", memory = "bytes" }
  t.iteration_time = t.makespan + c.breakdown.data_comm
  return t
end

return simulate
