--- Scripts that launch through another repository's harness: what the harness adds, according to its files.
local check = require "tperf.base.check"
local files = require "tperf.import.launch.files"
local layer_list = require "tperf.import.launch.layer_list"
local marker = require "tperf.import.launch.shell.marker"
local catalogue = require "tperf.base.catalogue"
local roots = require "tperf.base.roots"
local shell = require "tperf.import.launch.shell"
local words = require "tperf.import.launch.shell.words"

local harness = {}

local function known()
  local path = roots.find "recipes/harnesses.yaml"
  if not path then return {} end
  roots.use(path)
  local content, message = catalogue.read(path)
  return content and content.harnesses or check.fail("%s", message)
end

--- The variables that a benchmark's driver sets for its scripts (name -> value), recognized by a sign in the text.
function harness.environment(text)
  for _, one in ipairs(known()) do
    if text:find(one.sign, 1, true) then return one.variables, one.name end
  end
  return {}
end

-- An argument in a model's YAML with its ${VARIABLES} filled in; nil for false and for unset variables.
local function filled(value, variables, given)
  if type(value) == "boolean" then return value or nil end
  local text = tostring(value):gsub("%${([%w_]+)}", function(name)
    local one = given[name] or variables[name]
    return type(one) == "string" and one or marker.of(name)
  end)
  if text == "false" then return nil end
  return text == "true" and true or text
end

local FP8 <const> = {
  fp8 = { "--fp8-recipe", "blockwise", "--fp8-format", "e4m3" },
  mxfp8 = { "--fp8-recipe", "mxfp8", "--fp8-format", "e4m3", "--fp8-param-gather",
    "--reuse-grad-buf-for-mxfp8-param-ag" },
}
local STATES <const> = { "--use-precision-aware-optimizer", "--main-grads-dtype", "fp32", "--main-params-dtype", "fp32",
  "--exp-avg-dtype", "bf16", "--exp-avg-sq-dtype", "bf16" }

local function add(list, more) table.move(more, 1, #more, #list + 1, list) end

-- The arguments that sbatch_benchmarking.sh of Megatron-MoE-ModelZoo adds to the model's for the variables that are
-- set.
local function zoo_extras(v, has)
  local list = {}
  if v.PR ~= nil and FP8[v.PR] then
    add(list, FP8[v.PR])
    add(list, STATES)
  end
  if v.A2A_OVERLAP == "1" then add(list, { "--delay-wgrad-compute", "--overlap-moe-expert-parallel-comm" }) end
  if v.OPTIMIZER_OFFLOAD == "1" then add(list, { "--optimizer-cpu-offload", "--overlap-cpu-optimizer-d2h-h2d" }) end
  local dispatcher = v.DISPATCHER or v.MOE_TOKEN_DISPATCHER or "alltoall"
  if dispatcher == "deepep" or dispatcher == "hybridep" then
    add(list, { "--moe-token-dispatcher-type", "flex", "--moe-flex-dispatcher-backend", dispatcher })
  else
    add(list, { "--moe-token-dispatcher-type", dispatcher })
  end
  local vpp = tonumber(v.VPP)
  if vpp and vpp > 1 and not has "virtual%-" and not has "%-layout" then
    add(list, { "--num-virtual-stages-per-pipeline-rank", v.VPP })
  end
  return list
end

-- The variables of a command, completed by the harness's table.
local function zoo_variables(command, conf, given)
  local environment = {}
  for name, value in pairs(command.environment) do environment[name] = value end
  if not conf then return environment end
  local sh = shell.new(given, environment, function() end)
  sh:run(conf.text, conf.name)
  return sh.vars
end

--- The words of a launch whose model is a YAML with MODEL_ARGS beside it (Megatron-MoE-ModelZoo); nil if there is none.
---@param command table   the command, whose words from `at` on are added
---@param all table[]     the files of the launch
---@return string[]? arguments
---@return integer? gpus
function harness.zoo(command, at, all, given)
  local yaml, conf
  for _, file in ipairs(all) do
    if file.kind == "tree" and file.text:find "\nMODEL_ARGS:" then yaml = file end
    if file.name:find "%.conf$" then conf = file end
  end
  if not yaml then return nil end
  local variables = zoo_variables(command, conf, given)
  local content = files.tree(yaml.text, yaml.path)
  local list = {}
  for _, key in ipairs(require "tperf.base.check".names(content.MODEL_ARGS)) do
    local value = filled(content.MODEL_ARGS[key], variables, given)
    if value ~= nil then list[#list + 1] = key end
    if value ~= nil and value ~= true then -- a list of layers, "([0]*3+[1]*58)", is one word to the stack
      add(list, layer_list.of(value) and { value } or words.split(value))
    end
  end
  add(list, table.move(command.words, at + 1, #command.words, 1, {}))
  add(list, zoo_extras(variables, function(pattern)
    for _, word in ipairs(list) do
      if word:find("^%-%-.*" .. pattern) then return true end
    end
    return false
  end))
  local nodes = math.tointeger(tonumber(variables.NNODES))
  return list, nodes and nodes * (variables.GB200_CLUSTER == "1" and 4 or 8)
end

return harness
