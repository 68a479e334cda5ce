--- What the terminal can show. Scripts may lose os.getenv and io; the library keeps its own.
local getenv = os.getenv

local terminal = {}

--- Whether colour was asked not to be used (https://no-color.org: set and not empty).
function terminal.no_color()
  local value = getenv "NO_COLOR"
  return value ~= nil and value ~= "" or getenv "TERM" == "dumb"
end

--- Whether the locale says that the terminal shows UTF-8; the first of these that is set decides (POSIX).
function terminal.utf8()
  for _, name in ipairs { "LC_ALL", "LC_CTYPE", "LANG" } do
    local value = getenv(name)
    if value and value ~= "" then return value:lower():find "utf%-?8" ~= nil end
  end
  return false
end

--- Whether standard output is a terminal.
function terminal.is_output()
  local is_terminal = require "tperf.core".is_terminal
  return is_terminal ~= nil and is_terminal(1)
end

--- Whether to colour what goes to standard output.
function terminal.color()
  return terminal.is_output() and not terminal.no_color()
end

local function styled(code)
  return function(text, on) return on and "\27[" .. code .. "m" .. text .. "\27[0m" or text end
end

terminal.bold = styled "1"
terminal.dim = styled "2"

--- Text in a colour of the 256-colour palette.
function terminal.colored(text, index, on)
  return on and string.format("\27[38;5;%dm%s\27[0m", index, text) or text
end

return terminal
