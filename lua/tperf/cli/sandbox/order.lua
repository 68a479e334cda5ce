--- pairs and next in a fixed order. Lua's own order changes from run to run, and with it a script's output. Numbers
-- come first, then strings, false, true, and the rest unordered.
local lazy = require "tperf.base.lazy"

local order = {}

local next, rawget, type = next, rawget, type
local getmetatable = debug.getmetatable -- ignores __metatable

local RANK = { number = 1, string = 2, boolean = 3 }

local function before(a, b)
  local x, y = RANK[type(a)] or 4, RANK[type(b)] or 4
  if x ~= y then return x < y end
  if x < 3 then return a < b end
  return x == 3 and b and not a
end

-- The keys of a table in order, and their number.
local function keys_of(t)
  local keys, n, in_order = {}, 0, true
  for key in next, t do
    n = n + 1
    keys[n] = key
    in_order = in_order and key == n
  end
  if not in_order then table.sort(keys, before) end
  return keys, n
end

--- Like Lua's pairs.
function order.pairs(t, ...)
  local own = lazy.settle(t)
  local meta = getmetatable(own)
  if type(t) ~= "table" or meta and rawget(meta, "__pairs") and not rawget(meta, lazy.SETTLE) then
    return pairs(t, ...)
  end
  local keys, n = keys_of(own)
  local i = 0
  return function()
    while i < n do
      i = i + 1
      local value = rawget(own, keys[i])
      if value ~= nil then return keys[i], own == t and value or t[keys[i]] end
    end
  end, t, nil
end

local function first_of(t)
  local first = next(t)
  for key in next, t do
    if before(key, first) then first = key end
  end
  return first
end

-- The position of key among the keys, or where it would be; nil for a missing key of a type without order.
local function place_of(keys, key)
  local low, high = 1, #keys
  while low <= high do
    local middle = (low + high) // 2
    if before(keys[middle], key) then low = middle + 1 else high = middle - 1 end
  end
  if RANK[type(key)] then return low end
  while keys[low] ~= nil and keys[low] ~= key do low = low + 1 end
  return keys[low] ~= nil and low or nil
end

local walks = setmetatable({}, { __mode = "k" }) -- table -> { keys, at }: the walk in progress

-- The index of key in the walk in progress; starts a walk if there is none.
local function continue_walk(t, key)
  local walk = walks[t]
  if walk and walk.keys[walk.at] == key then return walk end
  walk = { keys = keys_of(t) }
  walk.at = place_of(walk.keys, key)
  if not walk.at then error("bad argument #2 to 'next' (no such key)", 3) end
  if walk.keys[walk.at] ~= key then walk.at = walk.at - 1 end -- removed during the walk: its successor moved up
  walks[t] = walk
  return walk
end

--- Like Lua's next. A walk visits the keys that existed at its second step.
function order.next(t, key)
  if type(t) ~= "table" then error(("bad argument #1 to 'next' (table expected, got %s)"):format(type(t)), 2) end
  local own = lazy.settle(t) -- of a view of an object: that object
  if key == nil then
    walks[own] = nil
    local first = first_of(own)
    if first == nil then return nil end
    return first, own == t and rawget(t, first) or t[first]
  end
  local walk = continue_walk(own, key)
  local keys, at = walk.keys, walk.at
  repeat
    at = at + 1
    walk.at = at
    if keys[at] == nil then
      walks[own] = nil
      return nil
    end
  until rawget(own, keys[at]) ~= nil
  return keys[at], own == t and rawget(t, keys[at]) or t[keys[at]]
end

return order
