--- Writes a configuration as torchtitan's TOML.
local flavors = require "tperf.import.launch.stack.core.flavors"
local format = require "tperf.export.launch.format"
local recompute = require "tperf.describe.arch.recompute"
local offloading = require "tperf.export.launch.offloading"
local recomputation = require "tperf.export.launch.recomputation"

local SCHEDULES <const> = { ["1f1b"] = "1F1B", gpipe = "GPipe", interleaved_1f1b = "Interleaved1F1B",
  zbv = "ZBVZeroBubble", dualpipe_v = "DualPipeV" }
local LOOPED <const> = { interleaved_1f1b = true }
local V <const> = { zbv = true, dualpipe_v = true }

-- The layers per stage for so many stages; embedding and head count as one layer each.
local function layers_of_stage(n, w)
  if not n.model then w.cannot("virtual_stages", n.vp, "is told the layers of a stage: give the model") end
  local units, stages = n.model.layers + 2, n.pp * n.vp
  local each = -(-units // stages)
  if -(-units // each) ~= stages then
    w.cannot("virtual_stages", n.vp, ("cannot cut %d layers into %d stages"):format(n.model.layers, stages))
  end
  return each
end

local function pipelines(n, w)
  w.put("parallelism.pipeline_parallel_degree", n.pp)
  if n.pp == 1 then
    if n.vp > 1 then w.cannot("virtual_stages", n.vp, "interleaves only with pp above 1") end
    return
  end
  local schedule = n.schedule == "1f1b" and n.vp > 1 and "interleaved_1f1b" or n.schedule
  local name = SCHEDULES[schedule] or w.cannot("schedule", n.schedule, "has no such schedule")
  if LOOPED[schedule] and n.vp == 1 then w.cannot("virtual_stages", 1, "interleaves two stages of a rank or more") end
  w.put("parallelism.pipeline_parallel_schedule", name)
  w.put("parallelism.pipeline_parallel_microbatch_size", n.micro_batch)
  if LOOPED[schedule] and n.vp ~= 2 then w.put("parallelism.pipeline_parallel_layers_per_stage", layers_of_stage(n,
    w)) end
  if V[schedule] then w.note "the V-shaped schedule has two stages on a rank" end
end

local function sharding(n, w)
  local replicate, shard = n.zero == 0, n.shard or n.dp
  local repeats = n.ep > 1 and n.tp > n.ep * n.etp -- experts, without dp
  if replicate and (n.cp > 1 or repeats) then w.cannot("zero", 0, "shards weights over cp and repeated experts") end
  if (n.zero == 1 or n.zero == 2) and (n.dp * n.cp > 1 or repeats) then
    w.cannot("zero", n.zero, "shards weights too (3, with or without reshard_after_forward) or nothing (0)")
  end
  w.put("parallelism.data_parallel_replicate_degree", replicate and n.dp or n.dp // shard)
  w.put("parallelism.data_parallel_shard_degree", replicate and 1 or shard)
  if n.zero == 3 then w.put("parallelism.fsdp_reshard_after_forward", n.reshards and "always" or "never") end
end

local function model(n, w)
  if n.model and n.model.mtp > 0 then
    w.cannot("model", n.model.name, "cannot be told of prediction modules: ask for it with mtp = 0")
  end
  local name, flavor
  if n.model then name, flavor = flavors.of(n.model) end
  if not name then
    return w.note("model.name and model.flavor are not here: torchtitan has no flavor that is %s",
      n.model and n.model.name or "it")
  end
  w.put("model.name", name)
  w.put("model.flavor", flavor)
end

local function experts(n, w)
  if not n.experts and n.ep == 1 then return end
  if n.ep == 1 and n.etp ~= n.tp then w.cannot("etp", n.etp, "cuts experts over tp unless ep shares them") end
  local shard = n.zero == 0 and 1 or n.shard or n.dp
  if shard * n.cp * n.tp % (n.ep * n.etp) ~= 0 then
    w.cannot("ep", n.ep, ("takes its ranks out of shard x cp x tp = %d"):format(shard * n.cp * n.tp))
  end
  if n.ep == 1 then return end
  if n.etp ~= 1 and n.etp ~= n.tp then w.cannot("etp", n.etp, "cuts experts over tp, or not at all") end
  w.put("parallelism.expert_parallel_degree", n.ep)
  w.put("parallelism.expert_tensor_parallel_degree", n.etp)
end

local function toml(list)
  local lines, open = {}, nil
  for _, one in ipairs(format.grouped(list, "^(.*)%.")) do
    local section, key = one.option:match "^(.*)%.([^.]+)$"
    if section ~= open then lines[#lines + 1] = ("\n[%s]"):format(section) end
    open = section
    local value = tostring(one.value)
    if type(one.value) == "string" then value = ('"%s"'):format(value) end
    if type(one.value) == "table" then value = ('["%s"]'):format(table.concat(one.value, '", "')) end
    lines[#lines + 1] = ("%s = %s"):format(key, value)
  end
  return table.concat(lines, "\n") .. "\n"
end

return function(n, w)
  if n.tp > 1 and not n.sequence_parallel then w.cannot("sequence_parallel", false, "always has it with tp") end
  model(n, w)
  w.put("training.local_batch_size", n.pp > 1 and n.micro_batch * n.microbatches or n.micro_batch)
  w.put("training.global_batch_size", n.global_batch)
  w.put("training.seq_len", n.seq)
  if n.iterations then w.put("training.steps", n.iterations) end
  sharding(n, w)
  w.put("parallelism.tensor_parallel_degree", n.tp)
  w.put("parallelism.context_parallel_degree", n.cp)
  pipelines(n, w)
  experts(n, w)
  if n.compile then w.put("compile.enable", true) end
  recomputation.refuse_kept(n, w)
  local every = n.recompute_method == "every"
  if n.recompute_method == "block" then w.cannot("recompute_method", "block", "recomputes every N-th layer or all") end
  local operators = n.recompute_modules and n.recompute_modules[1] == recompute.operators
  if n.recompute_modules and not operators then
    w.cannot("recompute_modules", n.recompute_modules[1], "knows no modules")
  end
  recomputation.refuse_groups(n, w)
  offloading.refuse(n, w)
  w.put("activation_checkpoint.mode", every and "selective" or n.recompute)
  if every then
    w.put("activation_checkpoint.selective_ac_option", tostring(n.recompute_num_layers or 1))
  elseif n.recompute == "selective" then
    w.put("activation_checkpoint.selective_ac_option", "op")
  end
  local recipe = n.precision:match "^fp8%-(.*)$"
  if recipe then
    w.put("model.converters", { "float8" })
    w.put("quantize.linear.float8.recipe_name", n.wide_weight_grad and recipe .. "_with_gw_hp" or recipe)
    if n.narrow_gather then w.put("quantize.linear.float8.enable_fsdp_float8_all_gather", true) end
  end
  w.note("%d GPUs: torchrun says it", n.gpus)
  w.note "parameters and states in fp32, products in bf16; dataset, optimizer and checkpoints are yours to add"
  return format.notes(w.notes) .. toml(w.list)
end
