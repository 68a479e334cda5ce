-- Plots drawn to scale: where bars, spans, boxes and error bars lie, against the data and hand calculations; and that
-- no text is cut, covered or lost in a column of a paper.
local canvas = require "tperf.plot.draw.canvas"
local density = require "tperf.plot.draw.density"
local plot = require "tperf.plot"
local program = require "program"
local statistics = require "tperf.plot.draw.statistics"
local style = require "tperf.plot.draw.style"
local tperf = require "tperf"

local function message_of(f, ...)
  local ok, text = pcall(f, ...)
  assert.is_false(ok)
  return text
end

-- --- reading a picture back ---

-- The shapes of a plot: { name, attributes, title, text, points of a path }.
local function shapes_of(svg)
  local list = {}
  for name, head, rest in svg:gmatch "<(%a+)([^>]*)>([^\n]*)\n" do
    if name ~= "svg" and name ~= "desc" and name ~= "title" then
      local shape = { name = name, points = {} }
      for key, value in head:gmatch '([%w-]+)="([^"]*)"' do shape[key] = value end
      shape.title = rest:match "^<title>(.-)</title>"
      shape.text = rest:gsub("<title>.-</title>", ""):match "^(.-)</text>"
      for x, y in (shape.d or ""):gmatch "[ML](%-?[%d.]+) (%-?[%d.]+)" do
        shape.points[#shape.points + 1] = { tonumber(x), tonumber(y) }
      end
      list[#list + 1] = shape
    end
  end
  return list
end

local function drawn(p, pattern)
  local list = {}
  for _, shape in ipairs(shapes_of(p:svg())) do
    if shape.title and shape.title:find(pattern) and shape.name == "path" then list[#list + 1] = shape end
  end
  return list
end

-- left, right, top, bottom of a shape.
local function extent(shape)
  local left, right, top, bottom = math.huge, -math.huge, math.huge, -math.huge
  for _, point in ipairs(shape.points) do
    left, right = math.min(left, point[1]), math.max(right, point[1])
    top, bottom = math.min(top, point[2]), math.max(bottom, point[2])
  end
  return left, right, top, bottom
end

local function text_at(p, text)
  for _, shape in ipairs(shapes_of(p:svg())) do
    if shape.text == text then return shape end
  end
end

local HALF <const> = 0.011 -- px: coordinates have two decimals

describe("plot.spans", function()
  local rows = { { a = 0, b = 1, lane = "GPU 0", kind = "compute" }, { a = 1, b = 1.05, lane = "GPU 0", kind = "send" },
    { a = 0.25, b = 0.75, lane = "GPU 1 (slow)", kind = "compute" },
    { a = 2, b = 2, lane = "GPU 1 (slow)", kind = "send" }, { a = 2, b = 4, lane = "GPU 2", kind = "compute" } }
  local options = { rows = rows, start = "a", stop = "b", lane = "lane", series = "kind", xunit = "s" }

  it("draws every duration to scale", function()
    local p = plot.spans(options)
    -- 0 s to 4 s: the pixels of a second follow from the longest span.
    local left, right = extent(drawn(p, "^compute: 2.*4.*s$")[1])
    local second, zero = (right - left) / 2, left - (right - left)
    for pattern, ends in pairs { ["^compute: 0.* to 1.*s$"] = { 0, 1 }, ["^send: 1.* to 1.05.*s$"] = { 1, 1.05 },
      ["^compute: 250.* to 750.*ms$"] = { 0.25, 0.75 } } do
      local found = drawn(p, pattern)
      assert.equal(1, #found, pattern)
      local from, to = extent(found[1])
      assert.near(zero + ends[1] * second, from, 2 * HALF)
      assert.near(zero + ends[2] * second, to, 2 * HALF)
    end
    left, right = extent(drawn(p, "^send: 2.000 s to 2.000 s$")[1])
    assert.truthy(right - left < 1) -- an instant: a hairline at its time
    assert.near(zero + 2 * second, (left + right) / 2, 2 * HALF)
  end)

  it("names its lanes, the first at the top", function()
    local p = plot.spans(options)
    local before = 0
    for _, name in ipairs { "GPU 0", "GPU 1 (slow)", "GPU 2" } do
      local at = tonumber(text_at(p, name).y)
      assert.truthy(at > before)
      before = at
    end
    local text = p:text()
    assert.truthy(text:find "^%s+GPU 0  ░" and text:find("GPU 1 (slow)", 1, true), text)
  end)

  it("refuses a stop before its start, by row", function()
    local text = message_of(plot.spans, { rows = { { a = 0, b = 1, l = 1 }, { a = 2, b = 1.5, l = 1 } }, start = "a",
      stop = "b", lane = "l" })
    assert.truthy(text:find("plot.spans: row 2: 'b' is 1.5, before 'a', 2", 1, true), text)
  end)
end)

describe("plot.requests", function()
  it("draws the phases of requests to scale", function()
    local result = { requests = {} }
    for i = 1, 3 do
      result.requests[i] = { status = "finished", arrival = i - 1.0, first_scheduled = i - 0.95, first_token = i - 0.5,
        last_token = i + 9.0 }
    end
    local p = plot.requests { result = result }
    local waits, answers = drawn(p, "^waiting"), drawn(p, "^decoding")
    for i = 1, 3 do
      local a, b = extent(waits[i])
      local c, d = extent(answers[i])
      assert.near(0.05 / 9.5, (b - a) / (d - c), 1e-4) -- 50 ms of waiting beside 9.5 s
    end
  end)
end)

describe("plot.bars", function()
  local rows = { { n = "a", p = 3, q = -1, r = 2, low = 2.5, high = 4 }, { n = "b", p = 1, q = -2, r = -0.5, low = 0.5,
    high = 1.5 } }

  local function height(p, pattern, horizontal)
    local left, right, top, bottom = extent(drawn(p, pattern)[1])
    if horizontal then return right - left, left, right end
    return bottom - top, top, bottom
  end

  it("stacks positive parts upwards and negative ones downwards from zero", function()
    for _, horizontal in ipairs { false, true } do
      local p = plot.bars { rows = rows, x = "n", y = { "p", "q", "r" }, horizontal = horizontal }
      local unit = height(p, "^a, p: 3$", horizontal) / 3
      for pattern, value in pairs { ["^a, q: −1$"] = 1, ["^a, r: 2$"] = 2, ["^b, p: 1$"] = 1, ["^b, q: −2$"] = 2,
        ["^b, r: −0.5$"] = 0.5 } do
        assert.near(value * unit, height(p, pattern, horizontal), 3 * HALF)
      end
      local _, near_p, far_p = height(p, "^a, p: 3$", horizontal)
      local _, near_q, far_q = height(p, "^a, q: −1$", horizontal)
      local _, near_r, far_r = height(p, "^a, r: 2$", horizontal)
      if horizontal then
        assert.near(near_p, far_q, 2 * HALF) -- p begins where q ends: at zero
        assert.near(far_p, near_r, 2 * HALF)
      else
        assert.near(far_p, near_q, 2 * HALF)
        assert.near(near_p, far_r, 2 * HALF)
      end
      local _, _, far_b = height(p, "^b, r: −0.5$", horizontal)
      local _, near_b, far_bq = height(p, "^b, q: −2$", horizontal)
      local _, near_br = height(p, "^b, r: −0.5$", horizontal)
      if horizontal then assert.near(near_b, far_b, 2 * HALF) else assert.near(far_bq, near_br, 2 * HALF) end
    end
  end)

  it("draws error bars from low to high", function()
    for _, horizontal in ipairs { false, true } do
      local p = plot.bars { rows = rows, x = "n", y = "p", low = "low", high = "high", horizontal = horizontal }
      local unit, near, far = height(p, "^a, p: 3$", horizontal)
      unit = unit / 3
      local zero = horizontal and near or far
      local ends = {}
      for _, shape in ipairs(shapes_of(p:svg())) do
        if shape.name == "path" and shape.class == "tp-line" then
          local left, right, top, bottom = extent(shape)
          local from, to = left, right
          if not horizontal then from, to = bottom, top end
          if math.abs(from - to) > 8 then
            ends[#ends + 1] = { math.abs(from - zero) / unit, math.abs(to - zero) / unit }
          end
        end
      end
      assert.equal(2, #ends)
      for i, expected in ipairs { { 2.5, 4 }, { 0.5, 1.5 } } do
        assert.near(expected[1], ends[i][1], 0.01)
        assert.near(expected[2], ends[i][2], 0.01)
      end
    end
    for part, options in pairs { ["'low' and 'high' go together"] = { y = "p", low = "low" },
      ["'low' and 'high' belong to one y field"] = { y = { "p", "r" }, low = "low", high = "high" },
      ["row 1: 'high' is 4, above 'low', 2.5"] = { y = "p", low = "high", high = "low" } } do
      options.rows, options.x = rows, "n"
      assert.truthy(message_of(plot.bars, options):find(part, 1, true))
    end
  end)
end)

describe("plot.histogram", function()
  local function counts(options)
    local list = {}
    for i, shape in ipairs(drawn(plot.histogram(options), " to .*: ")) do
      list[i] = tonumber((shape.title:match ": (.*)$"))
    end
    return list
  end
  local function rows_of(values)
    local rows = {}
    for i, value in ipairs(values) do rows[i] = { x = value } end
    return rows
  end

  it("counts as numpy.histogram does: its documented example, and the last edge included", function()
    -- numpy.histogram([1, 2, 1], bins=[0, 1, 2, 3]): [0, 2, 1]. A bin of nothing has no bar.
    assert.same({ 2, 1 }, counts { rows = rows_of { 1, 2, 1 }, x = "x", bins = { 0, 1, 2, 3 } })
    assert.same({ 2, 2 }, counts { rows = rows_of { 1, 2, 1, 3 }, x = "x", bins = { 0, 1, 2, 3 } })
    assert.same({ 3, 2 }, counts { rows = rows_of { 0, 1, 1.5, 4, 6 }, x = "x", bins = 3 }) -- edges 0, 2, 4, 6
    assert.truthy(message_of(plot.histogram, { rows = rows_of { 1, 9 }, x = "x", bins = { 0, 5 } })
      :find("row 2: 'x' is 9, outside the edges in 'bins', 0 to 5", 1, true))
  end)

  it("draws each bin between its edges, as high as its count; a density's area is one", function()
    local p = plot.histogram { rows = rows_of { 1, 2, 2, 5, 6, 7, 8 }, x = "x", bins = { 0, 4, 8 }, show = "density" }
    local bins = drawn(p, " to ")
    local l1, r1, t1, b1 = extent(bins[1])
    local l2, r2, t2, b2 = extent(bins[2])
    assert.near(r1, l2, 2 * HALF)
    assert.near(r1 - l1, r2 - l2, 3 * HALF)
    assert.near(3 / 4, (b1 - t1) / (b2 - t2), 1e-3)
    assert.near(3 / 7 / 4, tonumber(bins[1].title:match ": (.*)$"), 1e-4)
    -- Without a number of bins every value is in one, and edges are round.
    local total = 0
    for _, count in ipairs(counts { rows = rows_of { 0.1, 0.37, 2.2, 3.9, 3.95, 7.7 }, x = "x" }) do
      total = total + count
    end
    assert.equal(6, total)
  end)
end)

describe("plot.ecdf", function()
  it("rises at each value by the share of rows that have it", function()
    local p = plot.ecdf { rows = { { x = 1 }, { x = 3 }, { x = 3 }, { x = 4 } }, x = "x", ymin = 0, ymax = 1 }
    local line
    for _, shape in ipairs(shapes_of(p:svg())) do
      if shape["stroke-width"] == "2" then line = shape end
    end
    local left, right, top, bottom = extent(line)
    local steps = {}
    for i, point in ipairs(line.points) do
      steps[i] = { 1 + 3 * (point[1] - left) / (right - left), (bottom - point[2]) / (bottom - top) }
    end
    for i, expected in ipairs { { 1, 0 }, { 1, 0.25 }, { 3, 0.25 }, { 3, 0.75 }, { 4, 0.75 }, { 4, 1 } } do
      assert.near(expected[1], steps[i][1], 1e-3)
      assert.near(expected[2], steps[i][2], 1e-3)
    end
  end)
end)

describe("plot.box", function()
  -- Quartiles of definition 7 by hand: positions 3.25, 5.5 and 7.75 of ten.
  local values = { 3, 6, 7, 8, 8, 10, 13, 15, 16, 20 }

  it("has numpy's quartiles, and whiskers within 1.5 times their distance", function()
    local b = statistics.box(values)
    assert.same({ 7.25, 9.0, 14.5, 3, 20, 0 }, { b.q1, b.median, b.q3, b.low, b.high, #b.outliers })
    b = statistics.box { 3, 6, 7, 8, 8, 10, 13, 15, 16, 40 }
    assert.same({ 16, { 40 } }, { b.high, b.outliers }) -- 14.5 + 1.5 · 7.25 = 25.4
    assert.equal(5, statistics.quantile({ 5 }, 0.3))
  end)

  it("is drawn to scale, upright and lying", function()
    local rows = {}
    for i, value in ipairs(values) do rows[i] = { v = value, n = "a" } end
    for _, horizontal in ipairs { false, true } do
      local p = plot.box { rows = rows, x = "n", y = "v", horizontal = horizontal, ymin = 0, ymax = 20 }
      local box = drawn(p, "median 9, quartiles 7.25 and 14.5")[1]
      local left, right, top, bottom = extent(box)
      local q1, q3 = left, right
      if not horizontal then q1, q3 = bottom, top end
      local unit = (q3 - q1) / 7.25
      local zero = q1 - 7.25 * unit
      local low, high = math.huge, -math.huge
      for _, shape in ipairs(shapes_of(p:svg())) do
        if shape.class == "tp-line" then
          for _, point in ipairs(shape.points) do
            local value = (point[horizontal and 1 or 2] - zero) / unit
            low, high = math.min(low, value), math.max(high, value)
          end
        end
      end
      assert.near(3, low, 0.01)
      assert.near(20, high, 0.01)
    end
  end)

  it("draws violins by Scott's rule: of two numbers the density is known", function()
    -- Two numbers -1 and 1: standard deviation √2, bandwidth √2 · 2^(-1/5), in the middle both kernels are equal.
    local h = math.sqrt(2) * 2 ^ -0.2
    local at, d = statistics.density({ -1, 1 }, 3)
    assert.same({ -1.0, 0.0, 1.0 }, at)
    assert.near(math.exp(-0.5 / h ^ 2) / (h * math.sqrt(2 * math.pi)), d[2], 1e-12)
    local rows = {}
    for i, value in ipairs(values) do rows[i] = { v = value } end
    assert.truthy(#plot.box({ rows = rows, y = "v", violin = true }):svg() > 1000)
  end)
end)

describe("plot.scatter", function()
  it("draws error bars in both directions from end to end", function()
    local p = plot.scatter { rows = { { x = 2, y = 3, a = 1, b = 4, c = 1, d = 3.5 } }, x = "x", y = "y", low = "a",
      high = "b", xlow = "c", xhigh = "d", xmin = 0, xmax = 4, ymin = 0, ymax = 4 }
    local across, upright
    for _, shape in ipairs(shapes_of(p:svg())) do
      local left, right, top, bottom = extent(shape)
      if shape["stroke-width"] == "1.3" and right - left > 20 then across = { left, right } end
      if shape["stroke-width"] == "1.3" and bottom - top > 20 then upright = { bottom, top } end
    end
    local circle
    for _, shape in ipairs(shapes_of(p:svg())) do circle = shape.name == "circle" and shape or circle end
    local cx, cy = tonumber(circle.cx), tonumber(circle.cy)
    assert.near(1.5, (across[2] - cx) / (cx - across[1]), 0.01)
    assert.near(0.5, (upright[2] - cy) / (cy - upright[1]), 0.01)
  end)

  it("draws 10⁵ points as a density of less than 200 kB, and loses none", function()
    local rows, seed = {}, 1
    local function random()
      seed = seed * 48271 % 2147483647
      return seed / 2147483647
    end
    for i = 1, 100000 do rows[i] = { x = random() + random(), y = random() * random() } end
    local svg = plot.scatter({ rows = rows, x = "x", y = "y" }):svg()
    assert.truthy(#svg < 200000, #svg)
    assert.truthy(svg:find(">few to many points<", 1, true))
    -- Every cell that holds a point is covered: the areas of the cells add up to as many as are occupied.
    local series = { points = rows, look = { color = "#0072b2" } }
    local c = canvas.new(400, 400)
    local unit = { at = function(v) return v / 2 end }
    density.draw(c, { left = 0, top = 0, width = 400, height = 400 }, { x = unit, y = unit }, series)
    local cells, covered = {}, 0
    for _, row in ipairs(rows) do
      cells[math.floor(row.x * 50) * 1000 + math.floor((1 - row.y / 2) * 100)] = true
    end
    for _, shape in ipairs(c.shapes) do
      for _, ring in ipairs(shape.rings) do covered = covered + (ring[3] - ring[1]) * (ring[6] - ring[2]) / 16 end
    end
    local occupied = 0
    for _ in pairs(cells) do occupied = occupied + 1 end
    assert.near(occupied, covered, 1e-6)
    assert.truthy(#plot.scatter({ rows = rows, x = "x", y = "y", density = false }):svg() > 5000000)
    assert.truthy(message_of(plot.scatter, { rows = rows, x = "x", y = "y", label = "x" })
      :find("'label' of 100000 points would cover each other", 1, true))
  end)
end)

describe("plot.lines", function()
  it("thins a line of 10⁵ points to those that show: the ends and the extremes of each column of pixels", function()
    local run, rows = {}, {}
    for i = 0, 99999 do
      run[2 * i + 1], run[2 * i + 2] = i / 99999, (i * 7919 % 1000) / 1000
      rows[i + 1] = { x = i, y = i * 7919 % 1000 }
    end
    local thin = density.thin(run, 500)
    assert.truthy(#thin // 2 <= 4 * 501)
    local low, high, first = {}, {}, {}
    local function note(list, l, h, f)
      for i = 1, #list, 2 do
        local column = math.floor(list[i] * 500)
        l[column], h[column] = math.min(l[column] or 9, list[i + 1]), math.max(h[column] or -9, list[i + 1])
        f[column] = f[column] or list[i + 1]
      end
    end
    note(run, low, high, first)
    local low2, high2, first2 = {}, {}, {}
    note(thin, low2, high2, first2)
    assert.same({ low, high, first }, { low2, high2, first2 })
    assert.truthy(#plot.lines({ rows = rows, x = "x", y = "y" }):svg() < 100000)
  end)

  it("refuses two rows of a series at one x, and says which", function()
    local rows = { { x = 1, y = 1, s = "a" }, { x = 2, y = 2, s = "a" }, { x = 1, y = 3, s = "b" },
      { x = 1, y = 4, s = "a" } }
    local text = message_of(plot.lines, { rows = rows, x = "x", y = "y", series = "s" })
    assert.truthy(text:find("plot.lines: rows 1 and 4 of 'a' are both at x = 1; name a 'series'", 1, true), text)
    assert.truthy(message_of(plot.lines, { rows = { { x = "n", y = 1 }, { x = "n", y = 2 } }, x = "x", y = "y" })
      :find("rows 1 and 2 are both at x = \"n\"", 1, true))
  end)
end)

describe("limits of axes", function()
  it("beyond the data are refused, with the data's ends", function()
    local rows = { { x = 1, y = 5 }, { x = 3, y = 7 } }
    for part, limits in pairs { ["'xmin' is 4, beyond the data, which lie between 1 and 3"] = { xmin = 4, xmax = 9 },
      ["'xmax' is 0, beyond the data"] = { xmin = -2, xmax = 0 }, ["'ymin' is 8, beyond"] = { ymin = 8 },
      ["'xmin' is 3, above 'xmax', 2"] = { xmin = 3, xmax = 2 },
      ["no value of x lies between 'xmin' and 'xmax'"] = { xmin = 1.5, xmax = 2.5 } } do
      limits.rows, limits.x, limits.y = rows, "x", "y"
      for _, kind in ipairs { "lines", "scatter" } do
        local text = message_of(plot[kind], limits)
        assert.truthy(text:find(part, 1, true), text)
      end
    end
    assert.truthy(plot.lines { rows = rows, x = "x", y = "y", xmin = 2, xmax = 9 })
  end)
end)

describe("maps", function()
  local function rows_of(f)
    local rows = {}
    for i = 1, 5 do
      for j = 1, 5 do rows[#rows + 1] = { x = i, y = j, z = f(i, j) } end
    end
    return rows
  end
  local function fills(p, value)
    return drawn(p, ": " .. value .. "$")[1].fill
  end

  it("of values on both sides of zero are white at it, and equally dark on both sides", function()
    local p = plot.heatmap { rows = rows_of(function(i, j) return (i - 3) * j end), x = "x", y = "y", z = "z" }
    assert.equal("#f7f7f7", fills(p, "0"))
    for _, value in ipairs { 2, 5, 10 } do
      local minus, plus = style.luminance(fills(p, "−" .. value)), style.luminance(fills(p, value))
      assert.near(minus, plus, 0.09)
    end
    local red, green, blue = fills(p, "10"):match "#(%x%x)(%x%x)(%x%x)"
    assert.truthy(red > blue and red > green)
    red, green, blue = fills(p, "−10"):match "#(%x%x)(%x%x)(%x%x)"
    assert.truthy(blue > red and blue > green)
    -- Around another middle, or none.
    p = plot.heatmap { rows = rows_of(function(i) return i end), x = "x", y = "y", z = "z", center = 3 }
    assert.equal("#f7f7f7", fills(p, "3"))
    p = plot.heatmap { rows = rows_of(function(i) return i - 3 end), x = "x", y = "y", z = "z", center = false }
    assert.equal(style.ramp(0), fills(p, "−2"))
    assert.truthy(message_of(plot.heatmap, { rows = rows_of(function(i) return i end), x = "x", y = "y", z = "z",
      center = 2, logz = true }):find("'center' needs a linear scale", 1, true))
  end)

  it("and all plots write one minus sign", function()
    for _, made in ipairs {
      plot.heatmap { rows = rows_of(function(i, j) return (i - 3) * j * 1.5 end), x = "x", y = "y", z = "z" },
      plot.contour { rows = rows_of(function(i, j) return (i - 3) * j * 1.5 end), x = "x", y = "y", z = "z" },
      plot.bars { rows = { { n = "a", v = -2.5 } }, x = "n", y = "v" },
      plot.scatter { rows = { { x = -1, y = -0.5 }, { x = 1e-7, y = -3e9 } }, x = "x", y = "y" },
      plot.box { rows = { { y = -3 }, { y = -1 } }, y = "y" },
      plot.histogram { rows = { { y = -3 }, { y = -1 } }, x = "y" } } do
      local minus = 0
      for _, shape in ipairs(shapes_of(made:svg())) do
        assert.falsy((shape.text or ""):find "%-%d" or (shape.title or ""):find "^%-%d" , shape.text)
        minus = minus + ((shape.text or ""):find "−" and 1 or 0)
      end
      assert.truthy(minus > 0)
    end
  end)

  it("have about as many levels as asked for", function()
    for _, logz in ipairs { false, true } do
      local rows = rows_of(function(i, j) return 1.7 ^ (i * j / 2) end)
      local before = 0
      for _, count in ipairs { 2, 4, 8, 16, 32 } do
        local p = plot.contour { rows = rows, x = "x", y = "y", z = "z", logz = logz, levels = count }
        local areas = {}
        for _, shape in ipairs(shapes_of(p:svg())) do
          if shape.name == "path" and shape.fill and shape.fill:find "^#" then areas[shape.fill] = true end
        end
        local levels = -1
        for _ in pairs(areas) do levels = levels + 1 end
        assert.truthy(levels > before, levels)
        assert.truthy(math.abs(levels - count) <= math.max(1, 0.45 * count), count .. ": " .. levels)
        before = levels
      end
    end
  end)
end)

describe("plot.facets", function()
  local rows = {}
  for _, gpu in ipairs { "B200", "H100" } do
    for _, engine in ipairs(gpu == "B200" and { "b", "a" } or { "a", "b", "c" }) do
      for x = 1, 4 do rows[#rows + 1] = { gpu = gpu, engine = engine, x = x, y = x * #rows } end
    end
  end
  local function made(share)
    return plot.facets { rows = rows, by = "gpu", title = "T", share = share, draw = function(own, value)
      assert.truthy(value == own[1].gpu)
      return plot.lines { rows = own, x = "x", y = "y", series = "engine", xlabel = "abscissa" }
    end }
  end

  it("gives every plot the same axes, and a series the same look in all", function()
    local p = made()
    local ticks, looks = {}, {}
    for _, shape in ipairs(shapes_of(p:svg())) do
      if shape.text and shape.text:find "^%d+$" then ticks[shape.text] = (ticks[shape.text] or 0) + 1 end
      if shape["stroke-width"] == "2" and shape.title then
        looks[shape.title] = looks[shape.title] or {}
        looks[shape.title][shape.stroke] = true
      end
    end
    for text, count in pairs(ticks) do assert.equal(0, count % 2, text) end
    for name, colors in pairs(looks) do
      local n = 0
      for _ in pairs(colors) do n = n + 1 end
      assert.equal(1, n, name)
    end
    local named = {}
    for _, shape in ipairs(shapes_of(p:svg())) do
      if shape.text then named[shape.text] = (named[shape.text] or 0) + 1 end
    end
    for _, name in ipairs { "a", "b", "c", "B200", "H100", "abscissa", "T" } do assert.equal(1, named[name], name) end
    assert.not_equal(p:svg(), made("none"):svg())
    assert.truthy(p:text():find("H100", 1, true) ~= nil or #p:text() > 100)
  end)

  it("refuses what is no plot, or not of one kind", function()
    local text = message_of(plot.facets, { rows = rows, by = "gpu", draw = function() return 1 end })
    assert.truthy(text:find("'draw' must return a plot, got 1 for 'B200'", 1, true), text)
    text = message_of(plot.facets, { rows = rows, by = "gpu", draw = function(own)
      return plot.panels { plot.lines { rows = own, x = "x", y = "y", series = "engine" } }
    end })
    assert.truthy(text:find("'draw' returned plot.panels, which has no axes or colours to share", 1, true), text)
    text = message_of(plot.facets, { rows = rows, by = "gpu", draw = function(own, value)
      return plot[value == "B200" and "lines" or "scatter"] { rows = own, x = "x", y = "y", series = "engine" }
    end })
    assert.truthy(text:find("'draw' must return plots of one kind, got plot.lines and plot.scatter", 1, true), text)
  end)

  it("gives maps one range of values: equal values have equal colours, names their own columns, and there is one bar",
    function()
      local list = {}
      for _, one in ipairs { { "one", "a", 1 }, { "one", "b", 5 }, { "two", "b", 5 }, { "two", "c", 20 } } do
        for n = 1, 2 do list[#list + 1] = { f = one[1], name = one[2], n = n, z = one[3] * n } end
      end
      local function cells_of(share)
        local p = plot.facets { rows = list, by = "f", share = share, columns = 1, draw = function(own)
          return plot.heatmap { rows = own, x = "name", y = "n", z = "z" }
        end }
        assert.truthy(#p:text() > 100)
        return p, drawn(p, "^b, 1: 5$"), drawn(p, "^c, 2: 40$")[1], drawn(p, "^a, 1: 1$")[1]
      end
      local p, b, c, a = cells_of()
      assert.equal(2, #b)
      assert.equal(b[1].fill, b[2].fill)
      local left, right = extent(b[1])
      local left2, right2 = extent(b[2])
      assert.same({ left, right }, { left2, right2 })
      assert.near(right, (extent(c)), 0.1) -- a, b and c are columns in both
      assert.near(left, select(2, extent(a)), 0.1)
      local bars = 0
      for _, shape in ipairs(shapes_of(p:svg())) do
        local from, to = 0, 0
        if shape.points[1] and not shape.title then from, to = extent(shape) end
        bars = bars + (math.abs(to - from - 16) < 0.01 and 1 or 0)
      end
      assert.equal(32, bars)
      local _, apart = cells_of("none")
      assert.not_equal(apart[1].fill, apart[2].fill)
      local function grid(own) return plot.contour { rows = own, x = "x", y = "y", z = "z", levels = { 2, 6, 12 } } end
      local points = {}
      for _, name in ipairs { "one", "two" } do
        for x = 1, 3 do
          for y = 1, 3 do points[#points + 1] = { f = name, x = x, y = y, z = name == "one" and x * y or 2 * x * y } end
        end
      end
      p = plot.facets { rows = points, by = "f", draw = grid }
      assert.truthy(#p:svg() > 1000 and #p:text() > 100)
    end)

  it("joins bars, boxes and spans, too, and keeps each at its own value", function()
    local list = {}
    for i = 1, 3 do
      list[#list + 1] = { f = "one", n = "n" .. i, v = i, a = i, b = i + 1 }
      list[#list + 1] = { f = "two", n = "n" .. i + 1, v = 10 * i, a = 5 * i, b = 5 * i + 4 }
    end
    for _, horizontal in ipairs { false, true } do
      local p = plot.facets { rows = list, by = "f", draw = function(own)
        return plot.bars { rows = own, x = "n", y = "v", horizontal = horizontal }
      end }
      local function long(pattern)
        local left, right, top, bottom = extent(drawn(p, pattern)[1])
        return horizontal and right - left or bottom - top
      end
      assert.near(30, long "^n4, v: 30" / long "^n1, v: 1$", 0.5)
      assert.near(long "^n3, v: 20" / 20, long "^n3, v: 3$" / 3, 0.02)
    end
    local p = plot.facets { rows = list, by = "f", columns = 1, draw = function(own)
      return plot.spans { rows = own, start = "a", stop = "b", lane = "n" }
    end }
    local left, right = extent(drawn(p, "^1 to 2$")[1])
    local left2, right2 = extent(drawn(p, "^5 to 9$")[1])
    assert.near(4, (right2 - left2) / (right - left), 0.01)
    assert.near(4, (left2 - left) / (right - left), 0.01)
    p = plot.facets { rows = list, by = "f", draw = function(own) return plot.box { rows = own, x = "n", y = "v" } end }
    assert.truthy(#p:svg() > 1000 and #p:text() > 100)
  end)
end)

-- --- texts ---

-- The corners of a text's box, turned as it is.
local function corners(shape)
  local size = tonumber(shape["font-size"] or style.size)
  local x, y, w = tonumber(shape.x), tonumber(shape.y), 0.84 * canvas.text_width(shape.text:gsub("&%w+;", "x"), size)
  local left = shape["text-anchor"] == "middle" and -w / 2 or shape["text-anchor"] == "end" and -w or 0
  local turn = math.rad(tonumber((shape.transform or ""):match "rotate%((%-?[%d.]+)") or 0)
  local list = {}
  for i, corner in ipairs { { left, -0.68 * size }, { left + w, -0.68 * size }, { left + w, 0.1 * size },
    { left, 0.1 * size } } do
    list[i] = { x + corner[1] * math.cos(turn) - corner[2] * math.sin(turn),
      y + corner[1] * math.sin(turn) + corner[2] * math.cos(turn) }
  end
  return list
end

-- Whether two convex quadrilaterals overlap: no edge of either separates them.
local function overlap(a, b)
  for _, pair in ipairs { { a, b }, { b, a } } do
    local one = pair[1]
    for i = 1, 4 do
      local p, q = one[i], one[i % 4 + 1]
      local nx, ny = q[2] - p[2], p[1] - q[1]
      local most, least = -math.huge, math.huge
      for k = 1, 4 do
        most = math.max(most, nx * one[k][1] + ny * one[k][2])
        least = math.min(least, nx * one[k][1] + ny * one[k][2])
      end
      local most2, least2 = -math.huge, math.huge
      for k = 1, 4 do
        local v = nx * pair[2][k][1] + ny * pair[2][k][2]
        most2, least2 = math.max(most2, v), math.min(least2, v)
      end
      if most <= least2 or most2 <= least then return false end
    end
  end
  return true
end

local NAMES <const> = { "llama-3.1-8b on H100", "llama-3.1-70b on H100", "deepseek-v3 on B200 NVL72", "gpt-oss-120b",
  "qwen3-235b-a22b with FP8" }
local MODELS <const> = { "llama-3.1-405b, tensor parallelism", "deepseek-v3, expert parallelism" }
local LONG <const> = "Training time of large models against the number of GPUs in three data centres"

local function bar_rows()
  local rows = {}
  for i, name in ipairs(NAMES) do
    rows[i] = { name = name, compute = 3 + i, communication = 1.5 * i % 4, saved = -0.7 * i, memory = 4e10 + 9e9 * i,
      low = 2 + i, high = 4.5 + i }
  end
  return rows
end

local function curve_rows()
  local rows = {}
  for k, model in ipairs(MODELS) do
    for p = 3, 12 do
      rows[#rows + 1] = { model = model, gpus = 2 ^ p, time = 1e6 / 2 ^ p * (1 + 2 ^ p / 3000) * k, gpu = "H" .. p % 2 }
    end
  end
  return rows
end

local function grid_rows()
  local rows = {}
  for i = 1, 7 do
    for j = 1, 5 do rows[#rows + 1] = { tp = 2 ^ (i - 1), batch = 8 * j, gain = (i - 3) * 0.07 * j, n = NAMES[j] } end
  end
  return rows
end

local column = {} -- kind -> function(common) -> plot, texts that it must show whole
function column.lines(o)
  o.rows, o.x, o.y, o.series, o.logx, o.logy, o.yunit = curve_rows(), "gpus", "time", "model", true, true, "s"
  o.title, o.ylabel, o.guides = LONG, "Time of a whole training run", { { y = 1e4, label = "a deadline" } }
  return plot.lines(o), { MODELS[1], MODELS[2], "a deadline", "Time of a whole training run" }
end
function column.bars(o)
  o.rows, o.x, o.y, o.yunit, o.title = bar_rows(), "name", { "compute", "communication", "saved" }, "s", LONG
  o.y2 = { { key = "memory", title = "memory of a GPU", unit = "bytes" } }
  return plot.bars(o), { "compute", "communication", "saved", "memory of a GPU (right)", NAMES }
end
function column.horizontal(o)
  o.rows, o.x, o.y, o.horizontal, o.low, o.high = bar_rows(), "name", "compute", true, "low", "high"
  return plot.bars(o), { NAMES }
end
function column.scatter(o)
  o.rows, o.x, o.y, o.series, o.legend, o.legend_title = curve_rows(), "gpus", "time", "model", "bottom", "Model"
  return plot.scatter(o), { "Model", MODELS[1], MODELS[2] }
end
function column.histogram(o)
  o.rows, o.x, o.series, o.logx = curve_rows(), "time", "model", true
  return plot.histogram(o), { MODELS[1], MODELS[2] }
end
function column.ecdf(o)
  o.rows, o.x, o.series = curve_rows(), "time", "model"
  return plot.ecdf(o), { MODELS[1], MODELS[2] }
end
function column.box(o)
  o.rows, o.x, o.y = curve_rows(), "model", "time"
  return plot.box(o), { MODELS }
end
function column.violin(o)
  o.rows, o.x, o.y, o.violin, o.horizontal = curve_rows(), "model", "time", true, true
  return plot.box(o), { MODELS }
end
function column.heatmap(o)
  o.rows, o.x, o.y, o.title = grid_rows(), "tp", "n", LONG
  o.z = { key = "gain", title = "gain over the baseline", unit = "%" }
  return plot.heatmap(o), { "gain over the baseline (%)", NAMES }
end
function column.contour(o)
  o.rows, o.x, o.y, o.logx, o.title = grid_rows(), "tp", "batch", true, LONG
  o.z = { key = "gain", title = "gain over the baseline", unit = "%" }
  o.marks = { { x = 8, y = 24, label = "baseline" } }
  return plot.contour(o), { "gain over the baseline (%)", "baseline" }
end
function column.spans(o)
  o.rows, o.start, o.stop, o.lane, o.series, o.xunit = {}, "a", "b", "lane", "kind", "s"
  for i, name in ipairs(NAMES) do
    o.rows[2 * i - 1] = { lane = name, a = i * 0.1, b = i * 0.1 + 0.5, kind = "compute" }
    o.rows[2 * i] = { lane = name, a = i * 0.1 + 0.5, b = i * 0.1 + 0.55, kind = "all-reduce" }
  end
  return plot.spans(o), { "compute", "all-reduce", NAMES }
end
function column.roofline(o)
  o.peaks, o.bandwidths = { { title = "tensor", flops = 989e12 } }, { { title = "HBM", bytes = 3.35e12 } }
  o.rows = { { name = "attention", flops = 1e12, bytes = 2e9 }, { name = "residual", flops = 1e9, bytes = 4e9 } }
  return plot.roofline(o), { "tensor 989 TFLOP/s", "attention", "residual" }
end
function column.facets(o)
  o.rows, o.by, o.title = curve_rows(), "gpu", LONG
  o.draw = function(rows)
    return plot.lines { rows = rows, x = "gpus", y = "time", series = "model", logx = true, logy = true, yunit = "s" }
  end
  return plot.facets(o), { "H0", "H1", MODELS[1], MODELS[2] }
end
function column.maps(o)
  o.by, o.title, o.rows = "half", LONG, {}
  for i, row in ipairs(grid_rows()) do
    o.rows[i] = { tp = row.tp, batch = row.batch, gain = row.gain, half = "first" }
  end
  for i = 1, #o.rows do
    local row = o.rows[i]
    o.rows[#o.rows + 1] = { tp = row.tp, batch = row.batch, gain = 2 * row.gain, half = "second" }
  end
  o.draw = function(rows)
    return plot.contour { rows = rows, x = "tp", y = "batch", logx = true,
      z = { key = "gain", title = "gain over the baseline", unit = "%" } }
  end
  return plot.facets(o), { "gain over the baseline (%)", "first", "second" }
end
function column.configurations(o)
  local list = tperf.search { model = "llama-3.1-8b", system = "h100-sxm", gpus = 16, global_batch = 64, top = 3,
    software = "typical" }
  o.rows, o.x, o.title = list, function(c) return tperf.report.layout(c) end, LONG
  return plot.configurations(o), { "compute", "memory (right)" }
end

describe("in a column of 3.5 inches", function()
  -- The lines of a text may be wrapped: what matters is that its words follow one another and nothing is cut.
  local function shows(svg, text)
    local all = {}
    for _, shape in ipairs(shapes_of(svg)) do all[#all + 1] = shape.text end
    local joined = table.concat(all, ""):gsub("[%s]", "")
    return joined:find(text:gsub("%s", ""), 1, true) ~= nil
  end

  for _, size in ipairs { "8 pt", "9 pt" } do
    for name, make in pairs(column) do
      it("no text is cut, covered, outside or lost: " .. name .. ", " .. size, function()
        local p, texts = make { width = "3.5 in", font_size = size }
        local svg = p:svg()
        local width, height = tonumber(svg:match ' width="([%d.]+)"'), tonumber(svg:match ' height="([%d.]+)"')
        assert.equal(336, width)
        local boxes = {}
        for _, shape in ipairs(shapes_of(svg)) do
          if shape.text then
            assert.falsy(shape.text:find "…", shape.text)
            local box = corners(shape)
            for _, corner in ipairs(box) do
              assert.truthy(corner[1] >= -0.5 and corner[1] <= width + 0.5 and corner[2] >= 0 and corner[2] <= height,
                shape.text)
            end
            for _, other in ipairs(boxes) do
              assert.falsy(overlap(box, other.box), shape.text .. " | " .. other.text)
            end
            boxes[#boxes + 1] = { box = box, text = shape.text }
          end
        end
        for _, text in ipairs(texts) do
          for _, one in ipairs(type(text) == "table" and text or { text }) do assert.truthy(shows(svg, one), one) end
        end
        if p.title then assert.truthy(shows(svg, p.title)) end
        -- In the dark the same shapes have other colours.
        local dark = p:svg { theme = "dark" }
        assert.equal((svg:gsub("#%x%x%x%x%x%x", "#")), (dark:gsub("#%x%x%x%x%x%x", "#")))
        assert.truthy(dark:find('fill="#14171b"', 1, true) and not dark:find 'class="tp%-ink"[^>]*#1b1f24')
      end)
    end
  end

  it("names that differ only in their middle stay apart", function()
    local rows = {}
    for i = 1, 4 do rows[i] = { n = ("a long name "):rep(9) .. i .. (" with a long end"):rep(9), v = i } end
    local seen = {}
    for _, shape in ipairs(shapes_of(plot.bars({ rows = rows, x = "n", y = "v", width = "3.5 in" }):svg())) do
      if shape.transform and shape.text then
        assert.is_nil(seen[shape.text])
        seen[shape.text] = true
      end
    end
    assert.truthy(next(seen))
    assert.same({ "1", "1" }, canvas.fit_all({ "1", "1" }, 100))
  end)

  it("lengths have units, and a font size scales everything", function()
    local rows = { { x = 1, y = 1 }, { x = 2, y = 2 } }
    local function size(width, font)
      local svg = plot.lines({ rows = rows, x = "x", y = "y", title = "T", width = width, height = 300,
        font_size = font }):svg()
      local bold = svg:match '<text[^>]* font%-size="([%d.]+)" font%-weight'
      return tonumber(svg:match ' width="([%d.]+)"'), tonumber(bold)
    end
    local lengths = { ["3.5 in"] = 336, ["89mm"] = 336.38, ["8.9 cm"] = 336.38, ["252 pt"] = 336, ["400 px"] = 400 }
    for text, px in pairs(lengths) do
      assert.near(px, (size(text)), 0.01)
    end
    local _, title = size(400, "6 pt") -- 8 px where labels of 12 px have a title of 15 px
    assert.near(10, title, 1e-9)
    assert.truthy(message_of(size, "3 feet")
      :find("'width' must be a length from 240 to 4000 px, such as \"3.5 in\"", 1, true))
    assert.truthy(message_of(size, "100 in"):find("from 240 to 4000 px", 1, true))
    local svg = plot.lines({ rows = rows, x = "x", y = "y", font = "Times New Roman" }):svg()
    assert.truthy(svg:find("font-family=\"&#39;Times New Roman&#39;, Helvetica", 1, true))
  end)

  it("texts in any script, and what is no character, are drawn", function()
    local title = "日本 характеристики العربية 😀 \u{10FFFF}\u{FFFE}\u{FDD0} \xFF end"
    local rows = { { x = 1, y = 1, s = title }, { x = 2, y = 2, s = title } }
    local p = plot.lines { rows = rows, x = "x", y = "y", series = "s", title = title }
    local svg = p:svg()
    assert.truthy(svg:find("日本 характеристики العربية 😀 ���", 1, true))
    assert.falsy(svg:find("\u{10FFFF}", 1, true) or svg:find("\u{FFFE}", 1, true) or not utf8.len(svg))
    local t = tperf.schedule { schedule = "1f1b", devices = 1, microbatches = 1 }
    assert.truthy(utf8.len(t:svg { title = title }))
    if not os.execute "command -v rsvg-convert >/dev/null 2>&1" then return end
    local folder = program.folder()
    for _, name in ipairs { "a.png", "a.pdf" } do
      p:save(folder .. "/" .. name)
      assert.truthy(#program.slurp(folder .. "/" .. name) > 5000)
      t:save(folder .. "/" .. name, { title = title })
    end
    program.remove(folder)
  end)

  it("opacity and the legend's place and title are as asked for", function()
    local rows = { { x = 1, y = 1, s = "a" }, { x = 2, y = 2, s = "b" } }
    local function svg(legend)
      return plot.scatter({ rows = rows, x = "x", y = "y", series = "s", alpha = 0.4, legend = legend,
        legend_title = "Kind" }):svg()
    end
    assert.truthy(svg():find('r="3.6" fill="#0072b2" fill-opacity="0.4"', 1, true))
    local places = {}
    for _, legend in ipairs { "right", "top", "bottom", "none" } do
      for _, shape in ipairs(shapes_of(svg(legend))) do
        if shape.text == "Kind" then places[legend] = { tonumber(shape.x), tonumber(shape.y) } end
      end
    end
    assert.truthy(places.right[1] > 600 and places.top[1] < 20 and places.top[2] < 40 and places.bottom[2] > 400)
    assert.is_nil(places.none)
  end)
end)
