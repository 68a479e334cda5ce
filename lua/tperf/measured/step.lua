--- Published training runs, one per row: the columns of the measured tables (docs/accuracy.md).
local check = require "tperf.check"
local fabrics = require "tperf.measured.fabrics"
local pipeline_layout = require "tperf.pipeline_layout"
local rates = require "tperf.measured.rates"
local read = require "tperf.measured.read"
local gpus = require "tperf.measured.gpus"
local models = require "tperf.measured.models"
local peak = require "tperf.measured.peak"
local fitting = require "tperf.placement".fitting
local runtime = require "tperf.runtime"
local software = require "tperf.software"
local stacks = require "tperf.measured.stacks"
local tuning = require "tperf.measured.tuning"

local step = { name = "step", columns = { "workload", "gpus", "layers", "hidden", "global_batch", "iter_s" } }

-- The first of the patterns' values that the text has; `otherwise` when none.
local function first_of(text, patterns, otherwise)
  text = text:lower()
  for _, pattern in ipairs(patterns) do
    if text:find(pattern[1]) then return pattern[2] end
  end
  return otherwise
end

-- What a table leaves to a recipe, and what saves parts of an MLP, is taken as none: an assumption.
local RECOMPUTE = {
  { "^full", "full" }, { "^none", "none" }, { "^selective", "selective" }, { "^$", "none" }, { "^per recipe", "none" },
  { "^norm", "none" },
}
-- PyTorch's selective checkpointing of an operator, as torchtitan has it: every other product is done twice, and all
-- between them.
local EVERY_OTHER <const> = { ["torchtitan-2024"] = true }

local function recompute_of(row, stack_name)
  if EVERY_OTHER[stack_name] and row.recompute:lower():find "selective" then return "half" end
  return first_of(row.recompute, RECOMPUTE)
end

local ZERO = {
  { "full_shard", 3 }, { "fsdp", 3 }, { "shard_grad_op", 2 }, { "zero%-?3", 3 }, { "zero%-?2", 2 },
  { "distributed optimizer", 1 }, { "zero%-?1", 1 }, { "optimizer_sharding=true", 1 },
}

-- PyTorch's FSDP keeps a pipeline stage's weights gathered and its gradients unreduced until the last micro-batch
-- (torchtitan: reshard_after_forward), as ZeRO 1 does.
local function zero_of(row, sizes)
  if row.fsdp == "jax-fsdp" then return 3 end
  local stage = first_of(row.zero_fsdp, ZERO, 0)
  return sizes.pp > 1 and row.zero_fsdp:find "FSDP" and math.min(stage, 1) or stage
end

-- The precision of the products: nil where the row leaves it open. Of two, the one that the row's configuration has, or
-- that its GPU has units for: NVIDIA's before Blackwell have none for four bits.
local function precision_of(row)
  local text = row.dtype:lower()
  if text:find " or " then
    if row.gpu:find "[HA]%d00" then return "fp8" end
    return read.text(row.fp8_recipe):find "^fp4" and "fp4" or nil
  end
  if text:find "fp4" then return "fp4" end
  return text:find "fp8" and "fp8" or "bf16"
end

-- Chunks of a stage that is interleaved, where their number is not given: torchtitan's default.
local USUAL_CHUNKS <const> = 2

-- The sizes of the axes; data parallelism follows from the number of GPUs.
local function sizes_of(row)
  local s = { gpus = read.count(row.gpus) }
  for _, name in ipairs { "tp", "pp", "cp", "ep" } do s[name] = read.count(row[name]) or 1 end
  s.vp = read.count(row.vp) or row.schedule:lower():find "^interleaved 1f1b$" and USUAL_CHUNKS or 1
  if row.tp == "" and row.pp == "" and not row.zero_fsdp:find "FSDP" and not tuning.layout(row, s) then
    return nil, "the parallelism is not given"
  end
  if not s.gpus then return nil, "the number of GPUs is not given" end
  local product = s.tp * s.pp * s.cp
  if s.gpus % product ~= 0 then return nil, "tp x pp x cp does not divide the GPUs" end
  s.dp = s.gpus // product
  -- Megatron's recipes leave experts whole, so that their GPUs are the tensor-parallel ones first.
  s.etp = read.count(row.etp) or s.ep % s.tp == 0 and 1 or s.tp
  if s.tp * s.cp * s.dp % (s.ep * s.etp) ~= 0 then return nil, "ep x etp does not divide tp x cp x dp" end
  return s
end

-- Megatron's order of ranks: tensor, context, data, pipeline. Context parallelism has a strategy of its own.
local function placement_of(s, domain)
  local fast, left = {}, domain
  for _, name in ipairs { "tp", "cp", "dp", "pp" } do
    local placed = fitting(s[name], left)
    left = left // placed
    if name ~= "cp" or s.cp > 1 then fast[name] = placed end
  end
  return fast
end

-- How context parallelism gets at keys by default: PyTorch's and JAX's stacks gather them (torchtitan's
-- context_parallel_rotate_method; MaxText's context_parallel_strategy), Megatron's have a ring (cp_comm_type).
local GATHERING <const> = { ["torchtitan-2024"] = true, ["torchao-2025"] = true, ["maxtext-2024"] = true }

-- How the run's layers are dealt out over its stages, as arguments of tperf.train: a string of Megatron's, layers of
-- the first and last stage, or ends that count as layers.
-- A layout whose stages are no multiple of the row's is another run's; where the row gives no chunks of a stage, they
-- follow from it (as in Megatron-LM).
local function layout_of(row, model, sizes)
  local text, a = read.text(row.pp_layout):gsub("\\", ""), {}
  if text == "" then return a end
  if text:find "^E" then
    local stages = pipeline_layout.stages(text)
    if stages % sizes.pp ~= 0 or sizes.vp > 1 and stages ~= sizes.pp * sizes.vp then return a end
    sizes.vp = stages // sizes.pp
    a.pipeline_layout = require "tperf.model"(model).mtp == 0 and text:gsub("m", "") or text
  else
    a.first_stage_layers, a.last_stage_layers = read.count(text:match "first (%d+)" or ""),
      read.count(text:match "last (%d+)" or "")
    a.account_for_embedding, a.account_for_loss = text:find "embedding=1" ~= nil, text:find "loss=1" ~= nil
  end
  return a
end

-- Of a run whose micro-batch is not given: torchtitan makes as many of a replica's batch as there are stages (its
-- default); else an assumption.
local function usual_micro_batch(row, s, share)
  if row.notes:find "micro batch = batch/DP" then return share end
  return row.zero_fsdp:find "FSDP" and share % s.pp == 0 and share // s.pp or 1
end

local function micro_batch_of(row, s)
  local batch = read.count(row.global_batch)
  if not batch then return nil, nil, "the global batch is not given" end
  if batch % s.dp ~= 0 then return nil, nil, "the global batch is no multiple of dp" end
  local micro = read.count(row.micro_batch) or usual_micro_batch(row, s, batch // s.dp)
  if (batch // s.dp) % micro ~= 0 then return nil, nil, "the micro-batch does not divide a replica's batch" end
  return batch, micro
end

-- A step of reinforcement learning is mostly generation.
local TRAINS <const> = { pretrain = true, lora = true, sft = true }

local function common_reason(row, software_stack)
  if not TRAINS[row.workload] then return "not training alone (" .. row.workload .. ")" end
  if row.notes:find "INVALID" or row.notes:find "wrong%-ffn" then return "the table itself says that it is wrong" end
  local offload = read.text(row.offload):match "^activations" or read.text(row.offload):match "^optimizer"
  if offload then return "offloads " .. offload end
  if not software_stack then return "the software stack is not known (software = NAME says it for all rows)" end
end

-- CUDA graphs of whole iterations or layers spare the host all launches; those of parts of a layer do not.
local function captures_all(row)
  local text = read.text(row.cuda_graph):lower()
  return text:find "full[_ ]iteration" ~= nil or text:find "full%-layer" ~= nil
end

--- A case, or nil and why the row is left out. options.software: the profile of all rows, as tperf.software returns it.
function step.case(row, options)
  local software_stack = options and options.software and options.software.name or stacks.of(row.source, row.table)
  local reason = common_reason(row, software_stack)
  if reason then return nil, reason end
  local recompute = recompute_of(row, software_stack)
  if not recompute then return nil, "recomputation: " .. row.recompute end
  local precision = precision_of(row)
  if not precision then return nil, "the precision is not settled" end
  local model, sizes, batch, micro
  model, reason = models.of(row)
  if model then sizes, reason = sizes_of(row) end
  if sizes then batch, micro, reason = micro_batch_of(row, sizes) end
  if not batch then return nil, reason end
  local case = {
    gpu = row.gpu, source = row.source, stack = software_stack,
    label = row.model, model = model, sizes = sizes, global_batch = batch, micro_batch = micro, recompute = recompute,
    zero = zero_of(row, sizes), sequence_parallel = row.sp == "1", precision = precision,
    dealt = layout_of(row, model, sizes),
    gpus_per_node = read.count(row.gpus_per_node) or 8, inter = row.inter, intra = row.intra,
    graphs = captures_all(row), memory = read.positive(row.peak_mem_gib), memory_note = row.mem_note,
    gradients = first_of(row.grad_reduce_dtype, { { "fp32", "fp32" }, { "bf16", "bf16" } }),
    peft = tuning.peft(row), packing = tuning.packing(row), apart = tuning.apart(row, software_stack),
  }
  case.measured, reason = rates.seconds(case, row)
  if not case.measured then return nil, reason end
  return case
end

-- Of a system with one part of its peaks for all kernels: that part of another precision's peak, whatever the size.
local function flat_curve(part)
  return { efficiency = part, tile_loss = 0, depth = 0, quantisation = 0, sustained = 1, sustained_after = 1 }
end

-- Products in 8 or 4 bits: their curve in place of the 16-bit one, relative to the 16-bit peak.
local function with_precision(system, precision)
  if precision == "bf16" then return system end
  local compute, peaks = system.accelerator.compute_efficiency, system.accelerator.tensor
  if type(compute) == "number" and peaks[precision] and system.accelerator.units then
    local curve = flat_curve(compute * peaks[precision] / peaks.bf16)
    return system:with { accelerator = { compute_efficiency = { other = compute, gemm = { bf16 = curve } } } }
  end
  local curve = type(compute) == "table" and compute.gemm and compute.gemm[precision]
  if not (curve and peaks[precision]) then return nil, "the system has no curve for " .. precision .. " products" end
  local relative = { efficiency = curve.efficiency * peaks[precision] / peaks.bf16 }
  for _, name in ipairs { "tile_loss", "depth", "quantisation", "sustained", "sustained_after" } do
    relative[name] = curve[name]
  end
  return system:with { accelerator = { compute_efficiency = { gemm = { bf16 = relative } } } }
end

--- The system of a case: its nodes and, unless the system is given, its network, where the row names them.
function step.system(case, system, given)
  local domain = case.intra:find "NVL72" and system.network.fast.domain or case.gpus_per_node
  local change = { fast = { domain = math.min(domain, math.max(system.network.fast.domain, case.gpus_per_node)) } }
  local fabric = not given and case.inter ~= "" and fabrics.of(case.inter, case.gpus_per_node) or nil
  if fabric and fabric.bandwidth then
    change.slow = { bandwidth = fabric.bandwidth, nics_per_gpu = 1, efficiency = fabric.curve }
  end
  local variant = gpus.variant(case.gpu, system)
  if variant then system = system:with(variant) end
  local precise, reason = with_precision(system, case.precision)
  if not precise then return nil, reason end
  return precise:with { network = change },
    ("%d %s %s %s"):format(domain, fabric and fabric.bandwidth or "", case.precision, variant and case.gpu or "")
end

--- The arguments of tperf.train for a case.
function step.request(case, system, profile, recompute)
  local s = case.sizes
  local interleaved = s.vp > 1 and s.pp > 1
  local request = {
    model = case.model, system = system, strategy = s.cp > 1 and "context" or "tensor", gpus = s.gpus, tp = s.tp,
    cp = s.cp > 1 and s.cp or nil, cp_kind = s.cp > 1 and (GATHERING[case.stack] and "all_gather" or "ring") or nil,
    ep = s.ep, etp = require "tperf.model"(case.model).experts and s.etp or nil, pp = s.pp, dp = s.dp,
    global_batch = case.global_batch,
    micro_batch = case.micro_batch, schedule = interleaved and "interleaved_1f1b" or "1f1b",
    virtual_stages = interleaved and s.vp or nil, zero = case.zero, recompute = recompute or case.recompute,
    sequence_parallel = case.sequence_parallel, software = profile, gradients = case.gradients,
    peft = case.peft, packing = case.packing,
    fast = placement_of(s, system.network.fast.domain),
  }
  for name, value in pairs(s.pp > 1 and case.dealt or {}) do request[name] = value end
  return request
end

-- Half of the layers' products done twice: half way from none to all.
local function add_predictors(case, system, profile)
  local predictor = require "tperf.train".predictor
  local ways = case.recompute == "half" and { "none", "full" } or { case.recompute }
  local predictors, memory = {}, 0
  for i, way in ipairs(ways) do
    local c
    predictors[i], c = predictor(step.request(case, system, profile, way))
    memory = memory + peak.shown(c.memory.total, case.memory_note) / #ways
  end
  case.profile, case.predictors, case.predicted_memory = profile, predictors, memory
end

--- Seconds of a case's step as a stack with these terms runs it.
function step.seconds(case, terms)
  local sum, host = 0, terms.host
  if case.graphs then terms.host = 0 end
  for _, predict in ipairs(case.predictors) do sum = sum + predict(terms) end
  terms.host = host
  return sum / #case.predictors
end

--- Seconds predicted; nil and a reason when the row cannot be.
function step.predict(case, _, system, _, options)
  local ok, profile = check.attempt(software, options and options.software or case.stack)
  if not ok then return nil, "no profile of the software " .. case.stack end
  if not case.predictors then add_predictors(case, system, profile) end
  return step.seconds(case, runtime.terms(profile))
end

return step
