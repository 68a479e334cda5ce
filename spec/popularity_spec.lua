-- How many experts a batch touches.
local popularity = require "tperf.describe.arch.experts.popularity"
local tperf = require "tperf"

describe("experts that a batch touches", function()
  it("match uniform routing without skew", function()
    assert.near(128 * (1 - (1 - 4 / 128) ^ 64), popularity.touched(128, 4, 0, 64), 1e-9)
  end)

  it("are top_k of one token, whatever the skew", function()
    for _, skew in ipairs { 0, 0.5, 1, 3 } do assert.near(4, popularity.touched(128, 4, skew, 1), 1e-9) end
  end)

  it("are the sum of the experts' probabilities", function()
    -- probabilities 1, 1/2, 1/3, 1/4 of 25/12, top 1
    local expected = 0
    for i = 1, 4 do expected = expected + 1 - (1 - 12 / 25 / i) ^ 10 end
    assert.near(expected, popularity.touched(4, 1, 1, 10), 1e-9)
    -- top 2 of three experts: a batch of a million touches all of them
    assert.near(1 + 1 + 1 - 0.0, popularity.touched(3, 2, 8, 1e6), 1e-3)
  end)

  it("are fewer with more skew, which makes a batch faster", function()
    local before = math.huge
    for _, skew in ipairs { 0, 0.5, 1, 2 } do
      local now = popularity.touched(128, 4, skew, 64)
      assert.is_true(now < before)
      before = now
    end
    local function step(skew)
      return tperf.infer({
        model = tperf.model("gpt-oss-120b"):with { experts = { skew = skew } }, system = "b200-sxm", tp = 2, batch = 32,
        prompt = 128, generate = 8,
      }).tpot
    end
    assert.is_true(step(1) < 0.95 * step(0))
  end)
end)
