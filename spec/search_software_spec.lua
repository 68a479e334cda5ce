-- tperf.search with a software profile: every figure equals tperf.train's, and the ranking is by the stack's times.
local tperf = require "tperf"

local QUESTION = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 16, global_batch = 32, top = 5 }

local function ask(change)
  local question = {}
  for name, value in pairs(QUESTION) do question[name] = value end
  for name, value in pairs(change) do question[name] = value end
  return tperf.search(question)
end

local function sizes(c)
  return { c.strategy, c.tp, c.pp, c.dp, c.micro_batch, c.virtual_stages, c.recompute, c.fast.tp, c.fast.pp, c.fast.dp }
end

describe("tperf.search with software", function()
  for _, software in ipairs { "megatron-core-2024", "torchtitan-2024", "bigscience-2022" } do
    it("gives tperf.train's figures, in the stack's order: " .. software, function()
      local found = ask { software = software }
      assert.equal(5, #found)
      for i, c in ipairs(found) do
        local alone = tperf.train {
          model = QUESTION.model, system = QUESTION.system, configuration = c, software = software,
        }
        assert.near(alone.time, c.time, 1e-9 * c.time)
        assert.near(alone.mfu, c.mfu, 1e-9)
        assert.near(alone.memory.total, c.memory.total, 1e-9 * c.memory.total)
        assert.same(alone.interval, c.interval)
        assert.same(alone.breakdown, c.breakdown)
        assert.equal(software, c.software)
        assert.is_true(i == 1 or found[i - 1].time <= c.time)
      end
    end)

  end

  it("finds the same as evaluating everything", function()
    local few = ask { software = "torchtitan-2024", placement = "best" }
    local all = ask { software = "torchtitan-2024", placement = "best", keep = "all", prune = false }
    assert.is_true(#all > 500)
    local fitting = {}
    for _, c in ipairs(all) do fitting[#fitting + 1] = c.feasible and c or nil end
    for i, c in ipairs(few) do
      assert.same(sizes(fitting[i]), sizes(c))
      assert.equal("torchtitan-2024", fitting[i].software)
    end
  end)

  it("answers each question of a list, with every option of a search", function()
    local list = ask {
      software = "torchtitan-2024", gpus = { 8, 16 }, system = { "h100-sxm", "h200-sxm" }, strategy = "all",
      zero = { 1, 3 },
      where = function(c) return c.tp == 2 end, optimizer = "muon",
    }
    assert.equal(4, #list)
    for _, found in ipairs(list) do
      assert.is_true(#found > 0)
      for _, c in ipairs(found) do assert.same({ 2, "torchtitan-2024" }, { c.tp, c.software }) end
    end
    assert.is_true(list[1][1].time > list[2][1].time)
  end)

  it("uses the stack's attention", function()
    local unfused = ask { software = "bigscience-2022", top = 1 }[1]
    local flash = ask { software = "bigscience-2022", top = 1, attention = "flash" }[1]
    assert.is_true(unfused.time > flash.time)
  end)

  it("refuses unsupported options", function()
    for change, message in pairs {
      [{ software = "torchtitam-2024" }] = "did you mean 'torchtitan-2024'?",
      [{ software = "torchtitan-2024", top = 0 }] = "'top' must be an integer from 1",
    } do
      local ok, text = pcall(ask, change)
      assert.is_false(ok)
      assert.truthy(text:find(message, 1, true), text)
    end
  end)
end)
