--- The work of a task's kernel, from the counts of the timeline's configuration.
local work = {}

--- (section, block, op) -> its counts, forward and backward; sections are numbered as in the workload.
---@param c table  a configuration
function work.counts(c)
  local found = {}
  local function add(section, ops)
    for _, op in ipairs(ops) do found[("%d/%s/%s"):format(section, op.block, op.name)] = op end
  end
  for i, kind in ipairs(c.kinds) do add(i, kind.ops) end
  add(#c.kinds + 1, c.first)
  add(#c.kinds + 2, c.last)
  return found
end

local function op_of(task, counts)
  return task.op and counts[("%d/%s/%s"):format(task.section, task.block, task.op)]
end

--- FLOPs and bytes of a task in its pass; half of the backward counts if input and weight gradients are separate
--- passes. nil if the task is not a kernel.
function work.of(task, counts)
  local op = op_of(task, counts)
  if not op then return nil end
  local forward = task.pass == "forward" or task.again
  local pass = forward and op.forward or op.backward
  local part = (task.pass == "backward_input" or task.pass == "backward_weight") and not task.again and 0.5 or 1
  return part * (pass.tensor_flops + pass.vector_flops), pass.bytes and part * pass.bytes
end

local ATTENTION <const> = { attention = true, logits = true, softmax = true, attend = true, fusedla = true }
local RECURRENCES <const> = { scan = true, rule = true, conv = true }

--- The collective by which replicas gather weights or reduce gradients, of those with several the first; nil if each
--- part has one GPU.
---@param c table      a configuration
---@param what string  the kind of the task
function work.exchange(c, what)
  for _, exchange in ipairs(c.exchanges) do
    for _, comm in ipairs(exchange.comms) do
      if comm.what == what then return comm.kind end
    end
  end
end

--- The kind of a task, as tperf.import.kineto names it; nil for host work.
---@param c table  the task's configuration
function work.kind(task, counts, c)
  if task.kind == "collective" then return task.collective == "send" and "messages" or task.collective end
  if task.kind == "message" then return "messages" end
  if task.kind == "gather weights" or task.kind == "reduce gradients" then return work.exchange(c, task.kind) end
  if task.kind == "optimizer" then return "optimizer" end
  if task.kind == "offload" then return "copies" end
  if task.kind ~= "kernel" then return nil end
  if ATTENTION[task.op] then return "attention" end
  if RECURRENCES[task.op] then return "recurrences" end
  if task.op:find "norm" or task.op:find "^ln%d" then return "norms" end
  local op = op_of(task, counts)
  return op and op.forward.tensor_flops > 0 and "matrix products" or "passes over elements"
end

return work
