-- Objects that scripts pass to the core: tables that change while they are read, numbers that divide by zero, objects
-- used out of order. Errors are fine; a crash or an invalid read is not (`make check` runs this under sanitizers).
local program = require "program"
local sampled = require "cases"

local MODEL <const> = [[
  local tperf = require "tperf"
  local function op(n) return tperf.op.norm { name = "n", tokens = 8 + (n or 0), width = 8 } end
  local function model_of(...)
    return { name = "m", layers = 2, hidden = 256, heads = 4, ffn = 512, seq = 256,
      architecture = tperf.architecture { name = "own", layer = { ... } } }
  end
  local function train(model)
    return tperf.train { model = model, system = "h100-sxm", global_batch = 8, dp = 2 }
  end
]]

-- Runs a script. It may fail only if a message is given (a pattern), and then must fail with it.
local function survives(text, message, options)
  local result = program.script(text, options)
  program.remove(result.folder)
  assert.is_true(result.code == 0 or result.code == 1, ("exit status %d\n%s"):format(result.code, result.err))
  assert.is_nil(result.err:find "Sanitizer", result.err)
  if message then
    assert.equal(1, result.code, result.out)
    assert.truthy(result.err:find(message), result.err)
  else
    assert.equal("", result.err)
  end
  return result
end

describe("a script's block", function()
  it("may return a list that grows while being read", function()
    survives(MODEL .. [[
      local function grow(list, key)
        if key == "name" then for i = 2, 5000 do rawset(list, i, op()) end end
      end
      local evil = tperf.block("evil", function()
        return setmetatable({ op() }, { __newindex = function() end, __index = function(list, key)
          grow(list, key)
          return key == "name" and "evil" or nil
        end })
      end)
      local c = train(model_of(evil))
      print(#c.layers)
    ]])
  end)

  it("gives the core a copy, which it cannot change later", function()
    local result = survives(MODEL .. [[
      local kept
      local own = tperf.block("own", function(_, share)
        kept = { op(share.tokens) }
        return kept
      end)
      local other = tperf.block("other", function()
        for i = 1, 5000 do kept[i] = op() end
        return { op() }
      end)
      print(#train(model_of(own, other)).layers)
    ]])
    assert.equal("2\n", result.out)
  end)

  it("cannot be changed through its class", function()
    local result = survives(MODEL .. [[
      local own = tperf.block("own", function() return { op() } end)
      print(getmetatable(own), own.__index, rawget(own, "ops"))
      print(getmetatable(setmetatable({}, { __name = "mine" })).__name)
      print(getmetatable(tperf.model "gpt2"), getmetatable(op()), getmetatable(tperf.block))
    ]])
    assert.equal("false\tnil\tnil\nmine\nfalse\tfalse\tfalse\n", result.out)
  end)
end)

describe("the library", function()
  it("has only its documented modules for scripts", function()
    for _, name in ipairs { "tperf.describe.workload", "tperf.core", "tperf.describe.strategy.tensor",
      "tperf.cli.sandbox", "tperf.base.check", "tperf.output.file", "tperf.output.render", "tperf.plot.figure",
      "tperf." } do
      survives(("require %q"):format(name), "script.lua:1: module '" .. name:gsub("%.", "%%.") .. "' is not available")
    end
    local result = survives [[
      local tperf = require "tperf"
      for _, name in ipairs { "plot", "report", "op", "units", "schedule" } do
        assert(require("tperf." .. name) == tperf[name])
      end
      print(type(require "tperf.compat.llm_analysis".train), tperf.op.linear == require "tperf.op".linear)
    ]]
    assert.equal("function\ttrue\n", result.out)
  end)

  it("is not affected by a script's changes to its modules", function()
    local result = survives [[
      local tperf = require "tperf"
      local model = { name = "m", layers = 2, hidden = 256, heads = 4, ffn = 512, seq = 256 }
      local function time() return tperf.train { model = model, system = "h100-sxm", global_batch = 8 }.time end
      local before, train = time(), tperf.train
      for name in pairs(tperf.op) do tperf.op[name] = function() return {} end end
      tperf.strategy.of, tperf.model, tperf.block.is = nil, nil, nil
      tperf.train = train
      print(time() == before)
    ]]
    assert.equal("true\n", result.out)
  end)
end)

-- Calls of the core's functions with the arguments that the library passed, changed.
local RECORD <const> = [[
  local core, tperf = require "tperf.core", require "tperf"
  local made = {}
  local function record(owner, name)
    local original = owner[name]
    owner[name] = function(...)
      made[name] = table.pack(...)
      made[name].call = original
      return original(...)
    end
  end
  for _, name in ipairs { "workload", "pipelines", "job", "decode", "serve" } do record(core, name) end
  record(core.search, "new")
  local tiny = { name = "m", layers = 2, hidden = 256, heads = 4, ffn = 512, seq = 256 }
  tperf.train { model = tiny, system = "h100-sxm", global_batch = 8, dp = 2, tp = 2, fast = { tp = 2, dp = 2, pp = 1 } }
  tperf.search { model = tiny, system = "h100-sxm", global_batch = 8, gpus = 8 }
  tperf.infer { model = "llama-2-7b", system = "h100-sxm", prompt = 100, generate = 20, tp = 2 }
  local function again(name, change)
    local arguments = made[name]
    if change then change(arguments) end
    return arguments.call(table.unpack(arguments, 1, arguments.n))
  end
  local function platform() return core.platform(tperf.system "h100-sxm", tperf.rules "default") end
  -- Lua probes powers of two for the length of a list: this one seems to have 2^61 members.
  local function lying(value)
    local text = {}
    for power = 2, 61 do text[#text + 1] = ("[%d] = v"):format(1 << power) end
    return load("local v = ... return { v, [2] = v, " .. table.concat(text, ", ") .. " }")(value)
  end
  local function shape(workload)
    return { strategy = 1, variant = 1, workloads = { workload }, micro_batches = { 1 }, fitting = 1, panels = { 1 },
      fast = {} }
  end
]]

local cases = {
  ["an op list that is counted before it grows"] = { [[
    again("workload", function(a)
      local block = { a[4][1][1][1] }
      local function grow(t) for i = 2, 9999 do t[i] = t[1] end return "x" end
      a[4] = { { setmetatable(block, { __index = grow }) }, {}, {} }
    end)]], "a block lacks its name" },
  ["lists with a false length"] = { [[
    again("new", function(a) a[5] = lying(1) end)]], "%[3%] is nil: a list has no holes" },
  ["questions with a false number"] = { [[
    again("new", function(a) a[3] = lying(a[3][1]) end)]], "%[3%] is nil: a list has no holes" },
  ["an axis that cuts an unknown role"] = { [[
    core.grid { { name = "a", cuts = -1 << 31, folds = 0, apart = 0 } }]], "axis 'a' is out of bounds" },
  ["an axis that folds over no earlier axis"] = { [[
    core.grid { { name = "a", cuts = 2, folds = 1 << 7, apart = 0 } }]], "axis 'a' must fold over axes" },
  ["more axes than a grid has"] = { [[
    local rows = {}
    for i = 1, 20 do rows[i] = { name = "a" .. i, cuts = 1, folds = 0, apart = 0 } end
    core.grid(rows)]], "a strategy has at most 10 axes" },
  ["grid sizes whose product overflows"] = { [[
    local grid = core.grid { { name = "a", cuts = 1, folds = 0, apart = 0 }, { name = "b", cuts = 2,
      folds = 5, apart = 0 } }
    assert(not grid:folds({ 1 << 31, 1 << 31 }, 1 << 31))
    grid:fold({ 1, 1 }, { 1 << 31, 1 << 31, 1 << 31, 1 })]], "more than 2^31" },
  ["a placement without axes"] = { [[
    print(again("workload"):ops(1, platform(), {}, 1))]],
    "a placement of %d axes, not 0" },
  ["a placement that does not divide"] = { [[
    print(again("workload"):ops(1, platform(), { 1, 1, 3, 1, 1, 1 }, 1))]],
    "cannot share a fast domain" },
  ["zero replicas"] = { [[
    local n = again "workload"
    core.job(platform(), made.job[2], again "pipelines"):candidate(n, { global_batch = 8, dp = 0, pipeline = 1,
      micro_batch = 0, panels = 1, zero = 9, fast = { 1, 1, 1, 1, 1, 1 } })]],
    "'dp' is out of range: 0 is not from 1 to" },
  ["pipelines of too many stages"] = { [[
    again("pipelines", function(a) a[3][1].pp, a[3][1].virtual_stages = 1 << 20, 1 << 20 end)]],
    "a pipeline of more than 1048576 stages" },
  ["pipelines on too many devices"] = { [[
    again("pipelines", function(a) a[3][1].pp = 1 << 52 end)]], "'pp' is out of range" },
  ["pipelines with more kinds of layers than the workload"] = { [[
    local p = again("pipelines", function(a) a[1] = { { 8, 100 } } end)
    local s = again("new", function(a)
      local question = a[3][1]
      local job = core.job(platform(), made.job[2], p)
      a[2], a[3] = p, { { job = job, gpus = question.gpus, global_batch = question.global_batch } }
    end)
    s:walk { shape(again "workload") }]], "the pipelines have 8 kinds of layers, the workload has 1" },
  ["workloads collected while a search uses them"] = { [[
    local s = again "new"
    local shapes = {}
    for i = 1, 50 do
      shapes[i] = setmetatable({}, { __index = function(_, key)
        collectgarbage()
        return shape(again "workload")[key]
      end })
    end
    s:walk(shapes)]], "" },
  ["a search continued after its answer"] = { [[
    local s = again "new"
    s:walk { shape(again "workload") }
    s:answer(1)
    s:walk { shape(again "workload") }]], "the search has been answered" },
  ["a search within its own callback"] = { [[
    local s
    s = again("new", function(a) a[6] = function() return s:walk { shape(again "workload") } end end)
    for i = 1, 8 do s:walk { shape(again("workload", function(a) a[2] = { i, 1, 1, 0 } end)) } end]],
    "the search is under way" },
  ["a decode whose workloads are collected"] = { [[
    local list = table.move(made.decode[2], 1, #made.decode[2], 1, {})
    local decode = again("decode", function(a) a[2] = list end)
    for i = #list, 1, -1 do list[i] = nil end
    made.decode = nil
    made.serve = nil
    collectgarbage()
    collectgarbage()
    local ops = decode:ops(1, platform(), { 1, 1, 2, 1, 1, 1 }, 101, 119)
    assert(#ops > 3)]] },
  ["steps out of a decode's range"] = { [[
    again("decode"):ops(1, platform(), { 1, 1, 2, 1, 1, 1 }, 101, 1e300)]],
    "no such steps" },
  ["a negative section of a workload"] = { [[
    again("workload"):ops(math.mininteger, platform(), { 1, 1, 1, 1, 1, 1 }, 1)]],
    "no such section" },
  ["a negative section of a decode"] = { [[
    again("decode"):ops(-1 << 31, platform(), { 1, 1, 2, 1, 1, 1 }, 101, 119)]],
    "no such section" },
  ["tables that contain themselves"] = { [[
    local a, b = {}, {}
    a.within, b.within = a, b
    assert(not core.resource.same(a, b))]] },
  ["a curve with too many sizes"] = { [[
    local rates = {}
    for i = 1, 1000 do rates[i] = i end
    local function copy(value, name)
      if name == "head_dim" then return rates end
      if type(value) ~= "table" then return value end
      local made = {}
      for key, one in pairs(value) do made[key] = copy(one, key) end
      return made
    end
    local s = copy(tperf.system "h100-sxm")
    core.check_system(s)]], "head sizes" },
}

describe("the core refuses or survives", function()
  for name, case in pairs(cases) do
    it(name, function()
      survives(RECORD .. case[1], case[2], "--trust")
    end)
  end
end)

-- What the fuzzers have found: seeds and numbers of cases (tools/fuzz).
local FOUND <const> = {
  { "core", 1, 23 }, { "core", 3, 5 }, { "api", 303128, 12 }, { "api", 304187, 6 }, { "api", 20040, 33 },
  { "api", 6, 45 }, { "core", 2, 144 }, { "core", 4, 115 }, { "core", 6, 39 }, { "api", 306580, 150 }, -- slower
}

describe("the fuzzers' finds", function()
  for i = 1, sampled(5, #FOUND) do
    local found = FOUND[i]
    it(("stay fixed: %s %d"):format(found[1], found[2]), function()
      local trust = found[1] == "core" and "--trust" or ""
      local result = program.shell(("tperf run %s tools/fuzz/%s.lua %d %d"):format(trust, table.unpack(found)))
      assert.equal(0, result.code, result.err:sub(-1000))
    end)
  end
end)
