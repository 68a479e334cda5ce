--- What the library says, in the words of the command line.
local options = require "tperf.cli.options"

--- The library's message with its fields as the command's options that hold them. What somebody may have meant stays as
--- it is.
---@param command table
---@param message string
---@return string
return function(command, message)
  local longs = {}
  for _, option in ipairs(options.of(command)) do longs[option.long:gsub("-", "_")] = option.long end
  longs.global_batch = longs.batch
  local head, tail = message:gsub("^tperf%.[%w_.:]-: ", ""):match "^(.-)(%(did you mean .*)$"
  head = head or message:gsub("^tperf%.[%w_.:]-: ", "")
  if head:find "unknown field" or head:find "^llm_analysis" then return head .. (tail or "") end
  return head:gsub("'([%w_]+)'", function(name) return longs[name] and "--" .. longs[name] end) .. (tail or "")
end
