--- Published training runs, one per row: columns of the measured tables (docs/accuracy.md).
local check = require "tperf.base.check"
local dealt = require "tperf.measured.run.dealt"
local elsewhere = require "tperf.measured.run.elsewhere"
local has = require "tperf.base.lists".has
local fabrics = require "tperf.measured.kernel.fabrics"
local rates = require "tperf.measured.run.rates"
local jax = require "tperf.measured.run.jax"
local read = require "tperf.measured.read"
local gpus = require "tperf.measured.gpus"
local models = require "tperf.measured.run.models"
local offload = require "tperf.describe.arch.offload"
local peak = require "tperf.measured.run.peak"
local precisions = require "tperf.measured.run.precisions"
local recomputed = require "tperf.measured.run.recomputed"
local visible_memory = require "tperf.describe.machine.visible_memory"
local runtime = require "tperf.describe.profile"
local split = require "tperf.measured.run.split"
local software = require "tperf.base.catalogue".shared(require "tperf.describe.software")
local stacks = require "tperf.measured.run.stacks"
local states = require "tperf.measured.run.states"
local switches = require "tperf.measured.run.switches"
local tuning = require "tperf.measured.run.tuning"
local unfit = require "tperf.describe.unfit"
local unknown_word = require "tperf.measured.run.words"

local step = { name = "step", columns = { "workload", "gpus", "layers", "hidden", "global_batch", "iter_s" } }

-- The value of the first pattern found in the text; `otherwise` if there is none.
local function first_of(text, patterns, otherwise)
  text = text:lower()
  for _, pattern in ipairs(patterns) do
    if text:find(pattern[1]) then return pattern[2] end
  end
  return otherwise
end

local ZERO = {
  { "full_shard", 3 }, { "fsdp", 3 }, { "hsdp", 3 }, { "shard_grad_op", 2 }, { "zero%-?3", 3 }, { "zero%-?2", 2 },
  { "distributed optimizer", 1 }, { "zero%-?1", 1 }, { "optimizer_sharding=true", 1 },
}

-- The ZeRO stage, and whether weights are released after the forward pass: PyTorch's FSDP keeps a pipeline stage's
-- weights gathered and its gradients unreduced until the last micro-batch (torchtitan: reshard_after_forward).
local function zero_of(row, sizes)
  if row.fsdp == "jax-fsdp" then return 3, true end
  -- BigScience's scripts of these runs have it (train/tr3-1B3-baseline/tr3m-*.slurm: ZERO_STAGE=1); its table does not.
  local stage = row.source:find "tr3m" and 1 or first_of(row.zero_fsdp, ZERO, 0)
  return stage, not (stage == 3 and sizes.pp > 1 and row.zero_fsdp:find "FSDP")
end

-- The replicas that shard weights or states if not all do: those that the table names ("ZeRO-1 over 8 ranks"), or
-- PyTorch's hybrid sharding: within a node, whose GPUs are consecutive replicas.
local function shard_of(row, sizes)
  local named = tonumber(row.notes:match "FSDP over (%d+) GPUs" or row.zero_fsdp:match "over (%d+) [rG]")
  local hybrid = row.zero_fsdp:lower():find "hsdp" and (read.count(row.gpus_per_node) or 8)
  local shard = named and named < sizes.dp and named or hybrid
  return shard and sizes.dp % shard == 0 and shard or nil
end

-- What a run offloaded to its hosts' memory, as arguments of tperf.train.
local function offload_of(row)
  local text, modules = read.text(row.offload), {}
  if text == "" then return {} end
  for name in (text:match "^fine%-grained:(.*)" or ""):gmatch "[%w_]+" do
    if has(offload.modules, name) then modules[#modules + 1] = name end
  end
  local percent = tonumber(text:match "^optimizer (%d+)")
  return {
    offload_layers = math.tointeger(tonumber(text:match "^activations: ?(%d+)")),
    offload_modules = modules[1] and modules or nil, offload_optimizer = percent and percent / 100 or nil,
  }
end

-- Default exchange of keys in context parallelism: PyTorch's and JAX's stacks gather them (torchtitan's
-- context_parallel_rotate_method; MaxText's context_parallel_strategy), Megatron's use a ring (cp_comm_type).
local GATHERING <const> = { ["torchtitan-2024"] = true, ["torchao-2025"] = true, ["maxtext-2024"] = true }

-- A step of reinforcement learning is mostly generation.
local TRAINS <const> = { pretrain = true, lora = true, sft = true }

-- Stacks whose recipes are sequence parallel wherever they are tensor parallel: all of their rows that say it are, and
-- Megatron-Core wants it of experts beside tensor parallelism; MaxText cuts the stream along its features (configs/
-- base.yml, activation_embed), which saves the same and sends the same.
local SEQUENCE_PARALLEL <const> = { ["nemo-24.11"] = true, ["megatron-core-moe-2025"] = true,
  ["maxtext-2024"] = true,
  ["megatron-bridge-26.08-functional"] = true, ["nemo-mlperf-3.1"] = true, ["nemo-mlperf-5.0"] = true,
  ["nemo-mlperf-5.1"] = true }

local function is_sequence_parallel(row, stack, sizes)
  if row.sp ~= "" then return row.sp == "1" end
  return sizes.tp > 1 and SEQUENCE_PARALLEL[stack] or false
end

-- Recipes of vision-language models also encode images, and some train only the projector of the images, with
-- deterministic kernels (Megatron-Bridge's recipes/qwen_vl and its cards); rows describe the language model alone.
local function has_images(row) return read.text(row.table):find "_vl_" ~= nil end

local function common_reason(row, software_stack)
  if not TRAINS[row.workload] then return "not training alone (" .. row.workload .. ")" end
  if has_images(row) then return "the images of a vision-language model are not given" end
  if row.notes:find "INVALID" or row.notes:find "wrong%-ffn" then return "the table itself says that it is wrong" end
  if row.notes:find "%[%^gpt%-oss%-note%]" then return "the table itself says that a kernel's defect slowed it" end
  if not software_stack then return "no profile describes the stack (software = NAME says one for all rows)" end
end

local function attention_backend(row)
  local stated = read.text(row.attention_backend)
  return stated ~= "" and stated or row.notes:match "attention%-backend (%a+)"
end

-- Megatron's own transformer ("local": no "_te_" in the names of its tests) has no fused attention.
local function attention_of(row)
  local is_local = read.text(row.table):find "^gpt3_mcore_" and not row.table:find "_te_"
  return (is_local or attention_backend(row) == "unfused") and "unfused" or nil
end

-- CUDA graphs of whole iterations, and Megatron-Core's own of whole layers (enable_cuda_graph, which MLPerf's
-- configurations set by MCORE_CUDA_GRAPH), remove all launches; those of parts of a layer do not.
local function captures_all(row)
  local text = read.text(row.cuda_graph):lower()
  return text:find "full[_ ]iteration" ~= nil or text:find "full%-layer" ~= nil or text:find "^per layer" ~= nil
end

-- torchtitan also compiles its loss since 2025 (components/loss.py); the source names the month of the run.
-- Megatron-MoE-ModelZoo's configurations leave TransformerEngine's cross-entropy to Qwen3 ("te ce fusion is broken").
local function loss_of(row)
  if row.source:find "^torchtitan.*202[5-9]" and read.text(row.compile):find "compile" then return "compiled" end
  if (row.source:find "ModelZoo" or row.source:find "MoE paper") and not row.model:find "Qwen3" then return "native" end
end

-- Whether the table says that the run was without torch.compile.
local function is_eager(row) return read.text(row.compile) == "none" or row.notes:find "^eager" ~= nil end

local function with_facts(row)
  for _, source in ipairs { elsewhere, tuning.layout, jax } do
    local facts = source(row)
    row = facts and read.with(row, facts) or row
  end
  return row
end

--- A case, or nil and why the row is left out. options.software: the profile for all rows, from tperf.software.
function step.case(row, options)
  local word = unknown_word(row)
  if word then return nil, word end
  row = with_facts(row)
  local given = options and options.software
  local software_stack, unknown = stacks.of(row.source, row.table, row.gpu)
  if given and given ~= runtime.NONE then
    software_stack, unknown = given.name or given, nil
  else
    software_stack = software_stack or given
  end
  local reason = common_reason(row, software_stack)
  if reason then return nil, reason end
  local precision = precisions.of(row)
  if not precision then return nil, "the precision is not settled" end
  local model, checked, sizes, batch, steps
  model, reason, checked = models.of(row)
  if model then sizes, reason = split.of(row) end
  if sizes then batch, steps, reason = split.steps(row, sizes, model.layers) end
  if not batch then return nil, reason end
  local recompute = recomputed.of(row, software_stack, checked and model)
  if not recompute then return nil, "recomputation: " .. row.recompute end
  local zero, reshards = zero_of(row, sizes)
  local case = {
    gpu = row.gpu, source = row.source, stack = software_stack, workload = row.workload,
    cp_kind = row.cp_kind ~= "" and row.cp_kind or GATHERING[software_stack] and "all_gather" or "ring",
    label = row.model, model = model, sizes = sizes, global_batch = batch, steps = steps, recompute = recompute,
    zero = zero, reshards = reshards, shard = shard_of(row, sizes), states = states(row), offload = offload_of(row),
    sequence_parallel = is_sequence_parallel(row, software_stack, sizes), precision = precision,
    dealt = dealt(row, model, sizes, software_stack), runs = sizes.pp > 1 and read.count(row.pipeline_runs) or 1,
    switches = switches(row, sizes, checked and model), experts = checked and model.experts ~= nil,
    attention = attention_of(row) or unknown and stacks.is_unfused(row) and "unfused" or nil,
    loss = loss_of(row), compile = not is_eager(row),
    gpus_per_node = read.count(row.gpus_per_node) or 8, inter = row.inter,
    slice = read.count(read.text(row.slice_gpus)),
    graphs = captures_all(row), memory = read.positive(row.peak_mem_gib), memory_note = row.mem_note,
    memory_kind = peak.kind(row.mem_note),
    deterministic = software_stack == "megatron-core-ci-2025" and attention_backend(row) ~= "flash",
    gradients = first_of(row.grad_reduce_dtype, { { "fp32", "fp32" }, { "bf16", "bf16" } }),
    gradient_reduce = row.gradient_reduce ~= "" and row.gradient_reduce or nil,
    peft = tuning.peft(row), packing = tuning.packing(row), apart = unknown or tuning.apart(row, software_stack),
    unknown = not given and unknown or nil,
  }
  case.steps_counted = rates.steps_counted(row, batch)
  case.measured, reason = rates.seconds(case, row)
  if not case.measured then return nil, reason end
  return case
end

--- A case's changes to its system, unless that is given: its nodes and its network, if the row names them.
function step.system(case, system, given)
  local fast, change = system.network.fast, {}
  -- A domain of several hosts, such as a rack's NVLink, stays whole, whatever a table calls a node: unless the run has
  -- slices of it.
  local domain = fast.host_gpus and case.slice or not fast.host_gpus and case.gpus_per_node
  if not given and domain then change.fast = { domain = domain } end
  local fabric = not given and case.inter ~= "" and fabrics.of(case.inter, case.gpus_per_node) or nil
  if fabric and (fabric.bandwidth or fabric.remote) then
    change.slow = { bandwidth = fabric.bandwidth, nics_per_gpu = fabric.bandwidth and 1, efficiency = fabric.curve }
  end
  local variant = gpus.variant(case.gpu, system)
  return { accelerator = variant and variant.accelerator, network = change }
end

--- The arguments of tperf.train for a case, for one of its sizes (the first).
function step.request(case, system, profile, size)
  local s = case.sizes
  size = size or case.steps[1]
  local chunks = size.chunks or s.vp
  local interleaved = chunks > 1 and s.pp > 1
  local schedule = interleaved and "interleaved_1f1b" or "1f1b"
  local request = {
    model = case.model, system = system, strategy = s.cp > 1 and "context" or "tensor", gpus = s.gpus, tp = s.tp,
    cp = s.cp > 1 and s.cp or nil, cp_kind = s.cp > 1 and case.cp_kind or nil,
    ep = s.ep, etp = case.experts and s.etp or nil, pp = s.pp, dp = s.dp,
    global_batch = case.global_batch,
    micro_batch = size.micro_batch, schedule = case.runs > 1 and ("%s*%d"):format(schedule, case.runs) or schedule,
    shard = case.shard,
    virtual_stages = interleaved and chunks or nil, zero = case.zero, sequence_parallel = case.sequence_parallel,
    software = profile, gradients = case.gradients, gradient_reduce = case.gradient_reduce,
    attention = case.attention, precision = case.precision,
    reshard_after_forward = case.reshards, loss = case.loss, compile = case.compile, peft = case.peft,
    packing = case.packing, routing = case.experts and "balanced" or nil, -- what it was is in the models
  }
  for name, value in pairs(case.recompute) do request[name] = value end
  for name, value in pairs(case.offload) do request[name] = value end
  for name, value in pairs(case.states) do request[name] = request[name] or value end
  for name, value in pairs(s.pp > 1 and case.dealt or {}) do request[name] = value end
  for name, value in pairs(case.switched and case.switches or {}) do request[name] = value end
  return request
end

-- Seconds of any terms for arguments of tperf.train, and the stages; by the formulas alone, of no terms.
local function predictor_of(request, held)
  local train = require "tperf.question.train"
  if request.software ~= runtime.NONE then return train.predictor(request, held) end
  local c = train.run(request)
  return function() return c.time end, function() return c.stages end
end

-- The predictors of a case's sizes whose memory is on the GPU; the memory predicted is that of the first.
local function add_predictors(case, system, profile, held)
  local predictors, capacity = {}, visible_memory(system)
  local workspaces = peak.workspaces(case.stack, system.generation, case.deterministic)
  for _, size in ipairs(case.steps) do
    local predictor, stages = predictor_of(step.request(case, system, profile, size), held)
    if #predictors == 0 then
      case.predicted_memory = case.memory and peak.shown(stages(), case.memory_note, workspaces)
    end
    if #predictors == 0 or peak.shown(stages(), "nvidia-smi", workspaces) <= capacity then
      predictors[#predictors + 1] = predictor
    end
  end
  -- A copy: a case goes to scripts, which may change it, but not the profile of the next row.
  case.profile, case.predictors = profile ~= runtime.NONE and runtime.facts(profile) or nil, predictors
end

--- Seconds of what a case's table counts as a step, in a stack with these terms: the least of the sizes that it can
--- have.
function step.seconds(case, terms)
  local least, host, predictors = math.huge, terms.host, case.predictors
  if case.graphs then terms.host = 0 end
  for i = 1, #predictors do least = math.min(least, predictors[i](terms)) end
  terms.host = host
  return (case.steps_counted or 1) * least
end

-- The interval of measured / predicted times that an answer about the case claims; nil: its profile was never compared.
local function spread_of(case, system, profile)
  local question = { model = case.model, system = system, gpus = case.sizes.gpus, compile = case.compile,
    precision = type(case.precision) == "table" and case.precision.recipe or case.precision,
    adapters = case.peft ~= nil, attention = case.attention or runtime.attention(profile) }
  local time = runtime.intervals(profile, question, #unfit.warnings(profile, question, question.gpus) > 0)
  return time
end

--- Seconds predicted; nil and a reason if the row cannot be predicted.
function step.predict(case, _, system, _, options, held)
  local given, profile = options and options.software, runtime.NONE
  if given == runtime.IMPLIED then given = require "tperf.question.problem".implied(step.request(case, system)) end
  if given ~= profile then
    local ok, found = check.attempt(software, given or case.stack)
    if not ok then return nil, "no profile of the software " .. case.stack end
    profile = found
  end
  -- A profile fitted without the runs' switches already contains their effect in its numbers.
  case.switched = profile == runtime.NONE or profile.switched or options and (options.refit or options.hold_out) ~= nil
  if not case.predictors then add_predictors(case, system, profile, held) end
  if profile == runtime.NONE then return step.seconds(case, {}) end
  if options and options.intervals then case.spread = spread_of(case, system, profile) end
  return step.seconds(case, runtime.terms(profile))
end

return step
