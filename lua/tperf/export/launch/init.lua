--- report.launch: writes the flags or the file that run a configuration on a real stack. docs/recipes.md.
local check = require "tperf.base.check"
local axes = require "tperf.export.launch.axes"
local models = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local offloading = require "tperf.export.launch.offloading"
local precision = require "tperf.export.launch.precision"
local recomputation = require "tperf.export.launch.recomputation"
local tables = require "tperf.import.launch.tables"

local launch = {}

local STACKS <const> = {
  megatron = { table = "megatron-lm-2026-08", module = "megatron", details = precision.MEGATRON, precisions = {
    "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4",
  } },
  ["megatron-bridge"] = { table = "megatron-bridge-2026-08", module = "bridge", details = precision.BRIDGE,
    precisions = { "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4" } },
  torchtitan = { table = "torchtitan-2026-02", module = "torchtitan", keeps_gathered = true, compiles = true,
    details = { narrow_gather = true, wide_weight_grad = true }, precisions = { "fp8-tensorwise", "fp8-rowwise" } },
  deepspeed = { table = "deepspeed-2026", module = "deepspeed" },
  nanotron = { table = "nanotron-2026-04", module = "nanotron" },
  vllm = { table = "vllm-2026-03", module = "vllm", serving = true },
  sglang = { table = "sglang-2026-07", module = "sglang", serving = true },
  ["tensorrt-llm"] = { table = "tensorrt-llm-2026", module = "tensorrt_llm", serving = true },
}

--- The names of the stacks for which launches can be written, sorted.
---@param serving boolean?  stacks that serve; else stacks that train
---@return string[]
function launch.stacks(serving)
  local list = {}
  for _, name in ipairs(check.names(STACKS)) do
    if (STACKS[name].serving or false) == (serving or false) then list[#list + 1] = name end
  end
  return list
end

--- What is known of a stack; raises an error for a name that no stack has.
---@param name string
---@param serving boolean?  true: it must serve; false: train; nil: either
---@return table
function launch.stack(name, serving)
  local known = STACKS[name]
  if known and (serving == nil or serving == (known.serving or false)) then return known end
  local all = serving == nil and check.names(STACKS) or launch.stacks(serving)
  if known then
    check.fail("tperf.report.launch: %s %s; known: %s", check.show(name), serving and "trains" or "serves",
      table.concat(all, ", "))
  end
  check.fail("tperf.report.launch: no stack %s%s; known: %s", check.show(name), check.suggest(tostring(name), all),
    table.concat(all, ", "))
end

-- Creates a collector of options; each must be in the stack's table.
local function writer(stack, t)
  local w = { list = {}, notes = {}, by_name = {} }
  function w.put(option, value)
    if not t.by_name[tables.plain(option)] then
      check.fail("tperf.report.launch: %s has no option %s in its table", stack, option)
    end
    w.list[#w.list + 1] = { option = option, value = value }
    w.by_name[option] = value
  end
  function w.off(option) -- for a switch that is on unless --no-… is given
    w.put(option, true)
    w.list[#w.list].option = option:gsub("^%-%-", "--no-")
  end
  function w.note(format, ...) w.notes[#w.notes + 1] = format:format(...) end
  function w.cannot(axis, value, why)
    check.fail("tperf.report.launch: %s = %s: %s %s", axis, tostring(value), stack, why)
  end
  return w
end

local function whole(c, name, default)
  local value = c[name]
  if value == nil then value = default end
  local size = math.tointeger(value)
  if not size or size < 1 then
    check.fail("tperf.report.launch: the configuration's '%s' must be an integer from 1 on, got %s", name,
      check.show(value))
  end
  return size
end

local function expert_sizes(n, model)
  if model and not model.experts and n.ep > 1 then
    check.fail("tperf.report.launch: ep = %d: the model has no experts", n.ep)
  end
  n.experts = model and model.experts ~= nil or nil
end

-- Checks a value against words: launch files are executed, so nothing else may be written to them.
local function choice(c, name, words)
  local value = c[name]
  if value == nil then return words[1] end
  for _, word in ipairs(words) do
    if value == word then return word end
  end
  check.fail("tperf.report.launch: the configuration's '%s' must be one of %s, got %s", name,
    table.concat(words, ", "), check.show(value))
end

local function sequence(c, model, options)
  if options.seq then return options.seq end
  local tokens, sequences = c.tokens_per_second, c.sequences_per_second or c.throughput -- the older name, of saved rows
  if type(tokens) ~= "number" or type(sequences) ~= "number" then return model and model.seq end
  return math.tointeger(math.floor(tokens / sequences + 0.5)) or model and model.seq
end

local function schedule_of(c)
  local name = c.schedule or "1f1b"
  if type(name) == "string" and name:find "^[%w_]+$" then return name end
  check.fail("tperf.report.launch: the configuration's 'schedule' must be a schedule's name, got %s", check.show(name))
end

-- Megatron's names for the kinds of context parallelism.
local CP_COMM_TYPES <const> = { ring = "p2p", all_gather = "all_gather", all_to_all = "a2a" }

local function training(c, model, options, known)
  if c.strategy and c.strategy ~= "tensor" and c.strategy ~= "context" then
    check.fail("tperf.report.launch: strategy = %s: no stack that is known runs it", check.show(c.strategy))
  end
  local n = recomputation.of(c, (options.question or {}).attention)
  n.model, n.schedule = model, schedule_of(c)
  offloading.copy(c, n)
  for _, name in ipairs { "tp", "pp", "cp", "dp", "ep" } do n[name] = whole(c, name, 1) end
  n.etp = whole(c, "etp", model and not model.experts and 1 or n.tp)
  n.vp = whole(c, "virtual_stages", 1)
  n.gpus = n.tp * n.pp * n.cp * n.dp
  n.cp_comm_type = n.cp > 1 and CP_COMM_TYPES[c.cp_kind or "all_gather"] or nil
  n.micro_batch, n.global_batch = whole(c, "micro_batch"), whole(c, "global_batch")
  if n.global_batch % (n.micro_batch * n.dp) ~= 0 then
    check.fail("tperf.report.launch: micro_batch %d x dp %d does not divide the global batch of %d", n.micro_batch,
      n.dp,
      n.global_batch)
  end
  n.microbatches = n.global_batch // n.dp // n.micro_batch
  n.seq = sequence(c, model, options)
  n.iterations = options.tokens and n.seq and math.ceil(options.tokens / (n.global_batch * n.seq)) or nil
  n.zero = choice(c, "zero", { 1, 0, 2, 3 })
  precision.copy(tostring(c.precision or "bf16"), n, known.details)
  n.reshards = n.zero < 3 or c.reshard_after_forward ~= false
  n.compile = c.compile ~= false
  n.sequence_parallel = n.tp > 1 and c.sequence_parallel ~= false
  expert_sizes(n, model)
  axes.copy(c, options.question or {}, n)
  if n.overlap_moe_a2a then n.schedule = n.schedule:gsub("_overlap$", "") end
  return n
end

local STATES <const> = { fp32 = "float32", bf16 = "bfloat16", fp16 = "float16" } -- engines' names

local function serving(c, model, options)
  if c.strategy and c.strategy ~= "tensor" then
    check.fail("tperf.report.launch: strategy = %s: no engine that is known cuts layers so", check.show(c.strategy))
  end
  if options.kv_dtype and not options.kv_dtype:find "^[%w_.-]+$" then
    check.fail("tperf.report.launch: 'kv_dtype' must be a type's name, got %s", check.show(options.kv_dtype))
  end
  local n = { model = model, max_tokens = options.max_tokens, seq_max = options.seq_max, kv_dtype = options.kv_dtype,
    memory_utilization = options.memory_utilization, prefix_caching = options.prefix_caching,
    chunked_prefill = options.chunked_prefill, mixed_chunk = options.mixed_chunk, weight_dtype = options.weight_dtype,
    state_dtype = STATES[options.state_dtype], pooled = options.pooled, ratio = options.swa_full_tokens_ratio,
    front_ends = options.front_ends }
  for _, name in ipairs { "tp", "pp", "dp", "ep" } do n[name] = whole(c, name, 1) end
  n.max_batch = c.batch and whole(c, "batch") or nil
  n.etp = whole(c, "etp", n.tp)
  if n.ep > 1 and n.ep ~= n.tp * n.dp // n.etp and n.ep ~= n.tp // n.etp then
    check.fail("tperf.report.launch: ep = %d of tp x dp = %d x %d: engines share experts over all GPUs of a server",
      n.ep, n.tp, n.dp)
  end
  n.experts = model and model.experts ~= nil or n.ep > 1
  n.shared = n.ep > 1 and n.ep * n.etp > n.tp -- experts are shared by replicas
  return n
end

local schema = {
  model = check.any { optional = true }, question = check.any { optional = true },
  seq = check.integer { min = 1, max = 1 << 31, optional = true },
  tokens = check.number { min = 1, max = 1e18, optional = true },
  max_tokens = check.integer { min = 1, max = 1 << 31, optional = true },
  seq_max = check.integer { min = 1, max = 1 << 31, optional = true }, kv_dtype = check.string { optional = true },
  memory_utilization = check.number { above = 0, max = 1, optional = true },
  prefix_caching = check.boolean { default = true }, chunked_prefill = check.boolean { optional = true },
  mixed_chunk = check.boolean { optional = true }, pooled = check.boolean { optional = true },
  swa_full_tokens_ratio = check.number { above = 0, max = 1, optional = true },
  front_ends = check.integer { min = 1, max = 1024, optional = true },
  weight_dtype = check.string { default = "bf16" },
  state_dtype = check.choice { check.names(STATES), optional = true },
}

local function is_one_of(name, list)
  for _, one in ipairs(list or {}) do
    if one == name then return true end
  end
  return false
end

--- The launch of a configuration: a shell script, TOML, YAML or a Python recipe, with comments for tperf's assumptions
--- that the stack has no option for. Raises an error that names the axis if the stack cannot run the configuration.
---@param configuration table  of tperf.search, tperf.train or tperf.infer
---@param stack string  megatron, megatron-bridge, torchtitan, deepspeed, nanotron; vllm, sglang, tensorrt-llm
---@param options table?  model: its name, path or object, for the arguments that describe it; seq: tokens of a
---  sequence (else the configuration's); tokens: of the whole run, for its iterations; question: the arguments that
---  found the configuration, for what it does not
---  contain (optimizer, gradients, peft, pipeline_layout …); for servers max_tokens, seq_max, kv_dtype, weight_dtype,
---  state_dtype, memory_utilization (0.9; SGLang chooses its own), prefix_caching (true), chunked_prefill (true, except
---  for TensorRT-LLM), mixed_chunk (SGLang), pooled (false: layers with a window keep all tokens),
---  swa_full_tokens_ratio (SGLang) and front_ends (vLLM, SGLang)
---@return string text
function launch.text(configuration, stack, options)
  return (launch.written(configuration, stack, options))
end

--- The same text, and a list of what the stack is not told, as in the text's comments.
function launch.written(configuration, stack, options)
  local known = launch.stack(stack)
  if type(configuration) ~= "table" then check.fail "tperf.report.launch needs a configuration" end
  local o = check.record("tperf.report.launch", options or {}, schema)
  if o.question ~= nil and type(o.question) ~= "table" then
    check.fail("tperf.report.launch: 'question' must be a table, got %s", check.show(o.question))
  end
  local model, own = o.model and models(o.model), nil
  if model and model.architecture then -- no stack knows its layers
    own, model, o.seq = model, nil, o.seq or model.seq
  end
  local n, w = (known.serving and serving or training)(configuration, model, o, known),
    writer(stack, tables.load(known.table))
  if not known.serving and n.precision ~= "bf16" and not is_one_of(n.precision, known.precisions) then
    w.cannot("precision", n.precision, "is written without arguments for it; write it with precision = \"bf16\" and "
      .. "add them")
  end
  if own then
    w.note("the layers of model '%s' are a script's: this is the layout alone, and the model is yours to add", own.name)
  end
  if configuration.trained_parameters and not known.serving and not n.peft then
    w.note("%d parameters are trained: adapters and frozen parts are yours to add", configuration.trained_parameters)
  end
  if configuration.placement == "best" or configuration.placement == "given" then
    w.note "predicted for GPUs placed otherwise than in the stack's order of ranks: the launch does not place them"
  end
  if n.reshards == false and not known.keeps_gathered then
    w.cannot("reshard_after_forward", false, "lets weights go after the forward pass")
  end
  if n.compile == false and not known.compiles then
    w.cannot("compile", false, "fuses norms, rotations and gates itself")
  end
  if not known.serving then axes.put(n, w, stack) end
  return require("tperf.export.launch.stack." .. known.module)(n, w), w.notes
end

return setmetatable(launch, { __call = function(_, ...) return launch.text(...) end })
