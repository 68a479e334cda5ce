-- Places of a source text where a mutant may differ: numbers and comparisons outside comments, strings and directives.
local sites = {}

local PATTERNS <const> = {
  c = { comments = { { "//", "\n" }, { "/*", "*/" } }, directive = true,
    comparisons = { ["<="] = "<", [">="] = ">", ["=="] = "!=", ["!="] = "==", ["<"] = "<=", [">"] = ">=" } },
  lua = { comments = { { "--[[", "]]" }, { "--", "\n" } },
    comparisons = { ["<="] = "<", [">="] = ">", ["=="] = "~=", ["~="] = "==", ["<"] = "<=", [">"] = ">=" } },
}

-- The end of a comment that begins here; nil if none does.
local function comment_end(text, at, kind)
  for _, pair in ipairs(kind.comments) do
    if text:sub(at, at + #pair[1] - 1) == pair[1] then
      local _, last = text:find(pair[2], at + #pair[1], true)
      return last or #text
    end
  end
end

local function string_end(text, at)
  local quote = text:sub(at, at)
  if quote ~= '"' and quote ~= "'" then return nil end
  local i = at + 1
  while i <= #text and text:sub(i, i) ~= quote do i = i + (text:sub(i, i) == "\\" and 2 or 1) end
  return i
end

-- What a number becomes: one of its neighbours, chosen by `pick`.
local function changed(number, pick)
  local value = tonumber((number:gsub("[fFlLuU]+$", "")))
  if not value or number:find "^0[xX]" then return nil end
  local choices = value == 0 and { "1" } or value == 1 and { "2", "0" }
    or { ("(%s * 2)"):format(number), ("(%s + 1)"):format(number), ("(%s / 2)"):format(number) }
  if number:find "^%d+$" and value % 2 == 1 and value > 1 then choices[3] = ("(%s - 1)"):format(number) end
  return choices[pick(#choices)]
end

local function directive_end(text, at)
  if text:sub(at, at) ~= "#" or not text:sub(1, at - 1):find "[\n]%s*$" and at > 1 then return nil end
  return (text:find("\n", at, true))
end

--- All places of a text: { from, to, new }.
---@param text string
---@param language "c"|"lua"
---@param pick fun(n: integer): integer  a random integer from 1 to n
function sites.of(text, language, pick)
  local kind, list, at = PATTERNS[language], {}, 1
  while at <= #text do
    local skipped = comment_end(text, at, kind) or string_end(text, at) or kind.directive and directive_end(text, at)
    local from, to, number = text:find("^(%d[%w.]*)", at)
    local exponent = number and number:find "[eE]$" and text:match("^[+-]%d+", to + 1)
    if exponent then number, to = number .. exponent, to + #exponent end
    local word = text:match("^[%a_][%w_]*", at)
    local two, one = text:sub(at, at + 1), text:sub(at, at)
    if skipped then
      at = skipped + 1
    elseif number then
      local new = changed(number, pick)
      if new then list[#list + 1] = { from = from, to = to, new = new } end
      at = to + 1
    elseif word then
      at = at + #word
    elseif two == "->" or two == "<<" or two == ">>" or two == "<c" then -- also Lua's <const> and <close>
      at = at + 2
    elseif kind.comparisons[two] then
      list[#list + 1] = { from = at, to = at + 1, new = kind.comparisons[two] }
      at = at + 2
    else
      local spaced = text:sub(at - 1, at - 1) == " " and text:sub(at + 1, at + 1) == " "
      if kind.comparisons[one] and spaced then list[#list + 1] = { from = at, to = at, new = kind.comparisons[one] } end
      at = at + 1
    end
  end
  return list
end

return sites
