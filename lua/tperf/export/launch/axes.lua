--- The less common axes of a configuration, and how each stack is told about them. An axis that a stack has no option
-- for is refused by name: a launch without it would run something else.
local check = require "tperf.base.check"
local graphs = require "tperf.describe.arch.graphs"
local rank_order = require "tperf.question.rank_order"

local axes = {}

local RANK <const> = 32 -- of adapters, if the question leaves it out (tperf.describe.tuning)

-- Orders of ranks besides the usual one that stacks have options for.
local STAGES_INSIDE <const>, EXPERTS_OUTSIDE <const> = "tp-cp-ep-pp-dp", "tp-cp-dp-ep-pp"

local graphed = {}
for _, name in ipairs(graphs.modules) do graphed[name] = true end

local function shown(value)
  if type(value) ~= "table" then return value end
  return value.rank and ("adapters of rank %d"):format(value.rank) or value[1] or "a table"
end

-- Writers of Megatron-Core's options, by a stack's names for them.
local function megatron_core(o)
  return {
    overlap_moe_a2a = function(w) w.put(o.a2a, true) end, delay_wgrad = function(w) w.put(o.wgrad, true) end,
    cuda_graphs = function(w, value)
      local modules = type(value) == "table" and value or { value }
      for _, name in ipairs(modules) do
        if not graphed[name] then w.cannot("cuda_graphs", shown(value), "captures modules, layers or iterations") end
      end
      local whole = modules[1] == "full_iteration"
      w.put(o.graphs .. "impl", whole and "local" or "transformer_engine")
      if modules[1] ~= "layer" then w.put(o.graphs .. "modules", modules) end
    end,
    overlap_shared_experts = function(w) w.put(o.shared, true) end,
    rank_order = function(w, value)
      if value ~= STAGES_INSIDE then w.cannot("rank_order", value, "has tp-cp-ep-dp-pp and " .. STAGES_INSIDE) end
      w.put(o.mapping, true)
    end,
    shard = function(w, value, n)
      if n.zero == 0 or n.dp % value ~= 0 then w.cannot("shard", value, "repeats what it shards over dp") end
      w.put(o.replicas, n.dp // value)
    end,
    overlap_tp = function(w, value)
      if value ~= "ring" then w.cannot("overlap_tp", value, "is told to overlap by user buffers (ring)") end
      w.put(o.tp, true)
    end,
    bucket_size = function(w, value)
      w.put(o.bucket, math.tointeger(value) or w.cannot("bucket_size", value, "counts whole parameters"))
    end,
    overlap_param_gather_with_optimizer_step = o.step and function(w) w.put(o.step, true) end,
    overlap_p2p = o.waits,
    overlap_grad_reduce = function() end, overlap_param_gather = function() end, -- off without their switches
    optimizer = function(w, value)
      if value ~= "sgd" and value ~= "muon" then w.cannot("optimizer", value, "has adam, sgd and muon") end
      w.put(o.optimizer, value)
    end,
    gradients = o.gradients and function(w, value)
      if value == "fp16" then w.cannot("gradients", value, "adds them up in fp32 or bf16") end
      o.gradients(w, value)
    end,
    pipeline_layout = function(w, value)
      if type(value) ~= "string" then w.cannot("pipeline_layout", shown(value), "is told it as a string") end
      w.put(o.layout, value)
    end,
    first_stage_layers = function(w, value) w.put(o.first, value) end,
    last_stage_layers = function(w, value) w.put(o.last, value) end,
    account_for_embedding = function(w) w.put(o.embedding, true) end,
    account_for_loss = function(w) w.put(o.loss, true) end,
  }
end

local WRITERS <const> = {
  megatron = megatron_core {
    a2a = "--overlap-moe-expert-parallel-comm", wgrad = "--delay-wgrad-compute",
    shared = "--moe-shared-expert-overlap", graphs = "--cuda-graph-", mapping = "--use-tp-pp-dp-mapping",
    replicas = "--num-distributed-optimizer-instances", tp = "--tp-comm-overlap", bucket = "--ddp-bucket-size",
    step = "--overlap-param-gather-with-optimizer-step", optimizer = "--optimizer",
    layout = "--pipeline-model-parallel-layout", first = "--decoder-first-pipeline-num-layers",
    last = "--decoder-last-pipeline-num-layers", embedding = "--account-for-embedding-in-pipeline-split",
    loss = "--account-for-loss-in-pipeline-split",
    waits = function(w, value, n)
      if n.pp < 3 then w.cannot("overlap_p2p", value, "then interleaves over pp of at least 3") end
      w.put("--no-overlap-p2p-communication", true)
    end,
    gradients = function(w, value)
      w.put(value == "bf16" and "--grad-reduce-in-bf16" or "--accumulate-allreduce-grads-in-fp32", true)
    end,
  },
  ["megatron-bridge"] = megatron_core {
    a2a = "comm_overlap.overlap_moe_expert_parallel_comm", wgrad = "comm_overlap.delay_wgrad_compute",
    shared = "model.moe_shared_expert_overlap", graphs = "model.cuda_graph_", mapping = "dist.use_tp_pp_dp_mapping",
    replicas = "ddp.num_distributed_optimizer_instances", tp = "comm_overlap.tp_comm_overlap",
    bucket = "ddp.bucket_size", step = "comm_overlap.overlap_param_gather_with_optimizer_step",
    optimizer = "optimizer.optimizer", layout = "model.pipeline_model_parallel_layout",
    first = "model.num_layers_in_first_pipeline_stage", last = "model.num_layers_in_last_pipeline_stage",
    embedding = "model.account_for_embedding_in_pipeline_split", loss = "model.account_for_loss_in_pipeline_split",
    waits = function(w) w.put("comm_overlap.overlap_p2p_comm", false) end,
    gradients = function() end, -- ddp.grad_reduce_in_fp32 is always written
  },
  torchtitan = {
    shard = function(w, value, n)
      if n.zero == 0 or n.dp % value ~= 0 then w.cannot("shard", value, "repeats what it shards over dp") end
    end,
    overlap_tp = function(w, value)
      if value ~= "async" then w.cannot("overlap_tp", value, "overlaps it as PyTorch does (async) or not at all") end
      w.put("parallelism.enable_async_tensor_parallel", true)
    end,
    moe_dispatcher = function(w, value)
      if value == "allgather" then w.cannot("moe_dispatcher", value, "exchanges tokens") end
      w.put("parallelism.expert_parallel_comm_backend", value)
    end,
    cp_kind = function(w, value)
      if value ~= "ring" then w.cannot("cp_kind", value, "gathers keys, or passes them on") end
      w.put("parallelism.context_parallel_rotate_method", "alltoall")
    end,
  },
  deepspeed = {
    cp_kind = function() end, gradients = function() end, gradient_shard = function() end, -- by stack/deepspeed.lua
    rank_order = function(w, value)
      if value ~= EXPERTS_OUTSIDE then w.cannot("rank_order", value, "has tp-cp-ep-dp-pp and " .. EXPERTS_OUTSIDE) end
      w.put("use_data_before_expert_parallelism", true)
    end,
    gradient_reduce = function(w, value, n)
      if n.pp == 1 or n.zero ~= 1 then
        w.cannot("gradient_reduce", value, "reduces whole gradients in pipelines with ZeRO 1 only")
      end
      w.put("data_types.grad_accum_dtype", "fp32") -- chooses BF16_Optimizer (engine.py, _do_optimizer_sanity_check)
    end,
    optimizer = function(w, value)
      local name = ({ lion = "Lion", muon = "Muon", sgd = "SGD" })[value]
      w.put("optimizer.type", name or w.cannot("optimizer", value, "has Adam, Lion, Muon and SGD"))
    end,
    peft = function(w, value)
      if value.kind == "qlora" or value.targets ~= "all-linear" then
        w.cannot("peft", shown(value), "has LoRA beside all products (targets = \"all-linear\")")
      end
    end,
  },
  nanotron = {
    cp_kind = function(w, value)
      if value ~= "ring" then w.cannot("cp_kind", value, "passes keys on in a ring") end
    end,
    optimizer = function(w, value)
      if value ~= "sgd" then w.cannot("optimizer", value, "has adamW and sgd") end
      w.put("optimizer.optimizer_factory.name", "sgd")
    end,
  },
}

WRITERS.megatron.cp_kind, WRITERS["megatron-bridge"].cp_kind = function() end, function() end
local LOSSES <const> = { native = "native", fused = "te" }
for stack, o in pairs { megatron = { "--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl" },
  ["megatron-bridge"] = { "model.cross_entropy_loss_fusion", "model.cross_entropy_fusion_impl" } } do
  WRITERS[stack].loss = function(w, value)
    w.put(o[1], true)
    w.put(o[2], LOSSES[value] or w.cannot("loss", value, "has in-place, native and fused"))
  end
end
for stack, o in pairs { megatron = { "--moe-token-dispatcher-type", "--moe-flex-dispatcher-backend" },
  ["megatron-bridge"] = { "model.moe_token_dispatcher_type", "model.moe_flex_dispatcher_backend" } } do
  WRITERS[stack].moe_dispatcher = function(w, value)
    if value == "allgather" then return w.put(o[1], value) end
    w.put(o[1], "flex")
    w.put(o[2], value)
  end
end
for stack, option in pairs { megatron = "--attention-backend", ["megatron-bridge"] = "model.attention_backend" } do
  WRITERS[stack].attention = function(w, value)
    w.put(option, value == "unfused" and value or w.cannot("attention", value, "runs flash or unfused attention"))
  end
end
-- Equal loads of experts are an option; other loads are the data's.
local BALANCES <const> = { megatron = "--moe-router-force-load-balancing",
  ["megatron-bridge"] = "model.moe_router_force_load_balancing", torchtitan = "debug.moe_force_load_balance" }
for stack, option in pairs(BALANCES) do
  WRITERS[stack].routing = function(w, value)
    if value == "balanced" then w.put(option, true) end
  end
end
WRITERS["megatron-bridge"].peft = function(w, value)
  if value.kind == "qlora" then w.cannot("peft", "qlora", "keeps frozen weights in 16 bits") end
  if value.targets == "all-linear" then w.cannot("peft", "all-linear", "names products: give targets") end
  w.put("peft.dim", value.rank)
  if value.dropout then w.put("peft.dropout", value.dropout) end
  if value.targets then w.put("peft.target_modules", value.targets) end
  w.note "cfg.peft is a LoRA: start from the model's finetuning recipe"
end

-- name -> the usual values, besides nil, that need no option.
local USUAL <const> = {
  moe_dispatcher = { alltoall = true }, overlap_moe_a2a = { [false] = true }, delay_wgrad = { [false] = true },
  overlap_shared_experts = { [false] = true }, cuda_graphs = {},
  shard = {}, ulysses = { [1] = true }, overlap_tp = { bulk = true }, overlap_grad_reduce = { [true] = true },
  overlap_param_gather = { [true] = true }, overlap_param_gather_with_optimizer_step = { [false] = true },
  overlap_p2p = { [true] = true }, bucket_size = {}, gradient_shard = { [false] = true },
  sharding = { megatron = true },
  gradient_reduce = { reduce_scatter = true }, cp_kind = { all_gather = true },
  optimizer = { adam = true, adamw = true }, gradients = {}, weights = { bf16 = true }, master = { fp32 = true },
  moments = { fp32 = true }, peft = {}, frozen = {}, packing = {}, objective = { next_token = true },
  pipeline_layout = {}, first_stage_layers = {}, last_stage_layers = {}, account_for_embedding = { [false] = true },
  account_for_loss = { [false] = true }, loss = { ["in-place"] = true }, -- of Megatron-Core unless it is fused
  rank_order = {}, attention = { flash = true }, routing = { pretraining = true, finetuning = true, mock = true },
}

-- Usual values of stacks that differ from tperf's.
local OF_STACK <const> = {
  deepspeed = { cp_kind = { all_to_all = true }, sharding = { deepspeed = true, megatron = true } },
  nanotron = { cp_kind = { ring = true }, loss = { copied = true } },
  torchtitan = { loss = { compiled = true, pytorch = true }, sharding = { fsdp = true, megatron = true } },
}

-- The order of ranks as far as axes of these sizes tell it from the usual one: one that stacks have, or the whole.
local function order_of(n)
  if type(n.rank_order) ~= "string" then return nil end
  local function as(order)
    local names = {}
    for name in order:gmatch "[^-]+" do names[#names + 1] = (n[name] or 1) > 1 and name or nil end
    return table.concat(names, " ")
  end
  local own = as(n.rank_order)
  for _, order in ipairs { rank_order.USUAL, STAGES_INSIDE, EXPERTS_OUTSIDE } do
    if own == as(order) then return order ~= rank_order.USUAL and order or nil end
  end
  return n.rank_order
end

--- Collects the unusual axes of a configuration.
---@param c table  a configuration
---@param question table  the arguments that found it
---@param n table  receives n.axes, sorted names, and n[name], which the stacks' modules read
function axes.copy(c, question, n)
  n.axes = {}
  for _, name in ipairs(check.names(USUAL)) do
    local value = c[name]
    if value == nil then value = question[name] end
    if type(value) == "table" and next(value) == nil and name ~= "peft" then value = nil end
    n[name] = value
  end
  if n.peft then
    local dropout = (n.peft.dropout or 0) > 0 and n.peft.dropout or nil
    n.peft = { kind = n.peft.kind, targets = n.peft.targets, rank = n.peft.rank or RANK, dropout = dropout }
  end
  n.cp_kind = n.cp > 1 and (n.cp_kind or "all_gather") or nil
  if n.ep == 1 then n.moe_dispatcher, n.routing = nil, nil end
  if n.tp == 1 then n.overlap_tp = nil end
  if n.shard == n.dp then n.shard = nil end
  n.rank_order = order_of(n)
end

--- Writes the axes; refuses the first for which the stack has no option.
function axes.put(n, w, stack)
  for _, name in ipairs(check.names(USUAL)) do
    local value = n[name]
    local usual = OF_STACK[stack] and OF_STACK[stack][name] or USUAL[name]
    if value ~= nil and not usual[value] then
      local write = WRITERS[stack][name] or w.cannot(name, shown(value), "is not told it")
      write(w, value, n)
    end
  end
end

return axes
