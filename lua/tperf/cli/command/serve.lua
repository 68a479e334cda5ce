local format = require "tperf.report.format"
local options = require "tperf.cli.options"
local settings = require "tperf.cli.settings"
local units = require "tperf.units"

local ENGINE = { "max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size",
  "long_prefill_token_threshold" }
local LOAD = { "rate", "process", "cv", "burst", "concurrency", "think" }
local QUESTION = { "count", "seed", "replicas", "router", "threads", "system", "tp", "ep", "weight_dtype", "kv_dtype",
  "compute_dtype" }

local latency_columns = {
  { key = "latency" }, { key = "mean", unit = "s" }, { key = "p50", unit = "s" }, { key = "p90", unit = "s" },
  { key = "p99", unit = "s" },
}
local request_columns = {
  { key = "status" }, { key = "arrival", unit = "s" }, { key = "first_scheduled", unit = "s", wide = 3 },
  { key = "first_token", unit = "s" }, { key = "last_token", unit = "s" }, { key = "tokens" }, { key = "preemptions" },
  { key = "cached_tokens", wide = 1 }, { key = "longest_gap", unit = "s" },
  { key = "steps", wide = 2 },
}
local step_columns = {
  { key = "start", unit = "s" }, { key = "duration", unit = "s" }, { key = "replica" }, { key = "running" },
  { key = "waiting" }, { key = "prefill_tokens" }, { key = "decode_tokens" }, { key = "preempted", wide = 1 },
  { key = "free_blocks" },
}

-- What an answer consists of beside its latencies, in order: { name, title, unit }.
local DETAILS = {
  { "throughput", "output tokens/s" }, { "requests_per_second", "requests/s" }, { "goodput", "good requests/s" },
  { "attainment", "part of requests that are good" }, { "utilization", "part of the time in steps" },
  { "concurrency", "requests in the system" }, { "duration", "duration", "s" }, { "finished", "finished" },
  { "rejected", "rejected" }, { "preemptions", "preemptions" }, { "cache_hits", "part of prompts cached" },
  { "step_count", "steps" }, { "num_blocks", "blocks of the KV cache" },
}

-- "fixed=5ms,per_token=20us": { fixed = 0.005, per_token = 2e-5 }, or nil and a message.
local function times(option, text)
  local found = {}
  for item in (text .. ","):gmatch "([^,]*)," do
    local name, value = item:match "^([%w_]+)=(.+)$"
    if not name then return nil, ("--%s: NAME=TIME is needed, got '%s'"):format(option, item) end
    local seconds, message = units.parse(value, "s")
    if not seconds then return nil, ("--%s: %s: %s"):format(option, name, message) end
    found[name] = seconds
  end
  return found
end

-- "512", "100..2000" or "mean=500,cv=1": a length, or nil and a message.
local function length(option, text)
  local low, high = text:match "^(%d+)%.%.(%d+)$"
  if low then return { uniform = { math.tointeger(low), math.tointeger(high) } } end
  if text:find "^%d+$" then return math.tointeger(text) end
  local mean, cv = text:match "^mean=([%d.]+),cv=([%d.]+)$"
  if mean then return { lognormal = { mean = tonumber(mean), cv = tonumber(cv) } } end
  local only = text:match "^mean=([%d.]+)$"
  if only then return { exponential = tonumber(only) } end
  return nil, ("--%s: tokens such as 512, 100..2000, mean=500 (exponential) or mean=500,cv=1 (lognormal), got '%s'")
    :format(option, text)
end

local function host_of(option, text)
  if not text:find "=" then return text end -- a profile
  return times(option, text)
end

local function copy(names, values)
  local found
  for _, name in ipairs(names) do
    if values[name] ~= nil then
      found = found or {}
      found[name] = values[name]
    end
  end
  return found
end

-- The arguments of tperf.serve, or nil and a message.
local function question_of(values)
  local question = copy(QUESTION, values) or {}
  for option, parse in pairs { step_time = times, host = host_of, slo = times, prompt = length, output = length } do
    if values[option] then
      local message
      question[option], message = parse(option:gsub("_", "-"), values[option])
      if not question[option] then return nil, message end
    end
  end
  question.requests = values.trace
  question.load = copy(LOAD, values)
  question.engine = copy(ENGINE, values) or {}
  question.engine.num_blocks = values.num_gpu_blocks
  question.memory_utilization = values.gpu_memory_utilization
  question.engine.policy = values.scheduling_policy
  if values.no_enable_prefix_caching then question.engine.prefix_caching = false end
  if values.no_async_scheduling then question.engine.async_scheduling = false end
  if values.no_enable_chunked_prefill then question.engine.chunked_prefill = false end
  question.keep = values.steps and "steps" or values.requests and "requests" or nil
  return question
end

local function print_answer(r)
  local report, latencies, rows = require "tperf.report", {}, {}
  for _, name in ipairs { "ttft", "tpot", "e2e" } do
    if r[name] then
      latencies[#latencies + 1] = { latency = name, mean = r[name].mean, p50 = r[name].p50, p90 = r[name].p90,
        p99 = r[name].p99 }
    end
  end
  if latencies[1] then report.print(latencies, latency_columns) end
  for _, detail in ipairs(DETAILS) do
    if r[detail[1]] ~= nil then rows[#rows + 1] = { item = detail[2], value = r[detail[1]], unit = detail[3] } end
  end
  print()
  report.print(rows, {
    { key = "item" },
    { title = "value", align = "right", key = function(row) return format.number(row.value, row.unit) end },
  })
  if r.saturated then
    io.stderr:write(("saturated: more requests come than the %.4g a second that are served; waits grow as long as the "
      .. "load lasts\n"):format(r.requests_per_second))
  end
end

-- One row with the fields of an answer, for CSV.
local function flat(r)
  local row, columns = {}, {}
  for _, detail in ipairs(DETAILS) do
    row[detail[1]] = r[detail[1]]
    columns[#columns + 1] = { key = detail[1] }
  end
  for _, name in ipairs { "ttft", "tpot", "e2e" } do
    for _, figure in ipairs { "mean", "p50", "p90", "p99" } do
      local key = name .. "_" .. figure
      row[key] = r[name] and r[name][figure]
      columns[#columns + 1] = { key = key }
    end
  end
  return { row }, columns
end

return {
  summary = "requests through a serving engine, simulated: latency, throughput, goodput",
  details = [[
Requests of a trace, or drawn, go through the scheduler of vLLM V1. A step takes what the
model's network takes on the system, or as long as --step-time says.
  tperf serve llama-3.1-8b -s h100-sxm --rate 10 --count 300 --prompt 100..2000 --output mean=200
  tperf serve --step-time fixed=5ms,per_token=20us --rate 10 --count 300 --prompt 100..2000 --output mean=200
A trace is CSV with the columns arrival, prompt, output (priority, prefix, prefix_tokens), or JSON lines.]],
  arguments = "[MODEL]",
  options = options.join({
    { long = "system", short = "s", value = "NAME", from = "systems files",
      help = "what it runs on (`tperf list systems`, or a file)" },
    { long = "tp", value = "N", kind = "integer", help = "GPUs that cut layers (default 1)" },
    { long = "ep", value = "N", kind = "integer", help = "replicas that share experts (default 1)" },
    { long = "weight-dtype", value = "NAME", help = "how weights are stored (default bf16)" },
    { long = "kv-dtype", value = "NAME", help = "how the cache is stored (default bf16)" },
    { long = "compute-dtype", value = "NAME", help = "in which products with weights multiply (default bf16)" },
    { long = "gpu-memory-utilization", value = "PART", kind = "number",
      help = "part of the memory that the engine may use (default 0.9)" },
    { long = "host", value = "NAME=TIME,...",
      help = "of the host: front_end, step, request, token (or vllm-0.15)" },
    { long = "step-time", value = "NAME=TIME,...",
      help = "or: fixed, per_token, per_context_token, per_prefill_pair" },
    { long = "trace", value = "FILE", help = "the requests: CSV or JSON lines" },
    { long = "rate", value = "N", kind = "number", help = "requests a second" },
    { long = "process", value = "NAME", from = { "poisson", "gamma", "uniform" },
      help = "poisson (default), gamma or uniform arrivals" },
    { long = "cv", value = "N", kind = "number", help = "of the gaps of gamma arrivals; above 1 they are bursty" },
    { long = "burst", value = "N", kind = "integer", help = "requests that come at once (default 1)" },
    { long = "concurrency", value = "N", kind = "integer", help = "a closed loop: requests in flight" },
    { long = "think", value = "TIME", kind = "s", help = "from an answer to the client's next request" },
    { long = "count", value = "N", kind = "integer", help = "requests to draw" },
    { long = "prompt", value = "LENGTH", help = "512, 100..2000, mean=500 (exponential), mean=500,cv=1 (lognormal)" },
    { long = "output", value = "LENGTH", help = "the same for answers" },
    { long = "seed", value = "N", kind = "integer", help = "of what is drawn (default 1)" },
    { long = "max-num-seqs", value = "N", kind = "integer", help = "requests that run at a time (default 1024)" },
    { long = "max-num-batched-tokens", value = "N", kind = "integer", help = "tokens of a step (default 8192)" },
    { long = "max-model-len", value = "N", kind = "integer", help = "prompt and answer (default: no limit)" },
    { long = "block-size", value = "N", kind = "integer", help = "tokens of a block of the KV cache (default 16)" },
    { long = "num-gpu-blocks", value = "N", kind = "integer", help = "blocks of the KV cache (default: what fits)" },
    { long = "long-prefill-token-threshold", value = "N", kind = "integer", help = "tokens of a prompt in a step" },
    { long = "scheduling-policy", value = "NAME", from = { "fcfs", "priority" }, help = "fcfs (default) or priority" },
    { long = "no-enable-prefix-caching", help = "compute every prompt whole" },
    { long = "no-async-scheduling", help = "form a batch when the step before it has ended" },
    { long = "no-enable-chunked-prefill", help = "compute every prompt in one step" },
    { long = "replicas", value = "N", kind = "integer", help = "engines behind a router (default 1)" },
    { long = "router", value = "NAME", from = { "round_robin", "least_loaded", "prefix" },
      help = "round_robin (default), least_loaded or prefix" },
    { long = "slo", value = "NAME=TIME,...", help = "limits of ttft, tpot and e2e, such as ttft=500ms,tpot=30ms" },
    { long = "threads", value = "N", kind = "integer", help = "threads for replicas (default: processors)" },
    { long = "requests", help = "print every request" },
    { long = "steps", help = "print every step" },
    settings.option,
  }, options.formats),
  run = function(values, arguments)
    if arguments[2] then return false, ("one model is needed, got '%s' too"):format(arguments[2]) end
    if arguments[1] and values.step_time then return false, "--step-time does not go with a model" end
    if arguments[1] and not values.system then return false, "--system is missing" end
    if not arguments[1] and not values.step_time then return false, "a model is missing, or --step-time" end
    if values.requests and values.steps then return false, "--requests does not go with --steps" end
    local wrong = settings.apply(values, arguments)
    if wrong then return false, wrong end
    local question, message = question_of(values)
    if not question then return false, message end
    question.model = arguments[1]
    local r, show = require "tperf".serve(question), require "tperf.cli.table"
    if values.requests then return show(values, r.requests, request_columns) end
    if values.steps then return show(values, r.steps, step_columns) end
    if values.json then return show(values, { r }, {}) end
    if values.csv then return show(values, flat(r)) end
    print_answer(r)
  end,
}
