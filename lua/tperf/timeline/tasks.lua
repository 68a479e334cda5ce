--- The tasks of a model's timeline: kernels, collectives, messages, exchanges with replicas, launches and the
-- optimizer's step, each on the resources that it occupies. The core makes one list for each kind of chunk and pass
-- (include/tperf/step.h); the passes of the schedule determine when it runs.
local check = require "tperf.base.check"
local palette = require "tperf.timeline.picture.palette"
local sized = require "tperf.core".resource.sized

local tasks = {}

--- The resources of a device, in drawing order.
tasks.resources = { "compute", "fast", "nics", "host", "copy" }
tasks.kinds = {}
for i, entry in ipairs(palette.tasks) do tasks.kinds[i] = entry.kind end
tasks.titles = { compute = "compute", fast = "fast links", nics = "NICs", host = "host", copy = "copies" }

--- The lists of a timeline, made on first use: { chunks, forward, backward, backward_input, backward_weight, before,
-- after, optimizer }.
function tasks.lists(t)
  if not t.step then
    check.fail("timeline:tasks: a schedule of bare times has passes alone; tasks are a model's, of tperf.train { "
      .. "simulate = true } or tperf.schedule { model = … }")
  end
  if type(t.step) == "function" then t.step = t.step() end
  return t.step
end

local SUFFIX = { kernel = "", launches = " of kernels", optimizer = "'s step", offload = " to or from the host" }

--- The name of a task: "mlp fc1", "all_gather over tp for attention qkv", "gather weights".
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

--- Calls visit(op, list, scale, first, last) for every pass of a device, with its list of tasks, the factor by which
-- overlap stretches it (a pair is stretched so that both passes end together), and whether it is its stage's first
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

local LISTS = { "forward", "backward", "backward_input", "backward_weight", "before", "after" }

--- The resources and the kinds of tasks in a timeline, each in drawing order.
---@return string[] resources
---@return string[] kinds
function tasks.used(t)
  local lists, used, resources, kinds = tasks.lists(t), {}, {}, {}
  local function note(list)
    for _, task in ipairs(list) do
      used[task.kind] = true
      for _, resource in ipairs(task.resources) do used[resource] = true end
    end
  end
  for _, name in ipairs(LISTS) do
    for _, list in ipairs(lists[name]) do note(list) end
  end
  note(lists.optimizer)
  for _, resource in ipairs(tasks.resources) do
    if used[resource] then resources[#resources + 1] = resource end
  end
  for _, kind in ipairs(tasks.kinds) do
    if used[kind] then kinds[#kinds + 1] = kind end
  end
  return resources, kinds
end

--- The number of tasks in a timeline.
function tasks.count(t)
  local lists, count = tasks.lists(t), 0
  for d = 1, t.devices do
    count = count + #lists.before[d] + #lists.after[d] + #lists.optimizer
    tasks.passes(t, d, function(_, list) count = count + #list end)
  end
  return count
end

--- Calls add(list, start, scale, op, first, last) for every list of tasks of a device: those of its passes, of the
-- communication before and after them, and of the optimizer.
function tasks.placed(t, device, add)
  local lists, stop = tasks.lists(t), 0.0
  add(lists.before[device], 0.0, 1)
  tasks.passes(t, device, function(op, list, scale, first, last)
    add(list, op.start, scale, op, first, last)
    stop = op.stop
  end)
  add(lists.after[device], stop, 1)
  add(lists.optimizer, t.iteration_time - lists.optimizer.length, 1)
end

local function is_before(a, b)
  if a.start ~= b.start then return a.start < b.start end
  if a.stop ~= b.stop then return a.stop > b.stop end
  return a.text < b.text
end

local function is_sorted(list)
  for i = 2, #list do
    if is_before(list[i], list[i - 1]) then return false end
  end
  return true
end

local FIELDS <const> = 24 -- more than a task has

-- A list's tasks with their texts, sorted.
local function with_texts(list)
  local sorted = {}
  for i, task in ipairs(list) do
    local copy = sized(FIELDS)
    for key, value in next, task do copy[key] = value end
    copy.text = tasks.text(task)
    sorted[i] = copy
  end
  table.sort(sorted, is_before)
  return sorted
end

--- Iterates over the tasks of a device, sorted by start.
function tasks.each(t, device)
  local chunks, prepared, out = tasks.lists(t).chunks, {}, {}
  tasks.placed(t, device, function(list, at, scale, op, first, last)
    prepared[list] = prepared[list] or with_texts(list)
    for _, task in ipairs(prepared[list]) do
      if tasks.runs(task, first, last) then
        local copy = sized(FIELDS)
        for key, value in next, task do copy[key] = value end
        copy.start, copy.stop = at + scale * task.start, at + scale * task.stop
        copy.layer = op and task.layer and chunks[op.stage].layer + task.layer
        if op then copy.pass, copy.stage, copy.microbatch = op.type, op.stage, op.microbatch end
        out[#out + 1] = copy
      end
    end
  end)
  if not is_sorted(out) then table.sort(out, is_before) end -- passes that overlap are beside each other
  local i = 0
  return function()
    i = i + 1
    return out[i]
  end
end

--- A task's name, time and traffic, for a tooltip.
function tasks.details(t, task)
  local text = { tasks.text(task), t:show(task.seconds, "time") }
  for _, tier in ipairs { { "fast_bytes", "over fast links" }, { "nic_bytes", "through NICs" } } do
    if not task.tiers and task[tier[1]] > 0 then text[#text + 1] = t:show(task[tier[1]], "memory") .. " " .. tier[2] end
  end
  for _, tier in ipairs(task.tiers or {}) do
    text[#text + 1] = ("%s through %s"):format(t:show(tier.bytes, "memory"), tier.name)
  end
  if task.kind == "offload" then text[#text + 1] = t:show(task.bytes, "memory") end
  if task.beside then text[#text + 1] = "beside others" end
  return table.concat(text, ", ")
end

return tasks
