-- The examples of these pages run, sandboxed like a user's scripts, and write the stated files.
local cases = require "cases"
local program = require "program"

describe("the documentation's examples", function()
  local pages = { "docs/reports.md", "docs/plots.md", "docs/inference.md", "docs/parallelism.md", "docs/gallery.md",
    "docs/serving.md" }
  for i = 1, cases(5, #pages) do -- the last takes longest
    local page = pages[i]
    it("run: " .. page, function()
      local count = 0
      for code in program.slurp(page):gmatch "```lua\n(.-)```" do
        count = count + 1
        local folder = program.folder()
        program.write(folder .. "/example.lua", code)
        local result = program.shell("tperf run example.lua", folder)
        assert.equal("", result.err)
        assert.equal(0, result.code)
        assert.equal(code:find "print" ~= nil, #result.out > 60)
        for name in code:gmatch 'save "([^"]+)"' do assert.truthy(#program.slurp(folder .. "/" .. name) > 200, name) end
        program.remove(folder)
      end
      assert.truthy(count >= 2)
    end)
  end

  it("of the gallery draw a figure of every kind for a column of a paper, in about ten lines each", function()
    local page, shown = program.slurp "docs/gallery.md", {}
    for code in page:gmatch "```lua\n(.-)```" do
      local _, lines = code:gsub("\n", "")
      assert.truthy(lines <= 12, code)
      for kind in code:gmatch "plot%.([%w_]+)" do shown[kind] = code:find('width = "3.5 in"', 1, true) ~= nil end
      for name in code:gmatch 'save "([^"]+)"' do
        assert.truthy(page:find("](gallery/" .. name .. ")", 1, true), name)
        assert.truthy(program.slurp("docs/gallery/" .. name):find(' width="336" ', 1, true), name)
      end
    end
    for kind in pairs(require "tperf".plot) do assert.truthy(shown[kind] or kind == "panels", kind) end
  end)

  it("of plots reach no program through the sandbox", function()
    local result = program.script([[
      local tperf = require "tperf"
      for _, name in ipairs { "svg", "style", "canvas" } do
        assert(not pcall(require, "tperf.plot.draw." .. name))
      end
      local plot = tperf.plot.lines {
        rows = { { x = 1, y = 1 } }, x = "x", y = "y", title = "#000000'\n!touch touched\n",
      }
      print(pcall(plot.save, plot, "/tmp/elsewhere.svg"))
      pcall(plot.save, plot, "a.png")
      print(io.open "touched")
    ]], "")
    assert.truthy(result.out:find "false\t.*outside the output folder")
    assert.truthy(result.out:find "nil\ttouched: No such file")
    program.remove(result.folder)
  end)
end)
