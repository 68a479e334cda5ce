--- The completion script for bash 3.2 and later.

local SCRIPT = [=[
# bash completion for tperf; written by `tperf completion bash`

# COMMAND, OPTION: what the option's value is, as _tperf_add takes it; fails where the option takes none.
_tperf_value() {
    case "$1 $2" in
@VALUES@
        *) return 1 ;;
    esac
}

# COMMAND, N: what its Nth argument is, as _tperf_add takes it.
_tperf_place() {
    case "$1 $2" in
@PLACES@
    esac
}

# COMMAND: its options.
_tperf_options() {
    case $1 in
@OPTIONS@
    esac
}

# Words, @files, @folders; "," first where a list of them is meant: what they have that starts with $current.
_tperf_add() {
    local files= word list=
    while [[ $1 == , || $1 == @files || $1 == @folders ]]; do
        case $1 in
            ,) list=yes ;;
            @files) files=file ;;
            @folders) files=directory ;;
        esac
        shift
    done
    if [[ $list && $current == *,* ]]; then
        prefix+=${current%,*},
        current=${current##*,}
    fi
    for word; do
        [[ $word == "$current"* ]] && COMPREPLY+=("$prefix$word")
    done
    if [[ $files && ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o filenames 2> /dev/null
        while IFS= read -r word; do COMPREPLY+=("$prefix$word"); done < <(compgen -A $files -- "$current")
    fi
}

_tperf() {
    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} prefix= option= words= place=1 i
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _tperf_add @COMMANDS@
        return
    fi
    # "--option=value" is one word, or three where "=" ends words.
    if [[ $current == --*=* ]]; then
        option=${current%%=*}
        prefix=$option=
        current=${current#*=}
    elif [[ $current == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 1]}
        current=
    elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    else
        option=${COMP_WORDS[COMP_CWORD - 1]}
    fi
    if [[ $option == -* ]] && words=$(_tperf_value "$command" "$option"); then
        _tperf_add $words
        return
    fi
    if [[ $current == -* ]]; then
        _tperf_add $(_tperf_options "$command")
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            --*=*) ;;
            -*)
                if _tperf_value "$command" "${COMP_WORDS[i]}" > /dev/null; then
                    [[ ${COMP_WORDS[i + 1]} == = ]] && i=$((i + 1))
                    i=$((i + 1))
                fi
                ;;
            *) place=$((place + 1)) ;;
        esac
    done
    _tperf_add $(_tperf_place "$command" "$place")
}

complete -F _tperf tperf
]=]

-- Words as arguments of _tperf_add, split by the shell: names contain neither blanks nor wildcards.
local function words_of(source, many)
  local list = { many and "," or nil }
  if source.files then list[#list + 1] = "@files" end
  if source.folders then list[#list + 1] = "@folders" end
  table.move(source.words, 1, #source.words, #list + 1, list)
  return table.concat(list, " ")
end

local function answer(pattern, words) return ("        %s) echo '%s' ;;"):format(pattern, words) end

local function names_of(option, command)
  local long = ('"%s--%s"'):format(command, option.long)
  return option.short and ('%s | "%s-%s"'):format(long, command, option.short) or long
end

---@param commands table[]  see completion.commands
---@return string
return function(commands)
  local parts = { COMMANDS = {}, VALUES = {}, PLACES = {}, OPTIONS = {} }
  local function put(part, line) table.insert(parts[part], line) end
  for i, command in ipairs(commands) do
    parts.COMMANDS[i] = command.name
    local own = {}
    for _, option in ipairs(command.options) do
      own[#own + 1] = "--" .. option.long
      if option.takes then
        put("VALUES", answer(names_of(option, command.name .. " "), words_of(option.takes, option.many)))
      end
    end
    put("OPTIONS", answer(command.name, table.concat(own, " ")))
    for n, source in ipairs(command.places) do
      local place = command.more and n == #command.places and "*" or n
      put("PLACES", answer(('"%s "%s'):format(command.name, place), words_of(source)))
    end
  end
  return (SCRIPT:gsub("@(%u+)@", function(part)
    return table.concat(parts[part], part == "COMMANDS" and " " or "\n")
  end))
end
