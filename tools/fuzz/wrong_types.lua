--- Replaces every part of the arguments of a function by values of every type, and makes holes in every list; tells
--- errors of the library from those of the Lua interpreter. For spec/wrong_types_spec.lua and the fuzzers.
local values = require "values"
local tperf = require "tperf"

local types = {}

local OP <const> = tperf.op.norm { tokens = 1, width = 8 }

-- Texts that only the Lua interpreter writes, or that name the library's own files.
local RAW <const> = { "attempt to ", "bad argument", "stack overflow", "stack traceback", "tperf/%w+/%w+.*%.lua:%d",
  "^%[string", "invalid option", "number has no integer", "invalid value %(at index", "wrong number of arguments",
  "C stack", "cannot convert", "invalid key to 'next'", "'for' ", "no value%)", "string length", "invalid order func",
  "cannot change", "expected, got", "out of range" }

--- Why the error of a call is no message of the library; nil: it is one.
---@param message any  what was raised
---@param file string  the caller's
---@return string? why
function types.fault(message, file)
  if type(message) ~= "string" then return "no text" end
  if message:find "^tools/fuzz/[%w_]+%.lua:%d+: attempt to " then return nil end -- of the calls themselves
  for _, text in ipairs(RAW) do
    if message:find(text) then return text end
  end
  if not message:find(file .. ":%d+: ") then return "not at the caller's line" end
  if #message > 2000 then return #message .. " bytes" end
end

local WRONG <const> = {
  function() return nil end, function() return true end, function() return false end, function() return 5 end,
  function() return -1 end, function() return 0 end, function() return 1.5 end, function() return 0 / 0 end,
  function() return 1 / 0 end, function() return math.mininteger end, function() return "x" end,
  function() return "" end, function() return {} end, function() return { 1 } end, function() return { "x" } end,
  function() return { x = 1 } end, function() return { {} } end, function() return { { 1, 2 }, { "x" } } end,
  function() return { true } end, function() return type end, function() return OP end,
  function() return coroutine.create(type) end, function() return function() end end,
  function() return function() return {} end end, function() return function() error("mine", 0) end end,
  function()
    local asked = 0
    return setmetatable({}, { __index = function()
      asked = asked + 1
      return asked < 500 and {} or nil
    end })
  end,
}

-- A copy of arguments, in which the table at a path is passed to change(table, key).
local function changed(arguments, path, change)
  local copy = values.copy(arguments, 8)
  local at = copy
  for i = 1, #path - 1 do at = at[path[i]] end
  change(at, path[#path])
  return copy
end

local function is_plain(value) return type(value) == "table" and getmetatable(value) == nil end

-- Calls visit(path) for every part of plain tables.
local function walk(value, path, visit)
  for _, key in ipairs(values.keys(value)) do
    local inner = { table.unpack(path) }
    inner[#inner + 1] = key
    if math.type(key) == "integer" and key > 3 then return end -- lists are alike further on
    visit(inner, value[key])
    if is_plain(value[key]) and #inner < 7 then walk(value[key], inner, visit) end
  end
end

--- Calls try(arguments, path, what) with each mistake. Lists with holes are called "hole at N".
---@param arguments any[]
---@param try fun(arguments: any[], path: any[], what: string)
function types.each(arguments, try)
  walk(arguments, {}, function(path, value)
    for i, wrong in ipairs(WRONG) do
      try(changed(arguments, path, function(at, key) at[key] = wrong() end), path, "value " .. i)
    end
    if not is_plain(value) or value[1] == nil then return end
    local n = #value
    local function holed(list) -- `list` replaces the value
      for key, one in next, value do
        if math.type(key) ~= "integer" then list[key] = one end
      end
      try(changed(arguments, path, function(at, key) at[key] = list end), path, "hole")
    end
    local apart = { table.unpack(value) }
    apart[n + 2] = value[n]
    holed(apart)
    holed { value[1], nil, value[n] }
    holed { value[1], value[n], nil, value[n] }
    holed { nil, value[n] }
    local far = { table.unpack(value) }
    far[1 << 40] = value[n]
    holed(far)
  end)
end

function types.show(path)
  local texts = {}
  for i, key in ipairs(path) do texts[i] = tostring(key) end
  return table.concat(texts, ".")
end

return types
