-- The README and the pages of docs/: examples run and print the output shown, links resolve, nothing is missing.
package.path = "./tools/?.lua;" .. package.path
local examples = require "examples"
local cases = require "cases"
local program = require "program"
local tperf = require "tperf"

local function pages()
  local pipe = assert(io.popen "ls README.md docs/*.md")
  local list = {}
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

-- Pages whose examples take longest.
local SLOW <const> = { ["docs/scripting.md"] = true, ["docs/by_role.md"] = true }

describe("the examples of", function()
  for _, path in ipairs(examples.pages) do
    local try = SLOW[path] and cases(function() end, it) or it
    try(path .. " run as they stand", function()
      local list, folder, outputs = examples.of(program.slurp(path)), program.folder(), 0
      for _, example in ipairs(list) do
        local where = ("%s:%d: "):format(path, example.line)
        local result = examples.run(example, folder)
        assert.equal(0, result.code, where .. result.err)
        if example.kind == "lua" then assert.equal("", result.err, where) end
        if example.output then
          outputs = outputs + 1
          assert.equal(example.output, result.out:gsub("\n*$", "\n"), where
            .. "prints something else now; if that is right, run `make docs` and commit it")
        end
      end
      program.remove(folder)
      assert.truthy(#list >= 1 and outputs >= 1)
    end)
  end

  it("pages are found, with their outputs", function()
    local list = examples.of "a\n```lua\nprint(1)\n```\n\n```text\n1\n```\n```sh\n./tperf version\n```\n"
    assert.same({ "lua", "sh" }, { list[1].kind, list[2].kind })
    assert.same({ "print(1)\n", "1\n", 2 }, { list[1].code, list[1].output, list[1].line })
    assert.is_nil(list[2].output)
  end)
end)

-- The anchor that GitHub makes of a heading.
local function anchor(heading)
  return (heading:lower():gsub("[^%w%s_-]", ""):gsub(" ", "-"))
end

describe("documentation", function()
  it("has no dead link", function()
    local count = 0
    for _, path in ipairs(pages()) do
      local text, folder = program.slurp(path):gsub("```.-```", ""), path:match "^(.*/)" or ""
      for target in text:gmatch "%]%(([^)]+)%)" do
        local file, place = target:match "^([^#]*)#?(.*)$"
        if not target:find "^https?:" then
          count = count + 1
          local to = file == "" and path or folder .. file
          local handle = io.open(to, "rb")
          assert.truthy(handle, ("%s: there is no %s"):format(path, target))
          handle:close()
          local found = place == ""
          for heading in (place ~= "" and program.slurp(to) or ""):gmatch "\n#+ ([^\n]+)" do
            found = found or anchor(heading) == place
          end
          assert.truthy(found, ("%s: there is no heading for %s"):format(path, target))
        end
      end
    end
    assert.truthy(count > 50)
  end)

  it("has a table of contents of all pages", function()
    local contents = program.slurp "docs/README.md"
    for _, path in ipairs(pages()) do
      local name = path:match "docs/(.*)"
      if name and name ~= "README.md" and not name:find "%.in%.md$" then -- a template of a generated page
        assert.truthy(contents:find(("(%s)"):format(name), 1, true), "docs/README.md does not list " .. name)
      end
    end
  end)

  it("shows every function in scripting.md", function()
    local page = program.slurp "docs/scripting.md"
    for name, value in pairs(tperf) do
      if type(value) == "function" or type(value) == "table" then
        assert.truthy(page:find("tperf." .. name, 1, true), "docs/scripting.md does not show tperf." .. name)
      end
    end
    for name in pairs(tperf.op) do
      assert.truthy(page:find("`" .. name .. "`", 1, true), "docs/scripting.md does not name op." .. name)
    end
    local functions = program.slurp("docs/api.md"):match "\n## Functions\n(.-)\n## Records\n"
    for name in functions:gmatch "\n### tperf%.([^\n]+)" do -- examples may call tperf.plot just plot
      assert.truthy(name:find "^op%." or page:find(name, 1, true), "docs/scripting.md does not show tperf." .. name)
    end
  end)

  it("names every command in the README", function()
    local page = program.slurp "README.md"
    for _, name in ipairs(require "tperf.cli.commands".names()) do
      if name ~= "version" then
        assert.truthy(page:find("\n    tperf " .. name .. " ", 1, true), "README.md does not list tperf " .. name)
      end
    end
  end)
end)
