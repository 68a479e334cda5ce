--- Context of kernels in a trace of PyTorch's profiler: the annotations around a kernel or its launch (record_function,
-- NVTX, modules), the op that launched it with its shapes, and its process group. From these it infers a kernel's pass,
-- block and FLOPs, if it can.
local context = {}

local ANNOTATES <const> = {
  user_annotation = true, ["python_function"] = true, cpu_op = true, Operator = true,
}
local LAUNCHES <const> = { cuda_runtime = true, cuda_driver = true, Runtime = true }

-- Patterns of lower-case names; the first match decides.
local PASSES <const> = {
  { "%(w%)", "weights" }, { "wgrad", "weights" }, { "backward_weight", "weights" }, { "weight_grad", "weights" },
  { "%(b%)", "backward" }, { "autograd::engine", "backward" }, { "backward", "backward" }, { "%f[%a]bwd", "backward" },
  { "%(f%)", "forward" }, { "%f[%a]forward_step", "forward" }, { "forward%-compute", "forward" },
  { "^forward$", "forward" }, { "%f[%a]fwd", "forward" },
}
local BLOCKS <const> = {
  { "auxiliary_?loss", "feed" }, { "dispatch%f[^%a]", "feed", "dispatch" }, { "combine%f[^%a]", "feed", "combine" },
  { "cross_entropy", "ends" },
  { "lm_?head", "ends" }, { "output_layer", "ends" }, { "loss", "ends" }, { "embed", "ends" },
  { "attn", "attention" }, { "attention", "attention" }, { "mlp", "feed" }, { "feed_?forward", "feed" },
  { "ffn", "feed" }, { "moe", "feed" }, { "expert", "feed" }, { "router", "feed" },
}
local AXES <const> = {
  { "expert", "ep" }, { "%f[%a]ep%f[%A]", "ep" }, { "tensor", "tp" }, { "%f[%a]tp%f[%A]", "tp" },
  { "context", "cp" }, { "%f[%a]cp%f[%A]", "cp" }, { "pipeline", "pp" }, { "%f[%a]pp%f[%A]", "pp" },
  { "data", "dp" }, { "%f[%a]dp", "dp" }, { "fsdp", "dp" }, { "shard", "dp" },
}

local function first_of(patterns, name)
  for _, pattern in ipairs(patterns) do
    if name:find(pattern[1]) then return pattern[2], pattern[3] end
  end
end

-- A memoized lookup of what a name implies: a trace has millions of events, but only a few thousand names.
local function reader()
  local known = {}
  return function(name)
    local found = known[name]
    if not found then
      local text = name:lower()
      -- Functions of Python files ("train.py(12): forward") may be called from anywhere.
      local block, op = first_of(BLOCKS, text:gsub("^.*%.py%(%d+%): ", ""))
      found = { pass = first_of(PASSES, text), block = block, op = op }
      known[name] = found
    end
    return found
  end
end

-- FLOPs of a matrix product from the shapes of its operands; nil for other ops.
local function flops_of(event)
  local dims = type(event.args) == "table" and event.args["Input Dims"]
  local which = event.name:match "^aten::([%w_]+)$"
  if type(dims) ~= "table" or not which then return nil end
  local a, b = dims[1], dims[2]
  if which == "addmm" or which == "baddbmm" then
    a, b = dims[2], dims[3]
  elseif which ~= "mm" and which ~= "bmm" and which ~= "_scaled_mm" and which ~= "_grouped_mm" then
    return nil
  end
  if type(a) ~= "table" or type(b) ~= "table" or #a < 2 or #b < 2 then return nil end
  local product = 2.0
  for _, size in ipairs(a) do product = product * (tonumber(size) or 0) end
  return product * (tonumber(b[#b]) or 0)
end

-- What the events around a moment imply, the innermost first.
local function told(stack, tell)
  local out = {}
  for i = #stack, 1, -1 do
    local e = stack[i]
    local of = tell(e.name)
    out.pass = out.pass or of.pass
    if not out.block then out.block, out.op = of.block, of.op end
    out.flops = out.flops or flops_of(e)
  end
  return out
end

local function by_time(a, b)
  if a.ts ~= b.ts then return a.ts < b.ts end
  return (a.dur or 0) > (b.dur or 0)
end

-- Calls visit(moment, stack) for each moment of a thread, with the events around it, outermost first.
local function around(events, moments, visit)
  table.sort(events, by_time)
  table.sort(moments, by_time)
  local stack, next_event = {}, 1
  for _, moment in ipairs(moments) do
    while events[next_event] and events[next_event].ts <= moment.ts do
      local e = events[next_event]
      while #stack > 0 and stack[#stack].ts + stack[#stack].dur <= e.ts do stack[#stack] = nil end
      stack[#stack + 1], next_event = e, next_event + 1
    end
    while #stack > 0 and stack[#stack].ts + stack[#stack].dur <= moment.ts do stack[#stack] = nil end
    visit(moment, stack)
  end
end

local function timed(e) return type(e.name) == "string" and math.type(e.ts) and math.type(e.dur) end

local function thread_of(e) return ("%s/%s"):format(e.pid, e.tid) end

local function listed(threads, key, field, e)
  local t = threads[key] or { events = {}, moments = {} }
  threads[key] = t
  table.insert(t[field], e)
end

--- Returns a lookup of each kernel's context.
---@param list table[]  the trace's events
---@param is_gpu table  category -> whether its events run on the GPU
---@return fun(event: table): table  { pass = "forward", "backward" or "weights", block = "attention", "feed" or "ends",
---  op = "dispatch" or "combine", axis, flops }; each nil if the trace does not tell
function context.of(list, is_gpu)
  local host, gpu, launched, found = {}, {}, {}, {}
  local tell = reader()
  for _, e in ipairs(list) do
    if e.ph == "X" and timed(e) then
      local args = type(e.args) == "table" and e.args or {}
      if LAUNCHES[e.cat] and args.correlation then
        listed(host, thread_of(e), "moments", e)
      elseif ANNOTATES[e.cat] then
        listed(host, thread_of(e), "events", e)
      elseif e.cat == "gpu_user_annotation" then
        listed(gpu, thread_of(e), "events", e)
      elseif is_gpu[e.cat] then
        listed(gpu, thread_of(e), "moments", e)
      end
    end
  end
  for _, t in pairs(host) do
    around(t.events, t.moments, function(e, stack) launched[e.args.correlation] = told(stack, tell) end)
  end
  for _, t in pairs(gpu) do
    around(t.events, t.moments, function(e, stack) found[e] = told(stack, tell) end)
  end
  return function(e)
    local args = type(e.args) == "table" and e.args or {}
    local there, here = launched[args.correlation] or {}, found[e] or {}
    local group = args["Process Group Description"]
    return {
      pass = here.pass or there.pass, block = here.block or there.block, op = here.op or there.op, flops = there.flops,
      axis = type(group) == "string" and first_of(AXES, group:lower()) or nil,
    }
  end
end

return context
