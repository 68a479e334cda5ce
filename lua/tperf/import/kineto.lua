--- Reads traces of PyTorch's profiler (Kineto's JSON, torch.profiler's export_chrome_trace): GPU activity by the kinds
-- that predictions have.
local check = require "tperf.base.check"
local context = require "tperf.import.kineto_context"
local core = require "tperf.core"
local json = require "tperf.input.json"

local kineto = {}

local MOST_BYTES <const> = 2 << 30

--- Kinds of GPU activity, in the order of tables.
kineto.kinds = { "matrix products", "attention", "recurrences", "norms", "passes over elements", "copies", "optimizer",
  "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "messages", "broadcast" }

-- Patterns of lower-case kernel names; the first match decides. NCCL's names contain the collective; SendRecv is an
-- all-to-all if its group is one of experts.
local PATTERNS <const> = {
  { "allreduce", "all_reduce" }, { "all_reduce", "all_reduce" }, { "allgather", "all_gather" },
  { "all_gather", "all_gather" }, { "reducescatter", "reduce_scatter" }, { "reduce_scatter", "reduce_scatter" },
  { "alltoall", "all_to_all" }, { "all_to_all", "all_to_all" }, { "sendrecv", "messages" },
  { "broadcast", "broadcast" },
  { "deep_?ep", "all_to_all" }, { "cached_notify", "all_to_all" }, { "get_dispatch_layout", "all_to_all" },
  { "intranode.*dispatch", "all_to_all" }, { "intranode.*combine", "all_to_all" },
  { "internode.*dispatch", "all_to_all" }, { "internode.*combine", "all_to_all" },
  { "flash", "attention" }, { "fmha", "attention" }, { "attention", "attention" }, { "sdpa", "attention" },
  { "fused_attn", "attention" },
  { "selective_scan", "recurrences" }, { "chunk_scan", "recurrences" }, { "chunk_state", "recurrences" },
  { "delta_rule", "recurrences" },
  { "transpose", "passes over elements" }, { "_cast_", "passes over elements" },
  { "adam", "optimizer" }, { "multi_tensor", "optimizer" }, { "muon", "optimizer" },
  { "gemm", "matrix products" }, { "nvjet", "matrix products" }, { "cutlass", "matrix products" },
  { "xmma", "matrix products" }, { "cublas", "matrix products" }, { "_mm_", "matrix products" },
  { "norm", "norms" }, { "rsqrt", "norms" },
  { "memcpy", "copies" }, { "memset", "copies" },
}

-- The collective that PyTorch records with NCCL's kernel ("_allgather_base", "all_to_allv", "send"); nil if it does
-- not.
local function collective_of(args)
  local name = type(args) == "table" and args["Collective name"]
  if type(name) ~= "string" then return nil end
  name = name:lower()
  if name == "send" or name == "recv" then return "messages" end
  for i = 1, 10 do
    if name:find(PATTERNS[i][1]) then return PATTERNS[i][2] end
  end
end

local function kind_of(event, category)
  local name = event.name:lower()
  local group = type(event.args) == "table" and event.args["Process Group Description"]
  if category:find "^gpu_mem" then return "copies" end
  local named = name:find "nccl" and collective_of(event.args)
  if named then return named end
  for _, pattern in ipairs(PATTERNS) do
    if name:find(pattern[1]) then
      local of_experts = type(group) == "string" and group:lower():find "expert"
      return pattern[2] == "messages" and of_experts and "all_to_all" or pattern[2]
    end
  end
  return "passes over elements"
end

local ON_GPU <const> = { kernel = true, gpu_memcpy = true, gpu_memset = true, Kernel = true, Memcpy = true }

-- The steps that the profiler marked: on the GPU's timeline if it has them, else on the host's.
local function steps_of(events)
  local marked = { gpu = {}, host = {} }
  for _, e in ipairs(events) do
    if type(e.name) == "string" and e.name:find "^ProfilerStep#" and math.type(e.ts)
      and math.type(e.dur) then
      table.insert(e.cat == "gpu_user_annotation" and marked.gpu or marked.host, { e.ts, e.ts + e.dur })
    end
  end
  return #marked.gpu > 0 and marked.gpu or marked.host
end

local function checked(e, where, i)
  if math.type(e.ts) == nil or math.type(e.dur) == nil or type(e.name) ~= "string" or not (e.dur >= 0) then
    check.fail("%s: traceEvents[%d] has no name, or no number as ts or dur", where, i)
  end
  return e
end

--- Reads the GPU activity of a trace.
---@param path string
---@return table measured  { events = { { name, kind, start, stop, stream, step, about } … } (in seconds since the first
---  step's start, in order; about: see tperf.import.kineto_context), steps = their number, step_time = seconds of one,
---  rank = of the process, if known }
function kineto.read(path)
  local file, message = core.file.open(path, true)
  if not file then check.fail("cannot open %s", message) end
  local text, problem = core.file.rest(file, MOST_BYTES)
  file:close()
  if not text then check.fail("%s: %s", path, problem) end
  if #text > MOST_BYTES then check.fail("%s: more than 2 GiB", path) end
  if text:sub(1, 2) == "\31\139" then check.fail("%s: compressed; unpack it first: gunzip %s", path, path) end
  local content = json.decode(text, path)
  local list = type(content) == "table" and (content.traceEvents or content[1] and content)
  if type(list) ~= "table" then check.fail("%s: has no \"traceEvents\": is it a trace of PyTorch's profiler?", path) end
  for i, e in ipairs(list) do
    if type(e) ~= "table" then check.fail("%s: traceEvents[%d] must be an object, got %s", path, i, check.show(e)) end
  end
  local steps, events = steps_of(list), {}
  local about_kernel = context.of(list, ON_GPU)
  for i, e in ipairs(list) do
    if e.ph == "X" and ON_GPU[e.cat] then
      checked(e, path, i)
      events[#events + 1] = {
        name = e.name, kind = kind_of(e, e.cat), start = e.ts, stop = e.ts + e.dur, stream = e.tid,
        about = about_kernel(e),
      }
    end
  end
  if #events == 0 then check.fail("%s: has no kernels; was the GPU profiled (ProfilerActivity.CUDA)?", path) end
  table.sort(events, function(a, b) return a.start < b.start end)
  table.sort(steps, function(a, b) return a[1] < b[1] end)
  local from, to = math.huge, -math.huge
  for _, span in ipairs(#steps > 0 and steps or { { events[1].start, 0 } }) do
    from, to = math.min(from, span[1]), math.max(to, span[2])
  end
  if #steps == 0 then
    for _, e in ipairs(events) do to = math.max(to, e.stop) end
  end
  local kept, step = {}, 1
  for _, e in ipairs(events) do
    if e.start >= from and e.start < to then
      while steps[step + 1] and e.start >= steps[step + 1][1] do step = step + 1 end
      e.step = step
      e.start, e.stop = (e.start - from) * 1e-6, (e.stop - from) * 1e-6
      kept[#kept + 1] = e
    end
  end
  local about = type(content.distributedInfo) == "table" and content.distributedInfo or {}
  local count = math.max(#steps, 1)
  return {
    events = kept, steps = count, step_time = (to - from) * 1e-6 / count, rank = math.tointeger(tonumber(about.rank)),
  }
end

return kineto
