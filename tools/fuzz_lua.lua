--- `make fuzz-lua`: runs the fuzzers of the Lua API and of the bindings (tools/fuzz) for a given time, two processes at
--- a time. Arguments: PROGRAM SECONDS [SEED]. A crash, hang or sanitizer report ends it and is kept in build/fuzz/lua.
--- To reproduce one: PROGRAM run [--trust] tools/fuzz/MODE.lua SEED COUNT every_call.
local core = require "tperf.core"

local program, seconds, seed = arg[1], tonumber(arg[2]), tonumber(arg[3]) or os.time() % 1000000
local FOLDER <const>, CASES <const>, LONGEST <const> = "build/fuzz/lua", 10000, 1800

local LIMITS <const> = "--max-memory 1GiB --max-instructions 5000000000"
local SANITIZERS <const> = "ASAN_OPTIONS=exitcode=99:detect_leaks=1 UBSAN_OPTIONS=exitcode=99:print_stacktrace=1"

os.execute("mkdir -p " .. FOLDER)

local function start(mode)
  local log = ("%s/%s-%d.txt"):format(FOLDER, mode, seed)
  local command = ("%s timeout %d %s run %s %s tools/fuzz/%s.lua %d %d every_call > /dev/null 2> %s; echo $?")
    :format(SANITIZERS,
    LONGEST, program, mode == "core" and "--trust" or "", LIMITS, mode, seed, CASES, log)
  return { pipe = assert(io.popen(command)), log = log, command = command }
end

local function finish(job)
  local code = tonumber(job.pipe:read "l")
  job.pipe:close()
  local log = assert(io.open(job.log, "rb"))
  local text = log:read "a"
  log:close()
  local bad = code ~= 0 and code ~= 1 or text:find "Sanitizer" or text:find "runtime error:"
  if not bad then
    os.remove(job.log)
    return select(2, text:gsub("\ncase ", "")) + 1
  end
  io.stderr:write(text:sub(-6000), "\n", job.command, "\nexit status ", tostring(code), "; see ", job.log, "\n")
  os.exit(1)
end

local start_time, cases = core.clock(), 0
repeat
  local jobs = { start "api", start "core" }
  for _, job in ipairs(jobs) do cases = cases + finish(job) end
  seed = seed + 1
until core.clock() - start_time > seconds
print(("%d calls, nothing found"):format(cases))
