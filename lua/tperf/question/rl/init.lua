--- tperf.rl: one step of reinforcement learning, from the rollout to the refit.
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local arguments = require "tperf.question.rl.arguments"
local kernels = require "tperf.describe.kernels"
local lengths = require "tperf.question.rl.lengths"
local questions = require "tperf.question.ranks.questions"
local rollout = require "tperf.question.rl.rollout"
local switching = require "tperf.question.rl.switching"
local training = require "tperf.question.rl.training"
local system = catalogue.shared(require "tperf.describe.system")

local rl = {}

---@class tperf.rl_step a step of reinforcement learning
---@field step number seconds
---@field phases { name: string, time: number }[] what follows one another, which add up to the step: rollout, reward,
---  old, ref, values, update, critic, refit, offload, reload, sleep, wake, wait and other
---@field bound "rollout"|"tail"|"training"|"sandbox"|"refit" what bounds the step
---@field busy { rollout: number, training: number } part of the step that each pool works
---@field rollout { time: number, saturated: number, tail: number, drained: number, steady: number?, replicas: integer,
---  gpus: integer, preemptions: integer, utilization: number } seconds; tail: of the last tenth of the responses;
---  steady: with engines that never drain (staleness above 1)
---@field training { update: number, forward: number, time: number, gpus: integer, dp: integer, micro_batches: integer,
---  micro_batch_tokens: integer, optimizer_steps: integer }
---@field mode "colocated"|"split"|"async"
---@field staleness integer
---@field gpus integer
---@field responses integer that are trained on, of a step
---@field generated integer responses of a step before dynamic sampling
---@field response { mean: number, max: number? } tokens
---@field refit { method: string, bytes: number, time: number, low: number, high: number }
---@field samples_per_second number responses trained on
---@field tokens_per_second_per_gpu number prompt and response tokens trained on, over all GPUs and the whole step
---@field hours? number of the run, if steps are given
---@field dollars? number of the run: likewise, with a price
---@field memory { phase: string, total: number, capacity: number, fits: boolean }[] bytes on a GPU in each phase
---@field host_memory number bytes on a host while the trainer is parked
---@field feasible boolean
---@field reason? string why it does not fit, and the remedy
---@field intervals { step: { low: number, high: number } } in which the parts' intervals put the step, and nine in ten
---  of the measured ones lie
---@field understood { read: string[], assumed: table<string, any> }
---@field warnings string[]

local function mode_of(o)
  local mode = o.mode or o.staleness and o.staleness > 0 and "async" or o.train_gpus and "split" or "colocated"
  if mode == "colocated" then
    if (o.staleness or 0) > 0 then
      check.fail("tperf.rl: 'staleness' %d does not go with mode = \"colocated\", which trains and rolls out in turn; "
        .. "use mode = \"async\"", o.staleness)
    end
    if o.train_gpus and o.train_gpus ~= o.gpus then
      check.fail "tperf.rl: 'train_gpus' does not go with mode = \"colocated\"; use split or async"
    end
  elseif mode == "split" and (o.staleness or 0) > 0 then
    check.fail("tperf.rl: 'staleness' %d needs mode = \"async\"", o.staleness)
  elseif mode == "async" and o.staleness == 0 then
    mode = "split"
  end
  return mode
end

-- GPUs that train and that roll out.
local function pools_of(o, assumed)
  if o.mode == "colocated" then return o.gpus, o.gpus end
  local trains = o.train_gpus
  if not trains then
    trains = o.gpus // 2
    assumed.train_gpus = trains
  end
  if trains < 1 or trains >= o.gpus then
    check.fail("tperf.rl: 'train_gpus' %d leaves none of %d GPUs to one pool; give 1 to %d", trains, o.gpus, o.gpus - 1)
  end
  return trains, o.gpus - trains
end

local WITH_REFERENCE <const> = { grpo = true, ppo = true, opd = true }

-- Seconds of the trainer between a rollout and the refit, phase by phase.
local function trained(o, t)
  local critic = o.algorithm == "ppo"
  return {
    { name = "reward", time = o.reward_time },
    { name = "old", time = o.old == "recompute" and t.forward or 0 },
    { name = "ref", time = o.ref and t.forward or 0 },
    { name = "values", time = critic and t.forward or 0 },
    { name = "update", time = t.update },
    { name = "critic", time = critic and t.update or 0 },
  }
end

local function sum(list)
  local total = 0
  for _, one in ipairs(list) do total = total + one.time end
  return total
end

local function append(list, more) table.move(more, 1, #more, #list + 1, list) end

-- The phases that follow one another, and their sum.
local function phases_of(o, r, train_phases, switch)
  local serial = o.mode ~= "async"
  local phases = {}
  if serial then
    phases[1] = { name = "rollout", time = r.time }
  else -- what the trainer waits for the rollout that runs beside it
    phases[1] = { name = "wait", time = math.max(0, r.time - sum(train_phases)) }
  end
  append(phases, train_phases)
  append(phases, switch.phases)
  if o.mode == "colocated" then
    phases[#phases + 1] = { name = "other", time = kernels.of "rl".unaccounted.value * sum(phases) }
  end
  local kept = {}
  for _, one in ipairs(phases) do
    if one.time > 0 then kept[#kept + 1] = one end
  end
  return kept, sum(phases)
end

local function bound_of(r, training_time, refit)
  local rolls = r.tail > r.saturated and "tail" or "rollout"
  if r.sandbox then rolls = "sandbox" end
  if refit > r.time and refit > training_time then return "refit" end
  return r.time >= training_time and rolls or "training"
end

-- Ends of the step: those of the parts, all at once, and at least what measured steps lie within.
local function interval_of(o, r, t, train_time, switch, whole)
  local other = o.mode == "colocated" and whole - r.time - train_time - sum(switch.phases) or 0
  local times, steps = t.configuration.intervals and t.configuration.intervals.time, kernels.of "rl".steps
  local low, high = 1, 1
  if times then low, high = times.low / t.configuration.time, times.high / t.configuration.time end
  local function step(rolled, train_side, switched)
    if o.mode == "async" then return math.max(rolled, train_side) + switched end
    return rolled + train_side + switched + other
  end
  return { low = math.min(step(r.time * r.low, train_time * low, switch.low), steps.low * whole),
    high = math.max(step(r.time * r.high, train_time * high, switch.high), steps.high * whole) }
end

-- What make() gives or raises, remembered by table and text for questions that have it in common; kept = nil: made.
local function remembered(kept, one, key, make)
  if not kept then return make() end
  local of = kept[one] or {}
  kept[one], of[key] = of, of[key] or table.pack(check.attempt(make))
  if not of[key][1] then error(of[key][2], 0) end
  return of[key][2]
end

-- One step with these lengths. kept: what a search keeps, whose steps differ in nothing but mode, GPUs, staleness and
-- in which of its tables `train` and `rollout` are.
local function step_of(o, response, assumed, kept)
  local train_gpus, rollout_gpus = pools_of(o, assumed)
  local t = remembered(kept, o.train, ("%d"):format(train_gpus), function()
    return training.of(o, response, train_gpus)
  end)
  local unfit = kept and switching.unfit(o, t)
  if unfit then return { reason = unfit } end -- for a search, which leaves it out
  local key = ("%d %s"):format(rollout_gpus, o.mode == "colocated" and "colocated" or "apart")
  local burst = remembered(kept, o.rollout, key, function()
    return rollout.burst(o, response, rollout_gpus, assumed)
  end)
  local train_phases = trained(o, t)
  local train_time = sum(train_phases)
  local r = rollout.of(o, burst, train_time)
  local switch = switching.of(o, t, r)
  local phases, step = phases_of(o, r, train_phases, switch)
  local tokens = o.responses * (o.prompt + response.mean)
  local a = {
    step = step, phases = phases, mode = o.mode, staleness = o.staleness, gpus = o.gpus, responses = o.responses,
    generated = o.generated, bound = bound_of(r, train_time, switch.refit.time),
    busy = { rollout = math.min(r.time / step, 1), training = math.min(train_time / step, 1) },
    rollout = { time = r.time, saturated = r.saturated, tail = r.tail, drained = r.drained, steady = r.steady,
      replicas = r.replicas, gpus = rollout_gpus, preemptions = r.preemptions,
      utilization = r.served.utilization },
    training = { update = t.update, forward = t.forward, time = train_time, gpus = train_gpus, dp = t.dp,
      micro_batches = t.micro_batches, micro_batch_tokens = t.micro_batch_tokens, optimizer_steps = t.optimizer_steps },
    response = { mean = response.mean, max = response.most ~= math.huge and response.most or nil },
    refit = switch.refit, samples_per_second = o.responses / step,
    tokens_per_second_per_gpu = tokens / step / o.gpus,
    intervals = { step = interval_of(o, r, t, train_time, switch, step) },
  }
  a.memory, a.host_memory, a.reason = switching.memory(o, t, r)
  a.feasible = a.reason == nil
  return a
end

-- What the step is assumed to do, in sentences.
local function warnings_of(o)
  local list = {}
  if o.algorithm == "ppo" then list[#list + 1] = "the critic is assumed to be as large as the policy" end
  if o.turns > 1 then
    list[#list + 1] = "turns: a trajectory's tokens are generated at once; its context does not grow in steps"
  end
  if o.mode == "async" then
    list[#list + 1] = "async: a refit stops the rollout for as long as it takes; interrupted responses keep their cache"
  end
  return list
end

local function read_question(given)
  local o = check.record("tperf.rl", given, arguments.schema())
  o.mode, o.responses = mode_of(o), o.prompts * o.samples
  if o.mode == "async" then o.staleness = o.staleness or 1 else o.staleness = 0 end
  o.generated = o.samples * math.ceil(o.prompts / (o.pass_rate or 1))
  if o.ref == nil then o.ref = WITH_REFERENCE[o.algorithm] or false end
  return o
end

-- Only the longest response is known: the answer at a usual mean, in the range of what the mean can be.
local function range(o, assumed)
  local rates, most = kernels.of "rl".length_mean, o.response.max
  local function at(part)
    return step_of(o, lengths.of(o.response, assumed, math.max(part * most, 1)), assumed)
  end
  local low, high, middle = at(rates.low), at(rates.high), at(rates.value)
  assumed["response.mean"] = middle.response.mean
  middle.intervals.step = { low = low.intervals.step.low, high = high.intervals.step.high }
  return middle, ("only response.max is known: the step is %.4g to %.4g s for means from %.3g to %.3g tokens"):format(
    low.step, high.step, low.response.mean, high.response.mean)
end

--- As rl.run. kept: a table in which a search keeps what its steps have in common, with `lengths` of all of them.
function rl.within(given, kept)
  local o = read_question(given)
  kept.lengths = kept.lengths or lengths.of(o.response, {})
  return step_of(o, kept.lengths, {}, kept)
end

--- One step of reinforcement learning: its time, phases, memory, and what bounds it.
---@param given table  the arguments of tperf.rl (`tperf schema rl`), and
---  train    arguments of tperf.train: the trainer's layout and settings
---  rollout  arguments of tperf.serve: the engine, its layout and settings
---@return tperf.rl_step
function rl.run(given)
  local o, assumed = read_question(given), {}
  local response = o.response
  local a, told
  if type(response) == "table" and response.max and not (response.mean or response.values) then
    a, told = range(o, assumed)
  else
    a = step_of(o, lengths.of(response, assumed), assumed)
  end
  a.warnings = warnings_of(o)
  if told then table.insert(a.warnings, 1, told) end
  if o.steps then
    a.hours = o.steps * a.step / 3600
    local machine = system(o.system)
    local price = o.gpu_hour or machine.price and machine.price.gpu_hour
    a.dollars = price and price * a.hours * o.gpus
  end
  a.understood = { read = check.names(given), assumed = assumed }
  return a
end

questions.register("rl", rl.run)

return rl
