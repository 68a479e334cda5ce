-- Axes as data: groups, placements and shares of memory follow from their fields.
local tperf = require "tperf"

local function train(given)
  given.model, given.system = given.model or "llama-3.1-8b", given.system or "h100-sxm"
  given.software = "none"
  return tperf.train(given)
end

-- A second data axis over racks, whose gradients are compressed to a quarter in transit: one table is all it takes.
local tensor = tperf.strategy.of "tensor"
local racks = { name = "racks", extends = "tensor", summary = "replicas over racks, gradients compressed between them" }
racks.axes = {
  { name = "rack", cuts = { "batch" }, apart = 0.25, admits = function() return true end }, table.unpack(tensor.axes),
}
tperf.strategy.define(racks)

describe("a custom axis", function()
  it("is a row of a strategy: it takes GPUs, cuts the batch and replicates weights", function()
    local plain = train { tp = 2, dp = 8, global_batch = 64 }
    local c = train { strategy = "racks", tp = 2, dp = 8, rack = 4, global_batch = 256 }
    assert.same({ 64, 16, 4 }, { c.gpus, plain.gpus, c.rack })
    assert.equal(plain.microbatches, c.microbatches)
    -- Each rack shards its optimizer's state separately.
    assert.equal(plain.memory.optimizer, c.memory.optimizer)
    assert.equal(plain.memory.weights, c.memory.weights)
  end)

  it("exchanges gradients last, in a quarter of their bytes", function()
    local c = train { strategy = "racks", tp = 2, dp = 8, rack = 4, global_batch = 256, zero = 1, data_overlap = false,
      fast = { tp = 2, dp = 4, pp = 1, rack = 1 } }
    local plain = train { tp = 2, dp = 8, global_batch = 64, zero = 1, data_overlap = false,
      fast = { tp = 2, dp = 4, pp = 1 } }
    -- All layers' gradients in fp32, a shard of one eighth, a quarter of it: an all-reduce over one GPU per rack, one
    -- collective a section: 32 layers, embedding, head.
    local parameters = c.memory.gradients / 4
    local model = tperf.model "llama-3.1-8b"
    local layer = model:parameters()
    local table_bytes = 4 * 128256 * 4096 / 2
    local function reduce(bytes)
      return tperf.collective { system = "h100-sxm", kind = "all_reduce", bytes = bytes / 8 / 4, gpus = 4, fast = 1 }
    end
    local each = (4 * parameters - 2 * table_bytes - 4 * 4096) / 32
    local sum = 32 * reduce(each) + reduce(table_bytes) + reduce(table_bytes + 4 * 4096)
    assert.near(sum, c.breakdown.data_comm - plain.breakdown.data_comm, 1e-6 * sum)
    assert.is_true(layer.total > 8e9)
  end)

  it("appears in tables, files and charts like the built-in ones", function()
    local c = train { strategy = "racks", tp = 2, dp = 8, rack = 4, global_batch = 256 }
    local columns = table.concat(tperf.report.configurations({ c }, {}), " ")
    for _, name in ipairs { " rack ", " fast.rack " } do assert.truthy(columns:find(name, 1, true), columns) end
    assert.truthy(require("tperf.cli.answer.stages").chart(c, "m", 80e9):svg():find "rack 4")
    assert.truthy(tperf.plot.configurations({ rows = { c }, x = "dp" }):svg():find(">rack<", 1, true))
  end)

  it("is searched beside the built-in strategies, and never loses to them at size 1", function()
    local function best(strategy)
      return tperf.search {
        model = "llama-3.1-8b", system = "h100-sxm", gpus = 64, global_batch = 256, strategy = strategy, top = 1,
        software = "none",
      }[1]
    end
    local one, other = best "tensor", best "racks"
    assert.is_true(other.time <= one.time)
    assert.equal(64, other.tp * other.dp * other.pp * other.rack)
  end)

  it("serves requests, too", function()
    local r = tperf.infer {
      model = "llama-3.1-8b", system = "h100-sxm", strategy = "racks", tp = 2, rack = 2, prompt = 512, generate = 64,
      batch = 8,
    }
    local plain = tperf.infer { model = "llama-3.1-8b", system = "h100-sxm", tp = 2, prompt = 512, generate = 64,
      batch = 8 }
    assert.equal(4, r.gpus)
    assert.equal(plain.tpot, r.tpot)
    assert.near(2 * plain.tokens_per_second, r.tokens_per_second, 1e-9 * r.tokens_per_second)
  end)

  it("counts its GPUs in the cost, and its replicas in the throughput", function()
    local function of(more)
      local q = { model = "llama-3.1-8b", system = "h100-sxm", tp = 2, prompt = 512, generate = 64, batch = 8,
        gpu_hour = 2 }
      for name, value in pairs(more) do q[name] = value end
      return tperf.infer(q)
    end
    local apart, replicas = of { strategy = "racks", rack = 4 }, of { dp = 4 }
    for _, field in ipairs { "gpus", "ttft", "tpot", "tokens_per_second", "prefill_tokens_per_second", "max_batch",
      "decode_tokens_per_second", "tokens_per_second_per_gpu", "energy_per_token" } do
      assert.near(replicas[field], apart[field], 1e-12 * replicas[field])
    end
    for _, part in ipairs { "input", "output", "total", "generated" } do
      assert.near(replicas.cost[part], apart.cost[part], 1e-12)
    end
    local found = tperf.search_inference { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, prompt = 512,
      generate = 64, strategy = "racks", top = 1000 }
    local most = 0
    for _, r in ipairs(found) do
      assert.equal(8, r.rack * r.tp * r.pp * r.dp)
      most = math.max(most, r.rack)
    end
    assert.equal(8, most)
  end)

  -- Blocks ask what an axis does, so an axis that spreads experts may have any name.
  it("may do what a built-in one does under another name", function()
    local own = { name = "wide", extends = "tensor", axes = {} }
    for i, axis in ipairs(tensor.axes) do
      own.axes[i] = axis
      if axis.name == "ep" then
        own.axes[i] = { name = "wide", cuts = { "experts" }, folds = axis.folds, admits = function(m, p)
          if m.experts.count % p.wide ~= 0 then return false, "does not divide the experts" end
          return true
        end }
      end
    end
    tperf.strategy.define(own)
    local function same(ask, question, fields)
      local one, other = {}, { strategy = "wide" }
      for name, value in pairs(question) do one[name], other[name == "ep" and "wide" or name] = value, value end
      local expected, got = ask(one), ask(other)
      -- Its blocks are not cut into pieces that shapes share, so they are added up in another order.
      for _, field in ipairs(fields) do assert.near(expected[field], got[field], 1e-12 * expected[field], field) end
      assert.same(expected.memory, got.memory)
    end
    same(train, { model = "mixtral-8x7b", tp = 2, ep = 8, etp = 1, pp = 4, dp = 8, global_batch = 64 },
      { "time", "mfu", "gpus" })
    same(tperf.infer, { model = "mixtral-8x7b", system = "h100-sxm", tp = 2, ep = 8, etp = 1, prompt = 512,
      generate = 32 }, { "ttft", "tpot", "gpus", "max_batch" })
    same(tperf.serve, { model = "mixtral-8x7b", system = "h100-sxm", tp = 2, etp = 1, attention_dp = 4, ep = 8,
      load = { concurrency = 4 }, count = 8, prompt = 200, output = 20 }, { "throughput", "gpus", "num_blocks" })
  end)

  it("must be consistent", function()
    local function fails(axis, message)
      local own = { name = "unsound", extends = "tensor", axes = { tensor.axes[1], axis } }
      local ok, text = pcall(tperf.strategy.define, own)
      assert.is_false(ok)
      assert.truthy(text:find(message, 1, true), text)
    end
    local function admits() return true end
    fails({ name = "x", folds = { "nosuch" }, cuts = { "experts" }, admits = admits }, "folds over 'nosuch'")
    fails({ name = "x", folds = { "tp" }, cuts = { "batch" }, admits = admits }, "folds over others, so")
    fails({ name = "x", cuts = { "state" }, admits = admits }, "shards state, so it folds")
    fails({ name = "x", cuts = { "nothing" }, admits = admits }, "must be one of")
    fails({ name = "tp", admits = admits }, "two axes are called 'tp'")
    fails({ name = "averylongname", admits = admits }, "must have 1 to 7 bytes")
  end)
end)

describe("hybrid shards", function()
  -- llama-3.1-8b in bf16 with fp32 gradients, master copy and moments: what ZeRO 3 shards over `shard` of 64 replicas.
  it("divide weights, gradients and optimizer state by their number of GPUs", function()
    local parameters = tperf.model "llama-3.1-8b":parameters().total
    for _, shard in ipairs { 8, 16, 32, 64 } do
      local c = train { dp = 64, shard = shard, zero = 3, global_batch = 64 }
      assert.near(2 * parameters / shard, c.memory.weights, 1)
      assert.near(4 * parameters / shard, c.memory.gradients, 1)
      assert.near(12 * parameters / shard, c.memory.optimizer, 1)
    end
  end)

  it("span all replicas by default", function()
    local a, b = train { dp = 64, zero = 3, global_batch = 64 }, train { dp = 64, shard = 64, zero = 3,
      global_batch = 64 }
    assert.equal(a.time, b.time)
    assert.equal(nil, a.shard)
    assert.equal(64, b.shard)
  end)

  it("gather within a domain, and reduce in two steps", function()
    local function data(given)
      given.zero, given.global_batch, given.data_overlap, given.dp = 3, 64, false, 64
      given.fast = { tp = 1, dp = 8, pp = 1 }
      return train(given).breakdown.data_comm
    end
    -- By hand, for one layer: gathers in both passes, a reduce-scatter in the domain, an all-reduce of a shard among 8.
    local parameters = tperf.model "llama-3.1-8b":parameters().total
    local ends = 2 * 128256 * 4096 + 4096
    local layer = (parameters - ends) / 32
    local function time(n)
      local function of(kind, bytes, gpus, fast)
        return tperf.collective { system = "h100-sxm", kind = kind, bytes = bytes, gpus = gpus, fast = fast }
      end
      return 2 * of("all_gather", 2 * n, 8, 8) + of("reduce_scatter", 4 * n, 8, 8) + of("all_reduce", 4 * n / 8, 8, 1)
    end
    local expected = 32 * time(layer) + time(128256 * 4096) + time(128256 * 4096 + 4096)
    assert.near(expected, data { shard = 8 }, 1e-6 * expected)
  end)

  it("need a ZeRO stage, and must divide the replicas", function()
    local ok, message = pcall(train, { dp = 64, shard = 24, zero = 3, global_batch = 64 })
    assert.is_false(ok)
    assert.truthy(message:find("shard = 24 does not divide dp = 64", 1, true), message)
    ok, message = pcall(train, { dp = 64, shard = 8, zero = 0, global_batch = 64 })
    assert.is_false(ok)
    assert.truthy(message:find("'shard' = 8 wants a ZeRO stage", 1, true), message)
  end)
end)

describe("context parallelism", function()
  local function long(given)
    given.tp, given.dp, given.seq, given.global_batch, given.recompute = 4, 1, 131072, 1, "full"
    return train(given)
  end
  local function ops(c)
    local list = {}
    for _, op in ipairs(c.layers) do list[op.name] = op end
    return list
  end

  it("is chosen by its axis, without naming a strategy", function()
    assert.equal("context", long({ cp = 8 }).strategy)
    assert.equal("all_gather", long({ cp = 8 }).cp_kind)
  end)

  it("hides a ring's messages behind attention, as long as it lasts", function()
    local gathered, ring = ops(long { cp = 8 }), ops(long { cp = 8, cp_kind = "ring" })
    local a, b = gathered.attention.forward, ring.attention.forward
    assert.equal(a.comms[1].bytes, b.comms[1].bytes)
    local work = b.compute_time + b.exposed_memory_time
    assert.near(math.max(a.comm_time - work, 0), b.comm_time, 1e-12)
    assert.is_true(b.comm_time < a.comm_time)
  end)

  it("moves heads by all-to-all: 2 kv_heads + 2 heads of every token that a GPU has, by hand", function()
    local c = ops(long { cp = 8, cp_kind = "all_to_all" })
    -- 32 heads and 8 key-value heads over tp 4: 8 and 2 on a GPU; over cp 8, 1 and 1 (a copy) of all tokens.
    assert.same({ "all_to_all", "cp", 8 }, { c["scatter-heads"].forward.comms[1].kind,
      c["scatter-heads"].forward.comms[1].axis, c["scatter-heads"].forward.comms[1].gpus })
    assert.equal(2 * 131072 * (1 * 128 + 1 * 256), c["scatter-heads"].forward.comms[1].bytes)
    assert.equal(2 * 131072 * 128, c["gather-heads"].forward.comms[1].bytes)
    assert.same({}, c.attention.forward.comms)
  end)

  it("nests: all-to-all inside a ring (USP)", function()
    local c = ops(long { cp = 4, ulysses = 2, cp_kind = "ring" })
    assert.equal("ulysses", c["scatter-heads"].forward.comms[1].axis)
    assert.same({ "all_gather", "cp", 4 }, { c.attention.forward.comms[1].kind, c.attention.forward.comms[1].axis,
      c.attention.forward.comms[1].gpus })
    -- The same work as with any other way to cut the sequence in eight.
    local ring = ops(long { cp = 8, cp_kind = "ring" })
    assert.near(ring.attention.forward.tensor_flops, c.attention.forward.tensor_flops,
      1e-4 * c.attention.forward.tensor_flops)
    assert.equal(ring.fc1.forward.tensor_flops, c.fc1.forward.tensor_flops)
  end)

  it("refuses more parts than heads, and unknown kinds", function()
    for given, message in pairs {
      [{ cp = 16, cp_kind = "all_to_all" }] = "does not divide the 8 heads that tp leaves",
      [{ cp = 2, ulysses = 16 }] = "does not divide the 8 heads that tp leaves",
      [{ cp = 8, cp_kind = "rings" }] = "did you mean 'ring'?",
    } do
      local ok, text = pcall(long, given)
      assert.is_false(ok)
      assert.truthy(text:find(message, 1, true), text)
    end
  end)

  it("is searched over its kinds, and finds the fastest", function()
    local function best(kind)
      return tperf.search {
        model = "llama-3.1-8b", system = "h100-sxm", seq = 65536, gpus = 32, global_batch = 8, strategy = "context",
        cp_kind = kind, top = 1, software = "none", micro_batch = 1, schedule = "1f1b",
      }
    end
    local all, least = best { "all_gather", "ring", "all_to_all" }, math.huge
    for _, kind in ipairs { "all_gather", "ring", "all_to_all" } do least = math.min(least, best(kind)[1].time) end
    assert.equal(least, all[1].time)
  end)
end)

describe("stationary weights", function()
  local TOKENS <const>, E <const>, F <const> = 64, 8192, 28672 -- a step of 64 requests of llama-3.1-70b
  local function serve(given)
    given.model, given.system, given.prompt, given.generate, given.batch = "llama-3.1-70b", "h100-sxm", 512, 64, TOKENS
    given.ops = true
    return tperf.infer(given)
  end

  it("send what arXiv 2211.05102 counts: 2 B L (E / X + F / YZ) a product of each kind", function()
    local s, m = tperf.strategy.of "stationary", tperf.model "llama-3.1-70b"
    for _, sizes in ipairs { { 4, 2 }, { 2, 4 }, { 8, 4 } } do
      local share = tperf.strategy.share(s, m, TOKENS, sizes, tperf.rules(), { mode = "decode", seq = 1 })
      local fc1 = share:column { name = "fc1", n_in = E, n_out = 2 * F }
      local fc2 = share:row { name = "fc2", n_in = F, n_out = E }
      local tp1, tp2 = table.unpack(sizes)
      local function bytes(op)
        local comms = op:counts().forward.comms
        return { comms[1].bytes, comms[2].bytes }
      end
      assert.same({ 2 * TOKENS * E / tp2, 2 * TOKENS * 2 * F / tp1 }, bytes(fc1))
      assert.same({ 2 * TOKENS * F / tp1, 2 * TOKENS * E / tp2 }, bytes(fc2))
      assert.equal(2 * E * 2 * F / (tp1 * tp2), fc1:counts().weight_bytes)
    end
  end)

  it("take as much memory per GPU as one-dimensional tensor parallelism", function()
    local one, two = serve { tp = 8 }, serve { strategy = "stationary", tp1 = 4, tp2 = 2 }
    assert.near(one.memory.weights, two.memory.weights, 2e-3 * one.memory.weights)
    assert.equal(one.memory.cache, two.memory.cache)
  end)

  it("are for serving only: searches over all strategies leave them out", function()
    for _, s in ipairs(tperf.strategy.list "all") do assert.is_not.equal("stationary", s.name) end
    local ok, message = pcall(serve, { strategy = "summa", tp1 = 2, tp2 = 2 })
    assert.is_false(ok)
    assert.truthy(message:find("strategy 'summa' cuts every sequence into parts", 1, true), message)
  end)
end)

describe("serving over any axes", function()
  local function serve(given)
    given.model, given.system = given.model or "llama-3.1-70b", "h100-sxm"
    given.prompt, given.generate, given.batch = 2048, 64, 16
    return tperf.infer(given)
  end

  it("spreads prompts and caches over cp", function()
    local one, two = serve { tp = 8 }, serve { tp = 8, cp = 4 }
    assert.same({ 32, "context" }, { two.gpus, two.strategy })
    assert.near(one.memory.cache / 4, two.memory.cache, 1e-9 * one.memory.cache)
    assert.equal(one.memory.weights, two.memory.weights)
    assert.is_true(two.ttft < 0.6 * one.ttft) -- a quarter of the work, and gathers between nodes
  end)

  it("keeps experts whole over tp x dp, as vLLM's expert parallelism does", function()
    local cut = serve { model = "qwen3-235b-a22b", tp = 8 }
    local whole = serve { model = "qwen3-235b-a22b", tp = 8, ep = 8, etp = 1 }
    assert.same({ 8, 8, 1 }, { whole.gpus, whole.ep, whole.dp })
    assert.near(cut.memory.weights, whole.memory.weights, 1e-9 * cut.memory.weights)
    local wide = serve { model = "qwen3-235b-a22b", tp = 4, ep = 16, etp = 1, dp = 4 }
    assert.equal(16, wide.gpus)
    local experts = 94 * 128 * 3 * 1536 * 4096 * 2
    assert.near(experts / 8 - experts / 16, whole.memory.weights - wide.memory.weights
      + (tperf.model "qwen3-235b-a22b":parameters().total * 2 - experts) * (1 / 4 - 1 / 8), 0.02 * experts / 16)
  end)

  it("searches the axes of any strategy", function()
    local found = tperf.search_inference {
      model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, strategy = "context", prompt = 4096, generate = 64,
      objective = "ttft", batch = 1,
    }
    local least = math.huge
    for _, cp in ipairs { 1, 2, 4, 8 } do
      for _, tp in ipairs { 1, 2, 4, 8 } do
        if cp * tp <= 8 then
          local r = tperf.infer { model = "llama-3.1-8b", system = "h100-sxm", tp = tp, cp = cp, dp = 8 // (tp * cp),
            prompt = 4096, generate = 64, strategy = "context" }
          least = math.min(least, r.ttft)
        end
      end
    end
    assert.is_true(found[1].ttft <= least)
    assert.equal(8, found[1].gpus)
  end)
end)

describe("the placements of a grid", function()
  local s = tperf.strategy.of "context"
  local own = {} -- indices of the axes that take GPUs
  for i, axis in ipairs(s.axes) do
    if not axis.folds then own[#own + 1] = i end
  end

  local function sorted(list)
    local texts = {}
    for i, placement in ipairs(list) do texts[i] = table.concat(placement, " ") end
    table.sort(texts)
    return texts
  end

  -- Tries every part of every axis that takes GPUs; keeps those where no axis can have a multiple of its part.
  local function tried(sizes, replicas, stages, domain)
    local axes, list, parts = { replicas, stages }, {}, {}
    for i, size in ipairs(sizes) do axes[2 + i], parts[2 + i] = size, 1 end
    local takes = { 1, 2 }
    for _, i in ipairs(own) do takes[#takes + 1] = 2 + i end
    local function used()
      local product = 1
      for _, i in ipairs(takes) do product = product * parts[i] end
      return product
    end
    local function is_largest()
      for _, i in ipairs(takes) do
        for larger = 2 * parts[i], axes[i], parts[i] do
          if axes[i] % larger == 0 and used() // parts[i] * larger <= domain then return false end
        end
      end
      return true
    end
    local function each(k)
      if k > #takes then
        if used() <= domain and is_largest() then list[#list + 1] = s.grid:fold(sizes, parts) end
        return
      end
      local i = takes[k]
      for part = 1, math.min(axes[i], domain) do
        if axes[i] % part == 0 then
          parts[i] = part
          each(k + 1)
        end
      end
      parts[i] = 1
    end
    each(1)
    return list
  end

  it("are all those in which no axis can have more neighbours, the first axes' best first", function()
    math.randomseed(14)
    local most = 0
    for _ = 1, 200 do
      local sizes, any, domain = {}, {}, math.random(1, 20)
      for i, axis in ipairs(s.axes) do
        sizes[i] = not axis.folds and math.random(1, 6) or axis.name == "ep" and 2 ^ math.random(0, 3) // 1 or 1
      end
      for i = 1, 2 + #sizes do any[i] = 0 end
      local replicas, stages = sizes[s.index.ep] * math.random(1, 3), math.random(1, 6)
      local found = s.grid:placements(sizes, replicas, stages, any, domain)
      assert.same(sorted(tried(sizes, replicas, stages, domain)), sorted(found))
      most = math.max(most, #found)
      local first = own[1]
      for _, placement in ipairs(found) do assert.is_true(placement[2 + first] <= found[1][2 + first]) end
    end
    assert.is_true(most > 5)
  end)

  it("have the parts demanded, of folded axes too", function()
    local function placed(fast, domain)
      return tperf.infer { model = "mixtral-8x7b", prompt = 128, generate = 16, tp = 2, etp = 1, ep = 8, dp = 4,
        fast = fast, system = tperf.system "h100-sxm":with { network = { fast = { domain = domain or 8 } } } }.fast
    end
    assert.same({ tp = 2, ep = 8, dp = 4 }, { tp = placed().tp, ep = placed().ep, dp = placed().dp })
    -- Four of the eight GPUs of a group of experts are neighbours: two of a replica's, of two replicas.
    for _, part in ipairs { 1, 2, 4, 8 } do
      local fast = placed { ep = part }
      assert.same({ part, part }, { fast.ep, fast.tp * fast.dp })
    end
    local function refuses(message, ...)
      local ok, said = pcall(placed, ...)
      assert.is_false(ok)
      assert.truthy(said:find(message, 1, true), said)
    end
    refuses("'fast.dp' = 3 does not divide dp = 4", { dp = 3 })
    refuses("the placement takes more GPUs than the 4 of a fast domain", { ep = 8 }, 4)
  end)
end)
