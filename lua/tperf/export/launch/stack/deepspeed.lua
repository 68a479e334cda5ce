--- Writes a configuration as a DeepSpeed JSON, with the command that uses it.
local format = require "tperf.export.launch.format"
local offloading = require "tperf.export.launch.offloading"
local recomputation = require "tperf.export.launch.recomputation"

local function refuse(n, w)
  if n.ep > 1 then w.cannot("ep", n.ep, "has it in the model's code (ep_size)") end
  if n.experts and n.etp ~= n.tp then w.cannot("etp", n.etp, "cuts experts over tp (AutoTP)") end
  if n.vp > 1 then w.cannot("virtual_stages", n.vp, "has one chunk on a stage") end
  if n.pp > 1 and n.schedule ~= "1f1b" then w.cannot("schedule", n.schedule, "runs 1f1b") end
  if n.pp > 1 and n.zero >= 2 then w.cannot("zero", n.zero, "runs pipelines with ZeRO 0 and 1 only") end
  if n.cp > 1 and n.cp_kind ~= "all_to_all" then w.cannot("cp_kind", n.cp_kind, "exchanges heads (all_to_all)") end
  if n.tp > 1 and n.sequence_parallel then w.cannot("sequence_parallel", true, "has no such split of its tp") end
  recomputation.refuse_parts(n, w)
  offloading.refuse(n, w, true)
end

-- Stages 1 and 2 keep gradients in 16 bits and the optimizer's shard of them in fp32, unless told to add them up in
-- fp32, which in pipelines also reduces them whole (gradient_reduce).
local function put_gradients(n, w)
  local dtype, shard = n.gradients or "fp32", n.gradient_shard or false
  local narrow = dtype == "bf16" and shard
  if n.sharding == "deepspeed" and not n.gradients and not shard then return end
  if n.zero == 1 or n.zero == 2 then
    if narrow then return end
    if dtype ~= "fp32" or shard then w.cannot("gradients", dtype, "keeps fp32, or bf16 with gradient_shard") end
    if n.gradient_reduce == "all_reduce" then return end -- which is told so
    if n.pp > 1 then w.cannot("gradients", dtype, "then reduces whole ones (gradient_reduce = \"all_reduce\")") end
    w.put("data_types.grad_accum_dtype", "fp32")
  elseif dtype ~= "fp32" or shard then
    w.cannot("gradients", dtype, ("keeps them in fp32 under ZeRO %d"):format(n.zero))
  end
end

local function json_value(value) return type(value) == "string" and ('"%s"'):format(value) or tostring(value) end

-- Formats options with at most one dot as nested objects.
local function json(list)
  local lines, i = {}, 1
  while list[i] do
    local section = list[i].option:match "^(.*)%."
    local members = {}
    repeat
      members[#members + 1] = ('"%s": %s'):format(list[i].option:match "[^.]+$", json_value(list[i].value))
      i = i + 1
    until not list[i] or not section or list[i].option:match "^(.*)%." ~= section
    local text = table.concat(members, ", ")
    lines[#lines + 1] = section and ('  "%s": { %s }'):format(section, text) or "  " .. text
  end
  return "{\n" .. table.concat(lines, ",\n") .. "\n}\n"
end

return function(n, w)
  refuse(n, w)
  local told = w.list -- the options of axes.lua, whose sections are the file's
  w.list = {}
  w.put("train_batch_size", n.global_batch)
  w.put("train_micro_batch_size_per_gpu", n.micro_batch)
  w.put("gradient_accumulation_steps", n.microbatches)
  w.put("bf16.enabled", true)
  w.put("zero_optimization.stage", n.zero)
  w.put("zero_optimization.overlap_comm", true)
  if (n.offload_optimizer or 0) > 0 then
    w.put("zero_optimization.offload_optimizer.device", "cpu")
    w.put("zero_optimization.offload_optimizer.ratio", n.offload_optimizer)
  end
  if n.offload_params then w.put("zero_optimization.offload_param.device", "cpu") end
  if n.tp > 1 then w.put("tensor_parallel.autotp_size", n.tp) end
  if n.cp > 1 then w.put("sequence_parallel_size", n.cp) end
  if n.pp > 1 then
    w.put("pipeline.stages", n.pp)
    w.note "pipeline.stages is what the script gives PipelineModule"
  end
  if n.tp > 1 then w.note "tp runs in DeepSpeed's AutoTP: ZeRO 3 does not go with it in all versions" end
  table.move(told, 1, #told, #w.list + 1, w.list)
  put_gradients(n, w)
  local file = json(w.list)
  w.list = {}
  w.put("--deepspeed_config", "ds_config.json")
  w.put("--max_seq_len", n.seq)
  if n.peft then
    w.put("--lora_dim", n.peft.rank)
    if n.peft.dropout then w.put("--lora_dropout", n.peft.dropout) end
    w.put("--only_optimize_lora", true)
  end
  if n.recompute == "full" then w.put("--gradient_checkpointing", true) end
  w.note "train.py stands for your script; its model and data are yours to add"
  local nodes, each = format.nodes(n.gpus, w)
  local command = ("deepspeed --num_nodes %d --num_gpus %d train.py"):format(nodes, each)
  return ("#!/bin/bash\n%scat > ds_config.json <<EOF\n%sEOF\n%s"):format(format.notes(w.notes), file,
    format.command(command, w.list))
end
