--- Splits Python into statements and says what each of them does, without running it.
-- Texts are foreign: no pattern here has two repeats side by side that match the same characters, or it would try all
-- ways to divide a long word between them.
local trim = require "tperf.input.text".trim

local statements = {}

local DEEPEST <const> = 8 -- of tuples within tuples

-- Splits a text into logical lines { text, line, indent }, with comments blanked and strings kept.
local function logical_lines(s)
  local list, part, start, line, depth, i = {}, {}, 1, 1, 0, 1
  local function finish()
    local text = table.concat(part)
    if text:find "%S" then list[#list + 1] = { text = text, line = start, indent = #text:match "^%s*" } end
    part, start = {}, line
  end
  while i <= #s do
    local c = s:sub(i, i)
    local long = s:match('^"""', i) or s:match("^'''", i)
    if long then
      local stop = s:find(long, i + 3, true) or #s
      part[#part + 1] = '""'
      line = line + select(2, s:sub(i, stop + 2):gsub("\n", ""))
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
      if depth > 0 or c == "\\" then part[#part + 1] = " " else finish() end
      i = i + 1
    else
      if c:find "[%(%[{]" then depth = depth + 1 elseif c:find "[%)%]}]" then depth = math.max(0, depth - 1) end
      part[#part + 1] = c
      i = i + 1
    end
  end
  finish()
  return list
end

-- Which bytes matter outside strings: brackets as a step of depth, quotes as the pattern of what ends a string.
local STEPS <const> = { ["("] = 1, ["["] = 1, ["{"] = 1, [")"] = -1, ["]"] = -1, ["}"] = -1 }
local ENDS <const> = { ['"'] = '[\\"]', ["'"] = "[\\']" }

-- Calls visit(i) for each `mark` outside strings and brackets, until it returns true.
local function outside(text, mark, visit)
  local pattern, depth = "[\"'%(%)%[%]{}" .. mark .. "]", 0
  local i = text:find(pattern)
  while i do
    local c = text:sub(i, i)
    if ENDS[c] then
      i = text:find(ENDS[c], i + 1)
      while i and text:sub(i, i) == "\\" do i = text:find(ENDS[c], i + 2) end
      if not i then return end
    elseif STEPS[c] then
      depth = depth + STEPS[c]
    elseif depth == 0 and visit(i) then
      return
    end
    i = text:find(pattern, i + 1)
  end
end

--- Splits at a mark outside brackets and strings; an empty last part is left out.
---@param text string
---@param mark string  "," or ";"
---@return string[]
function statements.split(text, mark)
  local list, from = {}, 1
  outside(text, mark, function(i)
    list[#list + 1] = text:sub(from, i - 1)
    from = i + 1
  end)
  if text:sub(from):find "%S" then list[#list + 1] = text:sub(from) end
  return list
end

--- A text with its strings emptied.
function statements.bare(text) return (text:gsub('"[^"]*"', '""'):gsub("'[^']*'", "''")) end

-- Words that open a block, and whether what is in it runs under a condition, or several times.
local BLOCKS <const> = { ["if"] = true, ["elif"] = true, ["else"] = true, ["for"] = true, ["while"] = true,
  ["try"] = true, ["except"] = true, ["finally"] = true, match = true, case = true, with = false, def = false,
  class = false, async = false }
local SOFT <const> = { match = true, case = true } -- names elsewhere

-- The block's word that opens a line, and its colon; nil: the line opens none.
local function header_of(text)
  local word = text:match "^%s*(%a+)%f[^%w_]"
  if BLOCKS[word] == nil or SOFT[word] and text:find "^%s*%a+%s*[=.(%[]" then return nil end
  local colon
  outside(text, ":", function(i)
    if text:sub(i + 1, i + 1) ~= "=" then colon = i end
    return colon ~= nil
  end)
  return colon and word, colon
end

--- The statements of a text: { text, line, indent, opens = the block's word of a header, doubt = it runs under a
--- condition or several times }. What follows a header in its line is a statement inside it.
---@param s string
---@return table[]
function statements.of(s)
  local list = {}
  for _, one in ipairs(logical_lines(s)) do
    local word, colon = header_of(one.text)
    local indent, rest = one.indent, one.text
    if word then
      list[#list + 1] = { text = one.text:sub(1, colon), line = one.line, indent = indent, opens = word }
      indent, rest = indent + 1, one.text:sub(colon + 1)
    end
    for _, part in ipairs(statements.split(rest, ";")) do
      if part:find "%S" then list[#list + 1] = { text = part, line = one.line, indent = indent } end
    end
  end
  return list
end

--- Marks the statements of a body that run under a condition or several times.
function statements.mark(list)
  local blocks = {}
  for _, one in ipairs(list) do
    while blocks[1] and one.indent <= blocks[#blocks] do table.remove(blocks) end
    one.doubt = #blocks > 0
    if one.opens and BLOCKS[one.opens] then blocks[#blocks + 1] = one.indent end
  end
end

-- A name with the names below it, cfg.model["x"].y: the first one, the others, and where they end.
local function path_of(text)
  local variable, at = text:match "^([%a_][%w_]*)()"
  local names = {}
  while variable do
    local name, stop = text:match("^%s*%.%s*([%a_][%w_]*)()", at)
    if not name then name, stop = text:match([=[^%s*%[%s*["']([%a_][%w_]*)["']%s*%]()]=], at) end
    if not name then break end
    names[#names + 1], at = name, stop
  end
  return variable, names, at
end

--- What is assigned to: { variable, field = the dotted names below it } for a name; with part = true for an element of
--- it; { several = targets } for a tuple; { other = text } for all else.
---@param text string
---@param level integer?
function statements.target(text, level)
  level = (level or 0) + 1
  text = trim(text)
  local parts = statements.split(text, ",")
  local inside = #parts == 1 and (text:match "^%((.*)%)$" or text:match "^%[(.*)%]$")
  if (#parts > 1 or inside) and level < DEEPEST then
    local several = {}
    for i, one in ipairs(inside and statements.split(inside, ",") or parts) do
      several[i] = statements.target(one, level)
    end
    return { several = several, other = text }
  end
  local variable, names, at = path_of(text)
  local rest = variable and trim(text:sub(at))
  local field = variable and names[1] and table.concat(names, ".")
  if rest == "" then return { variable = variable, field = field } end
  if variable and rest:find "^%b[]$" then return { variable = variable, field = field, part = true, other = text } end
  return { other = text }
end

-- Where a text is divided by assignments, and whether the last of them changes what is there (+=).
local function equals(text)
  local list, changes = {}, false
  outside(text, "=", function(i)
    local before, after = text:sub(i - 1, i - 1), text:sub(i + 1, i + 1)
    local shift = text:sub(i - 2, i - 1)
    if after == "=" or before == "=" or before == "!" or before == ":" then return end
    if before:find "[<>]" and shift ~= "<<" and shift ~= ">>" then return end
    local operator = before:find "[-+*/%%|&^@<>]" ~= nil
    local width = operator and (shift:find "^([*/<>])%1$" and 2 or 1) or 0
    list[#list + 1], changes = { i - width, i + 1 }, changes or operator
  end)
  return list, changes
end

-- Leaves out the type in "name: type".
local function without_type(text)
  local colon
  outside(text, ":", function(i)
    colon = i
    return true
  end)
  return colon and text:sub(1, colon - 1) or text
end

--- What a statement does: { targets, value, changes } for an assignment; { returns = true, value }; { deletes =
--- targets }; { called = name, value } for a call; {} for all else.
---@param text string
function statements.parse(text)
  text = trim(text)
  local word = text:match "^(%a+)%f[^%w_]"
  if word == "return" then return { returns = true, value = trim(text:sub(7)) } end
  if word == "del" then
    local target = statements.target(text:sub(4))
    return { deletes = target.several or { target } }
  end
  local marks, changes = equals(text)
  if marks[1] and word ~= "assert" and word ~= "lambda" then
    local targets, from = {}, 1
    for i, mark in ipairs(marks) do
      local part = text:sub(from, mark[1] - 1)
      targets[i], from = statements.target(#marks == 1 and without_type(part) or part), mark[2]
    end
    return { targets = targets, value = trim(text:sub(from)), changes = changes }
  end
  local called = text:match "^([%a_][%w_.]*)%s*%b()$"
  return called and { called = called, value = text } or {}
end

return statements
