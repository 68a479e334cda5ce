--- The less common axes of a launch as arguments of tperf.train: the inverse of export/launch/axes.lua. Axes that the
-- launch leaves at tperf's usual value are absent.
local graphs = require "tperf.describe.arch.graphs"

local axes = {}

local MEGATRON <const> = {
  a2a = { "--overlap-moe-expert-parallel-comm" }, wgrad = { "--delay-wgrad-compute" },
  shared = { "--moe-shared-expert-overlap" }, mapping = { "--use-tp-pp-dp-mapping" },
  replicas = "--num-distributed-optimizer-instances", tp = { "--tp-comm-overlap" }, bucket = "--ddp-bucket-size",
  step = { "--overlap-param-gather-with-optimizer-step" }, optimizer = "--optimizer",
  first = "--decoder-first-pipeline-num-layers", last = "--decoder-last-pipeline-num-layers",
  embedding = { "--account-for-embedding-in-pipeline-split" }, loss = { "--account-for-loss-in-pipeline-split" },
  fusion = "--cross-entropy-loss-fusion", fused_by = "--cross-entropy-fusion-impl",
  precise = "--use-precision-aware-optimizer", first_moment = "--exp-avg-dtype", second_moment = "--exp-avg-sq-dtype",
  waits = function(s) return s:set "--no-overlap-p2p-communication" ~= nil end,
}
local BRIDGE <const> = {
  a2a = { "comm_overlap.overlap_moe_expert_parallel_comm", "model.overlap_moe_expert_parallel_comm",
    "model.moe_a2a_overlap" },
  wgrad = { "comm_overlap.delay_wgrad_compute", "model.delay_wgrad_compute" },
  shared = { "model.moe_shared_expert_overlap" }, mapping = { "dist.use_tp_pp_dp_mapping" },
  replicas = "ddp.num_distributed_optimizer_instances", bucket = "ddp.bucket_size",
  tp = { "comm_overlap.tp_comm_overlap", "model.tp_comm_overlap" },
  step = { "comm_overlap.overlap_param_gather_with_optimizer_step",
    "optimizer.overlap_param_gather_with_optimizer_step" }, optimizer = "optimizer.optimizer",
  first = "model.num_layers_in_first_pipeline_stage", last = "model.num_layers_in_last_pipeline_stage",
  embedding = { "model.account_for_embedding_in_pipeline_split" },
  loss = { "model.account_for_loss_in_pipeline_split" },
  fusion = "model.cross_entropy_loss_fusion", fused_by = "model.cross_entropy_fusion_impl", fuses = true,
  precise = "optimizer.use_precision_aware_optimizer", first_moment = "optimizer.exp_avg_dtype",
  second_moment = "optimizer.exp_avg_sq_dtype",
  waits = function(s)
    return s:set "comm_overlap.overlap_p2p_comm" == false or s:set "model.overlap_p2p_comm" == false
  end,
}

local OPTIMIZERS <const> = { sgd = "sgd", muon = "muon", distmuon = "muon", lion = "lion", fusedlion = "lion",
  adafactor = "adafactor" }

-- Dtypes of the optimizer's moments.
local STATES <const> = { bf16 = "bf16", ["torch.bfloat16"] = "bf16", fp16 = "fp16", ["torch.float16"] = "fp16",
  fp8 = "fp8" }

local ADAMS <const> = { adam = true, adamw = true, fusedadam = true, cpuadam = true, deepspeedcpuadam = true,
  distributedfusedadam = true }

-- The optimizer that an option names; nil: Adam. The option counts as read only if the name is known.
local function optimizer_of(s, option)
  local entry = s.by_option[option]
  local name = entry and tostring(entry.value):lower():gsub("_", "")
  if OPTIMIZERS[name] or ADAMS[name] then s:set(option) end
  return OPTIMIZERS[name]
end

local graphed = {}
for _, name in ipairs(graphs.modules) do graphed[name] = true end

-- What Megatron-Core captures: the modules named, else whole layers. impl: "none", "transformer_engine" or "local".
local function graphs_of(impl, modules)
  if (impl or "none") == "none" then return nil end
  local list = {}
  for _, name in ipairs(type(modules) == "table" and modules or { modules }) do
    if graphed[name] then list[#list + 1] = name end
  end
  return list[1] and list or { "layer" }
end

-- Whether one of several options is on; all of them count as read.
local function any_set(s, names)
  local any
  for _, name in ipairs(names) do
    if s:set(name) == true then any = true end
  end
  return any
end

-- The dtype of the optimizer's moments, if it is not fp32 and the same for both. m: which option says what.
local function moments_of(s, m)
  local precise, first, second = s:get(m.precise), s:get(m.first_moment), s:get(m.second_moment)
  return precise and first == second and first ~= "fp32" and STATES[first] or nil
end

local LOSSES <const> = { native = "native", te = "fused" }

-- The cross-entropy; nil: as the software profile has it, which knows what its stack does unless told otherwise.
local function loss_of(s, o)
  local fusion, entry = s:set(o.fusion), s.by_option[o.fused_by]
  local by = entry and LOSSES[entry.value] and s:set(o.fused_by) -- else it is refused: no prediction has it
  if fusion == nil then return o.fuses and by and LOSSES[by] or nil end
  if fusion == false then return "in-place" end
  return entry and LOSSES[by] or not entry and "native" or nil
end

-- The axes of Megatron-Core, by a stack's names for its options.
local function core(s, r, o)
  local replicas = math.tointeger(tonumber(s:set(o.replicas) or 1))
  local a2a, tp, shared, wgrad = any_set(s, o.a2a), any_set(s, o.tp), any_set(s, o.shared), any_set(s, o.wgrad)
  local first, last, waits = s:set(o.first), s:set(o.last), o.waits(s)
  local embedding, loss, mapping = any_set(s, o.embedding), any_set(s, o.loss), any_set(s, o.mapping)
  local found = {
    overlap_moe_a2a = r.ep > 1 and a2a or nil, bucket_size = tonumber(s:set(o.bucket)),
    overlap_tp = r.tp > 1 and tp and "ring" or nil, optimizer = optimizer_of(s, o.optimizer),
    overlap_param_gather_with_optimizer_step = any_set(s, o.step), loss = loss_of(s, o), moments = moments_of(s, o),
    rank_order = r.pp > 1 and mapping and "tp-cp-ep-pp-dp" or nil,
    shard = r.zero > 0 and replicas and replicas > 1 and r.dp % replicas == 0 and r.dp // replicas or nil,
  }
  found.overlap_shared_experts = r.ep > 1 and shared or nil
  found.delay_wgrad = found.overlap_moe_a2a and wgrad or nil
  if r.pp > 1 then
    found.first_stage_layers, found.last_stage_layers = first, last
    found.account_for_embedding, found.account_for_loss = embedding, loss
    if r.vp > 1 and waits then found.overlap_p2p = false end
  end
  return found
end

-- "balanced" where an option forces experts to have equal loads, as benchmarks do.
local function balanced(s, r, option) return r.ep > 1 and s:set(option) == true and "balanced" or nil end

function axes.megatron(s, r)
  local found = core(s, r, MEGATRON)
  if r.dp * r.cp > 1 then
    if s:set "--overlap-grad-reduce" == nil then found.overlap_grad_reduce = false end
    if r.zero > 0 and s:set "--overlap-param-gather" == nil then found.overlap_param_gather = false end
  end
  if r.precision.grads == "bf16" then found.gradients = "bf16" end
  local older = s:get "--external-cuda-graph" and "transformer_engine" or s:get "--enable-cuda-graph" and "local"
  local impl = s:set "--cuda-graph-impl" or older or nil
  found.cuda_graphs = graphs_of(impl, s:set "--cuda-graph-modules" or s:set "--cuda-graph-scope")
  local mock = r.ep > 1 and s:set "--mock-data" -- random tokens, which load experts less evenly than text
  found.routing = balanced(s, r, "--moe-router-force-load-balancing") or mock == true and "mock" or nil
  return found
end

local LORA_DIM <const> = 32 -- LoRA's own default

function axes.bridge(s, r)
  local found = core(s, r, BRIDGE)
  local function overlaps(name) -- CommOverlapConfig's fields take precedence
    local own, value = s:set("comm_overlap." .. name), s:set("ddp." .. name)
    if own ~= nil then return own end
    return value
  end
  local reduce, gather = overlaps "overlap_grad_reduce", overlaps "overlap_param_gather"
  if reduce == false then found.overlap_grad_reduce = false end
  if r.zero > 0 and gather == false then found.overlap_param_gather = false end
  if s:set "ddp.grad_reduce_in_fp32" == false then found.gradients = "bf16" end
  found.cuda_graphs = graphs_of(s:set "model.cuda_graph_impl", s:set "model.cuda_graph_modules")
  found.routing = balanced(s, r, "model.moe_router_force_load_balancing")
  local rank, targets = s:set "peft.dim", s:set "peft.target_modules"
  if rank or targets then
    found.peft = { rank = rank or LORA_DIM, targets = type(targets) == "string" and { targets } or targets,
      dropout = s:set "peft.dropout" }
  end
  return found
end

-- Whether torchtitan compiles its layers, which it does only if asked: `training.compile` until 2025, then
-- `compile.enable` for the parts in `compile.components`, by default all.
local function compiles(s)
  local parts, asked = s:set "compile.components", s:set "training.compile" or s:set "compile.enable"
  if type(parts) ~= "table" then return asked == true end
  local layers = false
  for _, part in ipairs(parts) do layers = layers or part == "model" end
  return asked == true and layers
end

function axes.torchtitan(s, r)
  local async = s:set "parallelism.enable_async_tensor_parallel" or s:set "experimental.enable_async_tensor_parallel"
    or s:set "compile.enable_async_tensor_parallel"
  local backend = s:set "parallelism.expert_parallel_comm_backend" or s:set "model_spec.moe_comm_backend"
  -- Weights of 16 bits have no wider copy, and gradients and moments like theirs; gradients of others are reduced in a
  -- dtype of their own.
  local narrow = r.precision.params == "bf16" and "bf16" or nil
  return {
    sharding = not narrow and "fsdp" or nil, weights = narrow, master = narrow and "none", moments = narrow,
    gradients = (narrow or r.precision.grads == "bf16") and "bf16" or nil,
    compile = compiles(s),
    overlap_tp = r.tp > 1 and async == true and "async" or nil,
    shard = r.dp_replicate > 1 and r.dp_shard > 1 and r.dp_shard or nil,
    moe_dispatcher = r.ep > 1 and backend ~= "standard" and backend or nil,
    routing = balanced(s, r, "debug.moe_force_load_balance"),
  }
end

local GRADIENTS <const> = { fp32 = "fp32", bf16 = "bf16", fp16 = "fp16" }

-- Weights of 16 bits with gradients of 32 choose BF16_Optimizer, which in pipelines reduces whole gradients
-- (runtime/engine.py, _do_optimizer_sanity_check; pipe/engine.py, _bf16_reduce_grads).
--- DeepSpeed's stages keep gradients and the optimizer's shards of them in their own way.
---@param found table  arguments, changed in place
---@param zero integer
function axes.deepspeed_states(found, zero) found.sharding = zero > 0 and "deepspeed" or nil end

function axes.deepspeed(s, r)
  local outside = any_set(s, { "use_data_before_expert_parallelism" })
  local added = s:set "data_types.grad_accum_dtype" or s:set "gradient_accumulation_dtype"
  local wide = added == "fp32" and r.precision.compute == "bf16"
  local found = {
    gradients = GRADIENTS[added],
    optimizer = optimizer_of(s, "optimizer.type"),
    rank_order = r.ep > 1 and outside and "tp-cp-dp-ep-pp" or nil,
    gradient_reduce = wide and r.pp > 1 and r.zero == 1 and "all_reduce" or nil,
  }
  axes.deepspeed_states(found, r.zero)
  return found
end

function axes.nanotron(s) return { optimizer = optimizer_of(s, "optimizer.optimizer_factory.name") } end

--- Adds the axes to arguments.
---@param launch table  of tperf.import.launch
---@param a table       arguments, changed in place
function axes.add(launch, a)
  for name, value in pairs(launch.axes or {}) do a[name] = value end
end

return axes
