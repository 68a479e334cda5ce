--- Runs a script, for `tperf run` and `tperf verify`.
local core = require "tperf.core"
local source = require "tperf.cli.sandbox.source"

local script = {}

-- The script's arguments: the table `arg`, filled as by stock Lua, and "...".
local function arguments_of(list, program)
  local arguments = { [-1] = program }
  for i, argument in ipairs(list) do arguments[i - 1] = argument end
  return arguments
end

-- package.path preceded by the script's folder, unless the folder's name contains characters with a meaning in
-- package.path.
local function path_beside(path)
  local folder = path and path ~= "-" and (path:match "^(.*/)" or "./")
  if not folder or folder:find "[;?]" then return package.path end
  return ("%s?.lua;%s?/init.lua;%s"):format(folder, folder, package.path)
end

--- Runs a script to its end, in the sandbox unless trusted, and returns what it returns. Set the limits and the output
--- folder first.
---@param list string[]  the script's file ("-" for standard input) and its arguments
---@param record table?  from tperf.cli.sandbox.recorder: records the script's text, too
---@param open? fun(path: string): file*?, string?  default: that the user names the script, who may give a pipe
function script.run(list, trusted, host, record, open)
  local env, path = _G, list[1]
  local text, problem
  host.output.script(path)
  if path == "-" then
    text, problem = io.read "a"
  else
    if open then text, problem = source.read(path, open(path))
    else text, problem = source.read(path, core.file.open(path, true)) end
  end
  if not text then error(problem, 0) end
  if record then record:note(path, text) end
  if trusted then
    package.path = path_beside(path)
  else
    env = require "tperf.cli.sandbox".environment(host, path_beside(path))
  end
  local own = arguments_of(list, host.program)
  rawset(env, "arg", own)
  require "tperf.input.args".set(own)
  local chunk
  chunk, problem = source.chunk(text, path == "-" and "=stdin" or "@" .. path, trusted and "bt" or "t", env)
  if not chunk then error(problem, 0) end
  return chunk(table.unpack(list, 2))
end

return script
