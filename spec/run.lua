-- Runs the specs inside the tperf binary, so that sanitizer builds test what ships:
--   ./tperf run --trust spec/run.lua spec/x_spec.lua [busted's options]   one file, in this process
--   ./tperf run --trust spec/run.lua [--jobs=N] [busted's options] spec   files or folders, one process per file
-- The last line is "N passed, M failed"; the exit status is 0 if none failed.
local found, runner = pcall(require, "busted.runner")
if not found then error("busted is not installed for Lua 5.4; `make deps-test` installs it\n" .. runner, 0) end

package.path = "./spec/?.lua;" .. package.path
-- Fewer collections take a tenth off the time; sanitizers, which see what one frees too early, get them all.
if not require "tperf.core".faults then collectgarbage("setpause", 400) end

require "tperf.base.roots".tell(function() end) -- specs read many files, each of which would be named

local paths, options, jobs = {}, {}, nil
for _, argument in ipairs(arg) do
  if argument:find "^%-%-jobs=" then
    jobs = math.tointeger(tonumber(argument:match "=(.*)"))
    if not jobs or jobs < 1 then error(argument .. ": how many processes, such as --jobs=4?", 0) end
  else
    table.insert(argument:find "^%-" and options or paths, argument)
  end
end

if os.getenv "SPEC_RECORD" or #paths == 1 and paths[1]:find "%.lua$" and not jobs then
  arg[0] = "spec/run.lua"
  runner { standalone = false, output = "spec/output.lua" }
else
  os.exit(require "workers".run(#paths > 0 and paths or { "spec" }, options, jobs) and 0 or 1)
end
