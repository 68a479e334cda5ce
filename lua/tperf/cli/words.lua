--- Completions at the prompt: fields, globals, keywords, and names of models and systems.
local lazy = require "tperf.base.lazy"

local KEYWORDS <const> = { "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if",
  "in", "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while" }

local function field(object, name)
  local ok, value = pcall(function() return object[name] end)
  return ok and value or nil
end

-- Adds the names with a prefix in a table and in the tables its metatable indexes.
local function add_names(list, object, start, prefix)
  for _ = 1, 8 do
    if type(object) ~= "table" then return end
    for name in next, lazy.settle(object) do
      if type(name) == "string" and name:find "^[%a_][%w_]*$" and name:sub(1, #start) == start then
        list[#list + 1] = prefix .. name
      end
    end
    local meta = getmetatable(object)
    object = type(meta) == "table" and rawget(meta, "__index") or nil
  end
end

local function add_starting(list, names, start)
  for _, name in ipairs(names) do
    if name:sub(1, #start) == start then list[#list + 1] = name end
  end
end

local function sorted(list)
  local unique, seen = {}, {}
  for _, name in ipairs(list) do
    if not seen[name] then unique[#unique + 1] = name end
    seen[name] = true
  end
  table.sort(unique)
  return unique
end

--- Returns the function that completes words in an environment: "tperf.se" becomes { "tperf.search", … }.
---@param env table
---@param names string[]  completions inside quotes: models, systems and software profiles
---@return fun(word: string): string[]
return function(env, names)
  return function(word)
    local list = {}
    local path, start = word:match "^(.-)([%w_]*)$"
    if path == "" or path:find "^[%w_.]+[.:]$" then
      local object = env
      for name in path:gmatch "[%w_]+" do object = field(object, name) end
      add_names(list, object, start, path)
      if path == "" then add_starting(list, KEYWORDS, start) end
    end
    if word ~= "" then add_starting(list, names, word) end
    return sorted(list)
  end
end
