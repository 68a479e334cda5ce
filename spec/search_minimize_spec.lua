-- tperf.search's `minimize`, against a sort of all candidates.
local tperf = require "tperf"

local QUESTION <const> = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 64, global_batch = 128 }
local TOP <const> = 20

local function asked(more)
  local question = { top = TOP }
  for name, value in pairs(QUESTION) do question[name] = value end
  for name, value in pairs(more) do question[name] = value end
  return question
end

-- The least figures of all candidates that fit, ascending.
local function least_of(figure)
  local values = {}
  for _, c in ipairs(tperf.search(asked { keep = "all" })) do
    if c.feasible then values[#values + 1] = figure(c) end
  end
  table.sort(values)
  return table.move(values, 1, TOP, 1, {})
end

local function figures(found, figure)
  local values = {}
  for i, c in ipairs(found) do values[i] = figure(c) end
  return values
end

local function message_of(more)
  local ok, message = pcall(tperf.search, asked(more))
  assert.is_false(ok)
  return message
end

describe("a search that minimizes", function()
  it("memory finds the candidates that take least, which bounds on the time would rule out", function()
    local function memory(c) return c.memory.total end
    assert.same(least_of(memory), figures(tperf.search(asked { minimize = "memory" }), memory))
  end)

  it("energy counts the limit while kernels run and a quarter of it otherwise", function()
    local function joules(c)
      local b = c.breakdown
      local busy = b.compute + b.memory + b.optimizer
      return 64 * (700 * busy + 175 * (c.time - busy))
    end
    local wanted, found = least_of(joules), figures(tperf.search(asked { minimize = "energy" }), joules)
    for i = 1, TOP do assert.near(wanted[i], found[i], 1e-9 * wanted[i]) end
  end)

  it("a function's figure, under the constraints of `where`", function()
    local function product(c) return c.time * c.memory.total end
    local function where(c) return c.tp <= 4 end
    local found = tperf.search(asked { minimize = product, where = where })
    assert.equal(TOP, #found)
    local values = {}
    for _, c in ipairs(tperf.search(asked { keep = "all" })) do
      if c.feasible and c.tp <= 4 then values[#values + 1] = product(c) end
    end
    table.sort(values)
    assert.same(table.move(values, 1, TOP, 1, {}), figures(found, product))
  end)

  it("dollars by GPU-hours, those of GPUs that a placement leaves idle among them", function()
    local question = asked { gpus = 12, global_batch = 12, infeasible = true, minimize = "dollars" }
    local found, last = tperf.search(question), 0
    assert.is_true(#found > 1)
    for _, c in ipairs(found) do
      local hours = (c.gpus + c.idle) * c.time
      assert.is_true(hours >= last)
      last = hours
    end
  end)

  it("refuses what cannot rank", function()
    assert.truthy(message_of { minimize = function() return "little" end }:find("must return a number", 1, true))
    assert.truthy(message_of { minimize = "energy", simulate = true }:find("closed form", 1, true))
    assert.truthy(message_of { objective = "energy" }:find("'minimize' takes what to rank by", 1, true))
    assert.truthy(message_of { objective = function() end }:find("'minimize' takes what to rank by", 1, true))
  end)
end)

describe("tperf.cost's energy", function()
  local row = { gpus = 10, tokens_per_second = 1e6, time = 10,
    breakdown = { compute = 6, memory = 1, optimizer = 1, tensor_comm = 0.5, bubble = 1.5 } }

  it("is the limit's while kernels run, and waiting_power's in the other parts", function()
    local cost = tperf.cost(row, { tokens = 1e6, power = 500, waiting_power = 100 })
    assert.near(10 * (0.8 * 500 + 0.2 * 100), cost.energy, 1e-9)
    assert.near(10 * (0.8 * 500 + 0.2 * 125), tperf.cost(row, { tokens = 1e6, power = 500 }).energy, 1e-9)
  end)

  it("counts the waits for slower GPUs as waits", function()
    local slow = tperf.cost(row, { tokens = 1e6, power = 500, waiting_power = 0, straggling = 0.02 })
    local even = tperf.cost(row, { tokens = 1e6, power = 500, waiting_power = 0 })
    assert.is_true(slow.seconds > even.seconds)
    assert.near(even.energy, slow.energy, 1e-9 * even.energy)
  end)
end)
