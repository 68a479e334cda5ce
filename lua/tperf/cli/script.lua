--- Running a script, as `tperf run` and `tperf verify` do.
local script = {}

-- The script's own arguments: the table `arg`, as stock Lua fills it, and "...".
local function arguments_of(list, program)
  local arguments = { [-1] = program }
  for i, argument in ipairs(list) do arguments[i - 1] = argument end
  return arguments
end

--- Runs a script to its end, in the sandbox unless trusted. Limits and the output folder are set before.
---@param list string[]  the script's file ("-" for standard input) and its arguments
function script.run(list, trusted, host)
  local env = _G
  if not trusted then env = require "tperf.cli.sandbox".environment(host) end
  local own = arguments_of(list, host.program)
  rawset(env, "arg", own)
  require "tperf.args".set(own)
  local path = list[1] ~= "-" and list[1] or nil
  local chunk, problem = loadfile(path, trusted and "bt" or "t", env)
  if not chunk then error(problem, 0) end
  chunk(table.unpack(list, 2))
end

return script
