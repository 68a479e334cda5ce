--- What the library says, in the words of the command line.
local options = require "tperf.input.options"

-- The option that holds a field of a table, by what the command says of the table: "engine.*" = "*" has "max_num_seqs"
-- of it in --max-num-seqs, "host.*" = "host *" has "step" in --host; nil of other tables.
local function of_group(fields, name)
  local group, field = name:match "^([%w_]+)%.(.+)$"
  local shape = group and fields[group .. ".*"]
  if not shape then return nil end
  if shape == "*" then field = field:gsub("_", "-") end
  return "--" .. shape:gsub("%*", (field:gsub("%%", "%%%%")))
end

--- The library's message with its fields as the command's options that hold them. What somebody may have meant stays as
--- it is.
---@param command table  whose `fields` has the option of each field that is not called as its option is
---@param message string
---@return string
return function(command, message)
  local longs, fields = {}, command.fields or {}
  for _, option in ipairs(options.of(command)) do longs[option.long:gsub("-", "_")] = option.long end
  longs.global_batch = longs.batch
  for name, option in pairs(fields) do longs[name] = option end
  local head, tail = message:gsub("^tperf%.[%w_.:]-: ", ""):match "^(.-)(%(did you mean .*)$"
  head = head or message:gsub("^tperf%.[%w_.:]-: ", "")
  local of_a_file = head:find "^[^%s]+:%d+: " and not head:find "^[^%s]+:%d+: tperf%." -- whose columns are no options
  if of_a_file or head:find "^llm_analysis" then return head .. (tail or "") end
  local function option_of(name) return longs[name] and "--" .. longs[name] or of_group(fields, name) end
  if head:find "unknown field" then
    return head:gsub("unknown field '([%w_.]+)'", function(name)
      local option = name:find(".", 1, true) and option_of(name)
      return option and option .. " is unknown"
    end) .. (tail or "")
  end
  return head:gsub("'([%w_.]+)'", option_of) .. (tail or "")
end
