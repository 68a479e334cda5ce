-- Experiments with tables and figures, written from docs/reports.md and docs/plots.md: what is drawn is measured in the
-- SVG against the data.
local tperf = require "tperf"
local near, plot, report = tperf.check.near, tperf.plot, tperf.report

-- The corners of the shapes that have a tooltip: { left, top, right, bottom, text }.
local function shapes(svg)
  local list = {}
  for left, top, right, bottom, text in svg:gmatch
    'd="M([%d.]+) ([%d.]+)L[%d.]+ [%d.]+L([%d.]+) ([%d.]+)L[%d.]+ [%d.]+Z"[^>]*><title>([^<]*)</title></path>' do
    list[#list + 1] = { tonumber(left), tonumber(top), tonumber(right), tonumber(bottom), text }
  end
  return list
end

-- 35. CSV gives back every number; JSON, too.
do
  local rows = { { n = 1, x = 0.1, s = 'a "b", c' }, { n = 2, x = 1e-300, s = "line\nbreak" },
    { n = 1 << 53, x = 2 / 3, s = "" } }
  report.save("numbers.csv", rows)
  for i, row in ipairs(tperf.read "numbers.csv") do
    assert(row.n == rows[i].n and row.x == rows[i].x and (row.s or "") == rows[i].s, i)
  end
  os.remove "numbers.csv"
  local text = report.json(rows)
  for _, words in ipairs { [[{"n": 1, "s": "a \"b\", c", "x": 0.1}]], [[{"n": 2, "s": "line\nbreak", "x": 1e-300}]],
    [[{"n": 9007199254740992, "s": "", "x": 0.6666666666666666}]] } do
    assert(text:find(words, 1, true), text)
  end
end

-- 36. A pivot is the sums by hand.
do
  local rows = {}
  for gpus = 1, 3 do
    for _, system in ipairs { "a", "b" } do rows[#rows + 1] = { gpus = gpus, system = system, time = gpus * #rows } end
  end
  local lines, columns = report.pivot(rows, "gpus", "system", "time")
  local text = report.csv(lines, columns)
  assert(text == "gpus,a,b\n1,0,1\n2,4,6\n3,12,15\n", text)
end

-- 37. LaTeX escapes what TeX would read.
do
  local text = report.latex({ { name = "50% of a_b & c#d", time = 2 } }, { "name", { key = "time", unit = "s" } })
  assert(text:find("50\\% of a\\_b \\& c\\#d", 1, true), text)
  assert(text:find("\\begin{tabular}", 1, true) and text:find("\\toprule", 1, true))
end

-- 38. A unit in a column, and digits.
assert(report.text({ { bytes = 61e9, part = 0.123456, time = 90 } },
  { { key = "bytes", unit = "bytes" }, { key = "part",
  unit = "%", digits = 3 }, { key = "time", unit = "s" } }):find("61.00 GB  12.3 %%  1.500 min"))

-- 39. Spans are as long as their times: the rectangles' widths have the ratios of the data.
do
  local rows = { { from = 0, to = 1, lane = "a" }, { from = 2, to = 2.05, lane = "a" },
    { from = 1, to = 5, lane = "b" } }
  local svg = plot.spans { rows = rows, start = "from", stop = "to", lane = "lane" }:svg()
  local list, widths = shapes(svg), {}
  for k, one in ipairs(list) do widths[k] = one[3] - one[1] end
  near({ widths[2] / widths[1], widths[3] / widths[1] }, { 0.05, 4 }, 0.01)
  near((list[2][1] - list[1][1]) / widths[1], 2, 0.001)
  assert(#list == 3 and list[1][2] == list[2][2] and list[3][2] > list[1][4]) -- lanes
end

-- 40. A histogram's counts, a box's quartiles and an ECDF's shares, as the tooltips state them.
do
  local rows = {}
  for i = 1, 100 do rows[i] = { x = i } end
  local text = plot.histogram { rows = rows, x = "x", bins = { 0.5, 50.5, 100.5 } }:svg()
  for _, bin in ipairs { "0.5 to 50.5", "50.5 to 100.5" } do
    assert(text:find(("<title>%s: 50</title>"):format(bin), 1, true), bin)
  end
  local box = plot.box { rows = rows, y = "x" }:svg()
  assert(box:find "25.75" and box:find "50.5" and box:find "75.25", "quartiles as numpy's: 25.75, 50.5, 75.25")
end

-- 41. A Pareto front by brute force.
do
  local rows, state = {}, 1
  local function random()
    state = state * 48271 % 2147483647
    return state / 2147483647
  end
  for i = 1, 60 do rows[i] = { cost = random(), speed = random(), name = "p" .. i } end
  local front = 0
  for _, a in ipairs(rows) do
    local beaten = false
    for _, b in ipairs(rows) do
      beaten = beaten or b.cost < a.cost and b.speed > a.speed
    end
    front = front + (beaten and 0 or 1)
  end
  local svg = plot.scatter { rows = rows, x = "cost", y = "speed", label = "name",
    pareto = { x = "min", y = "max" } }:svg()
  local most = 0
  for path in svg:gmatch 'd="(M[^"]*)"' do
    local _, points = path:gsub("[ML]", "")
    most = math.max(most, points)
  end
  for path in svg:gmatch '<polyline[^>]*points="([^"]*)"' do
    local _, points = path:gsub("[%d.]+,[%d.]+", "")
    most = math.max(most, points)
  end
  assert(most >= front, ("%d points of a front of %d"):format(most, front))
end

-- 42. Bars from zero: a bar twice as high is twice as long, and a negative one lies below.
do
  local rows = { { name = "a", y = 1 }, { name = "b", y = 2 }, { name = "c", y = -1 } }
  local svg = plot.bars { rows = rows, x = "name", y = "y" }:svg()
  local list = shapes(svg)
  local function height(one) return one[4] - one[2] end
  near({ height(list[2]) / height(list[1]), height(list[3]) / height(list[1]) }, { 2, 1 }, 0.001)
  near(list[3][2], list[1][4], 0.001) -- the zero line
  assert(#list == 3 and list[3][4] > list[1][4])
end

-- 43. A document in every format has its table, and the same numbers.
do
  local doc = report.new { title = "Scaling" }
  doc:section "Result"
  doc:table({ { gpus = 8, time = 80.25 } }, { "gpus", { key = "time", unit = "s" } })
  for _, format in ipairs { "text", "markdown", "html", "json" } do
    local text = doc:render(format)
    assert(text:find "80%.25" or text:find "1%.33[78] min", format .. ": " .. text)
  end
end
