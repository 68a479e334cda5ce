-- Experiments with sweeps, uncertain inputs and queries, written from docs/sweeps.md, against closed forms and known
-- values.
local tperf = require "tperf"
local near = tperf.check.near

local function quiet(o)
  o.progress = false
  return tperf.sweep(o)
end

-- 11. A grid: the first argument outermost, every pair once.
do
  local rows = quiet { run = function(o) return { sum = 10 * o.a + o.b } end, a = tperf.vary { 1, 2, 3 },
    b = tperf.vary { 4, 5 } }
  local sums = {}
  for i, row in ipairs(rows) do sums[i] = row.sum end
  near(sums, { 14, 15, 24, 25, 34, 35 })
end

-- 12. Equal steps and equal factors, with powers exact.
do
  local log, line = {}, {}
  for i, row in ipairs(quiet { run = function(o) return { y = o.x } end,
    x = tperf.logspace(1, 1024, 11) }) do log[i] = row.x end
  for i, row in ipairs(quiet { run = function(o) return { y = o.x } end,
    x = tperf.linspace(0, 1, 11) }) do line[i] = row.x end
  for i = 1, 11 do
    assert(log[i] == 2 ^ (i - 1))
    near(line[i], (i - 1) / 10, 1e-15)
  end
end

-- 13. Halton's points are the radical inverses in bases 2 and 3.
do
  local function inverse(n, base)
    local sum, part = 0, 1
    while n > 0 do
      part = part / base
      sum, n = sum + part * (n % base), n // base
    end
    return sum
  end
  local rows = quiet { run = function(o) return { z = o.x } end, tperf.halton(32, { x = { 0, 1 }, y = { 0, 10 } }) }
  for n, row in ipairs(rows) do
    near(row.x, inverse(n, 2), 1e-12)
    near(row.y, 10 * inverse(n, 3), 1e-12)
  end
end

-- 14. A Latin hypercube has one point in each n-th of every range.
do
  local n, seen = 20, { x = {}, y = {} }
  for _, row in ipairs(quiet { run = function(o) return { z = o.x } end,
    tperf.latin_hypercube(n, { x = { 0, 1 }, y = { 5, 7 } }, 3) }) do
    seen.x[math.floor(n * row.x)], seen.y[math.floor(n * (row.y - 5) / 2)] = true, true
  end
  for i = 0, n - 1 do assert(seen.x[i] and seen.y[i], i) end
end

-- 15. Zipped points within stated ones, which are outermost.
do
  local rows = quiet { run = function(o) return { area = o.w * o.h } end,
    tperf.zip { w = { 1, 2, 3 }, h = { 6, 5, 4 } },
    { { deep = 1 }, { deep = 2 } } }
  local list = {}
  for i, row in ipairs(rows) do list[i] = row.area * row.deep end
  near(list, { 6, 10, 12, 12, 20, 24 })
end

-- 16. An error in every third point, kept as rows; the others as they are.
do
  local rows = quiet { on_error = "row", n = tperf.vary { 1, 2, 3, 4, 5, 6 }, run = function(o)
    if o.n % 3 == 0 then error "three" end
    return { square = o.n ^ 2 }
  end }
  for i, row in ipairs(rows) do
    assert(i % 3 == 0 and row.error:find "three" and row.square == nil or row.square == i ^ 2)
  end
end

-- 17. A cache answers again without asking, and `each` sees the same rows.
do
  local asked = 0
  local function ask(key, each)
    return quiet { cache = "squares.sqlite", key = key, each = each, x = tperf.linspace(1, 100, 100), run = function(o)
      asked = asked + 1
      return { square = o.x ^ 2, text = ("%d"):format(o.x) }
    end }
  end
  local first, sum = ask "squares", 0
  assert(asked == 100)
  local again = ask "squares"
  assert(asked == 100)
  for i, row in ipairs(first) do assert(row.square == again[i].square and row.text == again[i].text) end
  ask("squares", function(row) sum = sum + row.square end)
  assert(sum == 100 * 101 * 201 / 6 and asked == 100)
  -- 18. The same in SQL.
  local rows = tperf.report.query("squares.sqlite",
    "SELECT count(*) AS n, sum(square) AS total, max(x) AS most FROM points WHERE x <= ?", 10)
  near({ rows[1].n, rows[1].total, rows[1].most }, { 10, 385, 10 })
end

-- 19. Quantiles as numpy.quantile([15, 20, 35, 40, 50], [0.05, 0.3, 0.4, 0.5, 1.0]) has them, and the standard
-- deviation
-- of 2, 4, 4, 4, 5, 5, 7, 9: 2 of the population, sqrt(32 / 7) of a sample.
do
  local rows = {}
  for i, x in ipairs { 15, 20, 35, 40, 50 } do rows[i] = { x = x } end
  local one = tperf.report.query(rows, "SELECT quantile(x, 0.05) AS a, quantile(x, 0.3) AS b, quantile(x, 0.4) AS c, "
    .. "quantile(x, 0.5) AS d, quantile(x, 1.0) AS e FROM rows")[1]
  near({ one.a, one.b, one.c, one.d, one.e }, { 16, 23, 29, 35, 50 }, 1e-12)
  for i, x in ipairs { 2, 4, 4, 4, 5, 5, 7, 9 } do rows[i] = { x = x } end
  near(tperf.report.query(rows, "SELECT stddev(x) AS s FROM rows")[1].s, (32 / 7) ^ 0.5, 1e-12)
end

-- 20. Lists joined and grouped.
do
  local prices = { { gpu = "a", price = 2 }, { gpu = "b", price = 5 } }
  local runs = { { gpu = "a", hours = 10 }, { gpu = "b", hours = 3 }, { gpu = "a", hours = 1 } }
  local rows = tperf.report.query({ prices = prices, runs = runs },
    "SELECT gpu, sum(price * hours) AS cost FROM runs JOIN prices USING (gpu) GROUP BY gpu ORDER BY gpu")
  near({ rows[1].cost, rows[2].cost }, { 22, 15 })
end

-- 21. Two uniform inputs: the sum's quantile q is sqrt(2 q) below the middle (a triangle).
do
  local r = tperf.propagate { run = function(o) return { y = o.a + o.b } end, field = "y", samples = 8192,
    progress = false,
    a = tperf.uncertain { 0, 1 }, b = tperf.uncertain { 0, 1 } }
  near(r.low, 0.1 ^ 0.5, 0.01)
  near(r.median, 1, 0.01)
  near(r.high, 2 - 0.1 ^ 0.5, 0.01)
  near(r.mean, 1, 0.005)
  near(r.deviation, (1 / 6) ^ 0.5, 0.01)
end

-- 22. Ishigami's function, a = 7, b = 0.1, whose shares are known: 0.3139, 0.4424, 0; in all 0.5576, 0.4424, 0.2437.
do
  local pi = math.pi
  local function input() return tperf.uncertain { -pi, pi } end
  local r = tperf.propagate { samples = 16384, progress = false, field = "y", x1 = input(), x2 = input(), x3 = input(),
    run = function(o) return { y = math.sin(o.x1) + 7 * math.sin(o.x2) ^ 2 + 0.1 * o.x3 ^ 4 * math.sin(o.x1) } end }
  local known = { x1 = { 0.3139, 0.5576 }, x2 = { 0.4424, 0.4424 }, x3 = { 0, 0.2437 } }
  for _, one in ipairs(r.shares) do
    assert(math.abs(one.share - known[one.input][1]) < 0.02, one.input)
    assert(math.abs(one.total - known[one.input][2]) < 0.02, one.input)
  end
  near(r.mean, 3.5, 0.01)
  near(r.deviation ^ 2, 49 / 8 + 0.1 * pi ^ 4 / 5 + 0.01 * pi ^ 8 / 18 + 0.5, 0.02)
end

-- 23. A tornado: the widest swing first, from quantile 0.05 to 0.95.
do
  local r = tperf.propagate { run = function(o) return { y = o.a + 10 * o.b } end, field = "y", samples = 256,
    progress = false,
    a = tperf.uncertain { 0, 1 }, b = tperf.uncertain { 2, 3 } }
  assert(r.tornado[1].input == "b")
  near({ r.tornado[1].swing, r.tornado[2].swing, r.tornado[1].base }, { 9, 0.9, 25.5 }, 1e-6)
end

-- 24. A question of the library at many points: collectives by a closed form. Without latency a ring's all-gather of B
-- bytes over n GPUs takes (n - 1) / n B / bandwidth.
do
  local system = tperf.system "subramanian2024/A100"
  system = system:with { network = { fast = { latency = 0, domain = 64, efficiency = 1 } } }
  local rows = quiet { run = tperf.collective, system = system, rules = "subramanian2024", kind = "all_gather",
    bytes = tperf.vary { 1e6, 1e9 }, gpus = tperf.vary { 2, 8, 64 } }
  local base = rows[1].result or rows[1].time
  assert(type(base) == "number")
  for _, row in ipairs(rows) do
    local time = row.time or row.result
    near(time / base, (row.gpus - 1) / row.gpus * row.bytes / (0.5 * 1e6), 1e-9)
  end
end
