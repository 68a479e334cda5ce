--- Reads a Python recipe without running it: the assignments of a function (`cfg.model.tensor_model_parallel_size = 8`)
--- and keyword arguments (`TrainConfig(global_batch_size=512)`), with the file's constants substituted.
-- Texts are foreign: no pattern here has two repeats side by side that match the same characters, or it would try all
-- ways to divide a long word between them.
local check = require "tperf.base.check"
local trim = require "tperf.input.text".trim

local python = {}

local MOST_LEVELS <const>, MOST_CALLS <const> = 60, 200 -- of brackets in a value; of functions of a file

-- Splits a text into logical lines { text, line, indent }, with comments blanked and strings kept.
local function logical_lines(s)
  local list, part, start, line, depth, i = {}, {}, 1, 1, 0, 1
  while i <= #s do
    local c = s:sub(i, i)
    local long = s:match('^"""', i) or s:match("^'''", i)
    if long then
      local stop = s:find(long, i + 3, true) or #s
      local inside = s:sub(i, stop + 2)
      part[#part + 1] = '""'
      line = line + select(2, inside:gsub("\n", ""))
      i = stop + 3
    elseif c == '"' or c == "'" then
      local stop = i + 1
      while stop <= #s and s:sub(stop, stop) ~= c and s:sub(stop, stop) ~= "\n" do
        stop = stop + (s:sub(stop, stop) == "\\" and 2 or 1)
      end
      part[#part + 1] = s:sub(i, stop)
      i = stop + 1
    elseif c == "#" then
      i = s:find("\n", i, true) or #s + 1
    elseif c == "\n" or c == "\\" and s:sub(i + 1, i + 1) == "\n" then
      if c == "\\" then i = i + 1 end
      line = line + 1
      if depth > 0 or c == "\\" then
        part[#part + 1] = " "
      else
        local text = table.concat(part)
        if text:find "%S" then list[#list + 1] = { text = text, line = start, indent = #text:match "^%s*" } end
        part, start = {}, line
      end
      i = i + 1
    else
      if c:find "[%(%[{]" then depth = depth + 1 elseif c:find "[%)%]}]" then depth = math.max(0, depth - 1) end
      part[#part + 1] = c
      i = i + 1
    end
  end
  local text = table.concat(part)
  if text:find "%S" then list[#list + 1] = { text = text, line = start, indent = #text:match "^%s*" } end
  return list
end

-- Splits at commas outside brackets and strings.
local function arguments_of(text)
  local list, depth, from, quote = {}, 0, 1, nil
  for i = 1, #text do
    local c = text:sub(i, i)
    if quote then
      if c == quote then quote = nil end
    elseif c == '"' or c == "'" then
      quote = c
    elseif c:find "[%(%[{]" then
      depth = depth + 1
    elseif c:find "[%)%]}]" then
      depth = depth - 1
    elseif c == "," and depth == 0 then
      list[#list + 1] = text:sub(from, i - 1)
      from = i + 1
    end
  end
  if text:sub(from):find "%S" then list[#list + 1] = text:sub(from) end
  return list
end

local function literal(text, constants, level)
  text, level = trim(text), (level or 0) + 1
  if level > MOST_LEVELS then return nil end
  if text == "True" then return true elseif text == "False" then return false end
  if text == "None" then return "None" end
  local quoted = text:match '^[rf]?"([^"]*)"$' or text:match "^[rf]?'([^']*)'$"
  if quoted then return quoted end
  local number = text:gsub("(%d)_(%d)", "%1%2"):gsub("(%d)_(%d)", "%1%2")
  if tonumber(number) then return math.tointeger(tonumber(number)) or tonumber(number) end
  local dtype = text:match "^torch%.(%w+)$"
  if dtype then return ({ bfloat16 = "bf16", float32 = "fp32", float16 = "fp16" })[dtype] or dtype end
  if text:find "^%[.*%]$" then
    local list = {}
    for i, one in ipairs(arguments_of(text:sub(2, -2))) do list[i] = tostring(literal(one, constants, level)) end
    return list
  end
  if constants[text] ~= nil then return constants[text] end
  local product = {}
  for factor in (number .. "*"):gmatch "([^*]*)%*" do product[#product + 1] = trim(factor) end
  if #product > 1 then
    local value = 1
    for _, factor in ipairs(product) do
      local one = tonumber(factor) or tonumber(constants[factor])
      if not one then return nil end
      value = value * one
    end
    return math.tointeger(value) or value
  end
  return nil
end

-- Reads the keyword arguments of a call, also of nested calls: train=TrainConfig(global_batch_size=8).
local function read_call(text, path, constants, put, level)
  level = (level or 0) + 1
  local inside = level <= MOST_LEVELS and text:match "^%s*[%w_.]+%s*(%b())%s*$"
  if not inside then return false end
  for _, one in ipairs(arguments_of(inside:sub(2, -2))) do
    local name, value = trim(one):match "^([%a_][%w_]*)%s*=([^=].*)$"
    if name then
      local inner = path ~= "" and path .. "." .. name or name
      if not read_call(value, inner, constants, put, level) then
        local known = literal(value, constants)
        if known ~= nil then put(inner, known) end
      end
    end
  end
  return true
end

-- The lines of a function (all lines if name is nil), and the names of all functions.
local function body_of(lines, name)
  local list, inside, found = {}, nil, {}
  for _, one in ipairs(lines) do
    local defined = one.text:match "^%s*def%s+([%w_]+)"
    if inside and one.indent <= inside then inside = nil end
    if defined then
      found[#found + 1] = defined
      if defined == name then inside = one.indent end
    elseif inside or not name then
      list[#list + 1] = one
    end
  end
  return list, found
end

--- The names of the functions that a Python text defines, in order.
function python.functions(s)
  return select(2, body_of(logical_lines(s), nil))
end

-- The name and the value of a constant's definition: NAME = VALUE or NAME: TYPE = VALUE.
local function constant_of(text)
  local name, at = text:match "^([%a_][%w_]*)()"
  local note, value = text:match("^([^=]*)=([^=].*)$", at)
  if not note or not trim(note):find "^:?%s*[%w_%[%]]*$" then return nil end
  return name, value
end

local function read_function(lines, name, put, depth, done)
  local constants, functions = {}, {}
  done.calls = done.calls + 1
  if done.calls > MOST_CALLS then check.fail("more than %d calls of the file's functions", MOST_CALLS) end
  for _, one in ipairs(lines) do
    local constant, value = constant_of(one.text)
    if constant then constants[constant] = literal(value, constants) end
    local defined = one.text:match "^%s*def%s+([%w_]+)"
    if defined then functions[defined] = true end
  end
  for _, one in ipairs((body_of(lines, name))) do
    local function record(path, value) put(path, value, one.line) end
    local target, value = one.text:match "^%s*([%a_][%w_.]*)%s*=%s*([^=].*)$"
    local called = trim(value or one.text):gsub("^return%s+", ""):match "^([%a_][%w_]*)%s*%("
    if name and called and functions[called] and called ~= name and depth < 8 then
      read_function(lines, called, put, depth + 1, done)
    end
    if target then
      local field = target:match "^[%w_]+%.(.+)$" -- the first part is the variable that holds the recipe
      local known = literal(value, constants)
      if field and known ~= nil then
        record(field, known)
      elseif known ~= nil then
        constants[target] = known
        record(target, known)
      else
        read_call(value, field or "", constants, record)
      end
    elseif one.text:find "^%s*return%s" then
      read_call(one.text:gsub("^%s*return%s+", ""), "", constants, record)
    end
  end
end

--- Reads the assignments of a function. A call of another function of the file is replaced by that function's lines.
---@param s string
---@param name string?  the function; nil for all lines
---@param put fun(path: string, value: any, line: integer)
function python.read(s, name, put) read_function(logical_lines(s), name, put, 0, { calls = 0 }) end

return python
