local report = require "tperf.report"
local json = require "tperf.output.json"
local format = require "tperf.output.format"
local number = require "tperf.output.number"
local program = require "program"

-- A reader of RFC 4180, independent of the writer.
local function parse_csv(text)
  local rows, row, i = {}, {}, 1
  while i <= #text do
    local value
    if text:sub(i, i) == '"' then
      local parts = {}
      repeat
        local close = text:find('"', i + 1, true)
        parts[#parts + 1] = text:sub(i + 1, close - 1)
        i = close + 1
        local doubled = text:sub(i, i) == '"'
        if doubled then parts[#parts + 1] = '"' end
      until not doubled
      value = table.concat(parts)
    else
      local stop = text:find("[,\r\n]", i) or #text + 1
      value, i = text:sub(i, stop - 1), stop
    end
    row[#row + 1] = value
    if text:sub(i, i) == "," then
      i = i + 1
    else
      i = (text:match("^\r?\n()", i)) or i + 1
      rows[#rows + 1], row = row, {}
    end
  end
  return rows
end

-- A reader of JSON independent of the writer: enough of RFC 8259 to read back what we wrote.
local function parse_json(text)
  local at = 1
  local function skip() at = text:match("^[ \n]*()", at) end
  local function take(c)
    skip()
    if text:sub(at, at) ~= c then return false end
    at = at + 1
    return true
  end
  local value
  local function literal()
    local out = {}
    assert(take '"')
    while true do
      local c = text:sub(at, at)
      assert(c ~= "" and c:byte() >= 32, "raw control character")
      at = at + 1
      if c == '"' then return table.concat(out) end
      if c == "\\" then
        local e = text:sub(at, at)
        at = at + 1
        if e == "u" then
          out[#out + 1] = utf8.char(tonumber(text:sub(at, at + 3), 16))
          at = at + 4
        else
          out[#out + 1] = assert(({ b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ["\\"] = "\\", ['"'] = '"' })[e])
        end
      else
        out[#out + 1] = c
      end
    end
  end
  function value()
    skip()
    local c = text:sub(at, at)
    if c == '"' then return literal() end
    if c == "{" or c == "[" then
      local out, close = {}, c == "{" and "}" or "]"
      at = at + 1
      while not take(close) do
        if next(out) ~= nil then assert(take ",") end
        skip()
        if c == "{" then
          local key = literal()
          assert(take ":" and out[key] == nil)
          out[key] = value()
        else
          out[#out + 1] = value()
        end
      end
      return out
    end
    local word = text:match("^[%w+.-]+", at)
    at = at + #word
    if word == "null" then return nil end
    if word == "true" or word == "false" then return word == "true" end
    assert(word:match "^-?%d+%.?%d*[eE]?[+-]?%d*$", word)
    return tonumber(word)
  end
  local result = value()
  skip()
  assert.equal(#text + 1, at)
  return result
end

local rows = {
  { name = "tensor", gpus = 16384, time = 12.5, memory = { total = 80e9 }, fits = true },
  { name = "summa", gpus = 8, time = 0.25, memory = { total = 1.5e9 }, fits = false },
}

describe("number.text", function()
  it("reads back as the same number, and no shorter form does", function()
    local state = 12345
    local function random() -- xorshift64, so that the cases repeat
      state = state ~ (state << 13)
      state = state ~ (state >> 7)
      state = state ~ (state << 17)
      return state
    end
    for _ = 1, 3000 do
      local x = string.unpack("d", string.pack("j", random()))
      if x - x == 0 then
        local text = number.text(x)
        assert.equal(x, tonumber(text))
        local digits = #(text:gsub("[eE].*", ""):gsub("[-.]", ""):gsub("^0+", ""):gsub("0+$", ""))
        if digits > 1 then
          assert.not_equal(x, tonumber(string.format("%." .. digits - 2 .. "e", x)))
        end
      end
    end
  end)

  it("writes well-known numbers in their usual form", function()
    assert.equal("0.1", number.text(0.1))
    assert.equal("5e-324", number.text(5e-324))
    assert.equal("1.7976931348623157e+308", number.text(1.7976931348623157e308))
    assert.equal("9007199254740993", number.text(9007199254740993))
    assert.equal("-0", number.text(-0.0))
    assert.equal("4096", number.text(4096.0))
  end)
end)

describe("report.csv", function()
  it("survives every awkward field (RFC 4180)", function()
    local awkward = { "plain", 'say "hi"', "a,b", "two\nlines", "cr\r\nlf", " led", "trailed ", '"', "Größe", "" }
    local given = {}
    for i, text in ipairs(awkward) do given[i] = { id = i, text = text } end
    for _, newline in ipairs { "\n", "\r\n" } do
      local back = parse_csv(report.csv(given, { "id", "text" }, { newline = newline }))
      assert.same({ "id", "text" }, back[1])
      for i, text in ipairs(awkward) do assert.same({ tostring(i), text }, back[i + 1]) end
    end
  end)

  it("keeps every digit and leaves nil empty", function()
    assert.equal("x,y\n0.1,\n0.30000000000000004,2\n",
      report.csv({ { x = 0.1 }, { x = 0.1 + 0.2, y = 2 } }, { "x", "y" }))
  end)

  it("takes paths and functions as columns", function()
    assert.equal("memory.total,half\n80000000000,8192\n1500000000,4\n",
      report.csv(rows, { "memory.total", { key = function(r) return r.gpus // 2 end, title = "half" } }))
  end)

  it("takes all scalar fields in a stable order, also those the first row lacks", function()
    assert.equal("a,b,c\n1,,x\n,2,\n", report.csv { { c = "x", a = 1, t = {} }, { b = 2 } })
    assert.equal("a,m.total,m.x.y\n1,2,3\n4,,\n", -- records within rows, but no lists
      report.csv { { a = 1, m = { total = 2, x = { y = 3 }, list = { 1, 2 } } }, { a = 4 } })
  end)
end)

describe("report.text", function()
  it("aligns numbers right, the rest left, and underlines the headings", function()
    assert.equal(table.concat({
      "name     GPUs     time",
      "──────  ─────  ───────",
      "tensor  16384   12.5 s",
      "summa       8  0.250 s",
      "",
    }, "\n"), report.text(rows, { "name", { key = "gpus", title = "GPUs" },
      { key = "time", format = function(t) return t == 0.25 and "0.250 s" or t .. " s" end } }))
  end)

  it("gives every line of a table the same width in terminal cells", function()
    local text = report.text({ { n = "日本語", v = 1 },
      { n = "Größe", v = 22 }, { n = "e\u{301}", v = 333 } }, { "n", "v" })
    local widths = {}
    for line in text:gmatch "[^\n]+" do widths[#widths + 1] = format.width(line) end
    assert.same({ 11, 11, 11, 11, 11 }, widths)
  end)

  it("shows numbers with SI prefixes and units", function()
    assert.truthy(report.text({ { hours = 422522.5 } }, { "hours" }):find("\n422500\n", 1, true))
    local text = report.text({ { b = 80e9, f = 312e12, w = 900e9, p = 0.5, d = 1234567.5, t = 7 } }, {
      { key = "b", unit = "bytes" }, { key = "f", unit = "FLOP/s" }, { key = "w", unit = "bytes/s" },
      { key = "p", unit = "%" }, { key = "t", unit = "tokens/s" }, { key = "d", unit = "$" } })
    for _, part in ipairs { "80.00 GB", "312.0 TFLOP/s", "900.0 GB/s", "50 %", "$1,234,567.50", "7 tokens/s" } do
      assert.truthy(text:find(part, 1, true), part .. " in " .. text)
    end
  end)

  it("lets no text reach the terminal as control characters or broken UTF-8", function()
    local text = report.text({ { n = "\27[31mred\7\n\xFF\u{202E}x\xC2\x9B" } }, { "n" })
    assert.truthy(utf8.len(text))
    assert.falsy(text:find "[\1-\9\11-\31\127]")
    assert.truthy(text:find([[\x1B[31mred\x07\n\xFF\u{202E}x\u{9B}]], 1, true), text)
  end)

  it("colours only when asked", function()
    assert.falsy(report.text(rows, { "name" }):find "\27")
    assert.truthy(report.text(rows, { "name" }, { color = true }):find "\27%[1m")
  end)

  it("shows NaN, infinity, nil and booleans plainly", function()
    local text = report.text({ { a = 0 / 0, b = 1 / 0, d = true }, { a = 1, c = 1 } },
      { { key = "a", unit = "s" }, { key = "b", format = "%.1f" }, "c", "d" })
    assert.truthy(text:find "nan" and text:find "inf" and text:find "yes")
  end)

  it("says so if there are no rows", function()
    assert.truthy(report.text({}, { "name" }):find "(no rows)")
    assert.truthy(report.text({}):find "(no rows)")
  end)

  it("refuses values it cannot show, at the user's line", function()
    local function message(f, ...)
      local ok, text = pcall(f, ...)
      assert.is_false(ok)
      return text
    end
    assert.truthy(message(report.text, rows, { "tim" }):find "no row has a field 'tim' %(did you mean 'time'")
    assert.truthy(message(report.text, rows, { "memory.totl" }):find "did you mean 'memory.total'")
    assert.truthy(message(report.text, rows, { "memory" }):find "column 'memory' holds a table")
    assert.truthy(message(report.text, rows, { { key = "gpus", unti = "s" } }):find "did you mean 'unit'")
    assert.truthy(message(report.text, rows, { { key = function() return 1 end } }):find "needs a title")
    assert.truthy(message(report.text, rows, { "gpus", "gpus" }):find "both named 'gpus'")
    assert.truthy(message(report.text, { 1 }):find "row 1 must be a table, got 1")
    assert.truthy(message(report.text, { {}, nil, {} }, { "x" }):find "row 2 must be a table, got nil")
    assert.truthy(message(report.text, 3):find "needs a list of rows, got 3")
    assert.truthy(message(report.text, rows, { { key = "name", format = "%d" } }):find "cannot format \"tensor\"")
    local function formatted(value)
      return report.text({ { a = 1 } }, { { key = "a", format = function() return value end } }):match "\n([^\n]*)\n$"
    end
    assert.same({ "5", "x", "nan", "" }, { formatted(5), formatted "x", formatted(0 / 0):match "%S+", formatted(nil) })
    assert.truthy(formatted(require "tperf".system "h100-sxm"):find "h100%-sxm")
    for _, value in ipairs { {}, print } do
      assert.truthy(message(formatted, value):find "column 'a': its format returned a ")
    end
    assert.truthy(message(function() report.text(rows, { "tim" }) end):find "^%S*report_spec.lua:%d+: ")
  end)
end)

describe("report.json", function()
  it("reads back as what was written", function()
    local value = { list = { 1, 2.5, "x" }, nested = { a = { b = { true, false } } }, text = 'q"\\\n\t\1\127é日',
      big = 2 ^ 80, small = 1e-320, map = { ["4"] = "four" }, empty = {} }
    for _, indent in ipairs { 0, 2 } do assert.same(value, parse_json(json.encode(value, { indent = indent }))) end
    assert.same(rows, parse_json(report.json(rows)))
  end)

  it("writes integers as integers, keys sorted, numeric keys by value", function()
    assert.equal('{"2":"b","10":"a","a":9007199254740993,"b":0.5}',
      json.encode({ b = 0.5, a = 9007199254740993, [10] = "a", [2] = "b" }, { indent = 0 }))
  end)

  it("replaces bytes that are not UTF-8", function()
    assert.equal('"a\u{FFFD}b\u{FFFD}"', json.quote "a\xFFb\xC3")
  end)

  it("gives the columns asked for, in their order, nil as null", function()
    assert.equal('[{"name":"tensor","memory.total":80000000000,"x":null},' ..
      '{"name":"summa","memory.total":1500000000,"x":1}]\n',
      report.json({ rows[1], { name = "summa", memory = rows[2].memory, x = 1 } }, { "name", "memory.total", "x" },
        { indent = 0 }))
  end)

  it("refuses NaN and infinity by path, or writes null when told to", function()
    assert.has_error(function() report.json { a = { 1, { b = 0 / 0 } } } end)
    local ok, text = pcall(report.json, { a = { 1, { b = 1 / 0 } } })
    assert.is_false(ok)
    assert.truthy(text:find("'a[2].b' is inf", 1, true), text)
    assert.equal('[1,null,null]', json.encode({ 1, 0 / 0, -1 / 0 }, { indent = 0, nonfinite = "null" }))
  end)

  it("writes JSON on one line as with lines", function()
    local compact = require "tperf.output.compact"
    for _, value in ipairs { { a = { 1, 2, {}, { x = {} } }, b = { -1 / 0, 0 / 0 }, c = true,
      d = { [1] = 1, [3] = "x" } },
      { 5e-324, 0.1 + 0.2, 1 / 3, 1e300, -0.0, 1 << 62, 2 ^ 53, 1e15 + 0.3 }, json.EMPTY, "q\"\\\n\u{202E}\xFF", {}, 3,
      { [2] = "b", x = { y = { z = false } } } } do
      assert.equal(json.encode(value, { indent = 0, nonfinite = "null" }), compact(value))
    end
    local cycle = {}
    cycle.a = { cycle }
    assert.error_matches(function() compact(cycle) end, "leads back to", 1, true)
    assert.error_matches(function() compact { f = print } end, "'f' is a function", 1, true)
  end)

  it("refuses cycles, functions, odd keys and nesting that is too deep", function()
    local cycle = { a = { b = {} } }
    cycle.a.b.c = cycle.a
    local deep = {}
    for _ = 1, 1000 do deep = { deep } end
    for pattern, value in pairs { ["leads back to 'a'"] = cycle, ["'f' is a function"] = { f = print },
      ["key true"] = { [true] = 1 }, ["both the number 1 and the text"] = { [1] = 1, ["1"] = 1 },
      ["nested over"] = deep } do
      local ok, text = pcall(report.json, value)
      assert.is_false(ok)
      assert.truthy(text:find(pattern), text)
    end
    local shared = {}
    assert.equal('[[],[]]', json.encode({ shared, shared }, { indent = 0 }))
  end)
end)

describe("report.markdown", function()
  it("escapes what Markdown and HTML take as markup, and marks the numbers' column", function()
    local lines = {}
    for line in report.markdown({ { a = "x|y *b* <i> [l] `c`", n = 1 } }, { "a", "n" }):gmatch "[^\n]+" do
      lines[#lines + 1] = line
    end
    assert.equal(3, #lines)
    assert.truthy(lines[2]:match "^| %-+ | %-+: |$")
    assert.truthy(lines[3]:find([[| x\|y \*b\* \<i\> \[l\] \`c\` |]], 1, true), lines[3])
  end)
end)

describe("report.latex", function()
  local list = { { name = "50% & more_#1", gain = -0.125, cost = 1234.5, note = "{a}^b~c\\d $5" },
    { name = "−3 × 10²", gain = 0.5, note = "<x> \"y\" | …" } }
  local columns = { "name", { key = "gain", unit = "%", title = "gain (%)" }, { key = "cost", unit = "$" }, "note" }

  it("is a tabular with rules, every special character escaped", function()
    assert.equal(table.concat({
      "% \\usepackage{booktabs}",
      "\\begin{tabular}{lrrl}",
      "\\toprule",
      "name & gain (\\%) & cost & note \\\\",
      "\\midrule",
      "50\\% \\& more\\_\\#1 & $-$12.5 \\% & \\$1,234.50 & \\{a\\}\\textasciicircum{}b\\textasciitilde{}c"
        .. "\\textbackslash{}d \\$5 \\\\",
      "$-$3 $\\times$ 10\\textsuperscript{2} & 50 \\% &  & \\textless{}x\\textgreater{} \\textquotedbl{}y"
        .. "\\textquotedbl{} \\textbar{} \\ldots{} \\\\",
      "\\bottomrule",
      "\\end{tabular}",
      "" }, "\n"), report.latex(list, columns))
    assert.equal("% no rows\n", report.latex({}))
  end)

  it("is what report.save writes as .tex", function()
    local folder = program.folder()
    report.save(folder .. "/t.tex", list, columns)
    assert.equal(report.latex(list, columns), program.slurp(folder .. "/t.tex"))
    program.remove(folder)
    local _, message = pcall(report.save, "t.doc", list)
    assert.truthy(message:find("ends in .csv, .json, .md, .tex, .txt or .html", 1, true), message)
  end)
end)

describe("report.html", function()
  it("is one page that loads nothing and escapes all text", function()
    local page = report.html({ { name = '<script>alert("1")</script>&', x = 2 } }, nil, { title = "<b>" })
    assert.falsy(page:find "<script" or page:find "<b>" or page:find "https?://" or page:find "<link")
    assert.truthy(page:find("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;", 1, true))
    assert.truthy(page:find('<td class="n">2</td>', 1, true))
    -- Every element that is opened is closed, in order.
    local open, void = {}, { meta = true }
    for slash, name in page:gsub("<!.->", ""):gsub("<style>.-</style>", ""):gmatch "<(/?)(%w+)" do
      if slash == "/" then
        assert.equal(table.remove(open), name)
      elseif not void[name] then
        open[#open + 1] = name
      end
    end
    assert.same({}, open)
  end)
end)

describe("report.html with a figure", function()
  it("allows only the one script that shows details under the pointer", function()
    local doc = report.new { title = "t" }:figure(require "tperf".plot.lines { rows = { { x = 1, y = 1 } }, x = "x",
      y = "y" })
    local page = doc:render "html"
    local allowed = page:match "script%-src ([^;\"]*)"
    local script, others = page:match "<script>(.-)</script>", select(2, page:gsub("<script", ""))
    assert.equal(1, others)
    local digest = program.temporary()
    program.write(digest, script)
    local sum = program.shell(("sha256sum %s | cut -c1-64"):format(digest)).out:match "%x+"
    local decoded = program.shell(("printf %%s %s | base64 -d | od -An -tx1 | tr -d ' \\n'"):format(
      program.quote(allowed:match "'sha256%-(.*)'"))).out
    assert.equal(sum, decoded)
  end)
end)

describe("report.new", function()
  local plot = { title = "a plot", svg = function() return "<svg></svg>\n" end, text = function() return "dots\n" end }

  local function example()
    local doc = report.new { title = "Study" }
    doc:section("First"):text("One.\n\nTwo & \27[1m.")
    doc:table(rows, { "name", { key = "time", unit = "s" } }, { title = "Times" })
    return doc:figure(plot, { title = "Fig" }):table {}
  end

  it("renders the same content in every format", function()
    for _, kind in ipairs { "text", "markdown", "html", "json" } do
      local out = example():render(kind)
      for _, part in ipairs { "Study", "First", "One.", "Two", "Times", "tensor", "Fig" } do
        assert.truthy(out:find(part, 1, true), kind .. " lacks " .. part)
      end
      assert.falsy(out:find "\27")
      assert.equal(out, example():render(kind))
    end
    assert.truthy(example():render "text":find "dots")
    assert.truthy(example():render "html":find "<svg></svg>")
    local back = parse_json(example():render "json")
    assert.equal(0.25, back.parts[3].rows[2].time)
    assert.same({ name = "time", title = "time", unit = "s" }, back.parts[3].columns[2])
  end)

  it("saves by the name's ending, a Markdown report's figures beside it", function()
    local stem = program.temporary()
    example():save(stem .. ".md")
    local file = assert(io.open(stem .. "-1.svg"))
    assert.equal("<svg></svg>\n", file:read "a")
    file:close()
    file = assert(io.open(stem .. ".md"))
    assert.truthy(file:read "a":find("![Fig](" .. stem:match "[^/]*$" .. "-1.svg)", 1, true))
    file:close()
    for _, ending in ipairs { "", ".md", "-1.svg" } do os.remove(stem .. ending) end
    assert.has_error(function() example():save(stem .. ".doc") end)
    local ok, message = pcall(function() example():save(stem .. "/x.html") end) -- no such folder
    assert.is_false(ok)
    assert.truthy(message:find("cannot write '" .. stem .. "/x.html'", 1, true))
  end)

  it("refuses wrong parts at once, not when it is rendered", function()
    local doc = report.new { title = "x" }
    assert.has_error(function() doc:table(rows, { "tim" }) end)
    assert.has_error(function() doc:text(3) end)
    assert.has_error(function() doc:figure {} end)
    assert.has_error(function() doc:render "pdf" end)
    assert.has_error(function() report.new {} end)
  end)
end)
