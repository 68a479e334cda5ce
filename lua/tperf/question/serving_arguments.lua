--- The arguments of questions about serving, one row each, as in tperf.question.arguments.
--   of       the questions that take it: "infer" (tperf.infer, tperf.search_inference), "serve" (tperf.serve and what
--            is built on it), or both
--   within   the table of the arguments that it stands in: "engine", "load"
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local engines = require "tperf.question.serve.engine"
local gguf = require "tperf.describe.gguf"
local load = require "tperf.question.serve.load"
local placement = require "tperf.question.placement"
local precision = require "tperf.describe.precision"
local records = require "tperf.describe.model.records"
local sampling = require "tperf.describe.arch.sampling"
local schedulers = require "tperf.describe.schedulers"

local arguments = {}

local CACHED <const> = { "fp32", "fp16", "bf16", "fp8", "int8", "fp4", "int4" }
local STORED <const> = table.move(gguf.names, 1, #gguf.names, #CACHED + 1, table.move(CACHED, 1, #CACHED, 1, {}))
local MULTIPLIED <const> = { "bf16", "fp16", "fp8", "int8", "fp4" }
local MOST <const> = (1 << 31) - 2
local HUGE <const> = 1 << 30 -- tokens; stands for no limit

local INFER <const>, SERVE <const>, BOTH <const> = { infer = true }, { serve = true }, { infer = true, serve = true }

local any, optional = check.any(), check.any { optional = true }
local some = check.integer { min = 1, max = 1 << 31 }
local one = check.integer { min = 1, max = 1 << 31, default = 1 }
local engines_of = check.integer { min = 1, max = 1 << 20, default = 1 }

local function integer(low, high, default)
  return check.integer { min = low, max = high, default = default, optional = default == nil }
end

local seconds = check.number { min = 0, max = 1e12, unit = "s", default = 0 }
local limit = check.number { above = 0, max = 1e12, unit = "s", optional = true }
local step_time = check.record_of({ fixed = seconds, per_token = seconds, per_context_token = seconds,
  per_prefill_pair = seconds }, { optional = true })

local groups = {}
for _, name in ipairs { "whole", "windowed", "window_blocks", "states" } do
  groups[name] = check.integer { min = 0, max = 1 << 16, default = 0 }
end
for _, name in ipairs { "apart", "window" } do -- blocks, tokens
  groups[name] = check.integer { min = 0, max = MOST, default = 0 }
end

local placed, order = placement.arguments[1].check, placement.arguments[2].check

local QUESTION <const> = {
  { name = "model", of = INFER, group = "model and machine", check = any, doc = "a name, a file or a table",
    option = false },
  { name = "model", of = SERVE, group = "model and machine", check = optional, doc = "a name, a file or a table",
    option = false },
  { name = "system", of = INFER, group = "model and machine", check = any,
    doc = "the system (`tperf list systems`, or a file)",
    option = { short = "s", value = "NAME", from = "systems files" } },
  { name = "system", of = SERVE, group = "model and machine", check = optional,
    doc = "the system (`tperf list systems`, or a file)",
    option = { short = "s", value = "NAME", from = "systems files" } },
  { name = "rules", of = BOTH, group = "model and machine", check = optional,
    doc = "modelling rules (`tperf list rules`)", option = { value = "NAME", from = "rules" } },
  { name = "software", of = INFER, group = "model and machine", check = optional,
    doc = "none, the only choice: kernels as timed in isolation", option = { value = "none", from = "none" } },
  { name = "software", of = SERVE, group = "model and machine", check = optional,
    doc = "the engine: vllm (default), sglang, tensorrt-llm",
    more = "The newest release of it, one by name (\"vllm-0.11\"), a file or a table, see tperf.software.",
    option = { value = "NAME", from = "software" } },
  { name = "gpu_hour", of = BOTH, group = "model and machine",
    check = check.number { min = 0, max = 1e6, optional = true }, doc = "dollars per GPU-hour (the system's)",
    option = { value = "DOLLARS" } },
  { name = "prompt", of = INFER, group = "requests", check = some, doc = "input tokens of a request",
    option = { short = "p", min = 1 } },
  { name = "generate", of = INFER, group = "requests", check = some, doc = "output tokens of a request",
    option = { short = "n", min = 1 } },
  { name = "batch", of = INFER, group = "requests", many = true, check = one, tried = "all that fit", usual = "1",
    doc = "sequences that one replica decodes at a time", option = { short = "b" } },
  { name = "prefill_batch", of = INFER, group = "requests", check = one, usual = "1",
    doc = "prompts that a replica prefills at a time (default 1)", option = { min = 1 } },
}

local LAYOUT <const> = {
  { name = "pp", of = BOTH, group = "layout", many = true, check = one, doc = "pipeline parallelism: stages" },
  { name = "dp", of = INFER, group = "layout", check = check.integer { min = 1, max = 1 << 31, optional = true },
    doc = "replicas (default: as many as share experts)", more = "Those that share experts run in step.",
    option = { min = 1 } },
  { name = "attention_dp", of = SERVE, group = "layout", check = integer(1, 1 << 20),
    doc = "data-parallel attention ranks per replica (default 1)",
    more = "Each has its own queue and cache and the GPUs of the axes; they step together, and experts are spread over "
      .. "them. Without it, as many replicas as ep and etp span are ranks." },
  { name = "replicas", of = SERVE, group = "layout", check = engines_of, doc = "engines behind a router (default 1)" },
  { name = "router", of = SERVE, group = "layout",
    check = check.choice { { "round_robin", "least_loaded", "prefix" }, default = "round_robin" },
    doc = "round_robin (default), least_loaded or prefix", more = "prefix: the longest cached prefix." },
  { name = "placement", of = BOTH, group = "layout", check = placed,
    doc = "stack: in the engine's order of ranks (default); best: the fastest",
    more = "Rules without `ranks_in_order` try every placement." },
  { name = "rank_order", of = BOTH, group = "layout", check = order,
    doc = "neighbours first (default tp-cp-pp-dp, or the engine's)", option = { value = "ORDER" } },
  { name = "sequence_parallel", of = INFER, group = "layout", check = check.boolean { default = false },
    doc = "tp also shards the residual stream of prompts by tokens" },
  { name = "precision", of = BOTH, group = "numerics", check = precision.optional,
    doc = "of layers: fp8-block, mxfp8 (default: the checkpoint's)",
    more = "A recipe's name or a table, as for tperf.train; scales are counted.",
    option = { value = "NAME", from = precision.names } },
  { name = "weight_dtype", of = BOTH, group = "numerics", check = check.choice { STORED, optional = true },
    doc = "dtype or GGUF mix of the stored weights (default: likewise)" },
  { name = "kv_dtype", of = BOTH, group = "numerics", check = check.choice { CACHED, default = "bf16" },
    doc = "dtype of the KV cache (default bf16)" },
  { name = "state_dtype", of = BOTH, group = "numerics", check = check.choice { records.states, optional = true },
    doc = "dtype of recurrent layers' states (default: the model's or engine's)" },
  { name = "compute_dtype", of = BOTH, group = "numerics", check = check.choice { MULTIPLIED, optional = true },
    doc = "dtype of products with weights (default: likewise)" },
  { name = "attention", of = INFER, group = "numerics",
    check = check.choice { { "flash", "unfused" }, default = "flash" }, doc = "flash (default) or unfused" },
  { name = "logits", of = INFER, group = "numerics",
    check = check.choice { { "last", "all" }, default = "last" },
    doc = "of which tokens of a prompt: last (default) or all",
    more = "all: for the probabilities of a prompt's own tokens (vLLM's prompt_logprobs, scoring), without their "
      .. "softmax." },
  { name = "reserve", of = INFER, group = "numerics", check = check.number { min = 0, max = 0.99, default = 0.1 },
    doc = "part of the memory to keep free (default 0.1)", option = { value = "PART" } },
}

local ENGINE <const> = {
  { name = "memory_utilization", of = SERVE, group = "engine",
    check = check.number { above = 0, max = 1, optional = true },
    doc = "fraction of the memory for the engine (default: the engine's)", more = "engine.num_blocks follows from it.",
    option = { long = "gpu-memory-utilization", value = "PART" } },
  { name = "experts", of = SERVE, group = "engine",
    check = check.choice { { "fused", "grouped", "portable" }, optional = true },
    doc = "kernels of experts (default: the engine's)",
    more = "fused: FlashInfer's TensorRT-LLM kernels on Blackwell; portable: Triton, where the system has a curve for "
      .. "them; grouped: CUTLASS, DeepGEMM." },
  { name = "attention", of = SERVE, group = "engine",
    check = check.choice { { "fused", "portable" }, default = "fused" },
    doc = "kernels of attention: fused (default), or portable (Triton)",
    more = "As with SGLang's --attention-backend triton: they take several times as long, and windows as long as "
      .. "none." },
  { name = "sampling", of = SERVE, group = "engine", check = check.choice { sampling.KINDS, default = "greedy" },
    doc = "how tokens are sampled (default greedy)", more = "\"none\" takes no time." },
  { name = "cold", of = SERVE, group = "engine", check = check.boolean { default = false },
    doc = "the engine has just started: it compiles kernels as steps need them",
    more = "They take its profile's `compile`." },
  { name = "host", of = SERVE, group = "engine", check = engines.host_checker,
    doc = "host times: front_end, front_end_token, step, request, token",
    more = "In seconds: for each request in the front end's event loop, for each token of its prompt in the tokenizer, "
      .. "for each step, for each request and each token in a step (the engine's; 0 for fields left out).",
    option = { value = "NAME=TIME,...", kind = "string" } },
  { name = "step_time", of = SERVE, group = "engine", check = step_time,
    doc = "or: fixed, per_token, per_context_token, per_prefill_pair",
    more = "In place of a model: seconds of a step, and for each token that it computes, each key that a decode reads, "
      .. "each pair of a query and a key in a prefill.", option = { value = "NAME=TIME,...", kind = "string" } },
  { name = "max_num_seqs", within = "engine", group = "engine", check = integer(1, MOST),
    doc = "most running requests (default: the engine's)",
    more = "By device and release, as the profile's `limits` say; 1024 where they do not, and with step_time." },
  { name = "max_num_batched_tokens", within = "engine", group = "engine", check = integer(1, MOST),
    doc = "token budget of a step (default: the engine's)", more = "Likewise; 8192." },
  { name = "max_model_len", within = "engine", group = "engine", check = integer(2, HUGE, HUGE),
    doc = "limit on prompt and answer (default: the model's context)", more = "There is none with step_time." },
  { name = "block_size", within = "engine", group = "engine", check = integer(1, 1 << 20, 16),
    doc = "tokens per block of the KV cache (default 16)" },
  { name = "num_blocks", within = "engine", group = "engine", check = integer(2, MOST),
    doc = "blocks of the KV cache (default: what fits)", more = "Unlimited with step_time.",
    option = { long = "num-gpu-blocks" } },
  { name = "kv_cache_memory", within = "engine", group = "engine",
    check = check.number { above = 0, max = 1e15, unit = "bytes", optional = true },
    doc = "of a GPU, for its cache (default: what memory_utilization leaves)",
    more = "engine.num_blocks follows from it.",
    option = { value = "SIZE" } },
  { name = "reserved", within = "engine", group = "engine",
    check = check.number { min = 0, max = 1e15, unit = "bytes", default = 0 },
    doc = "of a GPU for neither weights nor cache (buffers of adapters)", option = { value = "SIZE" } },
  { name = "pooled", within = "engine", group = "engine", check = check.boolean { optional = true },
    doc = "whether layers with a window or a state have blocks of their own (the release's)",
    option = { switches = { { "no-pooled", false, "layers with a window keep all tokens in the cache" } } } },
  { name = "swa_full_tokens_ratio", within = "engine", group = "engine",
    check = check.number { above = 0, max = 1, optional = true },
    doc = "SGLang: tokens of layers with a window per token of others (0.8)", option = { value = "PART" } },
  { name = "groups", within = "engine", group = "engine", check = check.record_of(groups, { optional = true }),
    doc = "with step_time: groups of layers that share the blocks beside the first",
    more = "{ whole =, windowed =, window_blocks =, states =, apart = blocks of the windowed ones' own pool (SGLang), "
      .. "window = tokens that the first group sees }", option = false },
  { name = "front_ends", within = "engine", group = "engine", check = integer(1, 1024),
    doc = "HTTP processes of a replica (default 1; vLLM: one a rank)",
    more = "vLLM's --api-server-count, SGLang's --tokenizer-worker-num. Requests go to them in turn." },
  { name = "long_prefill_token_threshold", within = "engine", group = "engine", check = integer(0, MOST, 0),
    doc = "most tokens of a prompt per step (default: no limit)" },
  { name = "max_cudagraph_capture_size", within = "engine", group = "engine", check = integer(0, MOST),
    doc = "largest step in CUDA graphs, in tokens; 0: none",
    more = "By default twice max_num_seqs, at most 512 or what the profile's `limits` say.",
    option = { also = { { "enforce-eager", 0, "no CUDA graphs: the host launches every kernel" } } } },
  { name = "policy", within = "engine", group = "engine",
    check = check.choice { { "fcfs", "priority" }, default = "fcfs" }, doc = "fcfs (default) or priority",
    option = { long = "scheduling-policy" } },
  { name = "prefix_caching", within = "engine", group = "engine", check = check.boolean { optional = true },
    doc = "whether cached prefixes are reused (true with num_blocks)",
    option = { switches = { { "no-enable-prefix-caching", false, "do not reuse cached prefixes" } } } },
  { name = "async_scheduling", within = "engine", group = "engine", check = check.boolean { optional = true },
    doc = "whether a step is scheduled while the previous one runs (true with a model)",
    option = { switches = {
      { "no-async-scheduling", false, "schedule a step only when the previous one has ended" } } } },
  { name = "chunked_prefill", within = "engine", group = "engine", check = check.boolean { optional = true },
    doc = "whether prompts may take several steps (true, except for TensorRT-LLM)",
    option = { switches = {
      { "enable-chunked-prefill", true, "TensorRT-LLM: prefill long prompts over several steps, as others do" },
      { "no-enable-chunked-prefill", false, "prefill every prompt in one step" } } } },
  { name = "mixed_chunk", within = "engine", group = "engine", check = check.boolean { optional = true },
    doc = "SGLang: whether chunks of prompts share steps with decodes (false)",
    option = { switches = {
      { "enable-mixed-chunk", true, "SGLang: chunks of prompts share steps with decodes" } } } },
  { name = "scheduler", within = "engine", group = "engine",
    check = check.choice { schedulers.names, optional = true },
    doc = "whose scheduler's rules hold (the engine's)" },
  { name = "receive_interval", within = "engine", group = "engine", check = integer(1, MOST, 1),
    doc = "steps between polls for new requests (default 1)" },
  { name = "batch_wait_timeout_iters", within = "engine", group = "engine", check = integer(0, MOST, 0),
    doc = "TensorRT-LLM: most steps that prompts wait for others (default 0)" },
  { name = "batch_wait_max_tokens_ratio", within = "engine", group = "engine",
    check = check.number { min = 0, max = 1, default = 0 },
    doc = "TensorRT-LLM: part of the token budget to wait for (default 0)", option = { value = "PART" } },
  { name = "speculation", within = "engine", group = "engine", check = check.record_of({
    method = check.choice { { "ngram", "draft_model", "eagle" } }, tokens = check.integer { min = 1, max = 1024 },
    accepted = check.list(check.integer { min = 0, max = 1024 }, { min = 1, max = 1e7, optional = true }),
    acceptance = check.number { min = 0, max = 1, optional = true },
    part = check.number { min = 0, max = 10, optional = true },
  }, { optional = true }), doc = "drafts: { method =, tokens =, accepted = { … } or acceptance =, part = }",
    more = "part: of the model's layers, that drafts (eagle: one layer; draft_model: 0.1, an assumption).",
    option = { parts = {
      { long = "speculation", value = "METHOD:N", help = "drafts per step, such as eagle:3; ngram, draft_model, mtp" },
      { long = "acceptance", value = "PART", kind = "number", help = "probability that a draft is accepted" },
    } } },
}

local REQUESTS <const> = {
  { name = "requests", of = SERVE, group = "requests", check = optional, doc = "the requests: CSV or JSON lines",
    more = "A file, or a list of { arrival =, prompt =, output =, priority =, segments = }.",
    option = { long = "trace", value = "FILE" } },
  { name = "rate", within = "load", group = "requests", check = load.schema.rate, doc = "requests a second",
    option = { value = "N" } },
  { name = "process", within = "load", group = "requests", check = load.schema.process,
    doc = "poisson (default), gamma or uniform arrivals" },
  { name = "cv", within = "load", group = "requests", check = load.schema.cv,
    doc = "coefficient of variation of gamma arrivals; above 1: bursty", option = { value = "N" } },
  { name = "burst", within = "load", group = "requests", check = load.schema.burst,
    doc = "requests that arrive together (default 1)" },
  { name = "concurrency", within = "load", group = "requests", check = load.schema.concurrency,
    doc = "a closed loop: requests in flight" },
  { name = "think", within = "load", group = "requests", check = load.schema.think,
    doc = "time from an answer to the client's next request", option = { value = "TIME", kind = "s" } },
  { name = "stages", within = "load", group = "requests", check = load.schema.stages,
    doc = "rates, one after the other: { { rate =, duration = } … }", option = false },
  { name = "prompt", of = SERVE, group = "requests", check = load.lengths,
    doc = "512, 100..2000, mean=500 (exponential), mean=500,cv=1 (lognormal)",
    more = "Tokens, or { uniform = { 100, 200 } }, { lognormal = { median =, sigma = } } (or mean and cv), "
      .. "{ exponential = mean }, { values = { … } }, each with min and max.",
    option = { value = "LENGTH", kind = "string" } },
  { name = "output", of = SERVE, group = "requests", check = load.lengths, doc = "the same for answers",
    option = { value = "LENGTH", kind = "string" } },
  { name = "prefix", of = SERVE, group = "requests",
    check = check.record_of({ tokens = check.integer { min = 1, max = 1 << 28 },
      groups = check.integer { min = 1, max = MOST, default = 1 } }, { optional = true }),
    doc = "a shared prefix before each prompt, the same within a group: { tokens =, groups = }", option = false },
  { name = "count", of = SERVE, group = "requests", check = integer(1, MOST),
    doc = "number of random requests (default: until figures settle)",
    more = "From 1,000 on, until twice as many give the same rates and percentiles." },
  { name = "seed", of = SERVE, group = "requests", check = check.integer { default = 1 },
    doc = "random seed (default 1)" },
  { name = "slo", of = SERVE, group = "requests", check = check.record_of({ ttft = limit, tpot = limit, e2e = limit,
    quantile = check.number { min = 0, max = 1, default = 0.99 } }, { optional = true }),
    doc = "limits of ttft, tpot and e2e, such as ttft=500ms,tpot=30ms",
    more = "In seconds; quantile: the part of requests that must keep them (0.99).",
    option = { value = "NAME=TIME,...", kind = "string" } },
  { name = "keep", of = SERVE, group = "requests", check = check.choice { { "requests", "steps" }, optional = true },
    doc = "the records to return: \"requests\", or \"steps\" for both", option = false },
  { name = "threads", of = SERVE, group = "requests", check = integer(1, 1024),
    doc = "threads (default: one per usable core)", more = "The result does not depend on it.",
    option = { short = "j" } },
}
for _, rows in ipairs { ENGINE, REQUESTS } do
  for _, row in ipairs(rows) do row.of = row.of or SERVE end
end

-- The row of an axis or option of strategies (axes.every).
local function row_of_strategy(entry)
  local option = entry.option
  if option and not option.serves or entry.axis and not axes.shows(entry.axis, 0) then return nil end
  local row = { name = entry.name, of = BOTH, group = "layout", strategies = entry.strategies }
  if not option then
    row.check, row.doc, row.many = check.integer { min = 1, max = 1 << 31, optional = true }, entry.axis.meaning or "",
      true
    return row
  end
  row.check = check.choice { option.choices, optional = true }
  row.doc = option.meaning or entry.name
  row.option = { help = ("of %s: %s"):format(option.axis, table.concat(option.choices, ", ")) }
  return row
end

local STRATEGY <const> = { name = "strategy", of = BOTH, group = "layout", many = true,
  check = check.any { optional = true, many = true }, doc = "how a layer is split (default tensor)",
  more = "By default the first strategy that has the axes given. Searches take a list, or \"all\", which ranks them "
    .. "together.", option = { value = "NAME", from = "strategies" } }

local listed = { rows = {} } -- by question, as long as no strategy is defined

--- The rows of a question, "infer" or "serve", in the order of the command's help; do not change them. The same table
--- until a strategy is defined.
---@return table[]
function arguments.rows(question)
  local every = axes.every(true)
  if listed.of ~= every then listed = { of = every, rows = {} } end
  local list = listed.rows[question]
  if list then return list end
  list = {}
  local function add(row) list[#list + 1] = row and row.of[question] and row or nil end
  for _, row in ipairs(QUESTION) do add(row) end
  add(STRATEGY)
  for _, entry in ipairs(every) do add(row_of_strategy(entry)) end
  for _, rows in ipairs { LAYOUT, ENGINE, REQUESTS } do
    for _, row in ipairs(rows) do add(row) end
  end
  listed.rows[question] = list
  return list
end

--- The checkers of a question's arguments but those of strategies; with `within`, those that stand in that table.
---@param question string
---@param within string?
---@return table<string, function>
function arguments.schema(question, within)
  local schema = {}
  for _, rows in ipairs { QUESTION, LAYOUT, ENGINE, REQUESTS } do
    for _, row in ipairs(rows) do
      if row.of[question] and row.within == within then schema[row.name] = row.check end
    end
  end
  return schema
end

--- Checkers without their defaults: of what may be left to something else.
function arguments.without_defaults(schema)
  local bare = {}
  for name, checker in pairs(schema) do bare[name] = check.with_default(checker, nil) end
  return bare
end

return arguments
