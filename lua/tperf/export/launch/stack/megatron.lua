--- Writes a configuration as a Megatron-LM script.
local format = require "tperf.export.launch.format"
local megatron_model = require "tperf.export.launch.megatron_model"
local names = require "tperf.import.launch.stack.core.model".megatron
local offloading = require "tperf.export.launch.offloading"
local precision = require "tperf.export.launch.precision"
local recomputation = require "tperf.export.launch.recomputation"

local SHARDING <const> = { [2] = "optim_grads", [3] = "optim_grads_params" }

local OFFLOAD <const> = {
  optimizer = "--optimizer-cpu-offload", fraction = "--optimizer-offload-fraction",
  layers = "--cpu-offloading-num-layers", fine = "--fine-grained-activation-offloading", modules = "--offload-modules",
}

local function pipelines(n, w)
  if n.pp == 1 then
    if n.vp > 1 then w.cannot("virtual_stages", n.vp, "interleaves only with pp above 1") end
    return
  end
  if n.schedule ~= "1f1b" and n.schedule ~= "interleaved_1f1b" then
    w.cannot("schedule", n.schedule, "runs 1f1b and interleaved_1f1b")
  end
  if n.vp > 1 then w.put("--num-virtual-stages-per-pipeline-rank", n.vp) end
  if n.vp > 1 and n.microbatches % n.pp ~= 0 then
    w.note("most versions want pp to divide the %d micro-batches when they interleave", n.microbatches)
  end
end

local function sharding(n, w)
  if n.zero == 1 then
    w.put("--use-distributed-optimizer", true)
  elseif n.zero >= 2 then
    w.put("--use-megatron-fsdp", true)
    w.put("--data-parallel-sharding-strategy", SHARDING[n.zero])
    w.put("--no-gradient-accumulation-fusion", true)
  end
  if n.overlap_grad_reduce ~= false then w.put("--overlap-grad-reduce", true) end
  if n.zero > 0 and n.overlap_param_gather ~= false then w.put("--overlap-param-gather", true) end
end

-- Options that are no field of the model's reader: switches, and what two options say together.
local SWITCHES <const> = { swiglu = "--swiglu", quick_geglu = "--quick-geglu", squared_relu = "--squared-relu",
  no_linear_bias = "--disable-bias-linear", untied = "--untie-embeddings-and-output-weights", gelu = false,
  router_bias = "--moe-router-enable-expert-bias" }

local function model(m, w)
  megatron_model(m, w, function(field, value)
    if value == nil or SWITCHES[field] == false then return end
    if field == "groups" then w.put("--group-query-attention", true) end
    w.put(SWITCHES[field] or field == "vocab" and "--vocab-size" or names[field], value)
  end)
  if not m.experts then return end
  if w.by_name["--moe-token-dispatcher-type"] == nil then w.put("--moe-token-dispatcher-type", "alltoall") end
  w.put("--moe-grouped-gemm", true)
end

return function(n, w)
  w.put("--tensor-model-parallel-size", n.tp)
  w.put("--pipeline-model-parallel-size", n.pp)
  if n.cp > 1 then
    w.put("--context-parallel-size", n.cp)
    w.put("--cp-comm-type", n.cp_comm_type)
  end
  if n.experts or n.ep > 1 then
    if n.ep > 1 and n.tp > 1 and not n.sequence_parallel then
      w.cannot("sequence_parallel", false, "needs it for experts under tp")
    end
    if not n.model then w.cannot("ep", n.ep, "needs the model's experts: give the model") end
    w.put("--expert-model-parallel-size", n.ep)
    w.put("--expert-tensor-parallel-size", n.etp)
  end
  if n.sequence_parallel then w.put("--sequence-parallel", true) end
  pipelines(n, w)
  sharding(n, w)
  w.put("--micro-batch-size", n.micro_batch)
  w.put("--global-batch-size", n.global_batch)
  w.put("--seq-length", n.seq)
  if n.iterations then w.put("--train-iters", n.iterations) end
  recomputation.put(n, w, function(part) return "--recompute-" .. part:gsub("_", "-") end)
  offloading.put(n, w, OFFLOAD)
  w.put("--bf16", true)
  precision.put(n, w, function(part) return "--" .. part:gsub("_", "-") end)
  if n.model then model(n.model, w) else w.note "the model's own arguments are not here: no model was given" end
  w.note "bf16 with gradients reduced in fp32, Adam with fp32 states and master weights"
  w.note "data, tokenizer, learning rate and checkpoints are yours to add"
  local nodes, each = format.nodes(n.gpus, w)
  local command = ("torchrun --nproc_per_node %d --nnodes %d pretrain_gpt.py"):format(each, nodes)
  return "#!/bin/bash\n" .. format.notes(w.notes) .. format.command(command, w.list)
end
