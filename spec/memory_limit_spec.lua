-- --max-memory counts memory held by the core for a script as well as Lua's.
local program = require "program"
local units = require "tperf.base.units"

local function run(text, options)
  local result = program.script(text, options)
  program.remove(result.folder)
  return result
end

local SCHEDULE <const> = [[
  local tperf = require "tperf"
  local function make() return tperf.schedule { schedule = "1f1b", devices = 32, microbatches = 250 } end
]]

local SEARCH <const> = [[
  local tperf = require "tperf"
  local function search(o)
    o.model, o.system, o.global_batch, o.threads, o.zero = "llama-2-7b", "h100-sxm", 256, 2, { 0, 1, 2, 3 }
    o.gpus, o.placement = { o.gpus or 32 }, "best"
    local all = {}
    for _, found in ipairs(tperf.search(o)) do table.move(found, 1, #found, #all + 1, all) end
    return all
  end
]]

describe("the memory limit", function()
  it("ends a script that keeps schedules", function()
    local result = run(SCHEDULE .. "local kept = {} while true do kept[#kept + 1] = make() end", "--max-memory 24MB")
    assert.equal(1, result.code)
    assert.truthy(result.err:find("not enough memory", 1, true), result.err)
    assert.truthy(result.err:find("(the limit is 22.8882 MiB; --max-memory SIZE raises it)", 1, true), result.err)
  end)

  it("lets a script continue that frees them", function()
    local result = run(SCHEDULE .. "local t for _ = 1, 50 do t = make() end print(t.makespan > 0)",
      "--max-memory 24MB")
    assert.equal("true\n", result.out, result.err)
  end)

  it("ends a script that fills a schedule without end", function()
    local result = run([[
      local tperf = require "tperf"
      tperf.schedule.define("mine", function(s) while true do s:forward(1, 1, 1) end end)
      tperf.schedule { schedule = "mine", devices = 1, microbatches = 1 }
    ]], "--max-memory 24MB")
    assert.truthy(result.err:find("not enough memory for a queue of", 1, true), result.err)
  end)

  it("can be caught with pcall, and the script goes on", function()
    local result = run(SCHEDULE .. [[
      local kept = {}
      local ok, message = pcall(function() while true do kept[#kept + 1] = make() end end)
      kept = nil
      print(ok, message:find "not enough memory" ~= nil, make().makespan > 0)
    ]], "--max-memory 24MB")
    assert.equal("false\ttrue\ttrue\n", result.out, result.err)
  end)
end)

local SERVE <const> = [[
  local tperf = require "tperf"
  local function serve(o)
    o.step_time, o.load, o.prompt, o.output = { fixed = 1e-3 }, { rate = 1e6 }, o.prompt or 1, o.output or 1
    return tperf.serve(o)
  end
]]

describe("a simulation of serving", function()
  local function refused(call, message, limit)
    local result = run(SERVE .. call, "--max-memory " .. limit)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("script.lua:6: tperf.serve: not enough memory for " .. message, 1, true), result.err)
    assert.truthy(result.err:find("--max-memory SIZE raises it", 1, true), result.err)
  end

  it("is charged for its requests", function()
    refused("serve { count = 2000000 }", "2000000 requests", "60MB")
  end)

  -- One thread's blocks are too many: whether two threads hold theirs at once depends on the machine's load.
  -- Blocks have numbers where requests share a prefix.
  it("is charged for blocks of the cache, in threads too", function()
    refused("serve { count = 8, replicas = 8, threads = 2, prompt = 1600000, prefix = { tokens = 16, groups = 1 }, "
      .. "engine = { num_blocks = 200000 } }", "the blocks of a", "8MB")
  end)

  it("is charged for the steps that it keeps", function()
    refused('serve { count = 1, output = 200000, keep = "steps" }', "a record of steps", "20MB")
  end)

  it("is released completely", function()
    local result = run(SERVE .. "for _ = 1, 20 do serve { count = 20000 } end print 'done'", "--max-memory 8MB")
    assert.equal("done\n", result.out, result.err)
  end)
end)

describe("a file", function()
  -- Each reader has a limit of its own, of 4 MB to 2 GiB.
  it("takes memory for what it holds, not for the most that it might", function()
    local folder = program.folder()
    program.shell(("cp spec/data/small/* spec/data/traces/two_layers.json %s"):format(folder))
    program.write(folder .. "/run.sh", "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 256 "
      .. "--num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 --vocab-size 1000 "
      .. "--micro-batch-size 1 --global-batch-size 16")
    program.write(folder .. "/script.lua", [[
      local tperf = require "tperf"
      print(tperf.system "system.yaml", #tperf.validate { file = "collectives.csv", system = "system.yaml" }.cases,
        tperf.import.launch { files = { "run.sh" }, given = {} }.model.layers,
        require "tperf.import.kineto".read "two_layers.json".steps > 0)
    ]])
    local result = program.shell("tperf run --trust --max-memory 9MB script.lua", folder)
    program.remove(folder)
    assert.same({ "small\t8\t4\ttrue\n", 0 }, { result.out, result.code }, result.err)
  end)
end)

describe("an answer that cannot fit", function()
  local rows = tonumber(run(SEARCH .. 'print(#search { keep = "all" })').out)

  it("is refused before the walk, with its number of rows", function()
    for fields, count in pairs {
      ['keep = "all"'] = rows,
      ["top = 1000000, infeasible = true"] = rows,
    } do
      local result = run(SEARCH .. "search { " .. fields .. " }", "--max-memory 16MB")
      assert.equal(1, result.code)
      local expected = ("script.lua:6: tperf.search: not enough memory: %s makes %d rows, at least %s, and "):format(
        (fields:gsub(", infeasible.*", "")), count, units.format(2200 * count, "bytes"))
      assert.truthy(result.err:find(expected, 1, true), result.err)
    end
  end)

  it("is not refused if it fits, or if only few rows are asked for", function()
    assert.equal(rows .. "\n", run(SEARCH .. 'print(#search { keep = "all" })', "--max-memory 64MB").out)
    local result = run(SEARCH .. "print(#search { top = 1 << 20, pp = 1, tp = 1 } > 0)", "--max-memory 16MB")
    assert.equal("true\n", result.out, result.err)
  end)

  it("may be narrowed by a filter, whose effect is not known beforehand", function()
    local result = run(SEARCH .. [[
      local function one(c) return c.tp == 8 and c.pp == 1 end
      print(#search { keep = "all", where = one } > 0)]], "--max-memory 16MB")
    assert.equal("true\n", result.out, result.err)
  end)

  it("underestimates the size of rows", function()
    local result = run(SEARCH .. [[
      local function rows() -- each is made when it is read
        local found = search { keep = "all", gpus = 8 }
        for _, one in ipairs(found) do assert(one.time > 0) end
        return found
      end
      rows() -- lays out, and prices, what the next one needs
      collectgarbage()
      local before = collectgarbage "count"
      local found = rows()
      collectgarbage()
      print((collectgarbage "count" - before) * 1024 / #found)]])
    local bytes = tonumber(result.out)
    assert.is_true(bytes > 2200 and bytes < 3000, result.out .. result.err)
  end)
end)

describe("a trace of requests", function()
  it("is read line by line", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    program.write(folder .. "/s.lua",
      "require 'tperf'.serve { step_time = { fixed = 0.01 }, requests = 't.jsonl' }")
    local function ask() return program.shell("tperf run --max-memory 48MiB s.lua", folder).err end
    program.write(folder .. "/t.jsonl", ('{"arrival": 1, "prompt": 8, "output": 4}\n'):rep(3) .. '{"x": 1}\n'
      .. ("#\n"):rep(50 << 20))
    assert.equal("tperf: s.lua:1: t.jsonl:4: unknown column 'x'", ask():match "^[^;\n]*")
    program.write(folder .. "/t.jsonl", '{"arrival": 1, "prompt": 8, "output": 4}\n' .. (" "):rep(17 << 20))
    assert.equal("tperf: s.lua:1: t.jsonl:2: a line of more than 16 MiB\n", ask())
    program.write(folder .. "/t.jsonl", '\n{"arrival": 1, "prompt": 8, "output": 4}\n\n{"arrival": 2}')
    assert.truthy(ask():find("t.jsonl:4: ", 1, true))
  end)
end)
