local check = require "tperf.base.check"

local BOOLEANS = { ["true"] = true, True = true, ["1"] = true, ["false"] = false, False = false, ["0"] = false }
local VALUES = { integer = "N", number = "X", boolean = "BOOL", string = "TEXT" }

local revisions = require "tperf.compat.llm_analysis.revisions"

-- Completion lists for options that are neither numbers nor flags.
local FROM = {
  model = "llm-analysis-models files", gpu = "llm-analysis-gpus", dtype = "llm-analysis-dtypes", output_dir = "folders",
  model_name = "llm-analysis-models files", gpu_name = "llm-analysis-gpus", dtype_name = "llm-analysis-dtypes",
  revision = revisions.names,
}

-- An argument as an option, with upstream's name.
local function option_of(name, kind, help)
  local text = kind == "boolean" and name ~= "fixed" -- upstream's flags take true or false
  return { long = name, value = name ~= "fixed" and VALUES[kind] or nil, kind = text and "string" or kind, help = help,
    boolean = text, from = text and { "true", "false" } or FROM[name] }
end

-- The arguments of both questions. Those of one revision only say so; if both define one differently, the first counts.
local function declare()
  local options, named = {}, {}
  local lists = require "tperf.compat.llm_analysis.arguments".lists
  for _, question in ipairs { "train", "infer" } do
    for _, argument in ipairs(lists[question]) do
      local name, kind, _, help, revision = table.unpack(argument)
      if revision and name ~= "fixed" then help = ("%s (%s)"):format(help, revision) end
      if not named[name] then
        named[name] = option_of(name, kind, help)
        options[#options + 1] = named[name]
      end
    end
  end
  options[#options + 1] = { long = "json", help = "print upstream's JSON instead of its readable text" }
  return options
end

-- The minimum and maximum number of names for each function.
local FUNCTIONS = {
  list_model_configs = { 0, 0 }, list_gpu_configs = { 0, 0 }, list_dtype_configs = { 0, 0 },
  get_model_config_by_name = { 1, 1 }, get_gpu_config_by_name = { 1, 1 }, get_dtype_config_by_name = { 1, 1 },
  dump_model_config_by_name = { 1, 2 },
}

-- The names that complete the first argument: train, infer and the functions.
local function questions()
  local list = check.names(FUNCTIONS)
  return table.move({ "train", "infer" }, 1, 2, #list + 1, list)
end

local command = {
  summary = "answer as another tool does: compat llm-analysis train or infer",
  arguments = "llm-analysis train|infer|FUNCTION [NAME [FOLDER]]",
  details = [[
Arguments are named as in llm-analysis, with "_" or "-"; BOOL is true or false. The summary
goes to standard output, the warnings to standard error. `--revision 0571436` selects the documented revision
of that tool, where --activation_recomputation is 0 none, 1 attention core or 2 all; `--fixed` corrects the
formulas of the other, d841e40. FUNCTION is one of:
  list_model_configs, list_gpu_configs, list_dtype_configs
  get_model_config_by_name NAME, get_gpu_config_by_name NAME,
  get_dtype_config_by_name NAME
  dump_model_config_by_name NAME [FOLDER]
docs/compat_llm_analysis.md is the manual.]],
  from = { { "llm-analysis" }, questions() },
  options = declare(),
}

-- The arguments of a question that the options set; nil and a message.
local function request_of(values)
  local request = {}
  for _, option in ipairs(command.options) do
    local value = values[option.long]
    if option.boolean and value ~= nil then
      value = BOOLEANS[value]
      if value == nil then return nil, ("--%s must be true or false"):format(option.long) end
    end
    if option.long ~= "json" then request[option.long] = value end
  end
  return request
end

local function answer(llm_analysis, question, values)
  local request, message = request_of(values)
  if not request then return false, message end
  local result = llm_analysis[question](request)
  for _, warning in ipairs(result.warnings) do io.stderr:write("warning: ", warning, "\n") end
  io.stdout:write(values.json and llm_analysis.json(result) .. "\n" or llm_analysis.text(result))
end

local function call(llm_analysis, name, arguments, values)
  for option in pairs(values) do
    if option ~= "revision" then return false, ("%s takes no --%s"):format(name, option) end
  end
  local needed, taken = table.unpack(FUNCTIONS[name])
  if #arguments - 2 < needed then return false, name .. " needs a name" end
  if #arguments - 2 > taken then return false, ("unexpected argument '%s'"):format(arguments[3 + taken]) end
  if name:find "^list" then
    io.stdout:write(table.concat(llm_analysis[name](), "\n"), "\n")
  elseif name:find "^get" then
    local config = llm_analysis[name](arguments[3], values.revision)
    io.stdout:write(llm_analysis.config_json(config, values.revision), "\n")
  else
    llm_analysis[name](arguments[3], arguments[4], values.revision)
  end
end

function command.run(values, arguments)
  local tool, question = arguments[1], (arguments[2] or ""):gsub("-", "_")
  if not tool then return false, "the tool is missing: llm-analysis" end
  if tool ~= "llm-analysis" then
    return false, ("the tool must be llm-analysis, got %s"):format(check.show(tool))
  end
  local llm_analysis = require "tperf.compat.llm_analysis"
  if FUNCTIONS[question] then return call(llm_analysis, question, arguments, values) end
  if question ~= "train" and question ~= "infer" then
    return false, "llm-analysis needs one question, train or infer, or one of its functions"
      .. check.suggest(question, questions())
  end
  if arguments[3] then return false, ("unexpected argument '%s'"):format(arguments[3]) end
  return answer(llm_analysis, question, values)
end

return command
