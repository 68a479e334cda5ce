--- vLLM's recipes: a YAML for each model, with the arguments of variants of its weights, of strategies and of features,
--- which the recipes' site puts together for the hardware at hand (github.com/vllm-project/recipes).
local check = require "tperf.base.check"

local recipe = {}

--- Whether a text is such a recipe.
---@param text string
---@return boolean
function recipe.recognise(text)
  return text:find "\n%s+model_id:" ~= nil and text:find "\ncompatible_strategies:" ~= nil
    and text:find "\nvariants:" ~= nil
end

local function is_table(value) return type(value) == "table" and value or {} end

local function append(words, more)
  for _, word in ipairs(is_table(more)) do words[#words + 1] = tostring(word) end
end

-- Arguments of strategies on one node, whose GPUs tensor parallelism (else data parallelism) takes.
local STRATEGIES <const> = {
  single_node_tp = { "--tensor-parallel-size" },
  single_node_tep = { "--tensor-parallel-size", "--enable-expert-parallel" },
  single_node_dep = { "--data-parallel-size", "--enable-expert-parallel" },
}

local function strategy_of(content, given, where)
  local compatible, own = {}, content.default_strategy
  for _, name in ipairs(is_table(content.compatible_strategies)) do compatible[name] = true end
  local name = given.strategy or own or compatible.single_node_tp and "single_node_tp"
    or is_table(content.compatible_strategies)[1]
  if not STRATEGIES[name] then
    check.fail("%s: strategy '%s' is not read%s; those on one node are: %s", where, tostring(name),
      given.strategy and "" or " (--set strategy=NAME)", table.concat(check.names(STRATEGIES), ", "))
  end
  return name, compatible[name] or name == own
end

-- Parallelism that the recipe states for a strategy: a number, or one for each kind of hardware.
local function stated(value, hardware)
  if type(value) == "table" then value = value[hardware or "default"] or value.default end
  return math.tointeger(tonumber(value))
end

local NODE <const>, MEMORY <const> = 8, 80 -- GPUs of a node, and GB of one of them, as the site has an H100's

-- The GPUs: as asked, as the recipe says, or as the site chooses them for nodes of H100: one, if all fits there.
local function gpus_of(content, variant, name, given, gpus, note)
  local said = name == "single_node_tp" and (stated(variant.tp, given.hardware)
    or stated(is_table(is_table(content.strategy_overrides)[name]).tp, given.hardware))
  if gpus or said then return gpus or said end
  local needed = tonumber(variant.vram_minimum_gb)
  local count = name == "single_node_tp" and needed and needed <= MEMORY and 1 or NODE
  local words = "%d GPU%s, as the recipes' site has it on nodes of %d GPUs of %d GB for a variant of %s GB; --gpus N "
    .. "says others"
  note(words:format(count, count > 1 and "s" or "", NODE, MEMORY, tostring(needed or "unknown")))
  return count
end

local function add_features(words, content)
  local left = {}
  for _, name in ipairs(is_table(content.opt_in_features)) do left[name] = true end
  for _, name in ipairs(check.names(is_table(content.features))) do
    local one = is_table(content.features[name])
    local modes = is_table(one.modes)
    if not left[name] then
      append(words, one.args)
      append(words, is_table(modes[one.default_mode] or modes[check.names(modes)[1]]).args)
    end
  end
end

local function variant_of(content, given, where, note)
  local variants = is_table(content.variants)
  local name = given.variant or "default"
  local variant = is_table(variants[name])
  if not next(variant) then
    check.fail("%s: no variant '%s'%s; there are: %s", where, name, check.suggest(name, check.names(variants)),
      table.concat(check.names(variants), ", "))
  end
  if not given.variant and #check.names(variants) > 1 then
    note(("the recipe's variant 'default' of %s (--set variant=NAME asks for another)"):format(
      table.concat(check.names(variants), ", ")))
  end
  return variant
end

-- Arguments for some hardware alone: those of --set hardware=NAME, or a note on what is left out.
local function add_hardware(words, of, given, note)
  local names = {}
  for _, name in ipairs(check.names(is_table(of))) do
    local more = is_table(of[name]).extra_args
    if name == given.hardware then
      append(words, more)
    elseif #is_table(more) > 0 then
      names[#names + 1] = name
    end
  end
  if names[1] and not given.hardware then
    note(("without what the recipe adds on some hardware (--set hardware=NAME): %s"):format(table.concat(names, ", ")))
  end
end

--- The server that a recipe describes: { name, words, path, environment }.
---@param content table
---@param where string   the file, for messages
---@param given table    variant, strategy and hardware: names that the recipe has; others count nothing here
---@param gpus integer?  of the launch
---@param note fun(text: string)  is told what is assumed
---@return table server
function recipe.server(content, where, given, gpus, note)
  local model = is_table(content.model)
  if content.omni then
    check.fail("%s: this model makes or hears images or sound in stages of vLLM-Omni, which are not modelled", where)
  end
  local variant = variant_of(content, given, where, note)
  local strategy, known = strategy_of(content, given, where)
  if not known then note(("the recipe does not list the strategy %s"):format(strategy)) end
  local words = { "vllm", "serve", tostring(variant.model_id or model.model_id) }
  append(words, model.base_args)
  append(words, variant.extra_args)
  append(words, { STRATEGIES[strategy][1], gpus_of(content, variant, strategy, given, gpus, note) })
  append(words, { STRATEGIES[strategy][2] })
  local own = is_table(is_table(content.strategy_overrides)[strategy])
  append(words, own.vllm_args)
  append(words, own.extra_args)
  add_hardware(words, own.hardware_overrides, given, note)
  add_hardware(words, variant.hardware_overrides, given, note)
  add_hardware(words, content.hardware_overrides, given, note)
  add_features(words, content)
  return { name = "recipe", words = words, path = "model.model_id", environment = variant.extra_env }
end

return recipe
