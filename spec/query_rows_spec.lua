-- report.query over rows: groups, aggregates, quantiles and joins by SQLite.
local tperf = require "tperf"
local query = tperf.report.query

local function refuses(text, ...)
  local ok, message = pcall(query, ...)
  assert.is_false(ok, "not refused: " .. text)
  assert.truthy(message:find(text, 1, true), message)
end

local function rows_of(n, f)
  local rows = {}
  for i = 1, n do rows[i] = f(i) end
  return rows
end

describe("report.query over rows", function()
  it("groups and aggregates, with fields of tables by path", function()
    local rows = rows_of(10, function(i)
      return { kind = i % 2 == 0 and "even" or "odd", x = i, n = { square = i * i }, big = i > 5 }
    end)
    local found, names = query(rows, [[SELECT kind, count(*) AS n, sum("n.square") AS s, avg(big) AS big FROM rows
      GROUP BY kind ORDER BY kind]])
    assert.same({ "kind", "n", "s", "big" }, names)
    assert.same({ { kind = "even", n = 5, s = 4 + 16 + 36 + 64 + 100, big = 0.6 },
      { kind = "odd", n = 5, s = 1 + 9 + 25 + 49 + 81, big = 0.4 } }, found)
  end)

  it("joins lists of rows by name", function()
    local found = query({ a = { { k = 1, x = 2 }, { k = 2, x = 3 } }, b = { { k = 2, y = "q" }, { k = 3, y = "r" } } },
      "SELECT a.k, x, y FROM a LEFT JOIN b ON a.k = b.k WHERE x < ? ORDER BY a.k", 10)
    assert.same({ { k = 1, x = 2 }, { k = 2, x = 3, y = "q" } }, found)
  end)

  -- Definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996), which numpy.quantile documents
  -- as its default ("linear"), by hand: the sorted list is 1 1 2 3 3 4 5 5 6 9, and quantile q lies at 1 + 9 q, such as
  -- 9.1 for 0.9, between 6 and 9. The mean is 3.9, the squares' sum 54.9, of which a ninth is 6.1.
  it("has numpy's quantiles, and a sample's deviation", function()
    local rows = {}
    for i, x in ipairs { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3 } do rows[i] = { x = x } end
    for q, expected in pairs { [0] = 1, [0.1] = 1, [0.25] = 2.25, [0.5] = 3.5, [0.75] = 5, [0.9] = 6.3, [1] = 9 } do
      assert.near(expected, query(rows, "SELECT quantile(x, ?) AS q FROM rows", q)[1].q, 1e-12, q)
    end
    assert.near(math.sqrt(6.1), query(rows, "SELECT stddev(x) AS d FROM rows")[1].d, 1e-12)
    assert.is_nil(query({ { x = 1 } }, "SELECT stddev(x) AS d FROM rows")[1].d)
    assert.is_nil(query(rows, "SELECT quantile(x, 0.5) AS q FROM rows WHERE x > 100")[1].q)
    assert.equal(4.5, query({ { x = 4 }, { y = 1 }, { x = 5 } }, "SELECT quantile(x, 0.5) AS q FROM rows")[1].q)
    refuses("must be from 0 to 1", rows, "SELECT quantile(x, 2) AS q FROM rows")
  end)

  it("takes the rows of a sweep", function()
    local rows = tperf.sweep { run = function(o) return { time = o.x * o.y } end, x = tperf.linspace(1, 3, 3),
      y = tperf.vary { 10, 20 }, progress = false }
    assert.same({ { y = 10, t = 60.0 }, { y = 20, t = 120.0 } },
      query(rows, "SELECT y, sum(time) AS t FROM rows GROUP BY y ORDER BY y"))
  end)

  it("reads alone, and refuses what SQL would take for something else", function()
    local rows = { { x = 1 } }
    refuses("a query reads: SELECT", rows, "DELETE FROM rows")
    refuses("a query reads: SELECT", rows, "CREATE TABLE other (x)")
    refuses("no such column: xx", rows, 'SELECT "xx" FROM rows')
    refuses("no such table: points", rows, "SELECT x FROM points")
    refuses("1 places for values ('?'), and 0 are given", rows, "SELECT x FROM rows WHERE x = ?")
    refuses("the rows of 'rows' have no fields", {}, "SELECT 1 AS one FROM rows")
    refuses("'rows[1]' is no row, but 7", { 7 }, "SELECT 1 AS one FROM rows")
    refuses("differ in case only", { { X = 1, x = 2 } }, "SELECT x FROM rows")
    refuses("'a' must be a list of rows, got 3", { a = 3 }, "SELECT x FROM a")
    refuses("needs rows or a file's name, got 7", 7, "SELECT x FROM a")
  end)
end)
