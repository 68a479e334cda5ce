-- The overhead of questions outside the core: Lua instructions, independent of the machine and its load. Each limit was
-- set a tenth to two fifths above the count; lower it when a question becomes cheaper.
local cases = require "cases"
local core = require "tperf.core"
local llm_analysis = require "tperf.compat.llm_analysis"
local memo = require "tperf.describe.layout.memo"
local normal = require "tperf.question.goodput.normal"
local program = require "program"
local tperf = require "tperf"

local EVERY <const> = 100

-- The instructions of a call, with caches warm: after so many calls, two by default.
local function instructions(f, before)
  for _ = 1, before or 2 do f() end
  local count = 0
  debug.sethook(function() count = count + EVERY end, "", EVERY)
  f()
  debug.sethook()
  return count
end

local function costs(limit, f, before)
  local count = instructions(f, before)
  assert.truthy(count <= limit, ("%d instructions of Lua, more than %d"):format(count, limit))
end

-- A prepared question to tperf.train; new: of sizes that were never asked before, each time.
local function training(change, new)
  local ask, o = tperf.prepare {}, { model = "llama-3.1-70b", system = "h100-sxm", global_batch = 1024, tp = 8, pp = 4,
    dp = 32, recompute = "full" }
  for name, value in pairs(change or {}) do o[name] = value end
  return function()
    if new then o.global_batch = o.global_batch + 256 end
    return ask(o)
  end
end

describe("the Lua of a question", function()
  -- With the memory for which the numbers of layouts below were counted.
  local CARD <const> = tperf.system("h100-sxm"):with { accelerator = { hbm = { capacity = 80e9 } } }

  it("is short in a collective", function()
    costs(300, function() tperf.collective { system = "h100-sxm", kind = "all_reduce", bytes = 1e9, gpus = 64 } end)
  end)

  it("is short in a configuration, its placement open or given", function()
    local given = { fast = { tp = 8, pp = 1, dp = 1 } }
    costs(3000, training(nil, true))
    costs(3200, training(given, true))
  end)

  it("is short in a model's groups, however many layers it has", function()
    local models = {}
    for i = 1, 3 do
      models[i] = tperf.model { name = "m", layers = 300 * i, hidden = 512, heads = 8, seq = 64, vocab = 9 }
    end
    for _, m in ipairs(models) do costs(300, function() m:groups() end) end
  end)

  it("is short in a configuration that does not fit", function()
    local large = { tp = 1, dp = 256, recompute = "none" }
    costs(3200, training(large, true))
  end)

  it("is bounded while remedies are searched for", function()
    local ask = training { tp = 1, dp = 256, recompute = "none" }
    costs(146000, function() return ask().reason end)
  end)

  it("is short in inference", function()
    costs(1600, function()
      tperf.infer { model = "llama-3.1-70b", system = "h100-sxm", tp = 8, prompt = 1024, generate = 256, batch = 16 }
    end)
  end)

  it("is short in an answer of llm-analysis", function()
    costs(4300, function()
      llm_analysis.infer { model = "upstage_Llama-2-70b-instruct-v2", gpu = "a100-sxm-80gb", tp_size = 2, seq_len = 512,
        num_tokens_to_generate = 512 }
    end)
    costs(5000, function()
      llm_analysis.train { model = "facebook_opt-13b", gpu = "a100-sxm-80gb", tp_size = 4, dp_size = 8, ds_zero = 1,
        batch_size_per_gpu = 2 }
    end)
  end)

  it("is short in each point of a sweep", function()
    costs(64 * 4300, function()
      tperf.sweep {
        run = tperf.train, model = "llama-3.1-70b", system = "h100-sxm", gpus = 1024, recompute = "full",
        tp = tperf.vary { 1, 2, 4, 8 }, pp = tperf.vary { 1, 2, 4, 8 },
        global_batch = tperf.vary { 1024, 2048, 3072, 4096 }, fields = { "time", "memory.total" }, progress = false,
      }
    end)
  end)

  it("is short in each row of a table of training runs", function()
    local path, rows = program.temporary ".csv", {}
    for line in io.lines "spec/data/measured/steps.csv" do rows[#rows + 1] = line end
    for i = #rows, 2, -1 do
      if i % cases(4, 1) ~= 0 then table.remove(rows, i) end
    end
    program.write(path, table.concat(rows, "\n") .. "\n")
    costs((#rows - 1) * 11250, function() tperf.validate { file = path } end, 1)
  end)

  it("is short in writing an answer with each figure of each op", function()
    local door = require "tperf.door.ask"
    local answer = door.answer { ask = "train", with = { model = "llama-3.1-70b", system = "h100-sxm", gpus = 64,
      tp = 2, global_batch = 128 } }
    costs(#door.line(answer) * 5, function() door.line(answer) end)
  end)

  it("integrates an expected largest draw once", function()
    local draws = 2 ^ 20 // 1 | 0
    assert.truthy(instructions(function() normal.expected_largest(draws) end) <= 100)
  end)

  it("is short for each candidate that 'where' rejects by what it is", function()
    local function ask(where)
      return tperf.search { model = "llama-3.1-8b", system = "h100-sxm", gpus = 64, global_batch = 64, threads = 1,
        where = where }
    end
    local asked = 0
    local idle = instructions(function()
      asked = 0
      ask(function(c)
        asked = asked + 1
        return c.idle > 64
      end)
    end)
    local timed = instructions(function() ask(function(c) return c.time < 0 end) end)
    assert.truthy(asked > 100)
    assert.truthy(timed - idle > 250 * asked, ("%d instead of %d for %d candidates"):format(idle, timed, asked))
  end)

  it("is bounded in a search of a model that was asked about: repeated, or with other prices", function()
    local bandwidth = 100e9
    costs(26000, function()
      tperf.search { model = "llama-3.1-70b", system = "h100-sxm", gpus = 1024, global_batch = 1024, threads = 1 }
    end)
    costs(53000, function()
      bandwidth = bandwidth / 2
      local system = tperf.system("h100-sxm"):with { network = { slow = { bandwidth = bandwidth } } }
      tperf.search { model = "llama-3.1-70b", system = system, gpus = 1024, global_batch = 1024, threads = 1 }
    end)
  end)

  it("finds the micro-batches of sizes with the same products once", function()
    costs(1100000, function()
      tperf.search {
        model = { name = "bench", layers = 720, hidden = 61440, heads = 480, ffn = 245760, seq = 1024 },
        system = "h100-sxm", gpus = { 8640, 17280, 34560, 69120 }, global_batch = 69120, strategy = "context",
        rules = "subramanian2024", threads = 1,
      }
    end)
  end)

  it("does not grow with the passes of a schedule that the core plans", function()
    for _, name in ipairs { "zb_auto", "zb_h1", "zbv", "v_half", "v_min" } do
      local function plan() tperf.schedule { schedule = name, devices = 8, microbatches = 256 } end
      costs(2500, plan) -- of 6,144 passes and more
    end
  end)

  it("does not read every pass of a simulated step", function()
    costs(21500, training { simulate = "zbv", pp = 8, dp = 16, global_batch = 16384 }) -- 24,576 passes
  end)

  it("is a few instructions per pass in a custom order", function()
    tperf.schedule.define("own_order", function(s)
      for d = 1, s.devices do
        for m = 1, s.microbatches do
          s:forward(d, d, m)
          s:backward(d, d, m)
        end
      end
    end)
    costs(6 * 2 * 8 * 256 + 2500, function() -- a call each: the method, its four arguments, a share of the loops
      tperf.schedule { schedule = "own_order", devices = 8, microbatches = 256 }
    end)
  end)

  it("does not lay out again the ops that experts do not change", function()
    local batch = 1024 -- other micro-batches each time, so that no shape is known
    costs(1300000, function()
      batch = batch * 3 // 2
      tperf.search {
        model = "mixtral-8x7b", system = "h100-sxm", gpus = 64, global_batch = batch, micro_batch = batch // 64,
        strategy = "context", pp = 1, threads = 1, infeasible = true,
      }
    end, 1)
  end)

  it("lays out once what sees a GPU's tokens alone, however the sequence is cut", function()
    for _, case in ipairs { { "llama-3.1-70b", 700000 }, { "deepseek-v3", 4500000 } } do
      local model, limit = table.unpack(case)
      local batch = 2048
      memo.forget() -- the ops of other specs, which leave less room
      costs(limit, function()
        batch = batch + 256
        tperf.search {
          model = model, system = CARD, gpus = 256, global_batch = batch, strategy = "context", threads = 1,
        }
      end)
    end
    memo.forget()
  end)

  it("is bounded in the first search of a mixture of experts", function()
    local number, original = 0, tperf.model "deepseek-v3"
    costs(3700000, function()
      number = number + 1
      local model = original:with { vocab = original.vocab + 1024 * number } -- of which nothing is known
      tperf.search { model = model, system = "h100-sxm", gpus = 1024, global_batch = 1024, threads = 1 }
    end, 1)
  end)

  it("does not lay out again what another precision, or another loss, does not change", function()
    local function ask(change)
      local o = { model = "deepseek-v3", system = CARD, gpus = 256, global_batch = 256, threads = 1 }
      for name, value in pairs(change) do o[name] = value end
      return function() tperf.search(o) end
    end
    ask {} ()
    local losses, recipes = { "in-place", "copied" }, { "fp8-current", "fp8-delayed" }
    local number = 0
    costs(1700000, function()
      number = number + 1
      ask { loss = losses[number] } ()
    end, 1)
    ask { precision = "fp8-block" } ()
    costs(2300000, function()
      number = number - 1
      ask { precision = recipes[number + 1] } ()
    end, 1)
  end)

  -- With as much memory more as the context and the allocator take, which the layouts counted had.
  local ROOMY <const> = tperf.system("h100-sxm"):with { accelerator = { hbm = { capacity = 92e9,
    visible = 79.1 * 2 ^ 30 * 1.05 + 1.5 * 2 ^ 30 } } }

  it("lays out a mixture of experts once for all batches", function()
    local batch = 384
    memo.forget() -- the ops of other specs, which leave less room
    local function ask()
      tperf.search { model = "deepseek-v3", system = ROOMY, gpus = 1024, global_batch = batch, threads = 1 }
    end
    costs(600000, function()
      batch = batch * 2
      ask()
    end)
    costs(170000, ask)
  end)
end)

-- A search that skips nothing.
local WALK <const> = [[
require "tperf".search {
  model = { name = "bench", layers = 720, hidden = 61440, heads = 480, ffn = 245760, seq = 2048 }, system = "h100-sxm",
  gpus = 8640, global_batch = 8640, micro_batch = 1, software = "none", threads = 1, prune = false,
  infeasible = true,
}
]]

-- Reads what callgrind wrote of one part: all instructions, and those of each of the functions with all that it calls.
-- A name is written once, with the number that stands for it from then on.
local function read_counts(path, functions)
  local counts, names, called = { all = 0 }, {}, nil
  for _, name in ipairs(functions) do counts[name] = 0 end
  for line in io.lines(path) do
    local number, name = line:match "^c?fn=(%(%d+%)) (%S+)"
    if number then names[number] = name end
    if line:find "^cfn=" then
      called = names[line:match "%(%d+%)"]
    elseif called and not line:find "^c" then -- the line after "calls=": a place, and the call's instructions
      if counts[called] then counts[called] = counts[called] + tonumber(line:match "%S+$") end
      called = nil
    elseif line:find "^totals: " then
      counts.all = tonumber(line:match "%d+")
    end
  end
  return counts
end

-- Runs the parts of a trusted script in callgrind. Returns the counts of each; the first one's has the start of the
-- program. After each part, and in that start, Lua calls lua_gc, after which callgrind writes what it has counted.
local function machine_instructions(parts, functions)
  if program.shell("command -v valgrind").code ~= 0 then pending "needs valgrind" end
  local folder = program.folder()
  program.write(folder .. "/s.lua", table.concat(parts, "collectgarbage 'count'\n") .. "collectgarbage 'count'\n")
  local result = program.shell(("valgrind --tool=callgrind --callgrind-out-file=counts --dump-after=lua_gc %s run "
    .. "--trust s.lua"):format(program.quote(program.absolute())), folder)
  local works = (tonumber(result.err:match "Collected : (%d+)") or 0) > 0 and not core.faults
  local written, counts = tonumber(program.shell("ls counts.* | wc -l", folder).out), {}
  local start = written - 2 * #parts -- collectgarbage 'count' calls lua_gc twice
  for i = 1, works and #parts or 0 do
    counts[i] = read_counts(("%s/counts.%d"):format(folder, start + 2 * i - 1), functions)
  end
  for i = 1, works and start or 0 do
    counts[1].all = counts[1].all + read_counts(("%s/counts.%d"):format(folder, i), {}).all
  end
  program.remove(folder)
  if not works then pending "a program built for tests does more, or cannot run in valgrind" end
  return counts
end

local SERVED <const> = [[
require "tperf".infer {
  model = "deepseek-v3", system = "h100-sxm", tp = 4, pp = 8, ep = 4, batch = 64, prompt = 2048, generate = 256,
  placement = "best",
}
]]

-- The same machine with domains of different sizes.
local DOMAINS <const> = [[
do
  local machines = {}
  for i = 1, %d do
    machines[i] = require "tperf".system("h100-sxm"):with { network = { fast = { domain = 2 << i } } }
  end
  require "tperf".search {
    model = "gpt2", system = machines, gpus = 32, global_batch = 32, threads = 1, prune = false, infeasible = true,
  }
end
]]

local SEARCHED <const> = [[
require "tperf".search { model = "%s", system = "h100-sxm", gpus = 1024, global_batch = 1024, threads = 1 }
]]

-- One process for all parts: valgrind takes longer to start than a part does.
describe("the instructions", function()
  local parts
  local function part(i, name)
    local searched = SEARCHED:format "llama-3.1-70b"
    parts = parts or machine_instructions({ 'require "tperf"\n', SERVED, SERVED, DOMAINS:format(1), DOMAINS:format(4),
      searched, searched, searched }, { "tperf_infer", "tperf_prices_of", "tperf_stock_memory", "tperf_pool_run" })
    assert.truthy(parts[i][name] > 0, name)
    return parts[i][name]
  end

  it("of the start of the library are so many", function()
    local count = part(1, "all")
    assert.truthy(count <= 6.35e6, ("%d instructions"):format(count))
  end)

  it("that price experts in a pipeline, with eight placements, are so many", function()
    local count = part(2, "tperf_infer")
    assert.truthy(count <= 180000, ("%d instructions of C"):format(count))
  end)

  it("of a search of a model that was asked about are few", function()
    local all = part(8, "all")
    assert.truthy(all <= 11.7e6, ("%d instructions"):format(all))
  end)

  it("that price ops are shared among machines that differ in the size of their domains", function()
    local one, four = part(4, "tperf_prices_of"), part(5, "tperf_prices_of")
    assert.truthy(four <= 2 * one, ("%d instructions for four machines, %d for one"):format(four, one))
  end)

  it("that sum memory are those of one machine, for machines that differ in the size of their domains", function()
    local one, four = part(4, "tperf_stock_memory"), part(5, "tperf_stock_memory")
    assert.truthy(four <= 1.2 * one, ("%d instructions for four machines, %d for one"):format(four, one))
  end)
end)

describe("the C of a search", function()
  cases(function() end, it)("walks 12,320 candidates in so many instructions", function()
    local count = machine_instructions({ WALK }, { "tperf_search_walk" })[1].tperf_search_walk
    assert.truthy(count > 0 and count <= 29e6, ("%d instructions of C"):format(count))
  end)
end)

-- A search on a network of tiers, once the process has met it.
local TIERED <const> = [[
do
  local tiers = {
    { name = "nvlink", size = 8, bandwidth = "450 GB/s", latency = "2.5 us", curves_of = "h100-sxm" },
    { name = "leaf", size = 256, bandwidth = "400 Gb/s", nics_per_gpu = 1, latency = "5 us", curves_of = "h100-sxm" },
    { name = "spine", oversubscription = 4, latency = "7 us" },
  }
  tiers[3] = %d > 2 and tiers[3] or nil
  local system = require "tperf".system("h100-sxm"):with { network = { tiers = tiers } }
  require "tperf".search { model = "%s", system = system, gpus = 1024, global_batch = 1024, threads = 1 }
end
]]

describe("a third tier", function()
  local models = { "llama-3.1-70b", "mixtral-8x7b" }
  cases(function() end, it)("costs a search at most 1.15 times the instructions of two", function()
    for _, model in ipairs(models) do
      local two, three = TIERED:format(2, model), TIERED:format(3, model)
      local counts = machine_instructions({ two, two, three, three }, {})
      local ratio = counts[4].all / counts[2].all
      assert.truthy(ratio > 1 and ratio <= 1.15, ("%s: %.3f"):format(model, ratio))
    end
  end)
end)

-- Prints how many modules of the library are loaded.
local LOADED <const> = [[
local count = 0
for name in pairs(package.loaded) do count = count + (name:find "^tperf" and 1 or 0) end
print(count)
]]

local function modules_after(code)
  local script = program.temporary ".lua"
  program.write(script, 'local tperf = require "tperf"\n' .. code .. "\n" .. LOADED)
  return tonumber(program.shell("tperf run --trust " .. script).out)
end

describe("the start of the library", function()
  it("loads what a script uses, not more", function()
    local bare = modules_after ""
    assert.truthy(bare > 10 and bare <= 40, ("%d modules for nothing but the start"):format(bare))
    local one = modules_after [[
      tperf.train { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 64, dp = 8 }
    ]]
    assert.truthy(one <= 122, ("%d modules for a configuration"):format(one))
    assert.truthy(modules_after "for _ in pairs(tperf) do end" > one)
  end)
end)
