-- The lower bound on an iteration's time against simulations, and searches that simulate.
local cases = require "cases"
local picker = require "picker"
local tperf = require "tperf"
local program = require "program"

local SEED <const>, CASES <const> = 9119, cases(80, 2000)
local SCHEDULES = { "1f1b", "gpipe", "interleaved_1f1b", "1f1b_overlap", "interleaved_1f1b_overlap", "zb1p", "dualpipe",
  "dualpipe_v" }

-- 1F1B as a script would write it: no closed form.
local function own_1f1b(s)
  for d = 1, s.devices do
    local ahead = math.min(s.devices - d, s.microbatches)
    for m = 1, ahead do s:forward(d, d, m) end
    for m = 1, s.microbatches - ahead do
      s:forward(d, d, m + ahead)
      s:backward(d, d, m)
    end
    for m = s.microbatches - ahead + 1, s.microbatches do s:backward(d, d, m) end
  end
end

tperf.schedule.define("rerank_own", own_1f1b)

local SMALL = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 16, global_batch = 32, top = 5, pp = { 2, 4 } }

local function ask(change)
  local question = {}
  for name, value in pairs(SMALL) do question[name] = value end
  for name, value in pairs(change) do question[name] = value end
  return tperf.search(question)
end

describe("the lower bound of an iteration", function()
  it("is below the simulation, whatever the stages are like", function()
    local pick, tight = picker(SEED), 0
    for _ = 1, CASES do
      local pp, dp, micro_batch, schedule = pick { 2, 4, 8 }, pick { 1, 2, 8 }, pick { 1, 2 }, pick(SCHEDULES)
      local c = tperf.train {
        model = { name = "spec", layers = pick { 32, 30, 34, 61 }, hidden = pick { 2048, 4096 }, heads = 32,
          ffn = 11008, seq = 2048, vocab = pick { 32000, 128256 } },
        system = "h100-sxm", pp = pp, dp = dp, tp = pick { 1, 2, 8 }, micro_batch = micro_batch,
        zero = pick { 0, 1, 2, 3 }, recompute = pick { "none", "full" }, schedule = schedule,
        virtual_stages = schedule:find "interleaved" and pick { 2, 3 } or nil, software = pick { "none", "typical" },
        global_batch = dp * micro_batch * pp * pick { 2, 4, 8 }, simulate = true,
      }
      assert.is_true(c.least_time <= c.simulated.time, ("%s pp %d zero %d"):format(schedule, pp, c.zero))
      if c.least_time > 0.9 * c.simulated.time then tight = tight + 1 end
    end
    assert.is_true(tight > CASES / 2)
  end)

  it("is below the simulation of a custom schedule", function()
    local pick = picker(SEED + 1)
    for _ = 1, cases(20, 100) do
      local c = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", tp = pick { 1, 4 }, pp = pick { 2, 4, 8 },
        dp = 2, zero = pick { 0, 1, 2, 3 }, global_batch = 64, schedule = "rerank_own" }
      assert.is_true(c.least_time <= c.simulated.time)
    end
  end)
end)

describe("tperf.search with simulate", function()
  it("finds what simulating every candidate finds", function()
    local asked = { schedule = { "1f1b", "interleaved_1f1b" }, recompute = "none", tp = { 2, 4 }, placement = "best" }
    local function with(change)
      for name, value in pairs(asked) do change[name] = value end
      return change
    end
    local all, simulated = ask(with { keep = "all" }), {}
    for _, c in ipairs(all) do
      if c.feasible then
        local one = tperf.train { model = SMALL.model, system = SMALL.system, configuration = c, simulate = true }
        simulated[#simulated + 1] = one.simulated.time
      end
    end
    table.sort(simulated)
    assert.is_true(#simulated > 50)
    local found = ask(with { simulate = true })
    assert.is_true(found.proven)
    assert.equal(5, #found)
    for i, c in ipairs(found) do
      assert.near(simulated[i], c.simulated.time, 1e-12 * simulated[i])
      assert.is_true(c.least_time <= c.simulated.time)
    end
  end)

  it("finds nothing better than the closed form does if the chunks are left open", function()
    local dense, sparse = { "llama-3.1-70b", 256 }, { "mixtral-8x7b", 128 }
    for _, one in ipairs(cases({ dense, sparse }, { dense, { "llama-3.1-405b", 1024 }, { "gpt3-175b", 512 },
      { "deepseek-v3", 1024 }, sparse })) do
      local question = { model = one[1], system = "h100-sxm", gpus = one[2], global_batch = 4 * one[2], top = 8 }
      local closed = tperf.search(question)
      for _, c in ipairs(closed) do
        local t = tperf.train { model = one[1], system = "h100-sxm", configuration = c, simulate = true }.simulated.time
        assert.near(t, c.time, 0.015 * t, one[1]) -- 1.2 % where interleaved chunks wait for experts
      end
      question.simulate, question.top = true, 1
      local best = tperf.search(question)
      assert.is_true(best.proven)
      assert.near(best[1].simulated.time, closed[1].time, 0.01 * closed[1].time, one[1])
    end
  end)

  it("changes the order if stages differ", function()
    -- 80 GB beside what the context and the allocator take
    local system = tperf.system("h100-sxm"):with { accelerator = { hbm = { capacity = 80e9 * 1.05 + 1.5 * 2 ^ 30 } } }
    local question = { model = "llama-3.1-70b", system = system, gpus = 256, global_batch = 512, top = 3, tp = 4,
      software = "none", virtual_stages = { 2, 3, 4, 6, 8 }, overlap_p2p = false, placement = "best" }
    question.simulate = false
    local closed = tperf.search(question)
    question.simulate = nil -- chunks that differ by more than a tenth are simulated unless one declines
    local found = tperf.search(question)
    assert.is_true(found.proven)
    assert.equal("interleaved_1f1b", closed[1].schedule) -- 80 layers on 48 stages: 2 on some, 1 on others
    assert.equal("1f1b", found[1].schedule)
    local again = tperf.train { model = question.model, system = question.system, configuration = closed[1],
      simulate = true, software = "none" }
    assert.is_true(again.simulated.time > found[1].time)
  end)

  it("ranks a custom copy of a built-in schedule like the original", function()
    local own, built_in = ask { schedule = "rerank_own", pp = 4 }, ask { schedule = "1f1b", simulate = true, pp = 4 }
    assert.equal(#built_in, #own)
    assert.is_true(own.proven)
    for i, c in ipairs(own) do
      local other, parts = built_in[i], 0
      assert.near(other.simulated.time, c.time, 1e-12 * c.time)
      assert.same({ other.tp, other.dp, other.micro_batch, other.recompute },
        { c.tp, c.dp, c.micro_batch, c.recompute })
      assert.near(other.memory.total, c.memory.total, 1e-9 * c.memory.total)
      for _, seconds in pairs(c.breakdown) do parts = parts + seconds end
      assert.near(c.time, parts, 1e-9 * c.time)
      local alone = tperf.train { model = SMALL.model, system = SMALL.system, configuration = c, explain = true }
      assert.near(c.time, alone.time, 1e-12 * c.time)
      assert.near(c.time, alone.sum[#alone.sum].seconds, 1e-9 * c.time)
    end
  end)

  -- A copy of a schedule with a closed form must say what the original says.
  it("knows what each device of a custom schedule holds, and what would make it fit", function()
    for _, change in ipairs { {}, { zero = 3 }, { recompute = "full" }, { micro_batch = 2 } } do
      local question = { model = "llama-3.1-70b", system = "h100-sxm", tp = 2, pp = 4, dp = 2, global_batch = 64 }
      for name, value in pairs(change) do question[name] = value end
      question.schedule = "1f1b"
      local built_in = tperf.train(question)
      question.schedule = "rerank_own"
      local own = tperf.train(question)
      assert.equal(#built_in.stages, #own.stages)
      for i, stage in ipairs(built_in.stages) do
        local other = own.stages[i]
        assert.same({ stage.device, stage.repeats, stage.layers, stage.in_flight },
          { other.device, other.repeats, other.layers, other.in_flight })
        for name, bytes in pairs(stage.memory) do
          assert.near(bytes, other.memory[name], 1e-9 * stage.memory.total, name)
        end
      end
      assert.equal(built_in.reason, own.reason)
    end
  end)

  it("simulates pipelines whose chunks differ by more than a tenth", function()
    local question = { model = "llama-3.1-8b", system = "h100-sxm", pp = 8, dp = 2, global_batch = 64,
      software = "none", schedule = "interleaved_1f1b", virtual_stages = 3 } -- 32 layers in 24 chunks
    local c = tperf.train(question)
    assert.equal(c.simulated.time, c.time)
    assert.equal(c.memory.peak.total, c.memory.total)
    local found = tperf.search { model = question.model, system = question.system, gpus = 16, pp = 8, dp = 2, tp = 1,
      global_batch = 64, software = "none", schedule = "interleaved_1f1b", virtual_stages = 3, micro_batch = 1,
      zero = 1, recompute = "none", top = 1 }[1]
    assert.same({ c.time, c.memory.total }, { found.time, found.memory.total })
    question.virtual_stages = 2
    assert.is_nil(tperf.train(question).simulated)
    local dealt = tperf.train { model = "deepseek-v3", system = "h100-sxm", pp = 16, virtual_stages = 2, ep = 64,
      dp = 64, global_batch = 4096, recompute = "full", schedule = "interleaved_1f1b",
      pipeline_layout = "Et*3|(tt|)*29m|L" } -- as Megatron-LM's recipe deals it out
    assert.same({ dealt.simulated.time, dealt.memory.peak.total }, { dealt.time, dealt.memory.total })
  end)

  it("says that it counts by bounds what it does not simulate", function()
    local found = tperf.search { model = "llama-3.1-70b", system = "h100-sxm", gpus = 16, tp = 2, pp = 4,
      global_batch = 64, schedule = "rerank_own" }
    assert.is_true(found.bounds)
    assert.truthy(found.reason:find "needs at least [%d.]+ GB", found.reason)
    assert.is_nil(ask { schedule = "1f1b", simulate = true }.bounds)
  end)

  it("refuses questions that only a closed form can answer", function()
    local function refuses(text, change)
      local ok, message = pcall(ask, change)
      assert.is_false(ok)
      assert.truthy(message:find(text, 1, true), message)
      assert.truthy(message:find("rerank_spec.lua:", 1, true), message)
    end
    refuses("keep = \"all\" ranks by the closed form", { simulate = true, keep = "all" })
    refuses("schedule 'zbv' has no closed form: only simulation can rank it", { schedule = "zbv", simulate = false })
    refuses("unknown schedule \"zbw\"", { schedule = "zbw" })
  end)

  it("is an option of the program", function()
    local out = program.ask "tperf search llama-3.1-8b -s h100-sxm -g 16 -b 32 --tp 2 --pp 4 --top 2 --simulate"
    assert.equal("", (out.err:gsub("%d+ candidates, %d+ feasible\n", "")))
    assert.truthy(out.out:find("simulated", 1, true))
  end)
end)
