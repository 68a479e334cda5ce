local limits = require "tperf.cli.limits"

-- The script's own arguments: the table `arg`, as stock Lua fills it, and "...".
local function arguments_of(list, program)
  local arguments = { [-1] = program }
  for i, argument in ipairs(list) do arguments[i - 1] = argument end
  return arguments
end

return {
  summary = "run a Lua script",
  arguments = "SCRIPT [ARGUMENT...]",
  passes_arguments = true,
  details = [[
The script sees the standard library less what reaches outside: no processes, no native
or binary code, no clock, no unseeded random numbers; it reads files, but writes them only
below the output folder. "-" reads the script from standard input. What follows SCRIPT
belongs to the script (its table arg).]],
  options = limits.options,
  run = function(values, arguments, host)
    if not arguments[1] then return false, "SCRIPT is missing" end
    local ok, message = limits.apply(values, host)
    if not ok then return false, message end
    local env = _G
    if not values.trust then env = require "tperf.cli.sandbox".environment(host) end
    local own = arguments_of(arguments, host.program)
    rawset(env, "arg", own)
    require "tperf.args".set(own)
    local path = arguments[1] ~= "-" and arguments[1] or nil
    local chunk, problem = loadfile(path, values.trust and "bt" or "t", env)
    if not chunk then error(problem, 0) end
    chunk(table.unpack(arguments, 2))
  end,
}
