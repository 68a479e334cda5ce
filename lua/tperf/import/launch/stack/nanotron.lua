--- nanotron: its YAML gives every degree; the number of GPUs is their product.
local axes = require "tperf.import.launch.arguments.axes"
local common = require "tperf.import.launch.stack.common"

local nanotron = {}

local function required(s, context, option)
  local value = s:set(option)
  return common.size(context, value, option) or context.fail("%s is missing", option)
end

local function model(s, context)
  local m = "model.model_config."
  local heads = s:get(m .. "num_attention_heads")
  local one = {
    layers = s:get(m .. "num_hidden_layers"), hidden = s:get(m .. "hidden_size"), heads = heads,
    kv_heads = s:get(m .. "num_key_value_heads") or heads, ffn = s:get(m .. "intermediate_size"),
    vocab = s:get(m .. "vocab_size"), gated = true, tied_embeddings = s:get(m .. "tie_word_embeddings"),
    norm = "rmsnorm", biases = { qkv = s:get(m .. "attention_bias") == true, norm = false }, positions = "rotary",
    dropout = false,
  }
  local act, window = s:get(m .. "hidden_act"), s:set(m .. "sliding_window_size")
  if act ~= "silu" then context.fail("%shidden_act %s is not modelled", m, tostring(act)) end
  if window and window > 0 then one.window = { size = window } end
  local experts = s:set(m .. "moe_config.num_experts")
  if experts and experts > 1 then
    one.experts, one.experts_per_token = experts, s:get(m .. "moe_config.top_k")
    one.expert_ffn = s:get(m .. "moe_config.moe_intermediate_size")
    one.shared_expert_ffn = s:get(m .. "moe_config.enable_shared_expert")
      and s:get(m .. "moe_config.shared_expert_intermediate_size") or 0
    local layers = s:set(m .. "moe_config.layers") or "-1"
    if type(layers) == "table" and #layers == 1 then layers = layers[1] end
    if tostring(layers) ~= "-1" then context.fail("%smoe_config.layers: layers without experts are not modelled", m) end
    one.moe_layers = 1
  end
  return one
end

local SCHEDULES <const> = { afab = "gpipe", ["1f1b"] = "1f1b" }

function nanotron.read(s, context)
  local r = { dp = required(s, context, "parallelism.dp"), tp = required(s, context, "parallelism.tp"),
    pp = required(s, context, "parallelism.pp"), cp = s:get "parallelism.context_parallel_size",
    ep = s:get "parallelism.expert_parallel_size", vp = 1, model = model(s, context) }
  r.cp_kind = common.cp_kind(context, r, nil, "ring")
  r.etp = r.model.experts and r.ep > 1 and 1 or r.model.experts and r.tp or 1
  r.gpus = r.dp * r.pp * r.tp * r.cp * r.ep
  r.micro_batch = required(s, context, "tokens.micro_batch_size")
  r.microbatches = required(s, context, "tokens.batch_accumulation_per_replica")
  r.global_batch = r.micro_batch * r.microbatches * r.dp
  r.seq, r.zero = required(s, context, "tokens.sequence_length"), s:get "optimizer.zero_stage" or 0
  if r.zero > 1 then context.fail("optimizer.zero_stage is 0 or 1, got %d", r.zero) end
  r.sequence_parallel = s:get "parallelism.tp_mode" == "REDUCE_SCATTER" and r.tp > 1
  r.recompute = { granularity = s:get "parallelism.recompute_layer" and "full" or "none" }
  r.precision = { compute = common.dtype(s:get "model.dtype" or "bfloat16"),
    grads = s:get "optimizer.accumulate_grad_in_fp32" == false and "bf16" or "fp32" }
  local engine = tostring(s:get "parallelism.pp_engine" or "afab"):lower()
  r.pipeline_schedule = engine
  r.schedule = SCHEDULES[engine] or context.fail("parallelism.pp_engine %s is not known", engine)
  r.axes = axes.nanotron(s)
  return r
end

return nanotron
