--- The training side of a step: packed micro-batches by tperf.train, and passes without gradients as part of them.
local arguments = require "tperf.question.rl.arguments"
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local lengths = require "tperf.question.rl.lengths"
local train = require "tperf.question.train"

local training = {}

-- Arguments that the step decides.
local OWN <const> = { model = true, system = true, gpus = true, dp = true, global_batch = true, seq = true,
  micro_batch = true, packing = true, rules = true }

-- Log-probabilities are taken in plain passes over fp32 logits (Megatron-Core's vocab_parallel_cross_entropy, which
-- verl calls), not in the fused kernel of pre-training.
local LOSS <const> = "in-place"

-- Replicas of the trainer: what its axes leave of the GPUs.
local function replicas_of(q, gpus)
  local one = (q.pp or 1) * axes.product(q)
  if gpus % one ~= 0 then
    check.fail("tperf.rl: 'train' has %d GPUs for each replica, and %d GPUs train; change train_gpus or the axes", one,
      gpus)
  end
  return gpus // one
end

-- Seconds of forward and backward passes of all layers; what is recomputed is part of the backward passes.
local function passes(c)
  local forward, backward = 0, 0
  local function add(ops, times)
    for _, op in ipairs(ops) do
      forward, backward = forward + times * op.forward.time, backward + times * op.backward.time
    end
  end
  for _, kind in ipairs(c.kinds) do add(kind.ops, kind.count) end
  add(c.first, 1)
  add(c.last, 1)
  return forward, backward
end

-- Micro-batches of an optimizer step of so many responses: their number, a multiple of the replicas, and their tokens.
local function micro_batches(o, response, count, dp)
  local longest, bins, tokens = o.prompt + response.most, count, math.floor(o.prompt + response.mean + 0.5)
  if o.packing then
    local budget = o.tokens_per_gpu or longest ~= math.huge and math.floor(longest)
    if not budget then check.fail "tperf.rl: 'tokens_per_gpu' is missing; give it, or response.max" end
    if longest ~= math.huge and budget < longest then
      check.fail("tperf.rl: 'tokens_per_gpu' %d is below the longest sequence, %d tokens; give at least that, or a "
        .. "smaller response.max", budget, longest)
    end
    bins, tokens = lengths.bins(response, o.prompt, budget, count)
  elseif o.tokens_per_gpu then
    check.fail "tperf.rl: 'tokens_per_gpu' is for packed micro-batches; leave out packing = false"
  end
  local most = (bins + dp - 1) // dp * dp
  return most, math.max(tokens * bins // most, 1)
end

--- The training side.
---@param o table         checked arguments of tperf.rl
---@param response table  of lengths.of
---@param gpus integer    that train
---@return table training  { configuration, update, forward = seconds of one pass without gradients over all responses,
---  micro_batches = of a step, micro_batch_tokens, optimizer_steps, dp }
function training.of(o, response, gpus)
  local q = arguments.passed_on(o.train, "train", "tperf.train", OWN)
  local total = o.prompts * o.samples
  local mini = o.mini or total
  if total % mini ~= 0 then
    check.fail("tperf.rl: 'mini' %d does not divide the step's %d responses; give a divisor", mini, total)
  end
  local dp = replicas_of(q, gpus)
  if mini % dp ~= 0 then
    check.fail("tperf.rl: '%s' gives %d responses to %d replicas of the trainer, which do not divide; change it or the "
      .. "axes of train", o.mini and "mini" or "prompts", mini, dp)
  end
  local batch, tokens = micro_batches(o, response, mini, dp)
  local pad = 2 * axes.product(q) -- stacks pad so that ranks get as many tokens each
  tokens = (tokens + pad - 1) // pad * pad
  q.loss = q.loss or LOSS
  q.model, q.system, q.rules, q.dp, q.global_batch, q.seq = o.model, o.system, o.rules, dp, batch, tokens
  local one = math.floor(o.prompt + response.mean + 0.5)
  if o.packing and tokens > one then q.packing = { mean = one } end
  local c = train.run(q)
  local forward, backward = passes(c)
  local paused = c.breakdown.optimizer + c.breakdown.data_comm
  local steps = total // mini
  return {
    configuration = c, update = o.epochs * steps * c.time, optimizer_steps = o.epochs * steps, dp = dp,
    forward = steps * (c.time - paused) * forward / (forward + backward),
    micro_batches = steps * batch, micro_batch_tokens = tokens,
  }
end

return training
