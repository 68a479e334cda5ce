--- The precision of a published run's products, as an argument of tperf.train, from the columns dtype and fp8_recipe.
local read = require "tperf.measured.read"

local precisions = {}

-- Patterns in a recipe's text, most specific first. torchao's "tensorwise" is Float8Linear; Megatron's, with a format,
-- is Transformer Engine's current scaling.
local RECIPES <const> = {
  { "mxfp8", "mxfp8" }, { "fp8%-mx", "mxfp8" }, { "block", "fp8-block" }, { "rowwise", "fp8-rowwise" },
  { "tensorwise/", "fp8-current" }, { "tensorwise", "fp8-tensorwise" }, { "float8", "fp8-tensorwise" },
  { "delayed", "fp8-delayed" }, { "fp8%-cs", "fp8-current" },
}

-- Default recipes of rows that name none: torchtitan's default, and "FP8" as Megatron-Bridge's release notes define it;
-- else Transformer Engine's default.
local function usual(row)
  if row.source:find "^torch" then return "fp8-tensorwise" end
  return row.source:find "Megatron%-Bridge" and "fp8-current" or "fp8-delayed"
end

-- Of 24 rows of MLPerf's LoRA on Blackwell that name a configuration, 22 have it: so are those taken that name none.
local function attends_narrow(row, recipe)
  local unnamed = recipe == "" and row.source:find "^MLPerf" and row.workload == "lora" and row.gpu:find "Blackwell"
  return unnamed or recipe:find "fp8 attention" ~= nil
end

-- So are activations in all 13 rows of AMD's LoRA that name a configuration of AMD's.
local function is_stored(row, recipe)
  return recipe == "" and row.source:find "^MLPerf" and row.workload == "lora" and row.gpu:find "MI%d" ~= nil
end

-- NVIDIA's configuration of MLPerf's LoRA (results 4.0), from which AMD's is made (5.1), stores weights narrow alone,
-- and once: conf/megatron_gpt_peft_tuning_config.yaml, fp8_params and disable_parameter_transpose_cache. So are weights
-- in 4 bits taken, on GPUs of 180 GB that cannot hold 70e9 in 16 bits beside them.
local function is_stored_once(row) return row.workload == "lora" and row.source:find "^MLPerf" ~= nil end

local function recipe_of(row, dtype, recipe)
  if dtype:find "fp4" then return "nvfp4" end
  for _, text in ipairs { recipe, dtype } do
    for _, one in ipairs(RECIPES) do
      if text:find(one[1]) then return one[2] end
    end
  end
  return usual(row)
end

-- Whether the file that a row was matched to is named after a GPU that is not the row's.
local function of_another_gpu(row)
  local named = read.text(row.recipe_source):match "config_[^/]-(G?[BH]%d%d%d)"
  local gpu = read.text(row.gpu):match "%((G?[BH]%d%d%d)"
  return named and gpu and named ~= gpu
end

-- A run's configuration, where it was read, is right: its table may name two precisions, or call a run "fp8" whose
-- products have 4 bits and whose attention has 8. It does not choose between two if it is another GPU's. NVIDIA's GPUs
-- before Blackwell have no 4-bit units.
local function settled(row, dtype, recipe)
  local open = dtype:find " or " ~= nil
  if open and read.text(row.gpu):find "[HA]%d00" then return "fp8" end
  if open and of_another_gpu(row) then return nil end
  return recipe:find "^fp4" and "fp4" or not open and dtype or nil
end

-- What FSDP gathers: with float8, torchtitan's documented command gathers in it (docs/float8.md), which rows of scales
-- along rows deny.
local function gather_of(row, recipe)
  local said = recipe:find "all%-gather" ~= nil
  local by_default = not said and row.source:find "^torchtitan" and recipe:find "tensorwise"
  return (by_default or recipe:find "float8 all%-gather") and "narrow" or nil
end

-- Megatron-Core stashes experts' activations in pages only where TransformerEngine's fused experts make them (its
-- guide, "MoE Paged Stash", prerequisites).
local function fuses(row, kind)
  return kind == "mxfp8" and read.text(row.offload):find "paged_stash" ~= nil or nil
end

-- torchao's MX products keep their inputs in 16 bits and quantise them again (mx_linear.py, class mx_mm).
local function kept_of(row, kind) return kind == "mxfp8" and row.source:find "^torch" and "bf16" or nil end

--- The precision; nil if the row leaves it open.
---@return string|table?
function precisions.of(row)
  local recipe = read.text(row.fp8_recipe):lower()
  local dtype = settled(row, row.dtype:lower(), recipe)
  if not dtype then return nil end
  if dtype:find "^int8" then return "int8" end
  if not dtype:find "fp[48]" then return "bf16" end
  local once, cached = is_stored_once(row), nil
  if once then cached = false end
  local narrow = once or recipe:find "param[_ ]gather in" or recipe:find "fp8 params"
  local kind = recipe_of(row, dtype, recipe)
  return {
    recipe = kind, fused_experts = fuses(row, kind), parameters = narrow and "narrow" or nil,
    cached = cached,
    gather = gather_of(row, recipe), inputs = kept_of(row, kind),
    weight_grad = recipe:find "gw_hp" and "bf16" or nil,
    activation = (recipe:find "activations stored" or is_stored(row, recipe)) and "fp8" or nil,
    attention = attends_narrow(row, recipe) and "fp8" or nil,
    padding = row.source:find "^torch" and (read.count(row.experts) or 0) > 1 and "sort" or nil,
  }
end

return precisions
