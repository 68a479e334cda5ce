-- docs/model.md against the code: rules, quirks, citations, and formulas.
local program = require "program"
local tperf = require "tperf"

local page = program.slurp "docs/model.md"

local function files(pattern)
  local pipe = assert(io.popen("ls " .. pattern))
  local list = {}
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  assert(#list > 0, pattern)
  return list
end

local function rows_of_rules()
  local rows = {}
  for number, text in page:gmatch "\n| ([QS]%d+) |([^\n]*)" do rows[number] = text end
  return rows
end

describe("docs/model.md", function()
  it("names every rule, and only rules", function()
    local known = {}
    for _, rule in ipairs(tperf.rules.describe()) do
      known[rule.name] = true
      assert.truthy(page:find("`" .. rule.name .. "`", 1, true),
        ("rule %s is not in docs/model.md: say what it switches, in its section and in section 8"):format(rule.name))
    end
    for number, text in pairs(rows_of_rules()) do
      for name in text:match("|([^|]*)|$"):gmatch "`([%w_]+)`" do
        local is_argument = text:find("argument `" .. name .. "`", 1, true)
        assert.truthy(known[name] or is_argument, ("%s: there is no rule %s"):format(number, name))
      end
    end
  end)

  it("has every quirk beside the rule that corrects it", function()
    local rows = rows_of_rules()
    for q = 1, 23 do assert.truthy(rows["Q" .. q], "Q" .. q) end
    for s = 1, 10 do assert.truthy(rows["S" .. s], "S" .. s) end
    for _, rule in ipairs(tperf.rules.describe()) do
      for number in rule.otherwise:gmatch "%f[%w][QS]%d+" do
        assert.truthy(rows[number]:find("`" .. rule.name .. "`", 1, true), ("%s: %s"):format(rule.name, number))
      end
    end
  end)

  it("has every section that the code cites", function()
    local sections, cited = {}, 0
    for number in page:gmatch "\n##+ (%d+%.?%d*)" do sections[number:gsub("%.$", "")] = true end
    local everything = "lua/tperf/*.lua lua/tperf/*/*.lua src/*/*.[ch] include/tperf/*.h spec/*.lua scripts/*.lua"
    for _, path in ipairs(files(everything)) do
      local text = program.slurp(path):gsub("\n%s*[-/]+%s*", " ")
      for list in text:gmatch "docs/model%.md,? sections? ([%d][%d%. ,andto]*)" do
        for number in list:gmatch "%d+%.?%d*" do
          cited = cited + 1
          assert.truthy(sections[number:gsub("%.$", "")], ("%s cites section %s"):format(path, number))
        end
      end
    end
    assert.truthy(cited >= 8)
  end)
end)

describe("docs/architectures.md", function()
  it("lists the model types of config.json that are known, and no others", function()
    local text, listed = program.slurp "docs/architectures.md", {}
    local list = text:match "The `model_type` of a `config.json` may be(.-)%.\n"
    for name in list:gsub("%b()", ""):gmatch "`([^`]+)`" do listed[#listed + 1] = name end
    assert.same(require "tperf.describe.model.hf".known(), listed)
  end)
end)
