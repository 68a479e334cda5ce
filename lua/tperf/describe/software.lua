--- tperf.software: a stack's deviations from the formulas: software/*.yaml, one file per stack, at most six fitted
-- numbers, shared by all runs of that stack. docs/model.md section 6.4 explains them; include/tperf/price.h applies
-- them.
local check = require "tperf.base.check"
local estimate = require "tperf.describe.estimate"
local catalogue = require "tperf.base.catalogue"
local core = require "tperf.core"
local records = require "tperf.describe.model.records"
local schedulers = require "tperf.describe.schedulers"
local training = require "tperf.describe.optimizers"

local factor_or_none = check.number { min = 0, max = 100, optional = true }
local span = check.list(check.integer { min = 1 }, { min = 2, max = 2, optional = true }) -- from, to

local function factor(low, high) return check.number { min = low, max = high } end

local interval = check.list(factor(1e-3, 1e3), { min = 2, max = 2, optional = true }) -- of measured / predicted
local seconds = check.number { min = 0, max = 10, unit = "s", default = 0 }
local bytes = check.number { min = 0, max = 1e12, unit = "bytes", default = 0 }

-- What an engine takes where its command says nothing, by device: the first row that holds. systems: parts of systems'
-- names; below: of memory that a program sees. graph_tokens: of the largest CUDA graph; graph_tokens_few: of engines of
-- less than 4 GPUs.
local limit = check.record_of {
  systems = check.list(check.string(), { optional = true }),
  below = check.number { above = 0, max = 1e15, unit = "bytes", optional = true },
  max_num_seqs = check.integer { min = 1, max = 1 << 30, optional = true },
  max_num_batched_tokens = check.integer { min = 1, max = 1 << 30, optional = true },
  graph_tokens = check.integer { min = 0, max = 1 << 20, optional = true },
  graph_tokens_few = check.integer { min = 0, max = 1 << 20, optional = true },
}

-- A serving engine's settings and costs besides its kernels: docs/serving.md.
local engine = {
  limits = check.list(limit, { default = {} }),
  release = check.string(),
  scheduler = check.choice { schedulers.names },
  async_scheduling = check.boolean { default = true },
  -- Seconds per request, and per prompt token, outside the engine; seconds of host time per step, in addition if
  -- several GPUs step together, per request in the step, and per token in the step.
  front_end = seconds, front_end_token = seconds, step = seconds, step_parallel = seconds, request = seconds,
  token = seconds,
  -- Seconds per vocabulary entry of the sequential part of sampling by top_p with a sort.
  sampler_entry = seconds,
  sampler = check.choice { { "sort", "fused" }, default = "sort" }, -- how top_p finds the likeliest tokens
  -- Generations of GPUs on which what attention needs beside an 8-bit cache (queries in 8 bits, keys and values cast as
  -- they are stored) is in other kernels, so that the cache costs its bytes alone.
  fused_casts = check.list(check.string(), { default = {} }),
  -- Generations or systems on which decode leaves 16-bit caches whole (FlashAttention 2), if the system says how fast a
  -- multiprocessor reads one.
  whole_caches = check.list(check.string(), { default = {} }),
  -- Dtypes in which blocks of experts run in fused kernels, on systems with a curve for these (`fused_experts`).
  fused_experts = check.list(check.choice { { "bf16", "fp8", "fp4" } }, { default = {} }),
  -- And those in which they run in kernels that are not made for the GPU's generation (`portable_experts`).
  portable_experts = check.list(check.choice { { "bf16", "fp8", "fp4" } }, { default = {} }),
  -- Families of models whose blocks of experts run in portable kernels in 16 and 8 bits, where the system has a curve:
  -- those for which the release chooses no other.
  portable_families = check.list(check.string(), { default = {} }),
  -- Whether a compiler fuses pointwise ops between kernels; how gated delta nets project their input (layer/delta.lua).
  compiled = check.boolean { default = true },
  prefill_graphs = check.boolean { optional = true }, -- whether CUDA graphs cover prompts, too (if it is vLLM's V1)
  delta = check.choice { { "merged", "separate" }, default = "merged" },
  -- Seconds to compile the products of experts for another tile, the first time that a step after the engine's start
  -- has as many tokens (experts in Triton).
  compile = seconds,
  -- Seconds that a block of experts takes besides, by the dtype of its products: in kernels that others fuse.
  experts_step = check.record_of({ fp8 = seconds, fp4 = seconds }, { default = {} }),
  -- What a product of experts takes to start where 4-bit weights are widened to 16 bits; absent: what the system says.
  experts_setup = check.number { min = 0, max = 1, unit = "s", optional = true },
  -- Bytes that its kernels read and write for a token, layer and feature of the stream beyond those of fused ones.
  activation_bytes = check.number { min = 0, max = 1e4, default = 0 },
  -- Part of the memory that it uses; of that, what runtime and communicators take on a GPU alone and on one of several.
  memory_utilization = check.number { above = 0, max = 1, default = 0.9 }, runtime = bytes, runtime_parallel = bytes,
  -- What the utilization is a part of: all memory; "static": what is free before weights, with buffers in the rest;
  -- "free": what is left.
  memory = check.choice { { "all", "static", "free" }, default = "all" },
  -- In which recurrent layers keep their state if the model does not say.
  state_dtype = check.choice { records.states, default = "fp32" },
  -- Whether layers that keep all tokens, a window's or a state have their own blocks (docs/serving.md): of which
  -- families of models alone, or of which not.
  pooled = check.boolean { default = false },
  pooled_families = check.list(check.string(), { default = {} }),
  unpooled_families = check.list(check.string(), { default = {} }),
  estimate = estimate,
  -- Of caches in two pools, SGLang's of layers with a window: their tokens for each of the others'.
  swa_full_tokens_ratio = check.number { above = 0, max = 1, default = 0.8 },
  -- Bytes of states for each byte of keys and values that one pool of memory is divided into (SGLang's; 0.9 to 1), and
  -- the states for each request that may run beside a prefix cache (its MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO).
  mamba_full_memory_ratio = check.number { above = 0, max = 100, default = 0.9 },
  mamba_states = check.integer { min = 1, max = 1024, default = 3 },
  -- The largest batch in tokens that CUDA graphs are captured for, unless the command says so: vLLM's.
  graph_tokens = check.integer { min = 0, max = 1 << 20, default = 512 },
}

local schema = {
  name = check.string { name = true }, source = check.string { optional = true },
  facts = check.string { optional = true },
  -- The kernel of attention if a run does not give it: fused, FlashAttention 1 or 2, or separate kernels.
  kernel = check.choice { { "flash", "flash1", "flash2", "unfused" }, default = "flash" },
  like = check.choice { { "typical", "tuned" }, optional = true },
  rank_order = check.string { optional = true },
  sharding = check.choice { training.shardings, optional = true },
  gradient_shard = check.boolean { default = false },
  gradient_reduce = check.choice { training.reductions, default = "reduce_scatter" },
  broadcast_weights = check.boolean { default = false },
  gradient_buckets = check.boolean { default = false },
  fused_activation = check.boolean { default = true },
  fused_pointwise = check.boolean { default = false },
  norm = check.choice { { "fused", "copied", "pytorch" }, default = "fused" },
  padded_vocabulary = check.boolean { default = true },
  grouped_kernels = check.boolean { default = false },
  expert_calls = check.integer { min = 0, max = 1000, default = 0 },
  scatter_messages = check.boolean { default = false },
  megatron_softmax = check.boolean { default = false },
  gradients = check.choice { { "fp32", "bf16", "fp16" }, optional = true },
  weights = check.choice { { "fp32", "bf16", "fp16" }, optional = true },
  loss = check.choice { training.losses, optional = true },
  -- true: fitted to runs with the overlap switches of their rows (lua/tperf/measured/run/switches.lua).
  switched = check.boolean { default = false },
  counted_pairs = check.choice { { "causal", "all" }, default = "causal" },
  -- Defaults of the question's fields with these names.
  moe_dispatcher = check.choice { { "alltoall", "allgather", "deepep", "hybridep" }, optional = true },
  overlap_tp = check.choice { { "bulk", "none", "ring", "async" }, optional = true },
  overlap_moe_a2a = check.boolean { optional = true }, delay_wgrad = check.boolean { optional = true },
  overlap_shared_experts = check.boolean { optional = true },
  overlap_grad_reduce = check.boolean { optional = true }, overlap_param_gather = check.boolean { optional = true },
  overlap_param_gather_with_optimizer_step = check.boolean { optional = true },
  overlap_p2p = check.boolean { optional = true }, compile = check.boolean { optional = true },
  engine = check.record_of(engine, { optional = true }),
  accumulation = check.choice { { "fused", "separate" }, optional = true },
  -- Errors on held-out runs, and properties of the runs. error90: replaced by `spread`.
  runs = check.integer { min = 1, optional = true }, error = factor_or_none, error90 = factor_or_none,
  spread = interval, reach = interval,
  systems = check.list(check.string(), { default = {} }),
  generations = check.list(check.string(), { default = {} }),
  architectures = check.list(check.string(), { default = {} }),
  gpus = span, hidden = span, seq = span,
}

-- The facts that the core knows (TPERF_SOFTWARE of include/tperf/price.h, which documents them).
for _, fact in ipairs(core.record "software") do
  if fact.from ~= "derived" then
    schema[fact.name] = fact.kind == "flag" and check.boolean { default = fact.usual }
      or check.number { min = fact.low, max = fact.high, unit = fact.unit, default = fact.usual }
  end
end

-- Earlier names of profiles, without a release.
local renamed = {
  ["fms-fsdp"] = "fms-fsdp-2024", internevo = "internevo-2024", ["llm-foundry-fsdp"] = "llm-foundry-2023",
  ["megatron-core"] = "megatron-core-simumax-1.2", ["nemo-automodel"] = "nemo-automodel-26.02",
  ["nemo-mlperf"] = "nemo-mlperf-5.1", torchtitan = "torchtitan-2024",
}

local LARGEST <const> = 0.9 -- largest error90 that still bounds how much longer a run may take

local function finish(profile)
  local spread, error = profile.spread, math.min(profile.error90 or 0, LARGEST)
  if not spread and profile.error90 then profile.spread = { 1 / (1 + error), 1 / (1 - error) } end
  for _, name in ipairs { "spread", "reach" } do
    local pair = profile[name]
    if pair and pair[1] > pair[2] then return ("'%s' must be a lower and a higher number"):format(name), name end
  end
end

--- A training stack's deviations from the formulas: software/NAME.yaml, a file of that format, or a table of its
--- fields.
---@param value string|table
---  name, source   what it is called, where its numbers come from
---  facts          where what the stack does comes from: its loss, dtypes, switches …
---  kernel         how attention runs where a run does not say: "flash", one fused kernel, the GPU's fastest; "flash2",
---                 FlashAttention 2, which is slower on Hopper; "flash1", FlashAttention 1, as
---                 slow as in Triton on every GPU; or "unfused", several
---  like           the shared profile whose fitted numbers it has, and with them the errors
---  rank_order     the stack's order of ranks, from neighbours to distant GPUs (Megatron-Core's, "tp-cp-ep-dp-pp"; of
---                 engines "tp-cp-pp-dp")
---  sharding       whose ZeRO shards where a run does not say: "megatron", "deepspeed" or "fsdp", as tperf.train has it
---  gradient_shard   whether the optimizer keeps its shard of the gradients in fp32, too, as DeepSpeed's does
---  gradient_reduce  how replicas that shard the optimizer's state alone reduce gradients where a run does not say:
---                 "reduce_scatter", or "all_reduce", as DeepSpeed's BF16_Optimizer does in pipelines
---  broadcast_weights   whether such replicas own whole matrices, which each broadcasts after the step, instead of a
---                 shard of each, which they gather
---  gradients      what gradients are kept and reduced in where a run does not say; as the rules say
---  gradient_buckets   whether replicas exchange gradients in buckets beside those kept, of the weights' dtype, as
---                 PyTorch's DistributedDataParallel does where a stack accumulates them elsewhere
---  fused_activation   false: a gated activation is two kernels, the second of which keeps what the first made
---  fused_pointwise   true: a compiler or its own kernels fuse neighbouring pointwise ops of training: the residual sum
---                 with the norm after it, and the rotation with the norms of queries and keys (torch.compile of whole
---                 models; llm.c's fused_residual_forward)
---  norm           "fused"; "copied", a fused kernel over a copy in fp32, as apex's over `x.float()`; or "pytorch",
---                 before 2.8, whose RMSNorm without a compiler is a kernel for every step
---  padded_vocabulary  false: the vocabulary's parts keep their size, and products with rows that do not begin on
---                 multiples of 16 bytes are slow (docs/model.md); true: it is padded
---  grouped_kernels   true: the products of a GPU's experts are one kernel (PyTorch's grouped_mm); false: the host
---                 launches one for each expert, as TransformerEngine's GroupedLinear does
---  expert_calls   where a loop of Python runs the experts one after the other (transformers 4): calls of PyTorch that
---                 an expert's forward pass makes, and its backward pass twice as many (0: see grouped_kernels)
---  scatter_messages   true: of an activation that tensor-parallel GPUs all hold, each sends a part to the next stage,
---                 where they gather it (Megatron-LM's scatter_gather_tensors_in_pipeline); false: each sends all of it
---  megatron_softmax   true: where attention is several kernels, its softmax is Megatron-LM's fused one, which wants a
---                 multiple of 4 heads in a GPU's micro-batch and at most 2,048 keys, or else six of PyTorch's
---  weights        what weights are kept in where a run does not say: "fp32", and no master copy beside; as the ops
---                 have them
---  loss           what cross-entropy keeps and how many bytes it moves: "in-place", the softmax in fp32, whose place
---                 the gradient takes (Megatron-LM); "native", that with parts under torch.compile
---                 (--cross-entropy-fusion-impl native); "fused", a library's kernels on 16-bit logits (… te,
---                 FlashAttention's); "copied", in place of a copy of logits in fp32 (nanotron); "pytorch",
---                 F.cross_entropy of logits in fp32; "pytorch-16bit", of logits as they are; "compiled", "pytorch"
---                 under torch.compile; "chunked", "pytorch" and the head's product in eight chunks of the
---                 sequence (torchtitan since 2026); "chunked-logits", of whole logits (torchtune);
---                 "fused-linear", with the head's product in one kernel (Liger); unsaid: what "in-place" keeps, in
---                 one kernel a pass
---  switched       true: it was fitted to runs with the switches that their rows tell
---                 (lua/tperf/measured/run/switches.lua)
---  counted_pairs  which pairs of tokens its log counts among model FLOPs: "causal", those that masks leave
---                 (Megatron-LM since core 0.12, Megatron-Bridge, NeMo since April 2025), or "all" (torchtitan, MaxText
---                 until May 2025, Levanter, llm-foundry, earlier releases of Megatron-LM and NeMo)
---  moe_dispatcher, overlap_tp   what the stack does where a run does not say, as tperf.train has them; likewise
---  overlap_moe_a2a, delay_wgrad, overlap_grad_reduce, overlap_param_gather   switches of what it overlaps
---  overlap_shared_experts, overlap_param_gather_with_optimizer_step, overlap_p2p   three more
---  compile        false: it runs PyTorch's eager kernels where a run does not say
---  engine         of what serves requests (tperf.serve): { release, limits = { { systems = parts of names, below =
---                 bytes of memory, max_num_seqs, max_num_batched_tokens, graph_tokens, graph_tokens_few (of engines
---                 of less than 4 GPUs) }, … } (what it takes by device where its command says nothing: the first row
---                 that holds), scheduler = "vllm", "sglang" or "tensorrt-llm",
---                 async_scheduling (true), front_end, front_end_token, step, step_parallel, request, token
---                 (seconds), sampler = "sort" or "fused", sampler_entry (seconds), compiled (true: a compiler fuses
---                 pointwise ops between kernels), prefill_graphs (whether CUDA graphs cover prompts), delta =
---                 "merged" or "separate" (projections of gated delta nets),
---                 experts_step = { fp8 =, fp4 = } (seconds that a block of experts takes besides), fused_casts
---                 (generations of GPUs on which an 8-bit cache takes no casts of its own), whole_caches (those on
---                 which decode leaves caches whole), fused_experts and portable_experts (dtypes in which blocks of
---                 experts run in fused kernels, or in portable ones), portable_families (of models whose blocks of
---                 experts run in portable ones in 16 and 8 bits), experts_setup (seconds), compile (seconds: see
---                 `cold` of tperf.serve), memory = "all", "static" or "free", memory_utilization (0.9), runtime,
---                 runtime_parallel (bytes), state_dtype ("fp32": of recurrent layers whose model does not say), pooled
---                 (true: layers that keep all tokens, a window's or a state have their own blocks), pooled_families,
---                 unpooled_families (of which alone, or of which not), swa_full_tokens_ratio (0.8),
---                 mamba_full_memory_ratio (0.9), mamba_states (3: for each request that may run), graph_tokens (512:
---                 of the largest CUDA graph), estimate = { init_new_token_ratio (0.7), min_new_token_ratio_factor
---                 (0.14), new_token_ratio_decay_steps (600), retract_decode_steps (20), clip_max_new_tokens (4096) }
---                 (of SGLang's scheduler: docs/serving.md) }
---  accumulation   how a micro-batch's weight gradients are added to those kept, or copied to where replicas reduce
---                 them: "fused", by the product that makes them (Megatron-LM's gradient_accumulation_fusion);
---                 "separate", by a kernel of its own; not given: at no cost
---  runs           how many published runs it was fitted to; with `like`, how many of its runs that one was fitted to
---                 (none: no run of it was compared)
---  error          half of them are within this part of the measured time, predicted by a fit to others of them
---  spread         nine tenths of them took between spread[1] and spread[2] times the predicted time: the 5 % and 95 %
---                 quantiles of measured / predicted
---  reach          of `typical`: the same of runs that a stack's own profile had not seen the like of: on another
---                 system, on more GPUs, of another family of models
---  error90        in files without `spread`: nine tenths of them are within this part of the measured time
---  systems, generations   on which they ran, and of which generations of GPUs those are
---  architectures  of the models that ran: "dense", "experts", "latent experts", "recurrent" …
---  gpus, hidden, seq   their range, { from, to }
---@return table profile
return catalogue.constructor {
  what = "tperf.software", kind = "software", schema = schema, renamed = renamed, finish = finish,
}
