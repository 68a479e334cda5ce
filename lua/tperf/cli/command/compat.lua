local check = require "tperf.check"

local BOOLEANS = { ["true"] = true, True = true, ["1"] = true, ["false"] = false, False = false, ["0"] = false }
local VALUES = { integer = "N", number = "X", boolean = "BOOL", string = "TEXT" }

-- Both questions' arguments as options, under upstream's names.
local function declare()
  local options, seen = {}, {}
  local lists = require "tperf.compat.llm_analysis.arguments".lists
  for _, question in ipairs { "train", "infer" } do
    for _, argument in ipairs(lists[question]) do
      local name, kind, _, help = table.unpack(argument)
      if not seen[name] then
        seen[name] = true
        local text = kind == "boolean" and name ~= "fixed" -- upstream's flags take true or false
        options[#options + 1] = {
          long = name, value = name ~= "fixed" and VALUES[kind] or nil, kind = text and "string" or kind, help = help,
          boolean = text,
        }
      end
    end
  end
  options[#options + 1] = { long = "json", help = "print upstream's JSON instead of its readable text" }
  return options
end

local command = {
  summary = "answer as another tool does: compat llm-analysis train or infer",
  arguments = "llm-analysis train|infer",
  details = [[
The arguments have the names they have in llm-analysis, BOOL is true or false. The summary goes to
standard output, the warnings to standard error. `--fixed` uses corrected formulas.
docs/compat_llm_analysis.md tells which.]],
  options = declare(),
}

function command.run(values, arguments)
  local tool, question = arguments[1], arguments[2]
  if not tool then return false, "the tool is missing: llm-analysis" end
  if tool ~= "llm-analysis" then
    return false, ("the tool must be llm-analysis, got %s"):format(check.show(tool))
  end
  if question ~= "train" and question ~= "infer" or arguments[3] then
    return false, "llm-analysis needs one question, train or infer"
  end
  local request = {}
  for _, option in ipairs(command.options) do
    local value = values[option.long]
    if option.boolean and value ~= nil then
      value = BOOLEANS[value]
      if value == nil then return false, ("--%s must be true or false"):format(option.long) end
    end
    if option.long ~= "json" then request[option.long] = value end
  end
  local llm_analysis = require "tperf.compat.llm_analysis"
  local result = llm_analysis[question](request)
  for _, warning in ipairs(result.warnings) do io.stderr:write("warning: ", warning, "\n") end
  io.stdout:write(values.json and llm_analysis.json(result) .. "\n" or llm_analysis.text(result))
end

return command
