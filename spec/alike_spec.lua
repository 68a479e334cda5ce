-- Rows of a search's table that are one answer share a row.
local alike = require "tperf.cli.answer.alike"
local program = require "program"

local COLUMNS <const> = { { key = "tp" }, { key = "zero" }, { key = "schedule" }, { key = "time" },
  { key = "memory.total" }, { key = "software", csv = true } }

local function row(zero, time, schedule, bytes)
  return { tp = 1, zero = zero, schedule = schedule or "1f1b", time = time, memory = { total = bytes or 5 } }
end

local function told(rows)
  local list = {}
  for i, one in ipairs((alike(rows, COLUMNS))) do list[i] = one.schedule .. " " .. one.zero end
  return list
end

describe("equal answers", function()
  it("share a row if they differ in one column", function()
    assert.same({ "1f1b 0 to 3" }, told { row(0, 1), row(1, 1), row(2, 1), row(3, 1) })
    assert.same({ "1f1b 0, 3" }, told { row(3, 1), row(0, 1) })
    assert.same({ "1f1b, gpipe 1" }, told { row(1, 1), row(1, 1, "gpipe") })
  end)

  it("stay apart otherwise", function()
    assert.same({ "1f1b 0", "1f1b 1" }, told { row(0, 1), row(1, 2) })
    assert.same({ "1f1b 0", "1f1b 1" }, told { row(0, 1), row(1, 1, nil, 6) })
    assert.same({ "1f1b 0", "gpipe 1" }, told { row(0, 1), row(1, 1, "gpipe") })
    assert.same({ "1f1b 0, 1", "gpipe 0" }, told { row(0, 1), row(1, 1), row(0, 1, "gpipe") })
  end)

  it("are as many as ever in CSV", function()
    local command = "tperf search gpt2 -s h100-sxm -g 1 -b 8 --zero 0,1,2,3 --recompute none -m 8"
    assert.truthy(program.ask(command).out:find "\n 1 +1 +1 +0 to 3 ")
    assert.equal(5, select(2, program.ask(command .. " --csv").out:gsub("\n", "")))
  end)
end)
