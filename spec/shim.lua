--- Runs the program with file calls that fail, or waits that take no time (src/tools/fail_write.c).
local program = require "program"

local shim = {}

local build = io.popen("readlink -f " .. program.quote(program.absolute())):read("l"):match "^(.*)/"
local library = build .. "/fail_write.so"

--- Builds the library; call it in a setup.
function shim.build()
  local here = io.popen("pwd"):read "l"
  local made = program.shell(("make -s -C %s VARIANT=%s %s"):format(here, build:match "[^/]*$",
    build:match "build/[^/]*$" .. "/fail_write.so"))
  assert(made.code == 0, made.err)
end

--- The shell words before a command that give it these settings, such as "FAIL_WRITE=3".
---@param settings string
---@return string
function shim.environment(settings)
  return ("ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 %s LD_PRELOAD=%s"):format(settings, library)
end

return shim
