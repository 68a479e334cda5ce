-- Runs the program as a user does, for specs: its standard output, standard error and exit status.
local lfs = require "lfs"

local program = {}

-- The lowest negative index of arg holds the program started by the shell: ./tperf or build/asan/tperf.
do
  local i = 0
  while arg[i - 1] do i = i - 1 end
  program.path = arg[i]
end

function program.quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

function program.slurp(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

function program.write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- Removes a file, or a folder with all in it, without a process. Leaves what a spec has protected.
local function remove(path)
  if lfs.symlinkattributes(path, "mode") == "directory" and lfs.attributes(path, "permissions"):find "^rwx" then
    for name in lfs.dir(path) do
      if name ~= "." and name ~= ".." then remove(path .. "/" .. name) end
    end
  end
  os.remove(path)
end

function program.remove(path)
  remove(path)
  if lfs.symlinkattributes(path, "mode") then os.execute("rm -rf " .. program.quote(path)) end
end

-- This process's folder of temporary files, removed with the Lua state.
local own = setmetatable({ count = 0 }, { __gc = function(t) if t.path then program.remove(t.path) end end })

--- A name for a temporary file that nothing else uses.
---@param ending? string  such as ".yaml"
function program.temporary(ending)
  if not own.path then
    local taken = os.tmpname() -- as long as this file lies in /tmp, no other process gets its name
    own.path = (os.getenv "TMPDIR" or "/tmp") .. "/specs-" .. taken:match "[^/]*$"
    assert(lfs.mkdir(own.path))
    os.remove(taken)
  end
  own.count = own.count + 1
  return ("%s/%d%s"):format(own.path, own.count, ending or "")
end

--- A new empty folder; remove it with program.remove.
function program.folder()
  local path = program.temporary()
  assert(lfs.mkdir(path))
  return path
end

--- The program's absolute path.
function program.absolute()
  if program.path:sub(1, 1) == "/" then return program.path end
  return lfs.currentdir() .. "/" .. program.path
end

-- running PID...: whether any of these processes still runs. kill -0 cannot tell: it fails if one of several has ended,
-- and succeeds for one that has ended until somebody waits for it.
-- computed PID N: whether a process has computed for so many hundredths of a second, however busy the machine is.
local WORDS <const> = [[
  running() {
    for pid; do case $(sed 's/.*) //' /proc/$pid/stat 2> /dev/null) in "" | [ZX]*) ;; *) return 0 ;; esac; done
    return 1
  }
  computed() { test "$(cut -d ' ' -f 14 /proc/$1/stat)" -ge $2; }
]]

--- Runs a shell command line in which "tperf" stands for the program (an absolute path), "running PID..." tells whether
--- any of these processes still runs, and "computed PID N" whether one has computed for N hundredths of a second.
---@return { out: string, err: string, code: integer }
function program.shell(command, folder)
  local base = program.temporary()
  local line = WORDS .. ("cd %s && tperf() { %s \"$@\"; } && { %s\n} > %s.out 2> %s.err < /dev/null"):format(
    program.quote(folder or "."), program.quote(program.absolute()), command, base, base)
  local _, kind, code = os.execute(line)
  local result = { out = program.slurp(base .. ".out"), err = program.slurp(base .. ".err") }
  result.code = kind == "exit" and code or 128 + code
  for _, suffix in ipairs { ".out", ".err" } do os.remove(base .. suffix) end
  return result
end

-- The words of a command line as a shell splits it; nil if it says anything that only a shell knows.
local function words_of(command)
  local words, at = { [0] = "tperf" }, #"tperf" + 1
  if not command:find "^tperf%f[%s%z]" then return nil end
  while command:find("%S", at) do
    at = command:find("%S", at)
    local word = ""
    repeat
      local quoted, after = command:match("^'([^']*)'()", at)
      local plain, rest = command:match("^([%w%-_=.,:/+%%@]+)()", at)
      if not (quoted or plain) then return nil end
      word, at = word .. (quoted or plain), after or rest
    until at > #command or command:find("^%s", at)
    words[#words + 1] = word
  end
  return words
end

-- These need what only the process's own start gives them.
local APART <const> = { run = true, verify = true, repl = true }

--- Like program.shell of one command of tperf, but in this process, which has loaded and read already what most of them
--- load and read; for what is printed and refused. Streams, signals and exit are the matter of program.shell, which
--- runs what this cannot.
---@param command string
---@param folder string?  to run it in, in a process of its own
---@return { out: string, err: string, code: integer }
function program.ask(command, folder)
  local words = not folder and words_of(command)
  if not words or APART[words[1]] or command:find "%-%-verbose" then return program.shell(command, folder) end
  local terminal = require "tperf.output.terminal"
  local stdout, stderr, usual, plain = io.stdout, io.stderr, print, terminal.plain
  local out, err = assert(io.tmpfile()), assert(io.tmpfile())
  io.stdout, io.stderr, terminal.plain = out, err, true -- luacheck: ignore 122
  io.output(out)
  function print(...) -- luacheck: ignore 121
    for i = 1, select("#", ...) do out:write(i > 1 and "\t" or "", tostring((select(i, ...)))) end
    out:write "\n"
  end
  -- A thread of its own has no frame of the spec, whose line errors would name.
  local thread = coroutine.create(require "tperf.cli")
  local ok, status = coroutine.resume(thread, { verbose = function() end, close_nothing = function() end }, words)
  if not ok then err:write("tperf: ", tostring(status), "\n") end
  io.stdout, io.stderr, terminal.plain, print = stdout, stderr, plain, usual -- luacheck: ignore 121 122
  io.output(stdout)
  local result = { code = not ok and 1 or math.type(status) == "integer" and status or 0 }
  for name, file in pairs { out = out, err = err } do
    file:seek "set"
    result[name] = file:read "a"
    file:close()
  end
  return result
end

--- Runs the program, sends it SIGINT once a condition holds, and waits for it to end.
---@param arguments string  with redirections, as the shell reads them
---@param ready string  a shell command that succeeds when the time has come, however busy the machine is; a program
---   that ends before is not waited for
---@param folder string
---@return { out: string, err: string, code: integer }
function program.interrupted(arguments, ready, folder)
  -- the program itself runs in the background, so that $! is not a shell around it
  return program.shell(([[
    %s %s & job=$!
    until { %s; } 2> /dev/null; do kill -0 $job || break; sleep 0.02; done
    kill -INT $job; wait $job]]):format(program.quote(program.absolute()), arguments, ready), folder)
end

--- Calls run(tperf, folder) in a folder that has these files and is removed afterwards; tperf(arguments) runs the
--- program there, which a launch file may name ./tperf.
---@param files table<string, string>  name -> content
function program.within(files, run)
  local folder = program.folder()
  for name, text in pairs(files) do program.write(folder .. "/" .. name, text) end
  assert(lfs.link(program.absolute(), folder .. "/tperf", true))
  local function tperf(arguments) return program.shell("./tperf " .. arguments, folder) end
  local ok, problem = pcall(run, tperf, folder)
  program.remove(folder)
  if not ok then error(problem, 0) end
end

--- Runs `tperf run OPTIONS script.lua` on the given text in a new folder, after preparing it with a shell command.
function program.script(text, options, prepare)
  local folder = program.folder()
  program.write(folder .. "/script.lua", text)
  local result = program.shell((prepare or ":") .. "; tperf run " .. (options or "") .. " script.lua", folder)
  result.folder = folder
  return result
end

return program
