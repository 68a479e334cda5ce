--- Turns a launch into arguments of tperf.train or tperf.infer, and lists what predictions do not cover.
local adapters = require "tperf.import.launch.arguments.adapters"
local axes = require "tperf.import.launch.arguments.axes"
local check = require "tperf.base.check"
local checked = require "tperf.import.launch.arguments.given"
local checkpoints = require "tperf.import.launch.arguments.checkpoints"
local common = require "tperf.import.launch.stack.common"
local flavors = require "tperf.import.launch.stack.core.flavors"
local has = require "tperf.base.lists".has
local models = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local offloading = require "tperf.import.launch.arguments.offloading"
local records = require "tperf.describe.model.records"
local recomputation = require "tperf.import.launch.arguments.recomputation"
local understood = require "tperf.import.launch.understood"

local arguments = {}

-- The layers without experts, by a list of zeros and ones; 0: none.
local function dense_layers(list)
  if type(list) ~= "table" then return 0 end
  local dense, first = {}, 0
  for i, one in ipairs(list) do
    if one == 0 then dense[#dense + 1] = i end
  end
  while list[first + 1] == 0 do first = first + 1 end
  return first == #dense and first or dense
end

local function experts_of(m)
  if not m.experts then return nil end
  local shared = m.shared_expert_ffn or 0
  return {
    count = m.experts, top_k = m.experts_per_token, ffn = m.expert_ffn, dense_layers = dense_layers(m.moe_layers),
    shared = shared > 0 and 1 or 0, shared_ffn = shared > 0 and shared or nil,
    shared_gate = shared > 0 and m.shared_gate or nil, router_bias = m.router_bias, latent = m.latent_experts,
    groups = m.router_groups, top_groups = m.top_groups, capacity_factor = m.capacity,
  }
end

-- What the caller says in place of the file; nil: nothing.
local function count_of(given, name)
  if given[name] == nil then return nil end
  return math.tointeger(tonumber(given[name]))
    or check.fail("'%s' must be an integer, got %s", name, check.show(given[name]))
end

-- A model description for tperf.model; nil if the file says too little.
local function described(m, seq, given)
  if not (m and m.layers and m.hidden and m.heads) or m.from_checkpoint then return nil end
  if m.pattern then
    check.fail "a hybrid of Mamba and attention layers: name the MODEL, for the file does not say its scan"
  end
  local vocab = count_of(given, "vocab") or math.tointeger(tonumber(m.vocab))
  if not vocab then check.fail "the launch does not say the vocabulary: give it as vocab (--set vocab=32000)" end
  return {
    name = "the launch's model", layers = m.layers, hidden = m.hidden, heads = m.heads, kv_heads = m.kv_heads,
    head_dim = not m.mla and m.head_dim or nil, ffn = m.ffn, vocab = vocab, seq = seq, gated = m.gated,
    activation = m.activation, norm = m.norm, tied_embeddings = m.tied_embeddings, positions = m.positions,
    context = m.max_positions and math.max(m.max_positions, seq) or nil, biases = m.biases, qk_norm = m.qk_norm,
    attention_sinks = m.attention_sinks, attention_gate = m.attention_gate, window = m.window, dropout = m.dropout,
    limited_activation = m.limited_activation, mla = m.mla, experts = experts_of(m), mtp = m.mtp_layers,
  }
end

-- Engines' names for the dtypes of caches, and for quantization methods: { dtype of stored weights, of products }.
local CACHES <const> = { fp8 = "fp8", fp8_e4m3 = "fp8", fp8_e5m2 = "fp8", bfloat16 = "bf16", bf16 = "bf16",
  float16 = "bf16", half = "bf16", int8 = "int8", int4 = "int4", nvfp4 = "fp4", fp4_e2m1 = "fp4" }
local QUANTIZED <const> = { fp8 = { "fp8", "fp8" }, w8a8_fp8 = { "fp8", "fp8" }, modelopt = { "fp8", "fp8" },
  modelopt_fp4 = { "fp4", "fp4" }, nvfp4 = { "fp4", "fp4" }, w8a8_int8 = { "int8", "int8" }, awq = { "int4", "bf16" },
  awq_marlin = { "int4", "bf16" }, gptq = { "int4", "bf16" }, gptq_marlin = { "int4", "bf16" },
  gptq_int8 = { "int8", "bf16" }, bf16 = { "bf16", "bf16" } }

--- The dtypes of a server's launch: { weight_dtype, compute_dtype, kv_dtype, state_dtype }, each only if the launch
--- gives one that is known.
---@param launch table
---@return table dtypes
function arguments.dtypes(launch)
  local named, said = checkpoints.quantization(launch.model_name), launch.quantization
  if said == "modelopt" and QUANTIZED[named] then said = named end -- which of its formats, the checkpoint says
  local stored, state = QUANTIZED[said] or QUANTIZED[named] or {}, common.dtype(launch.state_dtype)
  return { weight_dtype = stored[1], compute_dtype = stored[2], kv_dtype = CACHES[launch.kv_dtype],
    state_dtype = has(records.states, state) and state or nil }
end

-- Stacks' names for the recipes of tperf.describe.precision: Megatron-Core's --fp8-recipe, with a format, and
-- torchao's.
local MEGATRON <const> = {
  delayed = "fp8-delayed", tensorwise = "fp8-current", blockwise = "fp8-block", mxfp8 = "mxfp8",
}
local TORCHAO <const> = { tensorwise = "fp8-tensorwise", rowwise = "fp8-rowwise", rowwise_with_gw_hp = "fp8-rowwise" }

-- The precision of the products; nil for 16 bits, or for an unknown recipe.
local function precision_of(p)
  local padding = p.router_padding and "router" or nil
  local function ends(o)
    o.first_layers, o.last_layers, o.attention = p.first_layers, p.last_layers, p.attention
    return o
  end
  if p.fp4_format then
    return ends { recipe = "nvfp4", parameters = p.fp4_params and "narrow" or nil, padding = padding }
  end
  if p.fp8_format then
    local recipe = MEGATRON[p.fp8_recipe or "delayed"]
    return recipe and ends {
      recipe = recipe, parameters = p.fp8_params and "narrow" or nil, padding = padding,
      fused_experts = recipe == "mxfp8" and p.fused_experts or nil,
    }
  end
  local recipe = TORCHAO[p.fp8_recipe]
  return recipe and {
    recipe = recipe, gather = p.fp8_params and recipe == "fp8-tensorwise" and "narrow" or nil,
    weight_grad = p.fp8_recipe == "rowwise_with_gw_hp" and "bf16" or nil,
  }
end

local DISPATCHERS <const> = { alltoall = "alltoall", allgather = "allgather", deepep = "deepep", hybridep = "hybridep" }

--- What a launch says that no prediction contains, as entries of launch.refused.
---@param launch table
---@param place string
---@return table[]
function arguments.lacking(launch, place)
  local list, p = {}, launch.precision or {}
  local function add(option, value) list[#list + 1] = understood.unread(option, value, place) end
  if (p.fp8_format or p.fp8_recipe) and not precision_of(p) then add("fp8-recipe", p.fp8_recipe) end
  local dispatcher = launch.moe_dispatcher_backend or launch.moe_dispatcher
  if launch.kind == "training" and (launch.ep or 1) > 1 and dispatcher and not DISPATCHERS[dispatcher] then
    add("moe-token-dispatcher", dispatcher)
  end
  offloading.lacking(launch, add)
  recomputation.lacking(launch, add)
  for _, name in ipairs(launch.kind == "serving" and { "cp", "decode_cp" } or {}) do
    local option = (name == "cp" and "prefill" or "decode") .. "-context-parallel-size"
    if (launch[name] or 1) > 1 then add(option, launch[name]) end
  end
  return list
end

local function notes_of(launch, given)
  local notes = {}
  local function note(format, ...) notes[#notes + 1] = format:format(...) end
  recomputation.note(launch, note)
  if launch.lora_rank then note "adapters: predicted on all products of layers, with all else frozen" end
  if launch.speculative and not given.acceptance then
    note("speculative decoding%s", given.drafts and ": " .. given.drafts or "")
  end
  if launch.quantization and not arguments.dtypes(launch).weight_dtype then
    note("quantization %s: --weight-dtype says how weights are stored", launch.quantization)
  end
  if launch.kind == "serving" and launch.kv_dtype and launch.kv_dtype ~= "auto" and not CACHES[launch.kv_dtype] then
    note("a cache in %s: --kv-dtype says how it is stored", launch.kv_dtype)
  end
  return notes
end

local SAME <const> = { "gpus", "tp", "pp", "cp", "dp", "micro_batch", "global_batch", "seq", "zero" }

-- Adds expert parallelism and its dispatcher.
local function exchange(a, launch)
  a.ep, a.etp = launch.ep, launch.etp_of_experts or launch.etp
  if (launch.ep or 1) == 1 then return end
  a.moe_dispatcher = DISPATCHERS[launch.moe_dispatcher_backend or launch.moe_dispatcher]
end

local function training(launch, model)
  local a = { model = model, software = launch.software }
  if models(model).experts then
    exchange(a, launch)
  elseif (launch.ep or 1) > 1 then
    check.fail("the launch shares experts over %d GPUs, but the model has none: name the MODEL that it trains",
      launch.ep)
  end
  for _, name in ipairs(SAME) do a[name] = launch[name] end
  a.reshard_after_forward = launch.reshard_after_forward
  if a.cp > 1 then a.strategy, a.cp_kind = "context", launch.cp_kind else a.cp = nil end
  for _, name in ipairs { "micro_batch", "global_batch" } do
    if not a[name] then
      check.fail("the launch does not say %s: give it as %s (--set %s=…)", name:gsub("_", " "), name, name)
    end
  end
  if launch.vp and launch.vp > 1 then
    local named = launch.schedule
    a.schedule = named and named ~= "1f1b" and named or "interleaved_1f1b"
    a.virtual_stages = a.schedule == "interleaved_1f1b" and launch.vp or nil
  else
    a.schedule = launch.pp > 1 and launch.schedule or "1f1b"
  end
  if launch.pp > 1 then
    a.pipeline_layout = launch.pipeline_layout
    a.account_for_embedding, a.account_for_loss = launch.account_for_embedding_and_loss,
      launch.account_for_embedding_and_loss
  end
  a.peft, a.attention = launch.peft, launch.attention
  axes.add(launch, a)
  local experts = models(model).experts
  if not experts then a.moe_dispatcher, a.overlap_moe_a2a, a.delay_wgrad, a.routing = nil, nil, nil, nil end
  if not (experts and experts.shared > 0) then a.overlap_shared_experts = nil end
  recomputation.add(launch, a)
  offloading.add(launch, a)
  a.precision = launch.precision and precision_of(launch.precision) or nil
  if launch.tp > 1 then a.sequence_parallel = launch.sequence_parallel end
  return a
end

local function serving(launch, model)
  if launch.prefill or launch.decode then
    check.fail "the launch has servers of several roles: predict one of them by its own sizes, as in prefill.tp"
  end
  local inside = (launch.attention_dp or 1) > 1 -- data-parallel attention, experts over all GPUs
  local tp = inside and launch.attention_tp or launch.tp
  local dp = inside and launch.attention_dp or launch.dp
  local a = { model = model, tp = tp, pp = launch.pp, dp = dp, batch = launch.batch or launch.max_batch }
  if launch.adapters then a.reserved = adapters(launch.adapters, models(model), tp, launch.pp or 1) end
  if launch.without_window and models(model).window then
    check.fail("--disable-sliding-window: vLLM then serves contexts no longer than the model's window of %d: leave the "
      .. "option out", models(model).window.size)
  end
  if launch.ep > 1 and models(model).experts then
    if launch.ep * launch.etp ~= tp * dp then
      check.fail("ep %d with etp %d: engines spread experts over all of tp x dp = %d x %d", launch.ep, launch.etp, tp,
        dp)
    end
    a.ep, a.etp = launch.ep, launch.etp_of_experts or launch.etp
  elseif dp > 1 and models(model).experts then
    a.etp = launch.etp
  end
  return a
end

--- The arguments of tperf.train (or tperf.infer, for servers) that predict a launch.
---@param launch table  of tperf.import.launch
---@param given table?  { model = in place of the file's, vocab =, micro_batch =, global_batch =, seq =; acceptance = of
---  drafted tokens, if it is known, else drafts = what to say of them; ignore = options to go on without, by name,
---  though they are not understood }
---@return table arguments
---@return string[] left_out  what of the launch the prediction does not cover
function arguments.of(launch, given)
  checked(launch, given)
  given = given or {}
  local ignored = understood.refuse(launch, given.ignore)
  local whole = setmetatable({}, { __index = launch })
  for _, name in ipairs { "micro_batch", "global_batch", "seq" } do
    whole[name] = count_of(given, name)
  end
  local unsettled = launch.kind == "serving" and not QUANTIZED[launch.quantization] and not given.model
  if unsettled and checkpoints.quantization(launch.model_name) == "unknown" then
    check.fail("the launch serves %s, whose name says that its weights have fewer bits, but not in which format: name "
      .. "the MODEL, and weight_dtype or precision", check.show(launch.model_name))
  end
  local model = given.model or flavors.model(launch.model_name, launch.model_size)
    or checkpoints.model(launch.model_name, launch.model_size)
    or described(launch.model, whole.seq, given)
  if not model then
    check.fail("the launch %s: name the MODEL", launch.model_name
      and "calls its model " .. check.show(launch.model_name) .. ", which `tperf list models` does not have"
      or "does not describe its model")
  end
  if launch.model_changes and not given.model then model = models(model):with(launch.model_changes) end
  local left_out = notes_of(launch, given)
  if launch.attention_kernels and models(model).mla then
    launch.attention_kernels, left_out[#left_out + 1] = nil, "Triton's kernels of latent attention: priced as others'"
  end
  table.move(ignored, 1, #ignored, #left_out + 1, left_out)
  return (launch.kind == "serving" and serving or training)(whole, model), left_out
end

-- tperf's profiles of the engines.
local SOFTWARE <const> = { vLLM = "vllm", SGLang = "sglang", ["TensorRT-LLM"] = "tensorrt-llm" }

--- The profile of a stack's engine; nil: tperf has none.
---@param stack string
---@return string?
function arguments.profile(stack) return SOFTWARE[stack] end

--- The engine settings of a server's launch, as named by tperf.serve; those left at the engine's default are absent.
---@param launch table
---@param software string?  the profile asked for; the launch's own engine if nil
---@return table engine  software, experts, memory_utilization and fields of `engine`
---@return string[] left_out
function arguments.engine(launch, software)
  local name, left = SOFTWARE[launch.stack], {}
  local engine = { software = name, max_num_seqs = launch.batch or launch.max_batch,
    max_num_batched_tokens = launch.max_tokens or launch.chunk, max_model_len = launch.seq_max,
    chunked_prefill = launch.chunked_prefill }
  if launch.prefix_cache == false then engine.prefix_caching = false end
  if not name then
    left[1] = ("what %s schedules and keeps for its cache, which is not simulated: vLLM's rules stand for it"):format(
      launch.stack)
    return engine, left
  end
  if software and software:find(name, 1, true) ~= 1 then
    left[1] = ("what %s schedules otherwise than %s, and its share of memory for the cache"):format(launch.stack,
      software)
    return engine, left
  end
  for field, value in pairs(launch.engine) do engine[field] = value end
  engine.experts, engine.attention = launch.experts, launch.attention_kernels
  engine.memory_utilization = launch.memory_fraction or launch.kv_free_fraction
  return engine, left
end

return arguments
