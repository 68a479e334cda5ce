--- Resolves the quotes and expansions in words of a shell script.
local arithmetic = require "tperf.import.launch.shell.arithmetic"
local marker = require "tperf.import.launch.shell.marker"
local pattern = require "tperf.import.launch.shell.pattern"
local words = require "tperf.import.launch.shell.words"

local expand = {}

local MAX_SIZE <const>, MAX_EXPANDED <const> = 1 << 20, 256 << 20 -- bytes of one value, of all values

local function item(value, index)
  if type(value) ~= "table" then return (index == nil or index == 0) and value or nil end
  return value.items[index or 0]
end

local function listed(value)
  if value == nil then return {} end
  if type(value) ~= "table" then return { value } end
  local list = {}
  for _, key in ipairs(value.keys) do list[#list + 1] = value.items[key] end
  return list
end

expand.listed = listed

-- The value of $((…)), or the marker of a missing variable.
local function calculated(sh, text)
  local whole = expand.text(sh, text, true)
  local lacking
  local function lookup(name, depth)
    local value = item(sh.vars[name])
    if value == nil then
      lacking = lacking or marker.of(name)
      return 0
    end
    if marker.is_in(value) then
      lacking = lacking or value
      return 0
    end
    local number = math.tointeger(tonumber((value:gsub("_", ""))))
    if number then return number end
    if not value:find "%S" then return 0 end
    if not value:find "^[%a_][%w_]*$" or (depth or 0) > 8 then
      sh.fail("%s is '%s', which is not an integer", name, value)
    end
    return lookup(value, (depth or 0) + 1)
  end
  if marker.is_in(whole) then return marker.of(marker.names(whole)[1]) end
  local number = arithmetic(whole, lookup, function(name, value) sh:assign(name, tostring(value)) end, function(...)
    if not lacking then sh.fail(...) end
    error({ lacking = true }, 0)
  end)
  return lacking and marker.of(marker.names(lacking)[1]) or tostring(number)
end

function expand.arithmetic(sh, text)
  local ok, value = pcall(calculated, sh, text)
  if ok then return value end
  if type(value) == "table" and value.lacking then return marker.of("$((" .. text .. "))") end
  error(value, 0)
end

-- Applies the operator after the name in ${NAME…}; the value may be nil.
local function operate(sh, name, value, rest)
  local colon, op, word = rest:match "^(:?)([-=+?])(.*)$"
  if op then
    local absent = value == nil or marker.is_unset(value) or colon == ":" and value == ""
    if op == "+" then return absent and "" or expand.text(sh, word) end
    if not absent then return value end
    if op == "?" then return marker.of(name) end
    local other = expand.text(sh, word)
    if op == "=" then sh:assign(name, other) end
    return other
  end
  value = value or marker.of(name)
  if marker.is_in(value) then return value end
  local from, length = rest:match "^:([^:]*):?(.*)$"
  if from then
    local first, count = tonumber(expand.arithmetic(sh, from)), tonumber(expand.arithmetic(sh, length))
    if not first or length ~= "" and not count then return marker.of(name) end
    return value:sub(first < 0 and first or first + 1, length ~= "" and first + count or -1)
  end
  return pattern.change(value, rest, function(text) return expand.text(sh, text) end)
end

-- The value of ${…}: a string, or a list of strings for [@].
local function parameter(sh, inside)
  local length = inside:match "^#([%a_][%w_]*)$"
  if length then return tostring(#(item(sh.vars[length]) or "")) end
  length = inside:match "^#([%a_][%w_]*)%[[@*]%]$"
  if length then return tostring(#listed(sh.vars[length])) end
  local keys = inside:match "^!([%a_][%w_]*)%[[@*]%]$"
  if keys then
    local names = {}
    for i, key in ipairs(type(sh.vars[keys]) == "table" and sh.vars[keys].keys or {}) do names[i] = tostring(key) end
    return names
  end
  local indirect = inside:match "^!([%a_][%w_]*)$"
  if indirect then
    local target = item(sh:get(indirect)) or ""
    return item(sh:get(target)) or marker.of(target)
  end
  local name, rest = inside:match "^([%a_][%w_]*)(.*)$"
  if not name then name, rest = inside:match "^([%d@*#?!$-]+)(.*)$" end
  if not name then sh.fail("'${%s}' is not read", inside) end
  local value, index = sh:get(name), rest:match "^(%b[])"
  if index then
    rest = rest:sub(#index + 1)
    index = index:sub(2, -2)
    if index == "@" or index == "*" then
      local list = listed(value)
      if rest:find "^:?[-+]" then
        return (#list == 0) == (rest:find "^:?%-" ~= nil) and expand.text(sh, (rest:gsub("^:?[-+]", ""))) or list
      end
      list.joined = index == "*"
      return list
    end
    value = item(value, sh:index(value, index))
  elseif name == "@" or name == "*" then
    local list = listed(value)
    list.joined = name == "*"
    return list
  else
    value = item(value)
  end
  if rest == "" then return value or marker.of(index and inside or name) end
  return operate(sh, name, value, rest)
end

-- The expansion that starts at i ("$" or "`"), and the position after it.
local function expansion(sh, s, i)
  local stop = words.skip(s, i)
  local inside = s:sub(i, stop - 1)
  if inside:find "^`" then return sh:output((inside:sub(2, -2):gsub("\\([`$\\])", "%1"))), stop end
  if inside:find "^%$%(%(.*%)%)$" then return expand.arithmetic(sh, inside:sub(4, -3)), stop end
  if inside:find "^%$%(" then return sh:output(inside:sub(3, -2)), stop end
  if inside:find "^%${" then return parameter(sh, inside:sub(3, -2)), stop end
  if inside:find "^%$'" then
    local escapes = { n = "\n", t = "\t", ["\\"] = "\\", ["'"] = "'" }
    return (inside:sub(3, -2):gsub("\\(.)", function(c) return escapes[c] or "\\" .. c end)), stop
  end
  local name = s:match("^%$([%a_][%w_]*)", i) or s:match("^%$([%d@*#?!$-])", i)
  if not name then return "$", i + 1 end
  return parameter(sh, name), i + 1 + #name
end

-- Collects the fields of a word.
local function collector()
  local fields, part, open = {}, {}, false
  local c = { fields = fields }
  function c.add(text)
    part[#part + 1], open = text, true
  end
  function c.close()
    if open then fields[#fields + 1] = table.concat(part) end
    part, open = {}, false
  end
  function c.split(text)
    if text:find "^%s" then c.close() end
    local first = true
    for one in text:gmatch "%S+" do
      if not first then c.close() end
      c.add(one)
      first = false
    end
    if text:find "%s$" and text:find "%S" then c.close() end
  end
  return c
end

local function add_expansion(c, value, quoted, whole)
  if type(value) == "string" then
    if quoted then c.add(value) else c.split(value) end
    return
  end
  if whole or quoted and value.joined then return c.add(table.concat(value, " ")) end -- "${A[*]}" is one word
  for i, one in ipairs(value) do
    if i > 1 then c.close() end
    if quoted then c.add(one) else c.split(one) end
  end
end

local function double_quoted(sh, s, c, whole)
  local i, empty = 1, true
  while i <= #s do
    local at = s:find("[\\$`]", i) or #s + 1
    if at > i then c.add(s:sub(i, at - 1)) end
    i = at
    local one = s:sub(i, i)
    if one == "\\" then
      local after = s:sub(i + 1, i + 1)
      c.add(after == "\n" and "" or after:find '[$`"\\]' and after or "\\" .. after)
      i = i + 2
    elseif one ~= "" then
      local value
      value, i = expansion(sh, s, i)
      add_expansion(c, value, true, whole)
      empty = type(value) == "table" and #value == 0
    end
  end
  if s == "" or not empty then c.add "" end
end

local function collect(sh, s, whole)
  local c, i = collector(), 1
  while i <= #s do
    local at = s:find("[\\$`'\"]", i) or #s + 1
    if at > i then c.add(s:sub(i, at - 1)) end
    i = at
    local one = s:sub(i, i)
    if one == "\\" then
      local after = s:sub(i + 1, i + 1)
      c.add(after == "\n" and "" or after)
      i = i + 2
    elseif one == "'" or one == '"' then
      local stop = words.skip(s, i)
      local inside = s:sub(i + 1, stop - 2)
      if one == "'" then c.add(inside) else double_quoted(sh, inside, c, whole) end
      i = stop
    elseif one ~= "" then
      local value
      value, i = expansion(sh, s, i)
      add_expansion(c, value, whole, whole)
    end
  end
  c.close()
  return c.fields
end

local function bounded(sh, text)
  if #text > MAX_SIZE then sh.fail("a value of more than %d bytes", MAX_SIZE) end
  sh.expanded = sh.expanded + #text
  if sh.expanded > MAX_EXPANDED then sh.fail("values of more than %d bytes together", MAX_EXPANDED) end
  return text
end

--- The fields into which a word expands.
---@return string[]
function expand.fields(sh, word)
  local list = collect(sh, word, false)
  for _, one in ipairs(list) do bounded(sh, one) end
  return list
end

--- The word as one string, not split. With `document`, as in a here-document: quotes are literal.
function expand.text(sh, word, document)
  if not word:find "[\\$`'\"]" then return word end
  if document then
    local c = collector()
    double_quoted(sh, word, c, true)
    c.close()
    return bounded(sh, c.fields[1] or "")
  end
  return bounded(sh, table.concat(collect(sh, word, true)))
end

return expand
