--- The completion script for fish.

local function quote(text) return "'" .. text:gsub("[\\']", "\\%0") .. "'" end

-- An option's values as `complete` takes them; in a comma-separated list each completes what follows the last comma.
local function values(option)
  local words = table.concat(option.takes.words, " ")
  local from = option.takes.files and " -r -F" or " -x"
  if option.takes.folders then from = from .. " -a '(__fish_complete_directories)'" end
  if words == "" then return from end
  return from .. " -a " .. quote(option.many and ("(__fish_append , %s)"):format(words) or words)
end

---@param commands table[]  see completion.commands
---@return string
return function(commands)
  local lines = { "# fish completion for tperf; written by `tperf completion fish`", "complete -c tperf -f" }
  local function put(format, ...) lines[#lines + 1] = "complete -c tperf " .. format:format(...) end
  for _, command in ipairs(commands) do
    put("-n __fish_use_subcommand -a %s -d %s", command.name, quote(command.summary))
    local within = "-n " .. quote("__fish_seen_subcommand_from " .. command.name)
    for _, option in ipairs(command.options) do
      put("%s -l %s%s%s -d %s", within, option.long, option.short and " -s " .. option.short or "",
        option.takes and values(option) or "", quote(option.help))
    end
    local words, files = {}, false
    for _, source in ipairs(command.places) do
      table.move(source.words, 1, #source.words, #words + 1, words)
      files = files or source.files or source.folders
    end
    if #words > 0 then put("%s -a %s", within, quote(table.concat(words, " "))) end
    if files then put("%s -F", within) end
  end
  return table.concat(lines, "\n") .. "\n"
end
