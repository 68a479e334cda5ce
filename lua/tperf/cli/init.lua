--- The command line. src/cli/main.c calls this with host, which does what only C can do:
--   host.verbose(on)                  tracebacks with errors
--   host.program                      the program's name as the shell started it
--   host.exit(status)                 ends the process after flushing and checking standard output
--   host.close_nothing()              when the process ends, no object has anything to finish
--   host.limits.memory(bytes), .instructions(count), .interactive()
--   host.input.open(path)             opens a regular file for reading
--   host.input.real(path, hash)       its absolute path, and its SHA-256 if `hash`
--   host.output.folder(dir)           sets the output folder; scripts write only new files and their own in it:
--     .open(path, mode), .write(path, text), .keep(path, bytes), .remove(path), .rename(from, to)
--   host.output.script(path)          sets the running script, which owns what it wrote in earlier runs
--   host.output.finish()              closes what a script left open
--   host.output.claim(path, sha256), .retire(path), .manifest(text)   for manifests
--   host.output.make_folder(path), .temporary(), .remove_folder(dir), .silence(on)   for `tperf verify`
--   host.line()                       read(prompt, complete), which edits a line with libedit; nil if not installed
--   host.safe.NAME                    replacements for standard functions (see cli/sandbox/init.lua)
-- and the arguments, from 0. Returns the exit status: 0 success, 1 error (raised), 2 wrong usage.
local check = require "tperf.base.check"
local core = require "tperf.core"
local commands = require "tperf.cli.commands"
local in_options = require "tperf.cli.ask.in_options"
local data_files = require "tperf.cli.answer.data_files"
local options = require "tperf.input.options"
local outputs = require "tperf.cli.outputs"
local required = require "tperf.base.lazy".module "tperf.cli.sandbox.required"
local screen = require "tperf.cli.screen"
local wording = require "tperf.base.wording"

local function wrong(name, message)
  io.stderr:write(wording.lines(("tperf: %s\n"):format(message)))
  io.stderr:write(name and options.usage(name, commands.find(name)) or "`tperf help` lists the commands\n")
  return 2
end

local LISTS <const> = { list = true, fits = true } -- answers about no model in particular, though they read all
local RUNS_SCRIPTS = { run = true, verify = true, repl = true } -- their errors name the script's own fields
local HAS_DATABASE = { sweep = true }

-- Runs a command. Its errors name options, except under --verbose, which keeps the traceback.
local function run(name, command, values, rest, host)
  values.asked = (command.arguments or ""):find "MODEL" and rest or nil
  if values.verbose or RUNS_SCRIPTS[name] then return command.run(values, rest, host) end
  local results = table.pack(pcall(command.run, values, rest, host))
  if results[1] then return table.unpack(results, 2, results.n) end
  local problem = results[2]
  error(type(problem) == "string" and in_options(command, problem) or problem, 0)
end

local ALIASES = { ["--help"] = "help", ["-h"] = "help", ["--version"] = "version", ["-V"] = "version" }

return function(host, arguments)
  local name = arguments[1]
  if core.ranks.count > 1 then core.search.threads = core.ranks.share end
  host.program = arguments[0]
  if not name then
    io.stdout:write(require "tperf.cli.guide.overview"())
    return 0
  end
  name = ALIASES[name] or name
  if not RUNS_SCRIPTS[name] then screen.install() end
  for _, argument in ipairs(arguments) do
    if argument:find "^%-%-require" then required.run(name, arguments, host) break end
  end
  local command = commands.find(name)
  if not command then
    return wrong(nil, ("unknown command '%s'%s"):format(name, check.suggest(name, commands.names())))
  end
  local values, rest = options.parse(command, arguments, 2)
  if not values then return wrong(name, rest) end
  if values.help then
    io.stdout:write(require "tperf.input.help".text(name, command, rest[1] == "all"))
    return 0
  end
  if values.json and values.csv then return wrong(name, "--json and --csv exclude each other") end
  host.verbose(values.verbose)
  data_files.watch(values.data, values.ignore, values.from ~= nil)
  outputs.check(command, values)
  if not RUNS_SCRIPTS[name] and table.concat(rest, "\n"):find(".lua", 1, true) then
    rest = require "tperf.cli.model_script".load(rest, host, command, values)
  end
  local status, message = run(name, command, values, rest, host)
  if status ~= false and not (RUNS_SCRIPTS[name] or LISTS[name]) then data_files.tell() end
  if status == false then return wrong(name, message) end
  if not (RUNS_SCRIPTS[name] or HAS_DATABASE[name]) then host.close_nothing() end
  return status or 0
end
