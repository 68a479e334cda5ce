--- Markers stand for unknown parts of values, so that a value is asked for only if it matters.
-- The marker of an unset variable contains its name; that of a command's output contains "$(command)".
local marker = {}

-- Replaces blanks in a marker, which must not be split into words.
local BLANK <const> = "\3"

--- Creates the marker of an unset variable, or of a command's output.
function marker.of(name) return "\1" .. name:gsub("[\1\2%s]+", BLANK) .. "\2" end

--- Whether a text is only one unset variable, which a shell treats as empty.
function marker.is_unset(text) return text:find "^\1[^\1\2$][^\1\2]*\2$" ~= nil end

--- Whether a text contains a marker.
function marker.is_in(text) return text:find("\1", 1, true) ~= nil end

--- The names of the markers in a text, without duplicates.
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

--- The text for messages, with "${NNODES}" for an unknown variable.
function marker.shown(text)
  return (text:gsub("\1([^\1\2]*)\2", function(name)
    name = name:gsub(BLANK, " ")
    return name:find "^%$" and name or "${" .. name .. "}"
  end))
end

return marker
