--- tperf.software: a stack's deviations from the formulas: software/*.yaml, one file per stack, at most six fitted
-- numbers, shared by all runs of that stack. docs/model.md section 6.4 explains them; include/tperf/price.h applies
-- them.
local check = require "tperf.base.check"
local catalogue = require "tperf.base.catalogue"

local factor_or_none = check.number { min = 0, max = 100, optional = true }
local span = check.list(check.integer { min = 1 }, { min = 2, max = 2, optional = true }) -- from, to

local function factor(low, high) return check.number { min = low, max = high } end

local interval = check.list(factor(1e-3, 1e3), { min = 2, max = 2, optional = true }) -- of measured / predicted
local seconds = check.number { min = 0, max = 10, unit = "s", default = 0 }
local bytes = check.number { min = 0, max = 1e12, unit = "bytes", default = 0 }

-- A serving engine's settings and costs besides its kernels: docs/serving.md.
local engine = {
  release = check.string(),
  scheduler = check.choice { { "vllm", "sglang", "tensorrt-llm" } },
  async_scheduling = check.boolean { default = true },
  -- Seconds per request, and per prompt token, outside the engine; seconds of host time per step, in addition if
  -- several GPUs step together, per request in the step, and per token in the step.
  front_end = seconds, front_end_token = seconds, step = seconds, step_parallel = seconds, request = seconds,
  token = seconds,
  -- Seconds per vocabulary entry of the sequential part of sampling by top_p with a sort.
  sampler_entry = seconds,
  sampler = check.choice { { "sort", "fused" }, default = "sort" }, -- how top_p finds the most likely tokens
  -- The part of the memory that it uses; runtime and communicators on a lone GPU, and on one of several.
  memory_utilization = check.number { above = 0, max = 1, default = 0.9 }, runtime = bytes, runtime_parallel = bytes,
  -- What the utilization is a part of: all memory; "static": the same, with buffers in the rest; "free": what is left.
  memory = check.choice { { "all", "static", "free" }, default = "all" },
}

local schema = {
  name = check.string(), source = check.string { optional = true }, facts = check.string { optional = true },
  -- The kernel of attention if a run does not give it: fused or separate kernels.
  kernel = check.choice { { "flash", "unfused" }, default = "flash" },
  gradient_shard = check.boolean { default = false },
  fused_activation = check.boolean { default = true },
  gradients = check.choice { { "fp32", "bf16", "fp16" }, optional = true },
  weights = check.choice { { "fp32", "bf16", "fp16" }, optional = true },
  loss = check.choice { { "in-place", "copied", "pytorch", "compiled" }, default = "in-place" },
  compute = factor(0.1, 10), attention = factor(0.1, 20), memory = factor(0, 20), comm = factor(0, 20),
  comm_setup = check.number { min = 0, max = 1, unit = "s", default = 0 }, -- additional seconds per collective
  -- true: fitted to runs with the overlap switches of their rows (lua/tperf/measured/run/switches.lua).
  switched = check.boolean { default = false },
  -- Multiprocessors that a collective takes from overlapping kernels, unless the collective says so itself.
  comm_sms = check.number { min = 0, max = 1024, default = 0 },
  -- Defaults of the question's fields with these names.
  moe_dispatcher = check.choice { { "alltoall", "allgather", "deepep", "hybridep" }, optional = true },
  overlap_tp = check.choice { { "bulk", "none", "ring", "async" }, optional = true },
  overlap_moe_a2a = check.boolean { optional = true }, delay_wgrad = check.boolean { optional = true },
  overlap_grad_reduce = check.boolean { optional = true }, overlap_param_gather = check.boolean { optional = true },
  overlap_param_gather_with_optimizer_step = check.boolean { optional = true },
  engine = check.record_of(engine, { optional = true }),
  host = check.number { min = 0, max = 1, unit = "s" }, -- seconds to launch a kernel
  overlap = factor(0, 1),
  optimizer = check.number { min = 0, max = 1, default = 0.7 },
  -- Errors on held-out runs, and properties of the runs. error90: replaced by `spread`.
  runs = check.integer { min = 1, optional = true }, error = factor_or_none, error90 = factor_or_none,
  spread = interval, reach = interval,
  systems = check.list(check.string(), { default = {} }),
  generations = check.list(check.string(), { default = {} }),
  architectures = check.list(check.string(), { default = {} }),
  gpus = span, hidden = span, seq = span,
}

-- Earlier names of profiles, without a release.
local renamed = {
  ["fms-fsdp"] = "fms-fsdp-2024", internevo = "internevo-2024", ["llm-foundry-fsdp"] = "llm-foundry-2023",
  ["megatron-core"] = "megatron-core-simumax-1.2", ["nemo-automodel"] = "nemo-automodel-26.02",
  ["nemo-mlperf"] = "nemo-mlperf-3.1", torchtitan = "torchtitan-2024",
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
---   name           name of the profile
---   source         where its numbers come from
---   facts          the source of the stack's properties: its loss, dtypes, switches …
---   kernel         default kernel of attention: "flash", one fused kernel, or "unfused", several
---   gradient_shard   true: the optimizer also keeps its shard of the gradients in fp32, as DeepSpeed's does
---   gradients      default dtype in which gradients are kept and reduced; absent: as the rules say
---   fused_activation   false: a gated activation is two kernels, and the second keeps the first one's output
---   weights        default dtype of kept weights ("fp32": no separate master copy); absent: as in the ops
---   loss           what cross-entropy keeps: "in-place", the softmax in fp32, which the gradient overwrites
---                  (Megatron-LM); "copied", the softmax of a copy of the logits in fp32 (nanotron); "pytorch",
---                  F.cross_entropy of logits in fp32; "compiled", the same under torch.compile
---   compute        time of matrix products over their time when timed alone
---   attention      the same for attention's kernels
---   memory         time of exposed memory traffic over the formulas' time
---   comm           the same for tensor-parallel and expert-parallel communication
---   comm_setup     additional seconds of each of these collectives (0)
---   switched       true: it was fitted to runs with the overlap switches of their rows
---                  (lua/tperf/measured/run/switches.lua)
---   comm_sms       multiprocessors that a collective takes from overlapping kernels (0)
---   moe_dispatcher, overlap_tp   the default of this argument of tperf.train, as are
---   overlap_moe_a2a, delay_wgrad, overlap_grad_reduce, overlap_param_gather   default of this overlap switch
---   overlap_param_gather_with_optimizer_step   default of this overlap switch
---   engine         of a serving engine (tperf.serve): { release, scheduler = "vllm", "sglang" or "tensorrt-llm",
---                  async_scheduling (true), front_end, front_end_token, step, step_parallel, request, token
---                  (seconds), sampler = "sort" or "fused", sampler_entry (seconds), memory = "all", "static" or
---                  "free", memory_utilization (0.9), runtime, runtime_parallel (bytes) }
---   host           seconds that the host takes to launch a kernel: no pass is faster than its launches
---   overlap        part of a pass that overlaps with, and so hides, data-parallel traffic
---   optimizer      part of the HBM's bandwidth that the optimizer's step reaches (0.7)
---   runs           number of published runs that it was fitted to
---   error          median error of held-out runs, as a part of the measured time
---   spread         nine tenths of held-out runs took between spread[1] and spread[2] times the predicted time: the 5 %
---                  and 95 % quantiles of measured / predicted
---   reach          of `typical`: the same for runs unlike those that their stack's own profile was fitted to: on
---                  another system, on more GPUs, of another family of models
---   error90        in files without `spread`: 90th percentile of the error, as a part of the measured time
---   systems        systems that the runs used
---   generations    generations of the runs' GPUs
---   architectures  of the runs' models: "dense", "experts", "latent experts", "recurrent" …
---   gpus, hidden, seq   its range over the runs, { from, to }
---@return table profile
return catalogue.constructor {
  what = "tperf.software", kind = "software", schema = schema, renamed = renamed, finish = finish,
}
