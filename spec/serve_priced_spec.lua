-- tperf.serve with steps priced from a model on a system: static batches against tperf.infer, mixed batches, host time,
-- the number of blocks.
local program = require "program"
local tperf = require "tperf"

local function batch_of(n, prompt, output)
  local list = {}
  for i = 1, n do list[i] = { arrival = 0, prompt = prompt, output = output } end
  return list
end

-- An engine that adds nothing to its kernels.
local PLAIN = { name = "plain", compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 0,
  engine = { release = "0", scheduler = "vllm" } }

local function question(more)
  local q = { model = "llama-3.1-8b", system = "h100-sxm", requests = batch_of(1, 512, 200), host = {},
    software = PLAIN, sampling = "none" }
  for name, value in pairs(more or {}) do q[name] = value end
  return q
end

-- The mean time per output token of a question, changed by `more`.
local function tpot_of(asked, more)
  for name, value in pairs(more or {}) do asked[name] = value end
  return tperf.serve(question(asked)).tpot.mean
end

local function near(want, got, within)
  assert.truthy(math.abs(got / want - 1) <= within, ("%g is not within %g of %g"):format(got, within, want))
end

local function refused(more, message)
  local ok, raised = pcall(function() return tperf.serve(question(more)) end)
  assert.is_false(ok)
  assert.truthy(raised:find(message, 1, true), raised)
  assert.truthy(raised:find("^spec/serve_priced_spec.lua:%d+: tperf%.serve"), raised)
end

-- TTFT and TPOT of a model whose layers are one small op of a script, which reads more the more keys its tokens see.
local function own_op(fields)
  local block = tperf.block("own", function(_, p)
    local o = { forward = { bytes = 1e6 * p.micro_batch * (1 + p.context / 1e2) } }
    for name, value in pairs(fields) do o[name] = value end
    return { tperf.op.custom(o) }
  end)
  local architecture = tperf.architecture { name = "own", layer = { block } }
  local model = tperf.model("llama-3.1-8b"):with { architecture = architecture }
  local r = tperf.serve(question { model = model, requests = batch_of(1, 512, 200), software = "sglang-0.5" })
  return r.ttft.mean, r.tpot.mean
end

describe("the tables of steps", function()
  it("give requests of known lengths what tables for requests of any length give", function()
    for _, length in ipairs { 300, 1000, 5000 } do
      local function of(prompt)
        local q = question { prompt = prompt, output = 40, count = 30, load = { concurrency = 8 } }
        q.requests = nil
        local r = tperf.serve(q)
        return { r.tpot.mean, r.ttft.mean, r.e2e.mean }
      end
      assert.same(of { lognormal = { median = length, sigma = 0 } }, of(length))
      local few, more = batch_of(3, length, 40), batch_of(3, length, 40)
      more[4] = { arrival = 1e4, prompt = 100000, output = 2 }
      local alone = tperf.serve(question { requests = few, keep = "requests" }).requests
      local before = tperf.serve(question { requests = more, keep = "requests" }).requests
      for i, r in ipairs(alone) do
        assert.same({ r.first_token, r.last_token }, { before[i].first_token, before[i].last_token })
      end
    end
  end)
end)

describe("an op of a script", function()
  it("is priced by what it says of itself, not by its name", function()
    local ttft, tpot = own_op { name = "mine" }
    for _, name in ipairs { "attention", "residual", "dispatch", "kv-up", "rule", "select" } do
      assert.same({ ttft, tpot }, { own_op { name = name } }, name)
    end
    assert.same({ ttft, tpot }, { own_op { name = "mine", by_keys = true } })
  end)
end)

-- Bytes of a step as a function of the keys that its token sees, and how nearly tables give the mean of many steps.
local FUNCTIONS = {
  { "all keys", function(k) return 1e5 * k end, 0.002 },
  { "a window of 512", function(k) return 1e5 * math.min(k, 512) end, 0.002 },
  { "at most 1300 keys", function(k) return 1e5 * math.min(k, 1300) end, 0.002 },
  { "an update every 64th token", function(k) return k % 64 == 0 and 5e9 or 1e7 end, 0.005 },
  { "chunks of 700", function(k) return 1e5 * (k % 700) end, 0.002 },
  { "k log k", function(k) return 1e4 * k * math.log(k) end, 0.005 },
}

describe("a script's block", function()
  for _, case in ipairs(FUNCTIONS) do
    it("decodes with " .. case[1] .. " as tperf.infer sums it", function()
      local block = tperf.block("own", function(_, p)
        local bytes = p.mode == "decode" and case[2](p.context + p.seq) or 1e6
        return { tperf.op.custom { name = "f", forward = { bytes = bytes * p.micro_batch } } }
      end)
      local model = tperf.model("llama-3.1-8b"):with {
        architecture = tperf.architecture { name = "own", layer = { block } },
      }
      for _, batch in ipairs { 1, 5 } do
        local r = tperf.serve(question { model = model, requests = batch_of(batch, 512, 1601) })
        local static = tperf.infer { model = model, system = "h100-sxm", prompt = 512, generate = 1601, batch = batch }
        near(static.tpot, r.tpot.mean, case[3])
      end
    end)
  end
end)

describe("a priced step", function()
  it("matches tperf.infer for one request", function()
    for _, c in ipairs {
      { "llama-3.1-8b", "h100-sxm", 1 }, { "llama-3.1-70b", "h100-sxm", 4 }, { "mixtral-8x7b", "a100-sxm-80gb", 4 },
      { "deepseek-v2", "h200-sxm", 8 }, { "gpt-oss-20b", "h100-sxm", 1 }, { "mamba2-2.7b", "h100-sxm", 1 },
    } do
      local o = { model = c[1], system = c[2], tp = c[3], requests = batch_of(1, 512, 200), host = {},
        software = PLAIN, sampling = "none" }
      local r = tperf.serve(o)
      o.requests, o.host, o.software, o.sampling, o.prompt, o.generate = nil, nil, nil, nil, 512, 200
      local static = tperf.infer(o)
      near(static.ttft, r.ttft.mean, 0.02)
      near(static.tpot, r.tpot.mean, 0.002)
    end
  end)

  it("matches tperf.infer for a batch that starts at once", function()
    local r = tperf.serve(question { requests = batch_of(64, 128, 300) })
    local static = tperf.infer { model = "llama-3.1-8b", system = "h100-sxm", prompt = 128, generate = 300, batch = 64,
      prefill_batch = 64 }
    near(static.ttft, r.ttft.mean, 0.02)
    near(static.tpot, r.tpot.mean, 0.005)
  end)

  it("pads a batch to the size of a CUDA graph", function()
    local function tpot(n) return tperf.serve(question { requests = batch_of(n, 1, 2) }).tpot.mean end
    local nine, sixteen, seventeen = tpot(9), tpot(16), tpot(17)
    assert.truthy(sixteen - nine < 0.01 * nine) -- only attention and the head depend on the actual number
    assert.truthy(seventeen > sixteen)
  end)

  it("charges prefills by pairs, decodes by their context", function()
    local function longest(requests, chunk)
      local r = tperf.serve(question { requests = requests, keep = "steps",
        engine = { max_num_batched_tokens = chunk } })
      local list = {}
      for i, step in ipairs(r.steps) do list[i] = step.duration end
      return list
    end
    local chunks = longest(batch_of(1, 65536, 1), 8192)
    local growth = chunks[8] - chunks[7]
    assert.equal(8, #chunks)
    near(growth, chunks[7] - chunks[6], 0.05) -- 8192 x 8192 more pairs each time
    -- 4 x 8192^2 x 4096 FLOP in 32 layers, at 60 to 90 % of 989 TFLOP/s
    local flops = 4.0 * 8192 ^ 2 * 4096 * 32
    assert.truthy(growth > flops / 989e12 / 0.9 and growth < flops / 989e12 / 0.5, growth)
  end)

  it("lets one long chunk and a few decodes share a step", function()
    local requests = batch_of(4, 100, 100)
    requests[5] = { arrival = 0.1, prompt = 4000, output = 2 }
    local r = tperf.serve(question { requests = requests, keep = "steps" })
    local mixed, alone
    for _, step in ipairs(r.steps) do
      if step.prefills == 1 and step.decodes == 4 then mixed = step.duration end
      if step.decodes == 4 and step.prefills == 0 then alone = step.duration end
    end
    local prompt = tperf.infer { model = "llama-3.1-8b", system = "h100-sxm", prompt = 4000, generate = 1 }.ttft
    assert.truthy(mixed > prompt and mixed < prompt + alone, mixed)
  end)

  it("adds the host's time to each step, request and token", function()
    local base = tperf.serve(question { requests = batch_of(3, 512, 11) })
    local host = tperf.serve(question { requests = batch_of(3, 512, 11), host = { step = "1 ms", request = 1e-5,
      token = 1e-6 } })
    local steps, requests, tokens = 11, 33, 3 * (512 + 10)
    near(base.duration + steps * 1e-3 + requests * 1e-5 + tokens * 1e-6, host.duration, 1e-6)
  end)

  local function engine(more, own)
    local profile = { engine = { scheduler = "vllm", release = "0" } }
    for name, value in pairs(own or {}) do profile.engine[name] = value end
    for name, value in pairs(PLAIN) do profile[name] = profile[name] or value end
    for name, value in pairs(more) do profile[name] = value end
    return profile
  end

  it("adds the time for several GPUs from the engine's profile", function()
    local function duration(tp, profile)
      local q = question { tp = tp, requests = batch_of(1, 512, 11), software = profile }
      q.host = nil
      return tperf.serve(q).duration
    end
    local slow = engine({}, { step = 1e-3, step_parallel = 2e-3 })
    near(duration(1, PLAIN) + 11e-3, duration(1, slow), 1e-9)
    near(duration(2, PLAIN) + 33e-3, duration(2, slow), 1e-9)
  end)

  -- 32 layers of 10 kernels: launched one by one in 32 ms, which is more than a prompt's kernels take.
  it("is no faster than its launches without a graph", function()
    local function ttft(prompt, scheduler, host, captured)
      return tperf.serve(question { requests = batch_of(1, prompt, 2),
        engine = { max_cudagraph_capture_size = captured },
        software = engine({ host = host }, { scheduler = scheduler }) }).ttft.mean
    end
    for _, scheduler in ipairs { "sglang", "tensorrt-llm" } do
      -- norm, qkv, rotary, attention, proj, norm, fc1, silu, fc2
      near(32 * 9 * 1e-4, ttft(400, scheduler, 3e-4) - ttft(400, scheduler, 2e-4), 1e-6)
    end
    assert.equal(ttft(400, "vllm", 0), ttft(400, "vllm", 1e-4)) -- padded to a graph of 400 tokens
    assert.truthy(ttft(600, "vllm", 1e-4) > ttft(600, "vllm", 0))
    assert.equal(ttft(600, "vllm", 0, 1024), ttft(600, "vllm", 1e-4, 1024))
    assert.truthy(ttft(400, "vllm", 1e-4, 256) > ttft(400, "vllm", 0, 256))
    local decodes = tperf.serve(question { software = engine({ host = 1e-4 }, { scheduler = "sglang" }) })
    near(tperf.serve(question { software = engine({}, { scheduler = "sglang" }) }).tpot.mean, decodes.tpot.mean, 1e-9)
  end)

  -- vLLM's graphs were of decodes alone (decode_only in its model_runner.py) until V1.
  it("launches the kernels of prompts in releases whose graphs are of decodes alone", function()
    local function steps(software, settings)
      local r = tperf.serve { model = "llama-3.1-8b", system = "h100-sxm", software = software, engine = settings,
        prompt = 100, output = 3, count = 1, load = { rate = 1 }, keep = "steps" }
      return r.steps[1].duration, r.steps[2].duration
    end
    for software, graphs in pairs { ["vllm-0.2"] = false, ["vllm-0.6"] = false, ["vllm-0.11"] = true } do
      local prompt, decode = steps(software)
      local eager_prompt, eager_decode = steps(software, { max_cudagraph_capture_size = 0 })
      assert.equal(graphs, eager_prompt > 1.01 * prompt, software)
      if software ~= "vllm-0.2" then assert.truthy(eager_decode > 1.5 * decode, software) end
    end
  end)

  it("launches what routing, latent attention and narrow products take beside their own kernels", function()
    local function launches(asked)
      local function ttft(host)
        asked.software, asked.requests = engine({ host = host }, { scheduler = "sglang" }), batch_of(1, 400, 2)
        return tperf.serve(question(asked)).ttft.mean
      end
      return (ttft(2e-3) - ttft(1e-3)) / 1e-3
    end
    -- qkv, proj, fc1 and fc2 quantise their input
    near(32 * 13, launches { weight_dtype = "fp8", compute_dtype = "fp8" }, 1e-6)
    near(32 * 9, launches { weight_dtype = "fp8", compute_dtype = "bf16" }, 1e-6)
    -- norm, router, dispatch (3), fc1, silu, fc2, combine and sum in place of norm, fc1, silu, fc2
    local oss = { model = "gpt-oss-20b", system = "h100-sxm" }
    near(24 * 15, launches(oss), 1e-6)
    oss.system = "b200-sxm" -- whose experts' products take 8 bits, and no others
    near(24 * 17, launches(oss), 1e-6)
    -- one down for q and kv; of each norm and up; keys of two parts (2); rotary, attention, proj and two norms; three
    -- layers are dense
    local latent = { model = "deepseek-v3", system = "b200-sxm", tp = 16, weight_dtype = "bf16",
      compute_dtype = "bf16" }
    near(3 * (12 + 3) + 58 * (12 + 11), launches(latent), 1e-6)
  end)

  it("runs experts in Triton if asked to, where the system has a curve for that", function()
    local function ttft(machine, experts, software)
      return tperf.serve(question { model = "qwen3-30b-a3b", system = machine, requests = batch_of(16, 512, 2),
        experts = experts, software = software }).ttft.mean
    end
    assert.truthy(ttft("h200-sxm", "portable") > 1.5 * ttft "h200-sxm")
    assert.equal(ttft("h200-sxm", "grouped"), ttft "h200-sxm")
    local old = engine({}, { portable_experts = { "bf16" } }) -- a release without better ones
    assert.equal(ttft("h200-sxm", "portable"), ttft("h200-sxm", nil, old))
    assert.equal(ttft "h200-sxm", ttft("h200-sxm", "grouped", old))
    assert.equal(ttft "mi300x", ttft("mi300x", "portable"))
  end)

  it("uses an engine's own kernels if its profile names them", function()
    local function tpot(settings, more)
      return tpot_of({ model = "llama-3.1-8b", system = "b200-sxm", kv_dtype = "fp8", requests = batch_of(64, 64, 64),
        software = engine({}, settings) }, more)
    end
    local apart = tpot {}
    assert.truthy(tpot { fused_casts = { "Blackwell" } } < 0.97 * apart)
    assert.equal(apart, tpot { fused_casts = { "Hopper" } })
    local oss = { model = "gpt-oss-20b", system = "h100-sxm", kv_dtype = "bf16" }
    -- 24 layers of two products of experts
    near(24 * 2 * 30e-6, tpot({ experts_setup = 50e-6 }, oss) - tpot({ experts_setup = 20e-6 }, oss), 0.02)
  end)

  it("runs experts in fused kernels where engine, system and question have them", function()
    local function tpot(fused, more)
      return tpot_of({ model = "qwen3-30b-a3b", system = "b200-sxm", weight_dtype = "fp8", compute_dtype = "fp8",
        requests = batch_of(16, 32, 32), software = engine({}, { fused_experts = fused }) }, more)
    end
    local grouped, fused = tpot {}, tpot { "fp8" }
    assert.truthy(fused < 0.97 * grouped, fused / grouped)
    assert.equal(grouped, tpot { "bf16" }) -- another dtype
    assert.equal(grouped, tpot({ "fp8" }, { experts = "grouped" }))
    assert.equal(fused, tpot({}, { experts = "fused" }))
    local hopper = { system = "h100-sxm" } -- without a curve of fused kernels
    assert.equal(tpot({}, hopper), tpot({ "fp8" }, hopper))
    local function oss(experts) -- whose 4-bit weights have kernels of their own
      return tperf.serve(question { model = "gpt-oss-20b", system = "b200-sxm", requests = batch_of(16, 32, 32),
        experts = experts }).tpot.mean
    end
    assert.equal(oss "grouped", oss "fused")
  end)

  it("adds what a release takes for a block of experts in 8 or 4 bits", function()
    local function tpot(step, more)
      return tpot_of({ model = "qwen3-30b-a3b", system = "b200-sxm", weight_dtype = "fp8", compute_dtype = "fp8",
        requests = batch_of(16, 32, 32), software = engine({}, { experts_step = { fp8 = step } }) }, more)
    end
    near(48 * 40e-6, tpot(60e-6) - tpot(20e-6), 1e-3) -- 48 layers
    assert.truthy(tpot(20e-6) > tpot(0))
    local four = { weight_dtype = "fp4", compute_dtype = "fp4" }
    assert.equal(tpot(0, four), tpot(60e-6, four))
    local wide = { weight_dtype = "bf16", compute_dtype = "bf16" }
    assert.equal(tpot(0, wide), tpot(60e-6, wide))
    local function oss(step) -- whose 4-bit weights have kernels of their own
      return tperf.serve(question { model = "gpt-oss-20b", system = "b200-sxm", requests = batch_of(16, 32, 32),
        software = engine({}, { experts_step = { fp8 = step } }) }).tpot.mean
    end
    assert.equal(oss(0), oss(60e-6))
  end)

  it("stores routed experts as the checkpoint does, and multiplies them in a separate dtype", function()
    local function gpt_oss(more)
      more.model, more.system = "gpt-oss-20b", "h100-sxm"
      return tperf.serve(question(more))
    end
    local function many(more)
      more.requests = batch_of(32, 16, 16) -- which touch all experts
      return gpt_oss(more)
    end
    local wide, narrow = many { weight_dtype = "bf16" }, many {} -- as its checkpoint has them
    local all = many { weight_dtype = "fp4", kv_dtype = "bf16" }
    assert.truthy(narrow.tpot.mean < wide.tpot.mean and narrow.tpot.mean > all.tpot.mean)
    -- 24 layers of 32 experts of 3 x 2,880 x 2,880 weights, each of 4 bits and a 32nd of a byte of scale
    near(24 * 32 * 3 * 2880 * 2880 * (1.5 - 1 / 32), wide.memory.weights - narrow.memory.weights, 1e-3)
    local ok, raised = pcall(gpt_oss, { compute_dtype = "fp4" })
    assert.is_false(ok)
    assert.truthy(raised:find("accelerator.tensor.fp4", 1, true), raised)
  end)

  it("gives figures the intervals of classes of runs, as training gives a step's time", function()
    local of = require "tperf.describe.intervals".of
    local function within(figure, value, where, range)
      local part = of(figure, where)
      near(part[1] * value, range.low, 1e-12)
      near(part[2] * value, range.high, 1e-12)
    end
    local profile = engine { spread = { 0.9, 1.25 } }
    local where = { machine = "measured", model = "dense", load = "few" }
    local function asked(load)
      return tperf.serve { model = "llama-3.1-8b", system = "h100-sxm", software = profile, sampling = "none",
        host = {}, prompt = 512, output = 200, count = 8, load = load }
    end
    local r = asked { concurrency = 2 }
    within("tpot", r.tpot.mean, where, r.intervals.tpot)
    within("ttft", r.ttft.mean, where, r.intervals.ttft)
    within("duration", r.duration, where, r.intervals.duration)
    near(r.throughput * r.duration, r.intervals.throughput.low * r.intervals.duration.high, 1e-9)
    assert.same(r.intervals.tpot, r.interval)
    assert.is_nil(asked({ rate = 0.1 }).intervals.throughput) -- arrivals decide it
    assert.is_nil(tperf.serve(question {}).interval) -- nobody compared this profile with runs
  end)

  it("is less sure of machines of which only the data sheet is known", function()
    local profile = engine { spread = { 0.9, 1.25 } }
    local bare = tperf.system "h100-sxm":with { accelerator = { compute_efficiency = 0.8 } }
    local r, sheet = tperf.serve(question { software = profile }), tperf.serve(question { software = profile,
      system = bare })
    for _, name in ipairs { "tpot", "ttft" } do
      local known, other = r.intervals[name], sheet.intervals[name]
      assert.is_true(other.high / other.low > known.high / known.low, name)
    end
  end)

  it("says, as training does, if no run of the engine resembled the question", function()
    local function warnings(changes)
      changes.spread = { 0.9, 1.25 }
      return tperf.serve(question { software = engine(changes) }).warnings
    end
    assert.same({}, warnings {})
    assert.same({}, warnings { systems = { "a100-sxm-80gb", "h100-sxm" }, generations = { "Ampere", "Hopper" } })
    local other = warnings { systems = { "a100-sxm-80gb" }, generations = { "Ampere" } }
    assert.equal(1, #other)
    assert.matches("^no run of .* on h100%-sxm was compared, nor on any of its generation, Hopper$", other[1])
    assert.is_nil(tperf.serve(question {}).warnings)
    local seen = program.ask "tperf serve gpt2 -s mi300x --rate 1 --count 2 --prompt 10 --output 4 --software vllm-0.15"
    assert.equal(0, seen.code)
    assert.truthy(seen.err:find("no run of vllm-0.15 on mi300x was compared", 1, true))
  end)

  it("adds the front end to the latencies that clients see, and to nothing else", function()
    local function ask(host, limit)
      return tperf.serve(question { requests = batch_of(40, 512, 50), host = host, keep = "steps",
        slo = { ttft = limit } })
    end
    local limit = ask({}, 1).ttft.p50 + 0.01
    local without, with = ask({}, limit), ask({ front_end = 0.03 }, limit)
    local turn = 40 * 0.03 -- all come at once, and are passed on together
    near(without.ttft.p99 + turn, with.ttft.p99, 1e-9)
    near(without.e2e.mean + turn, with.e2e.mean, 1e-9)
    near(without.duration + turn, with.duration, 1e-9)
    near(without.tpot.mean, with.tpot.mean, 1e-9)
    near(without.steps[7].start + turn, with.steps[7].start, 1e-9)
    assert.truthy(with.attainment < without.attainment)
    local vllm = tperf.software "vllm-0.15".engine
    local given = question { software = "vllm-0.15" }
    given.host = nil
    assert.truthy(vllm.front_end > 0 and vllm.front_end_token > 0)
    near(tperf.serve(question { software = "vllm-0.15" }).ttft.mean + vllm.front_end + 512 * vllm.front_end_token,
      tperf.serve(given).ttft.mean, 1e-9)
  end)

  it("passes on together what came while the front end was busy", function()
    local function started(arrivals, front_ends)
      local list, all = batch_of(#arrivals, 16, 1), {}
      for i, q in ipairs(list) do q.arrival = arrivals[i] end
      local r = tperf.serve(question { requests = list, host = { front_end = 1 }, keep = "requests",
        engine = { front_ends = front_ends } })
      for i, one in ipairs(r.requests) do all[i] = math.floor(one.first_scheduled) end
      return table.concat(all, " ")
    end
    assert.equal("1 3 3 4 11", started { 0, 0.25, 0.5, 1.5, 10 })
    assert.equal("1 1 2 2", started({ 0, 0, 0.5, 0.5 }, 2))
    assert.equal("4 4 4 4", started { 0, 0, 0, 0 })
  end)

  it("makes the clients of a closed loop wait for the front end", function()
    local function ask(host)
      local requests = batch_of(40, 64, 50)
      for _, q in ipairs(requests) do q.arrival = nil end
      return tperf.serve(question { requests = requests, host = host, load = { concurrency = 1 } })
    end
    local without, with = ask {}, ask { front_end = 0.03 }
    near(without.duration + 40 * 0.03, with.duration, 1e-9) -- one at a time
  end)

  it("holds up prompts one after another for their tokens", function()
    local function ttft(count, host)
      local list = batch_of(count, 400, 2)
      list[#list + 1] = { arrival = 50, prompt = 400, output = 2 }
      return tperf.serve(question { requests = list, host = host, keep = "requests", replicas = 2 }).requests
    end
    local without, with = ttft(4, {}), ttft(4, { front_end_token = 1e-3 })
    -- two replicas, whose front ends take two prompts each, and the last one an idle front end
    for i, tokens in ipairs { 400, 400, 800, 800, 400 } do
      assert.near(with[i].arrival, without[i].arrival, 1e-9)
      local alone = without[5].first_token - without[5].arrival
      assert.near(tokens * 1e-3 + alone, with[i].first_token - with[i].arrival, 1e-3, i)
    end
    local list = batch_of(3, 400, 1)
    for _, q in ipairs(list) do q.arrival = nil end
    local closed = tperf.serve(question { requests = list, load = { concurrency = 3 }, keep = "requests",
      host = { front_end_token = 1e-3 } })
    assert.near(1.2, closed.requests[3].first_scheduled, 1e-6)
    assert.equal(0.0, closed.requests[3].arrival)
  end)

  it("begins when the front end gets the first prompt, with a tokenizer too", function()
    local host = { front_end = 0.03, front_end_token = 1e-3 }
    for _, replicas in ipairs { 1, 2 } do
      for _, concurrency in ipairs { false, 1 } do -- open and closed
        local list, last = batch_of(2, 400, 2), 0
        for _, q in ipairs(list) do q.arrival = not concurrency and q.arrival or nil end
        local r = tperf.serve(question { requests = list, host = host, keep = "requests", replicas = replicas,
          load = concurrency and { concurrency = concurrency } or nil })
        for _, one in ipairs(r.requests) do last = math.max(last, one.last_token) end
        near(last, r.duration, 1e-9)
        if concurrency then near(1, r.concurrency, 1e-9) end
      end
    end
    local none = tperf.serve(question { requests = batch_of(3, 400, 2), host = host, engine = { max_model_len = 100 } })
    assert.equal(3, none.rejected)
    assert.equal(0.0, none.duration)
  end)

  it("costs the same the second time, and on any number of threads", function()
    local function ask(threads)
      return tperf.report.json(tperf.serve { model = "gpt-oss-20b", system = "h100-sxm", replicas = 4, count = 400,
        load = { rate = 60 }, prompt = { lognormal = { median = 600, sigma = 1 } }, output = { exponential = 90 },
        threads = threads })
    end
    local first = ask(1)
    assert.equal(first, ask(1))
    assert.equal(first, ask(3))
  end)
end)

describe("asynchronous scheduling", function()
  -- Two requests: the second comes while the first decodes, in step k, and is in step k + 2; else in step k + 1.
  local function second(ahead, arrival)
    local requests = { { arrival = 0, prompt = 100, output = 50 }, { arrival = arrival, prompt = 100, output = 5 } }
    local r = tperf.serve(question { requests = requests, keep = "steps", engine = { async_scheduling = ahead } })
    for i, step in ipairs(r.steps) do
      if i > 1 and step.prefills > 0 then return i, r end
    end
  end

  it("forms a batch when the step before it begins", function()
    local at, r = second(false, 0.1)
    local step = r.steps[at - 1]
    assert.truthy(step.start < 0.1 and step.start + step.duration >= 0.1)
    assert.equal(at + 1, (second(true, 0.1)))
    assert.equal(at + 1, (second(nil, 0.1)))
  end)

  it("includes requests that have arrived by then", function()
    local at, r = second(false, 0.1)
    assert.equal(at, (second(true, r.steps[at - 1].start)))
  end)

  it("does not keep an idle engine waiting", function()
    local _, r = second(true, 3)
    near(3, r.steps[51].start, 1e-9)
  end)
end)

describe("the number of blocks", function()
  local function blocks(more) return tperf.serve(question(more)).num_blocks end

  it("fills the remaining memory", function()
    local capacity, block = 80e9, 16 * 2 * 8 * 128 * 2 * 32 -- of 16 tokens of Llama 3.1 8B
    near(0.1 * capacity / block, blocks { memory_utilization = 0.9 } - blocks { memory_utilization = 0.8 }, 0.08)
    near(2 * blocks(), blocks { kv_dtype = "fp8" }, 1e-4)
    near(blocks() / 2, blocks { engine = { block_size = 32 } }, 1e-4)
    local weights = 2 * (8.03e9 - 8.03e9 / 2)
    near(blocks() + weights / block, blocks { weight_dtype = "fp8" }, 0.02)
  end)

  it("is the caller's if given", function()
    assert.equal(777, blocks { engine = { num_blocks = 777 } })
  end)

  it("is an error if nothing is left", function()
    refused({ model = "llama-3.1-70b" }, "the model leaves no room for a cache: weights of")
  end)
end)

describe("a deployment that cannot be priced", function()
  it("is refused", function()
    refused({ system = false }, "'system'")
    refused({ step_time = { fixed = 1 } }, "give one of them")
    refused({ tp = 3 }, "'tp' = 3")
    refused({ pp = 64 }, "'pp' = 64 is more than the model's 32 layers")
    refused({ software = "torchtitan" }, "software 'torchtitan-2024' is a stack for training; engines are \"vllm\"")
    local ok, raised = pcall(tperf.serve, question { software = "vlm" })
    assert.truthy(not ok and raised:find('unknown software "vlm"', 1, true), raised)
    refused({ prefill = { tp = 1 } }, "'prefill' and 'decode' go together")
    refused({ model = "mixtral-8x7b", ep = 8, attention_dp = 4 }, "'ep' = 8 and 'attention_dp' = 4")
    refused({ model = "deepseek-v2", system = "b300-sxm", ep = 8 },
      "'replicas' = 1 must be a multiple of 8, the replicas over which 'ep' = 8")
    refused({ host = { step = -1 } }, "host.step")
    refused({ host = "sglang" }, "'host' must be a table")
    refused({ memory_utilization = 2 }, "'memory_utilization'")
  end)
end)

describe("a bill", function()
  it("counts all GPUs over the whole run, and power while they run a step", function()
    local q = { model = "llama-3.1-70b", system = "h100-sxm", tp = 4, replicas = 2, gpu_hour = 3,
      requests = { { arrival = 0, prompt = 100, output = 50 }, { arrival = 10, prompt = 100, output = 50 } } }
    local r = tperf.serve(q)
    assert.equal(8, r.gpus)
    assert.near(3 / 3600 * 8 * r.duration / 100 * 1e6, r.cost.generated, 1e-6)
    assert.near(3 / 3600 * 8 * r.duration / 300 * 1e6, r.cost.total, 1e-6)
    assert.near(r.throughput / 8, r.throughput_per_gpu, 1e-9)
    assert.near(700 * 4 * r.utilization * 2 * r.duration / 100, r.energy_per_token, 1e-6)
    assert.is_true(r.utilization < 0.1) -- nothing runs for most of the ten seconds
  end)

  it("is absent if step times are given", function()
    local r = tperf.serve { step_time = { fixed = 1e-3 }, requests = batch_of(2, 10, 10) }
    assert.is_nil(r.cost)
    assert.is_nil(r.energy_per_token)
    assert.is_nil(r.memory)
  end)
end)
