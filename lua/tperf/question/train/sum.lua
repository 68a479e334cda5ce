--- The time of a configuration as a sum of terms, each with its formula and its numbers.
local units = require "tperf.base.units"

local function seconds(value) return units.format(value, "s") end
local function bytes(value) return units.format(value, "bytes") end

-- Of a network of more than two tiers, what passes each: "; nvlink 117 MB in 0.37 ms, …".
local function tiers(passed)
  local list = {}
  for i, one in ipairs(passed or {}) do
    list[i] = ("%s %s in %s"):format(one.name, bytes(one.bytes), seconds(one.time))
  end
  return list[1] and "; " .. table.concat(list, ", ") or ""
end

-- Such as "all_gather of 128 MiB among 8 GPUs (8 in a domain, switch) 0.37 ms".
local function collective(comm)
  local parts = comm.parts and (comm.parts < 1 and ", %.3g of one," or " in %.3g parts"):format(comm.parts) or ""
  return ("%s of %s%s among %d GPUs (%d in a domain, %s%s) %s%s"):format(comm.kind, bytes(comm.bytes), parts, comm.gpus,
    comm.fast, comm.algorithm, tiers(comm.tiers), seconds(comm.time), comm.beside and " beside its kernel" or "")
end

local function collectives(comms)
  local list = {}
  for i, comm in ipairs(comms) do list[i] = collective(comm) end
  return #list > 0 and table.concat(list, ", ") or "none"
end

-- The collectives of every micro-batch.
local function repeated(comms)
  local list = {}
  for _, comm in ipairs(comms) do
    if not comm.once then list[#list + 1] = comm end
  end
  return list
end

-- Adds the kernels and the collectives of an op, both for the forward and the backward pass.
local function add_op(add, c, what, op, layers)
  local times, forward, backward = c.microbatches * layers, op.forward, op.backward
  local comm = forward.comm_time + backward.comm_time
  add(("%s: %s %s"):format(what, op.block, op.name), times * (forward.time + backward.time - comm),
    "%d micro-batches x %g x (forward: compute %s + memory %s; backward: compute %s + memory %s)", c.microbatches,
    layers, seconds(forward.compute_time), seconds(forward.exposed_memory_time), seconds(backward.compute_time),
    seconds(backward.exposed_memory_time))
  local there, back = repeated(forward.comms), repeated(backward.comms)
  if #there + #back == 0 then return end
  add(("%s: %s %s, collectives"):format(what, op.block, op.name), times * comm,
    "%d micro-batches x %g x (forward %s: %s; backward %s: %s)", c.microbatches, layers, seconds(forward.comm_time),
    collectives(there), seconds(backward.comm_time), collectives(back))
end

-- The collectives of an exchange that gather weights, or those that reduce gradients and, under ZeRO 3, gather again.
local function exchanged(audit, exchange, gathers)
  local list = {}
  for _, comm in ipairs(exchange.comms) do
    if (comm.what == "gather weights") == gathers or not gathers and audit.gathers_again then list[#list + 1] = comm end
  end
  return collectives(list)
end

-- How often a layer of a section waits for its exchange, and how to say so: once in a device's first chunk, which has
-- the model's beginning, and of several not its end.
local function occurs(c, section, each)
  local chunks, kinds = c.virtual_stages, #c.kinds
  if each then return c.microbatches, ("%d micro-batches"):format(c.microbatches) end
  if chunks == 1 or section == kinds + 1 then return 1, "once" end
  if section == kinds + 2 then return 0, "never" end
  return 1 / chunks, ("1 of %d chunks"):format(chunks)
end

-- Adds the exposed exchanges of the stage whose passes wait for theirs, or of the one that waits longest once: of each
-- layer the part that its pass does not hide, and all of the one that has no pass to overlap with.
local function add_exposed(add, c, audit)
  local sides = { { "gather", "gather weights", audit.gathers_each },
    { "reduce", "reduce gradients", audit.reduces_each } }
  for _, side in ipairs(sides) do
    local name, what, each = table.unpack(side)
    local late, hidden = name .. "_late", name .. "_hidden"
    local layers = each and audit.layers or audit.waiting
    for i, exchange in ipairs(audit.exchanges) do
      local factor, times = occurs(c, i, each)
      if layers and layers[i] > 0 and factor > 0 and exchange[late] + exchange[hidden] > 0 then
        add(("%s: %s"):format(what, c.exchanges[i].section), factor * layers[i] * exchange[late],
          "%s x %g x (%s - %s beside the pass)", times, layers[i], exchanged(audit, exchange, name == "gather"),
          seconds(exchange[hidden]))
      end
    end
    local first = audit.waiting and audit.waiting["first_" .. name] or 0
    if first > 0 then
      local whose = first == audit.exchanges[audit.waiting.leading][hidden] and "layer" or "bucket"
      add(("%s of the first %s"):format(what, whose), first,
        "what of its exchange a pass would hide: there is none beside it")
    end
  end
  if audit.together ~= 0 then
    add("hidden by overlapped and split passes", -audit.together,
      "what they wait for their exchanges with replicas less than passes apart, which are shorter")
  end
end

local function add_exchanges(add, c, audit)
  add_exposed(add, c, audit)
  local stage = audit.waiting
  if not stage then return end
  for i, exchange in ipairs(audit.exchanges) do
    if stage[i] > 0 and exchange.replicated then
      add("reduce replicated gradients: " .. c.exchanges[i].section, stage[i] * exchange.replicated,
        "%d x %s: of parameters that every GPU of a group has whole, such as norms, once", stage[i],
        seconds(exchange.replicated))
    end
    if stage[i] > 0 and exchange.tied then
      local is_end = i <= #c.kinds + 2
      add(is_end and "reduce the tied table's gradient" or "reduce the gradients of weights that layers share",
        exchange.tied, is_end and "between the pipeline's ends, which both hold it, once"
        or "between the stages, each of which holds a copy, once")
    end
    if stage[i] > 0 and exchange.update then
      add("gather updates: " .. c.exchanges[i].section, stage[i] * exchange.update, "%d x %s: Newton-Schulz iterations "
        .. "want whole matrices", stage[i], seconds(exchange.update))
    end
  end
end

local function add_host(add, c, audit)
  for i, launches in ipairs(audit.launches) do
    local wait, layers = launches.forward_wait + launches.backward_wait, audit.layers[i]
    if layers > 0 and wait > 0 then
      add("waiting for launches: " .. c.exchanges[i].section, c.microbatches * layers * wait,
        "%d micro-batches x %g x (what %.4g launches forward and %.4g backward, of %s each, take beyond the pass: "
          .. "%s + %s)",
        c.microbatches, layers, launches.forward, launches.backward, seconds(audit.host),
        seconds(launches.forward_wait), seconds(launches.backward_wait))
    end
  end
end

-- What the halves of split backward passes take beyond whole ones: each waits for its own launches, and collectives
-- do not overlap weight gradients that are put off.
local function add_split(add, c, audit)
  local b = audit.busiest
  local more = b.input + b.weight - b.backward
  if audit.split == 0 or more <= 0 then return end
  add("halves of split passes", audit.split * more / c.virtual_stages,
    "%d split backward passes x (input gradients %s + weight gradients %s - whole %s) / %d chunks", audit.split,
    seconds(b.input), seconds(b.weight), seconds(b.backward), c.virtual_stages)
end

local function add_pipeline(add, c, audit, closed)
  local others, busiest = audit.others, audit.busiest
  if audit.hidden ~= 0 then
    add("hidden by overlapped passes", -audit.hidden,
      "%d pairs x (forward %s + backward %s - both at once %s) / %d chunks", audit.pairs, seconds(busiest.forward),
      seconds(busiest.backward), seconds(busiest.pair), c.virtual_stages)
  end
  if not closed then
    add("pipeline bubble", c.breakdown.bubble, "what no other part of the simulated time takes")
  else
    local split = audit.split > 0
    add("pipeline bubble", c.breakdown.bubble, "%.4g x (forward %s + waits %s + hops %s) + %.4g x (%s %s + waits "
      .. "%s + hops %s), of the other stages on average, + %.4g x own weight gradients %s", audit.bubble_forward,
      seconds(others.forward), seconds(audit.each_forward), seconds(audit.hop), audit.bubble_backward,
      split and "input gradients" or "backward", seconds(split and others.input or others.backward),
      seconds(audit.each_backward), seconds(audit.hop), audit.bubble_weight_grad, seconds(audit.filling))
  end
  local links = {}
  for i, message in ipairs(audit.messages) do
    links[i] = ("%d links, each %s of %s, %s"):format(message.links, message.kind, bytes(message.bytes),
      seconds(message.time))
  end
  local gather = audit.messages.gather
  gather = gather > 0 and ("gathering the parts, %s; "):format(seconds(gather)) or ""
  local m, terms = audit.messages, {}
  local function term(count, time, what)
    if count * time > 0 then terms[#terms + 1] = ("%d x %s%s"):format(count, seconds(time), what) end
  end
  term(audit.messages_waited, m.time, "")
  term(audit.messages_beside, m.kept, " of calls and slower kernels, the rest beside passes")
  term(m.way > 0 and m.ways or 0, m.way, " on the way while the pipeline fills and drains")
  if audit.messages_late > 0 then terms[#terms + 1] = seconds(audit.messages_late) .. " late for steady passes" end
  add("messages between stages", c.breakdown.pipeline_comm, "%s; 2 x %d micro-batches x %d chunks; a hop takes %s "
    .. "(average of %s; %sand the host's calls, %s)", table.concat(terms, " + "), c.microbatches, c.virtual_stages,
    seconds(m.time), #links > 0 and table.concat(links, "; ") or "no links", gather, seconds(m.host))
end

local function add_offload(add, c)
  if not c.breakdown.offload then return end
  add("copies to and from the host", c.breakdown.offload,
    "what the copies of activations take beyond the layers that they run beside, %d micro-batches", c.microbatches)
end

local function add_optimizer(add, c, audit)
  local host, here = audit.host_update, c.breakdown.optimizer
  if host then
    here = here - (host.out + host.update + host.back)
    add("the optimizer's step on the host", host.out + host.update + host.back,
      "gradients of %s out %s + %s read and written in its memory %s + weights of %s back %s", bytes(host.bytes_out),
      seconds(host.out), bytes(host.bytes_updated), seconds(host.update), bytes(host.bytes_in), seconds(host.back))
  end
  if audit.update then
    here = here - audit.update.time
    add("Newton-Schulz iterations", audit.update.time, "of %.4g matrices, the most of a GPU: the longer of %s and the "
      .. "host's %.4g calls of PyTorch, of %s each", audit.update.matrices, units.format(audit.update.flops, "FLOP"),
      audit.update.calls, seconds(audit.bare_call))
  end
  local between = audit.step_calls * audit.bare_call
  if between > 0 then
    here = here - between
    add("launches between iterations", between, "%.4g calls of PyTorch of %s each, while the GPU waits",
      audit.step_calls, seconds(audit.bare_call))
  end
  if audit.optimizer_part == 0 then return end
  add("the optimizer's step", here, "%s read and written / (%.3g x %s/s)",
    bytes(audit.optimizer_bytes), audit.optimizer_part, bytes(audit.hbm))
end

--- The terms of a configuration's time, see docs/model.md section 6.1.
---@param c table      a configuration of tperf.train, with its exchanges
---@param audit table  the parts of each term, from candidate:audit
---@param closed boolean  its schedule has a closed form
---@return table[] terms  { term =, formula =, seconds = }; the last is the total
return function(c, audit, closed)
  local terms = {}
  local function add(term, value, format, ...)
    terms[#terms + 1] = { term = term, formula = format:format(...), seconds = value }
  end
  local layers, kinds = audit.layers, #c.kinds
  local function add_ops(what, ops, section)
    if layers[section] == 0 then return end
    for _, op in ipairs(ops) do add_op(add, c, what, op, layers[section]) end
  end
  for i, kind in ipairs(c.kinds) do add_ops(kind.key, kind.ops, i) end
  add_ops("before the layers", c.first, kinds + 1)
  add_ops("after the layers", c.last, kinds + 2)
  add_host(add, c, audit)
  add_split(add, c, audit)
  add_offload(add, c)
  add_pipeline(add, c, audit, closed)
  add_exchanges(add, c, audit)
  add_optimizer(add, c, audit)
  if c.straggling then
    add("the slowest GPU", c.straggling.seconds, "%.3g of a GPU's computing is the standard deviation; the slowest of "
      .. "%d takes %.4g times the mean", c.straggling.deviation, c.gpus, c.straggling.slowest)
  end
  local whole = 0
  for _, term in ipairs(terms) do whole = whole + term.seconds end
  add("an iteration", whole, "the sum of the above")
  return terms
end
