--- Rewrites the library's messages in terms of command-line options.
local ask = require("tperf.base.lazy").module "tperf.cli.ask.arguments"
local options = require "tperf.input.options"

-- Fields that commands have options of other names for, where they have them.
local USUAL <const> = {
  price = "gpu_hour", ["peft.kind"] = "peft", ["peft.rank"] = "lora_rank",
  ["peft.targets"] = "lora_targets", ["peft.dropout"] = "lora_dropout", ["packing.mean"] = "packing",
  ["mtbf.gpu"] = "mtbf", ["mtbf.node"] = "mtbf", ["mtbf.cluster"] = "mtbf",
}

-- The option for a field of a table, by the command's entry for the table: "engine.*" = "*" puts "max_num_seqs" in
-- --max-num-seqs, "host.*" = "host *" puts "step" in --host; nil for other tables.
local function of_group(fields, name)
  local group, field = name:match "^([%w_]+)%.(.+)$"
  local shape = group and fields[group .. ".*"]
  if not shape then return nil end
  if shape == "*" then field = field:gsub("_", "-") end
  return "--" .. shape:gsub("%*", (field:gsub("%%", "%%%%")))
end

--- The message with fields replaced by the options that set them. The suggestion ("did you mean") stays.
---@param command table  its `fields` maps fields to options of another name
---@param message string
---@return string
return function(command, message)
  local longs, fields = {}, command.fields or {}
  for _, option in ipairs(options.of(command)) do longs[option.long:gsub("-", "_")] = option.long end
  for name, option in pairs(ask.renamed(require "tperf.question.arguments".rows())) do
    local plain = option:gsub("-", "_")
    longs[name] = longs[name] or longs[plain]
  end
  for name, option in pairs(USUAL) do longs[name] = longs[name] or longs[option] end
  for name, option in pairs(fields) do longs[name] = option end
  local head, tail = message:gsub("^tperf%.[%w_.:]-: ", ""):match "^(.-)(%(did you mean .*)$"
  head = head or message:gsub("^tperf%.[%w_.:]-: ", "")
  local of_a_file = head:find "^[^%s]+:%d+: " and not head:find "^[^%s]+:%d+: tperf%." -- its columns are not options
  if of_a_file or head:find "^llm_analysis" then return head .. (tail or "") end
  local function option_of(name) return longs[name] and "--" .. longs[name] or of_group(fields, name) end
  if head:find "unknown field" then
    return head:gsub("unknown field '([%w_.]+)'", function(name)
      local option = name:find(".", 1, true) and option_of(name)
      return option and option .. " is unknown"
    end) .. (tail or "")
  end
  return head:gsub("'([%w_.]+)%[?%d*%]?'", option_of) .. (tail or "") -- or an item of a list: 'gpus[2]'
end
