local units = require "tperf.base.units"

describe("units.parse", function()
  -- text, unit, the value by definition of the prefix
  local good = {
    { "900 GB/s", "bytes/s", 900e9 }, { "80 GiB", "bytes", 80 * 1024 ^ 3 }, { "2.5 us", "s", 2.5e-6 },
    { "312 TFLOP/s", "FLOP/s", 312e12 }, { "989.4 TFLOPS", "FLOP/s", 989.4e12 }, { "400 Gb/s", "bytes/s", 50e9 },
    { "400 Gbps", "bytes/s", 50e9 }, { "700 W", "W", 700 }, { "20 us", "s", 20e-6 }, { "20us", "s", 20e-6 },
    { "20 \u{b5}s", "s", 20e-6 }, { "20 \u{3bc}s", "s", 20e-6 }, { "1.5 GHz", "Hz", 1.5e9 }, { "3 kB", "bytes", 3000 },
    { "8 b", "bytes", 1 }, { "7", "bytes", 7 }, { "-3 MB", "bytes", -3e6 }, { ".5 TB", "bytes", 5e11 },
    { "1e3 B", "bytes", 1000 }, { "2EB", "bytes", 2e18 }, { "2e3B", "bytes", 2000 },
    { "+2e+3 B", "bytes", 2000 }, { "1.5E-3 s", "s", 1.5e-3 },
    { "3 min", "s", 180 }, { "2 h", "s", 7200 }, { "2 days", "s", 172800 }, { "1 kWh", "J", 3.6e6 }, { "0 s", "s", 0 },
    { "624 TOPS", "FLOP/s", 624e12 }, { "0.1 us", "s", 0.1e-6 }, { "1 Ki" .. "B", "bytes", 1024 },
  }
  for _, case in ipairs(good) do
    it("reads " .. case[1], function() assert.equal(case[3], (units.parse(case[1], case[2]))) end)
  end

  local bad = {
    { "80 GB", "bytes/s", "is in bytes; expected a quantity in bytes/s, such as \"900 GB/s\"" },
    { "2 s", "bytes", "is in s;" }, { "1,555 GB/s", "bytes/s", "no unit known" }, { "5 GB/s x", "bytes/s", "no unit" },
    { "nan", "s", "not a decimal number" }, { "inf", "s", "not a decimal number" }, { "0x10", "s", "no unit" },
    { "", "s", "not a decimal number" }, { ".", "s", "not a decimal number" }, { "-", "s", "not a decimal" },
    { "e5", "s", "not a decimal" }, { "1e400", "s", "too large" }, { "1e300 YFLOP", "FLOP", "too large" },
    { "1e-400 s", "s", "too small" }, { "1e99999999999999999999 s", "s", "too large" }, { "5 mB", "bytes", "no unit" },
    { "5 gb/s", "bytes/s", "no unit" }, { "1e5.5", "s", "no unit" }, { "1_000", "bytes", "no unit" },
    { "1\1\127 GB", "bytes", '"1?? GB" has no unit known' }, { "5e", "s", "no unit" }, { "+", "s", "not a decimal" },
    { ("9"):rep(200), "bytes", "not a decimal" }, { "5 GB\0", "bytes", "no unit" }, { "5\tGB", "bytes", "no unit" },
  }
  for _, case in ipairs(bad) do
    it("refuses " .. case[1]:sub(1, 30), function()
      local value, message = units.parse(case[1], case[2])
      assert.is_nil(value)
      assert.truthy(message:find(case[3], 1, true), message)
    end)
  end

  it("refuses an unknown expected unit", function()
    assert.error_matches(function() units.parse("1", "parsec") end,
      "^tperf.units.parse: the unit must be one of bytes, .*, got \"parsec\"")
  end)

  it("refuses values that are not text", function()
    assert.error_matches(function() units.parse({}, "s") end,
      "^tperf.units.parse: the text must be a string, got a table")
  end)
end)

describe("units.read", function()
  it("finds the unit of a text", function()
    assert.same({ 40e9, "bytes" }, { units.read "40 GB" })
    assert.same({ 2.5e-6, "s" }, { units.read "2.5us" })
    assert.same({ 312e12, "FLOP/s" }, { units.read "312 TFLOP/s" })
    for _, text in ipairs { "", "40", "GB", "h100-sxm", "1f1b", "nan s", "40 parsec" } do
      assert.is_nil((units.read(text)))
    end
  end)
end)

describe("units.format", function()
  it("refuses what it cannot print, at the caller's line", function()
    for _, case in ipairs {
      { 1, "flop/s", message = "the unit must be one of bytes, .*, got \"flop/s\" %(did you mean 'FLOP/s'%?%)" },
      { 1, "GB", message = "the unit must be one of" }, { 1, nil, message = "the unit must be one of .*, got nil" },
      { "x", "s", message = "the value must be a number, got \"x\"" },
      { 1, "s", 0, message = "the digits must be an integer from 1 to 15, got 0" },
      { 1, "s", "a", message = "the digits must be" },
    } do
      assert.error_matches(function() units.format(case[1], case[2], case[3]) end,
        "^tperf.units.format: " .. case.message)
    end
  end)

  local cases = {
    { 900e9, "bytes/s", "900.0 GB/s" }, { 312e12, "FLOP/s", "312.0 TFLOP/s" }, { 2.5e-6, "s", "2.500 us" },
    { 999.96e9, "bytes", "1.000 TB" }, { 0, "s", "0 s" }, { 59.996, "s", "1.000 min" }, { 86399, "s", "1.000 days" },
    { 90, "s", "1.500 min" }, { -5, "s", "-5.000 s" }, { 0.5, "bytes", "0.5000 B" }, { 1 / 0, "s", "inf s" },
    { 0 / 0, "s", "nan s" }, { 3.14e23, "FLOP", "314.0 ZFLOP" },
    { -1 / 0, "W", "-inf W" },
  }
  for _, case in ipairs(cases) do
    it("prints " .. case[3], function() assert.equal(case[3], units.format(case[1], case[2])) end)
  end

  it("refuses digits that no double has", function()
    for _, digits in ipairs { 0, 16, -1, math.maxinteger } do
      assert.error_matches(function() units.format(1, "s", digits) end, "from 1 to 15")
    end
  end)

  it("prints text that reads back to the same text", function()
    local seed = 1
    for _ = 1, 2000 do
      seed = seed * 6364136223846793005 + 1442695040888963407 -- Knuth's MMIX generator
      local value = (1 + (seed >> 12) / 2.0 ^ 52) * 10.0 ^ ((seed >> 3) % 40 - 14)
      for _, unit in ipairs { "bytes", "bytes/s", "FLOP", "FLOP/s", "s", "W", "J", "Hz" } do
        local digits = (seed >> 7) % 15 + 1
        local text = units.format(value, unit, digits)
        local back = assert(units.parse(text, unit))
        assert.equal(text, units.format(back, unit, digits))
        assert.is_true(math.abs(back - value) <= 10.0 ^ (1 - digits) * value, text)
      end
    end
  end)
end)
