-- Runs busted inside the tperf binary, so that sanitizer builds test what ships:
--   ./tperf run --trust spec/run.lua [busted arguments, such as a spec file or --filter=PATTERN]
-- and ends with a line "N passed, M failed".
local found, runner = pcall(require, "busted.runner")
if not found then error("busted is not installed for Lua 5.4; `make deps-test` installs it\n" .. runner, 0) end

arg[0] = "spec/run.lua"
if #arg == 0 then arg[1] = "spec" end
package.path = "./spec/?.lua;" .. package.path
runner { standalone = false, output = "spec/output.lua" }
