-- The event queue and the simulation used from a C program: order, and failing allocations.
local core_program = require "core_program"
local program = require "program"

local folder
setup(function() folder = program.folder() end)
teardown(function() program.remove(folder) end)

-- Builds src/tools/NAME.c and runs it; returns what it prints.
local function run(name) return core_program.run(core_program.build(("src/tools/%s.c"):format(name), folder)) end

describe("the event queue", function()
  it("orders events by time, kind and sequence, with removals and failing allocations", function()
    assert.equal("events are in order\n", run "check_events")
  end)
end)

describe("a simulation", function()
  it("refuses impossible engines and requests", function()
    local said = run "check_serve_arguments"
    assert.truthy(tonumber(said:match "^(%d+) refusals\n$") > 25, said)
  end)

  it("survives each allocation that fails, and leaks nothing", function()
    local said = run "check_serve"
    assert.truthy(tonumber(said:match "^(%d+) failed allocations are errors\n$") > 60)
  end)
end)
