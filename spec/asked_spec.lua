-- What is remembered of questions and objects must not outlive what it was made from.
local tperf = require "tperf"
local same = require "tperf.core".resource.same

local function question(change)
  local o = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 64, tp = 2, dp = 4 }
  for name, value in pairs(change or {}) do o[name] = value end
  return o
end

local times = {
  train = function(o) return tperf.train(o).time end,
  search = function(o)
    local list = {}
    for i, c in ipairs(tperf.search(o)) do list[i] = ("%a"):format(c.time) end
    return table.concat(list, " ")
  end,
}

-- The answer after `change`, whether the question was asked before or not.
local function follows(make, change)
  for _, time in pairs(times) do
    local asked, fresh = make(), make()
    for _ = 1, 3 do time(asked) end
    local before = time(asked)
    change(asked)
    change(fresh)
    local after = time(asked)
    assert.are_not.equal(before, after)
    assert.are.equal(time(fresh), after)
  end
end

describe("a question that was asked before", function()
  it("has the same answer, in tables of its own", function()
    local o = question { cuda_graphs = { "attn", "mlp" }, recompute = "selective", recompute_modules = { "core_attn" } }
    local first, second = tperf.train(o), tperf.train(o)
    first.cuda_graphs[1], first.fast.tp, first.recompute_modules[1] = "changed", 99, "changed"
    local third = tperf.train(o)
    assert.are.equal(#second.stages, #third.stages) -- found when they are read
    assert.truthy(same({ second }, { third }))
    assert.are.equal("attn", third.cuda_graphs[1])
  end)

  it("follows a change of an argument in place", function()
    follows(function() return question { fast = { tp = 2, dp = 1, pp = 1 } } end, function(o) o.fast.dp = 4 end)
    follows(question, function(o) o.micro_batch = 4 end)
  end)

  it("follows a change of the system in place, read before or not", function()
    local function ask() return question { system = tperf.system "h100-sxm" } end
    follows(ask, function(o) o.system.network.fast.bandwidth = 1e9 end)
    follows(ask, function(o) o.system.accelerator.hbm = { bandwidth = 1e11, capacity = 8e10 } end)
    follows(ask, function(o) o.system.network = tperf.system("h100-sxm"):with {
      network = { fast = { bandwidth = 1e9 } } }.network end)
  end)

  it("follows a change of the model and of the profile in place", function()
    follows(function() return question { model = tperf.model "llama-3.1-8b" } end, function(o) o.model.layers = 16 end)
    follows(function() return question { software = tperf.software "typical" } end,
      function(o) o.software.compute = 3 end)
  end)

  it("follows a change of what an answer says of the model", function()
    local o = question()
    local before, found = times.search(o), tperf.search(o)
    found.model.layers = 16
    assert.are.equal(before, times.search(o))
    assert.are.equal(32, tperf.search(o).model.layers)
    found.system.network.fast.bandwidth = 1
    assert.are.equal(before, times.search(o))
  end)

  it("follows a change of the strategy and the schedule, which it refuses", function()
    local o = question()
    for _, time in pairs(times) do
      local before = time(o)
      for _, product in ipairs { tperf.strategy.of "tensor", tperf.schedule.get "1f1b" } do
        local summary = product.summary
        product.summary = "changed"
        assert.error_matches(function() time(o) end, "changed in place")
        product.summary = summary
        assert.are.equal(before, time(o))
      end
    end
  end)

  it("follows a change of the rules in place", function()
    follows(function() return question { rules = tperf.rules() } end,
      function(o) o.rules.launch_outside_roofline = false end)
  end)
end)

describe("a system that nobody has read", function()
  it("is as one that was", function()
    local unread, read = tperf.system "b200-sxm", tperf.system "b200-sxm"
    assert.are.equal("b200-sxm", tostring(unread))
    assert.are.equal("b200-sxm", read.name)
    local names = {}
    for name in pairs(unread) do names[name] = true end
    for name in pairs(read) do assert.truthy(names[name], name) end
    assert.truthy(same(unread, read))
    assert.are.equal(nil, unread.no_such_field)
    local change = { price = { gpu_hour = 1 } }
    assert.truthy(same(tperf.system("b200-sxm"):with(change), read:with(change)))
  end)

  it("gives each script's object its own fields", function()
    local first = tperf.system "h100-sxm"
    local second = tperf.system "h100-sxm"
    first.network.fast.bandwidth = 1
    assert.are_not.equal(1, second.network.fast.bandwidth)
    assert.are_not.equal(1, tperf.system("h100-sxm").network.fast.bandwidth)
    local given = tperf.system "h100-sxm"
    local before = tperf.collective { system = given, kind = "all_reduce", bytes = 1e9, gpus = 8 }
    given.network.fast.bandwidth = given.network.fast.bandwidth / 2
    assert.truthy(tperf.collective { system = given, kind = "all_reduce", bytes = 1e9, gpus = 8 } > before)
  end)

  it("is what a search was asked with, and changing what it returns changes no later answer", function()
    local given = tperf.system "h100-sxm"
    local function ask(system)
      return tperf.search { model = "llama-3.1-8b", system = system, gpus = 8, global_batch = 64 }
    end
    assert.are.equal(given, ask(given).system)
    local found = ask "h100-sxm"
    local best = found[1].time
    found.system.accelerator.tensor.bf16 = 1e12
    assert.are.equal(best, ask("h100-sxm")[1].time)
    assert.are_not.equal(1e12, ask("h100-sxm").system.accelerator.tensor.bf16)
  end)

  it("takes fields that are set before any is read", function()
    local system = tperf.system "h100-sxm"
    system.name = "mine"
    assert.are.equal("mine", system.name)
    assert.are.equal("mine", tperf.system(system).name)
    local bare = tperf.system "h100-sxm"
    rawset(bare, "name", "raw")
    assert.are.equal("raw", tperf.system(bare).name)
    assert.truthy(bare.network.fast.domain)
    system.acelerator = 1
    local ok, message = pcall(tperf.system, system)
    assert.falsy(ok)
    assert.truthy(message:find("acelerator", 1, true))
  end)
end)
