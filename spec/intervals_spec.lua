-- Intervals of runs that no fit saw: the classes and how an answer finds the nearest (docs/limits.md).
local classes = require "tperf.measured.calibrate.classes"
local intervals = require "tperf.describe.intervals"
local program = require "program"
local served = require "tperf.measured.calibrate.served"
local tperf = require "tperf"

-- A table of closed loops of two models as an engine with 500 us more a step would run them, those of the second 1.5
-- times as long.
local function loops()
  local lines = { "id,duplicate_of,origin,source,date,gpu,engine,engine_version,model,precision,mode,mtp,tp,pp,"
    .. "attention_dp,moe_tp,moe_ep,concurrency,isl,osl,osl_mean,ttft_s,tpot_s,quality" }
  local host = { step = 5e-4, request = 3e-5, front_end = 5.5e-3, front_end_token = 4.3e-6 }
  for i, name in ipairs { "llama-3.1-8b", "qwen3-8b" } do
    for c = 1, 8 do
      local r = tperf.serve { model = name, system = "h100-sxm", software = "vllm-0.15", host = host, kv_dtype = "bf16",
        prompt = 512, output = 64, load = { concurrency = c }, count = 10 * c,
        engine = { max_num_seqs = 1024, max_num_batched_tokens = 8192 } }
      r = r.whole or r
      local times = i == 2 and 1.5 or 1
      lines[#lines + 1] = ("%s-%d,,own,own,2026-05-01,NVIDIA H100 SXM,vllm,0.16.0,%s,bf16,agg,no,1,1,1,1,1,%d,512,64,"
        .. "64,%.9g,%.9g,clean"):format(name, c, name, c, times * r.ttft.mean, times * r.tpot.mean)
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

-- Runs of sources whose measured / predicted are these lists.
local function observed(sources, features)
  local list = {}
  for i, ratios in ipairs(sources) do
    for _, ratio in ipairs(ratios) do
      list[#list + 1] = { figure = "time", source = "source " .. i, ratio = 1 / ratio, features = features }
    end
  end
  return list
end

local function steps(count, factor)
  local list = {}
  for i = 1, count do list[i] = factor * math.exp(0.01 * (i - (count + 1) / 2)) end
  return list
end

describe("classes of runs", function()
  it("need twenty runs of three sources", function()
    local features = { software = "typical" }
    assert.same({}, classes.of(observed({ steps(30, 1), steps(30, 1) }, features)))
    assert.same({}, classes.of(observed({ steps(6, 1), steps(6, 1), steps(6, 1) }, features)))
    local made = classes.of(observed({ steps(7, 1), steps(7, 1), steps(6, 1) }, features))
    assert.same({ 1, "time", 20, 3 }, { #made, made[1].figure, made[1].runs, made[1].sources })
    assert.same({ software = "typical" }, made[1].where)
  end)

  it("weigh a source of a thousand runs as one of five", function()
    -- Three sources around 1, 1.2 and 1.44: the last has as much weight as each of the others, so 5 % lie below the
    -- first's middle and 95 % below the last's end, whatever their numbers.
    local few = classes.of(observed({ steps(9, 1), steps(9, 1.2), steps(9, 1.44) }, { software = "own" }))[1]
    local many = classes.of(observed({ steps(9, 1), steps(900, 1.2), steps(9, 1.44) }, { software = "own" }))[1]
    assert.is_true(few.low < 1 and few.high > 1.44)
    assert.is_true(many.low < 1.01 and many.high > 1.43, many.low .. " " .. many.high)
  end)
end)

describe("the errors of serving runs", function()
  it("are those of a model by a fit to the others", function()
    local folder = program.folder()
    program.write(folder .. "/loops.csv", loops())
    local count = { tpot = 0, duration = 0 }
    for _, one in ipairs(served.observed { folder .. "/loops.csv" }) do
      if one.source:find "qwen3" and one.features.machine == "measured" and count[one.figure] then
        count[one.figure] = count[one.figure] + 1
        assert.near(1 / 1.5, one.ratio, 0.02) -- between tabulated values times are taken as linear
        assert.same({ machine = "measured", model = "dense", load = "few" }, one.features)
      end
    end
    assert.same({ tpot = 6, duration = 6 }, count) -- six of eight rows, evenly spread
    program.remove(folder)
  end)
end)

describe("the interval of an answer", function()
  it("is that of the class that narrows down all others, or the widest of those that none does", function()
    local function spread(features) return intervals.of("time", features) end
    local function class(where)
      for _, one in ipairs(intervals.known "time") do
        local same = true
        for name, value in pairs(where) do same = same and one.where[name] == value end
        for name in pairs(one.where) do same = same and where[name] ~= nil end
        if same then return one end
      end
    end
    local node = class { software = "typical", model = "dense", scale = "node" }
    assert.same({ node.low, node.high }, spread { software = "typical", model = "dense", scale = "node" })
    local unlike = class { software = "typical", runs = "unlike" }
    assert.same({ math.min(node.low, unlike.low), math.max(node.high, unlike.high) },
      spread { software = "typical", model = "dense", scale = "node", runs = "unlike" })
    assert.is_nil(spread { software = "nobody's" })
    assert.is_nil(intervals.of("no figure", { software = "typical" }))
  end)

  it("is in the CSV of validate", function()
    local folder = program.folder()
    local rows = {}
    for line in io.lines "spec/data/measured/steps.csv" do rows[#rows < 5 and #rows + 1 or 5] = line end
    program.write(folder .. "/few.csv", table.concat(rows, "\n") .. "\n")
    assert.equal(0, program.ask(("tperf validate %s/few.csv --out %s/out.csv"):format(folder, folder)).code)
    local count = 0
    for line in program.slurp(folder .. "/out.csv"):gmatch "[^\n]+" do
      local predicted, from, to = line:match "([%d.]+),[^,]*,([%d.]+),([%d.]+)$"
      if predicted then assert.is_true(0 + from < 0 + predicted and 0 + predicted < 0 + to, line) end
      count = count + (predicted and 1 or 0)
      assert.is_true(predicted ~= nil or line:find ",predicted,error,from,to$" ~= nil, line)
    end
    assert.is_true(count >= 3, count)
    program.remove(folder)
  end)

  it("is told in words, and of time and memory in JSON", function()
    local command = "tperf train llama-3.1-8b -s h100-sxm -g 8 -b 64 --zero 3"
    assert.matches("90 %% of such runs hold [%d.]+ GB to [%d.]+ GB of memory", program.ask(command).out)
    local c = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 64, zero = 3 }
    local json = program.ask(command .. " --json").out
    local high, low = json:match '"intervals": {%s*"memory": {"high": ([%d.]+), "low": ([%d.]+)},%s*"time": {'
    assert.near(c.intervals.memory.high, tonumber(high), 1)
    assert.near(c.intervals.memory.low, tonumber(low), 1)
    assert.is_true(c.intervals.memory.low < c.memory.total and c.memory.total < c.intervals.memory.high)
  end)
end)
