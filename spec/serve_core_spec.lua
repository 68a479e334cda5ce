-- The event queue and the simulation used from a C program, with sanitizers: order, and failing allocations.
local program = require "program"

local SANITIZED = "-std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -O1 -g -Wall -Wextra -Werror "
  .. "-fsanitize=address,undefined -fno-sanitize-recover=all "

-- The coverage variant links its own objects, so that this spec counts.
local build = io.popen("readlink -f " .. program.quote(program.absolute())):read("l"):match "^(.*)/"
local COUNTED = "-std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -O0 -g --coverage "

local folder
setup(function() folder = program.folder() end)
teardown(function() program.remove(folder) end)

-- The sources as objects, compiled on their first use.
local objects = {}

local function compiled(sources)
  if objects[sources] then return objects[sources] end
  local out = ("%s/%d"):format(folder, #sources)
  local built = program.shell(("sources=$(realpath %s) && mkdir %s && root=$PWD && cd %s && ${CC:-cc} %s "
    .. "-I$root/include -I$root/src -c $sources"):format(sources, out, out, SANITIZED))
  assert.equal(0, built.code, built.err .. built.out)
  objects[sources] = out .. "/*.o"
  return objects[sources]
end

-- Builds src/tools/NAME.c with the sources and runs it: what it prints.
local function run(name, sources)
  local flags = SANITIZED
  if build:find "/coverage$" then
    flags, sources = COUNTED, sources:gsub("src/(%S+)%.c", build .. "/%1.o")
    flags = flags .. "-dumpdir " .. folder .. "/"
  else
    sources = compiled(sources)
  end
  local built = program.shell(("${CC:-cc} %s -o %s/%s src/tools/%s.c %s -lm -pthread && "
    .. "ASAN_OPTIONS=detect_leaks=0 %s/%s"):format(flags, folder, name, name, sources, folder, name))
  assert.equal(0, built.code, built.err .. built.out)
  return built.out
end

describe("the event queue", function()
  it("is in the order of time, kind and sequence, with removals, and without memory", function()
    assert.equal("events are in order\n", run("check_events", "src/event/event.c src/base/error.c src/base/heap.c"))
  end)
end)

local SERVING <const> = "src/serve/*.c src/serve/*/*.c src/event/event.c src/base/error.c "
  .. "src/base/heap.c src/base/pool.c"

describe("a simulation", function()
  it("refuses impossible engines and requests", function()
    local said = run("check_serve_arguments", SERVING)
    assert.truthy(tonumber(said:match "^(%d+) refusals\n$") > 25, said)
  end)

  it("survives each allocation that fails, and leaks nothing", function()
    local said = run("check_serve", SERVING)
    assert.truthy(tonumber(said:match "^(%d+) failed allocations are errors\n$") > 60)
  end)
end)
