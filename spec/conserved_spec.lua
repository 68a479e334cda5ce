-- What must be equal, or add up, in any cost model, whatever its numbers.
local tperf = require "tperf"

local function train(model, given)
  given.model, given.system, given.software = model, given.system or "h100-sxm", given.software or "none"
  given.global_batch = given.global_batch or 8
  return tperf.train(given)
end

local function op_of(c, name)
  for _, kind in ipairs(c.kinds) do
    for _, op in ipairs(kind.ops) do
      if op.name == name then return op end
    end
  end
end

describe("sequence parallelism over one GPU", function()
  for _, model in ipairs { "llama-3.1-8b", "deepseek-v2-lite", "qwen3-30b-a3b", "gpt2" } do
    it("changes nothing of " .. model, function()
      local with = train(model, { sequence_parallel = true, dp = 8 })
      local without = train(model, { sequence_parallel = false, dp = 8 })
      for _, field in ipairs { "time", "flops_per_gpu", "mfu" } do assert.equal(with[field], without[field], field) end
      assert.equal(with.memory.total, without.memory.total)
      assert.same(with.breakdown, without.breakdown)
    end)
  end
end)

describe("an op that only communicates", function()
  it("takes the time of its collective", function()
    local c = train("deepseek-v2-lite", { tp = 4, ep = 4, etp = 1 })
    local rope = op_of(c, "k-rope")
    for _, pass in ipairs { rope.forward, rope.backward } do
      assert.equal(0, pass.compute_time)
      assert.equal(pass.comms[1].time, pass.time)
    end
  end)

  it("takes none over one GPU", function()
    local rope = op_of(train("deepseek-v2-lite", {}), "k-rope")
    assert.equal(0, rope.forward.time)
    assert.equal(0, rope.backward.time)
  end)
end)

-- Every row of every token is computed once, by whichever GPU: docs/model.md section 2.3, "cut".
describe("the rows of all GPUs' experts", function()
  local MODEL <const> = "qwen3-30b-a3b" -- 128 experts, 8 a token, 2048 wide, each 768, gated
  local TP <const>, DP <const>, SEQ <const> = 4, 2, 4096

  for _, sequence_parallel in ipairs { true, false } do
    for _, cut in ipairs { { 1, 1 }, { 2, 1 }, { 4, 1 }, { 8, 1 }, { 1, 2 }, { 2, 2 }, { 4, 2 }, { 1, 4 }, { 2, 4 } } do
      local ep, etp = cut[1], cut[2]
      it(("are as many with ep %d, etp %d, sequence_parallel %s"):format(ep, etp, sequence_parallel), function()
        local c = train(MODEL, {
          tp = TP, dp = DP, ep = ep, etp = etp, seq = SEQ, sequence_parallel = sequence_parallel,
        })
        local flops = TP * DP * op_of(c, "fc1").forward.tensor_flops
        assert.equal(DP * SEQ * 8 * 2 * 768 * (2 * 2048 - 1), flops)
      end)
    end
  end
end)

describe("separate attention kernels over cp", function()
  -- Backward, in 16 bits: the scores' gradient is read twice (2 r k), with queries and keys, whose gradients are
  -- written (2 r d, 2 k d); likewise for values and results. Keys of all cp GPUs are at hand.
  it("read and write each tensor once a product", function()
    local seq, cp, d, heads = 2048, 4, 128, 32
    local c = train("llama-2-7b", { cp = cp, seq = seq, attention = "unfused" })
    local r, k = seq // cp, seq
    for _, name in ipairs { "logits", "attend" } do
      assert.equal(2 * heads * (2 * r * d + 2 * k * d + 2 * r * k), op_of(c, name).backward.bytes, name)
    end
  end)
end)

describe("layers recomputed together", function()
  it("keep one input, whatever kinds they are of", function()
    local plain = { name = "plain", layers = 12, hidden = 1024, heads = 8, seq = 2048, vocab = 32000 }
    local mixed = tperf.model(plain):with { window = { size = 512, pattern = "wf" } }
    for _, together in ipairs { 1, 2, 3, 4 } do
      local given = function() return { recompute = "full", recompute_num_layers = together } end
      assert.equal(train(plain, given()).memory.activations, train(mixed, given()).memory.activations)
    end
  end)
end)

-- Norms work on each GPU's own tokens, so their gradients are added up over tp: after the last of an iteration's
-- micro-batches, since stacks accumulate gradients first (Megatron-LM, finalize_model_grads.py).
describe("gradients of parameters that every GPU of tp has whole", function()
  local TP <const>, LAYERS <const>, HIDDEN <const> = 4, 6, 1024
  local BANDWIDTH <const>, LATENCY <const> = 1e11, 3e-6
  local system = tperf.system "h100-sxm":with {
    network = { fast = { bandwidth = BANDWIDTH, efficiency = 1, latency = LATENCY } },
  }
  local model = {
    name = "m", layers = LAYERS, hidden = HIDDEN, heads = 8, seq = 1024, vocab = 32000, norm = "rmsnorm", gated = true,
    ffn = 4096,
  }

  it("are reduced once an iteration", function()
    local reduced = 2 * (LATENCY * (TP - 1) + 2 * HIDDEN * (TP - 1) / TP / BANDWIDTH)
    for _, batch in ipairs { 1, 8, 32 } do
      local c = train(model, { system = system, tp = TP, global_batch = batch })
      assert.near((2 * LAYERS + 1) * reduced, c.breakdown.data_comm, 1e-12)
    end
  end)

  it("let the time grow by the same amount with every micro-batch", function()
    for _, name in ipairs { "deepseek-v2-lite", "gpt2", "qwen3-30b-a3b" } do
      local times = {}
      for i = 1, 3 do
        local c = train(name, { tp = 4, global_batch = 8 * i, fast = { tp = 4 } })
        times[i] = c.time - c.breakdown.data_comm
      end
      assert.near(times[1], times[2] / 2, 1e-9 * times[1])
      assert.near(times[1], times[3] / 3, 1e-9 * times[1])
    end
  end)
end)

describe("ZeRO without replicas", function()
  for _, tp in ipairs { 1, 4 } do
    it(("shards nothing, waits for nothing, over tp %d"):format(tp), function()
      local model = tperf.model { name = "m", layers = 6, hidden = 1024, heads = 8, seq = 1024, vocab = 200000 }
      local plain = train(model, { zero = 0, tp = tp, pp = 4 })
      for zero = 1, 3 do
        local c = train(model, { zero = zero, tp = tp, pp = 4 })
        assert.equal(plain.time, c.time)
        assert.equal(plain.memory.total, c.memory.total)
      end
    end)
  end
end)

-- On a ring an all-reduce is a reduce-scatter and a gather of as many bytes; ZeRO 0 reduces gradients and no more.
describe("gradient_reduce", function()
  local link = { bandwidth = 1e11, efficiency = 1, latency = 3e-6 }
  local system = tperf.system "h100-sxm":with { network = { fast = link, slow = link } }
  local function waits(zero, reduce)
    return train("llama-3.2-1b", { system = system, dp = 8, zero = zero, gradient_reduce = reduce, gradients = "fp32",
      data_overlap = false }).breakdown.data_comm
  end

  it("reduces whole gradients where replicas shard the optimizer's state alone", function()
    local whole = waits(0)
    assert.near(whole / 2, waits(1, "all_reduce") - waits(1, "reduce_scatter"), 1e-9 * whole)
    assert.equal(waits(1), waits(1, "reduce_scatter"))
    for _, zero in ipairs { 0, 2, 3 } do assert.equal(waits(zero), waits(zero, "all_reduce"), "ZeRO " .. zero) end
  end)
end)

-- The first and the last stage of a pipeline both hold a tied table, and use it for different products: its gradient is
-- the sum of theirs (Megatron-LM, finalize_model_grads.py), 4 bytes a parameter all-reduced between two GPUs.
describe("a tied table on both ends of a pipeline", function()
  local VOCAB <const>, HIDDEN <const>, BANDWIDTH <const>, LATENCY <const> = 100000, 2048, 2e11, 4e-6
  local function waits(tied, domain, tp, pp)
    local link = { bandwidth = BANDWIDTH, efficiency = 1, latency = LATENCY }
    local system = tperf.system "h100-sxm":with { network = {
      fast = { bandwidth = BANDWIDTH, efficiency = 1, latency = LATENCY, domain = domain }, slow = link,
    } }
    local model = tperf.model {
      name = "m", layers = 8, hidden = HIDDEN, heads = 16, seq = 1024, vocab = VOCAB, tied_embeddings = tied,
    }
    local c = train(model, { system = system, tp = tp, pp = pp, simulate = true, sequence_parallel = false })
    assert.near(c.time, c.simulated.time, 0.02 * c.time)
    return c.breakdown.data_comm
  end

  for _, case in ipairs { { 8, 1, 2 }, { 8, 2, 4 }, { 1, 1, 4 } } do
    local domain, tp, pp = table.unpack(case)
    it(("adds up its gradient over tp %d, pp %d, in domains of %d"):format(tp, pp, domain), function()
      local expected = 2 * (LATENCY + 4 * VOCAB * HIDDEN / tp / 2 / BANDWIDTH)
      local got = waits(true, domain, tp, pp) - waits(false, domain, tp, pp)
      assert.near(expected, got, 1e-9 * expected)
    end)
  end

  it("costs nothing on one GPU", function()
    assert.near(waits(false, 8, 1, 1), waits(true, 8, 1, 1), 1e-12)
  end)

  it("is priced alike whatever else a search tries", function()
    local model = tperf.model {
      name = "m", layers = 8, hidden = 1024, heads = 8, seq = 1024, vocab = 100000, tied_embeddings = true,
    }
    local function search(schedule, prune)
      return tperf.search {
        model = model, system = "h100-sxm", software = "none", gpus = 16, global_batch = 32, schedule = schedule,
        prune = prune, simulate = false, top = 20,
      }
    end
    local kinds = { "1f1b", "gpipe", "dualpipe", "dualpipe_v" }
    local quick, whole, best = search(kinds, true), search(kinds, false), 0
    for i, c in ipairs(whole) do assert.equal(c.time, quick[i].time) end
    for _, kind in ipairs(kinds) do best = math.max(best, search(kind, true)[1].throughput) end
    assert.equal(best, quick[1].throughput)
  end)
end)

describe("the rotated key that all heads of latent attention share", function()
  it("has a gradient from the heads of every GPU of tp", function()
    local seq, rope = 4096, 64
    for _, sequence_parallel in ipairs { true, false } do
      local c = train("deepseek-v2-lite", { tp = 4, seq = seq, sequence_parallel = sequence_parallel })
      local back = op_of(c, "k-rope").backward.comms[1]
      assert.equal(sequence_parallel and "reduce_scatter" or "all_reduce", back.kind)
      assert.equal(2 * seq * rope, back.bytes)
    end
  end)
end)
