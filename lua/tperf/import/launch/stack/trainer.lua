--- Trainers that pass on the options of Hugging Face's: TRL, Axolotl, LLaMA-Factory, ms-swift's `swift`. Each one's
--- table says which concept an option sets; this module reads concepts.
local accelerate = require "tperf.import.launch.stack.accelerate"
local checkpoints = require "tperf.import.launch.arguments.checkpoints"
local common = require "tperf.import.launch.stack.common"
local offloading = require "tperf.import.launch.arguments.offloading"
local launch_axes = require "tperf.import.launch.arguments.axes"
local deepspeed = require "tperf.import.launch.stack.deepspeed"
local roots = require "tperf.base.roots"
local models = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local tuning = require "tperf.describe.tuning"

local trainer = {}

-- Whether an option of a concept is on; all that are on count as read.
local function any(s, concept)
  local on = false
  for _, entry in ipairs(s.list) do
    local off = entry.value == false or entry.value == "false" or entry.value == "none"
    if entry.concept == concept and not off then
      entry.read, on = true, true
    end
  end
  return on
end

-- The value of a concept in lower case; nil if none is set and there is no default.
local function word(s, concept)
  local value = s:concept(concept)
  return value ~= nil and tostring(value):lower() or nil
end

-- The options of a concept count as read: another option leaves them without effect.
local function without_effect(s, ...)
  for _, concept in ipairs { ... } do
    for _, entry in ipairs(s.list) do
      if entry.concept == concept then entry.read = true end
    end
  end
end

-- Marks the options of a concept as not read: no prediction has them.
local function unread(s, concept)
  for _, entry in ipairs(s.list) do
    if entry.concept == concept then entry.read = false end
  end
end

-- Optimizers by Hugging Face's names: { tperf's, dtype of moments }.
local ADAM <const>, ADAM_8BIT <const> = { "adam" }, { "adam_8bit" }
local OPTIMIZERS <const> = {
  adamw_torch = ADAM, adamw_torch_fused = ADAM, adamw_hf = ADAM, adamw_apex_fused = ADAM, adamw = ADAM,
  paged_adamw_32bit = ADAM, paged_adamw = ADAM, adamw_8bit = ADAM_8BIT, adamw_bnb_8bit = ADAM_8BIT,
  paged_adamw_8bit = ADAM_8BIT, adamw_torch_8bit = ADAM_8BIT, ao_adamw_8bit = ADAM_8BIT,
  adamw_torch_4bit = { "adam", "int4" }, ao_adamw_4bit = { "adam", "int4" }, adafactor = { "adafactor" },
  sgd = { "sgd_without_momentum" }, lion_32bit = { "lion" }, paged_lion_32bit = { "lion" }, muon = { "muon" },
  dist_muon = { "muon" },
}

local function optimizer(s, axes)
  if any(s, "optimizer.muon") then
    axes.optimizer = "muon"
    return
  end
  for i = #s.list, 1, -1 do
    local entry = s.list[i]
    local plugin = entry.concept == "optimizer.plugin"
    if plugin or entry.concept == "optimizer" then
      local known = OPTIMIZERS[tostring(entry.value):lower()]
      if not known then return end -- refused as an option that is not in the prediction
      entry.read = true
      if known ~= ADAM then axes.optimizer, axes.moments = known[1], known[2] end
      return
    end
  end
end

-- Adapters by the stacks' names, and what trains all weights.
local LORA <const> = { lora = "lora", qlora = "qlora", ["true"] = "lora" }
local WHOLE <const> = { full = true, none = true, ["false"] = true }
local EVERY <const> = { all = true, ["all-linear"] = true }
-- PEFT's usual targets of LLaMA's and Qwen's families (peft/utils/constants.py).
local USUAL <const> = { "q_proj", "v_proj" }

local known_targets = {}
for _, name in ipairs(tuning.targets) do known_targets[name] = true end

-- The modules that a pattern names: its last part, with the alternatives of a group, as in ".*\.(q|k|v)_proj".
local function alternatives(pattern)
  local last = pattern:gsub("%$$", ""):match "([%w_]*%b()[%w_]*)$" or pattern:match "([%w_]+)%$?$" or pattern
  local before, group, after = last:match "^([%w_]*)(%b())([%w_]*)$"
  if not before then return { last } end
  local list = {}
  for one in group:gmatch "[%w_]+" do list[#list + 1] = before .. one .. after end
  return list
end

-- The modules with adapters; nil if one of them is no product of a layer.
local function targets_of(s, context)
  local value = s:concept "peft.targets"
  if any(s, "peft.all") then return "all-linear" end
  if value == nil then
    context.assume "adapters are beside q_proj and v_proj, as PEFT has it where none are named"
    return USUAL
  end
  local list, seen = {}, {}
  local given = type(value) == "table" and value or { value }
  if #given == 1 and EVERY[given[1]] then return "all-linear" end -- one word, or a list of one, as parsers make it
  for _, text in ipairs(given) do
    for name in tostring(text):gmatch "[^%s,]+" do
      for _, one in ipairs(alternatives(name)) do
        if not known_targets[one] then return nil end
        if not seen[one] then list[#list + 1] = one end
        seen[one] = true
      end
    end
  end
  return list
end

-- Bits of frozen weights that bitsandbytes stores: 4, 8; nil: as the model has them.
local function bits_of(s)
  local bits, method = s:concept "quant.bits", word(s, "quant.method") or "bnb"
  if bits == nil then
    local four, eight = any(s, "quant.4bit"), any(s, "quant.8bit")
    return four and 4 or eight and 8 or nil
  end
  if (bits == 4 or bits == 8) and (method == "bnb" or method == "bitsandbytes") then return bits end
  unread(s, "quant.bits")
  unread(s, "quant.method")
end

-- The products of experts by the names of their parameters: mlp.experts.gate_up_proj.
local EXPERT_PRODUCTS <const> = { gate_up_proj = true, down_proj = true }

-- The products of routed experts that have adapters; nil if a name is none of them.
local function expert_targets(s)
  local list = {}
  local value = s:concept "peft.parameters"
  for _, name in ipairs(type(value) == "table" and value or { value }) do
    local last = tostring(name):match "experts.*%.([%w_]+)$"
    if not EXPERT_PRODUCTS[last] then return nil end
    list[#list + 1] = last
  end
  return list
end

-- Axolotl's experts are those of transformers 5: one parameter for all, which no name of a module means and which
-- bitsandbytes leaves as they are, unless options say otherwise (its docs/expert_quantization.qmd).
-- Checkpoints that say bnb, or whose experts are linear layers, have modules of each expert.
local function experts_of(s, context, bits)
  local said = tostring((s:concept "model.name"))
  local name = s.table.stack == "Axolotl" and checkpoints.model(said)
  local quantised, apart = any(s, "quant.experts"), s.by_option.llama4_linearized_experts
  if not name or not models(name).experts or apart and apart.value == true or said:lower():find "%-bnb%-" then
    return nil
  end
  local targets = expert_targets(s)
  if not targets then unread(s, "peft.parameters") end
  if not (targets and targets[1]) then
    context.assume "routed experts have no adapters: they are one parameter, which the targets do not name"
  else
    context.assume "adapters of experts run as products of their own, as in ScatterMoE's kernels"
  end
  if bits and not quantised then context.assume "routed experts are not quantised, for they are one parameter" end
  return { targets = targets and targets[1] and targets or nil, bits = bits and quantised and bits or nil }
end

-- Whether the settings are of LLaMA-Factory's v1, whose files say `model`: its defaults are its own.
local function first_version(s) return s.table.stack == "LLaMA-Factory" and s.by_option.model ~= nil end

local PEFT <const> = { "peft.kind", "peft.rank", "peft.dropout", "peft.targets", "peft.all" }

local function peft(s, context)
  local kind = word(s, "peft.kind")
  if first_version(s) and not s.by_option["peft_config.name"] then kind = nil end
  if kind == nil or WHOLE[kind] then
    without_effect(s, table.unpack(PEFT))
    bits_of(s) -- of all weights, which is refused
    for _, concept in ipairs { "quant.4bit", "quant.8bit", "quant.bits" } do unread(s, concept) end
    return nil
  end
  if not LORA[kind] then
    unread(s, "peft.kind")
    return nil
  end
  local targets = targets_of(s, context)
  if not targets then unread(s, "peft.targets") end
  local bits = bits_of(s) or LORA[kind] == "qlora" and 4 or nil
  if bits == 8 then context.assume "LLM.int8()'s products take as long as those of 16 bits, beside its conversions" end
  return { kind = bits and "qlora" or "lora", bits = bits == 8 and 8 or nil, rank = s:concept "peft.rank",
    targets = targets, experts = experts_of(s, context, bits), dropout = tonumber((s:concept "peft.dropout")) }
end

-- What trainers call their objectives: { objective, whether a reference model runs, rows of the head in place of a
-- table }. A reward model scores both sequences of a pair (TRL, trainer/reward_trainer.py); one of a process scores
-- tokens as right or wrong.
local OBJECTIVES <const> = { sft = {}, pt = {}, pretrain = {}, causal_lm = {}, dpo = { "dpo", true },
  orpo = { "dpo", false }, simpo = { "dpo", false }, cpo = { "dpo", false }, rm = { "dpo", false, 1 },
  reward = { "dpo", false, 1 }, prm = { nil, false, 2 } }

local PRETRAINS <const> = { pt = true, pretrain = true }

-- A head of classes takes the place of the table.
local function classes(context, r, rows)
  if not rows then return end
  r.model_changes = r.model_changes or {}
  r.model_changes.classes = rows
  if r.peft then context.assume("the head of %d classes is frozen: PEFT trains it whole, beside the adapters", rows) end
end

-- Whether a task trains a classifier of sequences, whose head has as many rows as there are labels.
local function classifies(s)
  local labels = math.tointeger(tonumber((s:concept "classes")))
  return word(s, "task") == "seq_cls" and labels or nil
end

-- Checkpoints of fewer bits, by their names, are trained as they are unless they are dequantised: no prediction has it
-- but that of bitsandbytes' formats.
local function stored(s, context, r)
  local method = checkpoints.quantization(r.model_name)
  local known = not method or method == "bf16" or any(s, "quant.dequantized") or r.peft and r.peft.kind == "qlora"
  if not known then context.refuse("weights of " .. r.model_name, "in fewer bits") end
end

local function objective(s, context, axes, r)
  local usual = any(s, "objective.reward") and "reward" or any(s, "objective.process") and "prm"
    or context.program and context.program:match "^(%a+)" or "sft"
  local name = word(s, "objective") or usual
  local loss = word(s, "loss.kind")
  local known = OBJECTIVES[name == "dpo" and (loss == "orpo" or loss == "simpo") and loss or name]
  if known and known[3] and s.table.stack == "LLaMA-Factory" then known = nil end -- its head stands beside the table
  if not known then
    local said = s:has "objective"
    unread(s, "objective")
    if not said then context.refuse("objective", name) end
    return
  end
  axes.objective = known[1]
  classes(context, r, known[3] or classifies(s))
  if first_version(s) and not s:has "objective" then
    context.assume "the command is sft: a file of v1 does not say whether it is sft or dpo"
  end
  if not PRETRAINS[name] then axes.routing = "finetuning" end
  if known[1] and (not known[2] or any(s, "reference.precomputed")) then axes.reference = "precomputed" end
end

local SHARDED <const> = { full_shard = true, shard_grad_op = false, ["1"] = true, ["2"] = false }

-- Sets FSDP's sharding; returns whether the host holds parameters.
local function fsdp(s, r)
  local named = s:concept "fsdp"
  local strategy = word(s, "fsdp.strategy")
  local version = tonumber((s:concept "fsdp.version")) or 1
  local text = type(named) == "table" and table.concat(named, " ") or tostring(named or "")
  strategy = strategy or text:match "full_shard" or text:match "shard_grad_op" or "full_shard"
  local reshard = word(s, "fsdp.reshard")
  local keeps = version >= 2 and reshard == "false" or SHARDED[strategy] == false
  common.fsdp(r, not keeps)
  return text:find "offload" ~= nil
end

-- A stage by the name of a configuration that is not at hand: zero2, ds_z3_config.json, deepspeed_zero3.yaml.
local function stage_of_name(name)
  name = roots.last(name):lower()
  return math.tointeger(tonumber(name:match "zero[_-]?(%d)" or name:match "z(%d)" or name:match "stage[_-]?(%d)"))
end

local function by_name(context, r, name)
  r.zero = stage_of_name(name)
  if not r.zero then context.fail("%s is not there: give it among the files", name) end
  context.assume("%s is not at hand: ZeRO %d, as its name says", name, r.zero)
  if name:lower():find "offload" then
    r.offload = { optimizer = "cpu", params = r.zero == 3 and "cpu" or nil }
    r.offloading = { optimizer = 1.0, params = r.zero == 3 or nil }
  end
end

local function of_launcher(context, r)
  local name = context.launcher_name
  if context.launcher then
    local a = accelerate.read(context.launcher, context)
    for _, field in ipairs { "gpus", "zero", "reshard_after_forward", "offload", "offloading" } do
      r[field] = a[field] == nil and r[field] or a[field]
    end
    r.tp, r.cp, r.shard, r.recompute = a.tp, a.cp, a.axes and a.axes.shard, a.recompute
    local kind = tostring(context.launcher:get "distributed_type")
    return kind == "DEEPSPEED" and "deepspeed" or kind == "FSDP" and "fsdp" or "ddp"
  end
  local plain = roots.last(name):lower()
  if plain:find "fsdp" then
    common.fsdp(r, true)
    context.assume("%s is not at hand: FSDP, as its name says", name)
    return "fsdp"
  end
  if plain:find "gpu" or plain:find "ddp" then
    context.assume("%s is not at hand: replicas without shards, as its name says", name)
    return "ddp"
  end
  by_name(context, r, name)
  return "deepspeed"
end

-- The engine, "deepspeed", "fsdp" or "ddp"; sets its ZeRO stage.
local function engine(s, context, r)
  r.zero = 0
  local named = s:concept "stack.config"
  local kind = word(s, "stack.engine") or ""
  if context.config then
    deepspeed.stages(context.config, context, r)
    return "deepspeed"
  elseif named and tostring(named) ~= "None" then
    by_name(context, r, tostring(named))
    return "deepspeed"
  elseif context.launcher or context.launcher_name then
    return of_launcher(context, r)
  elseif kind == "fsdp2" or s:has "fsdp" or s:has "fsdp.version" or s:has "fsdp.strategy" or s:has "dp.shard" then
    local by_word, option = fsdp(s, r), s.by_option["fsdp_config.offload_params"]
    if by_word or option and option.value == true then r.offload, r.offloading = { params = "cpu" }, offloading.fsdp end
    if option then option.read = true end
    return "fsdp"
  elseif any(s, "zero.distributed") then
    r.zero = 1
  end
  if kind ~= "" then unread(s, "stack.engine") end
  return "ddp"
end

-- GPUs and degrees. A launcher's configuration may have set some.
local function degrees(s, context, r)
  local function size(concept) return common.size(context, s:concept(concept), concept) end
  r.tp, r.pp = r.tp or size "tp" or 1, size "pp" or 1
  r.cp, r.ep = math.max(r.cp or 1, size "cp" or 1), size "ep" or 1
  local shard, replicate = size "dp.shard", size "dp.replicate"
  context.gpus = context.gpus or r.gpus or size "cluster.gpus"
  local product = shard and shard * (replicate or 1) * r.tp * r.cp * r.pp
  if not context.gpus and not context.gpus_otherwise then
    context.gpus = product or context.devices == 1 and 1 or nil
  end
  r.gpus = common.gpus(context)
  r.dp = common.divided(context, r.gpus, r.tp * r.pp * r.cp, "tp x pp x cp in the GPUs")
  if shard and shard < r.dp then r.shard = shard end
  r.vp, r.etp, r.moe_dispatcher = 1, 1, word(s, "moe.dispatcher")
  if r.ep == 1 then r.etp_of_experts = r.tp end
  local ring = word(s, "cp.algorithm")
  r.cp_kind = common.cp_kind(context, r, nil, ring and ring:find "^batch" and "ring" or ring == "varlen_llama3"
    and "all_gather" or s.table.stack == "Axolotl" and "all_gather" or "all_to_all")
end

local SWIFTS <const> = 16 -- ms-swift's sequences in a step, unless the accumulation is said

local function batches(s, context, r)
  r.micro_batch = common.size(context, s:concept "micro_batch", "the micro batch")
  local steps = common.size(context, s:concept "grad_accumulation", "the accumulation")
  local whole = common.size(context, s:concept "global_batch", "the global batch")
  local total = s:concept "batch.total" -- of a device
  if total and not s:has "grad_accumulation" then
    steps = common.divided(context, total, r.micro_batch, "the micro batch in batch_size")
  end
  if not steps then steps = math.max(1, -(-SWIFTS // (r.micro_batch * r.dp))) end
  r.global_batch = whole or r.micro_batch * steps * r.dp
  common.batches(context, r)
end

local function sequence(s, context, r)
  local packed = any(s, "packing") or (word(s, "packing.strategy") or "normal") ~= "normal"
  local length = packed and s:concept "packing.length" or nil
  without_effect(s, "packing.length", "seq", "padding_free", "padded", "packing")
  r.seq = common.size(context, length or s:concept "seq", "the sequence")
  if not r.seq then
    context.assume "sequences are as long as the model's description has them: the launch does not say it"
  elseif not packed then
    context.assume(("every sequence has %d tokens, the most that it may have, without packing"):format(r.seq))
  end
end

-- Dtypes of the states. Weights that are loaded in 16 bits and trained as they are have no wider copy; FSDP and
-- autocast keep them in fp32.
local function states(s, axes, kind, r)
  local dtype = common.dtype(s:concept "dtype.weights" or "")
  local pure = any(s, "dtype.pure")
  local stack = s.table.stack
  local narrow = pure or stack == "ms-swift" and dtype ~= "fp32" or dtype == "bf16"
    or stack == "Axolotl" and dtype ~= "fp32"
  if r.peft then return end
  if kind == "deepspeed" then
    launch_axes.deepspeed_states(axes, r.zero)
  elseif kind == "ddp" and narrow then
    axes.weights, axes.master, axes.gradients = "bf16", "none", "bf16"
    axes.moments = axes.moments or axes.optimizer == nil and "bf16" or nil
  else
    axes.weights = "fp32"
  end
end

-- The cross-entropy. Liger's and Cut Cross-Entropy's make logits in chunks.
local function loss_of(s, liger)
  local plugins, said = s:concept "plugins", s:has "loss.chunked"
  for _, name in ipairs(type(plugins) == "table" and plugins or { plugins }) do
    if tostring(name):find "cut_cross_entropy" and not said then return "chunked" end -- on unless its option is off
  end
  local usual = liger and s.table.stack ~= "Axolotl" -- where each of Liger's kernels has its own option
  return (any(s, "loss.chunked") or usual) and "chunked" or "pytorch"
end

local function kernels(s, axes, r)
  local liger = any(s, "liger")
  axes.compile, axes.loss = any(s, "compile") or liger, loss_of(s, liger)
  local name = word(s, "attention.backend") or ""
  without_effect(s, "attention.flash", "loss.chunked")
  r.attention = (name == "eager" or name == "disabled" or any(s, "attention.eager")) and "unfused" or nil
end

local function recomputation(s)
  local on = any(s, "recompute") or s:concept "recompute" == true
  for _, entry in ipairs(s.list) do
    if entry.concept == "recompute" then entry.read = entry.value ~= "offload" and entry.value ~= "offload_disk" end
  end
  if s:has "recompute.granularity" then return { granularity = word(s, "recompute.granularity") } end
  if any(s, "recompute.off") then on = false end
  without_effect(s, "recompute.off")
  return { granularity = on and "full" or "none" }
end

-- What Axolotl's `activation_offloading` copies to the host beside the passes (its docs/gradient_checkpointing.qmd): of
-- adapters' training all that a layer saves, in place of recomputation, else what recomputation keeps, the layers'
-- inputs. Copies that passes wait for ("legacy") and disks are refused.
local function activations(s, r)
  if s.table.stack ~= "Axolotl" then return end
  local mode = tostring((s:concept "offload.activations"))
  local older = s.by_option.gradient_checkpointing
  local all = mode == "true" or older and older.value == "offload"
  if not all and mode ~= "hidden_states" then return unread(s, "offload.activations") end
  local known, held = checkpoints.model((s:concept "model.name")), {}
  for name, value in pairs(r.offloading or {}) do held[name] = value end
  if all and r.peft and known then
    r.recompute, held.layers = { granularity = "none" }, models(known).layers
  else
    r.recompute, held.modules = { granularity = "full" }, { "attn_norm" }
  end
  if older then older.read = true end
  r.offloading = held
end

local OFF <const> = { ["optimizer.variant"] = true, ["fp8.recipe"] = true }

-- Options of a variant that is off, or that train as usual, have no effect.
local function usual(s, context)
  local on = {}
  for _, entry in ipairs(s.list) do
    if OFF[entry.concept] and entry.value == true then on[entry.concept] = true end
  end
  for concept in pairs(OFF) do
    if not on[concept] then without_effect(s, concept) end
  end
  local task = word(s, "task")
  if task ~= "causal_lm" and not classifies(s) then unread(s, "task") end
  if any(s, "quant.dequantized") then without_effect(s, "quant.load") end
  local follows = first_version(s) or s.table.stack == "ms-swift" -- bf16 unless the file says otherwise
  local off = word(s, "dtype.bf16") == "false" and (s:has "dtype.bf16" or not follows)
  if off and not any(s, "dtype.fp16") then
    context.assume "products in bf16, although bf16 is off: training in fp32 is not modelled for this stack"
  end
  without_effect(s, "dtype.bf16", "dtype.fp16", "sequence_parallel", "launcher.config", "stack.options")
  local device = word(s, "device_map")
  if device == "auto" then unread(s, "device_map") end
end

function trainer.read(s, context)
  if s:set "export_dir" and not s:has "objective" then context.fail "exports a model and trains none" end
  local r, found = {}, {}
  local kind = engine(s, context, r)
  degrees(s, context, r)
  batches(s, context, r)
  sequence(s, context, r)
  r.model_name = s:concept "model.name"
  common.predicted_layers(r, context, 0, "no layers of multi-token prediction: Transformers' classes leave them out")
  r.peft = peft(s, context)
  stored(s, context, r)
  optimizer(s, found)
  objective(s, context, found, r)
  states(s, found, kind, r)
  kernels(s, found, r)
  local own = recomputation(s)
  if own.granularity ~= "none" or not r.recompute then r.recompute = own end
  activations(s, r)
  usual(s, context)
  r.precision, r.sequence_parallel = { compute = "bf16" }, r.tp > 1 and s:concept "sequence_parallel" == true
  found.shard = r.zero > 0 and r.shard or nil
  r.axes = found
  return r
end

return trainer
