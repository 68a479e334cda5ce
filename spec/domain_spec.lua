-- Placements in fast domains of any size: docs/model.md section 7.1.
local tperf = require "tperf"

local function best(model, base, domain, gpus, change)
  local system = tperf.system(base):with { network = { fast = { domain = domain } } }
  local request = { model = model, system = system, gpus = gpus, global_batch = 2 * gpus, top = 1, threads = 1 }
  for name, value in pairs(change or {}) do request[name] = value end
  return tperf.search(request)[1]
end

describe("a fast domain", function()
  it("of 72 GPUs holds 64 of them where 72 do not divide", function()
    local c = best("deepseek-v3", "gb200-nvl72", 72, 1152, { tp = 8, pp = 1, fast = { tp = 8, dp = 8 } })
    assert.same({ 8, 8 }, { c.fast.tp, c.fast.dp })
    assert.equal(1152 // 64 * 72 - 1152, c.idle) -- 18 domains, 8 GPUs of each
    local priced = { tokens = 1e12, price = 2 }
    assert.near(tperf.cost(c, priced).gpu_hours, tperf.cost(c, priced).seconds / 3600 * 18 * 72, 1e-6)
  end)

  it("holds several blocks where they fit", function()
    local c = best("llama-3.1-8b", "gb200-nvl72", 72, 256, { tp = 8, pp = 1, fast = { tp = 8, dp = 4 } })
    assert.equal(4 * 72 - 256, c.idle) -- two blocks of 32 in each of four domains
  end)

  it("leaves none unused that holds the whole machine", function()
    assert.equal(0, best("llama-3.1-8b", "gb200-nvl72", 72, 64).idle)
    assert.equal(0, best("llama-3.1-8b", "h100-sxm", 8, 64).idle)
  end)

  it("makes no training step slower by being larger", function()
    local cases = {
      { "llama-3.1-8b", "gb200-nvl72", 96 }, { "qwen3-30b-a3b", "b200-sxm", 120 },
      { "deepseek-v3", "gb200-nvl72", 1152 },
    }
    for _, case in ipairs(cases) do
      local model, base, gpus = table.unpack(case)
      local least, change = math.huge, { micro_batch = 1, schedule = "1f1b", recompute = "full" }
      for domain = 1, 144 do
        local time = best(model, base, domain, gpus, change).time
        assert.is_true(time <= least * (1 + 1e-12),
          ("%s on %d GPUs, domains of %d: %.17g s after %.17g s"):format(model, gpus, domain, time, least))
        least = time
      end
    end
  end)

  it("is filled under the published rules", function()
    local request = {
      model = "subramanian2024/gpt3_1T", system = tperf.system "subramanian2024/B200", gpus = 1024, global_batch = 4096,
      rules = "subramanian2024", top = 20,
    }
    local domain = request.system.network.fast.domain
    local found = tperf.search(request)
    assert.is_true(#found > 0)
    for _, c in ipairs(found) do
      assert.equal(domain, c.fast.tp * c.fast.dp * c.fast.pp)
      assert.equal(0, c.idle)
    end
  end)
end)
