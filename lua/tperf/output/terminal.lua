--- What the terminal can show. Keeps its own os.getenv and io, which a script may lose.
local core = require "tperf.core"

local getenv = os.getenv

local terminal = {
  plain = false, -- the output is also recorded: no colours, and UTF-8 whatever the locale
}

local WIDTH <const> = 80

-- Whether NO_COLOR is set and not empty (https://no-color.org).
local function no_color()
  local value = getenv "NO_COLOR"
  return value ~= nil and value ~= "" or getenv "TERM" == "dumb"
end

-- Whether the locale is UTF-8: the first of these variables that is set decides (POSIX).
local function utf8()
  for _, name in ipairs { "LC_ALL", "LC_CTYPE", "LANG" } do
    local value = getenv(name)
    if value and value ~= "" then return value:lower():find "utf%-?8" ~= nil end
  end
  return false
end

-- Whether standard output is a terminal and is not recorded.
local function is_output()
  return not terminal.plain and core.is_terminal(1)
end

--- Whether to print only ASCII: true on a terminal without UTF-8. Files are the same everywhere.
function terminal.ascii()
  return is_output() and not utf8()
end

--- Whether to use colour on standard output.
function terminal.color()
  return is_output() and not no_color()
end

--- The characters of a line: 80, or those of the terminal that standard output is.
---@return integer
function terminal.columns()
  return math.max(is_output() and core.terminal_columns(1) or WIDTH, WIDTH // 2)
end

--- The options of a table that is printed to standard output.
---@param options? table  as for tperf.report.text
---@return table
function terminal.options(options)
  local o = {}
  for name, value in pairs(options or {}) do o[name] = value end
  if o.color == nil then o.color = terminal.color() end
  if o.ascii == nil then o.ascii = terminal.ascii() end
  return o
end

local function styled(code)
  return function(text, on) return on and "\27[" .. code .. "m" .. text .. "\27[0m" or text end
end

--- Prints prose in lines of at most 80 characters; line ends in it stay.
---@param text string
function terminal.say(text)
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    print(#line > WIDTH and table.concat(require "tperf.base.wrap"(line, WIDTH), "\n") or line)
  end
end

terminal.bold = styled "1"
terminal.dim = styled "2"

--- Text in a colour of the 256-colour palette.
function terminal.colored(text, index, on)
  return on and string.format("\27[38;5;%dm%s\27[0m", index, text) or text
end

return terminal
