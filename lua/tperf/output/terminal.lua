--- What the terminal can show. Scripts may lose os.getenv and io; the library keeps its own.
local core = require "tperf.core"

local getenv = os.getenv

local terminal = {
  plain = false, -- what is printed is kept as well: no colours, and UTF-8 whatever the locale
}

-- Whether colour was asked not to be used (https://no-color.org: set and not empty).
local function no_color()
  local value = getenv "NO_COLOR"
  return value ~= nil and value ~= "" or getenv "TERM" == "dumb"
end

-- Whether the locale says that the terminal shows UTF-8; the first of these that is set decides (POSIX).
local function utf8()
  for _, name in ipairs { "LC_ALL", "LC_CTYPE", "LANG" } do
    local value = getenv(name)
    if value and value ~= "" then return value:lower():find "utf%-?8" ~= nil end
  end
  return false
end

-- Whether standard output is a terminal, and nothing else.
local function is_output()
  return not terminal.plain and core.is_terminal(1)
end

--- Whether to keep to ASCII on standard output: only a terminal may not show UTF-8, files are the same everywhere.
function terminal.ascii()
  return is_output() and not utf8()
end

--- Whether to colour what goes to standard output.
function terminal.color()
  return is_output() and not no_color()
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
