--- The completion script for zsh.

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- Escapes text for a specification of _arguments, in which brackets, colons and backslashes have a meaning.
local function plain(text) return (text:gsub("[%[%]:\\]", "\\%0")) end

local function action(source, many)
  local parts = {}
  if #source.words > 0 then
    local words = "compadd - " .. table.concat(source.words, " ")
    parts[1] = many and "_sequence " .. words or words
  end
  if source.files then parts[#parts + 1] = "_files" end
  if source.folders then parts[#parts + 1] = "_files -/" end
  if #parts == 0 then return " " end -- takes a value, but has no completions
  if #parts == 1 and not parts[1]:find "^compadd" then return parts[1] end
  return "{" .. table.concat(parts, " || ") .. "}"
end

local function specification(option)
  local long, help = "--" .. option.long, plain(option.help)
  local value = option.takes and (":%s:%s"):format(plain(option.placeholder), action(option.takes, option.many)) or ""
  if option.takes then long = long .. "=" end
  if not option.short then return quote(("%s[%s]%s"):format(long, help, value)) end
  local short = "-" .. option.short .. (option.takes and "+" or "")
  return ("'(-%s --%s)'{%s,%s}%s"):format(option.short, option.long, short, long, quote(("[%s]%s"):format(help, value)))
end

---@param commands table[]  see completion.commands
---@return string
return function(commands)
  local lines = { "#compdef tperf", "# zsh completion for tperf; written by `tperf completion zsh`", "", "_tperf() {",
    "  local -a commands", "  commands=(" }
  local function put(format, ...) lines[#lines + 1] = format:format(...) end
  for _, command in ipairs(commands) do
    put("    %s", quote(command.name .. ":" .. command.summary:gsub(":", "\\:")))
  end
  put "  )"
  put "  if ((CURRENT == 2)); then"
  put "    _describe -t commands command commands"
  put "    return"
  put "  fi"
  put "  shift words; ((CURRENT--))"
  put "  case $words[1] in"
  for _, command in ipairs(commands) do
    put("    (%s)", command.name)
    local words = { "      _arguments -s -S" }
    for _, option in ipairs(command.options) do words[#words + 1] = "        " .. specification(option) end
    for n, source in ipairs(command.places) do
      local place = command.more and n == #command.places and "*" or tostring(n)
      words[#words + 1] = "        " .. quote(("%s: :%s"):format(place, action(source)))
    end
    lines[#lines + 1] = table.concat(words, " \\\n")
    put "      ;;"
  end
  put "  esac"
  put "}"
  put ""
  put 'if [[ $funcstack[1] == _tperf ]]; then _tperf "$@"; else compdef _tperf tperf; fi' -- autoloaded, or sourced
  return table.concat(lines, "\n") .. "\n"
end
