--- Python's regular expressions, as far as lists of modules use them: literals, ., escapes, classes, groups,
-- alternatives, quantifiers, anchors and lookahead. A match is anchored at the start, as re.match is. Its steps are
-- limited, since a pattern may backtrack without end.
local regex = {}

local MOST_BYTES <const>, MOST_STEPS <const> = 1000, 20000

local CLASSES <const> = { d = "%d", D = "%D", w = "[%w_]", W = "[^%w_]", s = "%s", S = "%S" }

-- Every node is a function(subject, at, steps, next) -> whether it and all that follows match from `at` on.
local function one(test)
  return function(s, at, steps, next)
    steps.left = steps.left - 1
    if steps.left < 0 then error(steps, 0) end
    return at <= #s and test(s:sub(at, at)) and next(at + 1)
  end
end

local function sequence(nodes)
  local function from(i, s, at, steps, next)
    if not nodes[i] then return next(at) end
    return nodes[i](s, at, steps, function(after) return from(i + 1, s, after, steps, next) end)
  end
  return function(s, at, steps, next) return from(1, s, at, steps, next) end
end

local function any_of(nodes)
  if not nodes[2] then return nodes[1] end
  return function(s, at, steps, next)
    for _, node in ipairs(nodes) do
      if node(s, at, steps, next) then return true end
    end
    return false
  end
end

local function repeated(node, least, most)
  local function more(n, s, at, steps, next)
    steps.left = steps.left - 1
    if steps.left < 0 then error(steps, 0) end
    if n < most and node(s, at, steps, function(after)
      return (after > at or n < least) and more(n + 1, s, after, steps, next)
    end) then return true end
    return n >= least and next(at)
  end
  return function(s, at, steps, next) return more(0, s, at, steps, next) end
end

local function unsupported(what) error({ unsupported = what }, 0) end

local function escape(p)
  local letter = p.text:sub(p.at, p.at)
  p.at = p.at + 1
  local class = CLASSES[letter]
  if class then return function(char) return char:find("^" .. class) ~= nil end end
  if letter:find "^%w" or letter == "" then unsupported("\\" .. letter) end
  return function(char) return char == letter end
end

local function set(p)
  local negated, tests = p.text:sub(p.at, p.at) == "^", {}
  if negated then p.at = p.at + 1 end
  repeat
    local char = p.text:sub(p.at, p.at)
    if char == "" then unsupported "[" end
    p.at = p.at + 1
    local last = p.text:match("^%-([^%]\\])", p.at)
    if char == "\\" then
      tests[#tests + 1] = escape(p)
    elseif last then
      p.at = p.at + 2
      tests[#tests + 1] = function(c) return c >= char and c <= last end
    else
      tests[#tests + 1] = function(c) return c == char end
    end
  until p.text:sub(p.at, p.at) == "]"
  p.at = p.at + 1
  return function(char)
    for _, test in ipairs(tests) do
      if test(char) then return not negated end
    end
    return negated
  end
end

local alternatives

local function group(p)
  local kind = p.text:match("^%?([:=!])", p.at)
  if kind then p.at = p.at + 2 elseif p.text:sub(p.at, p.at) == "?" then unsupported "(?" end
  local node = alternatives(p)
  if p.text:sub(p.at, p.at) ~= ")" then unsupported "(" end
  p.at = p.at + 1
  if kind ~= "=" and kind ~= "!" then return node end
  return function(s, at, steps, next)
    local found = node(s, at, steps, function() return true end)
    return found == (kind == "=") and next(at)
  end
end

local function atom(p)
  local char = p.text:sub(p.at, p.at)
  p.at = p.at + 1
  if char == "(" then return group(p) end
  if char == "[" then return one(set(p)) end
  if char == "\\" then return one(escape(p)) end
  if char == "." then return one(function() return true end) end
  if char == "^" then return function(_, at, _, next) return at == 1 and next(at) end end
  if char == "$" then return function(s, at, _, next) return at > #s and next(at) end end
  if char:find "[*+?{]" then unsupported(char) end
  return one(function(c) return c == char end)
end

local QUANTIFIERS <const> = { ["*"] = { 0, math.huge }, ["+"] = { 1, math.huge }, ["?"] = { 0, 1 } }

local function quantified(p, node)
  local found = QUANTIFIERS[p.text:sub(p.at, p.at)]
  local least, comma, most = p.text:match("^{(%d+)(,?)(%d*)}", p.at)
  if found then
    p.at = p.at + 1
  elseif least then
    p.at = p.text:find("}", p.at, true) + 1
    found = { tonumber(least), tonumber(most) or comma == "" and tonumber(least) or math.huge }
  else
    return node
  end
  if p.text:find("^[?+]", p.at) then p.at = p.at + 1 end -- which match is found does not matter
  return repeated(node, found[1], found[2])
end

function alternatives(p)
  local nodes, all = {}, {}
  while p.at <= #p.text and p.text:sub(p.at, p.at) ~= ")" do
    if p.text:sub(p.at, p.at) == "|" then
      p.at = p.at + 1
      all[#all + 1], nodes = sequence(nodes), {}
    else
      nodes[#nodes + 1] = quantified(p, atom(p))
    end
  end
  all[#all + 1] = sequence(nodes)
  return any_of(all)
end

--- A function(subject) -> whether an expression matches from the subject's start; nil if the expression has parts that
--- are not known, or, of the function, if the match takes too many steps.
---@param text string
---@return (fun(subject: string): boolean?)?
function regex.compile(text)
  if #text > MOST_BYTES then return nil end
  local p = { text = text, at = 1 }
  local fine, node = pcall(alternatives, p)
  if not fine then
    if type(node) == "table" and node.unsupported then return nil end
    error(node, 0)
  end
  if p.at <= #text then return nil end -- a parenthesis too many
  return function(subject)
    local steps = { left = MOST_STEPS }
    local done, found = pcall(node, subject, 1, steps, function() return true end)
    if done then return found end
    if found == steps then return nil end
    error(found, 0)
  end
end

--- A glob (* ? [ ]) as a regular expression of the whole name.
---@param glob string
---@return string
function regex.of_glob(glob)
  local text = glob:gsub("[%^%$%(%)%.%+%|{}\\]", "\\%0"):gsub("%*", ".*"):gsub("%?", ".")
  return (text:gsub("%[!", "[^"))
end

return regex
