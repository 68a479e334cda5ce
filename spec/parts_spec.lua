-- The parts of times and memories: each list of them is the core's, and they add up.
local core = require "tperf.core"
local program = require "program"
local tperf = require "tperf"

local function train(changes)
  local q = { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 64, tp = 8 }
  for name, value in pairs(changes) do q[name] = value end
  return tperf.train(q)
end

-- Configurations that have every part.
local CASES <const> = {
  train {}, train { software = "none" }, train { pp = 4, dp = 2 }, train { tp = 4, pp = 2, offload_layers = 2 },
  train { straggling = 0.02 }, train { model = "gpt2", tp = 1, dp = 8 }, train { zero = 3, dp = 8 },
  train { model = "mixtral-8x7b", ep = 2, dp = 2 },
}

local function sum(record, names)
  local total = 0
  for _, name in ipairs(names) do total = total + (record[name] or 0) end
  return total
end

local function columns(rows, prefix)
  local names = {}
  for _, column in ipairs(tperf.report.configurations(rows, {})) do
    names[#names + 1] = column:match("^" .. prefix .. "%.(.+)$")
  end
  return names
end

describe("the parts of a time", function()
  it("are those that some configuration has, and no others", function()
    local seen, known = {}, {}
    for _, c in ipairs(CASES) do
      for name, seconds in pairs(c.breakdown) do seen[name] = seen[name] or seconds > 0 end
    end
    for _, name in ipairs(core.time_parts) do known[name] = true end
    assert.same(known, seen)
  end)

  it("add up to it, also in the columns of a report", function()
    for _, c in ipairs(CASES) do
      assert.near(c.time, sum(c.breakdown, core.time_parts), 1e-9 * c.time)
      assert.near(c.time, sum(c.breakdown, columns({ c }, "breakdown")), 1e-9 * c.time)
    end
  end)

  it("share the time in a picture without a remainder", function()
    for _, c in ipairs(CASES) do
      local svg, total = tperf.plot.configurations({ rows = { c }, x = "tp" }):svg(), 0
      for part, share in svg:gmatch "<title>[^<]*, ([^<:]-): ([%d.]+) %%" do
        assert.is_nil(part:find "expert")
        total = total + tonumber(share)
      end
      assert.near(100, total, 1)
      local computed = tonumber(svg:match "compute: ([%d.]+) %%")
      assert.near(100 * c.breakdown.compute / c.time, computed, 0.06)
    end
  end)
end)

describe("the parts of a memory", function()
  it("add up to it in the columns of a report", function()
    for _, c in ipairs(CASES) do
      local total = 0
      for _, name in ipairs(columns({ c }, "memory")) do
        if name ~= "total" then total = total + c.memory[name] end
      end
      assert.near(c.memory.total, total, 1)
    end
  end)
end)

describe("the prompt", function()
  it("prints the fields of a configuration that nobody has read", function()
    local folder = program.folder()
    program.write(folder .. "/lines", [[
      found = tperf.search { model = "gpt2", system = "h100-sxm", gpus = 8, global_batch = 64, top = 1 }
      found[1]
      found
      tperf.train { model = "gpt2", system = "h100-sxm", global_batch = 64 }.memory
    ]])
    local out = program.shell("tperf repl < lines", folder).out
    program.remove(folder)
    local one, list, memory = out:match "^(tp .-)(tp .*)\n([^\n]*)\n$"
    assert.truthy(one and one:find "fields: breakdown, [%l_,\n ]+ time", out)
    assert.truthy(list:find("memory", 1, true), out)
    assert.truthy(memory:find "^{ activations = ", out)
  end)
end)
