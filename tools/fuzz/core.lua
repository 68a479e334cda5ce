--- One case of the fuzzer of the bindings: `tperf run --trust tools/fuzz/core.lua SEED COUNT [CALLS]` records the
--- arguments that the library passes to the core in valid calls, corrupts them and calls the core; finalizers change
--- tables meanwhile.
package.path = "tools/fuzz/?.lua"
local values = require "values"
local calls = require(arg[3] or "calls")
local core = require "tperf.core"

local seed, count = math.tointeger(arg[1]), math.tointeger(arg[2])
local records, watched = {}, {}

local MOST <const> = 40 -- recorded calls per function

local function watch(owner, name, label)
  local original = owner[name]
  if type(original) ~= "function" or watched[original] then return end
  local seen = {}
  records[#records + 1] = { label = label, call = original, seen = seen }
  local function wrapper(...)
    if #seen < MOST then seen[#seen + 1] = values.copy(table.pack(...), 8) end
    return original(...)
  end
  watched[wrapper], owner[name] = true, wrapper
end

local function watch_methods(object, label)
  local meta = debug.getmetatable(object)
  local methods = meta and rawget(meta, "__index")
  if type(methods) ~= "table" or watched[methods] then return end
  watched[methods] = true
  for _, name in ipairs(values.keys(methods)) do watch(methods, name, label .. ":" .. name) end
end

-- Wraps constructors so that the methods of their objects are recorded, too.
local function watch_made(owner, name, label)
  watch(owner, name, label)
  local wrapped = owner[name]
  owner[name] = function(...)
    local results = table.pack(wrapped(...))
    if type(results[1]) == "userdata" then watch_methods(results[1], label) end
    return table.unpack(results, 1, results.n)
  end
end

for _, name in ipairs { "network", "pipelines", "decode", "serve", "machine", "collective", "check_system" } do
  watch_made(core, name, name)
end
watch_made(core.search, "new", "search")
watch(core.resource, "same", "same")
watch(core.units, "parse", "units.parse")
watch(core.units, "format", "units.format")

-- A schedule's functions come as a table: calls some of them in random order to fill and read a schedule.
local function use_schedule(devices, stages, microbatches, costs, memory, rules)
  local s = core.schedule(devices, stages, microbatches)
  if not s then return end
  for stage = 1, math.min(stages, 4) do
    for m = 1, math.min(microbatches, 4) do
      s:forward(stage, stage, m)
      if values.random(2) == 1 then s:backward(stage, stage, m) else s:backward_input(stage, stage, m) end
    end
  end
  local names = values.keys(s)
  for _ = 1, 8 do
    local one = s[values.pick(names)]
    local first = values.random(3) == 1 and values.hostile(1) or s
    pcall(one, first, values.random(4), values.random(4), values.random(4), values.random(4), values.random(4))
    if values.random(3) == 1 then pcall(s.simulate, costs, memory, 1, rules) end
    local read = values.random(2) == 1 and s.at or s.find
    if values.random(3) == 1 then pcall(read, values.random(4) - 1, values.random(4), 1) end
  end
end

local by_pass = { forward = { 1, 1 }, backward = { 2, 2 }, backward_input = { 1, 1 }, backward_weight = { 1, 1 } }
records[#records + 1] = { label = "schedule", call = use_schedule, seen = { { n = 6, 2, 2, 4, by_pass, by_pass, {} } } }

for _, name in ipairs(values.keys(calls)) do
  local arguments, call = calls[name]()
  pcall(call, table.unpack(arguments, 1, 4))
end

for _, name in ipairs(values.keys(core.op)) do
  local fields = core.op.fields()[name]
  if fields then
    local given = {}
    for _, field in ipairs(fields) do
      if field.required then given[field.name] = field.kind == "text" and "tp" or 16 end
    end
    records[#records + 1] = { label = "op." .. name, call = core.op[name], seen = { { n = 1, given } } }
  end
end
for _, name in ipairs { "recompute", "communicate", "counts" } do
  local op = core.op.linear { tokens = 8, n_in = 8, n_out = 8 }
  records[#records + 1] = { label = "op:" .. name, call = op[name],
    seen = { { n = 6, op, "forward", "all_reduce", "tp", 100, true } } }
end

values.objects[1] = function() return core.op.norm { tokens = 1, width = 8 } end

-- Searches are closed at their end: each recorded method gets a new one.
local function new_search()
  for _, record in ipairs(records) do
    if record.label == "search" then return record.call(table.unpack(values.pick(record.seen), 1, 8)) end
  end
end

for number = 1, count do
  values.seed(seed * 100000 + number)
  local record = values.pick(records)
  local sound = #record.seen > 0 and values.pick(record.seen) or { n = 1, {} }
  local arguments = values.copy(sound, 8)
  if record.label:find "^search:" then arguments[1] = new_search() end
  for _ = 1, values.random(3) do values.mutate(arguments) end
  local vandal = values.vandal(arguments)
  for _ = 1, values.random(8) do setmetatable({}, { __gc = function() vandal() end }) end
  if values.random(4) == 1 then collectgarbage("setpause", 0) else collectgarbage("setpause", 200) end
  io.stderr:write(("case %d %d: %s\n"):format(seed, number, record.label))
  pcall(record.call, table.unpack(arguments, 1, math.max(sound.n or 0, 9)))
end
