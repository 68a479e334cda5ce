--- What the commands of the library print: texts of others among it (names in files, names of files) do nothing to a
-- terminal, wherever a command takes them from.
local core = require "tperf.core"
local terminal = require "tperf.output.terminal"
local wording = require "tperf.base.wording"

local screen = {}

local PROGRESS <const> = { ["\r"] = true, ["\27[K"] = true, ["\r\27[K"] = true } -- of base/progress.lua

-- A text with its own colours, if they are on.
local function shown(text)
  if not core.hidden(text, 1, true) then return text end
  if PROGRESS[text] and core.is_terminal(2) then return text end
  if not terminal.color() then return wording.lines(text) end
  local parts, at = {}, 1
  for first, style, after in text:gmatch "()(\27%[[%d;]*m)()" do
    parts[#parts + 1] = wording.lines(text:sub(at, first - 1))
    parts[#parts + 1] = style
    at = after
  end
  parts[#parts + 1] = wording.lines(text:sub(at))
  return table.concat(parts)
end

--- From now on, what goes to standard output and error is shown so. For commands that run no script.
function screen.install()
  local stdout, stderr, methods = io.stdout, io.stderr, getmetatable(io.stdout).__index
  local write = methods.write
  local function put(file, ...)
    if file ~= stdout and file ~= stderr then return write(file, ...) end
    local texts = table.pack(...)
    for i = 1, texts.n do
      if type(texts[i]) == "string" then texts[i] = shown(texts[i]) end
    end
    return write(file, table.unpack(texts, 1, texts.n))
  end
  methods.write = put
  rawset(io, "write", function(...) return put(io.output(), ...) end)
  rawset(_G, "print", function(...)
    local texts = table.pack(...)
    for i = 1, texts.n do texts[i] = tostring(texts[i]) end
    put(stdout, table.concat(texts, "\t"), "\n")
  end)
end

return screen
