-- Architectures written in Lua: parameters, FLOPs, caches, states, messages and kept inputs are those of their ops. All
-- expected numbers are counted by hand in the case, or are the description's formulas.
local tperf = require "tperf"
local op = tperf.op

local H100 = "h100-sxm"

local function model(architecture, fields)
  local given = { name = "x", layers = 4, hidden = 1024, heads = 16, vocab = 32000, seq = 1024 }
  for name, value in pairs(fields or {}) do given[name] = value end
  given.architecture = tperf.architecture(architecture)
  return tperf.model(given)
end

local function block(build, name) return tperf.block(name or "b", build) end

local function bare(build, fields, more)
  local a = { name = "a", layer = { block(build) }, first = {}, last = {} }
  for name, value in pairs(more or {}) do a[name] = value end
  return model(a, fields)
end

local function near(want, got, part)
  assert.is_true(math.abs(got - want) <= (part or 1e-9) * want, got .. " for " .. want)
end

local function infer(m, more)
  local given = { model = m, system = H100, prompt = 1000, generate = 24, batch = 1 }
  for name, value in pairs(more or {}) do given[name] = value end
  return tperf.infer(given)
end

local function train(m, more)
  local given = { model = m, system = H100, global_batch = 16, software = "none" }
  for name, value in pairs(more or {}) do given[name] = value end
  return tperf.train(given)
end

local function mlp(width, inner)
  return function(_, p)
    return { p:norm { width = width }, p:column { name = "up", n_in = width, n_out = inner },
      op.gelu { elements = p:inner(inner) }, p:row { name = "down", n_in = inner, n_out = width } }
  end
end

describe("parameters and FLOPs of an architecture", function()
  it("are those of its ops, and of its ends", function()
    local m = model { name = "a", layer = { block(mlp(1024, 3000)) } }
    local p = m:parameters()
    local layer = 2 * 1024 + 2 * 1024 * 3000 -- scale and shift, both products
    assert.equal(4 * layer + 2 * 32000 * 1024 + 2 * 1024, p.total) -- table, head, final norm
    assert.equal(p.total, p.active)
    assert.equal(32000 * 1024, p.embedding)
    assert.equal(32000 * 1024, p.head)
    assert.equal(4 * layer, p.components.b)
    assert.equal(layer, p.groups[1].layer_total)
    local forward = 2.0 * (4 * 2 * 1024 * 3000 + 32000 * 1024) -- tables that are looked up compute nothing
    near(3 * forward, m:flops_per_token().total)
    near(forward, m:flops_per_token { backward = false }.total)
    local c = train(m)
    near(16 * 1024 * 3 * forward / c.time / 989.4e12, c.mfu, 1e-4)
    assert.equal(2.0 * p.total, c.memory.weights)
  end)

  it("count tied tables and shared tensors once, and experts by use", function()
    local tied = model({ name = "a", layer = { block(mlp(1024, 3000)) } }, { tied_embeddings = true })
    assert.equal(4 * (2 * 1024 + 2 * 1024 * 3000) + 32000 * 1024 + 2 * 1024, tied:parameters().total)
    local looped = bare(function(_, p) return { p:replicated { n_in = 1024, n_out = 1024, shared_as = "core" } } end)
    assert.equal(1024 * 1024, looped:parameters().total)
    near(4 * 6.0 * 1024 * 1024, looped:flops_per_token().total)
    local mixture = bare(function(m, p)
      local rows = 2 * p.micro_batch * p.seq -- two experts of eight for each token
      return { op.grouped_linear { tokens = rows, n_in = m.hidden, n_out = 512, experts = 8 } }
    end)
    assert.equal(4 * 8 * 1024 * 512, mixture:parameters().total)
    assert.equal(4 * 2 * 1024 * 512, mixture:parameters().active)
    assert.equal(4 * 2 * 1024 * 512, mixture:parameters().active_experts)
  end)

  it("count attention's pairs, and branches that run forward alone", function()
    local m = bare(function(_, p)
      return {
        p:attention { heads = 16, head_dim = 64, value_dim = 32, causal = true },
        op.custom { name = "teacher", forward = { tensor_flops = 1e6 * p.tokens } },
      }
    end)
    local pairs_seen = (1024 + 1) / 2 -- of a token, on average
    near(4 * (3 * 2 * 16 * (64 + 32) * pairs_seen + 1e6), m:flops_per_token().total)
    near(4 * 3 * 2 * 16 * (64 + 32) * pairs_seen, m:flops_per_token().attention)
    near(4 * (3 * 2 * 16 * (64 + 32) * 1024 + 1e6), m:flops_per_token { causal = false }.total)
    local one = m:flops_per_token { seq = 512 }.total
    near(4 * (3 * 2 * 16 * (64 + 32) * (512 + 1) / 2 + 1e6), one)
  end)

  it("count groups with a sequence of their own at its length", function()
    local function layer(width)
      return { block(function(_, p) return { p:replicated { n_in = width, n_out = width } } end) }
    end
    local m = model({ name = "bytes and patches", first = {}, last = {}, groups = {
      { count = 1, blocks = layer(256), seq = 4096 }, { count = 3, blocks = layer(1024) },
    } })
    near(6.0 * (4 * 256 ^ 2 + 3 * 1024 ^ 2), m:flops_per_token().total) -- four bytes for each patch
  end)

  it("are the description's for the library's blocks", function()
    for _, name in ipairs { "llama-3.1-8b", "gpt2", "gemma-2-27b", "mixtral-8x7b", "deepseek-v3", "deepseek-v3.2",
      "nemotron-h-56b", "qwen3-next-80b-a3b" } do
      local described, groups, by = tperf.model(name), {}, {}
      for i, group in ipairs(tperf.architecture.of(described).groups) do
        local copy = {}
        for field, value in pairs(group) do copy[field] = value end
        by[group.key] = by[group.key] or group.blocks
        copy.blocks = by[group.key]
        groups[i] = copy
      end
      local same = described:with { architecture = tperf.architecture { name = "same", groups = groups } }
      local want, got = described:parameters(), same:parameters()
      assert.same({ name, want.total, want.active, want.embedding, want.head, want.mtp },
        { name, got.total, got.active, got.embedding, got.head, got.mtp })
      local flops = described:flops_per_token { convention = "matmul" }.total
      near(flops, same:flops_per_token().total, 1e-3) -- the formulas' average causal token sees s/2 keys, not (s + 1)/2
      local function cache(m)
        return tperf.infer({ model = m, system = "h200-sxm", prompt = 1000, generate = 24, tp = 2, pp = 8,
          weight_dtype = "fp8", kv_dtype = "fp8" }).cache_sequence
      end
      near(cache(described), cache(same))
    end
  end)

  it("may be stated", function()
    local m = bare(mlp(1024, 3000), nil, { parameters = 12345, flops_per_token = 3e9 })
    assert.equal(12345, m:parameters().total)
    assert.equal(3e9, m:flops_per_token().total)
  end)
end)

describe("what an architecture keeps in decoding", function()
  local function kept(build, more, group)
    local groups = { { count = 4, blocks = { block(build) } } }
    for name, value in pairs(group or {}) do groups[1][name] = value end
    local function admits() return true end
    return infer(model({ name = "a", groups = groups, admits = admits }, { seq = 1 << 16 }), more).cache_sequence
  end
  local function attention(fields)
    return function(_, p)
      local o = { batch = p.micro_batch, heads = 16, kv_heads = 4, head_dim = 64, queries = p.seq,
        keys = p.context + p.seq, causal = true }
      for name, value in pairs(fields) do o[name] = type(value) == "function" and value(p) or value end
      return { op.attention(o) }
    end
  end
  local token = 2 * 4 * (64 + 64) -- bytes in a layer

  it("is what attention reads, whatever the description", function()
    assert.equal(0, kept(mlp(1024, 3000)))
    assert.equal(4 * 1024 * token, kept(attention {}))
    assert.equal(4 * 1024 * 2 * 4 * (64 + 32), kept(attention { value_dim = 32 }))
    assert.equal(4 * 1024 * 2 * 4 * 64, kept(attention { values_in_keys = true, value_dim = 32 }))
    assert.equal(4 * 1024 * token / 2,
      kept(attention { kv_dtype = function(p) return p.kv_dtype end }, { kv_dtype = "fp8" }))
  end)

  it("ends with the window, and follows any number of keys", function()
    assert.equal(4 * 100 * token, kept(attention { window = 100 }))
    assert.equal(4 * 100 * token, kept(attention { keys = function(p) return math.min(p.context + p.seq, 100) end,
      causal = false }))
    near(4 * 1024 / 16 * token, kept(attention { causal = false,
      keys = function(p) return math.max((p.context + p.seq) // 16, 1) end })) -- one key for sixteen tokens
    assert.equal(4 * 577 * token, kept(attention { keys = 577, causal = false })) -- of an image
  end)

  it("is cut as the heads and the keys are", function()
    local function build(_, p) return { p:attention { heads = 16, kv_heads = 4, head_dim = 64, causal = true } } end
    assert.equal(4 * 1024 * token / 2, kept(build, { tp = 2 }))
    assert.equal(4 * 1024 * token / 4, kept(build, { tp = 16 })) -- a copy of a head on each four GPUs
    assert.equal(4 * 1024 * token / 4, kept(build, { tp = 2, cp = 2 }))
    assert.equal(4 * 1024 * token, kept(build, { pp = 2 })) -- of all stages
  end)

  it("is the state of a scan, and what ops and groups say", function()
    local function scan(_, p)
      return { op.scan { batch = p.micro_batch, seq = p.seq, heads = 8, head_dim = 64, state = 128,
        step = p.mode == "decode" } }
    end
    assert.equal(4 * 4 * 8 * 64 * 128, kept(scan)) -- fp32
    local function says(keeps)
      return function(_, p)
        return { p:column { n_in = 1024, n_out = 1024, keeps = keeps }, op.custom { keeps = keeps } }
      end
    end
    assert.equal(4 * 2 * (1024 * 10 + 7), kept(says { token = 10, sequence = 7 }))
    assert.equal(4 * 2 * 100 * 10, kept(says { token = 10, window = 100 }))
    assert.equal(0, kept(attention { keeps = {} }))
    assert.equal(4 * (1024 * 3 + 5), kept(attention {}, nil, { keeps = { token = 3, sequence = 5 } }))
    assert.equal(4 * 1024 * 3, kept(attention {}, { tp = 2 },
      { keeps = function(_, p) return { token = 6 / p.tp } end }))
    assert.error_matches(function() kept(attention {}, nil, { keeps = { tokn = 1 } }) end,
      "group 'layer': 'keeps': unknown field 'tokn'")
    assert.error_matches(function() kept(attention { keeps = { token = -1 } }) end, "must not be negative")
    assert.error_matches(function() kept(attention { keeps = 3 }) end, "'keeps' needs a table of fields, got number")
  end)

  it("limits the batch, and serves", function()
    local m = model({ name = "a", layer = { block(mlp(1024, 3000)) } }, { seq = 4096 })
    local r = tperf.serve { model = m, system = H100, load = { rate = 3 }, count = 100, prompt = 100, output = 10 }
    assert.equal(100, r.finished)
    assert.equal(0, r.memory.cache)
  end)
end)

describe("architectures counted by hand", function()
  local H <const>, L <const>, V <const> = 1024, 6, 65536

  local function time_mix(_, p)
    local n, width = p.micro_batch * p.seq, H / p.tp
    local ops = { p:norm { name = "ln", width = H } }
    for i, name in ipairs { "r", "k", "v", "g" } do
      ops[i + 1] = p:column { name = name, n_in = H, n_out = H, input_kept_elsewhere = i > 1 }
    end
    ops[6] = op.custom {
      name = "wkv", weight_bytes = 2 * 2 * width,
      forward = { vector_flops = 6 * 64 * n * width, bytes = 10 * n * width },
      keeps = { sequence = p.micro_batch * (4 * width * 64 + 2 * H) }, -- a state in fp32, and the last token
    }
    ops[7], ops[8] = p:row { name = "o", n_in = H, n_out = H }, op.residual { elements = p:outer(H) }
    return ops
  end

  it("a recurrence", function()
    local m = model({ name = "rwkv", layer = { block(time_mix, "time"), block(mlp(H, 4 * H), "channel") } },
      { layers = L, hidden = H, vocab = V, seq = 4096 })
    assert.equal(L * (2 * 2 * H + 5 * H * H + 2 * H + 8 * H * H) + 2 * V * H + 2 * H, m:parameters().total)
    near(2 * (L * 13 * H * H + V * H), m:flops_per_token { backward = false }.total)
    assert.equal(L * (4 * H * 64 + 2 * H), infer(m).cache_sequence)
  end)

  local function layer(width, window)
    return { block(function(_, p)
      local heads = width // 128
      return {
        p:norm { name = "n1", width = width, root_mean_square = true },
        p:column { name = "qkv", n_in = width, n_out = 3 * width },
        p:attention { heads = heads, head_dim = 128, causal = true, window = window },
        p:row { name = "o", n_in = width, n_out = width },
        p:norm { name = "n2", width = width, root_mean_square = true },
        p:column { name = "up", n_in = width, n_out = 4 * width }, op.gelu { elements = p:inner(4 * width) },
        p:row { name = "down", n_in = 4 * width, n_out = width },
      }
    end) }
  end

  it("bytes and patches", function()
    local bytes, patches, w = 8192, 2048, 512
    local m = model({ name = "blt",
      first = { block(function(_, p) return { p:embedding { rows = 256, width = w } } end) },
      last = { block(function(_, p) return { p:head { n_in = w, n_out = 256 } } end) },
      groups = { { count = 2, key = "enc", seq = bytes, width = w, blocks = layer(w, 512) },
        { count = 4, key = "latent", width = 2048, blocks = layer(2048) },
        { count = 2, key = "dec", seq = bytes, width = w, blocks = layer(w, 512) } },
    }, { layers = 8, hidden = 2048, vocab = 256, seq = patches })
    assert.equal(4 * (2 * w + 12 * w * w) + 4 * (2 * 2048 + 12 * 2048 * 2048) + 2 * 256 * w, m:parameters().total)
    local seen = bytes * 512 - 512 * 511 / 2
    local flops = 4 * (bytes * 24 * w * w + 4 * w * seen)
      + 4 * (patches * 24 * 2048 ^ 2 + 4 * 2048 * patches * (patches + 1) / 2) + patches * 2 * w * 256
    near(flops / patches, m:flops_per_token { backward = false }.total)
  end)

  it("sparse attention with three branches", function()
    local m = model({ name = "nsa", layer = { block(function(_, p)
      local tokens = p.context + p.seq
      local function branch(name, o)
        o.name, o.heads, o.kv_heads, o.head_dim = name, 16, 4, 128
        return p:attention(o)
      end
      return {
        p:norm { width = 2048 }, p:column { name = "qkv", n_in = 2048, n_out = 2048 + 2 * 4 * 128 },
        branch("compressed", { causal = false, keys = math.max(tokens // 16, 1) }),
        branch("selected", { window = 1024, keeps = { token = 2 * 2 * p.micro_batch * 4 * 128 / p.tp } }),
        branch("window", { window = 512, keeps = {} }), -- reads the same keys
        p:row { n_in = 2048, n_out = 2048 },
      }
    end) } }, { hidden = 2048, seq = 8192 })
    assert.equal(4 * (2 * 2048 + 2048 * 3072 + 2048 * 2048) + 2 * 32000 * 2048 + 2 * 2048, m:parameters().total)
    near(4 * 1024 * 2048 * (1 + 1 / 16), infer(m).cache_sequence)
    near(4 * 1024 * 2048 * (1 + 1 / 16) / 2, infer(m, { tp = 2 }).cache_sequence)
  end)
end)

describe("shared weights", function()
  local function looped(fields)
    return model { name = "looped", first = {}, last = {}, groups = {
      { count = 2, key = "own", blocks = { block(mlp(1024, 2048)) } },
      { count = 6, key = "again", blocks = { block(function(_, p)
        return { p:column { name = "up", n_in = 1024, n_out = 4096, shared_as = "up" },
          p:row { name = "down", n_in = 4096, n_out = 1024, shared_as = "down" } }
      end) } },
    } }:with(fields or {})
  end
  local own, core = 2 * 1024 + 2 * 1024 * 2048, 2 * 1024 * 4096 -- parameters

  it("are held once by every stage that uses them, whose gradients are added up", function()
    local m = looped { layers = 8 }
    assert.equal(2 * own + core, m:parameters().total)
    local c = train(m, { pp = 4, global_batch = 64 })
    for i, stage in ipairs(c.stages) do
      local want = (i == 1 and 2 * own or 0) + (i > 1 and core or 0)
      assert.equal(2 * want, stage.memory.weights)
      assert.equal(4 * want, stage.memory.gradients)
      assert.equal(12 * want, stage.memory.optimizer)
    end
    local reduced
    for _, exchange in ipairs(c.exchanges) do
      if exchange.section == "weights that layers share" then reduced = exchange.tied end
    end
    near(tperf.collective { system = H100, kind = "all_reduce", bytes = 4 * core, gpus = 3, fast = 3 }, reduced)
    assert.is_nil(train(m).exchanges[5].tied) -- one GPU has all of them
  end)

  it("are found where weights_elsewhere leaves a stage without their owner", function()
    local function layer(borrows)
      return { block(function(_, p)
        return { p:column { name = "up", n_in = 1024, n_out = 4096, weights_elsewhere = borrows },
          p:row { name = "down", n_in = 4096, n_out = 1024, weights_elsewhere = borrows } }
      end) }
    end
    local m = model({ name = "universal", first = {}, last = {}, groups = {
      { count = 1, key = "own", blocks = layer(false) }, { count = 7, key = "again", blocks = layer(true) } } },
      { layers = 8 })
    assert.equal(core, m:parameters().total)
    for _, stage in ipairs(train(m, { pp = 4 }).stages) do assert.equal(2 * core, stage.memory.weights) end
  end)

  it("are refused if they differ, or if no op holds them", function()
    local function build(second)
      return function(_, p) return { p:replicated { n_in = 64, n_out = 64, shared_as = "t" },
        p:replicated { name = "other", n_in = 64, n_out = second, shared_as = "t" } } end
    end
    assert.error_matches(function() train(bare(build(32))) end,
      "block 'b', op 'other': the tensor 't' has 2048 parameters here and 4096 in op 'linear'")
    assert.error_matches(function()
      train(bare(function(_, p)
        return { p:replicated { n_in = 8, n_out = 8, shared_as = "t", weights_elsewhere = true } }
      end))
    end, "no op holds the weights of the tensor 't'")
  end)

  it("sum over the stages to the ops', for 200 random architectures and layouts", function()
    math.randomseed(49)
    local function pick(list) return list[math.random(#list)] end
    for _ = 1, 200 do
      local groups, layers, plain, shared, holders = {}, 0, 0, {}, {}
      for g = 1, math.random(1, 4) do
        local count, width, name = math.random(1, 4), 64 * math.random(1, 8), pick { "p", "q", false, false }
        if name then width = name == "p" and 256 or 512 end
        groups[g] = { count = count, key = "g" .. g, blocks = { block(function(_, p)
          return { p:column { n_in = 1024, n_out = width, shared_as = name or nil } }
        end) } }
        if name then shared[name] = 1024 * width else plain = plain + count * 1024 * width end
        for i = layers + 1, layers + count do holders[i] = name end
        layers = layers + count
      end
      local tp, pp = pick { 1, 2, 4 }, math.random(1, math.min(layers, 4))
      local m = model({ name = "random", first = {}, last = {}, groups = groups }, { layers = layers })
      local c, sum, at, want = train(m, { tp = tp, pp = pp, dp = pick { 1, 2 }, zero = pick { 0, 1 },
        global_batch = 32 }), { 0, 0, 0 }, 0, plain / tp
      for _, stage in ipairs(c.stages) do
        for _ = 1, stage.repeats do
          local seen = {}
          for i = at + 1, at + stage.layers do
            local name = holders[i]
            if name and not seen[name] then want, seen[name] = want + shared[name] / tp, true end
          end
          at = at + stage.layers
          sum[1], sum[2] = sum[1] + stage.memory.weights, sum[2] + stage.memory.gradients
          sum[3] = sum[3] + stage.memory.optimizer
        end
      end
      local shards = c.zero == 1 and c.dp or 1
      assert.same({ 2 * want, 4 * want, 12 * want / shards }, sum)
      local total = plain
      for _, count in pairs(shared) do total = total + count end
      assert.equal(total, m:parameters().total)
    end
  end)
end)

describe("streams of an architecture", function()
  local S = 1024
  local function layer(width) return { block(mlp(width, 4 * width)) } end

  it("are as wide as a group says, or as its first op", function()
    for _, stated in ipairs { true, false } do
      local m = model { name = "widths", first = {}, last = {}, groups = {
        { count = 2, key = "narrow", blocks = layer(256) },
        { count = 2, key = "wide", blocks = layer(4096), width = stated and 4096 or nil } } }
      local c = train(m, { pp = 2, recompute = "full" })
      assert.equal(2 * S * 2 * 256, c.stages[1].memory.activations / c.stages[1].in_flight)
      assert.equal(2 * S * 2 * 4096, c.stages[2].memory.activations / c.stages[2].in_flight)
      assert.equal(2.0 * S * 4096, c.messages[1].bytes)
    end
  end)

  it("bring along what a group carries", function()
    local m = model { name = "skips", first = {}, last = {}, groups = {
      { count = 2, key = "down", blocks = layer(1024) },
      { count = 2, key = "up", blocks = layer(1024), carries = 3 * 1024 * S } } }
    assert.equal(2.0 * S * 4 * 1024, train(m, { pp = 2 }).messages[1].bytes)
    assert.equal(2.0 * S * 4 * 1024 / 2, train(m, { pp = 2, tp = 2 }).messages[1].bytes)
  end)
end)

describe("a block", function()
  local function searched(build, more, architecture)
    local given = { model = bare(build, { seq = 4096 }, architecture), system = H100, gpus = 8, global_batch = 16,
      top = 1000, software = "none" }
    for name, value in pairs(more or {}) do given[name] = value end
    return tperf.search(given)
  end

  it("may refuse a shape, which a search leaves out with the reason", function()
    local function build(_, p)
      if p.micro_batch > 1 then return nil, "needs one sequence" end
      return { p:replicated { n_in = 1024, n_out = 1024 } }
    end
    local r = searched(build)
    assert.is_true(#r > 0)
    for _, c in ipairs(r) do assert.equal(1, c.micro_batch) end
    assert.matches("block 'b': needs one sequence %(%d layouts, the first one GPU a stage, micro_batch = 2%)",
      r.left_out[1])
    assert.matches("can be laid out: block 'b': needs one sequence", searched(build, { micro_batch = 2 }).reason)
    assert.error_matches(function() train(bare(build), { micro_batch = 2 }) end, "block 'b': needs one sequence")
  end)

  it("are named where they do all of their work on every GPU of the pool that computes prompts", function()
    local m = model({ name = "a", layer = { block(function(given, p)
      return { p:replicated { n_in = given.hidden, n_out = given.hidden } }
    end) } }, { seq = 4096 })
    local r = tperf.serve { model = m, system = H100, prompt = 128, output = 16, count = 20, load = { rate = 5 },
      prefill = { tp = 2 }, decode = { tp = 1 } }
    assert.same({ "block 'b' does all of its work on each of 2 GPUs of tp" }, r.warnings)
  end)

  it("may admit layouts, in place of the description's heads", function()
    local function admits(_, layout)
      if layout.tp > 2 then return false, "has two halves" end
      return true
    end
    local function build(m, p) return { p:replicated { n_in = m.hidden, n_out = m.hidden } } end
    local m = bare(build, { heads = 1, head_dim = 64, seq = 4096 }, { admits = admits })
    assert.is_true(train(m, { tp = 2 }).time > 0)
    assert.error_matches(function() train(m, { tp = 4 }) end, "tp = 4: architecture 'a' has two halves")
    local served = model({ name = "a", layer = { block(build) }, admits = admits }, { seq = 4096 })
    assert.error_matches(function() infer(served, { tp = 4 }) end, "tp = 4: architecture 'a' has two halves")
    local found = tperf.search_inference { model = served, system = H100, gpus = 8, prompt = 64, generate = 8 }
    for _, c in ipairs(found) do assert.is_true(c.tp <= 2) end
    local halves = "tp = %d: architecture 'a' has two halves"
    assert.same({ halves:format(4), halves:format(8) }, found.left_out)
    for _, c in ipairs(searched(build, nil, { admits = admits })) do assert.is_true(c.tp <= 2) end
    assert.matches("architecture 'a' has two halves", searched(build, { tp = 4 }, { admits = admits }).reason)
    assert.error_matches(function() train(bare(build, nil, { admits = function() return 1 end })) end,
      "'admits' must return true, or false and a reason, got 1")
  end)

  it("leaves out strategies that cannot cut it, with a reason", function()
    local r = searched(function(m, p)
      local width = m.hidden // p.tp
      return { p:replicated { n_in = width, n_out = m.hidden } }
    end,
      { strategy = "all" })
    assert.is_true(#r > 0)
    assert.matches("summa: block 'b' reads p.tp, and strategy 'summa' has no axis 'tp': it has tp1, tp2",
      table.concat(r.left_out, "\n"))
  end)

  it("is the same to a search and to train, whatever it depends on", function()
    for _, build in ipairs {
      function(_, p) return { p:replicated { n_in = 64 + p.micro_batch ^ 2 // 1 | 0, n_out = 64 * p.tp } } end,
      function(_, p) return { op.custom { forward = { tensor_flops = 1e9 * math.log(p.tokens) / p.tp },
        saved_bytes = 1e6 * (p.recompute == "full" and 1 or 3) } } end,
      function(m, p)
        local ops = {}
        for i = 1, p.micro_batch % 3 + p.tp do ops[i] = op.gelu { elements = 1e5 * i * m.hidden } end
        return ops
      end,
      function(_, p) return { p:column { n_in = 1024, n_out = 4096, shared_as = p.tp > 1 and "a" or "b" } } end,
    } do
      local r = searched(build)
      assert.is_true(#r > 5)
      for i = 1, #r, math.max(#r // 12, 1) do
        local c = r[i]
        local again = tperf.train { configuration = c, model = c.model or r.model, system = H100, global_batch = 16,
          software = "none" }
        assert.equal(c.time, again.time)
        assert.same(c.memory, again.memory)
      end
    end
  end)

  it("answers for its cuts' fields and the share's names", function()
    local function refused(message, build) assert.error_matches(function() train(bare(build)) end, message) end
    local function cut(name, o) return function(_, p) return { p[name](p, o) } end end
    refused("share:column: unknown field \"tokens\"", cut("column", { n_in = 8, n_out = 8, tokens = 100 }))
    refused("unknown field \"biases\" %(did you mean 'bias'%?%)", cut("column", { n_in = 8, n_out = 8, biases = true }))
    refused("unknown field \"dtype\"", cut("row", { n_in = 8, n_out = 8, dtype = "fp8" }))
    refused("unknown field \"rms\"", cut("norm", { width = 8, rms = true }))
    refused("unknown field \"tokens\"", cut("embedding", { rows = 8, width = 8, tokens = 1 }))
    refused("share.inner is a method: call it as share:inner", function(_, p) return { p.inner(64) } end)
    refused("no field 'microbatch' %(did you mean 'micro_batch'%?%)", function(_, p) return { p.microbatch } end)
    refused("no field 'colum' %(did you mean 'column'%?%)",
      function(_, p) return { p:colum { n_in = 1, n_out = 1 } } end)
    assert.error_matches(function() op.collective { kind = "all_to_all", axis = "ep", bytes = 1, share = true } end,
      "op 'all_to_all': 'share' is of vectors")
  end)
end)

describe("groups of an architecture", function()
  it("have reserved fields, and a limit that names the group", function()
    local function groups(list)
      for _, group in ipairs(list) do group.blocks = { block(mlp(1024, 1024)) } end
      return function() train(model({ name = "a", groups = list }, { layers = #list })) end
    end
    assert.error_matches(groups { { count = 1, frozen = true } }, "group 1: 'frozen' is set by the library")
    assert.error_matches(groups { { count = 1, width = 0 } }, "group 1: 'width' must be an integer of at least 1")
    assert.error_matches(groups { { count = 1, window = "512" } }, "group 1: 'window' must be an integer of at least 1")
    assert.error_matches(groups { { count = 1, carries = -1 } }, "group 1: 'carries' must be a number of at least 0")
    local many = {}
    for i = 1, 65 do many[i] = { count = 1, key = "kind " .. i } end
    assert.error_matches(groups(many), "group 65 %('kind 65'%) is the 65th kind of layer, and a model has at most 64")
  end)
end)

describe("what blocks leave out of a question", function()
  local llama = tperf.model "llama-3.1-8b"
  local builtin = tperf.architecture.of(llama).groups[1].blocks[2]
  local function with(attention)
    return llama:with { architecture = tperf.architecture { name = "mine",
      layer = { block(attention, "attention"), builtin } } }
  end
  local function direct(m, p) -- as scripts/gqa.lua: written as ops, for tp alone
    local rows, heads, kv, d = p.micro_batch * p.seq, m.heads // p.tp, m.kv_heads // p.tp, m.head_dim
    return {
      op.norm { tokens = rows // p.tp, width = m.hidden, root_mean_square = true, parameter_grad = "tp" },
      op.linear { name = "qkv", tokens = rows, n_in = m.hidden, n_out = (heads + 2 * kv) * d, gather = "tp" },
      op.attention { batch = p.micro_batch, heads = heads, kv_heads = kv, queries = p.seq, keys = p.context + p.seq,
        head_dim = d, causal = true },
      op.linear { name = "proj", tokens = rows, n_in = heads * d, n_out = m.hidden, reduce_scatter = "tp" },
    }
  end

  it("is said: GPUs of an axis that save it nothing, dtypes that it does not read", function()
    assert.is_nil(train(with(direct), { tp = 2 }).warnings)
    assert.same({ "block 'attention' does all of its work on each of 8 GPUs of cp" },
      train(with(direct), { cp = 8 }).warnings)
    assert.same({ "block 'attention' does not read weight_dtype: its weights stay in 16 bits" },
      infer(with(direct), { weight_dtype = "int4" }).warnings)
    local found = tperf.search { model = with(direct), system = H100, gpus = 8, global_batch = 8, cp = 8,
      software = "none" }
    assert.same({ "block 'attention' does all of its work on each of 8 GPUs of cp" }, found[1].warnings)
  end)

  it("is refused: questions that no block reads", function()
    local m = model({ name = "a", layer = { block(mlp(1024, 3000)) } }, { seq = 4096 })
    assert.error_matches(function() train(m, { attention = "unfused" }) end, "attention = \"unfused\": no block")
    assert.error_matches(function() train(m, { packing = { mean = 100 } }) end, "packing: no block of architecture 'a'")
    assert.error_matches(function() infer(m, { kv_dtype = "fp8" }) end, "kv_dtype = \"fp8\": no block")
    assert.error_matches(function() train(with(direct), { attention = "unfused" }) end,
      "block 'attention' does not answer attention = \"unfused\"")
    assert.error_matches(function() train(with(direct), { packing = { mean = 100 } }) end, "does not answer packing")
    assert.error_matches(function() infer(with(direct), { kv_dtype = "fp8" }) end, "does not answer kv_dtype = \"fp8\"")
  end)

  it("is nothing if attention is share:attention", function()
    local function attention(m, p)
      local cut = p:heads(m.heads, m.kv_heads)
      return {
        p:norm { name = "norm", width = m.hidden, root_mean_square = true },
        p:column { name = "qkv", n_in = m.hidden, local_out = (cut.heads + 2 * cut.kv_heads) * m.head_dim },
        op.rotary { elements = 1.0 * p:inner_tokens() * (cut.heads + cut.kv_heads) * m.head_dim },
        p:attention { heads = m.heads, kv_heads = m.kv_heads, head_dim = m.head_dim },
        p:row { name = "proj", n_in = m.heads * m.head_dim, n_out = m.hidden },
        op.residual { elements = p:outer(m.hidden) },
      }
    end
    local mine = with(attention)
    for _, q in ipairs {
      {}, { attention = "unfused" }, { cp = 4 }, { cp = 4, cp_kind = "ring" }, { cp = 4, cp_kind = "all_to_all" },
      { cp = 2, ulysses = 2 }, { packing = { mean = 1000 } }, { precision = "fp8-block" },
      { precision = { recipe = "fp8-current", attention = "fp8" } }, { peft = { rank = 16 } },
      { recompute = "selective", recompute_modules = { "core_attn" } }, { compile = false, software = "typical" },
      { cuda_graphs = { "attn" }, software = "typical" }, { sequence_parallel = false }, { pp = 2, schedule = "zbv" },
    } do
      q.tp = 2
      local want, got = train(llama, q), train(mine, q)
      near(want.time, got.time, 1e-12)
      near(want.memory.total, got.memory.total, 1e-12)
    end
    for _, q in ipairs { {}, { kv_dtype = "fp8" }, { weight_dtype = "int4" }, { cp = 2 }, { attention = "unfused" },
      { precision = "fp8-block" } } do
      q.tp, q.prompt, q.generate, q.batch = 2, 8000, 200, 16
      local want, got = infer(llama, q), infer(mine, q)
      -- A script's steps are laid out one by one: each of two shards rounds its keys up. The library's lie on a line.
      near(want.tpot, got.tpot, q.cp and 1e-6 or 1e-12)
      near(want.ttft, got.ttft, 1e-12)
      near(want.cache_sequence, got.cache_sequence, 1e-12)
    end
    local function served(m)
      return tperf.serve({ model = m, system = H100, load = { rate = 10 }, count = 100, prompt = 4000, output = 50,
        tp = 2, kv_dtype = "fp8" }).tpot.mean
    end
    near(served(llama), served(mine), 1e-12)
  end)
end)
