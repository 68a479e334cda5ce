--- Matches free-form model names to models/: "LLAMA3.1_405B", "DeepSeek V3 671B", "Qwen3_30B_a3B".
local catalogue = require "tperf.base.catalogue"
local memo = require "tperf.base.memo"

local names = {}

-- Words that do not distinguish models: "v" of a version, the kind of the network.
local NOISE = { v = true, moe = true }

-- Runs of letters and of digits, without text in brackets: "llama 3.1 405 b".
local function words_of(text)
  local words = {}
  local bare = text:lower():gsub("%b()", " ")
  for run in bare:gmatch "[%a%d.]+" do
    for letters, digits in run:gmatch "(%a*)([%d.]*)" do
      if digits:find "%d" then letters = letters:gsub("v$", "") end
      if letters ~= "" and not NOISE[letters] then words[#words + 1] = letters end
      if digits:find "%d" then words[#words + 1] = digits end
    end
  end
  return words
end

local function begins(words, with)
  for i, word in ipairs(with) do
    if words[i] ~= word then return false end
  end
  return true
end

local library

-- The models of models/ whose names begin with a word.
local function entries(first)
  if not library then
    library = {}
    for _, name in ipairs(catalogue.list "models") do
      local words = not name:find "/" and words_of(name) or {}
      local list = library[words[1]] or {}
      if words[1] then library[words[1]], list[#list + 1] = list, { name = name, words = words } end
    end
  end
  return library[first] or {}
end

local MOST <const> = 4096
local found = memo.by_text(MOST) -- text -> name, or false

--- The name in models/ of the longest entry that the text begins with ("DeepSeek V3 671B", "deepseekv2-L4"), else of
--- the only one that begins with the text ("Qwen3-235B"); nil if there is none.
---@param text string
---@return string?
function names.model(text)
  return found(text, function()
    local words, best, longer, count = words_of(text), nil, nil, 0
    if #words < 2 then return false end
    for _, entry in ipairs(entries(words[1])) do
      if begins(words, entry.words) and (not best or #entry.words > #best.words) then best = entry end
      if begins(entry.words, words) then longer, count = entry, count + 1 end
    end
    return best and best.name or count == 1 and longer.name or false
  end) or nil
end

return names
