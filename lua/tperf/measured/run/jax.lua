--- Published runs of JAX's stacks (MaxText, AXLearn): their meshes, and the tensors that a compiled layer keeps, as
--- text by column of a table of training runs.
local memo = require "tperf.base.memo"
local read = require "tperf.measured.read"

-- MaxText's names of tensors (checkpoint_name in its layers): what each is the input of. out_proj is added to the
-- layer's input, so that keeping it keeps the stream between the sublayers. mlpwo, whose result is only added to the
-- stream, is of no gradient's use.
local NAMES <const> = { decoder_layer_input = "attn_norm", qkv_proj = "core_attn", context = "attn_proj",
  out_proj = "mlp_norm", mlpwi = "mlp_act" }

-- Its policies (layers/decoders.py, get_remat_policy) as lists of names: those kept on the device, and by the host.
local POLICIES <const> = {
  full = { "", "" }, minimal = { "qkv_proj out_proj mlpwi", "" }, save_qkv_proj = { "qkv_proj", "" },
  qkv_proj_offloaded = { "", "qkv_proj" },
}

-- remat_policy = custom of a recipe: { GPU, model, dtype, kept, by the host }, in MaxText's
-- benchmarks/maxtext_trillium_model_configs.py and maxtext_v5p_model_configs.py, and in the scripts of tpu-recipes
-- (training/ironwood/*/run_recipe.sh). Of query, key and value, all three, else none: a product makes them together.
local CUSTOM <const> = {
  { "v6e", "^Llama%-3%.1%-8B", "", "", "decoder_layer_input qkv_proj out_proj" },
  { "v6e", "^Llama%-3%.1%-70B", "", "", "decoder_layer_input qkv_proj" },
  { "v6e", "^Llama%-3%.1%-405B", "", "", "decoder_layer_input" },
  { "v6e", "^Mixtral%-8x22B", "", "", "decoder_layer_input qkv_proj out_proj" },
  { "v5p", "^Llama%-4%-Scout", "", "", "decoder_layer_input" },
  { "v7", "^DeepSeek%-V3", "", "", "decoder_layer_input" }, { "v7", "^Qwen3%-235B", "", "", "decoder_layer_input" },
  { "v7", "^gpt%-oss%-120b", "", "", "decoder_layer_input" },
  { "v7", "^Llama%-3%.1%-405B", "", "", "decoder_layer_input" },
  { "v7", "^Llama%-3%.1%-70B", "", "qkv_proj context", "" }, { "v7", "^Gemma%-4%-31B", "", "out_proj", "" },
}

local MOST_FOUND <const> = 4096
local found = memo.by_text(MOST_FOUND)

local SOURCES <const> = { "^tpu%-recipes", "^MaxText", "^AXLearn" }

--- Whether a row is of one of these stacks: MLPerf's runs on TPUs are, too.
---@param row table
---@return boolean
local function is_jax(row)
  local is = found(row.source, function()
    for _, source in ipairs(SOURCES) do
      if row.source:find(source) then return "jax" end
    end
    return row.source:find "^MLPerf" and "mlperf" or false
  end)
  return is == "jax" or is == "mlperf" and row.gpu:find "^TPU" ~= nil
end

local function named(text)
  local list = {}
  for name in text:gmatch "[%w_]+" do list[#list + 1] = NAMES[name] end
  return list
end

-- What AXLearn's rows say in words.
local function in_words(row)
  local notes = row.notes
  if notes:find "query/key/value and layer inputs offloaded" then return { "", "decoder_layer_input qkv_proj" } end
  if notes:find "attention projections offloaded" then return { "", "qkv_proj out_proj" } end
end

local function custom(row)
  for _, one in ipairs(CUSTOM) do
    if row.gpu:find(one[1], 1, true) and row.model:find(one[2]) and row.dtype:find(one[3]) then
      return { one[4], one[5] }
    end
  end
end

local function remat(row)
  local lists = POLICIES[row.recompute] or row.recompute == "custom" and custom(row) or in_words(row)
  if not lists then return nil end
  local kept, held = named(lists[1]), named(lists[2])
  local all = { "input" }
  for _, list in ipairs { kept, held } do
    for _, name in ipairs(list) do all[#all + 1] = name ~= "attn_norm" and name or nil end
  end
  return { recompute = "selective", recompute_keep = table.concat(all, " "),
    offload = held[1] and "fine-grained: " .. table.concat(held, ", ") or nil }
end

-- JAX devices of a chip: meshes count devices, tables chips.
local function devices(row) return row.intra:find "two JAX devices per chip" and 2 or 1 end

-- The chips of a slice, if a run has several.
local function slice(row)
  local slices, gpus = read.count(row.notes:match "(%d+) slice"), read.count(row.gpus)
  if row.zero_fsdp:find "data over DCN" and row.gpu:find "v6e" then slices = gpus and gpus // 256 end -- its largest
  return slices and slices > 1 and gpus and gpus // slices or nil
end

-- The chips that share weights: the product of the axes that do, or all but those of `data`.
local function sharding(row)
  local mesh, gpus, tp = row.zero_fsdp, read.count(row.gpus), read.count(row.tp) or 1
  local fsdp, other = read.count(mesh:match "[Ff][Ss][Dd][Pp] (%d+)"), read.count(mesh:match "fsdp_transpose (%d+)")
  local data, each = read.count(mesh:match "data (%d+)"), slice(row)
  if not gpus then return nil end
  if fsdp then return math.max(fsdp * (other or 1) // devices(row), 1) end
  if data then return gpus // (data * tp) end
  return each and mesh:find "in a slice" and each // tp or nil
end

-- A group of context-parallel devices, in chips: one sequence's, if its devices have less than one each.
local function context(row)
  local cp, n = read.count(row.cp), devices(row)
  if n == 1 or not cp or cp % n ~= 0 then return {} end
  return { cp = tostring(cp // n), micro_batch = "" }
end

---@param row table      text by column
---@return table? columns  nil: the row is of another stack
return function(row)
  if not is_jax(row) then return nil end
  local columns, each, shard = remat(row) or {}, slice(row), sharding(row)
  for name, text in pairs(context(row)) do columns[name] = text end
  columns.slice_gpus = each and tostring(each) or nil
  columns.zero_fsdp = shard and ("FSDP over %d GPUs"):format(shard) or nil
  columns.ep = row.notes:match "expert (%d+)" -- of a mesh
  return columns
end
