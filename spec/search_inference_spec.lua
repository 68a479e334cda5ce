-- tperf.search_inference against every deployment one by one; the command; the script.
local cases = require "cases"
local csv = require "csv"
local program = require "program"
local tperf = require "tperf"

local MODEL, SYSTEM = tperf.model "mixtral-8x7b", tperf.system "h100-sxm"
local BATCHES = { 1, 2, 3, 16, 100 }

local function question(changes)
  local q = { model = MODEL, system = SYSTEM, gpus = 8, prompt = 500, generate = 50, batch = BATCHES, top = 1 << 20 }
  for name, value in pairs(changes or {}) do q[name] = value end
  return q
end

-- Every tp, pp, ep and batch of the question that tperf.infer takes.
local function all_ways()
  local list = {}
  for _, tp in ipairs { 1, 2, 3, 4, 5, 6, 7, 8 } do
    for _, pp in ipairs { 1, 2, 3, 4, 5, 6, 7, 8 } do
      for _, ep in ipairs { 1, 2, 3, 4, 5, 6, 7, 8 } do
       for _, etp in ipairs(tp == 1 and { 1 } or { 1, tp }) do
        for _, batch in ipairs(8 % (tp * pp) == 0 and BATCHES or {}) do
          local ok, r = pcall(tperf.infer, {
            model = MODEL, system = SYSTEM, tp = tp, pp = pp, ep = ep, etp = etp, dp = 8 // (tp * pp), batch = batch,
            prompt = 500, generate = 50,
          })
          list[#list + 1] = ok and r or nil
        end
       end
      end
    end
  end
  return list
end

local function key(r) return ("%d %d %d %d %d"):format(r.tp, r.pp, r.ep, r.etp, r.batch) end

describe("search_inference", function()
  local ways = all_ways()

  it("tries every way, and finds the best by each objective", function()
    local found = tperf.search_inference(question())
    assert.equal(#ways, found.feasible)
    assert.equal(#ways, #found)
    local seen = {}
    for _, r in ipairs(found) do seen[key(r)] = r end
    for _, r in ipairs(ways) do assert.equal(r.tokens_per_second, seen[key(r)].tokens_per_second) end
    local least = {
      throughput = function(r) return -r.tokens_per_second_per_gpu end, ttft = function(r) return r.ttft end,
      tpot = function(r) return r.tpot end, latency = function(r) return r.latency end,
      cost = function(r) return r.gpus / r.tokens_per_second end,
    }
    for objective, of in pairs(least) do
      local sorted = tperf.search_inference(question { objective = objective, gpu_hour = 2 })
      local best = math.huge
      for _, r in ipairs(ways) do best = math.min(best, of(r)) end
      assert.near(best, of(sorted[1]), 1e-12 * math.abs(best))
      for i = 2, #sorted do assert.is_true(of(sorted[i - 1]) <= of(sorted[i]) * (1 + 1e-12) + 1e-300) end
    end
  end)

  it("keeps limits, and finds the front that brute force finds", function()
    for _, limits in ipairs { {}, { tpot = 0.012 }, { ttft = "30 ms" }, { ttft = 0.05, tpot = "15 ms" } } do
      local ttft, tpot = tperf.units.parse(limits.ttft or 1e9, "s"), tperf.units.parse(limits.tpot or 1e9, "s")
      local within, front = {}, {}
      for _, r in ipairs(ways) do within[#within + 1] = r.ttft <= ttft and r.tpot <= tpot and r or nil end
      for _, r in ipairs(within) do
        local beaten = false
        for _, other in ipairs(within) do
          local x, y = other.tpot - r.tpot, r.tokens_per_second_per_gpu - other.tokens_per_second_per_gpu
          beaten = beaten or x <= 0 and y <= 0 and (x < 0 or y < 0)
        end
        if not beaten then front[("%.17g"):format(r.tpot)] = r.tokens_per_second_per_gpu end
      end
      local found = tperf.search_inference(question(limits))
      assert.equal(#within, found.feasible)
      local got, count = {}, 0
      for _, r in ipairs(found.pareto) do got[("%.17g"):format(r.tpot)] = r.tokens_per_second_per_gpu end
      assert.same(front, got)
      for _ in pairs(front) do count = count + 1 end
      assert.equal(count, #found.pareto)
      assert.is_true(#found.pareto > 1)
    end
  end)

  it("takes a batch up to the limit if batches are left open", function()
    local limit = 0.02
    for _, tp in ipairs { 2, 8 } do
      local found = tperf.search_inference {
        model = MODEL, system = SYSTEM, gpus = 8, tp = tp, pp = 1, ep = 1, prompt = 500, generate = 50, tpot = limit,
      }
      local r = found[1]
      local next_one = tperf.infer {
        model = MODEL, system = SYSTEM, tp = tp, dp = 8 // tp, prompt = 500, generate = 50, batch = r.batch + 1,
      }
      assert.is_true(r.tpot <= limit and next_one.tpot > limit)
    end
    local all = tperf.search_inference { model = MODEL, system = SYSTEM, gpus = 8, tp = 8, prompt = 500, generate = 50 }
    assert.equal(all[1].max_batch, all[1].batch)
  end)

  it("gives the reason if there is no result, and refuses invalid arguments", function()
    local none = tperf.search_inference(question { tpot = 1e-6 })
    assert.equal(0, #none)
    assert.matches("nothing keeps within the limits: of what fits, the least ttft is .* the least tpot", none.reason)
    local reason = tperf.search_inference(question { gpus = 1 }).reason
    assert.matches("does not fit: the smallest candidate, tp = 1, .*pp = 1, batch = 1, needs %S+ GB per GPU", reason)
    local _, refused = pcall(tperf.infer, { model = MODEL, system = SYSTEM, prompt = 500, generate = 50 })
    assert.equal(refused:match "it needs (%S+)", reason:match "needs (%S+)")
    assert.matches("no sizes of tp, etp, ep and pp", tperf.search_inference(question { tp = 3 }).reason)
    local function refuses(changes, pattern)
      local ok, message = pcall(tperf.search_inference, question(changes))
      assert.is_false(ok)
      assert.matches("search_inference_spec.lua:%d+: .*" .. pattern, message)
    end
    refuses({ objective = "speed" }, "'objective' must be")
    refuses({ objective = "cost", system = "h800-sxm" }, "objective \"cost\" needs 'gpu_hour'")
    refuses({ generate = 1 }, "'generate' must be at least 2")
    refuses({ tpot = -1 }, "'tpot' must be a quantity above 0")
    refuses({ gpus = 0 }, "'gpus' must be an integer from 1")
    refuses({ dp = 2 }, "unknown field 'dp'")
  end)
end)

describe("tperf infer", function()
  local COMMAND = "tperf infer llama-3.1-8b -s h100-sxm -p 1000 -n 100 "

  it("prints tperf.infer's result as text, CSV and JSON", function()
    local r = tperf.infer {
      model = "llama-3.1-8b", system = "h100-sxm", prompt = 1000, generate = 100, batch = 4, tp = 2,
    }
    local rows = csv.parse(program.ask(COMMAND .. "-b 4 --tp 2 --csv").out)
    assert.equal(r.tpot, tonumber(rows[1].tpot))
    assert.equal(r.memory.total, tonumber(rows[1]["memory.total"]))
    local json = program.ask(COMMAND .. "-b 4 --tp 2 --json").out
    assert.truthy(json:find(('"tpot": %s'):format(("%.17g"):format(r.tpot)):sub(1, 20), 1, true))
    local text = program.ask(COMMAND .. "-b 4 --tp 2 --gpu-hour 2").out
    for _, word in ipairs { "ttft", "tpot", "memory.cache", "cost.generated", "energy_per_token" } do
      assert.truthy(text:find(word, 1, true), word)
    end
    local ops = csv.parse(program.ask(COMMAND .. "--ops --csv").out)
    local time = 0
    for _, op in ipairs(ops) do
      assert.truthy(({ compute = true, memory = true, network = true, launch = true })[op.bound])
      if op.phase == "decode" then time = time + op.layers * op.time end
    end
    local single = tperf.infer { model = "llama-3.1-8b", system = "h100-sxm", prompt = 1000, generate = 100 }
    assert.near(single.tpot, time, 1e-7 * time)
  end)

  it("searches with --gpus", function()
    local found = tperf.search_inference {
      model = "llama-3.1-8b", system = "h100-sxm", prompt = 1000, generate = 100, gpus = 4, tpot = 0.01,
    }
    local best = csv.parse(program.ask(COMMAND .. "-g 4 --tpot 10ms --csv").out)
    assert.equal(10, #best)
    for i, row in ipairs(best) do assert.equal(found[i].tokens_per_second, tonumber(row.tokens_per_second)) end
    local front = csv.parse(program.ask(COMMAND .. "-g 4 --tpot 10ms --pareto --csv").out)
    assert.equal(#found.pareto, #front)
  end)

  cases(function() end, it)("runs as the documentation shows it", function()
    local count = 0
    for _, page in ipairs { "docs/inference.md" } do
      for line in program.slurp(page):gmatch "\n    (tperf infer %l[^\n]*)" do
        local result = program.ask(line)
        assert.equal(0, result.code, line .. result.err)
        assert.truthy(#result.out > 100)
        count = count + 1
      end
    end
    assert.equal(4, count)
  end)

  it("refuses contradictory options", function()
    local function usage(arguments, message, code)
      local result = program.ask(arguments)
      assert.truthy(result.err:find(message, 1, true), result.err)
      assert.equal(code or 2, result.code)
    end
    usage("tperf infer llama-3.1-8b -s h100-sxm -n 1", "--prompt is missing")
    usage("tperf infer -s h100-sxm -n 1 -p 1", "MODEL is missing")
    usage(COMMAND .. "--tpot 1ms", "--tpot needs --gpus")
    usage(COMMAND .. "--pareto", "--pareto needs --gpus")
    usage(COMMAND .. "-g 4 --dp 2", "--dp does not go with --gpus")
    usage(COMMAND .. "--tp 3", "--tp = 3 does not divide the 32 heads; try 2 or 4", 1)
    usage(COMMAND .. "-g 4 --tpot 1us", "nothing keeps within the limits", 1)
  end)
end)
