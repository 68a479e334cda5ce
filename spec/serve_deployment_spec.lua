-- tperf.serve's deployments and schedulers: pipelines, ranks that share experts, pools for prefill and decoding, the
-- rules of SGLang and TensorRT-LLM. Step times follow a linear formula, so every time can be worked out by hand.
local tperf = require "tperf"

local function ask(more)
  local q = { step_time = { fixed = 1 }, keep = "steps", engine = {} }
  for name, value in pairs(more) do q[name] = value end
  return tperf.serve(q)
end

local function near(want, got, within)
  assert.truthy(math.abs(got - want) <= (within or 1e-9) * math.max(math.abs(want), 1),
    ("%.12g is not within %g of %.12g"):format(got, within or 1e-9, want))
end

local function times(r, name)
  local list = {}
  for i, q in ipairs(r.requests) do list[i] = q[name] end
  return list
end

describe("a pipeline", function()
  it("has as many batches in flight as stages, and a single request has one", function()
    -- 4 stages of a quarter of a second and a tick: a request alone gets a token a second
    local alone = ask { pp = 4, requests = { { arrival = 0, prompt = 5, output = 4 } } }
    near(4, alone.requests[1].last_token, 1e-8)
    -- four that come a stage apart are four batches, each as fast as alone
    local list = {}
    for i = 1, 4 do list[i] = { arrival = 0.3 * (i - 1), prompt = 5, output = 10 } end
    local r = ask { pp = 4, requests = list }
    for i, q in ipairs(r.requests) do near(10, q.last_token - (i - 1) * 0.3, 0.02) end
    local r1 = ask { pp = 1, requests = list }
    assert.truthy(r1.requests[4].first_token > r.requests[4].first_token)
  end)

  it("sends the chunks of a long prompt through its stages one behind the other", function()
    local engine = { max_num_batched_tokens = 100 }
    local r = ask { pp = 4, engine = engine, requests = { { arrival = 0, prompt = 400, output = 1 } } }
    near(1.75, r.requests[1].first_token, 1e-6) -- the fourth chunk begins after three quarters of a second
    near(4, ask { pp = 1, engine = engine, requests = { { arrival = 0, prompt = 400, output = 1 } } }.requests[1]
      .first_token)
  end)

  it("is as fast as its busiest stage when it is full", function()
    local list = {}
    for i = 1, 64 do list[i] = { arrival = 0, prompt = 1, output = 100 } end
    local r = ask { pp = 4, engine = { max_num_seqs = 64, max_num_batched_tokens = 16 }, requests = list,
      keep = "requests" }
    near(64 * 100 / 16 / 4, r.duration, 0.02) -- batches of 16, four a second
    assert.truthy(r.utilization > 0.97 and r.utilization <= 1)
  end)

  it("is priced: stages share the layers, and hold a part of the weights", function()
    local function q(pp, tp)
      return tperf.serve { model = "llama-3.1-70b", system = "h100-sxm", tp = tp, pp = pp, load = { concurrency = 64 },
        count = 128, prompt = 512, output = 64 }
    end
    local tp4, pp4 = q(1, 4), q(4, 1)
    assert.equal(4, pp4.gpus)
    assert.truthy(pp4.tpot.mean > 2 * tp4.tpot.mean) -- a token passes all layers, each on one GPU
    assert.truthy(pp4.throughput > 0.4 * tp4.throughput and pp4.throughput < 1.6 * tp4.throughput)
    assert.truthy(pp4.num_blocks > 0.9 * tp4.num_blocks and pp4.num_blocks < 1.1 * tp4.num_blocks)
  end)

  it("loses no request to preemptions while batches are in flight", function()
    local list = {}
    for i = 1, 60 do list[i] = { arrival = 0.1 * i, prompt = 20 + i % 7, output = 30 + i % 11 } end
    for _, scheduler in ipairs { "vllm", "sglang", "tensorrt-llm" } do
      local r = ask { pp = 3, keep = "requests", requests = list, engine = { num_blocks = 24, block_size = 8,
        scheduler = scheduler, chunked_prefill = true } }
      assert.equal(60, r.finished)
      if scheduler == "vllm" then assert.truthy(r.preemptions > 10) end
      if scheduler == "tensorrt-llm" then assert.equal(0, r.preemptions) end
    end
  end)
end)

describe("attention data parallelism", function()
  local requests = { { arrival = 0, prompt = 1000, output = 10 }, { arrival = 0, prompt = 10, output = 10 } }

  it("lets ranks wait for the slowest of their steps", function()
    local time = { fixed = 1, per_token = 0.01 }
    local apart = ask { step_time = time, replicas = 2, requests = requests }
    local ranks = ask { step_time = time, attention_dp = 2, requests = requests }
    near(11, apart.requests[1].first_token)
    near(1.1, apart.requests[2].first_token)
    near(11, ranks.requests[1].first_token)
    near(11, ranks.requests[2].first_token)
    near(11 + 9 * 1.01, ranks.requests[2].last_token)
    assert.equal(2, ranks.gpus)
  end)

  it("is the same as replicas if all ranks do the same", function()
    local list = {}
    for i = 1, 20 do
      list[2 * i - 1] = { arrival = i, prompt = 50 + i, output = 9 }
      list[2 * i] = { arrival = i, prompt = 50 + i, output = 9 }
    end
    local time = { fixed = 0.1, per_token = 0.001 }
    local apart = ask { step_time = time, replicas = 2, requests = list, keep = "requests" }
    local ranks = ask { step_time = time, attention_dp = 2, requests = list, keep = "requests" }
    assert.same(times(apart, "last_token"), times(ranks, "last_token"))
  end)

  it("spreads the experts over the ranks", function()
    local r = tperf.serve { model = "mixtral-8x7b", system = "h100-sxm", attention_dp = 4, load = { concurrency = 32 },
      count = 64, prompt = 200, output = 50 }
    local same = tperf.serve { model = "mixtral-8x7b", system = "h100-sxm", ep = 4, replicas = 4,
      load = { concurrency = 32 }, count = 64, prompt = 200, output = 50 }
    assert.equal(4, r.gpus)
    near(r.throughput, same.throughput)
    assert.truthy(r.num_blocks > 0)
  end)
end)

describe("pools for prefill and decoding", function()
  local function split(more)
    local q = { prefill = {}, decode = {}, requests = { { arrival = 0, prompt = 100, output = 5 } },
      transfer = { latency = 0.25, per_token = 0.01 } }
    for name, value in pairs(more or {}) do q[name] = value end
    if q.load then q.requests = nil end
    return ask(q)
  end

  it("produce the first token, transfer keys and values, and decode", function()
    local q = split().requests[1]
    near(1, q.first_token)
    near(1 + 0.25 + 100 * 0.01 + 4, q.last_token)
    near(0.25 + 1 + 1, q.longest_gap)
    assert.equal(5, q.tokens)
    assert.equal(5, q.steps)
  end)

  it("never delay an answer by another request's prompt", function()
    local requests = { { arrival = 0, prompt = 100, output = 20 } }
    for i = 2, 10 do requests[i] = { arrival = 1 + i, prompt = 1000, output = 1 } end
    local time = { fixed = 1, per_token = 0.01 }
    local r = split { step_time = time, requests = requests }
    near(2 + 1.25 + 19 * 1.01, r.requests[1].last_token)
    assert.truthy(ask { step_time = time, requests = requests }.requests[1].last_token
      > r.requests[1].last_token + 50)
    assert.equal(0, r.rejected)
  end)

  it("report the utilization of each, and the ratio at which they match", function()
    local r = split { requests = nil, load = { rate = 0.5 }, count = 200, prompt = 100, output = 20,
      prefill = { replicas = 2 }, decode = { replicas = 3 }, keep = "requests" }
    assert.equal(5, r.gpus)
    assert.truthy(r.pools.prefill.utilization > 0.1 and r.pools.prefill.utilization < 1)
    assert.truthy(r.pools.decode.utilization > r.pools.prefill.utilization)
    near(r.pools.prefill.utilization / r.pools.decode.utilization, r.pools.matched)
  end)

  it("recompute requests that the decoding pool preempts, and lose none", function()
    local requests = {}
    for i = 1, 40 do requests[i] = { arrival = 0, prompt = 60, output = 60 } end
    local r = split { requests = requests, decode = { engine = { num_blocks = 40 } }, keep = "requests" }
    assert.equal(40, r.finished)
    assert.truthy(r.preemptions > 5)
  end)

  it("work in closed loops", function()
    local r = split { requests = nil, load = { concurrency = 8 }, count = 100, prompt = 50, output = 10,
      keep = "requests" }
    near(8, r.concurrency, 0.1)
  end)

  it("are priced each by its own deployment, the transfer by the network between them", function()
    local r = tperf.serve { model = "llama-3.1-70b", system = "h100-sxm", prefill = { tp = 4, replicas = 2 },
      decode = { tp = 8 }, load = { rate = 2 }, count = 100, prompt = 2000, output = 100 }
    assert.equal(16, r.gpus)
    -- 2 x 80 layers x 8 heads x 128 x 2 bytes a token, by 4 GPUs of 50 GB/s each
    local bytes = 2.0 * 80 * 8 * 128 * 2
    assert.truthy(r.pools.transfer.per_token >= bytes / 4 / 50e9)
    assert.truthy(r.pools.transfer.per_token < 2 * bytes / 4 / 50e9)
  end)
end)

describe("SGLang's scheduler", function()
  local function sglang(more, engine)
    local q = { engine = { scheduler = "sglang", max_num_batched_tokens = 100 } }
    for name, value in pairs(engine or {}) do q.engine[name] = value end
    for name, value in pairs(more) do q[name] = value end
    return ask(q)
  end

  it("computes prompts first, and nothing beside them", function()
    local r = sglang { requests = { { arrival = 0, prompt = 50, output = 5 },
      { arrival = 1, prompt = 150, output = 5 } } }
    for _, step in ipairs(r.steps) do assert.truthy(step.prefills == 0 or step.decodes == 0) end
    -- the second prompt takes the second and third steps, the first answer waits
    near(3, r.requests[2].first_token)
    near(1 + 2 + 4, r.requests[1].last_token)
    near(7, r.requests[2].last_token)
    -- vLLM goes on with the first answer beside the second prompt
    local vllm = sglang({ requests = { { arrival = 0, prompt = 50, output = 5 },
      { arrival = 1, prompt = 150, output = 5 } } }, { scheduler = "vllm" })
    near(5, vllm.requests[1].last_token)
  end)

  it("computes answers beside prompts if chunks are mixed", function()
    local requests = { { arrival = 0, prompt = 50, output = 5 }, { arrival = 1, prompt = 150, output = 5 } }
    local r = sglang({ requests = requests }, { mixed_chunk = true })
    -- 100 tokens a step, of which the first answer takes one: 99 tokens of the second prompt, then 51
    assert.same({ 50, 99, 51 }, { r.steps[1].prefill_tokens, r.steps[2].prefill_tokens, r.steps[3].prefill_tokens })
    assert.same({ 0, 1, 1 }, { r.steps[1].decodes, r.steps[2].decodes, r.steps[3].decodes })
    near(5, r.requests[1].last_token)
    near(3, r.requests[2].first_token)
    near(7, r.requests[2].last_token)
    local ok, raised = pcall(sglang, { requests = requests }, { mixed_chunk = true, scheduler = "vllm" })
    assert.is_false(ok)
    assert.truthy(raised:find('it goes with software or scheduler = "sglang", got "vllm"', 1, true), raised)
  end)

  -- Four prompts that arrive together end together unless mixed, so that the next four wait for each other again.
  it("keeps requests that arrive together apart if chunks are mixed", function()
    local function waits(mixed)
      local r = sglang({ load = { concurrency = 4 }, count = 80, prompt = 100, output = 20 }, { mixed_chunk = mixed })
      local sum = 0
      for i = 41, 80 do sum = sum + r.requests[i].first_token - r.requests[i].arrival end
      return sum / 40
    end
    near((1 + 2 + 3 + 4) / 4, waits(false)) -- steps of a prompt each
    assert.truthy(waits(true) < 2.3, waits(true)) -- a whole prompt and a rest of the tokens that answers took
  end)

  it("takes prompts whole without chunked prefill", function()
    local requests = {}
    for i = 1, 3 do requests[i] = { arrival = 0, prompt = 60, output = 2 } end
    local r = sglang({ requests = requests }, { chunked_prefill = false })
    -- 100 tokens a step: one prompt of 60 in each of three, then the second tokens of all
    local prefills = {}
    for i, step in ipairs(r.steps) do prefills[i] = step.prefill_tokens end
    assert.same({ 60, 60, 60, 0 }, prefills)
    near(4, r.requests[1].last_token)
    -- in chunks, the second has 40 of its tokens in the first step
    assert.equal(100, sglang { requests = requests }.steps[1].prefill_tokens)
  end)

  it("reserves room for a part of each answer's maximum", function()
    -- 128 tokens of room; each request may become 10 + 100
    local requests = {}
    for i = 1, 6 do requests[i] = { arrival = 0, prompt = 10, output = 100 } end
    local r = sglang({ requests = requests }, { num_blocks = 17, block_size = 8 })
    local together = 0
    for _, step in ipairs(r.steps) do together = math.max(together, step.running) end
    assert.equal(6, r.finished)
    assert.truthy(together < 6 and together >= 1, together)
    local vllm = sglang({ requests = requests }, { scheduler = "vllm", num_blocks = 17, block_size = 8 })
    assert.equal(6, vllm.steps[1].running)
    assert.truthy(vllm.preemptions > r.preemptions)
  end)

  it("polls for requests every few steps", function()
    local requests = { { arrival = 0, prompt = 5, output = 50 }, { arrival = 3.5, prompt = 5, output = 2 } }
    local function second(interval) -- when it is scheduled
      return sglang({ requests = requests }, { receive_interval = interval }).requests[2].first_scheduled
    end
    near(4, second(1))
    local late = second(10)
    assert.truthy(late >= 10 and late <= 12, late)
  end)
end)

describe("TensorRT-LLM's scheduler", function()
  local function trt(more, engine)
    local q = { engine = { scheduler = "tensorrt-llm", max_num_batched_tokens = 100 } }
    for name, value in pairs(engine or {}) do q.engine[name] = value end
    for name, value in pairs(more) do q[name] = value end
    return ask(q)
  end

  it("starts only requests that it can finish", function()
    local requests = {}
    for i = 1, 6 do requests[i] = { arrival = 0, prompt = 10, output = 31 } end -- 40 tokens at the end: 5 blocks
    local r = trt({ requests = requests }, { num_blocks = 17, block_size = 8 })
    assert.equal(0, r.preemptions)
    assert.equal(3, r.steps[1].running)
    near(31, r.requests[3].last_token)
    near(62, r.requests[6].last_token)
  end)

  it("takes prompts whole unless it is told otherwise", function()
    local requests = { { arrival = 0, prompt = 60, output = 3 }, { arrival = 0, prompt = 60, output = 3 } }
    local whole = trt { requests = requests }
    near(1, whole.requests[1].first_token)
    near(2, whole.requests[2].first_token)
    local chunks = trt({ requests = requests }, { chunked_prefill = true })
    assert.equal(100, chunks.steps[1].prefill_tokens)
    assert.equal(60, whole.steps[1].prefill_tokens)
    local ok, raised = pcall(trt, { requests = { { arrival = 0, prompt = 101, output = 3 } } })
    assert.is_false(ok)
    assert.truthy(raised:find("without 'chunked_prefill' a step must take its prompt of 101 tokens whole", 1, true))
    -- nor with a prefix cache, which has nothing of a prompt that is like no other
    local again, why = pcall(trt, { requests = { { arrival = 0, prompt = 101, output = 3 } } },
      { num_blocks = 100, prefix_caching = true })
    assert.truthy(not again and why:find("a step must take its prompt of 101 tokens whole", 1, true), why)
  end)

  -- Beside decodes, a prompt waits until a step would have 60 % of its tokens, for seven steps at most.
  it("lets prompts wait for one another beside decodes", function()
    local waiting = { batch_wait_timeout_iters = 7, batch_wait_max_tokens_ratio = 0.6 }
    local function first_tokens(requests, engine)
      local found = {}
      for i, q in ipairs(trt({ requests = requests }, engine).requests) do found[i] = q.first_token end
      return found
    end
    local alone = { { arrival = 0, prompt = 5, output = 50 }, { arrival = 3, prompt = 5, output = 2 } }
    near(1, first_tokens(alone, waiting)[1])
    near(4, first_tokens(alone, {})[2])
    near(11, first_tokens(alone, waiting)[2])
    local many = { alone[1], alone[2], { arrival = 6, prompt = 54, output = 2 } }
    near(7, first_tokens(many, waiting)[2])
    near(7, first_tokens(many, waiting)[3])
    near(7, first_tokens(many, { batch_wait_timeout_iters = 7, batch_wait_max_tokens_ratio = 0.05 })[3])
    local ok, raised = pcall(trt, { requests = alone }, { batch_wait_timeout_iters = 7, scheduler = "vllm" })
    assert.is_false(ok)
    assert.truthy(raised:find("they go with scheduler = \"tensorrt-llm\"", 1, true), raised)
  end)
end)

describe("merged steps", function()
  -- If steps are kept, each is simulated; else consecutive steps without arrivals or departures are merged.
  local function both(more)
    local q = { keep = "steps", seed = more.seed }
    for name, value in pairs(more) do q[name] = value end
    local one_by_one = tperf.serve(q)
    q.keep = "requests"
    local together = tperf.serve(q)
    one_by_one.steps = nil
    assert.same(one_by_one, together)
    return together
  end

  local LINE = { fixed = 5e-3, per_token = 20e-6, per_context_token = 40e-9, per_prefill_pair = 1e-9 }

  it("equal steps simulated one by one, whatever the scheduler", function()
    for seed, scheduler in ipairs { "vllm", "sglang", "tensorrt-llm", "vllm", "sglang", "tensorrt-llm" } do
      for _, load in ipairs { { rate = 20 }, { concurrency = 12, think = 0.1 } } do
        for _, blocks in ipairs { 60, 3000 } do
          both { step_time = LINE, seed = seed, load = load, count = 80, prompt = { uniform = { 5, 300 } },
            output = { exponential = 90, max = 400 },
            engine = { scheduler = scheduler, num_blocks = blocks, max_num_seqs = 10, chunked_prefill = true,
              async_scheduling = seed % 2 == 0, receive_interval = seed, prefix_caching = seed > 3,
              mixed_chunk = seed == 5,
              max_num_batched_tokens = 256 } }
        end
      end
    end
  end)

  it("equal them for priced steps, several replicas, and pools, too", function()
    both { model = "llama-3.1-8b", system = "h100-sxm", replicas = 3, router = "least_loaded", load = { rate = 20 },
      count = 100, prompt = 200, output = { exponential = 100 } }
    both { model = "gpt-oss-20b", system = "h100-sxm", load = { concurrency = 7 }, count = 40, prompt = 200,
      output = { exponential = 100 } }
    both { step_time = LINE, prefill = {}, decode = { replicas = 2 }, load = { rate = 20 }, count = 100, prompt = 200,
      output = { exponential = 100 } }
  end)
end)

describe("a search of deployments", function()
  it("prepares each candidate once, however often it is simulated", function()
    local priced = require "tperf.question.serve.priced"
    local steps, prepared = priced.steps, 0
    priced.steps = function(...)
      prepared = prepared + 1
      return steps(...)
    end
    local found = tperf.search_serving { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, rate = 8, prompt = 512,
      output = 128, slo = { ttft = 2, tpot = 0.05 }, count = 100, threads = 1 }
    priced.steps = steps
    assert.equal(16, found.candidates)
    assert.equal(4, found.tried) -- one GPU suffices, so that of four sizes only tp 1 with its four limits is simulated
    assert.equal(found.tried, prepared)
  end)

  it("answers a prepared question as the question itself, whatever the load and the replicas", function()
    local fixed = { run = tperf.serve, model = "mixtral-8x7b", system = "h100-sxm", tp = 2, ep = 4, etp = 1,
      prompt = 64, output = 8, count = 60, threads = 1 }
    local again = tperf.prepare(fixed)
    for _, change in ipairs { { load = { rate = 5 }, replicas = 2 }, { load = { rate = 50 }, replicas = 4 },
      { load = { concurrency = 4 }, replicas = 2, keep = "requests", seed = 7 }, { load = { rate = 5 }, replicas = 3 },
      { load = { rate = 5 }, replicas = 2, output = 16 }, { load = { rate = 5 }, replicas = 2, gpu_hour = 9 } } do
      local o = {}
      for _, fields in ipairs { fixed, change } do
        for name, value in pairs(fields) do o[name] = name ~= "run" and value or nil end
      end
      local function said(f, given)
        local ok, answer = pcall(f, given)
        return ok and tperf.report.json(answer) or tostring(answer):gsub("^[^:]*:%d+: ", "")
      end
      assert.equal(said(tperf.serve, o), said(again, change))
    end
  end)
end)
