-- Values of every type in every place of the arguments of every function of the library, and holes in every list: an
-- error must be the library's own, which points at the caller, never one of the Lua interpreter; a list with a hole is
-- refused with the place of the hole, for what lies beyond it would be lost.
package.path = "tools/fuzz/?.lua;" .. package.path
local cases = require "cases"
local calls = require "every_call"
local steps = require "steps"
local tperf = require "tperf"
local types = require "wrong_types"
local values = require "values"

local EACH <const> = cases(23, 1) -- of so many mistakes one is tried
local MOST_STEPS <const> = 400000000 -- of Lua, for one call

-- Lists that a function is given and does not read: a picture of requests needs no steps.
local UNREAD <const> = { ["plot_requests 1.result.steps"] = true, ["plot_occupancy 1.result.requests"] = true,
  ["import_arguments 1.understood"] = true }

-- Whether a place is in one of these lists.
local function unread(where)
  for place in pairs(UNREAD) do
    if where == place or where:sub(1, #place + 1) == place .. "." then return true end
  end
  return false
end

describe("wrong types", function()
  local number = 0

  for _, name in ipairs(values.keys(calls)) do
    it("in the arguments of " .. name .. " are refused in the library's own words", function()
      local arguments, call, hooks = calls[name]()
      for _, hook in ipairs(hooks or {}) do arguments[1][hook] = function() return true end end
      types.each(arguments, function(given, path, what)
        number = number + 1
        if number % EACH ~= 0 then return end
        local ok, problem
        steps.count(function()
          ok, problem = pcall(function()
            local answer = call(table.unpack(given, 1, 8))
            return answer
          end)
        end, MOST_STEPS)
        local where = name .. " " .. types.show(path)
        local fault = not ok and problem ~= "mine" and types.fault(problem, "lua")
        assert(not fault, ("%s, %s: %s: %s"):format(where, what, fault, problem))
        assert(not ok or what ~= "hole" or unread(where), where .. ": a list with a hole is taken")
      end)
    end)
  end
end)

describe("what is no such thing", function()
  local function launched(text)
    return tperf.import.launch { gpus = 8, files = {
      { name = "run.sh", text = "deepspeed train.py --deepspeed ds.json" }, { name = "ds.json", text = text },
    } }
  end

  local CASES <const> = {
    { "'launch' must be", function() tperf.import.arguments(5) end },
    { "'launch.tp' is missing", function() tperf.import.arguments { model = 5 } end, "'launch.model' must be a table" },
    { "row 1 must be a table, got 1", function() tperf.report.configurations({ 1 }, {}) end },
    { "to which no curve is fitted", function()
      tperf.calibrate { system = "h100-sxm", files = { "spec/data/measured/serving/rtxpro6000.requests.csv" } }
    end },
    { "train_micro_batch_size_per_gpu must be a size from 1 on, got 0", function()
      tperf.import.launch { files = { { name = "run.sh", text = "deepspeed train.py --deepspeed ds.json" },
        { name = "ds.json", text = '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 0, '
          .. '"gradient_accumulation_steps": 1}' } } }
    end },
    { "must be a size from 1 on, got 0", function() launched '{"train_micro_batch_size_per_gpu": 0}' end },
  }

  for _, one in ipairs(CASES) do
    it("is refused: " .. one[1], function()
      local ok, problem = pcall(one[2])
      assert.is_false(ok)
      assert.truthy(problem:find(one[1], 1, true) or one[3] and problem:find(one[3], 1, true), problem)
      assert.is_nil(types.fault(problem, "lua"))
    end)
  end
end)

describe("a list with a hole", function()
  local HOLES <const> = { -- lists that scripts make, and functions of theirs return
    { "'ops[3]' is nil", function()
      local block = tperf.block("b", function(m, share)
        local op = tperf.op.norm { tokens = share.tokens, width = m.hidden }
        return { op, op, nil, op }
      end)
      tperf.train { model = { name = "m", layers = 2, hidden = 256, heads = 4, ffn = 512, seq = 256,
        architecture = tperf.architecture { name = "own", layer = { block } } }, system = "h100-sxm", global_batch = 8,
        dp = 2 }
    end },
    { "'gpus[2]' is nil", function()
      tperf.search { model = "gpt2", system = "h100-sxm", gpus = { 8, nil, 16 }, global_batch = 16 }
    end },
    { "'times.forward' has no value for stage 2", function()
      tperf.schedule { schedule = "1f1b", devices = 4, microbatches = 4, times = { forward = { 1, nil, 1, 1 },
        backward = 2 } }
    end },
    { "'columns[2]' is nil", function() tperf.report.text({ { x = 1, y = 2 } }, { "x", nil, "y" }) end },
    { "'plots[2]' is nil", function()
      local plot = tperf.plot.lines { rows = { { x = 1, y = 1 }, { x = 2, y = 2 } }, x = "x", y = "y" }
      tperf.plot.panels { plot, nil, plot }
    end },
    { "requests[3]", function()
      local q = { arrival = 0, prompt = 5, output = 2 }
      tperf.serve { step_time = { fixed = 1 }, requests = { q, q, nil, q } }
    end },
    { "strategy[2]' is nil", function() tperf.strategy.list { "tensor", nil, "context" } end },
  }

  for _, one in ipairs(HOLES) do
    it("is refused: " .. one[1], function()
      local ok, problem = pcall(one[2])
      assert.is_false(ok)
      assert.truthy(problem:find(one[1], 1, true), problem)
    end)
  end

  -- The length that C asks Lua for is that of any border: 2 or 4 for { a, b, nil, d }.
  it("is refused by the core, too", function()
    local core = require "tperf.core"
    for _, sizes in ipairs { { 64, nil, 256 }, { [1] = 64, [2] = 128, [4] = 256 } } do
      local ok, problem = pcall(core.at_size, sizes, sizes, 64)
      assert.is_false(ok)
      assert.truthy(problem:find("is nil: a list has no holes", 1, true), problem)
    end
  end)
end)
