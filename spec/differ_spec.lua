-- tperf.differ: whether two answers differ by more than their intervals, against a scan of all values by hand.
local tperf = require "tperf"

local function answer(low, high, figure) return { intervals = { [figure or "time"] = { low = low, high = high } } } end

-- Whether some value on a fine grid lies in both.
local function overlap(a, b)
  for i = 0, 400 do
    local value = i / 100
    if value >= a[1] and value <= a[2] and value >= b[1] and value <= b[2] then return true end
  end
  return false
end

describe("tperf.differ", function()
  it("is true where no value can be both, false where one can, whichever comes first", function()
    local ends = { { 1, 2 }, { 1.5, 3 }, { 2, 2.5 }, { 2.01, 4 }, { 0.1, 0.9 }, { 1.2, 1.3 } }
    for _, a in ipairs(ends) do
      for _, b in ipairs(ends) do
        assert.equal(not overlap(a, b), (tperf.differ(answer(a[1], a[2]), answer(b[1], b[2]))))
      end
    end
  end)

  it("compares the figure that it is given, or the one that both have", function()
    local a, b = answer(1, 2, "tpot"), answer(3, 4, "tpot")
    assert.is_true((tperf.differ(a, b)))
    a.intervals.ttft, b.intervals.ttft = { low = 1, high = 2 }, { low = 1.9, high = 9 }
    assert.is_false((tperf.differ(a, b, "ttft")))
  end)

  it("says why it does not know", function()
    local known, reason = tperf.differ(answer(1, 2), { time = 3 })
    assert.is_nil(known)
    assert.truthy(reason:find("software = \"none\"", 1, true))
    known, reason = tperf.differ(answer(1, 2), answer(1, 2), "memory")
    assert.is_nil(known)
    assert.truthy(reason:find("no interval of 'memory'", 1, true))
    assert.error_matches(function() tperf.differ(3, answer(1, 2)) end, "'the first answer' must be an answer, got 3")
    assert.error_matches(function() tperf.differ(answer(1, 2), answer(1, 2), 3) end, "the figure must be a name")
  end)
end)

describe("a search's 'alike'", function()
  local QUESTION <const> = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 64, global_batch = 128 }

  local function found(more)
    local o = {}
    for _, fields in ipairs { QUESTION, more } do
      for name, value in pairs(fields) do o[name] = value end
    end
    return tperf.search(o)
  end

  it("counts the first ones whose intervals overlap the first one's", function()
    local all = found { top = 400 }
    local count = 0
    for i, c in ipairs(all) do
      if tperf.differ(all[1], c) then break end
      count = i
    end
    assert.truthy(count > 1 and count < #all, ("%d of %d"):format(count, #all))
    assert.equal(count, all.alike)
  end)

  it("is of memory where that is ranked by, and unknown without intervals", function()
    local all = found { top = 50, minimize = "memory" }
    local count = 0
    while all[count + 1] and tperf.differ(all[1], all[count + 1], "memory") == false do count = count + 1 end
    assert.equal(count, all.alike)
    assert.is_nil(found({ top = 4, minimize = "dollars" }).alike)
    assert.is_nil(found({ top = 4, software = "none" }).alike)
  end)
end)
