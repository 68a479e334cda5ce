-- The search for deployments of a step of reinforcement learning against asking about each.
local tperf = require "tperf"

local function question(changes)
  local q = { model = "llama-3.2-1b", system = "h100-sxm", gpus = 8, prompts = 16, samples = 4, prompt = 128,
    response = { mean = 200, cv = 0.8, max = 512 }, gpu_hour = 2, train = { tp = { 1, 2 } },
    rollout = { tp = { 1, 2 } } }
  for name, value in pairs(changes or {}) do q[name] = value end
  return q
end

-- tperf.rl about a deployment.
local function alone(d)
  return tperf.rl(question { gpus = d.gpus, mode = d.mode, train_gpus = d.mode ~= "colocated" and d.train_gpus or nil,
    staleness = d.staleness > 0 and d.staleness or nil, train = d.train, rollout = d.rollout })
end

local found = tperf.search_rl(question { top = 1000 })

describe("a search for deployments of reinforcement learning", function()
  it("finds what asking about each one finds, the fastest first", function()
    local last = 0
    for i, d in ipairs(found.deployments) do
      assert.is_true(d.step >= last)
      last = d.step
      if i % 16 == 1 then
        local a = alone(d)
        assert.equal(a.step, d.step)
        assert.equal(a.bound, d.bound)
        assert.equal(a.step * 8 / 3600, d.gpu_hours)
        assert.equal(2 * d.gpu_hours, d.dollars)
      end
    end
    assert.equal(found.fitting, #found.deployments)
  end)

  it("tries the product of what is given, by mode (hand count)", function()
    -- tp x pp x recompute x the engine's tp; split of 8 GPUs: 1 to 6 that train; async: the same with k = 1 and 2
    local layouts = 2 * 3 * 2 * 2
    assert.equal(layouts + 6 * layouts + 2 * 6 * layouts, found.tried)
    local left = 0
    for _, one in ipairs(found.refused) do left = left + one.deployments end
    assert.equal(found.tried, found.fitting + left)
    local colocated = tperf.search_rl(question { mode = "colocated", train = { tp = 1, pp = 1, recompute = "none" } })
    assert.equal(2, colocated.tried)
  end)

  it("has a front that nothing beats, and orders by what is asked", function()
    local several = tperf.search_rl(question { gpus = { 2, 4, 8 }, minimize = "gpu_hours",
      mode = { "colocated", "async" }, staleness = 1, top = 1000 })
    for _, one in ipairs(several.front) do
      for _, d in ipairs(several.deployments) do
        assert.is_true(d.step >= one.step or d.gpu_hours >= one.gpu_hours)
      end
    end
    for i = 2, #several.deployments do
      assert.is_true(several.deployments[i].gpu_hours >= several.deployments[i - 1].gpu_hours)
    end
    assert.equal(several.front[#several.front].gpu_hours, several.deployments[1].gpu_hours)
  end)

  it("finds the fewest GPUs for a step", function()
    local all = tperf.search_rl(question { gpus = { 1, 2, 4, 8 }, mode = "colocated", top = 1000 })
    local best = {}
    for _, d in ipairs(all.deployments) do best[d.gpus] = math.min(best[d.gpus] or math.huge, d.step) end
    local target = (best[2] + best[4]) / 2
    local few = tperf.search_rl(question { mode = "colocated", target = target })
    assert.equal(4, few.deployments[1].gpus)
    assert.equal(best[4], few.deployments[1].step)
  end)

  it("says why it finds nothing, and what it needs", function()
    for _, case in ipairs {
      { { target = 1e-3 }, "takes at most 0.001 s" },
      { { response = { max = 512 } }, "'response.mean' is missing" },
      { { minimize = "money" }, "'minimize' must be one of time, gpu_hours, dollars" },
      { { train = 8 }, "'train' must be a table" },
    } do
      local done, message = pcall(tperf.search_rl, question(case[1]))
      assert.is_false(done)
      assert.truthy(tostring(message):find(case[2], 1, true), tostring(message))
    end
  end)
end)
