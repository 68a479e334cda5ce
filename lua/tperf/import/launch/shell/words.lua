--- Finds where words of a shell script end: skips quotes, expansions and here-documents without parsing them.
local words = {}

local MAX_DEPTH <const> = 100 -- each level is scanned again for the levels inside

-- The position after the closing quote or bracket of what opens at i; the end of the text if it never closes. depth:
-- the number of enclosing levels.
local skip

local function double_quoted(s, i, depth)
  i = i + 1
  while i <= #s do
    local c = s:sub(i, i)
    if c == '"' then return i + 1 end
    i = (c == "\\" and i + 2) or ((c == "$" or c == "`") and skip(s, i, depth)) or i + 1
  end
  return #s + 1
end

-- From the position after an opening bracket to the position after its closing bracket.
local function bracketed(s, i, opening, closing, around)
  if around > MAX_DEPTH then error({ shell = ("nested more than %d levels deep"):format(MAX_DEPTH) }, 0) end
  local depth = 1
  while i <= #s do
    local c = s:sub(i, i)
    if c == closing then
      depth = depth - 1
      if depth == 0 then return i + 1 end
      i = i + 1
    elseif c == opening then
      depth, i = depth + 1, i + 1
    elseif c == "#" and closing == ")" and s:find("^%s", i - 1) then
      i = s:find("\n", i, true) or #s + 1
    else
      i = skip(s, i, around)
    end
  end
  return #s + 1
end

function skip(s, i, depth)
  depth = (depth or 0) + 1
  local c = s:sub(i, i)
  if c == "\\" then return i + 2 end
  if c == "'" then return (s:find("'", i + 1, true) or #s) + 1 end
  if c == '"' then return double_quoted(s, i, depth) end
  if c == "`" then
    local at = i + 1
    while at <= #s and s:sub(at, at) ~= "`" do at = at + (s:sub(at, at) == "\\" and 2 or 1) end
    return at + 1
  end
  if c == "$" then
    local after = s:sub(i + 1, i + 1)
    if after == "{" then return bracketed(s, i + 2, "{", "}", depth) end
    if after == "(" then return bracketed(s, i + 2, "(", ")", depth) end
    if after == "'" then
      local at = i + 2
      while at <= #s and s:sub(at, at) ~= "'" do at = at + (s:sub(at, at) == "\\" and 2 or 1) end
      return at + 1
    end
  end
  return i + 1
end

words.skip = skip

--- The position after the `)` of an array `(…)` that opens at i.
function words.array_end(s, i) return bracketed(s, i + 1, "(", ")", 0) end

-- "<PATH TO VOCAB>": a placeholder for the user to fill in, not a redirection.
local PLACEHOLDER <const> = "^<%a[%w_ ./:-]*>"
words.placeholder = PLACEHOLDER

--- The position after a word that starts at i; i itself if none does.
function words.word_end(s, i)
  while i <= #s do
    local c = s:sub(i, i)
    if c == "<" and s:find(PLACEHOLDER, i) then
      i = select(2, s:find(PLACEHOLDER, i)) + 1
    elseif c:find "[%s;&|<>()]" then
      if (c == "<" or c == ">") and s:sub(i + 1, i + 1) == "(" then
        i = bracketed(s, i + 2, "(", ")", 0) -- a process's output as a file
      else
        return i
      end
    else
      i = skip(s, i)
    end
  end
  return math.min(i, #s + 1)
end

--- Splits the text inside an array's brackets: "a b [k]=c".
function words.split(s)
  local list, i = {}, 1
  while true do
    i = s:find("%S", i)
    if not i then return list end
    if s:sub(i, i) == "#" then
      i = s:find("\n", i, true) or #s + 1
    elseif s:find("^\\\n", i) then
      i = i + 2
    else
      local stop = words.word_end(s, i)
      if stop == i then stop = i + 1 end
      list[#list + 1] = s:sub(i, stop - 1)
      i = stop
    end
  end
end

return words
