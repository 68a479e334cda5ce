--- Memory that training keeps per parameter: dtypes and optimizers, as data.
local check = require "tperf.base.check"
local kernels = require "tperf.describe.kernels"
local parameters = require "tperf.describe.model.parameters"
local overlap = require "tperf.describe.overlap"
local recompute = require "tperf.describe.arch.recompute"

local training = {}

-- Bytes per value in memory; tf32 is fp32 as the tensor cores read it.
local BYTES = { fp32 = 4, tf32 = 4, bf16 = 2, fp16 = 2, fp8 = 1, int8 = 1, int4 = 0.5 }
local DTYPES = { "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4" }

-- Values per fp32 scale in quantised optimizer states: the blocks of bitsandbytes and torchao (arXiv 2110.02861 has
-- 2048).
local BLOCKS = { fp8 = 256, int8 = 256, int4 = 128 }

-- moments: values per parameter, in fp32 unless dtype is given; end_moments: those of the embedding and the head, if
-- they differ; factored: one sum per row and column of a matrix instead of a value per entry.
local optimizers = {
  adam = { moments = 2 },                      -- arXiv 1412.6980
  adamw = { moments = 2 },                     -- arXiv 1711.05101
  adam_8bit = { moments = 2, dtype = "int8" }, -- arXiv 2110.02861
  adamw_8bit = { moments = 2, dtype = "int8" },
  adafactor = { moments = 0, factored = true }, -- arXiv 1804.04235, without momentum
  lion = { moments = 1 },                      -- arXiv 2302.06675
  sgd = { moments = 1 },                       -- with momentum
  sgd_without_momentum = { moments = 0 }, -- torch.optim.SGD's default
  -- arXiv 2502.16982: only momentum for matrices; AdamW for embedding and head (and norms, which are negligible). Each
  -- matrix's update runs five Newton-Schulz iterations on the whole matrix: replicas that shard its state gather it.
  muon = { moments = 1, end_moments = 2, iterations = 5 },
}
training.optimizers = {}
for name in pairs(optimizers) do training.optimizers[#training.optimizers + 1] = name end
table.sort(training.optimizers)

-- Workspaces of libraries on each GPU: cuBLAS's as PyTorch requests them on Hopper, one for each thread that starts
-- products, that of the forward and that of the backward pass.
local function workspace()
  local cublas = kernels.of "memory".cublas
  return cublas.threads * cublas.bytes
end

--- The part of a configuration's buffers that PyTorch's allocator does not see: NCCL's.
---@param memory tperf.memory
---@return number bytes
function training.outside_allocator(memory) return math.max(0, memory.buffers - workspace()) end

--- What PyTorch's allocator gives out at a configuration's peak: torch.cuda.max_memory_allocated.
---@param memory tperf.memory
---@return number bytes
function training.allocated(memory) return memory.total - memory.runtime - training.outside_allocator(memory) end

--- How replicas reduce gradients if they shard no more than the optimizer's state (ZeRO 1).
training.reductions = { "reduce_scatter", "all_reduce" }

--- Whose ZeRO shards: what it keeps of each parameter besides what dtypes say.
training.shardings = { "megatron", "deepspeed", "fsdp" }

--- Cross-entropies: kernels/losses.yaml says what each keeps and moves.
training.losses = { "in-place", "native", "fused", "copied", "pytorch", "pytorch-16bit", "compiled", "chunked",
  "chunked-logits", "fused-linear" }

--- Rows of tperf.question.arguments: what determines this memory.
training.arguments = {
  { name = "optimizer", group = "numerics", check = check.choice { training.optimizers, default = "adam" },
    doc = "adam (default), adamw, adam_8bit, adafactor, lion, muon, sgd ..." },
  { name = "weights", group = "numerics", check = check.choice { DTYPES, optional = true },
    doc = "dtype of the weights in memory (the software's, or bf16)", option = { value = "TYPE" } },
  { name = "gradients", group = "numerics", check = check.choice { { "fp32", "bf16", "fp16" }, optional = true },
    doc = "dtype of the gradients in memory (the software's, or fp32)", option = { value = "TYPE" } },
  { name = "master", group = "numerics", check = check.choice { { "fp32", "bf16", "none" }, optional = true },
    doc = "the optimizer's copy of the weights (fp32 for shorter weights)", option = { value = "TYPE" } },
  { name = "moments", group = "numerics", check = check.choice { DTYPES, optional = true },
    doc = "dtype of the optimizer's moments (the optimizer's)", option = { value = "TYPE" } },
  { name = "loss", group = "numerics", check = check.choice { training.losses, optional = true },
    doc = "what cross-entropy keeps (the software's, or in-place)", more = "See tperf.software." },
  { name = "sharding", group = "memory", check = check.choice { training.shardings, optional = true },
    doc = "whose ZeRO: megatron (default), deepspeed or fsdp",
    more = "What each keeps of a parameter, see docs/memory.md: the default of weights and gradients." },
  { name = "gradient_shard", group = "memory", check = check.boolean { optional = true },
    doc = "keep the optimizer's shard of the gradients in fp32 (as the stack does)" },
  { name = "gradient_reduce", group = "memory", check = check.choice { training.reductions, optional = true },
    doc = "how ZeRO 1 reduces gradients (as the software does)",
    more = "DeepSpeed's BF16_Optimizer reduces them with all_reduce in pipelines." },
  { name = "reshard_after_forward", group = "memory", check = check.boolean { default = true },
    doc = "false: ZeRO 3 keeps gathered weights until the backward pass",
    more = "In a pipeline until the last one, like torchtitan's fsdp_reshard_after_forward = \"never\".",
    option = { long = "no-reshard", help = "ZeRO 3 keeps gathered weights until the backward pass" } },
  { name = "reserve", group = "memory", check = check.number { min = 0, max = 0.99, default = 0 },
    doc = "part of the memory to keep free, such as 0.1", option = { value = "PART" } },
  { name = "compile", group = "numerics", check = check.boolean { default = true },
    doc = "false: PyTorch's eager kernels, which fuse no norms, rotations or gates",
    more = "See section 2.5 of docs/model.md. true: a compiler or the stack's own kernels fuse them.",
    option = { help = "PyTorch's eager kernels, which fuse no norms, rotations or gates" } },
  { name = "data_overlap", group = "overlap", check = check.boolean { default = true },
    doc = "false: exchanges with replicas do not overlap with passes",
    option = { help = "exchanges with replicas do not overlap with passes" } },
}

-- Bytes of a value with its share of the scale.
local function moment_bytes(dtype)
  return BYTES[dtype] + (BLOCKS[dtype] and 4 / BLOCKS[dtype] or 0)
end

-- What each kind of sharding keeps where the question leaves it open.
local fillers = {
  -- FSDP shards what the optimizer updates, fp32, and gathers the compute dtype.
  fsdp = function(o) o.weights = o.weights or "fp32" end,
  -- Gradients in the model's dtype; the optimizer makes an fp32 copy of its shard, unless they are accumulated in fp32
  -- or there is no master copy (stage_1_and_2.py, stage3.py; data_types.grad_accum_dtype).
  deepspeed = function(o)
    o.gradients = o.gradients or o.weights == "fp32" and "fp32" or "bf16"
    if o.gradient_shard == nil then o.gradient_shard = o.gradients ~= "fp32" and (o.master or "fp32") == "fp32" end
  end,
}

--- Sets what a question's kind of sharding decides unless the question does.
---@param o table  checked arguments, changed in place
function training.fill(o)
  local fill = fillers[o.sharding]
  if fill then fill(o) end
  o.gradient_shard = o.gradient_shard or false
end

--- For the core: bytes of weights, gradients and optimizer state per parameter. Defaults as in Megatron-LM: weights as
--- the ops have them, bf16; gradients, a master copy of narrower weights and moments in fp32: 2 + 4 + 12.
function training.of(o, rules, model)
  local gradients = o.gradients or rules.gradients_in_fp32 and "fp32" or "bf16"
  local master = o.master or o.weights and (BYTES[o.weights] < BYTES.fp32 and "fp32" or "none")
  local optimizer = optimizers[o.optimizer]
  local one = moment_bytes(o.moments or optimizer.dtype or "fp32")
  -- A matrix has rows + columns of these sums: 1 / rows + 1 / columns per entry.
  local copy = (BYTES[master] or 0) + (optimizer.factored and 2 * one / model.hidden or 0)
  if o.gradient_shard then copy = copy + BYTES.fp32 end
  local owned = o.sharding == "deepspeed"
  local terms = {
    gradients_follow = owned, gradients_replaced = owned and o.gradient_shard,
    kept_bytes = BYTES[o.weights] or 0, gradient_bytes = BYTES[gradients], narrow_bytes = master and 0 or BYTES.fp32,
    optimizer_bytes = copy + optimizer.moments * one,
    end_optimizer_bytes = copy + (optimizer.end_moments or optimizer.moments) * one,
    bucket_bytes = o.gradient_buckets and (BYTES[o.weights] or BYTES.bf16) or 0,
    recompute_layers = recompute.grouped(o), workspace_bytes = workspace(),
    communicator_bytes = kernels.of "memory".nccl, context_bytes = kernels.of "memory".context,
    slack = kernels.of "memory".reserved - 1,
    data_overlap = o.data_overlap and 1 or 0, offloaded = o.offload_optimizer,
    weights_on_host = o.offload_params,
    iterations = optimizer.iterations or 0,
    reshards = o.reshard_after_forward and 1 or 0, reserved = o.reserve,
    reduces_whole = o.gradient_reduce == "all_reduce", broadcast_layers = o.broadcast_weights and model.layers or 0,
  }
  for name, value in pairs(overlap.terms(o)) do terms[name] = value end
  return terms
end

local counted = setmetatable({}, { __mode = "k" }) -- model (never changed in place) -> its parameters

-- { all, embedding, head }; false for a custom architecture that does not state its parameters.
local function parameters_of(model)
  if counted[model] ~= nil then return counted[model] end
  local own, known = model.architecture, false
  if not own or own.parameters then
    local count = parameters.known(model) or model:parameters() -- which raises
    known = { all = count.total + count.mtp, embedding = count.embedding, head = count.head }
  end
  counted[model] = known
  return known
end

-- Trained parameters of the tables at both ends.
local function trained_ends(count, tuned)
  local frozen = tuned and tuned.frozen.parts or {}
  if tuned and tuned.peft then return 0 end
  return (frozen.embedding and 0 or count.embedding) + (frozen.head and 0 or count.head)
end

--- Bytes of a checkpoint: weights, and the master copy and optimizer's state of those that are trained, once for the
--- whole model, without gradients or copies of them. Of a model with adapters these alone are saved (Megatron-Bridge,
--- Hugging Face's PEFT).
---@param t table      from training.of
---@param o table      the arguments that it was made from
---@param model table
---@param tuned table?  from tuning.of
---@param work table?   from tuning.work
---@return number?  nil if a custom architecture does not state its parameters
function training.checkpoint_bytes(t, o, model, tuned, work)
  local count = parameters_of(model)
  if not count then return nil end
  local weights = t.kept_bytes > 0 and t.kept_bytes or BYTES.bf16
  local gradients = o.gradient_shard and BYTES.fp32 or 0
  local state = t.optimizer_bytes - gradients + (weights < BYTES.fp32 and t.narrow_bytes or 0)
  local trained = work and work.trained or count.all
  local stored = tuned and tuned.peft and trained or count.all
  return stored * weights + trained * state
    + trained_ends(count, tuned) * (t.end_optimizer_bytes - t.optimizer_bytes)
end

return training
