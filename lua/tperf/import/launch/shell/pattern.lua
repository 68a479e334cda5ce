--- Shell patterns (*, ?, [a-z]), and the ${NAME…} operators that use them.
local pattern = {}

--- Converts a shell pattern to an unanchored Lua pattern.
function pattern.of(glob, shortest)
  local out, i = {}, 1
  while i <= #glob do
    local c = glob:sub(i, i)
    local set = c == "[" and glob:match("^%[[!^]?%]?[^%]]*%]", i)
    if set then
      out[#out + 1] = "[" .. set:sub(2, -2):gsub("^!", "^"):gsub("%%", "%%%%") .. "]"
      i = i + #set
    elseif c == "*" then
      out[#out + 1], i = shortest and ".-" or ".*", i + 1
    elseif c == "?" then
      out[#out + 1], i = ".", i + 1
    else
      if c == "\\" then i, c = i + 1, glob:sub(i + 1, i + 1) end
      out[#out + 1], i = c:gsub("%W", "%%%0"), i + 1
    end
  end
  return table.concat(out)
end

local LONGEST <const>, STARS <const> = 4096, 8

-- Limits the time of matching, which grows steeply with the text's length and the number of stars.
local function bounded(text, glob)
  if #text > LONGEST or select(2, glob:gsub("%*", "")) > STARS then
    error({ shell = ("a pattern of more than %d stars, or a text of more than %d bytes"):format(STARS, LONGEST) }, 0)
  end
end

--- Whether a whole text matches a pattern.
function pattern.matches(text, glob)
  bounded(text, glob)
  return text:find("^" .. pattern.of(glob) .. "$") ~= nil
end

-- The text without its longest or shortest matching suffix.
local function without_end(text, glob, longest)
  local fits = "^" .. pattern.of(glob) .. "$"
  local first, last, step = #text + 1, 1, -1
  if longest then first, last, step = 1, #text + 1, 1 end
  for at = first, last, step do
    if text:sub(at):find(fits) then return text:sub(1, at - 1) end
  end
  return text
end

--- Applies ${NAME%pattern}, ${NAME#pattern}, ${NAME/pattern/new}, ${NAME^^} or ${NAME,,} to a value.
---@param value string
---@param rest string  what follows the name
---@param text fun(word: string): string  expands a word
function pattern.change(value, rest, text)
  bounded(value, rest)
  local op, glob = rest:match "^([#%%]+)(.*)$"
  if op == "#" or op == "##" then
    return (value:gsub("^" .. pattern.of(text(glob), op == "#"), "", 1))
  elseif op == "%" or op == "%%" then
    return without_end(value, text(glob), op == "%%")
  end
  local all, old, new = rest:match "^/(/?)([^/]+)/?(.*)$"
  if old then
    local replacement = text(new):gsub("%%", "%%%%")
    return (value:gsub(pattern.of(text(old)), replacement, all == "" and 1 or nil))
  end
  if rest == "^^" then return value:upper() end
  if rest == ",," then return value:lower() end
  if rest == "^" then return (value:gsub("^.", string.upper)) end
  if rest == "," then return (value:gsub("^.", string.lower)) end
  return value
end

return pattern
