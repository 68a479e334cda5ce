-- Pages about the project itself are true: rooms, limits, templates, the changelog.
local program = require "program"

local function rows_of(page, heading)
  local rows, section = {}, page:match("\n## " .. heading .. "\n(.-)\n## ") or page
  for line in section:gmatch "[^\n]+" do
    local cells = {}
    for cell in line:gmatch "|%s*([^|]-)%s*%f[|]" do cells[#cells + 1] = cell end
    if #cells > 2 and not line:find "^|%s*%-" then rows[#rows + 1] = cells end
  end
  return rows
end

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
  local page, accuracy = program.slurp "docs/limits.md", program.slurp "docs/accuracy.md"

  it("has the figures of docs/accuracy.md for kernels and collectives", function()
    local count = 0
    for _, row in ipairs(rows_of(page, "Kernels and collectives")) do
      if tonumber(row[2]) then
        local label = row[4]:gsub("%p", "%%%0")
        local median, p90 = accuracy:match("\n| " .. label .. " | %d+ | ([%d.]+) | [%d.]+ | ([%d.]+) |")
        assert.same({ median, p90 }, { row[2], row[3] }, row[4])
        count = count + 1
      end
    end
    assert.equal(13, count)
  end)

  it("has the figures of docs/accuracy.md for runs that no fit saw", function()
    local count = 0
    for _, row in ipairs(rows_of(page, "Training steps")) do
      if tonumber(row[2]) then
        local section = accuracy:match("\n### " .. row[1] .. "\n(.-)\n#")
        local median, worst, inside = section:match "groups: median ([%d.]+) %%, worst ([%d.]+) %%.-; (%d+) %% of"
        assert.same({ median, worst, inside }, { row[2], row[3], row[4] }, row[1])
        count = count + 1
      end
    end
    assert.equal(5, count)
  end)

  it("has the figures of docs/accuracy.md for memory", function()
    local section, count = accuracy:match "\nPeak memory of a GPU.-\n\n(.-)\n\n", 0
    for _, row in ipairs(rows_of(page, "Memory")) do
      if tonumber(row[2]) then
        local label = row[1]:gsub("%p", "%%%0")
        local found = { section:match("| " .. label .. " | (%d+) | ([%d.]+) | [%d.]+ | ([%d.]+) |") }
        assert.same(found, { row[2], row[3], row[4] }, row[1])
        count = count + 1
      end
    end
    assert.is_true(count > 5)
  end)

  it("has the figures of docs/accuracy.md for serving", function()
    local heads = { open = "Open loops: each stage of a run: measured", closed = "Closed loops: closed_loop",
      static = "Static batches, quality A: published_tables" }
    local head, count = nil, 0
    for _, row in ipairs(rows_of(page, "Serving")) do
      if tonumber(row[3]) then
        head = heads[row[1]:match "^%a*"] or head
        local section = (accuracy .. "\n#"):match("\n### " .. head:gsub("%p", "%%%0") .. "\n(.-)\n#")
        local names, all = section:match "\n(|  |[^\n]*)\n[^\n]*\n(| all [^\n]*)"
        local columns = {}
        for name in names:gmatch "| ([^|]+) %f[|]" do columns[#columns + 1] = name end
        local at = 0
        for cell in all:gmatch "| ([^|]+) %f[|]" do
          at = at + 1
          if columns[at - 1] == row[2]:gsub(", mean$", ""):gsub(",", "") then
            assert.same({ cell:match "^([%d.]+), ([%d.]+)" }, { row[3], row[4] }, row[1] .. row[2])
            count = count + 1
          end
        end
      end
    end
    assert.equal(10, count)
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
