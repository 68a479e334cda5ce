--- Writes summaries as upstream does (sections 8.9, 9.4, 9.5): keys in order, readable text, JSON, files.
local check = require "tperf.base.check"
local output = require "tperf.output.file"
local python = require "tperf.compat.llm_analysis.python"
local revisions = require "tperf.compat.llm_analysis.revisions"

local summary = {}

local PARAMETERS = "num_params_total >num_params_total_mlp >num_params_total_embedding >num_params_total_others "
  .. "num_active_params_total"

local function breakdown(prefix)
  return (("@attn @mlp @layernorm @tp_comm >@sharded_dp_comm @input_embedding @output_embedding_loss"):gsub("@",
    prefix .. "latency_fwd_"))
end

-- Upstream's keys in its order. ">KEY" exists only in d841e40, "<KEY" only in 0571436.
local TRAIN_KEYS = "batch_size_per_gpu max_batch_size_per_gpu gradient_accumulation_steps global_batch_size "
  .. "dp_size >rdp_size tp_size pp_size sp_size ep_size ds_zero total_num_gpus seq_len total_num_tokens " .. PARAMETERS
  .. " activation_recomputation layernorm_dtype_bytes mlp_activation_quant_bits mlp_recompute_gelu "
  .. ">mlp_gated_linear_units achieved_flops flops_efficiency hbm_memory_efficiency num_flops_total_per_micro_batch "
  .. "weight_memory_per_gpu weight_memory_embedding_per_gpu weight_memory_attn_per_gpu weight_memory_mlp_per_gpu "
  .. "weight_memory_layernorm_per_gpu >unsharded_weight_memory_embedding >unsharded_weight_memory_per_layer "
  .. ">unsharded_weight_memory_attn_per_layer >unsharded_weight_memory_mlp_per_layer >unshared_weight_memory_layernorm "
  .. "gradient_memory_per_gpu optimizer_state_memory_per_gpu >(weight+op_state)_memory_per_gpu "
  .. "<(weight+op_state+grad)_memory_per_gpu >estimated_fwd_prefetch_memory_per_gpu "
  .. ">estimated_bwd_prefetch_memory_per_gpu >loss_bwd_memory activation_memory_batch_size_1 "
  .. "activation_memory_per_gpu activation_memory_attn_per_gpu activation_memory_mlp_per_gpu "
  .. "activation_memory_layernorm_per_gpu >activation_memory_input_embedding_per_gpu "
  .. ">activation_memory_output_embedding_per_gpu <activation_memory_embedding_output_per_gpu "
  .. "<(weight+op_state+grad+act)_memory_per_gpu <memory_left_per_gpu >(weight+op_state+act)_memory_per_gpu "
  .. ">(weight+op_state+grad)_memory_per_gpu >estimated_peak_memory_per_gpu latency_per_micro_batch latency_fwd "
  .. breakdown "" .. " latency_per_iter >device_tokens_per_sec total_training_latency >latency_per_iter_using_flops "
  .. ">total_training_latency_using_flops gpu_hours"

local INFER_KEYS = "batch_size_per_gpu seq_len tp_size ep_size pp_size num_tokens_to_generate >"
  .. PARAMETERS:gsub(" (%l)", " >%1")
  .. " flops_efficiency hbm_memory_efficiency layernorm_dtype_bytes use_kv_cache kv_cache_latency "
  .. "kv_cache_memory_per_gpu weight_memory_per_gpu weight_memory_embedding_per_gpu prefill_activation_memory_per_gpu "
  .. "prefill_max_batch_size_per_gpu prefill_num_flops_fwd_total decode_activation_memory_per_gpu "
  .. "decode_max_batch_size_per_gpu decode_num_flops_fwd_total prefill_latency " .. breakdown "prefill_"
  .. " decode_latency " .. breakdown "decode_" .. " total_decode_latency total_latency total_per_token_latency "
  .. "prefill_tokens_per_sec decode_tokens_per_sec total_tokens_per_sec"

local COST_KEYS = " prefill_cost_per_1k_tokens decode_cost_per_1k_tokens total_cost_per_1k_tokens"

-- The keys of one revision, without those marked for the other, and the set of them.
local function keys_of(text, mark)
  local list, set = {}, {}
  for own, key in text:gmatch "([<>]?)(%S+)" do
    if own == "" or own == mark then
      list[#list + 1] = key
      set[key] = true
    end
  end
  return { list = list, set = set }
end

local KEYS = {}
for revision, mark in pairs { d841e40 = ">", ["0571436"] = "<" } do
  KEYS[revision] = { train = keys_of(TRAIN_KEYS, mark), infer = keys_of(INFER_KEYS, mark),
    priced = keys_of(INFER_KEYS .. COST_KEYS, mark) }
end

local function keys_for(result)
  local keys = type(result) == "table" and KEYS[result.revision]
  if not keys then check.fail("llm_analysis needs a summary, got %s", check.show(result)) end
  return keys[not result.prefill_latency and "train" or result.total_cost_per_1k_tokens and "priced" or "infer"]
end

--- The keys of a summary in upstream's order, including keys without a value (None, null).
---@param result table  what train or infer returned
---@return string[]
function summary.keys(result)
  local list = keys_for(result).list
  return table.move(list, 1, #list, 1, {})
end

--- Removes the keys that the revision does not have from the result of train.lua or infer.lua.
---@param result table
---@param revision string
function summary.finish(result, revision)
  result.revision = revision
  local set = keys_for(result).set
  for key in pairs(result) do
    if not set[key] and key ~= "warnings" and key ~= "revision" then result[key] = nil end
  end
end

local function contains(key, ...)
  for _, part in ipairs { ... } do
    if key:find(part, 1, true) then return true end
  end
  return false
end

-- The value as shown in the readable text, or nil if its line is left out. The first match wins. 0571436 checks for
-- latencies last, which makes no difference for its keys.
local function shown(rules, key, value)
  if contains(key, "latency") then return python.duration(value) end
  if contains(key, "num_tokens", "num_params", "num_active_params", "flops") then
    return python.str(rules.number(value, 2, 1000))
  end
  if key == "gpu_hours" then
    if not value or value == 0 then return nil end
    return ("%.0f"):format(value < 0 and math.ceil(value) or math.floor(value))
  end
  if contains(key, "memory") and not contains(key, "efficiency") then
    return python.str(rules.number(value, 2, 1024)) .. "B"
  end
  return python.str(value)
end

--- The readable summary, one "key: value" per line.
---@param result table  what train or infer returned
---@return string
function summary.text(result)
  local keys, rules = keys_for(result).list, revisions.rules[result.revision]
  local lines = { "", ("-"):rep(46) .. "Summary" .. ("-"):rep(47) }
  for _, key in ipairs(keys) do
    local value = shown(rules, key, result[key])
    if value then lines[#lines + 1] = key .. ": " .. value end
  end
  lines[#lines + 1] = ("-"):rep(100)
  return table.concat(lines, "\n") .. "\n"
end

--- The summary as JSON, indented by 4; as in upstream, without the warnings.
---@param result table  what train or infer returned
---@return string
function summary.json(result)
  local lines = {}
  for i, key in ipairs(keys_for(result).list) do
    local value = result[key]
    local kind = type(value)
    local shape = value == nil and "null" or kind == "string" and '"' .. value .. '"'
      or kind == "number" and python.repr(value) or tostring(value)
    lines[i] = ('    "%s": %s'):format(key, shape)
  end
  return "{\n" .. table.concat(lines, ",\n") .. "\n}"
end

--- The configurations and sizes in one word: the prefix of file names.
---@param m table  the setup of the run
---@return string
function summary.description(m)
  return ("%s-%s-%s-tp%d-pp%d-dp%d-sp%d-fe%s-ep%d-hbme%s"):format(m.model.name, m.gpu.name, m.dtype.name, m.t, m.p,
    m.n_dp, m.sp, python.repr(python.round(m.e_f, 2)), m.ep, python.repr(python.round(m.e_h, 2)))
end

--- Writes NAME-summary.json and NAME-summary-readable.txt into output_dir, created if missing.
---@param m table       the setup of the run
---@param result table  what train or infer returned
function summary.write(m, result)
  output.make_folder(m.args.output_dir, m.what)
  local args = m.args
  local name = (args.output_file_prefix or "") .. summary.description(m) .. (args.output_file_suffix or "")
  local path = args.output_dir .. "/" .. name
  output.write(path .. "-summary.json", summary.json(result), m.what)
  output.write(path .. "-summary-readable.txt", summary.text(result), m.what)
end

return summary
