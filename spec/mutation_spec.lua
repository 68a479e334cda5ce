-- What a script cannot change, and what it changes between two questions.
local memo = require "tperf.describe.layout.memo"
local tperf = require "tperf"

local SMALL <const> = { name = "small", layers = 4, hidden = 256, heads = 8, kv_heads = 4, ffn = 512, vocab = 1000,
  seq = 128 }

local function small(more)
  local model = {}
  for _, fields in ipairs { SMALL, more or {} } do
    for name, value in pairs(fields) do model[name] = value end
  end
  return model
end

-- A question whose model, and by name other products, come from a table.
local function about(f, fixed)
  return function(products)
    local o = { system = "h100-sxm" }
    for _, fields in ipairs { fixed, products } do
      for name, value in pairs(fields) do o[name] = value end
    end
    return f(o)
  end
end

local questions = {
  train = about(tperf.train, { global_batch = 16, tp = 2, pp = 2, dp = 2 }),
  infer = about(tperf.infer, { tp = 2, batch = 4, prompt = 64, generate = 16 }),
  search = about(function(o) return tperf.search(o)[1] end, { gpus = 8, global_batch = 16, threads = 1 }),
  serve = about(tperf.serve, { prompt = 64, output = 8, count = 20, load = { rate = 20 } }),
  sweep = about(function(o) return tperf.sweep(o)[2].result end, { run = tperf.train, global_batch = 16, dp = 2,
    tp = tperf.vary { 1, 2 }, progress = false }),
}

-- An answer, or the message that refuses the question, as text.
local function said(question, o)
  local ok, answer = pcall(question, o)
  return ok and tperf.report.json(answer):gsub('"seconds": [^,}]*', "") or tostring(answer):gsub("^[^:]*:%d+: ", "")
end

-- Asserts that a write is refused, in words that say what to do.
local function refused(write, message)
  local ok, text = pcall(write)
  assert.falsy(ok)
  assert.truthy(text:find("^spec/mutation_spec.lua:%d+: "), text)
  assert.truthy(text:find(message, 1, true), text)
end

describe("an object that a script has", function()
  local WITH <const> = "its method `with` makes a changed copy"
  local products = {
    model = { function() return tperf.model(small { experts = { count = 8, top_k = 2, ffn = 128 } }) end, WITH },
    system = { function() return tperf.system "spec/data/small/system.yaml" end, WITH },
    rules = { tperf.rules, "makes another" },
    software = { function() return tperf.software "typical" end, WITH },
    strategy = { function() return tperf.strategy.of "tensor" end, "define another that extends it" },
    schedule = { function() return tperf.schedule.get "1f1b" end, "define another with tperf.schedule.define" },
    block = { function() return tperf.block("none", function() return {} end) end, "tperf.block makes another" },
    architecture = { function()
      return tperf.architecture { name = "mine", layer = { tperf.block("none", function() return {} end) } }
    end, "is never changed" },
  }

  -- Tries to change every field of a product, and to add one to each table in it. Returns their number.
  local function try_all(product, message)
    local count = 1
    refused(function() product.stranger = 1 end, message)
    for name, value in pairs(product) do
      count = count + 1
      for _, other in ipairs { 7, false } do refused(function() product[name] = other end, message) end
      if type(value) == "table" then count = count + try_all(value, message) end
    end
    return count
  end

  for what, made in pairs(products) do
    it("is never changed: of tperf." .. what, function()
      local product = made[1]()
      local before = said(function() return tperf.report.json { tostring(product.name) } end)
      assert.truthy(try_all(product, made[2]) > 2)
      assert.equal(before, said(function() return tperf.report.json { tostring(product.name) } end))
    end)
  end

  it("is one for every question about the same name, and reads as a table does", function()
    local system = tperf.system "b200-sxm"
    assert.equal("b200-sxm", tostring(system))
    assert.equal(system, tperf.system "b200-sxm")
    assert.equal(system, tperf.system(system))
    assert.equal(nil, system.no_such_field)
    local fields = {}
    for name, value in pairs(system.network.fast) do fields[name] = value end
    assert.equal(system.network.fast.domain, fields.domain)
    assert.equal(#tperf.strategy.of("tensor").axes, #table.move(tperf.strategy.of("tensor").axes, 1, 9, 1, {}))
    local own = tperf.system { name = "own", accelerator = system.accelerator, network = system.network }
    assert.equal(system.accelerator.hbm.capacity, own.accelerator.hbm.capacity)
    local same = { model = small(), system = own, global_batch = 16, dp = 2 }
    local there = { model = small(), system = system, global_batch = 16, dp = 2 }
    assert.equal(tperf.train(there).time, tperf.train(same).time)
    assert.equal(own.network.fast.domain, system:with({ network = own.network }).network.fast.domain)
  end)

  it("is refused where a field was set past its metatable", function()
    local system = tperf.system "spec/data/small/system.yaml":with { name = "mine" }
    rawset(system, "name", "raw")
    local ok, text = pcall(tperf.system, system)
    assert.falsy(ok)
    assert.truthy(text:find("'name' cannot be set", 1, true), text)
  end)

  it("is what an answer shows of it", function()
    local found = tperf.search { model = small(), system = "h100-sxm", gpus = 8, global_batch = 16, threads = 1 }
    refused(function() found.system.network.fast.bandwidth = 1 end, WITH)
    refused(function() found.model.layers = 16 end, WITH)
    assert.equal(tperf.system "h100-sxm", found.system)
  end)

  it("may change an argument's own table, whose next question follows", function()
    local o = { model = small(), system = "h100-sxm", gpus = 8, global_batch = 64, tp = 2, dp = 4,
      fast = { tp = 2, dp = 1, pp = 1 } }
    local before = tperf.train(o).time
    o.fast.dp = 4
    assert.are_not.equal(before, tperf.train(o).time)
    o.model.layers = 8
    assert.truthy(tperf.train(o).time > 1.5 * before)
  end)
end)

describe("a prepared question", function()
  it("answers as the question does, whatever changes", function()
    local fixed = { model = small(), system = "h100-sxm", dp = 2 }
    local ask = tperf.prepare(fixed)
    for _, change in ipairs { { global_batch = 16 }, { global_batch = 32 }, { global_batch = 32, tp = 2 },
      { global_batch = 16, zero = 3 }, { global_batch = 16, model = small { layers = 8 } }, { global_batch = 64 },
      { global_batch = 16, micro_batch = 4 }, { global_batch = 16, pp = 2, schedule = "zbv" },
      { global_batch = 16, system = "b200-sxm" } } do
      local o = {}
      for _, fields in ipairs { fixed, change } do
        for name, value in pairs(fields) do o[name] = value end
      end
      assert.equal(said(tperf.train, o), said(ask, change))
    end
    local served = tperf.prepare { run = tperf.infer, model = small(), system = "h100-sxm", generate = 8, batch = 2 }
    assert.equal(questions.infer { model = small() } and tperf.infer { model = small(), system = "h100-sxm",
      prompt = 32, generate = 8, batch = 2 }.tpot, served { prompt = 32 }.tpot)
  end)

  it("says what is wrong with it", function()
    assert.error_matches(function() tperf.prepare(1) end, "tperf.prepare needs a table of arguments, got 1")
    assert.error_matches(function() tperf.prepare { run = 1 } end, "'run' must be a question such as tperf.train")
    assert.error_matches(function() tperf.prepare {} (1) end, "the changes must be a table of arguments, got 1")
  end)
end)

describe("a set of rules", function()
  it("goes through a sweep, whole or field by field", function()
    local o = { run = tperf.train, model = small(), system = "h100-sxm", global_batch = 16, dp = 2, progress = false }
    local function times()
      local list = {}
      for i, row in ipairs(tperf.sweep(o)) do list[i] = row.time end
      return list
    end
    o.rules = { columns_gather = tperf.vary { true, false }, gradients_in_fp32 = false }
    local expected = times()
    o.rules = tperf.rules { gradients_in_fp32 = false }
    assert.same({ expected[1] }, times())
  end)

  it("has the name of its fields, which copies keep", function()
    local own = tperf.rules { base = "subramanian2024", typical_software = true }
    assert.equal("subramanian2024 +typical_software", own.name)
    local copy = {}
    for name, value in pairs(own) do copy[name] = value end
    assert.equal(own, tperf.rules(copy))
    copy.typical_software, copy.columns_gather = false, true
    assert.equal("subramanian2024 +columns_gather", tperf.rules(copy).name)
    copy.name = "mine"
    assert.error_matches(function() tperf.rules(copy) end, "rules: 'name' follows from the fields and cannot be set")
    copy.name, copy.column_gather = nil, true
    assert.error_matches(function() tperf.rules(copy) end, "unknown field 'column_gather'")
  end)
end)

describe("a function of a script", function()
  it("gets a model and rules that it cannot change", function()
    local tried = 0
    local function spoil(object, message)
      if not object then return true end
      tried = tried + 1
      refused(function() object.name = "spoilt" end, message)
      return true
    end
    local axes = table.move(tperf.strategy.of("tensor").axes, 1, 3, 1, {})
    axes[4] = { name = "sp", cuts = { "tokens" },
      default = function(model, _, rules) return spoil(model, "with") and spoil(rules, "makes another") and 1 end,
      admits = function(model, share, rules)
        return spoil(model, "with") and spoil(share.rules, "makes another") and spoil(rules, "makes another")
          and spoil(share.axes, "never changed")
      end }
    tperf.strategy.define { name = "spoiler", extends = "tensor", axes = axes }
    local mine = tperf.block("mine", function(model, share)
      spoil(model, "with")
      return { share:norm { name = "norm", width = model.hidden } }
    end)
    local architecture = tperf.architecture { name = "spoiling", layer = { mine },
      parameters = function(model) return spoil(model, "with") and 1e6 end }
    local function ask(strategies, more)
      local found = tperf.search { model = small(more), system = "h100-sxm", gpus = 8, global_batch = 16, threads = 1,
        strategy = strategies }
      return tperf.report.json(found[1])
    end
    local before = ask "tensor"
    ask { "spoiler", "tensor" }
    ask({ "spoiler", "tensor" }, { architecture = architecture })
    assert.truthy(tried > 10)
    assert.equal(before, ask "tensor")
  end)
end)

describe("an answer that a script changes", function()
  local function spoil(value)
    for name, one in pairs(value) do
      if type(one) == "table" then spoil(one) else value[name] = type(one) == "number" and -one - 1 or nil end
    end
  end

  local asks = { search_inference = function(products)
    return tperf.search_inference { model = products.model, system = "h100-sxm", gpus = 4, prompt = 64, generate = 16 }
  end }
  for name, question in pairs(questions) do asks[name] = question end

  for name, ask in pairs(asks) do
    it("is not what tperf." .. name .. " answers next", function()
      local o = { model = tperf.model "gpt2" }
      local before, answer = said(ask, o), ask(o)
      answer.model, answer.system = nil, nil -- what a search was asked with
      spoil(answer)
      assert.equal(before, said(ask, o))
    end)
  end
end)

describe("an answer that a script reads later", function()
  local function ask(own)
    local o = { model = tperf.model(small { experts = { count = 8, top_k = 2, ffn = 128 } }),
      system = tperf.system "spec/data/small/system.yaml", rules = tperf.rules(),
      software = tperf.software "typical", gpus = 8, global_batch = 16, recompute = { "none", "selective" },
      recompute_modules = { "moe_act" }, threads = 1, top = 20 }
    for name, value in pairs(own) do o[name] = value end
    return o, tperf.search(o)
  end

  it("is of what it was asked with, whatever the script has changed since", function()
    for _, own in ipairs { {}, { fast = { tp = 2 } }, { keep = "all" } } do
      local _, early = ask(own)
      local expected = {}
      for i, c in ipairs(early) do expected[i] = tperf.report.json(c) end
      local o, late = ask(own)
      o.recompute_modules[1], o.gpus = "layernorm", 1
      pcall(tperf.search, o)
      memo.forget()
      assert.truthy(#late > 1)
      for i, c in ipairs(late) do assert.equal(expected[i], tperf.report.json(c)) end
    end
  end)
end)

describe("an analysis of llm_analysis", function()
  it("is changed by its methods alone", function()
    local analysis = require "tperf.compat.llm_analysis".LLMAnalysis { model = "facebook_opt-13b",
      gpu = "a100-sxm-80gb", dtype = "w16a16e16" }
    local function ask() return analysis:get_latency_fwd { batch_size = 1, seq_len = 128 } end
    local before, efficiency = ask(), analysis.flops_efficiency
    refused(function() analysis.flops_efficiency = efficiency / 2 end, "only changed by its methods update_*")
    assert.equal(before, ask())
    analysis:update_float_efficiency(efficiency / 2)
    assert.equal(efficiency / 2, analysis.flops_efficiency)
    assert.truthy(ask() > before)
  end)
end)
