--- `--launch STACK`: configurations as the launch file of a stack, instead of a table.
local check = require "tperf.base.check"
local lazy = require "tperf.base.lazy"
local export = lazy.module "tperf.export.launch"

local launch = {}

--- The option of commands about training.
launch.option = { long = "launch", value = "STACK",
  help = "print it as a launch file of that stack (docs/recipes.md)" }

--- The option of commands about servers.
launch.served = { long = "launch", value = "STACK", from = { "vllm", "sglang", "tensorrt-llm" },
  help = "print the command that starts it" }

--- Prints the launch file of the first configuration that the stack can be told of; on standard error what it is not
--- told, and why it cannot run earlier ones. Raises the first one's reason if it can run none.
---@param rows table[]
---@param stack string
---@param options table  of tperf.report.launch: what configurations do not hold
function launch.print(rows, stack, options)
  local first
  for i, row in ipairs(rows) do
    local ok, text, notes = check.attempt(export.written, row, stack, options)
    if ok then
      io.write(text)
      for _, note in ipairs(notes) do io.stderr:write(stack, ": ", note, "\n") end
      if first then
        io.stderr:write(("row %d of the search; those before it are not for this stack: %s\n"):format(i, first))
      end
      return
    end
    first = first or tostring(text):gsub("^.-tperf%.report%.launch: ", "")
  end
  error(first, 0)
end

--- The options of tperf.report.launch for a question about training.
---@param asked table
---@param tokens number?  of the whole run
function launch.trained(asked, tokens)
  return { model = asked.model, seq = asked.seq, tokens = tokens, question = asked }
end

-- Settings of tperf.infer that launch files are not told: other values than the usual ones are refused.
local UNTOLD <const> = { "precision", "compute_dtype", "attention", "strategy" }

--- The options of tperf.report.launch for a question of tperf.infer.
---@param asked table
function launch.inferred(asked)
  for _, name in ipairs(UNTOLD) do
    local value = asked[name]
    local usual = value == nil or value == "tensor" or value == "flash"
    if not usual then
      check.fail("--launch: a launch file is not told '%s': leave it out, or ask `tperf serve`", name)
    end
  end
  return { model = asked.model, weight_dtype = asked.weight_dtype, state_dtype = asked.state_dtype,
    kv_dtype = asked.kv_dtype ~= "bf16" and asked.kv_dtype or nil }
end

return launch
