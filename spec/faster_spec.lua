-- No step takes longer on a machine that is faster in one of its numbers, with the same layout, whatever the software
-- overlaps.
local cases = require "cases"
local tperf = require "tperf"

local MODELS <const> = { "llama-3.1-8b", "llama-3.1-70b", "qwen3-30b-a3b", "gpt-oss-120b", "nemotron-h-8b",
  "mamba2-2.7b", "gemma-3-27b", "deepseek-v3" }
local SYSTEMS <const> = { "h100-sxm", "b200-sxm", "gb200-nvl72", "a100-sxm-80gb", "mi300x" }
local SOFTWARE <const> = { "typical", "tuned", "none", "megatron-bridge-26.02", "torchtitan-2024" }
local FASTER <const> = {
  hbm = { accelerator = { hbm = { bandwidth = 1.5 } } },
  ["matrix units"] = { accelerator = { tensor = { bf16 = 1.5, fp8 = 1.5 } } },
  ["vector units"] = { accelerator = { vector = { bf16 = 1.5, fp32 = 1.5 } } },
  ["fast links"] = { network = { fast = { bandwidth = 1.5 } } },
  ["NICs"] = { network = { slow = { bandwidth = 1.5 } } },
  ["fast links' latency"] = { network = { fast = { latency = 0.5 } } },
  ["NICs' latency"] = { network = { slow = { latency = 0.5 } } },
}

-- The fields of t that `factors` has, multiplied.
local function scaled(t, factors)
  local changes = {}
  for name, factor in pairs(factors) do
    local value = t[name]
    changes[name] = type(factor) == "table" and scaled(value, factor) or value and value * factor
  end
  return changes
end

-- Not for stages that differ: the closed form takes the others' average for each of them (docs/model.md, 6.5).
local function question(draw)
  local gpus = draw { 8, 64, 512 }
  return {
    model = draw(MODELS), system = tperf.system(draw(SYSTEMS)), gpus = gpus, global_batch = gpus * draw { 1, 8 },
    seq = draw { 2048, 8192 }, tp = draw { 1, 2, 4, 8 }, pp = 1, micro_batch = draw { 1, 2 }, software = draw(SOFTWARE),
    precision = draw { "bf16", "fp8-delayed", "fp8-block" }, zero = draw { 0, 1, 3 },
    simulate = draw { true, false, false }, recompute = draw { "none", "selective", "full" },
  }
end

describe("A faster machine", function()
  it("is never slower", function()
    local state = 20261122
    local function draw(list)
      state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger
      return list[1 + (state >> 33) % #list]
    end
    local tried, slower = 0, {}
    for _ = 1, cases(15, 300) do
      local asked = question(draw)
      local ok, base = pcall(tperf.train, asked)
      if ok and base.time then
        local system = asked.system
        for what, factors in pairs(FASTER) do
          asked.system = system:with(scaled(system, factors))
          local time = tperf.train(asked).time
          tried = tried + 1
          if time > base.time * (1 + 1e-9) then
            slower[#slower + 1] = ("%s of %s: %s on %d GPUs, tp %d, zero %d, %s, %s, %s: %g s instead of %g s"):format(
              what, system.name, asked.model, asked.gpus, asked.tp, asked.zero, asked.software, asked.precision,
              asked.recompute, time, base.time)
          end
        end
      end
    end
    assert.is_true(tried >= cases(60, 1000), tried .. " tried")
    assert.equal("", table.concat(slower, "\n"))
  end)

  -- The host launches the kernels of both passes of a pair, whatever their exchanges hide behind.
  it("is never slower where overlapped passes wait for the host", function()
    local asked = {
      model = "glm-4.5-air", tp = 2, pp = 8, dp = 16, ep = 2, global_batch = 512, micro_batch = 2,
      schedule = "dualpipe", fast = { tp = 1, ep = 2, etp = 2, dp = 16, pp = 4 },
    }
    local before = math.huge
    for bandwidth = 25e9, 100e9, 25e9 do
      asked.system = tperf.system "gb200-nvl72":with { network = { slow = { bandwidth = bandwidth } } }
      local answer = tperf.train(asked)
      assert.truthy(answer.time <= before, ("%g B/s: %g s"):format(bandwidth, answer.time))
      before = answer.time
    end
  end)
end)
