-- A step of reinforcement learning against closed-form limits: the parts' own questions, sums, and hand counts.
local tperf = require "tperf"

local function question(changes)
  local q = { model = "llama-3.2-1b", system = "h100-sxm", gpus = 8, prompts = 16, samples = 4, prompt = 128,
    response = { mean = 200, cv = 0.8, max = 512 }, train = { zero = 1 }, rollout = {} }
  for name, value in pairs(changes or {}) do q[name] = value end
  return q
end

local function ask(changes) return tperf.rl(question(changes)) end

local function phase(a, name)
  for _, one in ipairs(a.phases) do
    if one.name == name then return one.time end
  end
  return 0
end

local function sum(a)
  local total = 0
  for _, one in ipairs(a.phases) do total = total + one.time end
  return total
end

local function near(expected, got, part)
  assert.is_true(math.abs(got / expected - 1) <= (part or 1e-9), got .. ", not " .. expected)
end

local base = ask()

describe("a step of reinforcement learning", function()
  it("is the sum of its phases (6), and its tokens are those of its rate (14)", function()
    for _, a in ipairs { base, ask { mode = "split" }, ask { staleness = 1 } } do
      near(a.step, sum(a))
      near(64 * (128 + 200), a.tokens_per_second_per_gpu * a.gpus * a.step)
    end
  end)

  it("rolls out equal lengths as one static batch (1), and one response as infer does (15)", function()
    local a = ask { gpus = 1, prompts = 32, samples = 1, response = 256 }
    local served = tperf.serve { model = "llama-3.2-1b", system = "h100-sxm", prompt = 128, output = 256, count = 32,
      load = { concurrency = 32 }, memory_utilization = 0.6 }
    near(served.duration, a.rollout.time)
    assert.is_true(a.rollout.tail < 0.01 * a.rollout.time)
    local one = ask { gpus = 1, prompts = 1, samples = 1, response = 256 }
    local alone = tperf.infer { model = "llama-3.2-1b", system = "h100-sxm", prompt = 128, generate = 256, batch = 1 }
    near(alone.latency, one.rollout.time, 0.15) -- the engine's host times are not in infer
  end)

  it("takes few engines for all: eight times the GPUs and responses take as long", function()
    local one = ask { gpus = 1, prompts = 64, samples = 4, rollout = { max_num_seqs = 64 } }
    local eight = ask { gpus = 8, prompts = 512, samples = 4, rollout = { max_num_seqs = 64 } }
    near(one.rollout.saturated, eight.rollout.saturated, 0.05)
    assert.is_true(eight.rollout.time >= one.rollout.time * 0.999)
    -- equal lengths in engines that never drain: as many seats as responses, one burst after the other
    local steady = ask { gpus = 2, train_gpus = 1, prompts = 16, samples = 4, response = 2048, staleness = 4,
      rollout = { max_num_seqs = 64 } }.rollout
    near(steady.drained, steady.time, 0.15)
    assert.is_true(steady.time <= steady.drained)
  end)

  it("falls with GPUs to what the longest response takes (2)", function()
    local last = math.huge
    for _, gpus in ipairs { 1, 4, 16, 64 } do
      local a = ask { gpus = gpus }
      assert.is_true(a.rollout.time <= last * 1.02)
      last = a.rollout.time
    end
    local one = ask { gpus = 1, prompts = 1, samples = 1, response = 512 }
    assert.is_true(last >= 0.5 * one.rollout.time and last <= 1.3 * one.rollout.time)
  end)

  it("adds pools that take turns (3), and takes the longer of two that do not (4)", function()
    local split, async = ask { mode = "split" }, ask { staleness = 1 }
    near(split.rollout.time + split.training.time + split.refit.time, split.step)
    near(math.max(async.rollout.time, async.training.time) + async.refit.time, async.step)
    near(split.rollout.time / split.step, split.busy.rollout)
    near(split.training.time / split.step, split.busy.training)
    assert.equal(split.step, ask { mode = "async", staleness = 0 }.step)
  end)

  it("does not grow with the staleness (5), which equal lengths gain little from (7)", function()
    local last = math.huge
    for k = 1, 3 do
      local a = ask { staleness = k }
      assert.is_true(a.step <= last)
      last = a.step
    end
    local one, two = ask { staleness = 1, response = 200 }, ask { staleness = 2, response = 200 }
    near(one.step, two.step, 0.1)
  end)

  it("leaves out passes that nobody needs, and sends adapters alone (8)", function()
    local a = ask { ref = false, old = "none" }
    assert.equal(0, phase(a, "old") + phase(a, "ref") + phase(a, "values") + phase(a, "critic"))
    assert.equal(base.training.forward, phase(base, "old"))
    assert.equal(base.training.forward, phase(base, "ref"))
    local critic = ask { algorithm = "ppo" }
    assert.equal(phase(critic, "update"), phase(critic, "critic"))
    local lora = ask { train = { peft = { kind = "lora" } } }
    assert.is_true(lora.refit.bytes < 0.1 * base.refit.bytes)
    local drafts = { speculation = { method = "ngram", tokens = 2, acceptance = 0 } }
    assert.is_true(ask { rollout = { engine = drafts } }.rollout.time >= base.rollout.time)
  end)

  it("updates once for each epoch (9), and the same micro-batches in mini-batches", function()
    near(3 * phase(base, "update"), phase(ask { epochs = 3 }, "update"))
    local halves = ask { mini = 32 }
    assert.equal(2, halves.training.optimizer_steps)
    assert.is_true(halves.training.update >= base.training.update)
  end)

  it("sends weights at a rate whatever the batch (10)", function()
    assert.equal(base.refit.time, ask { prompts = 32 }.refit.time)
    local bytes = 2 * tperf.model "llama-3.2-1b":parameters().total
    near(bytes / 20e9, base.refit.time)
    local sent = ask { staleness = 1, refit = "broadcast" }.refit -- 0.65 of a NIC of 400 Gb/s, whole at best
    near(bytes / (0.65 * 50e9), sent.time)
    near(bytes / 50e9, sent.low)
  end)

  it("computes a prompt once for its samples (11)", function()
    local function at(samples, caching)
      return ask { gpus = 1, prompts = 64 // samples, samples = samples, prompt = 4000, response = 16,
        rollout = { engine = { prefix_caching = caching } } }.rollout.time
    end
    assert.is_true(at(16) < at(16, false)) -- the engines' front ends still read each prompt
    near(at(1, false), at(1), 0.02)
  end)

  it("generates what dynamic sampling throws away (12)", function()
    local a = ask { pass_rate = 0.5 }
    assert.same({ 64, 128 }, { a.responses, a.generated })
    assert.equal(base.training.update, a.training.update)
  end)

  it("waits for tools (13)", function()
    near(base.rollout.time + 2 * 30, ask { turns = 3, tool_time = 30 }.rollout.time)
    near(64 * 2 * 30 / 4, ask { turns = 3, tool_time = 30, sandboxes = 4 }.rollout.time)
    assert.equal("sandbox", ask { turns = 3, tool_time = 30, sandboxes = 4 }.bound)
  end)

  it("updates as tperf.train does, with its memory (15)", function()
    local a = ask { packing = false, response = 128, mode = "split", train_gpus = 4 }
    local c = tperf.train { model = "llama-3.2-1b", system = "h100-sxm", gpus = 4, dp = 4, global_batch = 64, seq = 256,
      zero = 1, loss = "in-place" }
    near(c.time, a.training.update)
    near(c.memory.total, a.memory[2].total)
    assert.is_true(a.training.forward > 0.2 * c.time and a.training.forward < 0.45 * c.time)
  end)

  it("packs by hand counts", function()
    local a = ask { response = 128, tokens_per_gpu = 1024 } -- 64 responses of 256 tokens, four in a bin
    assert.same({ 16, 1024 }, { a.training.micro_batches, a.training.micro_batch_tokens })
  end)

  it("orders modes on eight H100s as they were measured (Qwen3.5-4B: 739, 778 and 1,603 s)", function()
    local function step(train_gpus, prompts)
      return tperf.rl { model = "qwen3.5-4b", system = "h100-sxm", gpus = 8, algorithm = "dapo", prompts = prompts,
        samples = 8, prompt = 150, response = { mean = 25000, max = 40960 }, mini = 4 * prompts,
        train_gpus = train_gpus, staleness = train_gpus and 1, old = train_gpus and "none" or nil,
        park = not train_gpus,
        train = { tp = 2, recompute = "full", offload_optimizer = 1, software = "megatron-bridge-26.08-functional" },
        rollout = { tp = 2, memory_utilization = not train_gpus and 0.7 or nil } }.step
    end
    local colocated, half, quarter = step(nil, 32), step(4, 32), step(6, 30)
    assert.is_true(colocated < half and half < quarter)
  end)

  it("has an interval at least as wide as measured steps were off", function()
    for _, a in ipairs { base, ask { staleness = 1 } } do
      assert.is_true(a.intervals.step.low <= 0.8 * a.step and a.intervals.step.high >= 1.67 * a.step)
    end
  end)

  it("says what it assumed, and gives a range if only the longest is known", function()
    assert.equal(0.6, base.understood.assumed["rollout.memory_utilization"])
    assert.equal(0.8, ask { response = { mean = 200, max = 512 } }.understood.assumed["response.cv"])
    local a = ask { response = { max = 512 } }
    assert.truthy(a.warnings[1]:find("only response.max is known", 1, true))
    assert.is_true(a.intervals.step.low < a.step and a.step < a.intervals.step.high)
  end)

  it("refuses what does not go together, with the field and the remedy", function()
    for _, case in ipairs {
      { { mode = "colocated", staleness = 1 }, "'staleness' 1 does not go with mode", "use mode = \"async\"" },
      { { tokens_per_gpu = 256 }, "'tokens_per_gpu' 256 is below the longest sequence", "give at least that" },
      { { mini = 24 }, "'mini' 24 does not divide", "give a divisor" },
      { { prompts = 15, samples = 1 }, "'prompts' gives 15 responses to 8 replicas", "change it" },
      { { train_gpus = 8, mode = "split" }, "'train_gpus' 8 leaves none", "give 1 to 7" },
      { { train = { seq = 1 } }, "'train.seq' follows from the step", "leave it out" },
      { { rollout = { replicas = 2 } }, "'rollout.replicas' follows from the step", "leave it out" },
      { { response = { mean = 600, max = 512 } }, "'response.mean' 600 is more than response.max", "give the mean" },
      { { response = { mean = 200, clip = 0.5, max = 512 } }, "'response.clip' 0.5", "lower the clip" },
      { { gpus = 6, prompts = 24, rollout = { tp = 4 } }, "'rollout' has engines of 4 GPUs", "change train_gpus" },
    } do
      local done, message = pcall(ask, case[1])
      assert.is_false(done)
      for i = 2, 3 do assert.truthy(tostring(message):find(case[i], 1, true), message) end
    end
  end)

  it("cuts so many responses as were said", function()
    local lengths = require "tperf.question.rl.lengths"
    local r = lengths.of({ mean = 300, clip = 0.25, max = 512 }, {})
    local cut, total = 0, 0
    for i = 1, 2000 do
      local n = r.of((i - 0.5) / 2000)
      cut, total = cut + (n >= 512 and 1 or 0), total + n
    end
    near(0.25, cut / 2000, 0.01)
    near(300, total / 2000, 0.005)
  end)
end)

describe("a table of measured steps", function()
  local program = require "program"
  local COLUMNS <const> = "id,date,source,algorithm,mode,staleness_k,model_hf,gpu,gpus_total,gpus_train,train_backend,"
    .. "train_tp,zero_fsdp_offload,gen_engine,gen_tp,prompts_per_step,samples_per_prompt,prompt_len_mean,"
    .. "resp_len_mean,resp_len_max,clip_ratio,mini_micro_budget,kl_ref,step_s,gen_s,gen_kind,logprob_s,update_s,"
    .. "quality,tokens_per_step\n"
  local ROWS <const> = "a,2026-04,mine,GRPO,colocated,0,llama-3.2-1b,H100,8,8,FSDP2,,,vLLM,1,16,4,128,200,512,,"
    .. "\"T-GBS 32; packing on, 640 tok/bin\",no,10,4,full,1,2,A\n"
    .. "b,2026-02,mine,GRPO,async,2,llama-3.2-1b,H100,8,4,"
    .. "\"Megatron-Core, LoRA r16\",2,full recompute,SGLang,2,16,4,128,200,512,,,ref pass,"
    .. "9,3,wait,,,B\nc,,mine,GRPO,colocated,0,llama-3.2-1b,H100,8,8,,,\"offload\",,,16,4,128,,512,,,,9,,,,,B\n"
    .. "d,,mine,GRPO,colocated,0,llama-3.2-1b,H100,8,8,,,,,,16,4,128,200,512,,,,9,,,,,C\n"
    .. "e,,mine,GRPO,colocated,0,llama-3.2-1b,H100,8,8,FSDP2,,,,,,,128,22,512,,,,9,,,,,B,9600\n"
    .. "f,,mine,GRPO,colocated,0,llama-3.2-1b,H100,,8,FSDP2,,,,,16,4,128,22,512,,,,9,,,,,B\n"

  it("is predicted row by row, as somebody asks who has read it", function()
    local path = os.tmpname() .. ".csv"
    program.write(path, COLUMNS .. ROWS)
    local r = tperf.validate { file = path }
    os.remove(path)
    local found = {}
    for _, case in ipairs(r.cases) do found[case.label .. " " .. case.metric] = case end
    local q = question { samples = 4, mini = 32, tokens_per_gpu = 640, ref = false, mode = "colocated", park = false,
      response = { mean = 200, max = 512 }, train = { zero = 3 }, rollout = { tp = 1 } }
    local a = tperf.rl(q)
    near(a.step, found["a step_s"].predicted)
    near(a.rollout.drained, found["a gen_s"].predicted)
    near(phase(a, "old"), found["a logprob_s"].predicted)
    near(phase(a, "update"), found["a update_s"].predicted)
    near(a.intervals.step.high, found["a step_s"].spread[2] * a.step)
    assert.is_nil(found["b gen_s"]) -- only what the trainer waited for
    local b = tperf.rl(question { mode = "async", staleness = 2, train_gpus = 4, response = { mean = 200, max = 512 },
      train = { zero = 1, tp = 2, recompute = "full", software = "megatron-bridge-26.08-functional",
        peft = { kind = "lora", rank = 16 } },
      rollout = { tp = 2, software = "sglang-0.5.5" } }) -- an engine of three months before
    near(b.step, found["b step_s"].predicted)
    local reasons = {}
    for i, left in ipairs(r.left_out) do reasons[i] = left.reason end
    table.sort(reasons)
    assert.same({ "gpus_total is not given", "quality C" }, reasons)
    -- of a longest response alone a range; of tokens of a step the mean, and how many prompts there are
    local c = tperf.rl(question { mode = "colocated", response = { max = 512 }, train = { zero = 1 }, rollout = {} })
    near(c.step, found["c step_s"].predicted)
    near(c.intervals.step.low, found["c step_s"].spread[1] * c.step)
    local e = tperf.rl(question { mode = "colocated", park = false, prompts = 64, samples = 1, train = { zero = 3 },
      response = { mean = 22, max = 512 }, rollout = {} })
    near(e.step, found["e step_s"].predicted)
  end)
end)
