--- Random values, and tables with deceptive metamethods, for the fuzzers of the Lua API. The same seed gives the same
-- values.
local values = {}

local state = 1

function values.seed(seed)
  state = seed * 2654435761 % 4294967296 + 1
  for _ = 1, 4 do values.random(2) end
end

--- An integer from 1 to n.
function values.random(n)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % n + 1
end
local random = values.random

function values.pick(list) return list[random(#list)] end
local pick = values.pick

-- Field names that the library reads, for hostile values.
values.names = { "name", "tp", "pp", "gpus", "model", "system", "layers", "count", "dtype", "ops", "forward", "time" }

local numbers = { 0, 1, 2, 3, 7, 8, 64, 1000, -1, 0.5, 1.5, -0.0, 0 / 0, 1 / 0, -1 / 0, 1e300, 1e-320, 1 << 31, 1 << 53,
  math.maxinteger, math.mininteger, 2 ^ 31, 2 ^ 53, 2 ^ 63 }
local texts = { "", "x", "tp", "dp", "bf16", "fp8", "1f1b", "all", "none", "full", "default", "gpt2", "80 GB", "-1",
  "\0", "%s%n", ("y"):rep(100), ("z"):rep(100000), "\xff\xfe" }

-- A list with holes at the positions that Lua's length operator probes, so its length is arbitrary. Built by a
-- constructor, as assigning the elements one by one would move them into the array part.
local function lying_list()
  local text = {}
  for power = 1, 20 + random(41) do text[#text + 1] = ("[%d] = v"):format(1 << power) end
  return load("local v = ... return { v, " .. table.concat(text, ", ") .. " }")(pick(numbers))
end

local function cycle()
  local a = {}
  a.self, a[1], a.name = a, { a }, "a"
  return a
end

-- A table that returns a new value for every access.
local function restless(depth)
  local asked = 0
  local function answer()
    asked = asked + 1
    if asked > 2000 then return nil end
    return values.hostile(depth - 1)
  end
  local meta = { __index = answer, __newindex = function() end }
  if random(3) == 1 then meta.__len = answer end
  if random(3) == 1 then meta.__call = answer end
  if random(3) == 1 then meta.__tostring = answer end
  if random(4) == 1 then meta.__pairs = function() return answer, {}, nil end end
  if random(4) == 1 then meta.__eq, meta.__lt, meta.__le = answer, answer, answer end
  if random(6) == 1 then meta.__metatable = answer() end
  if random(6) == 1 then meta.__index = rawget end
  if random(6) == 1 then meta.__index, meta.__len = table.concat, string.rep end
  return setmetatable(random(2) == 1 and {} or { 1, 2, values.hostile(depth - 1) }, meta)
end

local function callback(depth)
  local kind, calls = random(4), 0
  return function(...)
    calls = calls + 1
    if kind == 1 and calls > random(5) then error(values.hostile(0)) end
    if kind == 2 and select("#", ...) > 0 then return (select(random(select("#", ...)), ...)) end
    if calls > 500 then return nil end
    return values.hostile(depth - 1), values.hostile(depth - 1)
  end
end

values.objects = {} -- functions that make the library's own objects

--- A random value; tables are nested at most `depth` deep.
function values.hostile(depth)
  local kind = random(depth > 0 and 14 or 7)
  if kind <= 3 then return pick(numbers) end
  if kind <= 5 then return pick(texts) end
  if kind == 6 then return random(2) == 1 end
  if kind == 7 then return nil end
  if kind == 8 then return {} end
  if kind == 9 then return lying_list() end
  if kind == 10 then return cycle() end
  if kind == 11 then return restless(depth) end
  if kind == 12 then return callback(depth) end
  if kind == 13 and #values.objects > 0 then
    local made, object = pcall(pick(values.objects))
    return made and object or nil
  end
  local list = {}
  for i = 1, random(5) do list[random(3) == 1 and pick(values.names) or i] = values.hostile(depth - 1) end
  return list
end

local function is_plain(value) return type(value) == "table" and getmetatable(value) == nil end

--- A copy of plain tables; other values are shared.
function values.copy(value, depth)
  if not is_plain(value) or depth == 0 then return value end
  local copy = {}
  for key, one in next, value do copy[key] = values.copy(one, depth - 1) end
  return copy
end

-- All plain tables within a value, in an order decided by the seed.
local function tables_in(value, list, depth)
  if not is_plain(value) or depth == 0 then return list end
  list[#list + 1] = value
  for _, key in ipairs(values.keys(value)) do tables_in(rawget(value, key), list, depth - 1) end
  return list
end

function values.keys(t)
  local keys = {}
  for key in next, t do
    if type(key) == "string" or math.type(key) == "integer" then keys[#keys + 1] = key end
  end
  table.sort(keys, function(a, b)
    if type(a) ~= type(b) then return type(a) == "number" end
    return a < b
  end)
  return keys
end

-- The same content behind metamethods that change it between two reads.
local function unsteady(t)
  local content, asked, kind = {}, 0, random(4)
  for key, value in next, t do content[key] = value end
  local function change(self)
    asked = asked + 1
    if kind == 1 then rawset(self, #self + 1, values.hostile(1)) end
    if kind == 2 then for _, key in ipairs(values.keys(self)) do rawset(self, key, nil) end end
    if kind == 3 and asked < 10 then
      local n = rawlen(self)
      for i = 1, 300 do rawset(self, n + i, rawget(self, 1)) end
    end
  end
  if kind == 4 then for _, key in ipairs(values.keys(t)) do t[key] = nil end end
  return setmetatable(t, {
    __index = function(self, key)
      change(self)
      if content[key] == nil and random(2) == 1 then return pick(texts) end
      return content[key]
    end,
    __newindex = function(self) change(self) end,
    __len = random(2) == 1 and function(self)
      change(self)
      return random(10)
    end or nil,
  })
end

--- Possibly corrupts a list that a callback is about to return.
function values.spoil(list)
  local kind = random(4)
  if kind == 1 then return unsteady(list) end
  if kind == 2 then values.mutate { list } end
  return list
end

-- Another value of the same type, if there is one.
local function alike(value)
  if type(value) == "number" then
    local kind = random(4)
    if kind == 1 then return pick(numbers) end
    if kind == 2 then return value + 1 end
    if kind == 3 then return value * 2 end
    return value == value and value // 2 or 0
  end
  if type(value) == "string" then return pick(texts) end
  if type(value) == "boolean" then return not value end
  return values.hostile(3)
end

--- Changes something in a list of arguments.
function values.mutate(arguments)
  local tables = tables_in(arguments, {}, 6)
  local where = pick(tables)
  local keys = values.keys(where)
  local kind = random(6)
  if kind == 1 and where ~= arguments then
    unsteady(where)
  elseif kind == 2 or #keys == 0 then
    where[random(2) == 1 and pick(values.names) or random(4)] = values.hostile(3)
  else
    local key = pick(keys)
    where[key] = random(2) == 1 and alike(where[key]) or values.hostile(3)
  end
end

--- Returns a function that changes a table within the arguments on every call.
function values.vandal(arguments)
  local tables = tables_in(arguments, {}, 6)
  return function(...)
    local where = pick(tables)
    local keys = values.keys(where)
    if #keys > 0 and where ~= arguments then rawset(where, pick(keys), values.hostile(2)) end
    return ...
  end
end

return values
