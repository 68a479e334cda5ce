local plot = require "tperf.plot"
local axes = require "tperf.plot.draw.axes"
local canvas = require "tperf.plot.draw.canvas"
local clip = require "tperf.plot.draw.clip"
local format = require "tperf.output.format"
local isoband = require "tperf.plot.draw.isoband"
local pareto = require "tperf.plot.pareto"
local program = require "program"
local report = require "tperf.report"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"

-- A small generator of its own (Lehmer), so that the cases repeat.
local function generator(seed)
  return function(n)
    seed = seed * 48271 % 2147483647
    return n and seed % n + 1 or seed / 2147483647
  end
end

local function message_of(f, ...)
  local ok, text = pcall(f, ...)
  assert.is_false(ok)
  return text
end

-- Checks that a text is well-formed XML as far as elements, attributes and entities go; returns the elements.
local function parse_xml(text)
  local open, elements, at = {}, {}, 1
  while at <= #text do
    local start = text:find("<", at, true)
    local words = text:sub(at, (start or #text + 1) - 1)
    assert.falsy(words:gsub("&%l+;", ""):gsub("&#%d+;", ""):find "[&>]")
    if not start then break end
    local stop = assert(text:find(">", start, true))
    local tag = text:sub(start + 1, stop - 1)
    if tag:sub(1, 1) == "/" then
      assert.equal(table.remove(open).name, tag:sub(2))
    else
      local element = { name = tag:match "^%a+", text = "", attributes = {} }
      local rest = tag:sub(#element.name + 1):gsub("/$", "")
      for name, value in rest:gmatch '%s+([%w:-]+)="([^"<]*)"' do
        assert.is_nil(element.attributes[name])
        element.attributes[name] = value
      end
      assert.equal("", (rest:gsub('%s+[%w:-]+="[^"<]*"', "")))
      elements[#elements + 1] = element
      element.text = text:match("^([^<]*)", stop + 1)
      if tag:sub(-1) ~= "/" then open[#open + 1] = element end
    end
    at = stop + 1
  end
  assert.same({}, open)
  return elements
end

local function named(elements, name)
  local list = {}
  for _, element in ipairs(elements) do
    if element.name == name then list[#list + 1] = element end
  end
  return list
end

-- Rows that suit every kind of plot.
local function grid_rows()
  local rows = {}
  for i = 1, 6 do
    for j = 1, 5 do
      rows[#rows + 1] = { x = 2 ^ i, y = 10.0 * j, z = i * j, s = "series " .. j, n = "name " .. i,
        flops = 1e12 * i, bytes = 1e10 * j, time = 1.0 }
    end
  end
  return rows
end

local function one_each(s)
  local rows = {}
  for _, row in ipairs(grid_rows()) do
    if row.s == s then rows[#rows + 1] = row end
  end
  return rows
end

local kinds = {
  lines = function()
    return plot.lines { rows = grid_rows(), x = "x", y = "z", series = "s", logx = true, title = "L" }
  end,
  bars = function()
    return plot.bars { rows = one_each "series 2", x = "n", y = { "y", "z" }, y2 = "x", title = "B" }
  end,
  grouped = function()
    return plot.bars { rows = grid_rows(), x = "n", y = "z", series = "s", mode = "grouped", logy = 2, title = "G" }
  end,
  contour = function()
    return plot.contour { rows = grid_rows(), x = "x", y = "y", z = "z", title = "C",
      marks = { { x = 4, y = 20, label = "m" } } }
  end,
  heatmap = function() return plot.heatmap { rows = grid_rows(), x = "n", y = "s", z = "z", title = "H" } end,
  scatter = function()
    return plot.scatter { rows = grid_rows(), x = "x", y = "z", series = "s", label = "n", title = "S",
      pareto = { x = "min", y = "max" } }
  end,
  roofline = function()
    return plot.roofline { rows = grid_rows(), name = "n", title = "R",
      peaks = { { title = "tensor", flops = "312 TFLOP/s" } }, bandwidths = { { title = "HBM", bytes = "2 TB/s" } } }
  end,
}
kinds.spans = function()
  return plot.spans { rows = { { a = 0, b = 2, n = 1, s = "one" }, { a = 2, b = 3, n = 1, s = "two" },
    { a = 1, b = 2.5, n = 2, s = "one" } }, start = "a", stop = "b", lane = "n", series = "s", xunit = "s",
    title = "T" }
end
kinds.panels = function() return plot.panels { title = "P", kinds.lines(), kinds.bars() } end

describe("every plot", function()
  for name, make in pairs(kinds) do
    it("is well-formed, accessible, deterministic SVG within its frame: " .. name, function()
      local svg = make():svg()
      assert.equal(svg, make():svg())
      local elements = parse_xml(svg)
      local root = elements[1].attributes
      assert.equal("svg", elements[1].name)
      assert.equal("img", root.role)
      assert.equal(make().title, root["aria-label"])
      assert.equal("title", elements[2].name)
      assert.equal("desc", elements[3].name)
      assert.truthy(#elements[3].text > 20)
      assert.falsy(svg:find "nan" or svg:find "inf" or svg:find "%-0[^.%d]" or svg:find "id=")
      -- Nothing is drawn outside the picture.
      local w, h = tonumber(root.width), tonumber(root.height)
      for _, element in ipairs(elements) do
        local a = element.attributes
        for px, py in (a.d or ""):gmatch "[ML](%-?[%d.]+) (%-?[%d.]+)" do
          assert.truthy(tonumber(px) >= -1 and tonumber(px) <= w + 1 and tonumber(py) >= -1 and tonumber(py) <= h + 1)
        end
        if element.name == "text" then
          local x, width = tonumber(a.x), canvas.text_width(element.text, tonumber(a["font-size"] or style.size))
          local left = a["text-anchor"] == "middle" and x - width / 2 or a["text-anchor"] == "end" and x - width or x
          if not a.transform then assert.truthy(left > -2 and left + width < w + 20, element.text) end
          assert.truthy(tonumber(a.y) > 0 and tonumber(a.y) < h)
        end
      end
    end)

    it("can be printed as text, in Unicode and in ASCII: " .. name, function()
      local text = make():text { width = 70, height = 12 }
      assert.truthy(utf8.len(text))
      assert.truthy(text:find(make().title, 1, true))
      for line in text:gmatch "[^\n]+" do assert.truthy(format.width(line) <= 72, line) end
      assert.falsy(make():text { ascii = true }:find "[\x80-\xFF\27]")
    end)
  end

  it("escapes XML markup in every text", function()
    local evil = [[<script>&"']] .. "\27\xFF]]>"
    local svg = plot.lines {
      rows = { { x = 1, y = 1, s = evil }, { x = 2, y = 2, s = evil }, { x = 1, y = 3, s = "b" } },
      x = "x", y = "y", series = "s", title = evil, subtitle = evil, xlabel = evil, ylabel = evil,
      guides = { { y = 1, label = evil } } }:svg()
    parse_xml(svg)
    assert.falsy(svg:find "<script" or svg:find "\27" or not utf8.len(svg))
    svg = plot.heatmap { rows = { { x = evil, y = evil, z = 1 } }, x = "x", y = "y", z = "z", zlabel = evil }:svg()
    parse_xml(svg)
  end)

  it("wraps a long subtitle onto a second line, between words, and cuts it only after that", function()
    local function drawn(subtitle) -- the lines of the subtitle, and the height of the first text below it
      local made = plot.lines { rows = one_each "series 1", x = "x", y = "z", ylabel = "below", subtitle = subtitle }
      local lines
      for _, text in ipairs(named(parse_xml(made:svg()), "text")) do
        if text.text == "below" then return lines, tonumber(text.attributes.y) end
        if lines then lines[#lines + 1] = text.text elseif subtitle:find(text.text, 1, true) == 1 then
          lines = { text.text }
        end
      end
    end
    local words = ("word "):rep(30):sub(1, -2)
    local short, at = drawn "a few words"
    local long, below = drawn(words)
    assert.same({ "a few words" }, short)
    assert.equal(2, #long)
    assert.equal(words, table.concat(long, " "))
    assert.near(at + 17, below, 1e-9) -- a line lower
    assert.same({ "two clauses;", words:sub(1, 89) }, (drawn("two clauses; " .. words:sub(1, 89))))
    local longest = drawn(("word "):rep(3000))
    assert.equal(2, #longest)
    assert.truthy(not longest[1]:find "…" and longest[2]:find "…$")
    local one_word = plot.lines { rows = one_each "series 1", x = "x", y = "z", subtitle = ("x"):rep(3000) }:svg()
    assert.truthy(one_word:find "<text[^>]*>x+…<")
  end)

  it("refuses to be drawn without rows, from wrong fields and with unknown arguments", function()
    local good = grid_rows()
    for _, kind in ipairs { "lines", "scatter" } do
      for part, options in pairs {
        ["has no rows to draw"] = { rows = {}, x = "x", y = "y" },
        ["no row has a field 'zz'"] = { rows = good, x = "x", y = "zz" },
        ["did you mean 'title'"] = { rows = good, x = "x", y = "z", tilte = "" },
        ["row 1: 'y' is infinite"] = { rows = { { x = 1, y = 1 / 0 } }, x = "x", y = "y" },
        ["row 1: 'y' must be a number"] = { rows = { { x = 1, y = {} } }, x = "x", y = "y" },
        ["no row has a number"] = { rows = { { x = 1, y = 0 / 0 } }, x = "x", y = "y" },
      } do
        local text = message_of(plot[kind], options)
        assert.truthy(text:find(part, 1, true), text)
      end
    end
    assert.truthy(message_of(function() plot.lines { rows = {}, x = "x", y = "y" } end):find "^%S*plot_spec.lua:%d+: ")
  end)

  it("survives one point, equal values, and the largest and smallest numbers", function()
    local max, min = 1.7976931348623157e308, 5e-324
    for _, values in ipairs { { 1 }, { 0 }, { -3 }, { 7, 7, 7 }, { max, -max }, { max, max }, { min, max }, { min },
      { -max }, { 1e16, 1e16 + 2 }, { 0, min } } do
      local rows, positive = {}, true
      for i, v in ipairs(values) do
        rows[i] = { x = v, y = v, n = "n" .. i }
        positive = positive and v > 0
      end
      for _, log in ipairs(positive and { false, true } or { false }) do
        local apart = values[1] ~= values[2] -- a line has one row at an x
        for _, made in ipairs { plot.lines { rows = rows, x = apart and "x" or "n", y = "y", logy = log,
          logx = apart and log or nil, yunit = "bytes" },
          plot.scatter { rows = rows, x = "x", y = "y", logx = log, logy = log, xunit = "s" },
          plot.bars { rows = rows, x = "n", y = "y", mode = "grouped", logy = log } } do
          local svg = made:svg()
          parse_xml(svg)
          for value in svg:gmatch '[%w-]+="([^"]*)"' do assert.falsy(value:find "nan" or value:find "inf", value) end
          made:text()
        end
      end
    end
  end)
end)

describe("plot.lines", function()
  it("puts points at their values on the axes", function()
    -- Log axes from 1 to 100 and 1 to 10000: the middle of both is (10, 100).
    local svg = plot.lines { rows = { { x = 1, y = 1 }, { x = 10, y = 100 }, { x = 100, y = 10000 } }, x = "x", y = "y",
      logx = 10, logy = 10 }:svg()
    local circles = named(parse_xml(svg), "circle")
    assert.equal(3, #circles)
    local function at(i, k) return tonumber(circles[i].attributes[k]) end
    assert.is_near((at(1, "cx") + at(3, "cx")) / 2, at(2, "cx"), 0.011)
    assert.is_near((at(1, "cy") + at(3, "cy")) / 2, at(2, "cy"), 0.011)
    assert.truthy(at(1, "cx") < at(3, "cx") and at(1, "cy") > at(3, "cy"))
  end)

  it("leaves gaps if y is NaN or nil, and shows isolated points", function()
    local rows = { { x = 1, y = 1 }, { x = 2, y = 2 }, { x = 3, y = 0 / 0 }, { x = 4, y = 4 }, { x = 5 },
      { x = 6, y = 1 } }
    local p = plot.lines { rows = rows, x = "x", y = "y" }
    local long, circles = 0, #named(parse_xml(p:svg()), "circle")
    for _, path in ipairs(named(parse_xml(p:svg()), "path")) do
      if path.attributes["stroke-width"] == "2" then long = long + 1 end
    end
    assert.equal(1, long) -- only the first two points are joined
    assert.equal(4, circles)
  end)

  it("shades the band between low and high, makes room for it on the axis, and leaves gaps", function()
    local rows = { { x = 1, y = 3, low = 1, high = 5 }, { x = 2, y = 3, low = 2, high = 8 }, { x = 3, y = 3 },
      { x = 4, y = 3, low = 3, high = 4 }, { x = 5, y = 3, low = 3, high = 4 } }
    local svg = plot.lines { rows = rows, x = "x", y = "y", low = "low", high = "high", ymin = 0, ymax = 10 }:svg()
    local bands, at = {}, {}
    for _, path in ipairs(named(parse_xml(svg), "path")) do
      if path.attributes["fill-opacity"] then bands[#bands + 1] = path.attributes.d end
    end
    assert.equal(2, #bands) -- the third point has none
    for x, y in bands[1]:gmatch "([%d.]+)[ ,]([%d.]+)" do at[#at + 1] = { tonumber(x), tonumber(y) } end
    assert.equal(4, #at) -- 5, 8 and back: 2, 1
    assert.same({ at[1][1], at[2][1] }, { at[4][1], at[3][1] })
    local one = (at[4][2] - at[1][2]) / 4 -- pixels of 1
    assert.near(6 * one, at[3][2] - at[2][2], 0.05)
    assert.near(3 * one, at[1][2] - at[2][2], 0.05)
    for _, wrong in ipairs { { low = "low" }, { low = "low", high = "high", y = { "y", "high" } } } do
      local options = { rows = rows, x = "x", y = wrong.y or "y", low = wrong.low, high = wrong.high }
      assert.truthy(message_of(plot.lines, options):find("'low' and 'high' go together, with one y field", 1, true))
    end
  end)

  it("names the row that a log axis cannot show", function()
    for _, bad in ipairs { 0, -1 } do
      local rows = { { x = 1, y = 1 }, { x = 2, y = bad } }
      local part = "row 2: 'y' is " .. bad
      assert.truthy(message_of(plot.lines, { rows = rows, x = "x", y = "y", logy = true }):find(part, 1, true))
      assert.truthy(message_of(plot.lines, { rows = rows, x = "y", y = "x", logx = true }):find(part, 1, true))
    end
  end)

  it("gives 30 series labels that do not overlap, and different looks", function()
    local rows, looks = {}, {}
    for s = 1, 30 do
      rows[2 * s - 1], rows[2 * s] = { x = 1, y = s, s = "series " .. s }, { x = 2, y = 50, s = "series " .. s }
      local look = style.series(s)
      local key = look.color .. table.concat(look.dash, ",")
      assert.is_nil(looks[key])
      looks[key] = true
    end
    local elements = parse_xml(plot.lines { rows = rows, x = "x", y = "y", series = "s" }:svg())
    local places = {}
    for i, element in ipairs(elements) do
      local inner = elements[i + 1]
      local words = inner and inner.name == "title" and inner.text or ""
      if element.name == "text" and words:find "^series %d+$" then
        places[#places + 1] = tonumber(element.attributes.y)
      end
    end
    assert.equal(30, #places)
    table.sort(places)
    for i = 2, 30 do assert.truthy(places[i] - places[i - 1] >= 14.9) end
  end)

  it("draws guides as functions, levels and places, clipped to the frame", function()
    local rows = { { x = 1, y = 1 }, { x = 10, y = 10 } }
    local p = plot.lines { rows = rows, x = "x", y = "y", guides = { {
      f = function(x) return 1000 * x - 5000 end, label = "f" }, { y = 5, label = "level" },
      { x = 3, label = "place" } } }
    parse_xml(p:svg())
    assert.truthy(message_of(plot.lines, { rows = rows, x = "x", y = "y", guides = { {} } })
      :find "needs one of x, y and f")
    assert.has_error(function()
      plot.lines { rows = rows, x = "x", y = "y", guides = { { f = function() return "x" end } } }:svg()
    end)
  end)

  it("takes names on the x axis", function()
    assert.truthy(plot.lines { rows = one_each "series 1", x = "n", y = "z" }:svg():find("name 3", 1, true))
  end)
end)

describe("scale", function()
  it("ticks a linear axis at few multiples of 1, 2 or 5 times a power of ten, within its ends", function()
    local random = generator(7)
    for _ = 1, 500 do
      local lo = (random() - 0.5) * 10 ^ (random(20) - 10)
      local hi = lo + random() * 10 ^ (random(20) - 10)
      local s = scale.linear(lo, hi, {})
      assert.truthy(#s.ticks >= 2 and #s.ticks <= 8, #s.ticks)
      local step = s.ticks[2].value - s.ticks[1].value
      local power = 10 ^ math.floor(math.log(step, 10) + 1e-3)
      local mantissa = math.floor(step / power + 0.5)
      assert.truthy(mantissa == 1 or mantissa == 2 or mantissa == 5)
      assert.is_near(mantissa, step / power, 1e-3)
      for i, tick in ipairs(s.ticks) do
        local at = s.at(tick.value)
        assert.truthy(at > -1e-6 and at < 1 + 1e-6)
        local slack = 1e-6 * math.abs(step) + 1e-15 * math.abs(tick.value)
        if i > 1 then assert.is_near(step, tick.value - s.ticks[i - 1].value, slack) end
        for k = 1, i - 1 do assert.not_equal(s.ticks[k].label, tick.label) end
      end
    end
  end)

  it("ticks log axes at powers, with SI prefixes in the labels", function()
    local function labels(s)
      local list = {}
      for i, tick in ipairs(s.ticks) do list[i] = tick.label end
      return table.concat(list, " | ")
    end
    assert.equal("1 kB | 10 kB | 100 kB | 1 MB | 10 MB | 100 MB | 1 GB",
      labels(scale.log(1e3, 1e9, { unit = "bytes" })))
    assert.equal("1 KiB | 2 KiB | 4 KiB", labels(scale.log(1024, 4096, { unit = "bytes", base = 2 })))
    assert.equal("4 | 8 | 16 | 32", labels(scale.log(4, 32, { base = 2 })))
    assert.equal("1 us | 10 us | 100 us | 1 ms", labels(scale.log(1e-6, 1e-3, { unit = "s" })))
    assert.equal("1 s | 10 s | 1 min | 10 min | 1 h | 1 day | 10 days", labels(scale.log(1, 1e6, { unit = "s" })))
    assert.equal("10⁻³ | 10⁻² | 10⁻¹ | 10⁰ | 10¹ | 10² | 10³ | 10⁴ | 10⁵ | 10⁶", labels(scale.log(1e-3, 1e6, {})))
    assert.equal("2 | 5 | 10 | 20", labels(scale.log(2, 20, {})))
  end)

  it("places values by their logarithm, or linearly", function()
    local log, linear = scale.log(2, 32, { base = 2 }), scale.linear(-1, 3, {})
    assert.is_near(0.5, log.at(8), 1e-12)
    assert.is_near(0.25, linear.at(0), 1e-12)
  end)

  it("shows a linear axis in one unit that suits its largest value", function()
    for unit, cases in pairs { bytes = { [8e10] = "GB", [1e3] = "kB", [0.5] = "B" },
      s = { [1e6] = "days", [3e3] = "min", [1e-5] = "us" }, ["FLOP/s"] = { [3e14] = "TFLOP/s" },
      ["$"] = { [100] = "$" } } do
      for largest, name in pairs(cases) do
        local _, got = scale.unit(largest, unit)
        assert.equal(name, got)
      end
    end
    -- An axis whose ticks would mostly be fractions of a unit takes the smaller unit.
    assert.equal("GB", scale.linear(80e9, 1000e9, { unit = "bytes" }).unit)
    assert.equal("TB", scale.linear(80e9, 2000e9, { unit = "bytes" }).unit)
    assert.equal("s", scale.log(2.5, 280, { unit = "s" }).unit)
  end)
end)

describe("clip.line", function()
  it("keeps exactly the part inside", function()
    local random = generator(3)
    for _ = 1, 300 do
      local x1, y1, x2, y2 = random() * 3 - 1, random() * 3 - 1, random() * 3 - 1, random() * 3 - 1
      local inside, steps = 0, 2000 -- by sampling
      for k = 0, steps - 1 do
        local t = (k + 0.5) / steps
        local x, y = x1 + t * (x2 - x1), y1 + t * (y2 - y1)
        if x >= 0 and x <= 1 and y >= 0 and y <= 1 then inside = inside + 1 end
      end
      local a, b, c, d = clip.segment(x1, y1, x2, y2)
      local share = a and math.sqrt((c - a) ^ 2 + (d - b) ^ 2) / math.sqrt((x2 - x1) ^ 2 + (y2 - y1) ^ 2) or 0
      assert.is_near(inside / steps, share, 2e-3)
    end
  end)

  it("cuts a line that leaves and comes back into pieces", function()
    assert.equal(2, #clip.line { 0.2, 0.5, 0.4, 1.5, 0.6, 0.5, 0.8, 0.5 })
    assert.equal(0, #clip.line { 2, 2, 3, 3 })
  end)
end)

describe("axes.spread", function()
  it("keeps labels apart, in order, in bounds, and unmoved if there is room", function()
    local random = generator(11)
    for _ = 1, 200 do
      local wanted, n = {}, random(12)
      for i = 1, n do wanted[i] = random() * 200 end
      local places = axes.spread(wanted, 15, 0, 200)
      for i = 1, n do
        assert.truthy(places[i] >= -1e-9 and places[i] <= 200 + 1e-9)
        for k = 1, n do
          if k ~= i then assert.truthy(math.abs(places[i] - places[k]) >= 15 - 1e-9) end
          if wanted[i] < wanted[k] then assert.truthy(places[i] < places[k]) end
        end
      end
    end
    assert.same({ 100, 20, 60 }, axes.spread({ 100, 20, 60 }, 15, 0, 200))
  end)
end)

describe("isoband.area", function()
  local function area_of(rings)
    local total = 0
    for _, ring in ipairs(rings) do
      local twice = 0
      for i = 1, #ring, 2 do
        local k = i + 2 > #ring and 1 or i + 2
        twice = twice + ring[i] * ring[k + 1] - ring[k] * ring[i + 1]
      end
      total = total + math.abs(twice) / 2
    end
    return total
  end

  local function sampled(n, f)
    local xs, ys, z = {}, {}, {}
    for i = 0, n do xs[i + 1], ys[i + 1] = 2 * i / n - 1, 2 * i / n - 1 end
    for i = 1, n + 1 do
      z[i] = {}
      for j = 1, n + 1 do z[i][j] = f(xs[i], ys[j]) end
    end
    return xs, ys, z
  end

  it("is exact for planes", function()
    local xs, ys, z = sampled(8, function(x, y) return x + 2 * y end)
    for _, level in ipairs { -2.5, -1, 0, 0.3, 2.9 } do
      -- The share of the square [-1, 1]² above x + 2y = level, summed over thin slices of x.
      local exact, steps = 0, 20000
      for k = 0, steps - 1 do
        local x = 2 * (k + 0.5) / steps - 1
        exact = exact + math.max(0, math.min(2, 1 - (level - x) / 2)) * 2 / steps
      end
      assert.is_near(exact, area_of(isoband.area(xs, ys, z, level)), 1e-6)
    end
  end)

  it("approximates the area and the circumference of discs", function()
    local xs, ys, z = sampled(80, function(x, y) return -x * x - y * y end)
    for _, radius in ipairs { 0.25, 0.5, 0.9 } do
      local rings, segments = isoband.area(xs, ys, z, -radius * radius)
      assert.is_near(math.pi * radius ^ 2, area_of(rings), 2e-3)
      local lines = isoband.join(segments)
      assert.equal(1, #lines)
      local length = 0
      for i = 1, #lines[1] - 3, 2 do
        length = length + math.sqrt((lines[1][i + 2] - lines[1][i]) ^ 2 + (lines[1][i + 3] - lines[1][i + 1]) ^ 2)
      end
      assert.is_near(2 * math.pi * radius, length, 2e-2)
    end
  end)

  it("covers exactly the cells that have values", function()
    local xs, ys, z = sampled(4, function(x, y) return x * y end)
    assert.is_near(4, area_of(isoband.area(xs, ys, z, -math.huge)), 1e-12)
    z[3][3] = nil -- the middle: its four cells lose a corner each, and half their area
    assert.is_near(4 - 4 * 0.25 / 2, area_of(isoband.area(xs, ys, z, -math.huge)), 1e-12)
    z[3][2] = nil
    assert.truthy(area_of(isoband.area(xs, ys, z, -math.huge)) < 3.5)
  end)
end)

describe("plot.contour and plot.heatmap", function()
  it("need a grid: two values of each axis, no place twice", function()
    assert.truthy(message_of(plot.contour, { rows = { { x = 1, y = 1, z = 1 } }, x = "x", y = "y", z = "z" })
      :find "at least two values")
    assert.truthy(message_of(plot.heatmap, { rows = { { x = 1, y = 1, z = 1 }, { x = 1, y = 1, z = 2 } },
      x = "x", y = "y", z = "z" }):find "rows 1 and 2 are both at")
  end)

  it("mark missing values, and explain them", function()
    local rows = grid_rows()
    rows[1].z, rows[2].z = 0 / 0, nil
    for _, kind in ipairs { "contour", "heatmap" } do
      local p = plot[kind] { rows = rows, x = "x", y = "y", z = "z", missing = "does not fit" }
      assert.truthy(p:svg():find("does not fit", 1, true))
      assert.truthy(p:text():find("does not fit", 1, true))
    end
  end)

  it("tick their axes in text as in a picture", function()
    local rows = {}
    for i, capacity in ipairs { 40e9, 80e9, 1.5e12 } do
      for j, name in ipairs { "a", "b" } do rows[#rows + 1] = { x = capacity, y = name, n = j, z = i + j } end
    end
    local text = plot.heatmap { rows = rows, x = { key = "x", unit = "bytes" }, y = "y", z = "z" }:text()
    for _, label in ipairs { "40 GB", "80 GB", "1.5 TB", "\na ┤", "\nb ┤" } do
      assert.truthy(("\n" .. text):find(label, 1, true), label)
    end
    text = plot.contour { rows = rows, x = { key = "x", unit = "bytes" }, y = "n", z = "z" }:text()
    assert.truthy(text:find("500", 1, true) and text:find("x (GB)", 1, true))
  end)

  it("read quantities given as text", function()
    local rows, same = {}, {}
    for i, capacity in ipairs { "320 GB", "40 GB", "1.5 TB" } do
      for n = 1, 2 do
        rows[#rows + 1] = { x = capacity, y = n, z = i * n }
        same[#same + 1] = { x = ({ 320e9, 40e9, 1.5e12 })[i], y = n, z = i * n }
      end
    end
    for _, kind in ipairs { "contour", "heatmap", "lines", "scatter" } do
      local y, z = kind:find "^[ch]" and "y" or "z", kind:find "^[ch]" and "z" or nil
      local series = not z and "y" or nil
      local mark = z and { { x = "320 GB", y = 1, label = "here" } } or nil
      local number = z and { { x = 320e9, y = 1, label = "here" } } or nil
      assert.equal(plot[kind] { rows = same, x = "x", y = y, z = z, xunit = "bytes", marks = number,
        series = series }:svg(),
        plot[kind] { rows = rows, x = "x", y = y, z = z, marks = mark, series = series }:svg(), kind)
    end
    rows[1].x = "320 GB/s"
    assert.truthy(message_of(plot.contour, { rows = rows, x = "x", y = "y", z = "z" })
      :find("row 1: 'x' must be a number or a quantity, got \"320 GB/s\"", 1, true))
    assert.truthy(message_of(plot.contour, { rows = same, x = "x", y = "y", z = "z", marks = { { x = "a", y = 1 } } })
      :find("plot.contour: 'marks[1].x' must be a number, got \"a\"", 1, true))
  end)

  it("know the units of what a sweep varied", function()
    local rows = require "tperf".sweep { run = function(o) return o.system.accelerator.hbm.capacity * o.n end,
      system = "h100-sxm", ["system.accelerator.hbm.capacity"] = require "tperf".vary { 40e9, 320e9 },
      n = require "tperf".vary { 1, 2 } }
    assert.same({ capacity = "bytes" }, rows.units)
    local text = plot.heatmap { rows = rows, x = "capacity", y = "n", z = "time" }:text()
    assert.truthy(text:find("40 GB", 1, true) and text:find("320 GB", 1, true), text)
    assert.truthy(report.text(rows, { "capacity" }):find "40%.00 GB")
    rows.units = nil
    assert.truthy(plot.heatmap { rows = rows, x = "capacity", y = "n", z = "time" }:text():find("3.2·10¹¹", 1, true))
  end)

  it("refuse an axis that mixes numbers and names, and values of other types", function()
    local function at(...)
      local rows = {}
      for i, x in ipairs { ... } do rows[i] = { x = x, y = 1, z = i } end
      return message_of(plot.heatmap, { rows = rows, x = "x", y = "y", z = "z" })
    end
    assert.truthy(at(1, "b", 2):find(
      "plot.heatmap: 'x' has numbers and names (row 1: 1, row 2: \"b\"); an axis takes one of them", 1, true))
    assert.truthy(at("a", print):find("row 2: 'x' must be a name or a number, got a function", 1, true))
    assert.truthy(at(1, math.huge):find("row 2: 'x' is infinite", 1, true))
  end)

  it("call a function of the row once per row", function()
    local calls = 0
    local function fickle()
      calls = calls + 1
      return calls
    end
    plot.heatmap { rows = { { y = 1, z = 1 }, { y = 1, z = 2 } }, x = fickle, y = "y", z = "z" }
    assert.equal(2, calls)
  end)

  it("accept one value everywhere", function()
    local rows = grid_rows()
    for _, row in ipairs(rows) do row.z = 3 end
    for _, kind in ipairs { "contour", "heatmap" } do
      local svg = plot[kind] { rows = rows, x = "x", y = "y", z = "z" }:svg()
      assert.falsy(svg:find "nan" or svg:find "inf")
    end
  end)
end)

describe("canvas.fit", function()
  it("cuts to the width, keeping whole characters and, if asked, the end", function()
    for width = 0, 200, 7 do
      for _, keep_end in ipairs { false, true } do
        local text = canvas.fit("Größe 日本 number 17 of thirty", width, 12, keep_end)
        assert.truthy(utf8.len(text))
        assert.truthy(text == "…" or canvas.text_width(text, 12) <= width)
        if keep_end and width > 60 and text:find "…" then assert.truthy(text:find "y$") end
      end
    end
    assert.equal("short", canvas.fit("short", 100))
  end)
end)

describe("style.ramp", function()
  it("only gets lighter, so that greyscale keeps the order", function()
    local last = -1
    for i = 0, 50 do
      local light = style.luminance(style.ramp(i / 50))
      assert.truthy(light > last)
      last = light
    end
  end)
end)

describe("pareto.front", function()
  it("matches a comparison of every pair", function()
    local random = generator(5)
    for _, x in ipairs { "min", "max" } do
      for _, y in ipairs { "min", "max" } do
        for _ = 1, 50 do
          local points, expected = {}, {}
          for i = 1, random(40) do points[i] = { x = random(12), y = random(12) } end
          local function better(a, b, way) return way == "min" and a < b or way == "max" and a > b end
          for i, p in ipairs(points) do
            local beaten = false
            for k, q in ipairs(points) do
              local no_worse = not better(p.x, q.x, x) and not better(p.y, q.y, y)
              local same = p.x == q.x and p.y == q.y
              if no_worse and (not same or k < i) then beaten = true end
            end
            if not beaten then expected[#expected + 1] = i end
          end
          local front = pareto.front(points, x, y)
          table.sort(front)
          assert.same(expected, front)
        end
      end
    end
  end)
end)

describe("plot.bars", function()
  it("stacks parts to their sum, each as high as its value", function()
    local p = plot.bars { rows = { { n = "a", p = 10, q = 30 }, { n = "b", p = 40, q = 0 } }, x = "n",
      y = { "p", "q" } }
    local heights = {}
    local elements = parse_xml(p:svg())
    for i, element in ipairs(elements) do
      local inner = elements[i + 1]
      if element.name == "path" and inner and inner.name == "title" and inner.text:find "^[ab], [pq]: " then
        local ys = {}
        for y in element.attributes.d:gmatch "[ML]%S+ ([%d.]+)" do ys[#ys + 1] = tonumber(y) end
        heights[inner.text:sub(1, 4)] = math.abs(ys[1] - ys[3])
      end
    end
    assert.is_near(3, heights["a, q"] / heights["a, p"], 0.01)
    assert.is_near(heights["b, p"], heights["a, p"] + heights["a, q"], 0.05)
  end)

  it("names parts by their fields' last names if those differ", function()
    local rows = { { n = "a", breakdown = { bubble = 1, data_comm = 2 }, memory = { bubble = 3 } } }
    local svg = plot.bars { rows = rows, x = "n", y = { "breakdown.bubble", "breakdown.data_comm" } }:svg()
    assert.truthy(svg:find(">bubble<", 1, true) and svg:find(">data comm<", 1, true))
    assert.falsy(svg:find "breakdown")
    svg = plot.bars { rows = rows, x = "n", y = { "breakdown.bubble", "memory.bubble" } }:svg()
    assert.truthy(svg:find(">breakdown bubble<", 1, true) and svg:find(">memory bubble<", 1, true))
  end)

  it("refuses shares of negative parts, and log axes in stacks", function()
    local rows = { { n = "a", p = -1 } }
    assert.truthy(message_of(plot.bars, { rows = rows, x = "n", y = "p", share = true })
      :find "row 1: p is %-1; a negative part has no share")
    assert.truthy(message_of(plot.bars, { rows = rows, x = "n", y = "p", logy = true })
      :find "cannot be read on a log axis")
    assert.truthy(message_of(plot.bars, { rows = { { n = "a", p = 1 }, { n = "a", p = 2 } }, x = "n", y = "p" })
      :find "rows 1 and 2 both have p for 'a'")
    assert.truthy(message_of(plot.bars, { rows = rows, x = "n" }):find "'y' is missing")
    parse_xml(plot.bars { rows = rows, x = "n", y = "p", mode = "grouped" }:svg())
  end)
end)

describe("plot.roofline", function()
  it("puts kernels at FLOP per byte and FLOP/s, on the roof if they have no time", function()
    local p = plot.roofline { rows = { { name = "slow", flops = 1e12, bytes = 1e10, time = 0.1 },
      { name = "bound by memory", flops = 1e12, bytes = 1e12 }, { name = "none", flops = 0, bytes = 1 } },
      peaks = { { flops = 100e12 } }, bandwidths = { { bytes = 1e12 } } }
    local svg = p:svg()
    assert.truthy(svg:find("slow: 100 FLOP/byte, 10.00 TFLOP/s<", 1, true))
    assert.truthy(svg:find("bound by memory: 1 FLOP/byte, 1.000 TFLOP/s at most<", 1, true))
    assert.truthy(svg:find("1 of 3 without arithmetic", 1, true))
    local machine = plot.roofline { rows = { { flops = 1, bytes = 1 } }, system = "h100-sxm" }
    assert.truthy(machine:svg():find("tensor 989 TFLOP/s", 1, true) and machine:svg():find("HBM 3.35 TB/s", 1, true))
    assert.truthy(message_of(plot.roofline, { rows = { { flops = 1, bytes = 1 } }, system = "h100-sxm", dtype = "fp3" })
      :find "no peak for dtype 'fp3'")
    assert.truthy(message_of(plot.roofline, { rows = { { flops = 1, bytes = 1 } } }):find "needs a system, or peaks")
    assert.has_error(function()
      plot.roofline { rows = { { flops = 1, bytes = 1, time = 0 } }, peaks = { { flops = 1 } },
        bandwidths = { { bytes = 1 } } }
    end)
  end)

  it("labels coinciding points together, and no name twice", function()
    local svg = plot.roofline { peaks = { { flops = 100e12 } }, bandwidths = { { bytes = 1e12 } }, rows = {
      { name = "qkv", flops = 1e12, bytes = 1e10, time = 0.1 }, { name = "fc", flops = 1e12, bytes = 1e10, time = 0.1 },
      { name = "qkv", flops = 1e12, bytes = 1e10, time = 0.1 }, { name = "norm", flops = 1e9, bytes = 1e9, time = 0.1 },
    } }:svg()
    assert.truthy(svg:find(">qkv, fc</text>", 1, true) and svg:find(">norm</text>", 1, true))
    assert.falsy(svg:find(">qkv</text>", 1, true) or svg:find(">fc</text>", 1, true))
  end)
end)

describe("plot:save", function()
  local has_renderer = os.execute "command -v rsvg-convert >/dev/null 2>&1"

  local function saved(ending)
    local name = program.temporary()
    kinds.lines():save(name .. ending)
    local file = assert(io.open(name .. ending, "rb"))
    local bytes = file:read "a"
    file:close()
    os.remove(name .. ending)
    return bytes
  end

  it("writes the format of the name's extension", function()
    assert.equal(kinds.lines():svg(), saved ".svg")
    assert.equal(kinds.lines():text(), saved ".txt")
    assert.truthy(message_of(function() kinds.lines():save "x.gif" end):find "must end in .svg, .png, .pdf or .txt")
  end)

  it("writes PNG and PDF with rsvg-convert, the same bytes each time, or names what is missing", function()
    if not has_renderer then
      assert.truthy(message_of(saved, ".png"):find "rsvg%-convert %(librsvg%), which draws PNG and PDF, is not")
      return
    end
    local png, pdf = saved ".png", saved ".pdf"
    assert.equal("\137PNG\r\n\26\n", png:sub(1, 8))
    assert.same({ 1440, 860 }, { string.unpack(">I4I4", png, 17), (string.unpack(">I4", png, 21)) })
    assert.equal("%PDF", pdf:sub(1, 4))
    assert.truthy(pdf:find("/MediaBox [ 0 0 540 322.5", 1, true)) -- points: 720 and 430 px of 1/96 inch
    assert.equal(pdf, saved ".pdf")
    assert.equal(png, saved ".png")
  end)

  it("names what is missing without rsvg-convert, before anything is computed", function()
    local folder = program.folder()
    program.write(folder .. "/s.lua", [[require "tperf".plot.lines({ rows = { { x = 1, y = 1 } }, x = "x", y = "y" })
      :save "x.pdf"]])
    local result = program.shell("PATH=/nowhere tperf run s.lua", folder)
    program.remove(folder)
    assert.truthy(result.err:find("cannot write 'x.pdf': rsvg-convert (librsvg), which draws PNG and PDF, is not "
      .. "installed; save as .svg, or install it (Debian, Ubuntu: apt-get install librsvg2-bin", 1, true), result.err)
    assert.equal(1, result.code)
  end)

  it("ends at Ctrl-C while rsvg-convert draws, and says so", function()
    if not has_renderer then return end
    local folder = program.folder()
    program.write(folder .. "/s.lua", [[
      local rows = {}
      for i = 1, 20000 do rows[i] = { x = i, y = i * 7919 % 1000 } end
      require "tperf".plot.scatter({ rows = rows, x = "x", y = "y", alpha = 0.5 }):save("x.png", { dpi = 900 })]])
    local result = program.interrupted("run s.lua",
      "for c in $(cat /proc/$job/task/*/children); do grep rsvg /proc/$c/comm; done | grep -q .", folder)
    program.remove(folder)
    assert.same({ "tperf: s.lua:3: interrupted\n", 1 }, { result.err, result.code })
  end)

  it("opens no file that a picture names", function()
    if not has_renderer then return end
    local folder = program.folder()
    local function drawn(inner)
      program.write(folder .. "/s.lua", ([[
        local t = require "tperf".schedule { schedule = "1f1b", devices = 2, microbatches = 2 }
        t.svg = function()
          return '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="90" '
            .. 'height="90">%s</svg>'
        end
        t:save "x.png"]]):format(inner))
      local result = program.shell("tperf run s.lua", folder)
      assert.same({ "", 0 }, { result.err, result.code })
      return program.slurp(folder .. "/x.png")
    end
    local rect = '<rect width="30" height="90"/>'
    local alone = drawn(rect)
    program.write(folder .. "/y.png", alone)
    for _, place in ipairs { "y.png", "./y.png", folder .. "/y.png", "file://" .. folder .. "/y.png" } do
      assert.equal(alone, drawn(rect .. '<image width="90" height="90" xlink:href="' .. place .. '"/>'), place)
    end
    program.remove(folder)
  end)

  it("refuses a PNG that is too large for its format", function()
    if not has_renderer then return end
    local text = message_of(function()
      plot.lines({ rows = { { x = 1, y = 1 } }, x = "x", y = "y", width = 4000 }):save("x.png", { dpi = 1200 })
    end)
    assert.truthy(text:find("a PNG of 50000 × 5375 px is too large (at most 32767 either way)", 1, true), text)
  end)
end)
