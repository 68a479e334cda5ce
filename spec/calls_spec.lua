-- Calls find some fields when they are read. Scripts must not see that.
local json = require "tperf.output.json"
local program = require "program"
local tperf = require "tperf"

local function question(system)
  return { model = "llama-3.1-8b", system = system, global_batch = 64, tp = 2, dp = 8, pp = 2 }
end

describe("a field computed on first access", function()
  local DETAILS <const> = { "kinds", "layers", "first", "last", "stages", "exchanges", "messages", "least_time",
    "update" }

  it("appears in pairs, JSON and rows of sweeps", function()
    local seen = {}
    for name in pairs(tperf.train(question "h100-sxm")) do seen[name] = true end
    local text = json.encode(tperf.train(question "h100-sxm"))
    local o = question "h100-sxm"
    o.run, o.tp = tperf.train, tperf.vary { 1, 2 }
    local row = tperf.sweep(o)[2]
    for _, name in ipairs(DETAILS) do
      assert.truthy(seen[name], name)
      assert.truthy(text:find(('"%s"'):format(name), 1, true), name)
      assert.truthy(row[name], name)
    end
    assert.equal(json.encode(row.layers), json.encode(tperf.train(question "h100-sxm").layers))
  end)

  it("appears in a script's next", function()
    local result = program.script [[
      local c = require "tperf".train { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 64, tp = 8 }
      local names = {}
      for name in next, c do names[#names + 1] = name end
      print(table.concat(names, " "))
    ]]
    program.remove(result.folder)
    assert.equal("", result.err)
    for _, name in ipairs(DETAILS) do assert.truthy((" " .. result.out):find(" " .. name .. "[ \n]"), name) end
  end)

  it("keeps a script's replacement", function()
    local c = tperf.train(question "h100-sxm")
    c.layers = "mine"
    for _ in pairs(c) do end
    assert.equal("mine", c.layers)
    assert.equal("table", type(c.stages))
  end)
end)

describe("a simulated iteration", function()
  it("has the same last digit in every process", function()
    local text = [[print(("%.17g"):format(require "tperf".train { model = "llama-3.1-8b", system = "h100-sxm",
      global_batch = 64, tp = 2, dp = 8, pp = 2, schedule = "zb_h1" }.breakdown.bubble))]]
    local first
    for _ = 1, 8 do
      local result = program.script(text)
      program.remove(result.folder)
      assert.equal("", result.err)
      first = first or result.out
      assert.equal(first, result.out)
    end
  end)
end)

describe("a model's groups", function()
  it("are runs of equal layers, whatever field differs", function()
    local function runs(fields)
      local m = tperf.model { name = "m", layers = 7, hidden = 512, heads = 8, seq = 64, vocab = 100,
        window = fields.window, experts = fields.experts }
      local list = {}
      for i, group in ipairs(m:groups()) do list[i] = ("%d+%d %s"):format(group.first, group.count, group.key) end
      return table.concat(list, ", ")
    end
    assert.equal("1+7 dense/gqa/full", runs {})
    assert.equal("1+2 dense/gqa/16, 3+1 dense/gqa/full, 4+2 dense/gqa/16, 6+1 dense/gqa/full, 7+1 dense/gqa/16",
      runs { window = { size = 16, pattern = "wwf" } })
    assert.equal("1+1 dense/gqa/full, 2+6 moe/gqa/full",
      runs { experts = { count = 8, top_k = 2, ffn = 64, dense_layers = 1 } })
    assert.equal("1+1 dense/gqa/full, 2+1 moe/gqa/full, 3+3 dense/gqa/full, 6+1 moe/gqa/full, 7+1 dense/gqa/full",
      runs { experts = { count = 8, top_k = 2, ffn = 64, every = 2, dense_layers = { 4 } } })
  end)
end)
