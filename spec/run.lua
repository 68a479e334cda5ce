-- Runs busted inside the tperf binary, so that sanitizer builds test what ships:
--   ./tperf run --trust spec/run.lua [busted arguments]
-- and ends with a line "N passed, M failed".
arg[0] = "spec/run.lua"
package.path = "./spec/?.lua;" .. package.path
require "busted.runner" { standalone = false, output = "spec.output" }
