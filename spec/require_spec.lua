-- --require FILE: schedules and strategies of a script, on the command line.
local program = require "program"

local SCRIPT <const> = [[
local tperf = require "tperf"
tperf.schedule.define("mine", { stages_per_device = 1, placement = "block", summary = "all forwards first",
  order = function(s)
    for d = 1, s.devices do
      for m = 1, s.microbatches do s:forward(d, d, m) end
      for m = 1, s.microbatches do s:backward(d, d, m) end
    end
  end })
tperf.strategy.define { name = "own", extends = "tensor" }
]]

describe("--require", function()
  local folder
  before_each(function()
    folder = program.folder()
    program.write(folder .. "/mine.lua", SCRIPT)
  end)
  after_each(function() program.remove(folder) end)

  local function says(command)
    local result = program.shell(command, folder)
    assert.equal(0, result.code, result.err)
    return result.out
  end

  it("lets commands name a script's schedule, whose makespan is known", function()
    -- (M + P - 1) (F + B) = (8 + 4 - 1) 3, and M micro-batches on each device
    local csv = says "tperf schedule mine -d 4 -m 8 --csv --require mine.lua"
    assert.truthy(csv:find("mine,4,4,8,33,", 1, true), csv)
    local ask = "llama-3.1-8b -s h100-sxm -b 16 --tp 2 --pp 4 --dp 2 --json"
    local own = says(("tperf train %s --schedule mine --require=mine.lua"):format(ask))
    local gpipe = says(("tperf train %s --schedule gpipe"):format(ask))
    local function time(text) return tonumber(text:match '"time": ([%d.e+-]+)') end
    assert.near(time(gpipe), time(own), 1e-9 * time(gpipe)) -- gpipe is the same order
    local found = says("tperf search llama-3.1-8b -s h100-sxm -g 16 -b 16 --pp 4 --schedule mine --top 2 --json "
      .. "--require mine.lua")
    assert.truthy(found:find('"schedule": "mine"', 1, true), found)
  end)

  it("lets commands name a script's strategy", function()
    local out = says "tperf train llama-3.1-8b -s h100-sxm -b 16 --tp 2 --dp 2 --strategy own --json --require mine.lua"
    assert.truthy(out:find('"strategy": "own"', 1, true), out)
  end)

  it("runs the script in the sandbox, and names it in errors", function()
    program.write(folder .. "/evil.lua", "os.execute 'touch evil'")
    local result = program.shell("tperf schedule 1f1b -d 2 -m 2 --require evil.lua", folder)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("evil.lua:1: os.execute is not available", 1, true), result.err)
    result = program.shell("tperf schedule mine -d 2 -m 2", folder)
    assert.truthy(result.err:find("'schedule' must be one of", 1, true), result.err)
    result = program.shell("tperf schedule 1f1b -d 2 -m 2 --require none.lua", folder)
    assert.truthy(result.err:find("none.lua", 1, true), result.err)
    result = program.shell("tperf infer llama-3.1-8b -s h100-sxm --require mine.lua", folder)
    assert.equal(2, result.code)
  end)
end)
