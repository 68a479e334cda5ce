--- What a script does not say stands in its values as a marker, so that it is asked for only where it matters.
-- A marker of an unset variable holds its name; one of a command's output holds "$(command)".
local marker = {}

-- Stands for blanks in a marker, which must not be split into words.
local BLANK <const> = "\3"

--- The marker of an unset variable, or of a command's output.
function marker.of(name) return "\1" .. name:gsub("[\1\2%s]+", BLANK) .. "\2" end

--- Nothing but one unset variable: what a shell takes for empty.
function marker.is_unset(text) return text:find "^\1[^\1\2$][^\1\2]*\2$" ~= nil end

--- Holds a marker.
function marker.is_in(text) return text:find("\1", 1, true) ~= nil end

--- The names of the markers in a text, each once.
---@return string[]
function marker.names(text)
  local list, seen = {}, {}
  for name in text:gmatch "\1([^\1\2]*)\2" do
    if not seen[name] then
      seen[name] = true
      list[#list + 1] = name
    end
  end
  return list
end

--- The text as a person reads it: "${NNODES}" for what is not known.
function marker.shown(text)
  return (text:gsub("\1([^\1\2]*)\2", function(name)
    name = name:gsub(BLANK, " ")
    return name:find "^%$" and name or "${" .. name .. "}"
  end))
end

return marker
