-- Every script in scripts/ runs with small arguments and writes correct output.
local sampled = require "cases"
local csv = require "csv"
local program = require "program"

local here = io.popen("pwd"):read "l"

-- Runs a script as a user does; the caller must remove its folder.
local function run(name, arguments, options)
  local folder = program.folder()
  local result = program.shell(("tperf run %s --out %s %s/scripts/%s.lua %s"):format(options or "", folder, here, name,
    arguments or ""), folder)
  result.folder = folder
  assert.equal(0, result.code, result.err)
  assert.equal("", result.err)
  return result
end

describe("scripts/sweep_published.lua", function()
  it("finds what tperf.search finds", function()
    local tperf = require "tperf"
    local result = run("sweep_published", "--gpus 256,4096 --domains 4,64 --systems subramanian2024/A100 --top 2")
    local rows = csv.rows(result.folder .. "/sweep_published.csv")
    assert.equal(8, #rows)
    for _, row in ipairs(rows) do
      local found = tperf.search {
        model = "subramanian2024/gpt3_1T", gpus = tonumber(row.gpus), global_batch = 4096, top = 2,
        system = tperf.system "subramanian2024/A100":with { network = { fast = { domain = tonumber(row.domain) } } },
        software = "none",
      }[tonumber(row.rank)]
      assert.equal(found.time, tonumber(row.time))
      assert.near(1e12 / found.tokens_per_second, tonumber(row.training_time), 1)
    end
    assert.truthy(result.out:find("domains of 64 instead of 4 GPUs make training %d+%.%d%d times as fast"))
    program.remove(result.folder)
  end)
end)

describe("scripts/sweep_nvlink.lua", function()
  local tperf = require "tperf"

  -- The best layout on `rented` GPUs, of which it may use only 1,024: the rest is paid for.
  local function best(model, domain, rented)
    local c
    for _, used in ipairs { rented, 1024 } do
      local found = tperf.search {
        model = model, gpus = used, global_batch = 2304, top = 1, software = "typical",
        system = tperf.system "h100-sxm":with { network = { fast = { domain = domain } } },
        where = function(one) return one.gpus + one.idle <= rented end,
      }[1]
      if not c or found.time < c.time then c = found end
    end
    return c
  end

  it("compares domains at the same number of rented GPUs, idle ones too", function()
    local result = run("sweep_nvlink", "--systems h100-sxm --gpus 1152 --domains 8,36 --batch 2304 --tokens 15e12")
    local rows = csv.rows(result.folder .. "/sweep_nvlink.csv")
    assert.equal(4, #rows)
    for _, row in ipairs(rows) do
      local domain = tonumber(row.domain)
      local c = best(row.model, domain, 1152)
      local days = 15e12 / c.tokens_per_second / 86400
      assert.near(best(row.model, 8, 1152).time / c.time, tonumber(row.speed), 1e-9)
      assert.near(days, tonumber(row.days), 1e-6 * days)
      assert.near(days * 24 * 1152 * 2 / 1e6, tonumber(row.millions), 1e-6 * days)
      assert.equal(1152 - c.gpus, tonumber(row.idle))
    end
    -- Domains of 36 hold whole groups of 32 experts if some of their GPUs stay idle, but no tensor group of 8.
    assert.equal("deepseek-v3", rows[2].model)
    assert.is_true(tonumber(rows[2].speed) > 1.1 and tonumber(rows[4].speed) < 1.02)
    assert.is_true(tonumber(rows[2].idle) > 0)
    assert.truthy(result.out:find("36 = 4 × 9 holds no tp 8", 1, true))
    program.remove(result.folder)
  end)

  it("fits a terminal, and reads as an example", function()
    local result = run("sweep_nvlink", "--gpus 1152")
    local lines, last = 0, nil
    for line in result.out:gmatch "([^\n]*)\n" do
      lines, last = lines + 1, line
      assert.is_true(utf8.len(line) <= 80, line)
    end
    assert.is_true(lines <= 40)
    for _, text in ipairs { "15 trillion tokens", "days", "$ million", "1152 GPUs" } do
      assert.truthy(result.out:find(text, 1, true), text)
    end
    assert.equal("sweep_nvlink.svg has the picture, sweep_nvlink.csv these lines.", last)
    assert.truthy(program.slurp(result.folder .. "/sweep_nvlink.svg"):find("deepseek-v3", 1, true))
    program.remove(result.folder)
    assert.is_true(select(2, program.slurp "scripts/sweep_nvlink.lua":gsub("\n", "")) <= 60)
  end)

  it("lists its options", function()
    local result = program.shell("tperf run scripts/sweep_nvlink.lua --modles x")
    assert.equal(2, result.code)
    assert.truthy(result.err:find("unknown option '--modles' (did you mean '--models'?)", 1, true))
    local help = program.shell("tperf run scripts/sweep_nvlink.lua --help")
    assert.equal(0, help.code)
    for _, option in ipairs { "models", "gpus", "batch", "price" } do
      assert.truthy(help.out:find("--" .. option .. " ", 1, true))
    end
  end)
end)

describe("scripts/strong_scaling.lua", function()
  -- The published results of the original solver, nine systems, three strategies, two models.
  sampled(function() end, it)("finds the published throughputs, and fits where they fit", function()
    local result = run("strong_scaling", "--no-figures --rules subramanian2024")
    local found = {}
    for _, row in ipairs(csv.rows(result.folder .. "/strong_scaling.csv")) do
      local system, model = row.system:match "[^/]*$", row.model:match "[^/]*$"
      found[table.concat({ row.strategy, model, system, row.domain, row.gpus }, " ")] = tonumber(row.throughput)
    end
    local compared, infeasible = 0, 0
    for _, row in ipairs(csv.rows "spec/data/training/strong_scaling.csv") do
      local key = table.concat({ row.strategy, row.model, row.system, row.domain, row.gpus }, " ")
      local expected = tonumber(row.throughput)
      if expected then
        compared = compared + 1
        assert.near(expected, found[key] or 0, 1e-9 * expected, key)
      else
        infeasible = infeasible + 1
        assert.is_nil(found[key], key)
      end
    end
    assert.same({ 360, 117 }, { compared, infeasible })
    program.remove(result.folder)
  end)
end)

local function numbers(row, ...)
  local list = {}
  for i, name in ipairs { ... } do list[i] = tonumber(row[name]) end
  return table.unpack(list)
end

local THREADED <const> = { best_configuration = true, sweep_memory = true } -- a search and a sweep of searches

-- Runs a script on three threads, and on one: the same bytes.
local function outputs(name, arguments, ...)
  local three = run(name, arguments, "--threads 3")
  local one = sampled(THREADED[name], true) and run(name, arguments, "--threads 1") or three
  assert.equal(one.out, three.out)
  local rows
  for _, file in ipairs { ... } do
    local text = program.slurp(one.folder .. "/" .. file)
    assert.is_true(text == program.slurp(three.folder .. "/" .. file), file)
    if file:find "csv$" then rows = csv.rows(one.folder .. "/" .. file) end
    if file:find "svg$" then assert.truthy(text:find("^<%?xml") or text:find "^<svg", file) end
  end
  program.remove(one.folder)
  if one ~= three then program.remove(three.folder) end
  return rows, one.out
end

describe("the other scripts", function()
  local tperf = require "tperf"
  local MODEL, B200 = "subramanian2024/gpt3", "subramanian2024/B200"
  local SMALL = "--model " .. MODEL .. " --batch 512 "
  local machine = tperf.system(B200):with { network = { fast = { domain = 8 } } }

  it("best_configuration.lua", function()
    local rows = outputs("best_configuration", SMALL .. "--gpus 1,32,64 --strategy all", "best_configuration.csv",
      "best_configuration.svg")
    assert.truthy(rows[1].reason:find "fits in")
    for i = 2, 3 do
      local found = tperf.search { model = MODEL, system = machine, gpus = tonumber(rows[i].gpus), global_batch = 512,
        strategy = "all", top = 1, software = "none" }[1]
      assert.same({ found.time, found.memory.total, found.pp }, { numbers(rows[i], "time", "memory.total", "pp") })
    end
  end)

  it("collectives.lua: every measurement of the groups asked for, and the model's error", function()
    local measured = here .. "/spec/data/measured/collectives.csv"
    local rows = outputs("collectives", "--systems a100-sxm-80gb --gpus 16 --file " .. measured, "collectives.csv",
      "collectives.svg")
    local times, count = {}, 0
    for _, row in ipairs(csv.rows(measured)) do
      if row.gpu:find "A100%-80GB" and row.gpus == "16" and row.nodes == "2" and row.collective == "all_reduce" then
        times[("%d %.8g"):format(row.size_bytes, row.time_us)], count = true, count + 1
      end
    end
    assert.is_true(count > 10)
    assert.equal(count, #rows)
    local before = 0
    for _, row in ipairs(rows) do
      local bytes, time, modelled, off = numbers(row, "bytes", "measured", "modelled", "error")
      assert.is_true(times[("%d %.8g"):format(bytes, time * 1e6)], row.bytes)
      assert.near(modelled / time - 1, off, 1e-12)
      assert.is_true(modelled >= before) -- more bytes never take less time
      before = modelled
    end
  end)

  it("sweep_fabric.lua: a fabric without oversubscription is a network of two tiers, and others are slower", function()
    local rows = outputs("sweep_fabric", "--model llama-2-13b --gpus 128 --batch 256 --leaf 32 --software none "
      .. "--oversubscriptions 1,16 --rails 8,4 --distances 0,1000 --tokens 2e12",
      "sweep_fabric.csv", "sweep_fabric.svg")
    assert.equal(4, #rows)
    local h100 = tperf.system "h100-sxm"
    for i, nics in ipairs { 1, 0.5 } do
      local found = tperf.search { model = "llama-2-13b", gpus = 128, global_batch = 256, top = 1, software = "none",
        system = h100:with { network = { slow = { nics_per_gpu = nics } } } }[1]
      local whole, narrow = numbers(rows[2 * i - 1], "time"), numbers(rows[2 * i], "time")
      assert.near(found.time, whole, 1e-12 * whole)
      assert.is_true(narrow > whole)
    end
  end)

  it("compare_strategies.lua", function()
    local rows = outputs("compare_strategies", SMALL .. "--gpus 64,128 --domains 8 --strategy tensor,context "
      .. "--systems " .. B200, "compare_strategies.csv", "compare_strategies.svg")
    assert.equal(2, #rows)
    for _, row in ipairs(rows) do
      local tensor, context, ratio = numbers(row, "tensor", "context", "ratio")
      assert.equal(tensor / context, ratio)
      assert.is_true(ratio >= 1) -- context with cp = 1 is tensor
    end
  end)

  it("sweep_parallel.lua", function()
    local rows = outputs("sweep_parallel", SMALL .. "--gpus 256 --tp 4,8 --pp 1..96", "sweep_parallel.csv",
      "sweep_parallel.svg")
    assert.equal(14, #rows) -- pp 1, 2, 4 … 64, for each tp
    for _, row in ipairs(rows) do
      local tp, pp = numbers(row, "tp", "pp")
      if tp * pp > 256 then
        assert.same({ "", "" }, { row.time, row.dp })
        assert.truthy(row.reason:find("= 512 does not divide 'gpus' of 256; try 256", 1, true), row.reason)
      else
        local dp, time = numbers(row, "dp", "time")
        assert.equal(256, tp * pp * dp)
        local trained = tperf.train { model = MODEL, system = machine, global_batch = 512, tp = tp, pp = pp, dp = dp,
          software = "none" }
        assert.equal(trained.time, time)
      end
    end
  end)

  it("sweep_memory.lua: more memory and more bandwidth never harm", function()
    local rows = outputs("sweep_memory", SMALL .. "--gpus 32,64 --figure-gpus 64 --capacities "
      .. sampled("3 --bandwidths 2", "4 --bandwidths 3"), "sweep_memory.csv", "sweep_memory.svg")
    assert.equal(sampled(12, 24), #rows)
    local at = {}
    for _, row in ipairs(rows) do
      local capacity, bandwidth, gpus, days = numbers(row, "capacity", "bandwidth", "gpus", "days")
      at[#at + 1] = { capacity, bandwidth, gpus, days or math.huge }
    end
    for _, x in ipairs(at) do
      for _, y in ipairs(at) do
        if x[1] <= y[1] and x[2] <= y[2] and x[3] == y[3] then assert.is_true(y[4] <= x[4]) end
      end
    end
  end)

  it("sweep_flops.lua: passes through the machines that exist", function()
    local rows, out = outputs("sweep_flops", SMALL .. "--gpus 32 --memory-steps 1 --flops-steps 2", "sweep_flops.csv",
      "sweep_flops.svg")
    assert.equal(4 * 7, #rows)
    local B200_peak, H200_peak = 2500e12, tperf.system "subramanian2024/H200".accelerator.tensor.fp16
    local between = 0
    for _, row in ipairs(rows) do
      if tonumber(row["tensor.fp16"]) == (B200_peak + H200_peak) / 2 then between = between + 1 end
    end
    assert.equal(4, between)
    for _, name in ipairs { "A100", "H200", "B200", "B200-next" } do assert.truthy(out:find("\n" .. name, 1, true)) end
  end)

  it("layer_breakdown.lua", function()
    local rows, out = outputs("layer_breakdown", "--model " .. MODEL .. " --strategy context --tp 2 --cp 4",
      "layer_breakdown.svg", "layer_roofline.svg", "layer_breakdown.csv")
    local ops = tperf.layer { model = MODEL, system = machine, strategy = "context", tp = 2, cp = 4 }
    assert.equal(2 * #ops, #rows)
    for i, op in ipairs(ops) do
      for k, pass in ipairs { "forward", "backward" } do
        local bytes, time, comm = numbers(rows[2 * i - 2 + k], "bytes", "time", "comm_time")
        assert.equal(op[pass].bytes, bytes)
        assert.near(op[pass].time, time + comm, 1e-12)
      end
    end
    assert.truthy(out:find "\nforward %d")
  end)

  it("bottlenecks.lua: no improvement does harm, and a new search helps no less", function()
    local rows = outputs("bottlenecks", SMALL .. "--gpus 256 --factor 2", "bottlenecks.csv", "bottlenecks.svg")
    assert.equal(10, #rows)
    for _, row in ipairs(rows) do
      local same, best = numbers(row, "same", "best")
      assert.is_true(same >= -1e-12 and best >= same - 1e-12, row.what)
      assert.is_true(best <= 1 + 1e-9 or row.what == "fast domain size" or row.what == "memory capacity", row.what)
    end
  end)

  it("batch_size.lua", function()
    local rows = outputs("batch_size", "--model " .. MODEL .. " --gpus 64,256 --batches 64..512", "batch_size.csv",
      "batch_size.svg")
    assert.equal(8, #rows)
    for _, row in ipairs(rows) do
      local batch, time, speed = numbers(row, "global_batch", "time", "tokens_per_second")
      assert.near(batch * 2048 / time, speed, 1e-9 * speed)
    end
  end)

  it("cost.lua", function()
    local rows = outputs("cost", "--gpus 128,256 --systems h100-sxm,b200-sxm --prices 2,4 --tokens 1e12", "cost.csv",
      "cost.svg")
    assert.equal(4, #rows)
    for _, row in ipairs(rows) do
      local gpus, days, hours, dollars, energy = numbers(row, "gpus", "days", "gpu_hours", "dollars", "energy")
      assert.near(days * 24 * gpus, hours, 1e-9 * hours)
      assert.near(hours * (row.system == "h100-sxm" and 2 or 4), dollars, 1e-9 * dollars)
      -- A GPU draws its limit while it computes, and a quarter of it while it waits.
      local most = hours * 3600 * (row.system == "h100-sxm" and 700 or 1000)
      assert.is_true(energy <= most and energy >= most / 4)
    end
  end)

  it("report errors", function()
    local cases = {
      { "sweep_parallel --pp 7", "= 56 does not divide 'gpus' of 16384; try 32 or 64" },
      { "cost --prices 1", "as many prices as systems are needed, in the same order: --prices has 1, --systems 4" },
      { "compare_strategies --strategy tensor", "two strategies are needed" }, { "bottlenecks --gpus 1", "fits in" },
      { "sweep_memory --gpus 0", "integers such as 4,8 or 4..64 are needed" },
      { "batch_size --model nosuch", "unknown model \"nosuch\"" },
    }
    for _, case in ipairs(cases) do
      local name, arguments = case[1]:match "^(%S+) (.*)$"
      local folder = program.folder()
      local result = program.shell(("tperf run --out %s scripts/%s.lua %s"):format(folder, name, arguments))
      assert.truthy(result.code == 1 or result.code == 2, case[1])
      assert.truthy(result.err:find(case[2], 1, true), result.err)
      program.remove(folder)
    end
  end)
end)

describe("scripts/inference_pareto.lua", function()
  it("draws the front that tperf.search_inference finds, and prints the best within the limit", function()
    local tperf = require "tperf"
    local result = run("inference_pareto", "--model llama-3.1-8b --systems h100-sxm --gpus 2 --tpot 8ms")
    local found = tperf.search_inference {
      model = "llama-3.1-8b", system = "h100-sxm", gpus = 2, prompt = 2048, generate = 512,
    }
    local rows = csv.rows(result.folder .. "/inference_pareto.csv")
    assert.equal(#found.pareto, #rows)
    for i, row in ipairs(rows) do
      assert.equal(found.pareto[i].tpot, tonumber(row.tpot))
      assert.equal(found.pareto[i].tokens_per_second_per_gpu, tonumber(row.tokens_per_second_per_gpu))
    end
    local picture = program.slurp(result.folder .. "/inference_pareto.svg")
    assert.truthy(picture:find("Serving llama-3.1-8b on 2 GPUs", 1, true))
    assert.truthy(result.out:find "the best within 8.000 ms per token")
    program.remove(result.folder)
  end)
end)

describe("scripts/serving_fleet.lua", function()
  it("prints the deployment that tperf.search_serving finds, and draws the front and the load", function()
    local tperf = require "tperf"
    local result = run("serving_fleet", "--model llama-3.1-8b --systems h100-sxm --rate 5 --tp 1 --prompt 300 "
      .. "--output 20 --quantile 0.9 --gpu-hour 2")
    local found = tperf.search_serving { model = "llama-3.1-8b", system = "h100-sxm", rate = 5, tp = { 1 },
      prompt = { lognormal = { median = 300, sigma = 0.7 } }, output = { exponential = 20 }, gpu_hour = 2,
      slo = { ttft = 0.5, tpot = 0.05, quantile = 0.9 } }
    local row = csv.rows(result.folder .. "/serving_fleet.csv")[1]
    assert.equal(found[1].gpus, tonumber(row.gpus))
    assert.equal(found[1].served.cost.generated, tonumber(row["served.cost.generated"]))
    assert.truthy(result.out:find("llama-3.1-8b, 5 requests/s: the fewest GPUs with 90 % of requests within", 1, true))
    local front = program.slurp(result.folder .. "/serving_fleet_front.svg")
    assert.truthy(front:find("50 ms per token", 1, true))
    assert.truthy(program.slurp(result.folder .. "/serving_fleet_load.svg"):find("One engine of 1 h100-sxm", 1, true))
    program.remove(result.folder)
  end)
end)

describe("scripts/rl_split.lua", function()
  it("draws the best step of each split that tperf.search_rl finds", function()
    local tperf = require "tperf"
    local result = run("rl_split", "--model llama-3.2-1b -g 8 --prompts 16 --samples 4 --mean 200 --longest 512")
    local found = tperf.search_rl { model = "llama-3.2-1b", system = "h100-sxm", gpus = 8, prompts = 16, samples = 4,
      prompt = 150, response = { mean = 200, max = 512 }, staleness = 1, mode = "async", train_gpus = 4 }
    local step
    for _, row in ipairs(csv.rows(result.folder .. "/rl_split.csv")) do
      if row.mode == "async" and row.train_gpus == "4" then step = tonumber(row.step) end
    end
    assert.equal(found.deployments[1].step, step)
    assert.truthy(program.slurp(result.folder .. "/rl_split.svg"):find("GPUs that train", 1, true))
    program.remove(result.folder)
  end)
end)

describe("scripts/llama3_goodput.lua", function()
  it("predicts about nine tenths effective time, as published, without a fit to it", function()
    local result = run "llama3_goodput"
    assert.truthy(result.out:find("419 interruptions in 54 days: one every 3.093 h", 1, true), result.out)
    assert.truthy(result.out:find("\n\nWith a restart of 5 minutes\n", 1, true), result.out)
    local predicted = tonumber(result.out:match "predicted: ([%d.]+) %% effective")
    assert.near(90, predicted, 2)
    local rows = csv.rows(result.folder .. "/llama3_goodput.csv")
    assert.equal(5, #rows)
    for i, row in ipairs(rows) do
      assert.near(419, tonumber(row.failures), 1)
      -- The goodput if only the time down after each failure were lost.
      local least = 1 - 419 * tonumber(row.down) / (54 * 86400)
      assert.is_true(tonumber(row.goodput) < least + 0.01)
      assert.is_true(i == 1 or tonumber(row.goodput) < tonumber(rows[i - 1].goodput))
    end
    program.remove(result.folder)
  end)
end)

describe("scripts/vision_language.lua", function()
  it("has the parameters of the published weights in its ops, and a tower whose share falls with more text", function()
    local result = run("vision_language", "--texts 64,1472")
    assert.truthy(result.out:find("^7063427072 parameters, 7063427072 published; 576 tokens an image"), result.out)
    local rows = csv.rows(result.folder .. "/vision_language.csv")
    assert.same({ "640", "2048" }, { rows[1].tokens, rows[2].tokens })
    -- By FLOPs: 0.3 billion parameters over 577 tokens, and 6.5 billion over 640 or 2,048.
    assert.is_true(tonumber(rows[1].tower) > 0.302 * 577 / (0.302 * 577 + 6.476 * 640))
    assert.is_true(tonumber(rows[2].tower) < tonumber(rows[1].tower) / 2)
    program.remove(result.folder)
  end)
end)
