-- --tokens of search and train: the whole run's days, cost, energy and failures, in every format.
local json = require "tperf.input.json"
local program = require "program"
local tperf = require "tperf"

local TRAIN <const> = "tperf train llama-2-7b -s h100-sxm -b 256 --dp 64 --software none --tokens 2e12"
local FAILING <const> = " --mtbf gpu=5000h --checkpoint-bandwidth 1GB/s --restart-time 5min"

local function row_of(command)
  local result = program.ask(command .. " --json")
  assert.equal(0, result.code, result.err)
  return json.decode(result.out, "tperf")[1]
end

describe("--tokens", function()
  it("prints the result of tperf.cost", function()
    local c = tperf.train { model = "llama-2-7b", system = "h100-sxm", global_batch = 256, dp = 64, software = "none" }
    local cost = tperf.cost(c, {
      tokens = 2e12, system = "h100-sxm", price = 2, carbon = 400, mtbf = { gpu = "5000 h" }, restart = "5 min",
      checkpoint = { bandwidth = "1 GB/s" },
    })
    local said = row_of(TRAIN .. FAILING .. " --gpu-hour 2 --carbon 400").cost
    for _, name in ipairs { "days", "gpu_hours", "dollars", "energy", "co2", "goodput", "failures", "mtbf" } do
      assert.near(cost[name], said[name], 1e-9 * cost[name], name)
    end
    -- 7 billion parameters: weights in 16 bits, master copy and two moments in 32.
    assert.equal(14 * tperf.model("llama-2-7b"):parameters().total, said.checkpoint.bytes)
  end)

  it("is printed below train's table", function()
    local out = program.ask(TRAIN .. FAILING .. " --gpu-hour 2 --carbon 400").out
    for _, expected in ipairs { "a run of 2T tokens", "\ndays ", "\nGPU%-hours ", "\ncost +%$", "\nMWh ", "\nt of CO2 ",
      "\nof its time", "\ntraining ", "\nwork done again ", "\nrestarts ",
      "\na failure every 3%.255 days, [%d.]+ in all; a checkpoint of 94.34 GB every [%d.]+ %w+ %(best: " } do
      assert.truthy(out:find(expected) or out:gsub("(%S)\n(%S)", "%1 %2"):find(expected), expected) -- notes are wrapped
    end
    assert.falsy(out:find "waiting for spare nodes")
    assert.falsy(program.ask(TRAIN).out:find "of its time")
  end)

  it("adds columns to search's table and to CSV", function()
    local search = "tperf search llama-2-7b -s h100-sxm -g 64 -b 256 --software none --top 2 --tokens 2e12"
    local result = program.ask(search .. FAILING .. " --gpu-hour 2")
    assert.truthy(result.out:match("^[^\n]+"):find("memory +days +goodput +cost"), result.out)
    assert.truthy(result.out:find("a failure every 3.255 days", 1, true))
    local csv = program.ask(search .. FAILING .. " --gpu-hour 2 --csv").out
    assert.truthy(csv:match("^[^\n]+"):find("cost.days,cost.goodput,cost.dollars,cost.gpu_hours,MWh,cost.low.days", 1,
      true), csv)
    local plain = program.ask((search:gsub(" %-%-tokens 2e12", ""))).out
    assert.falsy(plain:find "days")
  end)

  it("counts the cost of unequal GPUs once", function()
    local equal, unequal = row_of(TRAIN), row_of(TRAIN .. " --straggling 0.03")
    assert.is_true(unequal.cost.days > 1.03 * equal.cost.days)
    assert.near(unequal.time / equal.time, unequal.cost.days / equal.cost.days, 1e-9)
    assert.equal(0.03, unequal.straggling.deviation)
    local on_top = program.ask("tperf train llama-2-7b -s h100-sxm -b 256 --dp 8 --straggling 0.03").err
    assert.truthy(on_top:find("--straggling comes on top of the slow GPUs that were in the runs that software "
      .. "megatron-core-2026 is fitted to", 1, true), on_top)
    assert.equal("", program.ask(TRAIN .. " --straggling 0.03 --gpu-hour 2").err)
    local search = program.ask("tperf search llama-2-7b -s h100-sxm -g 64 -b 256 --software none --straggling 0.03")
    assert.same({ 2, "" }, { search.code, search.out })
  end)

  it("takes nodes of any size: an NVL72's trays have 4 GPUs, its fast domain 72", function()
    local train = "tperf train llama-2-7b -s gb200-nvl72 -b 288 --dp 144 --software none --tokens 2e12 "
      .. "--restart-time 5min --checkpoint-time 1min --mtbf node=3600h --spare-nodes 2 --repair-time 24h"
    local domain, tray = row_of(train).cost, row_of(train .. " --gpus-per-node 4").cost
    assert.same({ 3600 * 3600 / 2, 3600 * 3600 / 36 }, { domain.mtbf, tray.mtbf })
    assert.near(144 + 2 * 72, domain.gpu_hours / (domain.seconds / 3600), 1e-6)
    assert.near(144 + 2 * 4, tray.gpu_hours / (tray.seconds / 3600), 1e-6)
  end)

  it("takes Megatron-LM's option names", function()
    local cost = row_of(TRAIN .. " --save-interval 1000 --async-save --copy-bandwidth 20GB/s "
      .. "--checkpoint-time 1min").cost
    local c = tperf.train { model = "llama-2-7b", system = "h100-sxm", global_batch = 256, dp = 64, software = "none" }
    assert.near(1000 * c.time, cost.checkpoint.interval, 1e-9 * 1000 * c.time)
    assert.near(14 * 6738415616 / 64 / 20e9, cost.checkpoint.block, 1e-12)
  end)

  it("is required by its related options, some of which require each other", function()
    for options, message in pairs {
      ["--mtbf gpu=3h"] = "--mtbf needs --restart-time",
      ["--mtbf gpu=3h --restart-time 1s"] = "--mtbf needs --checkpoint-bandwidth or --store-bandwidth or "
        .. "--checkpoint-time",
      ["--mtbf gpu=3h --restart-time 1s --checkpoint-time 1s"] = "--mtbf needs --tokens",
      ["--tokens 1e9 --mtbf 3h --restart-time 1s --checkpoint-time 1s"] = "--mtbf: of what is that the time?",
      ["--tokens 1e9 --mtbf gpu=3 --restart-time 1s --checkpoint-time 1s"] = "--mtbf: a unit is needed, got '3'",
      ["--restart-time 1s"] = "--restart-time needs --mtbf", ["--spare-nodes 4"] = "--spare-nodes needs --mtbf",
      ["--tokens 1e9 --async-save"] = "--async-save needs --copy-bandwidth",
      ["--carbon 400"] = "--carbon needs --tokens",
      ["--checkpoint-interval 1h"] = "--checkpoint-interval needs --tokens",
      ["--tokens 15X"] = "--tokens: a number is needed, got '15X'",
    } do
      for _, command in ipairs { "tperf train llama-2-7b -s h100-sxm -b 256 --dp 8 ",
        "tperf search llama-2-7b -s h100-sxm -b 256 -g 8 " } do
        local result = program.ask(command .. options)
        assert.same({ 2, "" }, { result.code, result.out })
        assert.truthy(result.err:find("tperf: " .. message, 1, true), result.err)
      end
    end
    local never = program.ask("tperf train llama-2-7b -s h100-sxm -b 256 --dp 8 --tokens 1e12 --mtbf cluster=10s "
      .. "--restart-time 1s --checkpoint-time 20s")
    assert.same({ 1, "" }, { never.code, never.out })
    assert.truthy(never.err:find("the cluster fails every 10.00 s on average, and writing a checkpoint takes 20.00 s",
      1, true), never.err)
  end)
end)
