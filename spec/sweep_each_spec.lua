-- tperf.sweep with `each`: rows handed out one by one instead of kept.
local tperf = require "tperf"

local function sweep(change)
  local given = {
    run = tperf.collective, system = "h100-sxm", kind = tperf.vary { "all_reduce", "all_gather" },
    gpus = tperf.vary { 8, 16, 64 }, bytes = tperf.linspace(1e6, 1e9, 500), progress = false,
  }
  for name, value in pairs(change or {}) do given[name] = value end
  return tperf.sweep(given)
end

describe("tperf.sweep with each", function()
  it("hands out the rows that it returns without, in their order, and says how many", function()
    local handed = {}
    local count = sweep { each = function(row) handed[#handed + 1] = row end }
    local rows = sweep()
    assert.equal(3000, count)
    rows.units = nil
    assert.same(rows, handed)
  end)

  it("keeps no more than some of them at a time", function()
    local alive, most, n = setmetatable({}, { __mode = "k" }), 0, 0
    sweep { each = function(row)
      alive[row], n = true, n + 1
      if n % 500 > 0 then return end
      collectgarbage()
      local count = 0
      for _ in pairs(alive) do count = count + 1 end
      most = math.max(most, count)
    end }
    assert.equal(3000, n)
    assert.truthy(most <= 1024, most)
  end)

  it("raises when no point is possible, as a sweep without does", function()
    local function refused(each)
      return select(2, pcall(tperf.sweep, {
        run = tperf.train, model = "llama-3.1-8b", system = "h100-sxm", tp = 3, dp = tperf.vary { 1, 2 },
        global_batch = 8, progress = false, each = each,
      }))
    end
    assert.equal(refused(nil), refused(function() end))
    assert.truthy(refused(nil):find("none of 2 points is possible", 1, true))
  end)

  it("refuses what is no function", function()
    assert.error_matches(function() sweep { each = 1 } end, "'each' must be a function, got 1")
  end)
end)
