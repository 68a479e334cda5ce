-- Quasi-random points, Latin hypercubes, and uncertain inputs carried through questions.
local tperf = require "tperf"

local function refuses(text, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok, "not refused: " .. text)
  assert.truthy(message:find(text, 1, true), message)
  assert.truthy(message:find("uncertain_spec.lua:", 1, true), message)
end

local function points_of(set, names)
  local list = {}
  for i, row in ipairs(tperf.sweep { set, run = function() return { zero = 0 } end, progress = false }) do
    list[i] = {}
    for k, name in ipairs(names) do list[i][k] = row[name] end
  end
  return list
end

describe("tperf.halton", function()
  it("has the sequence's points: digits mirrored at the point, in bases 2 and 3", function()
    local points = points_of(tperf.halton(8, { x = { 0, 1 }, y = { 0, 1 } }), { "x", "y" })
    local x = { 1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8, 7 / 8, 1 / 16 }
    local y = { 1 / 3, 2 / 3, 1 / 9, 4 / 9, 7 / 9, 2 / 9, 5 / 9, 8 / 9 }
    for i = 1, 8 do
      assert.near(x[i], points[i][1], 1e-15)
      assert.near(y[i], points[i][2], 1e-15)
    end
  end)

  it("scales ranges, logarithms, integers and choices", function()
    local points = points_of(tperf.halton(3, { a = { 10, 30 }, b = { 1, 1000, log = true },
      c = { 1, 4, integer = true }, d = { choices = { "p", "q", "r" } } }), { "a", "b", "c", "d" })
    -- 1/2, 1/3, 1/5 and 1/7; then 1/4, 2/3, 2/5 and 2/7; then 3/4, 1/9, 3/5 and 3/7
    assert.same({ 20.0, 1, "p" }, { points[1][1], points[1][3], points[1][4] })
    assert.same({ 15.0, 2, "p" }, { points[2][1], points[2][3], points[2][4] })
    assert.same({ 25.0, 3, "q" }, { points[3][1], points[3][3], points[3][4] })
    assert.near(10, points[1][2], 1e-12) -- 1000^(1/3)
    assert.near(100, points[2][2], 1e-12)
  end)

  it("estimates an integral better than its number of points suggests", function()
    local n, sum = 4096, 0
    for _, row in ipairs(tperf.sweep { tperf.halton(n, { x = { 0, 1 }, y = { 0, 1 } }), progress = false,
      run = function(o) return { f = o.x * o.y * o.y } end }) do sum = sum + row.f / n end
    assert.near(1 / 6, sum, 5e-4) -- random points: 3.5e-3
  end)

  it("refuses what is no range", function()
    refuses("'x' must be { low, high }, with low below high", tperf.halton, 4, { x = { 1, 1 } })
    refuses("begins above 0", tperf.halton, 4, { x = { 0, 1, log = true } })
    refuses("'x' has an unknown field", tperf.halton, 4, { x = { 0, 1, logx = true } })
    refuses("from 1 to", tperf.halton, 0, { x = { 0, 1 } })
    refuses("needs ranges", tperf.latin_hypercube, 4, {})
  end)
end)

describe("tperf.latin_hypercube", function()
  it("has one point in each part of every range, by the seed", function()
    local function asked(seed)
      return points_of(tperf.latin_hypercube(50, { x = { 0, 50 }, y = { 100, 150 } }, seed), { "x", "y" })
    end
    local points, seen = asked(3), { {}, {} }
    for _, point in ipairs(points) do
      seen[1][math.floor(point[1])], seen[2][math.floor(point[2]) - 100] = true, true
    end
    for i = 0, 49 do assert.truthy(seen[1][i] and seen[2][i]) end
    assert.same(points, asked(3))
    assert.not_same(points, asked(4))
  end)
end)

describe("tperf.propagate", function()
  it("gives the moments and shares of a sum, which are known", function()
    -- y = 3 a + 4 b of independent uniform numbers: variance (9 + 16) / 12, shares 9 / 25 and 16 / 25
    local r = tperf.propagate { run = function(o) return { y = 3 * o.a + 4 * o.b } end, field = "y",
      a = tperf.uncertain { 0, 1 }, b = tperf.uncertain { 0, 1 }, samples = 4096, progress = false }
    assert.near(3.5, r.mean, 0.01)
    assert.near(math.sqrt(25 / 12), r.deviation, 0.01)
    assert.equal("b", r.shares[1].input)
    assert.near(16 / 25, r.shares[1].share, 0.01)
    assert.near(9 / 25, r.shares[2].total, 0.01)
    assert.equal("b", r.tornado[1].input)
    assert.near(0.9 * 4, r.tornado[1].swing, 1e-12)
    assert.near(3.5, r.tornado[1].base, 1e-12)
  end)

  it("gives the shares of Ishigami's function", function()
    -- f = sin x + a sin^2 y + b z^4 sin x with a = 7, b = 0.1 (Ishigami and Homma 1990; Saltelli et al. 2008, 4.6):
    -- V = a^2 / 8 + b pi^4 / 5 + b^2 pi^8 / 18 + 1 / 2, V_x = (1 + b pi^4 / 5)^2 / 2, V_y = a^2 / 8, V_z = 0,
    -- V_xz = b^2 pi^8 (1 / 18 - 1 / 50)
    local pi, a, b = math.pi, 7, 0.1
    local V = a ^ 2 / 8 + b * pi ^ 4 / 5 + b ^ 2 * pi ^ 8 / 18 + 0.5
    local xz = b ^ 2 * pi ^ 8 * (1 / 18 - 1 / 50) / V
    local expected = { x = (1 + b * pi ^ 4 / 5) ^ 2 / 2 / V, y = a ^ 2 / 8 / V, z = 0 }
    local input = tperf.uncertain { -pi, pi }
    local r = tperf.propagate { x = input, y = input, z = input, samples = 8192, progress = false, run = function(o)
      return math.sin(o.x) + a * math.sin(o.y) ^ 2 + b * o.z ^ 4 * math.sin(o.x)
    end }
    assert.near(V, r.deviation ^ 2, 0.05)
    for _, row in ipairs(r.shares) do
      assert.near(expected[row.input], row.share, 0.01, row.input)
      assert.near(expected[row.input] + (row.input == "y" and 0 or xz), row.total, 0.01, row.input)
    end
  end)

  it("takes an interval as nine tenths of a lognormal number", function()
    local r = tperf.propagate { run = function(o) return o.x end, x = tperf.uncertain { low = 1, high = 4 },
      samples = 4096, progress = false }
    assert.near(1, r.low, 0.02)
    assert.near(2, r.median, 0.02)
    assert.near(4, r.high, 0.08)
    local normal = tperf.propagate { run = function(o) return o.x end, progress = false, samples = 4096,
      x = tperf.uncertain { -1, 3, shape = "normal" } }
    assert.near(1, normal.mean, 0.02)
    assert.near(2 / 1.6448536, normal.deviation, 0.02)
  end)

  it("varies fields of systems, and counts refused points", function()
    local r = tperf.propagate { run = tperf.train, model = "llama-3.1-8b", system = "h100-sxm", global_batch = 16,
      tp = 2, dp = 4, ["system.network.fast.bandwidth"] = tperf.uncertain { 350e9, 450e9 }, samples = 64,
      progress = false }
    local function time(bandwidth)
      return tperf.train { model = "llama-3.1-8b", global_batch = 16, tp = 2, dp = 4,
        system = tperf.system "h100-sxm":with { network = { fast = { bandwidth = bandwidth } } } }.time
    end
    assert.near(time(355e9), r.tornado[1].low, 1e-9 * r.tornado[1].low)
    assert.near(time(445e9), r.tornado[1].high, 1e-9 * r.tornado[1].high)
    assert.same({ 128, 0 }, { r.samples, r.refused })
    refuses("nothing is uncertain", tperf.propagate, { run = tperf.train, model = "llama-3.1-8b" })
    refuses("has no number 'tiem'", tperf.propagate, { run = function() return { time = 1 } end, field = "tiem",
      x = tperf.uncertain { 0, 1 } })
    refuses("with low below high", tperf.uncertain, { 2, 1 })
    refuses("'shape' must be one of", tperf.uncertain, { 1, 2, shape = "gauss" })
  end)
end)
