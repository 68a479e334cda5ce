-- Fuzzes for a given time: tperf run --trust tools/fuzz/run.lua KIND SECONDS [SEED]. The current input is in
-- build/fuzz/KIND.last, where it stays after a crash; other findings end the run with the seed that reproduces them.
package.path = "./tools/?.lua;./spec/?.lua;" .. package.path
local program = require "program"
local random = require "fuzz.random"
local wrong = require "fuzz.wrong"

local kind, seconds, seed = arg[1], tonumber(arg[2]), math.tointeger(tonumber(arg[3] or 1))
local fuzzer = require("fuzz." .. kind)
os.execute "mkdir -p build/fuzz"
wrong.keep_inputs(("build/fuzz/%s.last"):format(kind))

local folder, cases, start = program.folder(), 0, os.time()
repeat
  local ok, message = xpcall(fuzzer.step, debug.traceback, random.new(seed), folder)
  if not ok then
    io.stderr:write(("fuzz %s: seed %d: %s\ninput: %q\n"):format(kind, seed, message, wrong.last))
    os.exit(1)
  end
  cases, seed = cases + 1, seed + 1
until os.time() - start >= seconds
program.remove(folder)
print(("fuzz %s: %d cases, no finding"):format(kind, cases))
