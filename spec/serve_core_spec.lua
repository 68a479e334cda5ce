-- The event queue and the simulation used from a C program: order, and failing allocations.
local program = require "program"

local FLAGS <const> = "-std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -Wall -Wextra -Werror "

-- Linked with the objects of the variant that runs this spec: it counts towards coverage, and sanitizers see it.
local build = io.popen("readlink -f " .. program.quote(program.absolute())):read("l"):match "^(.*)/"
local OWN <const> = { asan = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all ",
  tsan = "-O1 -g -fsanitize=thread ", coverage = "-O0 -g --coverage " }

local folder
setup(function() folder = program.folder() end)
teardown(function() program.remove(folder) end)

-- Builds src/tools/NAME.c with the sources and runs it; returns what it prints.
local function run(name, sources)
  -- of the sources there are: objects of others may be left over in the build folder
  local objects = program.shell("ls " .. sources).out:gsub("src/(%S+)%.c\n", build .. "/%1.o ")
  if sources:find "src/serve/" then objects = objects .. build .. "/serve/schedulers.o " end
  local variant = build:match "[^/]*$"
  local flags = FLAGS .. (OWN[variant] or "") .. (variant == "coverage" and "-dumpdir " .. folder .. "/" or "")
  local built = program.shell(("${CC:-cc} %s -o %s/%s src/tools/%s.c %s -lm -pthread && "
    .. "ASAN_OPTIONS=detect_leaks=0 %s/%s"):format(flags, folder, name, name, objects, folder, name))
  assert.equal(0, built.code, built.err .. built.out)
  return built.out
end

describe("the event queue", function()
  it("orders events by time, kind and sequence, with removals and failing allocations", function()
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
