-- tperf.serve with any strategy: two-dimensional layouts, context parallelism, wide expert parallelism, pipelines,
-- custom strategies. A single request takes the time that tperf.infer gives for the layout; GPUs, ranks and bytes of
-- weights are worked out by hand.
local program = require "program"
local tperf = require "tperf"

-- An engine without overhead beyond its kernels.
local PLAIN = { name = "plain", compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 0,
  engine = { release = "0", scheduler = "vllm" } }

local PROMPT, OUTPUT = 512, 100

local function served(more, count)
  local q = { model = "llama-3.1-8b", system = "h100-sxm", requests = {}, host = {}, software = PLAIN,
    sampling = "none" }
  for i = 1, count or 1 do q.requests[i] = { arrival = 0, prompt = PROMPT, output = OUTPUT } end
  for name, value in pairs(more) do q[name] = value end
  return tperf.serve(q)
end

local function static(more)
  local q = { model = "llama-3.1-8b", system = "h100-sxm", prompt = PROMPT, generate = OUTPUT }
  for name, value in pairs(more) do q[name] = value end
  return tperf.infer(q)
end

local function near(want, got, within)
  assert.truthy(math.abs(got / want - 1) <= within, ("%.6g is not within %g of %.6g"):format(got, within, want))
end

local function refused(more, message)
  local ok, raised = pcall(served, more)
  assert.is_false(ok)
  assert.truthy(raised:find(message, 1, true), raised)
end

-- Defines the strategy of scripts/custom_strategy.lua, without running the rest of the script.
local function define_ulysses()
  local text = program.slurp "scripts/custom_strategy.lua"
  local from = assert(text:find("local context = ", 1, true))
  local to = select(2, assert(text:find("tperf.strategy.define(ulysses)", 1, true)))
  assert(load("local tperf = require 'tperf'\nlocal op = tperf.op\n" .. text:sub(from, to)))()
end

describe("a request alone", function()
  define_ulysses()

  for _, case in ipairs {
    { "two-dimensional, weights stationary", { tp1 = 4, tp2 = 2 } },
    { "context, all-gather", { tp = 2, cp = 4 } },
    { "context in a ring", { tp = 2, cp = 4, cp_kind = "ring" } },
    { "context by all-to-all", { tp = 2, ulysses = 4 } },
    { "experts cut over tensor parallelism", { model = "mixtral-8x7b", tp = 4 } },
    { "experts whole on its GPUs", { model = "mixtral-8x7b", tp = 4, ep = 4, etp = 1 } },
    { "Ulysses of scripts/custom_strategy.lua", { strategy = "ulysses", tp = 2, cp = 4 } },
  } do
    it("takes the time of tperf.infer: " .. case[1], function()
      local want, got = static(case[2]), served(case[2])
      near(want.ttft, got.ttft.mean, 0.03)
      near(want.tpot, got.tpot.mean, 0.003)
      assert.equal(want.gpus, got.gpus)
      near(want.memory.weights, got.memory.weights, 1e-9)
    end)
  end
end)

describe("the GPUs of a strategy's axes", function()
  it("share weights, and the cache", function()
    local one, four = served {}, served { tp1 = 2, tp2 = 2 }
    near(one.memory.weights / 4, four.memory.weights, 0.002) -- all but the norms' vectors are cut over both
    assert.equal(4, four.gpus)
    -- The cp GPUs share a cache token, and each of them holds the weights.
    local alone, together = served { tp = 2, engine = { block_size = 16 } }, served { tp = 2, cp = 2 }
    near(alone.memory.weights, together.memory.weights, 1e-9)
    near(alone.memory.cache / alone.num_blocks / 2, together.memory.cache / together.num_blocks, 1e-9)
  end)

  it("send a part of the stream to the next stage, and stages share the layers", function()
    local one, two = served { tp1 = 2, tp2 = 2 }, served { tp1 = 2, tp2 = 2, pp = 2 }
    assert.equal(8, two.gpus)
    assert.truthy(two.tpot.mean > one.tpot.mean and two.tpot.mean < 1.1 * one.tpot.mean) -- one token passes all layers
    assert.truthy(two.num_blocks > one.num_blocks)
  end)

  it("cut chunks of prompts that they do not divide, as if padded", function()
    for _, prompt in ipairs { 1, 3, 509 } do
      local padded = (prompt + 3) // 4 * 4
      local function ttft(tokens)
        return served({ tp = 1, cp = 4, requests = { { arrival = 0, prompt = tokens, output = 2 } } }).ttft.mean
      end
      near(ttft(padded), ttft(prompt), 0.02)
    end
  end)
end)

describe("wide expert parallelism", function()
  -- DeepSeek-V3: 58 layers of 256 experts of 3 x 7168 x 2048 weights, in bf16.
  local EXPERTS <const> = 58 * 256 * 3 * 7168 * 2048 * 2

  local function deepseek(more)
    local q = { model = "deepseek-v3", system = "h200-sxm", weight_dtype = "bf16" }
    for name, value in pairs(more) do q[name] = value end
    return served(q, 32)
  end

  it("spreads the experts over all GPUs of the ranks, whole with etp = 1", function()
    local narrow, wide = deepseek { tp = 4, etp = 1, attention_dp = 8 }, deepseek { tp = 4, etp = 1, attention_dp = 16 }
    assert.equal(32, narrow.gpus)
    assert.equal(64, wide.gpus)
    near(EXPERTS / 32 - EXPERTS / 64, narrow.memory.weights - wide.memory.weights, 1e-6)
  end)

  it("is the same given as ranks, as replicas, or as both", function()
    local function same(a, b)
      assert.equal(a.gpus, b.gpus)
      near(a.throughput, b.throughput, 1e-12)
      near(a.memory.weights, b.memory.weights, 1e-12)
    end
    local ranks = deepseek { tp = 4, etp = 1, attention_dp = 8 }
    same(ranks, deepseek { tp = 4, etp = 1, ep = 32, replicas = 8 })
    same(ranks, deepseek { tp = 4, etp = 1, ep = 32, attention_dp = 8 })
    same(deepseek { tp = 4, etp = 4, attention_dp = 8 }, deepseek { tp = 4, etp = 4, ep = 8, replicas = 8 })
  end)

  it("keeps experts whole where engines do, unless etp says otherwise", function()
    local function sizes(q)
      q.system, q.model = "h200-sxm", q.model or "deepseek-v3"
      local found = require("tperf.question.serve").sizes(q)
      return { found.tp, found.ep, found.etp }
    end
    -- vLLM's --enable-expert-parallel, SGLang's --ep-size and TensorRT-LLM's moe_expert_parallel_size below tp
    assert.same({ 8, 8, 1 }, sizes { tp = 8, ep = 8 })
    assert.same({ 8, 2, 4 }, sizes { tp = 8, ep = 2 })
    assert.same({ 8, 1, 8 }, sizes { tp = 8 })
    assert.same({ 4, 32, 1 }, sizes { tp = 4, attention_dp = 8 })
    assert.same({ 4, 8, 4 }, sizes { tp = 4, attention_dp = 8, etp = 4 })
    assert.same({ 4, 16, 2 }, sizes { tp = 4, attention_dp = 8, ep = 16 })
    assert.same({ 4, 8, 2 }, sizes { model = "mixtral-8x7b", tp = 4, attention_dp = 4 })
    assert.same({ 4, 8, 4 }, sizes { tp = 4, ep = 8, replicas = 8 }) -- more than an engine's GPUs
    assert.same({ 8, 1, 1 }, sizes { model = "llama-3.1-8b", tp = 8 })
  end)

  it("keeps experts on the GPUs of one engine if they suffice", function()
    local r = served({ model = "mixtral-8x7b", tp = 4, ep = 4, etp = 1, replicas = 3 }, 8)
    assert.equal(12, r.gpus) -- three engines apart
  end)

  it("takes a moe_dispatcher", function()
    local plain = deepseek { tp = 1, attention_dp = 64, system = "h800-sxm" }
    local deepep = deepseek { tp = 1, attention_dp = 64, system = "h800-sxm", moe_dispatcher = "deepep" }
    assert.truthy(deepep.tpot.mean < plain.tpot.mean)
  end)

  it("counts GPUs if step times are given, too", function()
    local function of(more)
      local q = { step_time = { fixed = 1 }, requests = { { arrival = 0, prompt = 1, output = 2 } } }
      for name, value in pairs(more) do q[name] = value end
      return tperf.serve(q)
    end
    assert.equal(8, of({ tp1 = 4, tp2 = 2 }).gpus)
    assert.equal(24, of({ tp = 2, pp = 3, ep = 4, replicas = 4 }).gpus)
    assert.equal(24, of({ tp = 2, pp = 3, attention_dp = 4 }).gpus)
  end)
end)

describe("pools", function()
  it("have separate strategies", function()
    local r = served({ prefill = { tp = 1, cp = 4 }, decode = { tp1 = 2, tp2 = 1 } }, 4)
    assert.equal(4, r.pools.prefill.gpus)
    assert.equal(2, r.pools.decode.gpus)
    near(served({ tp1 = 2 }).tpot.mean, r.tpot.mean, 0.15)
  end)
end)

describe("a custom axis that cuts the batch", function()
  it("multiplies the engines", function()
    local tensor = tperf.strategy.of "tensor"
    tperf.strategy.define { name = "racks-serve", extends = "tensor",
      axes = { { name = "rack", cuts = { "batch" }, admits = function() return true end }, table.unpack(tensor.axes) } }
    local function of(more)
      local asked = { model = "llama-3.1-8b", system = "h100-sxm", load = { concurrency = 16 }, count = 64,
        prompt = 200, output = 20 }
      for name, value in pairs(more) do asked[name] = value end
      return tperf.serve(asked)
    end
    local racks, replicas = of { strategy = "racks-serve", rack = 4, tp = 2 }, of { tp = 2, replicas = 4 }
    assert.equal(8, racks.gpus)
    near(replicas.throughput, racks.throughput, 1e-12)
    assert.equal(replicas.num_blocks, racks.num_blocks)
  end)
end)

describe("an impossible layout", function()
  it("is refused with the name of its axis", function()
    refused({ tp1 = 4, tp = 2 }, "'tp1' is an axis of strategy")
    refused({ strategy = "stationary", cp = 2 }, "'cp' is an axis of strategy context, not of stationary")
    refused({ strategy = "summa", tp1 = 2 }, "strategy 'summa' cuts every sequence into parts")
    refused({ tp1 = 2, model = "mixtral-8x7b" }, "is not for models with experts")
    refused({ tp = 2, cp_kind = "ring" }, "'cp_kind' is an option of strategy context, not of tensor")
    refused({ cp = 2, cp_kind = "rign" }, "(did you mean 'ring'?)")
    refused({ attention_dp = 2 }, "'attention_dp' = 2: model 'llama-3.1-8b' has no experts")
    refused({ strategy = "stationary", attention_dp = 2 }, "strategy 'stationary' spreads no experts")
    refused({ model = "mixtral-8x7b", ep = 8, attention_dp = 4 }, "'ep' = 8 and 'attention_dp' = 4")
    refused({ model = "mixtral-8x7b", tp = 2, etp = 1, attention_dp = 8 },
      "the 8 experts on 16 GPUs would need 'ep' = 16, which does not divide the 8 experts")
    refused({ model = "mixtral-8x7b", tp = 4, attention_dp = 3 },
      "the 8 experts on 12 GPUs would need 'etp' = 3, which does")
    refused({ tp = 4, ep = 2 }, "'ep' = 2 has no experts to spread")
    refused({ stratgy = "context" }, "unknown field 'stratgy' (did you mean 'strategy'?)")
  end)
end)

describe("tperf.search_serving", function()
  local function found(more)
    local q = { model = "llama-3.1-8b", system = "h100-sxm", rate = 20, slo = { ttft = 1, tpot = 0.05 }, prompt = 500,
      output = 20, count = 100, gpus = 4, max_num_seqs = 256, max_num_batched_tokens = 8192, software = PLAIN }
    for name, value in pairs(more) do q[name] = value end
    return tperf.search_serving(q)
  end

  it("tries the sizes of the strategy's axes", function()
    local list = found { strategy = "stationary", pareto = true, max_num_seqs = 32 }
    assert.equal(6, list.candidates) -- tp1 x tp2 up to 4 GPUs: 1x1 1x2 1x4 2x1 2x2 4x1
    for _, d in ipairs(list) do
      assert.equal("stationary", d.strategy)
      assert.equal(d.tp1 * d.tp2 * d.pp * d.replicas, d.gpus)
    end
    assert.truthy(list.pareto[1].tp1)
    assert.equal(3, found({ tp = 1, pp = { 1, 2, 4 } }).candidates)
    assert.equal(2, found({ tp = 1, cp = { 2, 4 } }).candidates)
  end)

  it("searches the given numbers of ranks", function()
    local list = found { model = "mixtral-8x7b", gpus = 8, attention_dp = { 2, 4 }, tp = 2 }
    assert.equal(2, list.candidates)
    for _, d in ipairs(list) do
      assert.truthy(d.attention_dp == 2 or d.attention_dp == 4)
      assert.equal(d.tp * d.replicas, d.gpus)
    end
  end)
end)
