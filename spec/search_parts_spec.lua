-- A search whose shapes are walked in parts, as processes of a run under MPI walk them: the answers of all parts, added
-- up, are the search's own; answers that no part can give are refused.
local shapes = require "tperf.question.search.shapes"
local search_walk = require "tperf.question.search.walk"
local tperf = require "tperf"

local SMALL <const> = { name = "small", layers = 4, hidden = 256, heads = 8, kv_heads = 4, ffn = 512, vocab = 1000,
  seq = 128 }
local LARGE <const> = "llama-3-8b" -- does not fit on one GPU

-- The answer to a question whose shapes walk(problem, options, core_search) walks.
local function search(question, walk)
  local all = shapes.all
  shapes.all = walk or all
  local ok, found = pcall(tperf.search, question)
  shapes.all = all
  assert.is_true(ok, found)
  return found
end

local function in_parts(p, o, core_search)
  for i = 1, 3 do
    for question, answer in ipairs(shapes.answer(p, o, { index = i, of = 3 })) do core_search:add(question, answer) end
  end
  return true
end

local function text(found)
  local rows = { found.candidates, found.feasible, found.reason or "" }
  for _, c in ipairs(found) do
    rows[#rows + 1] = ("%s %d %d %d %d %s %a"):format(c.strategy, c.tp, c.pp, c.dp, c.micro_batch, c.fast.dp, c.time)
  end
  return table.concat(rows, "\n")
end

describe("a search in parts", function()
  for name, question in pairs {
    ["of all that fits"] = { model = SMALL, system = "h100-sxm", gpus = 8, global_batch = 16, keep = "all" },
    ["of the best"] = { model = SMALL, system = "h100-sxm", gpus = 16, global_batch = 64, top = 3,
      strategy = { "tensor", "context" } },
    ["of nothing that fits"] = { model = LARGE, system = "h100-sxm", gpus = 1, global_batch = 1 },
  } do
    it(name .. " answers as a whole one", function()
      local whole, parts = search(question), search(question, in_parts)
      assert.equal(text(whole), text(parts))
      assert.is_true(whole.candidates > 0)
    end)
  end

  it("refuses what is no part of it", function()
    local tried = 0
    search({ model = SMALL, system = "h100-sxm", gpus = 8, global_batch = 16 },
      function(p, o, core_search)
        local right = shapes.answer(p, o, { index = 1, of = 1 })[1]
        local function refuses(text_of, question, answer)
          local ok, message = pcall(core_search.add, core_search, question, answer)
          assert.is_false(ok)
          assert.truthy(tostring(message):find(text_of, 1, true), message)
          tried = tried + 1
        end
        local function with(field, value)
          local row, answer = {}, {}
          for key, item in pairs(right) do answer[key] = item end
          for key, item in pairs(right.found[1]) do row[key] = item end
          row[field] = value
          answer.found = { row }
          return answer
        end
        refuses("no such question", 0, right)
        refuses("no such question", 2, right)
        refuses("table expected", 1, 7)
        for _, pipeline in ipairs { 0, -1, 1 << 20 } do
          refuses("there is no such pipeline", 1, with("pipeline", pipeline))
        end
        for _, name in ipairs { "strategy", "micro_batch" } do
          refuses(("'%s' must be an integer"):format(name), 1, with(name, "x"))
        end
        refuses("number expected", 1, with("pipeline", "x"))
        refuses("'memory' must be a finite number", 1, with("memory", "much"))
        refuses("table expected", 1, with("sizes", 8))
        core_search:add(1, right)
        core_search:answer(1)
        refuses("the search has been answered", 1, right)
        return true
      end)
    assert.equal(12, tried)
  end)

  it("refuses shapes that no candidate has", function()
    local shape
    search({ model = SMALL, system = "h100-sxm", gpus = 8, global_batch = 16 }, function(p, o, core_search)
      local listening = setmetatable({}, { __index = function(_, name)
        return function(_, first, ...)
          if name == "shapes" then shape = first[1] end
          return core_search[name](core_search, first, ...)
        end
      end })
      local done = search_walk.some(p, o, listening)
      local function refuses(text_of, field, value)
        local changed = {}
        for key, item in pairs(shape) do changed[key] = item end
        changed[field] = value
        local ok, message = pcall(core_search.shapes, core_search, { changed })
        assert.is_false(ok)
        assert.truthy(tostring(message):find(text_of, 1, true), message)
      end
      refuses("a shape needs a micro-batch of at least 1", "micro_batches", { 0 })
      refuses("a shape needs a micro-batch of at least 1", "micro_batches", { 1, 0 })
      refuses("a series of no shapes", "fitting", 0)
      refuses("number expected", "fitting", "x")
      refuses("a shape needs a number of panels", "panels", {})
      refuses("'fast' must be a list, got number", "fast", 1)
      refuses("number expected", "strategy", "x")
      refuses("workload expected", "workloads", { {} })
      refuses("table expected", "workloads", 1)
      local fitting, workloads = core_search.fitting, shape.workloads
      local _, message = pcall(fitting, core_search, workloads, { 0 }, 1, false, 0.75)
      assert.truthy(tostring(message):find("a shape needs a micro-batch of at least 1", 1, true), message)
      assert.same({ nil, 2 }, { fitting(core_search, workloads, { 1, 1 << 20 }, 2, false, 0.75) })
      assert.equal(2, (fitting(core_search, workloads, { 1, 1 }, 1, true, 0.5)))
      return done
    end)
    assert.is_table(shape)
  end)

  it("is left alone by a function that decides in it", function()
    local inner, messages = nil, {}
    local found = search({ model = SMALL, system = "h100-sxm", gpus = 8, global_batch = 16, where = function()
      for _, name in ipairs { "answer", "close" } do
        local f = name == "close" and getmetatable(inner).__close or inner[name]
        messages[name] = select(2, pcall(f, inner, 1))
      end
      return true
    end }, function(p, o, core_search)
      inner = core_search
      return (search_walk.some(p, o, core_search))
    end)
    assert.is_true(found.candidates > 0)
    for _, name in ipairs { "answer", "close" } do
      assert.truthy(tostring(messages[name]):find("the search is under way", 1, true), messages[name])
    end
  end)
end)
