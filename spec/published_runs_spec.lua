-- scripts/llama3_405b.lua and scripts/deepseek_v3.lua: runs that were published, and that no profile was fitted to.
local program = require "program"

local function output(script, arguments)
  local result = program.shell("tperf run " .. script .. " " .. arguments)
  assert.equal(0, result.code, result.err)
  return result.out
end

describe("scripts/llama3_405b.lua", function()
  it("comes within a tenth of what Meta measured, with a profile fitted to others", function()
    local rows = 0
    for measured, predicted in output("scripts/llama3_405b.lua", "--search no"):gmatch
      "(%d+%.%d) TFLOP/s +(%d+%.%d) TFLOP/s" do
      rows = rows + 1
      assert.near(1, tonumber(predicted) / tonumber(measured), 0.1)
    end
    assert.equal(3, rows)
  end)
end)

describe("scripts/deepseek_v3.lua", function()
  local out = output("scripts/deepseek_v3.lua", "")
  local function hours(schedule)
    return tonumber((out:match(schedule .. " +none [^\n]- %% +(%d%d%d%d+) ")))
  end

  it("finds that DualPipe hides the all-to-all that other schedules wait for", function()
    assert.is_true(hours "dualpipe" < 0.6 * hours "1f1b")
    assert.is_true(hours "zb1p" < hours "1f1b")
  end)

  it("needs more 16-bit GPU-hours than the published run in FP8, and not twice as many", function()
    assert.is_true(hours "dualpipe" > 180e3 and hours "dualpipe" < 360e3)
  end)

  it("keeps activations of no more than one GPU's memory when it recomputes", function()
    assert.truthy(out:match "1f1b +full [^\n]* yes")
  end)
end)
