--- Plain values as bytes and back, exactly: integers stay integers, floats keep every bit, and tables are written in
--- one order, so that equal values give equal bytes.
local codec = {}

local DEEPEST <const> = 32

local order = { number = 1, string = 2 }

local function sorted_keys(t)
  local keys = {}
  for key in next, t do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    local x, y = type(a), type(b)
    if x ~= y then return (order[x] or 3) < (order[y] or 3) end
    if not order[x] then return tostring(a) < tostring(b) end
    return a < b
  end)
  return keys
end

-- above: the tables that this value is within, as a set.
local function write(out, value, path, odd, depth, above)
  local kind = math.type(value) or type(value)
  if kind == "integer" then
    out[#out + 1] = string.pack("<c1i8", "i", value)
  elseif kind == "float" then
    out[#out + 1] = string.pack("<c1d", "d", value)
  elseif kind == "string" then
    out[#out + 1] = string.pack("<c1s4", "s", value)
  elseif kind == "boolean" then
    out[#out + 1] = value and "T" or "F"
  elseif kind == "nil" then
    out[#out + 1] = "N"
  elseif kind == "table" and depth < DEEPEST and not above[value] then
    above[value] = true
    local keys = sorted_keys(value)
    out[#out + 1] = string.pack("<c1I4", "t", #keys)
    for _, key in ipairs(keys) do
      write(out, key, path, odd, depth + 1, above)
      local below = path and (path == "" and "" or path .. ".") .. tostring(key)
      write(out, rawget(value, key), below, odd, depth + 1, above)
    end
    above[value] = nil
  else
    odd(out, value, path, kind)
  end
end

--- The bytes of a value of numbers, strings, booleans, nil and tables of them (metatables are not looked at); raises a
--- message that names the place of anything else.
---@return string
function codec.encode(value)
  local out = {}
  write(out, value, "", function(_, _, path, kind)
    error(("'%s' is a %s%s"):format(path, kind, kind == "table" and " that lies too deep, or within itself" or ""), 0)
  end, 0, {})
  return table.concat(out)
end

--- Like encode, for telling values apart within one run: tables with a metatable, functions and the like stand for
--- themselves.
---@return string
function codec.identity(value)
  local out, above = {}, {}
  local function odd(to, thing) to[#to + 1] = ("o%p"):format(thing) end
  local function each(item, depth)
    if type(item) ~= "table" then return write(out, item, nil, odd, depth, above) end
    if depth > 0 and (getmetatable(item) ~= nil or depth >= DEEPEST or above[item]) then return odd(out, item) end
    above[item] = true
    local keys = sorted_keys(item)
    out[#out + 1] = string.pack("<c1I4", "t", #keys)
    for _, key in ipairs(keys) do
      write(out, key, nil, odd, depth, above)
      each(rawget(item, key), depth + 1)
    end
    above[item] = nil
  end
  each(value, 0)
  return table.concat(out)
end

local function read(text, at, depth)
  local kind = text:sub(at, at)
  at = at + 1
  if kind == "i" then return string.unpack("<i8", text, at) end
  if kind == "d" then return string.unpack("<d", text, at) end
  if kind == "s" then return string.unpack("<s4", text, at) end
  if kind == "T" or kind == "F" then return kind == "T", at end
  if kind == "N" then return nil, at end
  if kind ~= "t" or depth > DEEPEST then error("not an encoded value", 0) end
  local count
  count, at = string.unpack("<I4", text, at)
  local t = {}
  for _ = 1, count do
    local key, value
    key, at = read(text, at, depth + 1)
    value, at = read(text, at, depth + 1)
    t[key] = value
  end
  return t, at
end

--- The value whose bytes encode gave. Raises when the bytes are no such thing.
---@param text string
function codec.decode(text)
  local value, at = read(text, 1, 0)
  if at ~= #text + 1 then error("not an encoded value", 0) end
  return value
end

return codec
