local core = require "tperf.core"
local units = require "tperf.base.units"

local MEMORY <const> = 4 << 30 -- bytes
local LEAST_MEMORY <const> = 64 << 20
local SECONDS <const> = 60

-- The limits of a session; nil and a message if a value is wrong.
local function limits_of(values)
  local memory, seconds = values.max_memory or MEMORY, values.seconds or SECONDS
  if memory < LEAST_MEMORY or memory >= 2 ^ 62 then
    return nil, ("--max-memory: at least 64 MiB is needed, got %s"):format(units.format(memory, "bytes"))
  end
  if seconds < 1 or seconds > 1e6 then return nil, "--seconds: 1 to 1000000" end
  return { memory = math.floor(memory), seconds = seconds }
end

return {
  summary = "serve agents by the Model Context Protocol, on standard input and output",
  details = [[
In a client's configuration:
  { "command": "tperf", "args": ["mcp"] }
Questions are tools (`tperf schema QUESTION` prints what each takes), the lists of models,
systems and software and the documents are resources. A message is one line of JSON-RPC 2.0;
the server ends with its input. A call that needs more time or memory has an error that says so;
a search answers with the best so far (`complete` is false).]],
  options = {
    { long = "seconds", value = "N", kind = "integer", help = "time for each call (default 60)" },
    { long = "max-memory", value = "SIZE", kind = "bytes", help = "limit on the server's memory (default 4 GiB)" },
  },
  run = function(values, arguments, host)
    if arguments[1] then return false, ("unexpected argument '%s'"):format(arguments[1]) end
    local limits, message = limits_of(values)
    if not limits then return false, message end
    host.limits.memory(limits.memory)
    core.search.memory_left = host.limits.memory_left
    local mcp = require "tperf.door.mcp"
    mcp.limits = { seconds = limits.seconds, set = host.limits.seconds }
    for line in io.stdin:lines() do
      if host.limits.interactive() then break end -- Ctrl-C between two messages
      local reply = line:find "%S" and mcp.reply(line)
      if reply then
        io.stdout:write(reply, "\n")
        io.stdout:flush()
      end
      if core.search.pending() then break end
    end
  end,
}
