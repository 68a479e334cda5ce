--- The tasks of a timeline as a dependency graph for each stage's GPU: compute, send, receive and collective nodes.
--   node: { id, name, type = "compute" | "collective" | "send" | "receive", start, stop (seconds), deps = ids, bytes =,
--     flops =, collective =, axis = (of the group), peer = (a stage, from 0), tag =, on_host = }
local tasks = require "tperf.timeline.tasks"
local work = require "tperf.timeline.work"

local graph = {}

-- The full vector of an exchange with n replicas, of which a replica sends (n - 1) / n, twice that in an all-reduce,
-- and all in a broadcast.
local function vector_of(sent, collective, n)
  if collective == "broadcast" then return sent end
  return sent * n / (n - 1) / (collective == "all_reduce" and 2 or 1)
end

local function node_of(task, c, grid, counts)
  local node = { name = task.text, start = task.start, stop = task.stop, type = "compute", task = task }
  local sent = task.fast_bytes + task.nic_bytes
  if task.kind == "collective" then
    if task.collective == "send" or grid:size(task.axis) == 1 then return nil end
    node.type, node.collective, node.axis, node.bytes = "collective", task.collective, task.axis, task.bytes
  elseif task.kind == "gather weights" or task.kind == "reduce gradients" then
    local n = grid:size "replicas"
    if n == 1 then return nil end
    node.type, node.axis = "collective", "replicas"
    node.collective = work.exchange(c, task.kind)
    node.bytes = vector_of(sent, node.collective, n)
  elseif task.kind == "message" then
    node.type, node.bytes = "send", sent
  else
    node.on_host = task.kind == "launches"
    node.flops, node.bytes = work.of(task, counts)
  end
  return node
end

local NEXT <const> = { forward = 1, backward = -1, backward_input = -1 }

-- The pass that waits for a message: its device, and a key that identifies it.
local function receiver_of(t, task)
  local stage = task.stage + NEXT[task.pass]
  if stage < 1 or stage > t.stages then return nil end -- both ends of the pipeline are timed as if they sent one, too
  for _, pass in ipairs { task.pass, "backward", "backward_input" } do
    local found = t:op { stage = stage, microbatch = task.microbatch, type = pass }
    if found then return found.device, ("%s/%d/%d"):format(pass, stage, task.microbatch) end
    if task.pass == "forward" then return nil end
  end
end

-- The nodes of every stage, still without ids. A message has a node on both sides.
local function gathered(t, c, grid)
  local nodes, counts, tag = {}, work.counts(c), 0
  for d = 1, t.devices do nodes[d] = {} end
  for d = 1, t.devices do
    for task in tasks.each(t, d) do
      local node = node_of(task, c, grid, counts)
      if node and node.type == "send" then
        local to, pass = receiver_of(t, task)
        if to and to ~= d then
          tag = tag + 1
          node.peer, node.tag, node.name = to - 1, tag, ("send to device %d"):format(to)
          table.insert(nodes[to], {
            name = ("receive from device %d"):format(d), type = "receive", start = node.start, stop = node.stop,
            peer = d - 1, tag = tag, bytes = node.bytes, opens = pass,
          })
        else
          node = nil
        end
      end
      if node then table.insert(nodes[d], node) end
    end
  end
  return nodes
end

local SAME <const> = 1e-12 -- seconds: times closer than this count as equal

-- A node depends on the last node to end before it starts, on the previous one of its own pass unless the two run
-- side by side, and, if it is the first of its pass, on the message that the pass needs.
local function connect(nodes)
  table.sort(nodes, function(a, b)
    if a.start ~= b.start then return a.start < b.start end
    if a.stop ~= b.stop then return a.stop < b.stop end
    return a.name < b.name
  end)
  local running, ended, last_of, received = {}, nil, {}, {}
  for id, node in ipairs(nodes) do
    node.id, node.deps = id, {}
    for i = #running, 1, -1 do
      local one = running[i]
      if one.stop <= node.start + SAME then
        if not ended or one.stop >= ended.stop then ended = one end
        table.remove(running, i)
      end
    end
    local function wait_for(one)
      if one and one.id ~= node.deps[1] and one.stop <= node.start + SAME then node.deps[#node.deps + 1] = one.id end
    end
    if node.type == "receive" then
      received[node.opens] = node
    else
      local task = node.task
      local pass = task.pass and ("%s/%d/%d"):format(task.pass, task.stage, task.microbatch)
      wait_for(ended)
      if pass then
        wait_for(last_of[pass] or received[pass])
        if not task.beside then last_of[pass] = node end
      end
      running[#running + 1] = node
    end
  end
end

--- The nodes of every stage, sorted by start.
---@param t tperf.timeline
---@param grid table  from tperf.timeline.ranks
---@return table[][]
function graph.of(t, grid)
  local nodes = gathered(t, t.configuration, grid)
  for _, list in ipairs(nodes) do connect(list) end
  return nodes
end

return graph
