--- What a script's functions capture: the values of local variables and of globals that blocks, groups of layers and
--- strategies read beside their arguments. They belong to the key of whatever is remembered of these functions, so that
--- a sweep over a captured variable asks anew.
local block = require "tperf.describe.block"
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local debug = debug
local getupvalue, getinfo, getmetatable = debug.getupvalue, debug.getinfo, debug.getmetatable

local loaded, standard = package.loaded, _G
local captured = {}

local DEEPEST <const>, MOST <const> = 8, 1 << 14 -- tables within tables; values in all

local FORMATS <const> = { integer = "%d", float = "%.17g" }

local function is_own(f)
  local info = getinfo(f, "S")
  return info.what ~= "C" and not check.is_library(info.source)
end

local walk

local function add(found, name, value, depth)
  local kind = type(value)
  local text = kind == "number" and FORMATS[math.type(value)]:format(value)
    or (kind == "string" or kind == "boolean") and ("%q"):format(value)
  if not text then return walk(found, name, value, depth) end
  found.n = found.n + 1
  found.words[#found.words + 1] = name .. "=" .. text
end

local function by_text(a, b) return tostring(a) < tostring(b) end

-- The fields of a table that holds data alone; of any other, which one it is.
local function walk_table(found, name, value, depth)
  value = frozen.plain(value)
  if getmetatable(value) and not block.is(value) and depth > 0 or found.library[value] then
    found.words[#found.words + 1] = ("%s=%p"):format(name, value)
    found.kept[#found.kept + 1] = value
    return
  end
  local keys = {}
  for key in next, value do keys[#keys + 1] = key end
  table.sort(keys, by_text)
  for _, key in ipairs(keys) do add(found, name .. "." .. tostring(key), rawget(value, key), depth + 1) end
end

-- The numbers, strings, booleans and functions among a script's globals.
local function walk_globals(found, globals)
  local names = {}
  for name, value in next, globals do
    if type(name) == "string" and type(value) ~= "table" then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do add(found, name, rawget(globals, name), 1) end
end

local function walk_closure(found, f, depth)
  for i = 1, 255 do
    local name, value = getupvalue(f, i)
    if not name then return end
    if name == "_ENV" and type(value) == "table" then
      if not found.seen[value] then walk_globals(found, value) end
      found.seen[value] = true
    else
      add(found, name, value, depth)
    end
  end
end

-- The library wraps a script's functions, so that they get views of objects.
local function walk_wrapped(found, f, depth)
  for i = 1, 255 do
    local name, value = getupvalue(f, i)
    if not name then return end
    if type(value) == "function" and is_own(value) then walk(found, name, value, depth) end
  end
end

function walk(found, name, value, depth)
  local kind = type(value)
  if kind ~= "table" and kind ~= "function" or found.seen[value] then return end
  found.seen[value] = true
  if depth > DEEPEST or found.n > MOST then return end
  if kind == "table" then
    walk_table(found, name, value, depth)
  elseif is_own(value) then
    walk_closure(found, value, depth)
  else
    walk_wrapped(found, value, depth)
  end
end

--- The values that the functions in a table capture, as text.
---@param root table  an architecture, a strategy
---@return string text, any[] kept  what text names by its address, to be kept alive with it
function captured.of(root)
  local found = { words = {}, n = 0, kept = {}, seen = {}, library = {} }
  for name, module in next, loaded do
    if type(module) == "table" and (standard[name] or name:find "^tperf%f[^%w_]") then found.library[module] = true end
  end
  walk(found, "", root, 0)
  return table.concat(found.words, "\n"), found.kept
end

--- The same of a strategy; "": of the library's.
---@return string
function captured.of_strategy(s) return s.built_in and "" or (captured.of(s)) end

local VARIANTS <const> = 64 -- of one model, kept

-- Model -> the copies of it for what its architecture's functions captured; copy -> true.
local variants, copies = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })

--- Whether a model stands for another, with what its architecture's functions captured.
function captured.is_variant(model) return copies[model] ~= nil end

--- The model that stands for another as long as its architecture's functions capture what they do now: whatever is
--- remembered of a model is remembered of this one.
---@param model table
---@param keep fun(copy: table)  notes a copy as checked
---@return table model
function captured.variant(model, keep)
  local own = rawget(model, "architecture")
  if not own or copies[model] then return model end
  local known = variants[model] or { count = 0 }
  variants[model] = known
  local text, kept = captured.of(own)
  local one = known[text]
  if one then return one.model end
  if known.count >= VARIANTS then
    known = { count = 0 }
    variants[model] = known
  end
  local copy = setmetatable({}, getmetatable(model))
  for field, value in next, model do copy[field] = value end
  keep(copy)
  known[text], known.count, copies[copy] = { model = copy, kept = kept }, known.count + 1, true
  return copy
end

return captured
