-- Invalid arguments: each function must quickly answer with finite numbers or raise a message that points at the line
-- of the call. HOSTILE=N tries N of each (seeded: always the same), HOSTILE_SEED selects others.
local cases = require "cases"
local steps = require "steps"
local tperf = require "tperf"

local TRIES = math.tointeger(tonumber(os.getenv "HOSTILE" or cases(24, 250)))
local SEED = math.tointeger(tonumber(os.getenv "HOSTILE_SEED" or 1))
local MOST_STEPS = 200000000 -- of Lua, for one call

local function generator(seed)
  local state = seed
  return function(n) -- from 1 to n
    state = state * 6364136223846793005 + 1442695040888963407 -- Knuth's, modulo 2^64
    return (state >> 33) % n + 1
  end
end

local function raise() error("a hostile metatable", 0) end
local HOSTILE_META = {
  __index = raise, __newindex = raise, __pairs = raise, __len = raise, __tostring = raise, __eq = raise, __lt = raise,
  __le = raise, __concat = raise, __call = raise, __add = raise, __mul = raise, __div = raise, __name = "hostile\0",
}

local function cyclic()
  local t = { name = "x" }
  t.self, t[1], t.network, t.accelerator = t, t, t, t
  return t
end

local function deep()
  local t = {}
  for _ = 1, 10000 do t = { t } end
  return t
end

local values = {
  function() return 0 / 0 end, function() return 1 / 0 end, function() return -1 / 0 end, function() return 0 end,
  function() return -1 end, function() return 0.5 end, function() return 2 ^ 53 end, function() return 2 ^ 63 end,
  function() return math.mininteger end, function() return math.maxinteger end, function() return 1e308 end,
  function() return 5e-324 end, function() return (1 << 31) - 1 end, function() return 1 << 31 end,
  function() return -0.0 end, function() return "" end, function() return "x" end, function() return "a\0b" end,
  function() return ("long"):rep(10000) end, function() return "1e999 GB/s" end, function() return "\27[31m\n\xff" end,
  function() return "7" end, function() return true end, function() return false end, function() return {} end,
  function() return { 1, 2, 4 } end, function() return { 0 / 0 } end, function() return { nil, 2 } end,
  function() return { [0 / 1] = 1 } end, cyclic, deep, function() return setmetatable({}, HOSTILE_META) end,
  function() return setmetatable({ 1, 2 }, HOSTILE_META) end, function() return function() end end,
  function() return raise end, function() return coroutine.create(raise) end, function() return io.stdout end,
  function() return tperf end, function() return _G end, function() return "all" end, function() return "any" end,
  function() return "none" end, function() return "summa" end, function() return "tensor" end,
  function() return "gpt2" end, function() return "h100-sxm" end, function() return "../../etc/passwd" end,
  function() return "1 GB" end, function() return "." end, function() return "/dev/full" end,
  function(random) return random(9) end, function(random) return random(9) end, function(random) return random(9) end,
  function(random) return random(1 << 20) end, function(random) return { random(8), random(8) } end,
  function() return tperf.vary { 1, 2 } end, function() return tperf.vary { cyclic() } end,
  function() return tperf.system "h100-sxm" end, function() return tperf.model "gpt2" end,
}

local keys = { "x", "tp", 1, -1, 0.5, true, "fast", "system", "name", "a\0b", ("k"):rep(1000) }

local function copy(value)
  if type(value) ~= "table" or getmetatable(value) then return value end
  local same = {}
  for key, item in pairs(value) do same[key] = copy(item) end
  return same
end

local LIVE = { [_G] = true, [tperf] = true } -- not to be spoilt themselves

-- Some table within the arguments, and a key that it has, always in the same order.
local function place(value, random)
  local names = {}
  for key in pairs(value) do names[#names + 1] = key end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  local key = names[random(math.max(1, #names))]
  local inner = value[key]
  local open = type(inner) == "table" and not LIVE[inner] and not getmetatable(inner) and next(inner) ~= nil
  if open and random(4) > 1 then return place(inner, random) end
  return value, key
end

-- The same arguments with one to three mistakes.
local function spoil(arguments, random)
  local spoilt = copy(arguments)
  for _ = 1, random(3) do
    local at, key = place(spoilt, random)
    local kind = random(12)
    if LIVE[at] or getmetatable(at) or key == nil then return spoilt end
    if kind == 1 then
      at[key] = nil
    elseif kind == 2 then
      at[keys[random(#keys)]] = values[random(#values)](random)
    else
      at[key] = values[random(#values)](random)
    end
    if rawequal(at[key], spoilt) or random(2) == 1 then return spoilt end
  end
  return spoilt
end

-- The path of a number in a result that is not finite, if there is one.
local function infinite(value, path, seen)
  if math.type(value) == "float" and value - value ~= 0 then return path end
  if type(value) ~= "table" or seen[value] or getmetatable(value) then return nil end
  seen[value] = true
  for key, item in next, value do
    local found = infinite(item, path .. "." .. tostring(key), seen)
    if found then return found end
  end
end

-- Arguments as text, for messages.
local function show(value, depth)
  depth = depth or 0
  if type(value) == "string" then return ("%q"):format(value:sub(1, 40)) end
  if type(value) == "number" or type(value) == "boolean" then return tostring(value) end
  if type(value) ~= "table" or getmetatable(value) or depth > 4 then return "a " .. type(value) end
  local parts = {}
  for key, item in next, value do
    if #parts < 20 then parts[#parts + 1] = ("[%s] = %s"):format(show(key, 5), show(item, depth + 1)) end
  end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

local HERE = debug.getinfo(1, "S").short_src
local CALL = debug.getinfo(1, "l").currentline + 2

local function call(f, given) local result = f(given) return result end

local function try(name, f, given)
  local ok, answer
  steps.count(function() ok, answer = pcall(call, f, given) end, MOST_STEPS)
  local function demand(held, words, ...)
    if not held then error(("%s %s\n%s"):format(name, show(given), words:format(...)), 0) end
  end
  if ok then
    local path = infinite(answer, "result", {})
    demand(not path, "%s is not finite", path)
    return true
  end
  demand(type(answer) == "string", "raises no message")
  if answer == "a hostile metatable" then return false end
  local where = ("%s:%d: "):format(HERE, CALL)
  demand(answer:sub(1, #where) == where, "raises, not at the caller's line: %s", answer)
  demand(#answer < 2000 and not answer:find "[%z\1-\9\11-\31]", "raises %q", answer:sub(1, 3000))
  return false
end

local MODEL = { name = "small", layers = 4, hidden = 256, heads = 8, kv_heads = 4, ffn = 512, vocab = 1000, seq = 128 }
local EXPERTS = { name = "experts", layers = 4, hidden = 256, heads = 8, ffn = 512, vocab = 1000, seq = 128,
  experts = { count = 8, top_k = 2, ffn = 128 } }
local SYSTEM = {
  name = "box",
  accelerator = { tensor = { bf16 = "1000 TFLOP/s" }, vector = { bf16 = "100 TFLOP/s" },
    hbm = { bandwidth = "3 TB/s", capacity = "80 GB", efficiency = 0.9 }, launch = "5 us", compute_efficiency = 0.7 },
  network = {
    fast = { bandwidth = "450 GB/s", efficiency = 0.8, latency = "1 us", domain = 8 },
    slow = { bandwidth = "50 GB/s", efficiency = 0.8, latency = "3 us", nics_per_gpu = 1 },
  },
}

local questions = {
  { "model", tperf.model, MODEL },
  { "model", tperf.model, EXPERTS },
  { "system", tperf.system, SYSTEM },
  { "search", tperf.search, {
    model = MODEL, system = SYSTEM, gpus = 16, global_batch = 16, strategy = { "tensor", "summa" }, top = 3,
    schedule = { "1f1b", "interleaved_1f1b" }, zero = { 0, 1 }, recompute = { "none", "full" }, threads = 2,
    micro_batch = { 1, 2 }, fast = { dp = 1 }, optimizer = "adam", reserve = 0.1, seq = 64, attention = "flash",
    rules = "default", where = function() return true end, virtual_stages = { 2 },
  } },
  { "search", tperf.search, { model = EXPERTS, system = SYSTEM, gpus = { 8, 16 }, global_batch = 16, keep = "all",
    infeasible = true, ep = { 1, 2, 4 }, pp = { 1, 2 } } },
  { "train", tperf.train, { model = EXPERTS, system = SYSTEM, global_batch = 16, tp = 2, pp = 2, dp = 4, ep = 2,
    micro_batch = 1, simulate = { schedule = "1f1b" }, fast = { tp = 2, dp = 2, pp = 1 } } },
  { "layer", tperf.layer, { model = MODEL, system = SYSTEM, strategy = "summa", tp1 = 2, tp2 = 2, panels = 4,
    micro_batch = 2, fast = { tp1 = 2, tp2 = 2 }, rules = { base = "default" } } },
  { "collective", tperf.collective, { system = SYSTEM, kind = "all_reduce", bytes = "1 GB", gpus = 16, fast = 8 } },
  { "schedule", tperf.schedule, { schedule = "interleaved_1f1b", devices = 4, stages = 8, microbatches = 8,
    times = { forward = { 1, 2, 1, 1, 1, 1, 1, 1 }, backward = 2, backward_input = 1, backward_weight = 1 }, p2p = 0.1,
    memory = { forward = 1 }, memory_limit = 100, group_size = 4 } },
  { "sweep", tperf.sweep, { model = MODEL, system = SYSTEM, gpus = tperf.vary { 8, 16 }, global_batch = 16, tp = 2,
    ["system.network.fast.domain"] = tperf.vary { 4, 8 } } },
  { "search_inference", tperf.search_inference, { model = MODEL, system = SYSTEM, gpus = 4, tp = { 1, 2 }, pp = 1,
    batch = { 1, 4 }, prompt = 64, generate = 16, tpot = "20 ms", ttft = 0.5, objective = "tpot", top = 3 } },
  { "serve", tperf.serve, { step_time = { fixed = 1e-3, per_token = 1e-5 }, load = { rate = 5, cv = 2 }, count = 20,
    prompt = { uniform = { 10, 50 } }, output = { lognormal = { mean = 20, cv = 1 } },
    engine = { num_blocks = 50, max_num_seqs = 4, speculation = { method = "eagle", tokens = 2, acceptance = 0.5 } },
    prefix = { tokens = 32, groups = 2 }, slo = { ttft = 1 }, replicas = 2, router = "prefix", keep = "steps",
    threads = 2, seed = 3 } },
  { "serve", tperf.serve, { step_time = { fixed = 1 }, load = { concurrency = 2, think = 1 }, keep = "requests",
    requests = { { prompt = 5, output = 2, priority = 1 },
      { prompt = 9, output = 3, segments = { { 1, 4 }, { 2, 5 } } } }, engine = { policy = "priority" } } },
  { "infer", tperf.infer, { model = MODEL, system = SYSTEM, tp = 2, batch = 4, prompt = 64, generate = 16 } },
}

describe("hostile arguments", function()
  for number, question in ipairs(questions) do
    local name, f, good = question[1], question[2], question[3]
    if f then
      it(("of tperf.%s (%d) never crash, hang or go unexplained"):format(name, number), function()
        local random, answered = generator(SEED + number), 0
        for _ = 1, TRIES do
          if try("tperf." .. name, f, spoil(good, random)) then answered = answered + 1 end
        end
        for _, value in ipairs(values) do try("tperf." .. name, f, value(random)) end
        assert.truthy(answered < TRIES) -- some mistakes are refused
      end)
    end
  end

  it("start from valid arguments", function()
    for _, question in ipairs(questions) do
      if question[2] then assert.has_no.errors(function() question[2](copy(question[3])) end) end
    end
  end)
end)
