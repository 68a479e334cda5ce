-- Custom strategies: refusals of define, fields inherited with `extends`, and scripts/custom_strategy.lua.
local program = require "program"
local tperf = require "tperf"

-- Defines the strategy of scripts/custom_strategy.lua, without running the rest of the script.
local function define_ulysses()
  local text = program.slurp "scripts/custom_strategy.lua"
  local from = assert(text:find("local context = ", 1, true))
  local to = select(2, assert(text:find("tperf.strategy.define(ulysses)", 1, true)))
  assert(load("local tperf = require 'tperf'\nlocal op = tperf.op\n" .. text:sub(from, to)))()
end

local function fails(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(message):find(pattern, 1, true), message)
end

describe("tperf.strategy.define", function()
  it("refuses strategies that it cannot extend", function()
    fails([[unknown strategy "tensr" (did you mean 'tensor'?)]], tperf.strategy.define,
      { name = "x", extends = "tensr" })
    fails("unknown strategy 7", tperf.strategy.define, { name = "x", extends = 7 })
    fails("tperf.strategy: 'axes' is missing", tperf.strategy.define, {})
    fails("tperf.strategy: 'tensor' is already defined", tperf.strategy.define, { name = "tensor", extends = "tensor" })
    fails("unknown field 'exchnge' (did you mean 'exchange'?)", tperf.strategy.define,
      { name = "x", extends = "tensor", exchnge = print })
  end)

  it("inherits missing fields from the extended strategy", function()
    tperf.strategy.define { name = "tensor-again", extends = "tensor" }
    local function found(name)
      local list = tperf.search { model = "llama-3.1-8b", system = "h100-sxm", gpus = 32, global_batch = 64,
        strategy = name, keep = "all" }
      list.seconds = nil
      for _, c in ipairs(list) do c.strategy = nil end
      return list
    end
    local expected = found "tensor"
    assert.is_true(#expected > 10)
    assert.same(expected, found "tensor-again")
  end)
end)

describe("strategy summa", function()
  it("leaves out rows that do not divide the features of the heads", function()
    local model = { name = "m", layers = 4, hidden = 4096, heads = 24, head_dim = 170, seq = 4096, vocab = 1000 }
    local found = tperf.search { model = model, system = "h100-sxm", gpus = 32, global_batch = 32, strategy = "summa",
      keep = "all", infeasible = true }
    local largest = 0
    for _, c in ipairs(found) do largest = math.max(largest, c.tp2) end
    assert.equal(16, largest) -- 4080 is not divided by 32, 4096 is
  end)
end)

describe("scripts/custom_strategy.lua", function()
  define_ulysses()

  local function ops(strategy, change)
    local question = { system = "h100-sxm", strategy = strategy, micro_batch = 2 }
    for field, value in pairs(change) do question[field] = value end
    return tperf.layer(question)
  end

  local function sum(list, field, pass)
    local total = 0
    for _, one in ipairs(list) do total = total + (pass and one[pass] or one)[field] end
    return total
  end

  -- Gradients of keys and values are sums over the queries; a sum in cp parts takes cp - 1 fewer additions on the GPUs:
  -- one of thousands.
  local function computes_the_same(own, context)
    assert.equal(sum(context, "weight_bytes"), sum(own, "weight_bytes"))
    for _, field in ipairs { "tensor_flops", "vector_flops" } do
      assert.near(1, sum(own, field, "forward") / sum(context, field, "forward"), 1e-9)
      assert.near(1, sum(own, field, "backward") / sum(context, field, "backward"), 1e-4)
    end
  end

  -- Bytes of the collectives of one kind over cp, forward and backward, of a layer.
  local function bytes(list, kind)
    local total = 0
    for _, one in ipairs(list) do
      for _, pass in ipairs { one.forward, one.backward } do
        for _, c in ipairs(pass.comms) do
          if c.kind == kind and c.axis == "cp" then total = total + c.bytes end
        end
      end
    end
    return total
  end

  for _, case in ipairs { { "llama-2-7b", 32, 32 }, { "llama-3.1-8b", 32, 8 }, { "llama-3.1-70b", 64, 8 } } do
    local name, heads, kv_heads = table.unpack(case)
    local seq, model = 16384, tperf.model(name):with { seq = 16384, context = 16384 }

    it("exchanges queries, keys, values and results: " .. name, function()
      for _, size in ipairs { { 1, 2 }, { 1, 8 }, { 2, 4 }, { 4, 8 } } do
        local tp, cp = table.unpack(size)
        local list = ops("ulysses", { model = model, tp = tp, cp = cp })
        -- arXiv 2309.14509, section 3.2: each GPU sends its N / P tokens' Q, K and V, then its part of the result. A
        -- key or value head goes to every GPU that has queries for it.
        local kv = math.max(kv_heads // (tp * cp), 1)
        local width = 128 * (2 * (heads // (tp * cp)) + 2 * kv)
        assert.equal(2 * 2 * 2.0 * seq * width, bytes(list, "all_to_all")) -- passes, micro-batch, bytes
        assert.equal(0, bytes(list, "all_gather"))
        assert.equal(0, bytes(list, "reduce_scatter"))
      end
    end)

    it("computes what context parallelism computes: " .. name, function()
      for _, size in ipairs { { 1, 4 }, { 2, 4 } } do
        local change = { model = model, tp = size[1], cp = size[2] }
        computes_the_same(ops("ulysses", change), ops("context", change))
      end
    end)
  end

  it("divides latent attention too", function()
    local model = tperf.model "deepseek-v2"
    local own = ops("ulysses", { model = model, cp = 4 })
    computes_the_same(own, ops("context", { model = model, cp = 4 }))
    -- 128 heads: queries and keys of 192 features, values and results of 128.
    assert.equal(2 * 2 * 2.0 * model.seq * 128 / 4 * (192 + 192 + 128 + 128), bytes(own, "all_to_all"))
  end)

  it("is tensor parallelism if cp is 1", function()
    local model = tperf.model "llama-3.1-8b"
    assert.same(ops("tensor", { model = model, tp = 4 }), ops("ulysses", { model = model, tp = 4, cp = 1 }))
  end)

  it("never tries more GPUs than there are heads", function()
    local found = tperf.search {
      model = tperf.model "llama-3.1-8b":with { seq = 65536 }, system = "h100-sxm", gpus = 64, global_batch = 4,
      strategy = "ulysses", keep = "all", infeasible = true,
    }
    local largest = 0
    for _, c in ipairs(found) do
      assert.equal(0, 32 % (c.tp * c.cp))
      largest = math.max(largest, c.tp * c.cp)
    end
    assert.equal(32, largest)
    fails("cp = 64 does not divide the heads that tp leaves", tperf.train, {
      model = "llama-3.1-8b", system = "h100-sxm", strategy = "ulysses", tp = 1, cp = 64, pp = 1, dp = 1,
      micro_batch = 1, global_batch = 1,
    })
  end)

  it("is searched beside the built-in ones, by name or with all", function()
    local seen = {}
    for _, c in ipairs(tperf.search {
      model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 8, strategy = "all", keep = "all",
    }) do seen[c.strategy] = true end
    assert.is_true(seen.ulysses and seen.context and seen.tensor)
  end)

  it("runs, and prints every strategy for every sequence", function()
    local folder = program.folder()
    local result = program.shell(("tperf run --out %s scripts/custom_strategy.lua --seq 8192,65536 --gpus 16 " ..
      "--batch-tokens 1048576"):format(folder))
    assert.equal("", result.err)
    for _, seq in ipairs { "8192", "65536" } do
      for _, name in ipairs { "tensor", "context", "ulysses" } do
        assert.matches("\n +" .. seq .. " +" .. name, result.out)
      end
    end
    assert.matches("seq,strategy", program.slurp(folder .. "/custom_strategy.csv"))
    program.remove(folder)
  end)
end)

describe("strategy summa on a grid of one GPU", function()
  it("takes as long as tensor parallelism of one: it is the same computation", function()
    for _, system in ipairs { "h100-sxm", "a100-sxm-80gb", "b200-sxm", "mi300x", "l40s" } do
      for _, attention in ipairs { "flash", "unfused" } do
        for _, software in ipairs { "none", "typical" } do
          local question = { model = "llama-3.1-8b", system = system, pp = 4, dp = 2, global_batch = 16,
            attention = attention, software = software }
          question.strategy = "tensor"
          local plain = tperf.train(question)
          question.strategy, question.panels = "summa", 1
          local grid = tperf.train(question)
          local what = table.concat({ system, attention, software }, " ")
          assert.equal(plain.time, grid.time, what)
          assert.equal(plain.memory.total, grid.memory.total, what)
          assert.equal(plain.flops_per_gpu, grid.flops_per_gpu, what)
          question.panels = 2 -- a panel's kernels are smaller, and there are twice as many
          assert.is_true(tperf.train(question).time > grid.time, what)
        end
      end
    end
  end)
end)
