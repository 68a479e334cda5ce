-- What a script changes in place between two questions: the answer is that of the new contents, as in a process that
-- was asked nothing else.
local cases = require "cases"
local memo = require "tperf.describe.layout.memo"
local program = require "program"
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

describe("each field that a script changes of", function()
  -- Calls visit(table, key) for the fields of a product; of lists, for the first and the last.
  local function each_field(product, visit)
    local names = {}
    for name in pairs(product) do
      if math.type(name) ~= "integer" or name == 1 or name == #product then names[#names + 1] = name end
    end
    table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
    for _, name in ipairs(names) do
      if type(product[name]) == "table" then each_field(product[name], visit) else visit(product, name) end
    end
  end

  local function plain(value)
    if type(value) ~= "table" then return value end
    local copy = {}
    for name, one in pairs(value) do copy[name] = plain(one) end
    return copy
  end

  local function other(value)
    if type(value) == "number" then return 2 * value end
    if type(value) == "boolean" then return not value end
    return nil
  end

  local products = {
    model = function() return tperf.model(small { experts = { count = 8, top_k = 2, ffn = 128 } }) end,
    system = function() return tperf.system "spec/data/small/system.yaml" end,
    rules = function() return tperf.rules() end,
    software = function() return tperf.software "typical" end,
  }

  for what, make in pairs(products) do
    it("a product of tperf." .. what .. " decides the next answer, as a new table does", function()
      local moved, number, answers = 0, 0, {}
      local product = make()
      each_field(product, function(at, name)
        number = number + 1
        if number % cases(5, 1) ~= 0 or at == product and name == "name" then return end
        for _, question in pairs { questions.train, questions.search, what ~= "software" and questions.infer or nil } do
          local o = { model = small(), [what] = product }
          local before, old = answers[question] or said(question, o), at[name] -- the last field has its value back
          answers[question] = before
          at[name] = other(old)
          local after = said(question, o)
          o[what] = plain(product)
          assert.equal(said(question, o), after)
          at[name] = old
          o[what] = product
          assert.equal(before, said(question, o))
          moved = moved + (before ~= after and 1 or 0)
        end
      end)
      assert.truthy(moved > 2)
    end)
  end
end)

describe("a set of rules that a script changes", function()
  local FIELDS <const> = { "layers_from_description", "columns_gather", "launch_outside_roofline",
    "gradients_in_fp32", "small_gradients_reduced" }

  for name, question in pairs(questions) do
    it("decides the next answer of tperf." .. name .. ", and of no other set", function()
      local moved = 0
      for _, field in ipairs(FIELDS) do
        local own, model = tperf.rules(), tperf.model(small())
        local before = said(question, { model = model, rules = own })
        own[field] = false
        local after = said(question, { model = model, rules = own })
        assert.equal(said(question, { model = small(), rules = { [field] = false } }), after)
        assert.equal(before, said(question, { model = small(), rules = "default" }))
        own[field] = true
        assert.equal(before, said(question, { model = model, rules = own }))
        moved = moved + (before ~= after and 1 or 0)
      end
      assert.truthy(moved > 0)
    end)
  end

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
    o.rules.columns_gather = tperf.vary { true, false }
    assert.same(expected, times())
  end)

  it("has the name of its fields, which copies keep", function()
    local own = tperf.rules { base = "subramanian2024", typical_software = true }
    assert.equal("subramanian2024 +typical_software", own.name)
    own.typical_software, own.columns_gather = false, true
    assert.equal(own, tperf.rules(own))
    assert.equal("subramanian2024 +columns_gather", own.name)
    own.columns_gather = nil
    assert.equal("subramanian2024", tperf.rules(own).name)
    assert.equal(false, own.columns_gather)
    local copy = {}
    for name, value in pairs(own) do copy[name] = value end
    assert.same(own, tperf.rules(copy))
    copy.name = "mine"
    assert.error_matches(function() tperf.rules(copy) end, "rules: 'name' follows from the fields and cannot be set")
    copy.name, copy.column_gather = nil, true
    assert.error_matches(function() tperf.rules(copy) end, "unknown field 'column_gather'")
  end)

  it("is not the one that functions of scripts get", function()
    local changed = 0
    local function spoil(rules)
      if rules then rules.columns_gather, changed = false, changed + 1 end
      return true
    end
    local axes = table.move(tperf.strategy.of("tensor").axes, 1, 3, 1, {})
    axes[4] = { name = "sp", cuts = { "weights" }, default = function(_, _, rules) return spoil(rules) and 1 end,
      admits = function(_, share, rules) return spoil(rules) and spoil(share.rules) end }
    tperf.strategy.define { name = "spoiler", extends = "tensor", axes = axes }
    local function ask(name, strategies)
      local found = tperf.search { model = small { name = name }, system = "h100-sxm", gpus = 8, global_batch = 16,
        threads = 1, strategy = strategies }
      return tperf.report.json(found[1])
    end
    ask("two", { "spoiler", "tensor" })
    assert.truthy(changed > 0)
    assert.equal(ask("one", "tensor"), ask("two", "tensor"))
  end)
end)

describe("a model that a function of a script changes while a question is answered", function()
  it("ends the question, and no later answer remembers it", function()
    local axes, calls = table.move(tperf.strategy.of("tensor").axes, 1, 3, 1, {}), 0
    local function spoil(model)
      calls = calls + 1
      if calls > 3 then model.hidden = 2 * 768 end
      return true
    end
    axes[4] = { name = "sq", cuts = { "weights" }, default = function(model) return spoil(model) and 1 end,
      admits = spoil }
    tperf.strategy.define { name = "swelling", extends = "tensor", axes = axes }
    local function ask(strategies, model)
      return tperf.search { model = model, system = "h100-sxm", gpus = 8, global_batch = 16, threads = 1,
        strategy = strategies }[1].time
    end
    assert.error_matches(function() ask({ "swelling", "tensor" }, "gpt2") end,
      "model 'gpt2' was changed in place while a question about it was answered")
    assert.equal(ask("tensor", tperf.model("gpt2"):with { name = "alike" }), ask("tensor", "gpt2"))
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

  local function spoil(product)
    for name, value in pairs(product) do
      if type(value) == "number" then product[name] = 2 * value end
      if type(value) == "boolean" then product[name] = not value end
      if type(value) == "table" then product[name] = nil end
    end
  end

  it("is of what it was asked with, whatever the script has changed since", function()
    for _, own in ipairs { {}, { fast = { tp = 2 } }, { keep = "all" } } do
      local _, early = ask(own)
      local expected = {}
      for i, c in ipairs(early) do expected[i] = tperf.report.json(c) end
      local o, late = ask(own)
      for _, name in ipairs { "model", "system", "rules", "software" } do spoil(o[name]) end
      o.recompute_modules[1], o.gpus = "layernorm", 1
      pcall(tperf.search, o)
      memo.forget()
      assert.truthy(#late > 1)
      for i, c in ipairs(late) do assert.equal(expected[i], tperf.report.json(c)) end
    end
  end)
end)

describe("a cached sweep", function()
  it("knows a point by what its arguments hold when it is asked", function()
    local path = program.temporary ".db"
    -- The times of the points, whose system a script changes after the first.
    local function times(change)
      local o, list = { run = tperf.train, model = small(), system = tperf.system "h100-sxm", global_batch = 16, dp = 2,
        tp = tperf.vary { 1, 2 }, progress = false, cache = path }, {}
      function o.each(row)
        list[#list + 1] = row.time
        if change then o.system.network.fast.bandwidth = 1e9 end
      end
      tperf.sweep(o)
      return list
    end
    local changed = times(true)
    local plain = times()
    assert.equal(plain[1], changed[1])
    assert.truthy(changed[2] > plain[2])
    assert.same(changed, times(true))
  end)
end)

describe("what a script changes of", function()
  -- Every question about a strategy or a schedule, asked before the change.
  local function refuses(ask, change, message)
    local before = said(ask)
    local undo = change()
    local ok, text = pcall(ask)
    undo()
    assert.falsy(ok)
    assert.truthy(text:find(message, 1, true), text)
    assert.equal(before, said(ask))
  end

  local asks = {}
  for name, question in pairs(questions) do asks[name] = function() return question { model = small() } end end
  asks.layer = function() return about(tperf.layer, {}) { model = small() } end

  it("a strategy is refused by the next question", function()
    for _, ask in pairs(asks) do
      for _, name in ipairs { "row", "features", "boundary" } do
        refuses(ask, function()
          local s = tperf.strategy.of "tensor"
          local before = s[name]
          s[name] = nil
          return function() s[name] = before end
        end, "strategy 'tensor' was changed in place after it was defined; undo that, and define another")
      end
      refuses(ask, function()
        local axis = tperf.strategy.all()[1].axes[1]
        local before = axis.admits
        axis.admits = function() return false, "are refused" end
        return function() axis.admits = before end
      end, "strategy 'tensor' was changed in place")
    end
  end)

  it("a strategy is accepted once it is undone, in whatever order its fields lie then", function()
    local s = tperf.strategy.of "tensor"
    local function order()
      local names = {}
      for name in next, s do names[#names + 1] = name end
      return names
    end
    local before, first = said(asks.train), order()
    local fields, moved = {}, false
    for name in next, s do fields[name] = s[name] end
    for from = 1, #first do
      for _, name in ipairs(first) do s[name] = nil end
      collectgarbage() -- Lua forgets where the fields were
      for i = 1, #first do
        local name = first[(from - i) % #first + 1]
        s[name] = fields[name]
      end
      moved = moved or table.concat(order(), " ") ~= table.concat(first, " ")
      assert.equal(before, said(asks.train))
    end
    assert.truthy(moved)
  end)

  it("a schedule is refused by the next question", function()
    local same = small()
    local function again()
      return tperf.train { model = same, system = "h100-sxm", global_batch = 16, tp = 2, dp = 2 }.time
    end
    for _, ask in ipairs { asks.train, again, asks.search,
      function() return tperf.schedule { schedule = "1f1b", devices = 2, microbatches = 4 }.makespan end } do
      refuses(ask, function()
        local definition = tperf.schedule.get "1f1b"
        local before = definition.closed_form
        definition.closed_form = function() return { F = 1 } end
        return function() definition.closed_form = before end
      end, "schedule '1f1b' was changed in place after it was defined")
    end
  end)

  it("an analysis of llm_analysis is refused by its next method", function()
    local analysis = require "tperf.compat.llm_analysis".LLMAnalysis { model = "facebook_opt-13b",
      gpu = "a100-sxm-80gb", dtype = "w16a16e16" }
    local function ask() return analysis:get_latency_fwd { batch_size = 1, seq_len = 128 } end
    refuses(ask, function()
      local before = analysis.flops_efficiency
      analysis.flops_efficiency = before / 2
      return function() analysis.flops_efficiency = before end
    end, "the analysis was changed in place after it was defined; undo that, and call its methods update_*")
    local before = ask()
    analysis:update_float_efficiency(analysis.flops_efficiency / 2)
    assert.truthy(ask() > before)
  end)
end)
