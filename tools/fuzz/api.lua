--- One case of the fuzzer of the Lua API: `tperf run tools/fuzz/api.lua SEED COUNT [CALLS]` corrupts the arguments of
--- COUNT calls of the public library, inside the sandbox. Errors are fine; crashes, hangs and leaks are not.
package.path = "tools/fuzz/?.lua"
local values = require "values"
local calls = require(arg[3] or "calls")
local tperf = require "tperf"

local seed, count = math.tointeger(arg[1]), math.tointeger(arg[2])
local names = values.keys(calls)
local OWN_CODE <const> = { "block", "search_where", "strategy", "schedule_own", "sweep_run" } -- Lua called by the core

values.objects = {
  function() return tperf.model "gpt2" end,
  function() return tperf.system "h100-sxm" end,
  function() return tperf.op.norm { tokens = 1, width = 8 } end,
  function() return tperf.block("b", function() return {} end) end,
  function() return tperf.strategy.of "tensor" end,
  function() return tperf.vary { 1, 2 } end,
  function() return tperf.schedule { schedule = "1f1b", devices = 2, microbatches = 2 } end,
}

local function run(name)
  local sound, call, hooks = calls[name]()
  local arguments = values.copy(sound, 8)
  for _, hook in ipairs(hooks or {}) do arguments[1][hook] = values.vandal(arguments) end
  for _ = 1, values.random(3) do values.mutate(arguments) end
  return call(table.unpack(arguments, 1, 4))
end

for number = 1, count do
  values.seed(seed * 100000 + number)
  local name = values.random(4) == 1 and values.pick(OWN_CODE) or values.pick(names)
  io.stderr:write(("case %d %d: %s\n"):format(seed, number, name))
  pcall(run, name)
end
