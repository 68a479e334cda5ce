-- The examples in docs/sweeps.md run; docs/features.md and docs/gallery.md name only existing things.
local program = require "program"

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

describe("the documentation of sweeps", function()
  it("has examples that run", function()
    local count = 0
    for code in program.slurp "docs/sweeps.md":gmatch "```lua\n(.-)```" do
      count = count + 1
      local result = program.script(code)
      assert.same({ "", 0 }, { result.err, result.code })
      assert.truthy(#result.out > (code:find "report.query%(rows" and 20 or code:find "propagate" and 30 or 80))
      program.remove(result.folder)
    end
    assert.equal(6, count)
  end)

  it("names scripts and pictures that exist, and the gallery has every script that draws", function()
    local gallery = program.slurp "docs/gallery.md"
    for _, page in ipairs { gallery, program.slurp "docs/features.md" } do
      for name in page:gmatch "scripts/[%w_]+%.lua" do assert.is_true(exists(name), name) end
    end
    for name in gallery:gmatch "%((gallery/[^)]+)%)" do assert.is_true(exists("docs/" .. name), name) end
    for _, name in ipairs { "strong_scaling", "best_configuration", "compare_strategies", "sweep_parallel",
      "sweep_memory", "sweep_flops", "layer_breakdown", "bottlenecks", "batch_size", "cost" } do
      assert.truthy(gallery:find("scripts/" .. name .. ".lua", 1, true), name)
    end
  end)

  it("names options that the gallery's scripts have", function()
    local command = "%-%-out docs/gallery (scripts/[%w_]+%.lua)([^\n]*)"
    for script, arguments in program.slurp "docs/gallery.md":gmatch(command) do
      local help = program.shell("tperf run " .. script .. " --help").out
      for option in arguments:gmatch "%-%-%l[%l-]*" do assert.truthy(help:find(option .. " ", 1, true), option) end
    end
  end)
end)
