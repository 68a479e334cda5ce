--- Compares a measured step with the predicted one op by op: pairs the kernels and collectives of a trace with the
-- predicted ones.
local match = require "tperf.timeline.match"

local ops = {}

local CLASS <const> = { mlp = "feed", moe = "feed", attention = "attention", embedding = "ends", head = "ends" }
local EXCHANGES <const> = { ["gather weights"] = true, ["reduce gradients"] = true }

-- The number of matrix products in an op's pass: two if its backward pass has input and weight gradients.
local function products(task, op)
  if task.pass ~= "backward" or task.again or not op or op.forward.tensor_flops <= 0 then return 1 end
  return op.backward.tensor_flops > 1.5 * op.forward.tensor_flops and 2 or 1
end

local function label_of(task)
  if not task.op then return EXCHANGES[task.kind] and task.kind or task.text end
  local text = task.block .. " " .. task.op
  return task.collective and ("%s over %s for %s"):format(task.collective, task.axis, text) or text
end

--- The kernels that a task should have in a trace, one per matrix product, described as match.lua expects them.
---@param kind string  work.kind(task, …)
function ops.expected(task, counts, kind)
  local op = task.op and counts[("%d/%s/%s"):format(task.section, task.block, task.op)]
  local count = kind == "matrix products" and products(task, op) or 1
  local forward, list = task.pass == "forward" or task.again, {}
  local pass = task.pass == "forward" and "forward" or task.pass == "backward_weight" and "weights"
    or task.pass and "backward"
  local flops = kind == "matrix products" and op and op.forward.tensor_flops or nil
  for i = 1, count do
    list[i] = {
      label = label_of(task), kind = kind, class = CLASS[task.block] or task.block, op = task.op,
      axis = EXCHANGES[task.kind] and "dp" or task.kind == "message" and "pp" or task.axis, forward = forward,
      pass = not EXCHANGES[task.kind] and (i == 2 and "weights" or pass) or nil, seconds = task.seconds / count,
      flops = flops, shown = task.again and "recomputed" or pass == "weights" and "backward" or pass or "",
    }
  end
  return list
end

-- Pairs the kernels of one step, and adds those paired to the rows, the rest to `alone`.
local function add_step(row_of, alone, theirs, ours)
  local matched = {}
  local whole = match(theirs, ours, function(e, p)
    matched[e] = true
    local row = row_of(p)
    row.measured, row.kernels = row.measured + e.stop - e.start, row.kernels + 1
  end)
  for _, e in ipairs(theirs) do
    if not matched[e] then
      local one = alone[e.name] or { kernel = e.name, kind = e.kind, kernels = 0, measured = 0.0 }
      one.kernels, one.measured, alone[e.name] = one.kernels + 1, one.measured + e.stop - e.start, one
    end
  end
  return whole
end

local function by_size(field)
  return function(a, b)
    local x, y = math.abs(a[field]), math.abs(b[field])
    if x ~= y then return x > y end
    return (a.op or a.kernel) < (b.op or b.kernel)
  end
end

-- Converts sums over all steps to means per step, and sorts them.
local function finish(rows, alone, steps)
  local list, missing, kernels = {}, {}, {}
  for _, row in ipairs(rows) do
    row.measured, row.kernels = row.measured / steps, row.kernels / steps
    row.difference = row.measured - row.predicted
    row.ratio = row.measured > 0 and row.predicted / row.measured or nil
    table.insert(row.kernels > 0 and list or missing, row)
  end
  for _, one in pairs(alone) do
    one.kernels, one.measured = one.kernels / steps, one.measured / steps
    kernels[#kernels + 1] = one
  end
  table.sort(list, by_size "difference")
  table.sort(missing, by_size "predicted")
  table.sort(kernels, by_size "measured")
  return list, missing, kernels
end

--- Compares op by op.
---@param ours table[]  the kernels expected (ops.expected), in order
---@param theirs table[]  events of tperf.import.kineto
---@param steps integer
---@return table[] rows  { op, pass, kind, tasks, kernels (per step), predicted, measured, difference, ratio }, the
---  largest difference first
---@return table[] missing  rows of ops without a kernel in the trace
---@return table[] unmatched  { kernel, kind, kernels, measured }: kernels that belong to no predicted op
---@return boolean  false if too many kernels lie between two attention kernels to match them
function ops.of(ours, theirs, steps)
  local rows, by_key, alone, whole = {}, {}, {}, true
  local function row_of(p)
    local key = p.label .. "\0" .. p.shown .. "\0" .. p.kind
    local row = by_key[key]
    if not row then
      row = { op = p.label, pass = p.shown, kind = p.kind, tasks = 0, kernels = 0, predicted = 0.0, measured = 0.0 }
      by_key[key], rows[#rows + 1] = row, row
    end
    return row
  end
  for _, p in ipairs(ours) do
    local row = row_of(p)
    row.tasks, row.predicted = row.tasks + 1, row.predicted + p.seconds
  end
  local by_step = {}
  for s = 1, steps do by_step[s] = {} end
  for _, e in ipairs(theirs) do table.insert(by_step[e.step], e) end
  for _, list in ipairs(by_step) do whole = add_step(row_of, alone, list, ours) and whole end
  local list, missing, kernels = finish(rows, alone, steps)
  return list, missing, kernels, whole
end

return ops
