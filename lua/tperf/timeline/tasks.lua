--- The tasks of a model's timeline: kernels, collectives, messages, exchanges with replicas, launches and the
-- optimizer's step, each on the resources that it keeps busy. The core makes one list for each kind of chunk and pass
-- (include/tperf/step.h); the passes of the schedule say when each of them runs.
local check = require "tperf.check"

local tasks = {}

--- The resources of a device, in drawing order.
tasks.resources = { "compute", "fast", "nics", "host" }
tasks.titles = { compute = "compute", fast = "fast links", nics = "NICs", host = "host" }

--- The lists of a timeline, made when first asked for: { chunks, forward, backward, backward_input, backward_weight,
-- before, after, optimizer }.
function tasks.lists(t)
  if not t.step then
    check.fail("timeline:tasks: a schedule of bare times has passes alone; tasks are a model's, of tperf.train { simulate "
      .. "= true } or tperf.schedule { model = … }")
  end
  if type(t.step) == "function" then t.step = t.step() end
  return t.step
end

local SUFFIX = { kernel = "", launches = " of kernels", optimizer = "'s step" }

--- What a task is, in words: "mlp fc1", "all_gather over tp for attention qkv", "gather weights".
function tasks.text(task)
  local text = task.kind .. (SUFFIX[task.kind] or "")
  if task.op then
    text = task.block .. " " .. task.op
    if task.collective then text = ("%s over %s for %s"):format(task.collective, task.axis, text) end
    if task.again then text = text .. ", recomputed" end
  elseif task.kind == "message" then
    text = "message between stages"
  end
  return text
end

-- The positions in a device's queue of each stage's first forward and last backward pass.
local function ends_of(t, device)
  local first, last = {}, {}
  for i, op in t:queue(device) do
    if op.type == "forward" then
      first[op.stage] = first[op.stage] or i
    elseif op.type ~= "backward_weight" then
      last[op.stage] = i
    end
  end
  return first, last
end

--- Calls visit(op, list, scale, first, last) for every pass of a device: its list of tasks, how much longer it takes
-- than alone (an overlapped one goes at the pace at which both end together), and whether it is its stage's first
-- forward or last backward pass.
function tasks.passes(t, device, visit)
  local lists = tasks.lists(t)
  local first, last = ends_of(t, device)
  for i, op in t:queue(device) do
    local list = lists[op.type][lists.chunks[op.stage].list]
    local scale = op.overlapped and (op.stop - op.start) / list.length or 1
    visit(op, list, scale, first[op.stage] == i, last[op.stage] == i)
  end
end

--- Whether a task of a list runs in a pass.
function tasks.runs(task, first, last)
  return not task.when or task.when == "first" and first or task.when == "last" and last or false
end

--- Iterates over every task of a device.
function tasks.each(t, device)
  local lists = tasks.lists(t)
  local out, stop = {}, 0.0
  local function add(list, at, scale, op, first, last)
    for _, task in ipairs(list) do
      if tasks.runs(task, first, last) then
        local copy = {}
        for key, value in pairs(task) do copy[key] = value end
        copy.start, copy.stop, copy.text = at + scale * task.start, at + scale * task.stop, tasks.text(task)
        copy.layer = op and task.layer and lists.chunks[op.stage].layer + task.layer
        if op then copy.pass, copy.stage, copy.microbatch = op.type, op.stage, op.microbatch end
        out[#out + 1] = copy
      end
    end
  end
  add(lists.before[device], 0.0, 1)
  tasks.passes(t, device, function(op, list, scale, first, last)
    add(list, op.start, scale, op, first, last)
    stop = op.stop
  end)
  add(lists.after[device], stop, 1)
  add(lists.optimizer, t.iteration_time - lists.optimizer.length, 1)
  local i = 0
  return function()
    i = i + 1
    return out[i]
  end
end

return tasks
