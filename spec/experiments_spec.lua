-- spec/experiments: experiments as a paper's author writes them, from the documentation alone, each against a value
-- that tperf did not compute: a simulator of their own, brute force, closed forms, known quantiles. They run as users
-- run them, by `tperf test`, in the sandbox.
local lfs = require "lfs"
local program = require "program"

local FOLDER <const> = lfs.currentdir() .. "/spec/experiments"

describe("spec/experiments", function()
  it("hold", function()
    local folder = program.folder()
    local result = program.shell("tperf test " .. program.quote(FOLDER), folder)
    program.remove(folder)
    assert.equal(0, result.code, result.out .. result.err)
    assert.truthy(result.out:find "\n4 passed, 0 failed\n", result.out)
  end)

  it("are more than forty, numbered", function()
    local seen, most = {}, 0
    for name in lfs.dir(FOLDER) do
      local text = name:find "%.lua$" and program.slurp(FOLDER .. "/" .. name) or ""
      for number in text:gmatch "\n *%-%- (%d+)%. %u" do
        assert.is_nil(seen[number])
        seen[number], most = true, math.max(most, tonumber(number))
      end
    end
    for number = 1, most do assert.is_true(seen[tostring(number)], "no experiment " .. number) end
    assert.is_true(most > 40)
  end)
end)
