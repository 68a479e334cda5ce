local core = require "tperf.core"

return {
  summary = "serve agents by the Model Context Protocol, on standard input and output",
  details = [[
For example, in a client's configuration: { "command": "tperf", "args": ["mcp"] }
Questions are tools (`tperf schema QUESTION` prints what each takes), the lists of models,
systems and software are resources. A message is one line of JSON-RPC 2.0; the server ends with
its input.]],
  options = {},
  run = function(_, arguments)
    if arguments[1] then return false, ("unexpected argument '%s'"):format(arguments[1]) end
    local mcp = require "tperf.door.mcp"
    for line in io.stdin:lines() do
      local reply = line:find "%S" and mcp.reply(line)
      if reply then
        io.stdout:write(reply, "\n")
        io.stdout:flush()
      end
      if core.search.pending() then break end
    end
  end,
}
