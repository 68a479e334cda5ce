-- Pages about the project itself are true: rooms, limits, templates, the changelog.
local program = require "program"

local function lines(command)
  local list = {}
  for line in program.shell(command).out:gmatch "[^\n]+" do list[#list + 1] = line end
  assert(#list > 0, command)
  return list
end

describe("docs/architecture.md", function()
  local page = program.slurp "docs/architecture.md"

  it("names every folder of src and of the library", function()
    for _, folder in ipairs(lines "ls -d src/*/") do
      assert.truthy(page:find("| `" .. folder:sub(1, -2) .. "` |", 1, true), folder)
    end
    for _, folder in ipairs(lines "cd lua/tperf && ls -d */") do
      assert.truthy(page:find("`" .. folder .. "`", 1, true), folder)
    end
  end)

  it("names files that exist", function()
    local count = 0
    for path in page:gmatch "`([%w_/]+/[%w_]+%.[%a]+)`" do
      local found = program.shell(("ls %s lua/tperf/%s"):format(path, path)).out
      assert.are_not.equal("", found, path)
      count = count + 1
    end
    assert.is_true(count > 8)
  end)

  it("has the picture that tperf draws", function()
    local folder = program.folder()
    program.shell("mkdir docs; ln -s " .. program.quote(lines "pwd"[1]) .. "/tools .", folder)
    local one = program.shell("tperf run --trust tools/draw_architecture.lua", folder)
    assert.equal(0, one.code, one.err)
    assert.equal(program.slurp "docs/architecture.svg", program.slurp(folder .. "/docs/architecture.svg"))
    program.remove(folder)
  end)
end)

describe("docs/limits.md", function()
  -- The page after tools/write_limits.lua; forget: whether its figures are lost before.
  local function written(forget)
    local folder, page = program.folder(), program.slurp "docs/limits.md"
    local lost = 0
    if forget then
      page = page:gsub("| [%d.]+ %f[|]", function()
        lost = lost + 1
        return "| 0 "
      end)
    end
    program.shell("mkdir docs; cp " .. program.quote(lines "pwd"[1]) .. "/docs/accuracy.md docs; ln -s "
      .. program.quote(lines "pwd"[1]) .. "/tools .", folder)
    program.write(folder .. "/docs/limits.md", page)
    local one = program.shell("tperf run --trust tools/write_limits.lua", folder)
    assert.equal(0, one.code, one.err)
    local result = program.slurp(folder .. "/docs/limits.md")
    program.remove(folder)
    return result, lost
  end

  it("has the figures of docs/accuracy.md", function() assert.equal(program.slurp "docs/limits.md", (written())) end)

  it("gets each of them from there", function()
    local page, lost = written(true)
    assert.equal(program.slurp "docs/limits.md", page)
    assert.is_true(lost >= 2 * 13 + 3 * 5 + 3 * 6 + 2 * 10, lost) -- kernels, training, memory, serving
  end)
end)

describe("docs/machines.md", function()
  it("lists every system under the source of its efficiencies", function()
    local kinds = {}
    local section = program.slurp "docs/machines.md":match "\n## Which systems are calibrated\n(.-)\n## "
    for kind, names in section:gmatch "%*%*([^*]+)%*%*([^*]*)" do kinds[kind] = names end
    for _, line in ipairs(lines "tperf list systems --csv | tail -n +2") do
      local name, curves = line:match "^([^,]+),.*,([^,]+)$"
      local of = curves:match "^of (.*)"
      local names = kinds[of and "of another system" or curves]
      assert.truthy(names:find("`" .. name .. "`", 1, true), line)
      if of then assert.truthy(names:find("(of " .. of .. ")", 1, true), line) end
    end
  end)
end)

describe("the project's habits", function()
  it("are kept: issue templates, a forge's file that calls .ci/run, a changelog entry for this version", function()
    assert.truthy(program.slurp ".github/workflows/ci.yml":find("\n      - run: .ci/run\n", 1, true))
    assert.truthy(program.slurp "CHANGELOG.md":find("\n## " .. program.slurp "VERSION":match "%S+", 1, true))
    for _, path in ipairs(lines "ls .github/ISSUE_TEMPLATE/*.md") do
      assert.truthy(program.slurp(path):find "^%-%-%-\nname: .-\nabout: .-\n%-%-%-\n", path)
    end
  end)

  it("in CONTRIBUTING.md refer to existing targets, files and variables", function()
    local page, help = program.slurp "CONTRIBUTING.md", program.shell "make help".out
    for target in page:gmatch "make ([%l-]+)" do assert.truthy(help:find("\n  " .. target .. " ", 1, true), target) end
    for path in page:gmatch "%(?`?((%l+)/[%w_./]+%.%l+)" do
      assert.are_not.equal("", program.shell("ls " .. path).out, path)
    end
    local one = program.shell "TPERF_LUA_DIR=lua tperf train gpt2 -s h100-sxm -b 64 --tp 2"
    assert.equal(0, one.code, one.err)
  end)
end)
