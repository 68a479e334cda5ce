--- The time of a configuration as a sum: every term a formula with its numbers, which add up to the answer.
local units = require "tperf.units"

local function seconds(value) return units.format(value, "s") end

--- The terms of a configuration's time, see docs/model.md section 6.1.
---@param c table    a configuration of tperf.train
---@param sum table  what its parts are made of, as network:sum gives it
---@return table[] terms  { term =, formula =, seconds = }; the last is the whole
return function(c, sum)
  local terms = {}
  local function add(term, value, format, ...)
    terms[#terms + 1] = { term = term, formula = format:format(...), seconds = value }
  end
  local function add_ops(what, ops, layers)
    for _, op in ipairs(ops) do
      local forward, backward = op.forward.time, op.backward.time
      add(("%s: %s %s"):format(what, op.block, op.name), c.microbatches * layers * (forward + backward),
        "%d micro-batches x %d x (forward %s + backward %s)", c.microbatches, layers, seconds(forward),
        seconds(backward))
    end
  end
  for i, kind in ipairs(c.kinds) do
    if sum.layers[i] > 0 then add_ops(kind.key, kind.ops, sum.layers[i]) end
  end
  if sum.first then add_ops("before the layers", c.first, 1) end
  if sum.last then add_ops("after the layers", c.last, 1) end
  local b = c.breakdown
  add("waiting for launches", b.host, "what the host takes to launch the busiest stage's passes, beyond their time")
  add("hidden by overlapped passes", -sum.hidden, "the shorter of work and collectives, for each overlapped pair")
  add("pipeline bubble", b.bubble,
    "%.4g x (forward %s + waits %s + hops %s) + %.4g x (backward %s + waits %s + hops %s) + %.4g x weight gradients %s,"
    .. " of the other stages on average", sum.bubble_forward, seconds(sum.forward), seconds(sum.each_forward),
    seconds(sum.hop), sum.bubble_backward, seconds(sum.backward), seconds(sum.each_backward), seconds(sum.hop),
    sum.bubble_weight_grad, seconds(sum.weight_grad))
  add("messages between stages", b.pipeline_comm, "2 x %d micro-batches x hops %s", c.microbatches, seconds(sum.hop))
  add("gradients and weights over dp", b.data_comm, "of the stage that waits longest; ZeRO %d", c.zero)
  add("the optimizer's step", b.optimizer, "reads and writes what a GPU's shard of the parameters has")
  local whole = 0
  for _, term in ipairs(terms) do whole = whole + term.seconds end
  add("an iteration", whole, "the sum of the above")
  return terms
end
