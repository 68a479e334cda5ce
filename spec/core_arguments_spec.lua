-- The C side checks its own arguments: the library's calls of tperf.core are recorded and repeated with one
-- argument, or one field of one, replaced. Each must answer or raise a message; the sanitizers watch.
local cases = require "cases"
local core = require "tperf.core"
local frozen = require "tperf.base.object.frozen"
local program = require "program"
local tperf = require "tperf"

local MODEL = { name = "small", layers = 4, hidden = 256, heads = 8, kv_heads = 4, ffn = 512, vocab = 1000, seq = 128 }
local EXPERTS = { name = "experts", layers = 4, hidden = 256, heads = 8, ffn = 512, vocab = 1000, seq = 128,
  experts = { count = 8, top_k = 2, ffn = 128 } }

local LONG = {}
for i = 1, 100 do LONG[i] = i end

local VALUES = { false, true, -1, 0, 1, 3, 0.5, -0.5, 1 << 31, 1 << 53, math.mininteger, 1e19, 1e300, -1e300, 1 / 0,
  0 / 0, "", "x", ("x"):rep(300), {}, { 1, 2 }, { 0 / 0, "x" }, LONG, io.stdout }
local ABSENT = {}
VALUES[#VALUES + 1] = ABSENT

local NOT_OURS = {} -- functions of the standard libraries, and those that act on the process or run at its end
do
  local seen = {}
  local function leave_out(value)
    if type(value) == "function" then NOT_OURS[value] = true end
    if type(value) ~= "table" or seen[value] or value == core then return end
    seen[value] = true
    for name, item in next, value do
      if name ~= "loaded" then leave_out(item) end
    end
  end
  for _, name in ipairs { "string", "table", "math", "io", "os", "coroutine", "debug", "utf8", "package", "_G" } do
    leave_out(package.loaded[name])
  end
  leave_out(debug.getmetatable(io.stdout))
  leave_out(core.faults)
end

local function copy(value)
  value = frozen.plain(value)
  if type(value) ~= "table" then return value end
  local same = {}
  for key, item in pairs(value) do same[key] = copy(item) end
  return setmetatable(same, getmetatable(value))
end

-- Records the calls of our own functions while f runs: function -> up to four lists of arguments.
local function record(f)
  local calls, order, ended = {}, {}, {}
  local function is_internal(called) -- __gc and __close, and functions that C passes to lua_pcall with a pointer
    if ended[called] == nil then
      local _, first = debug.getlocal(3, 1)
      local meta = debug.getmetatable(first)
      ended[called] = type(first) == "userdata"
        and (not meta or rawget(meta, "__gc") == called or rawget(meta, "__close") == called)
    end
    return ended[called]
  end
  debug.sethook(function()
    local frame = debug.getinfo(2, "Sf")
    local called = frame.func
    if frame.what ~= "C" or NOT_OURS[called] or is_internal(called) then return end
    local list = calls[called]
    if not list then
      list = {}
      calls[called], order[#order + 1] = list, called
    end
    if #list >= 4 then return end
    local arguments, n = {}, 0
    while true do
      local name, value = debug.getlocal(2, n + 1)
      if not name then break end
      n = n + 1
      arguments[n] = copy(value)
    end
    arguments.n = n
    list[#list + 1] = arguments
  end, "c")
  f()
  debug.sethook()
  return calls, order
end

local function ask()
  tperf.search { model = EXPERTS, system = "h100-sxm", gpus = 8, global_batch = 16, threads = 1, zero = { 0, 1 },
    strategy = { "tensor", "summa", "context" }, where = function() return true end, dp = { 1, 2 } }
  for _, way in ipairs { { "summa", "summa" }, { "summa", "unfused" }, { "tensor", "unfused" },
    { "tensor", "recompute" }, { "context", "flash" } } do
    local strategy, attention = table.unpack(way)
    for _, rules in ipairs { "default", "subramanian2024" } do
      pcall(tperf.search, { model = MODEL, system = "h100-sxm", gpus = 4, global_batch = 16, threads = 1,
        strategy = strategy, attention = attention, rules = rules })
    end
  end
  for _, name in ipairs { "h100-sxm", "b200-sxm", "a100-sxm-80gb", "gb200-nvl72" } do
    core.check_system(tperf.system(name))
  end
  tperf.train { model = MODEL, system = "b200-sxm", global_batch = 16, tp = 2, pp = 2, dp = 2, simulate = "1f1b" }
  tperf.search_inference { model = EXPERTS, system = "h100-sxm", gpus = 4, tp = { 1, 2 }, batch = { 1, 4 }, prompt = 64,
    generate = 16, tpot = "20 ms" }
  tperf.infer { model = "mixtral-8x7b", system = "h100-sxm", tp = 2, batch = 4, prompt = 64, generate = 16 }
  tperf.collective { system = "gb200-nvl72", kind = "all_reduce", bytes = "1 GB", gpus = 16 }
  tperf.layer { model = MODEL, system = "h100-sxm", tp = 2, micro_batch = 2 }
  tperf.model "mamba2-2.7b":parameters()
  local s = tperf.schedule { schedule = "zbv", devices = 2, microbatches = 4,
    times = { forward = 1, backward_input = 1, backward_weight = 1 } }
  s:text()
  tperf.schedule { schedule = "dualpipe", devices = 2, microbatches = 4 }
  tperf.schedule { schedule = "zb_h1", devices = 2, microbatches = 4 }
  local step = { fixed = 0.01, per_token = 1e-5 }
  tperf.serve { step_time = step, load = { rate = 5, cv = 2 }, count = 5, prompt = { values = { 16, 32 } }, output = 4,
    prefix = { tokens = 8, groups = 2 } }
  tperf.serve { step_time = step, requests = { { arrival = 0, prompt = 8, output = 4, segments = { { 1, 8 } } },
    { arrival = 1, prompt = 8, output = 4, priority = 1 } } }
  tperf.validate { file = "spec/data/fuzz/csv/bom_crlf.csv" }
  tperf.units.format(1e9, "bytes")
  core.yaml("a: [1]", "f")
  core.file.sha256 "x"
end

-- Calls the function with each argument, and each field down to that depth, replaced by VALUES[from], then every
-- step-th after it.
local function try_places(called, arguments, table_at, depth, tried, from, step)
  local keys = {}
  for key in next, table_at do keys[#keys + 1] = key end
  for _, key in ipairs(keys) do
    local right = table_at[key]
    if key ~= "n" then
      for i = from, #VALUES, step do
        local value = VALUES[i]
        if value == ABSENT then table_at[key] = nil else table_at[key] = value end
        local ok, message = pcall(called, table.unpack(arguments, 1, arguments.n))
        if not ok and type(message) ~= "string" then error("raises a " .. type(message), 0) end
        tried.calls, tried.refused = tried.calls + 1, tried.refused + (ok and 0 or 1)
      end
      table_at[key] = right
    end
    if type(right) == "table" and depth > 0 and #right < 20 then
      try_places(called, arguments, right, depth - 1, tried, from, step)
    end
  end
end

describe("every argument of the C side", function()
  it("is checked there", function()
    local calls, order = record(ask)
    assert.is_true(#order > 40, #order)
    local tried = { calls = 0, refused = 0 }
    for _, called in ipairs(order) do
      local step = cases(#calls[called] > 1 and 16 or 4, 1) -- the next lists take the values between
      for i, arguments in ipairs(calls[called]) do
        try_places(called, arguments, arguments, called == core.check_system and 6 or 2, tried, 1 + i % step, step)
        arguments.n = arguments.n + 2 -- more than it takes
        arguments[arguments.n - 1], arguments[arguments.n] = "x", {}
        pcall(called, table.unpack(arguments, 1, arguments.n))
      end
    end
    assert.is_true(tried.calls > cases(5000, 10000), tried.calls)
    assert.is_true(tried.refused > tried.calls / 3, tried.refused)
  end)
end)

-- The workloads of one model's steps, as the library passes them to core.decode.
local function step_workloads(model, tp)
  local passed
  local calls = record(function()
    tperf.infer { model = model, system = "h100-sxm", tp = tp, batch = 1, prompt = 64, generate = 16 }
  end)
  for _, arguments in ipairs(calls[core.decode]) do passed = arguments end
  return passed[1], passed[2]
end

describe("the C side", function()
  it("refuses a decode whose steps come from different models", function()
    local keys, plain = step_workloads(MODEL, 1)
    local others = { select(2, step_workloads(EXPERTS, 1)), select(2, step_workloads("mamba2-2.7b", 1)),
      select(2, step_workloads(MODEL, 2)),
      select(2, step_workloads({ name = "gated", layers = 4, hidden = 256, heads = 8,
        kv_heads = 4, ffn = 512, vocab = 1000, seq = 128, gated = true }, 1)) }
    assert.is_true(#keys > 1)
    for _, other in ipairs(others) do
      local mixed = table.move(plain, 1, #plain, 1, {})
      mixed[2] = other[math.min(2, #other)]
      local ok, message = pcall(core.decode, keys, mixed)
      assert.truthy(ok or message:find "op", message)
    end
    local mixed = table.move(plain, 1, #plain, 1, {})
    mixed[2] = others[1][1]
    assert.is_false((pcall(core.decode, keys, mixed)))
  end)

  it("refuses requests, lengths and positions that are none", function()
    local calls = record(function()
      tperf.serve { step_time = { fixed = 0.01 }, load = { rate = 5 }, count = 5, prompt = 16, output = 4 }
    end)
    local drawn = calls[core.serve][1]
    for _, wrong in ipairs { 5, true, "x", print } do
      local all = copy(drawn)
      all[4] = wrong
      assert.error_matches(function() core.serve(table.unpack(all, 1, all.n)) end, "'requests' must be a list, got")
      for _, name in ipairs { "prompt", "output" } do
        all = copy(drawn)
        all[5][name] = wrong
        assert.error_matches(function() core.serve(table.unpack(all, 1, all.n)) end, "is no distribution of lengths")
      end
    end
    local new, refused = core.search.new, 0
    finally(function() core.search.new = new end)
    function core.search.new(...)
      local made = new(...)
      for _, from in ipairs { 0, -1, math.mininteger } do
        assert.error_matches(function() made:fitting({}, { 1 }, from, false, 0.5) end, "a position is needed")
        refused = refused + 1
      end
      return made
    end
    tperf.search { model = MODEL, system = "h100-sxm", gpus = 4, global_batch = 16, threads = 1 }
    assert.is_true(refused > 0)
  end)

  it("refuses unknown parts of a schedule, and returns nothing for missing passes", function()
    local s = core.schedule(1, 1, 1)
    assert.error_matches(function() s.find(0, 1, 1) end, "has not been simulated")
    s:hold(1, 1)
    for _, wrong in ipairs { { 0, 1, 1 }, { 2, 1, 1 }, { 1, 0, 1 }, { 1, 2, 1 }, { 1, 1, 0 }, { 1, 1, 2 } } do
      assert.error_matches(function() s:forward(table.unpack(wrong)) end, "must be from 1 to 1")
      assert.error_matches(function() s:overlapped(wrong[1], wrong[2], wrong[3], 1, 1) end, "must be from 1 to 1")
    end
    assert.error_matches(function() s:overlapped(1, 1, 1, 1, 2) end, "must be from 1 to 1")
    assert.error_matches(function() s:hold(2, 1) end, "must be from 1 to 1")
    assert.error_matches(function() s:hold(1, 2) end, "must be from 1 to 1")
    s:forward(1, 1, 1)
    s:backward(1, 1, 1)
    local one, none = { forward = { 1 }, backward = { 1 }, backward_input = { 1 }, backward_weight = { 1 } }, {}
    assert.error_matches(function() s.simulate(none, one, 0, {}) end, "a list for every pass")
    assert.error_matches(function() s.simulate(one, none, 0, {}) end, "a list for every pass")
    assert.equal(2, s.simulate(one, one, 0, {}).makespan)
    assert.same({ 1, 0.0, 1.0 }, { s.find(0, 1, 1) })
    for _, absent in ipairs { { 0, 0, 1 }, { 0, 2, 1 }, { 0, 1, 0 }, { 0, 1, 2 }, { 3, 1, 1 }, { 2, 1, 1 } } do
      assert.same({}, { s.find(table.unpack(absent)) })
    end
    for _, absent in ipairs { { 0, 1 }, { 2, 1 }, { 1, 0 }, { 1, 3 } } do
      assert.same({}, { s.at(table.unpack(absent)) })
    end
  end)

  it("refuses machines that lack what an op needs, whoever asks", function()
    local calls = record(function()
      tperf.train { model = MODEL, system = "h100-sxm", global_batch = 16, tp = 2, pp = 2, dp = 2, software = "none",
        offload_layers = 1 }
    end)
    local _, rules = table.unpack(calls[core.platform][1])
    local _, training, pipelines = table.unpack(calls[core.job][1])
    local candidate_of = debug.getmetatable(core.job(table.unpack(calls[core.job][1], 1, 3))).__index.candidate
    local _, workload, run = table.unpack(calls[candidate_of][1])
    local lacks = { ["'s accelerator.tensor.bf16, which is not given"] = function(system)
      system.accelerator.tensor = {}
    end, ["offloads to the host, whose bandwidth is not given"] = function(system) system.host = nil end }
    local FAST = { 1, 1, 1, 1, 1, 1 }
    for text, change in pairs(lacks) do
      local poorer = copy(tperf.system "h100-sxm")
      change(poorer)
      local on = core.platform(poorer, rules)
      local candidate = core.job(on, training, pipelines):candidate(workload, run)
      for name, method in pairs {
        time = function() candidate:time() end, ops = function() candidate:ops(1) end,
        audit = function() candidate:audit() end, passes = function() candidate:passes(2) end,
        tasks = function() candidate:tasks(2) end, predictor = function() candidate:predictor() end,
        bare = function() candidate:bare():time() end, ["workload:ops"] = function() workload:ops(1, on, FAST) end,
        ["workload:served"] = function() workload:served(1, on, FAST) end,
      } do
        local ok, message = pcall(method)
        assert.truthy(not ok and message:find(text, 1, true), name .. ": " .. tostring(message))
      end
    end
  end)

  it("plans only the shapes that a planner has", function()
    local function costs(stages)
      local list = {}
      for i = 1, stages do list[i] = 1 end
      return { forward = list, backward = list, backward_input = list, backward_weight = list }
    end
    local function plan(devices, stages, planner, limits)
      local times = costs(stages)
      local memory = { forward = times.forward, backward = {}, backward_input = {}, backward_weight = {} }
      for i = 1, stages do memory.backward[i], memory.backward_input[i], memory.backward_weight[i] = -1, 0, -1 end
      return core.schedule(devices, stages, 2).plan(times, memory, 0, planner, limits)
    end
    local function refuses(text, ...)
      local ok, done, message = pcall(plan, ...)
      assert.truthy(tostring(ok and not done and message or done):find(text, 1, true), ok and message or done)
    end
    assert.is_true(plan(2, 4, "zbv"))
    assert.is_true(plan(2, 2, "zero_bubble", { 4, 4 }))
    assert.is_true(plan(2, 4, "v_half"))
    refuses("zbv needs two stages per device", 2, 2, "zbv")
    refuses("a V needs two stages per device", 2, 2, "v_min")
    refuses("zero bubble needs one stage per device", 2, 4, "zero_bubble", { 4, 4 })
    refuses("a list expected", 2, 2, "zero_bubble")
  end)

  it("finds the library on disk where TPERF_LUA_DIR says", function()
    local folder = program.folder()
    program.shell("mkdir -p tperf/cli/command/program", folder)
    program.write(folder .. "/tperf/cli/command/program/version.lua",
      "return { summary = 'x', run = function() print 'mine' end }")
    assert.equal("mine\n", program.shell("TPERF_LUA_DIR=. tperf version", folder).out)
    assert.truthy(program.shell("TPERF_LUA_DIR= tperf version", folder).out:find "^tperf ")
    program.remove(folder)
  end)

  it("says where an error is before tperf.base.check is loaded", function()
    local check = package.loaded["tperf.base.check"]
    package.loaded["tperf.base.check"] = nil
    local ok, message = pcall(core.workload)
    local refused, told = pcall(core.check_system, {})
    package.loaded["tperf.base.check"] = check
    assert.is_false(ok or refused)
    assert.is_string(message)
    assert.is_string(told)
  end)

  it("interpolates between head sizes, on a line of logarithms", function()
    local sizes, list = { 64, 128, 256 }, { 0.4, 0.6, 0.9 }
    local function at(size) return core.at_size(sizes, list, size) end
    assert.near((0.6 * 0.9) ^ 0.5, at(128 * 2 ^ 0.5), 1e-12)
    for i, size in ipairs { 32, 64, 128, 256, 512 } do
      assert.near(({ 0.4, 0.4, 0.6, 0.9, 0.9 })[i], at(size), 1e-12)
    end
    assert.error_matches(function() core.at_size({}, {}, 1) end, "not a list of 1 to 8 sizes")
    assert.error_matches(function() core.at_size(LONG, LONG, 1) end, "not a list of 1 to 8 sizes")
    assert.error_matches(function() core.at_size(sizes, { 1, 2 }, 1) end, "not as many numbers as sizes")
  end)

  it("prints its objects", function()
    local op = require "tperf.describe.op".linear { name = "q", tokens = 4, n_in = 8, n_out = 8 }
    assert.matches("^op 'q': ", tostring(op))
  end)
end)
