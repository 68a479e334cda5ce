--- ms-swift's `megatron sft` and `megatron pt`: Megatron's options for a model of Hugging Face's hub.
local common = require "tperf.import.launch.stack.common"
local megatron = require "tperf.import.launch.stack.megatron"

local swift = {}

-- Adapters; those of chosen modules, and other tuners, are refused as options that are not in the prediction.
local function peft(s)
  local tuner, modules = s.by_option["--tuner_type"], s.by_option["--target_modules"]
  local value = modules and modules.value
  if type(value) == "table" and #value == 1 then value = value[1] end
  local all = not modules or value == "all-linear"
  if not tuner or tuner.value ~= "lora" or not all then return nil end
  s:set "--tuner_type"
  s:set "--target_modules"
  return { rank = s:get "--lora_rank", targets = "all-linear", dropout = s:get "--lora_dropout" }
end

-- Objectives that are predicted; others are refused as options that are not in the prediction.
local function objective(s, context, axes)
  local name, loss = s:get "--rlhf_type", s.by_option["--loss_type"]
  if name == "sft" or name == "dpo" then s:set "--rlhf_type" end
  if name == "dpo" and loss and loss.value == "sigmoid" then s:set "--loss_type" end
  if name == "dpo" then axes.objective = "dpo" end
  if not (context.program or ""):find "pt" then axes.routing = axes.routing or "finetuning" end
  return s:get "--task_type"
end

-- A classifier of sequences has a head of its labels; other tasks are refused.
local function task(s, r, name)
  local labels = s.by_option["--num_labels"]
  if name == "seq_cls" and labels then
    r.model_changes = r.model_changes or {}
    r.model_changes.classes = s:set "--num_labels"
  elseif name ~= "causal_lm" then
    s.by_option["--task_type"].read = false
  end
end

local RARE <const> = 1.5 -- times the mean load: experts seldom have more

-- A capacity without padding drops tokens of the busiest experts alone; a small one is refused.
local function capacity(s, context)
  local option = s.by_option["--moe-expert-capacity-factor"]
  if not option or s:get "--moe-pad-expert-input-to-capacity" then return end
  option.read = option.value >= RARE
  if option.read then
    context.assume("experts drop no tokens: their capacity is %g times the mean load", option.value)
  end
end

function swift.read(s, context)
  local r = megatron.read(s, context)
  local name = objective(s, context, r.axes)
  local chunks = s:set "--virtual_pipeline_model_parallel_size"
  r.vp = chunks and common.size(context, chunks, "--virtual_pipeline_model_parallel_size") or r.vp
  r.seq = common.size(context, s:set "--packing_length" or s:set "--max_length", "--max_length")
  s:set "--max_length"
  if not s:get "--packing" then context.assume "every sequence has --max_length tokens, without --packing" end
  if s:get "--recompute-granularity" == "none" then r.recompute = { granularity = "none" } end
  r.model_name, r.model, r.peft = s:set "--model", nil, peft(s)
  common.predicted_layers(r, context, s:get "--mtp-num-layers" or 0,
    "multi-token prediction has the layers of --mtp_num_layers, which are none unless it is said")
  task(s, r, name)
  capacity(s, context)
  return r
end

return swift
